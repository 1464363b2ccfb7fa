"""Make pictures of the docs: a run's report in short, and the six phases of the story.

    python -m scripts.make_images [report] [story]

Makes docs/images/report.png, which needs a chromium browser, and story-1.png to story-6.png, the
figures of examples/six_phases.py. Takes about half a minute on two idle cores.
"""

from __future__ import annotations

import runpy
import sys
import tempfile
from pathlib import Path

import matplotlib
import matplotlib.pyplot as plt
import numpy as np
from PIL import Image

import gradine
from gradine.report import report_html
from scripts.chromium import found, opened

ROOT = Path(__file__).parent.parent
IMAGES = ROOT / "docs" / "images"
TARGET = IMAGES / "report.png"
STORY_DPI = 110
WIDTH, SCALE = 1160, 1.5

# The report itself, cut down to what tells the story at a glance. Seconds are left out: they
# belong to the machine that made the picture.
SHORT = """
body { max-width: none; padding: 0.8rem; }
main { display: grid; grid-template-columns: 1fr 1fr; gap: 0.8rem; }
section { margin: 0; }
#verdict, #answer { grid-column: 1 / 3; }
header, nav, .bar, .readout, .numbers, #phases, #body, #polish, #attention, #known, #certificate,
#again, #ledger, section > p, .panel:has(> .wide), #hull .panel + .panel,
#hull dl, .way, #verdict dl div:nth-child(4) { display: none !important; }
#verdict > p { display: block !important; max-width: none; }
#verdict h2 { font-size: 1.4rem; }
#heads { display: grid; grid-template-columns: repeat(3, 1fr); gap: 0.2rem 2rem; }
#heads h2 { grid-column: 1 / 4; }
#heads .head { border: 0; margin: 0; }
#heads h3 { margin: 0; }
#heads .panels { grid-template-columns: 1fr; gap: 0.4rem; margin: 0; }
.plot { max-width: none; }
"""


def photograph(page: Path, picture: Path) -> None:
    program = found()
    if program is None:
        sys.exit("make_images: no chromium browser found")
    with opened(program) as browser:
        shown = browser.page(page, WIDTH, 2000, prefers_color_scheme="light")
        shown.photograph(picture, SCALE)


def trimmed(image: Image.Image) -> Image.Image:
    """Without the empty page below the last section; few colours, as the file should be small."""
    pixels = np.asarray(image.convert("RGB"))
    used = np.flatnonzero((pixels != pixels[-1, -1]).any(axis=(1, 2)))
    height = min(int(used[-1] + 0.8 * 16 * SCALE), image.height)
    whole = image.convert("RGB").crop((0, 0, image.width, height))
    return whole.quantize(255, method=Image.Quantize.MEDIANCUT, dither=Image.Dither.NONE)


def story() -> None:
    """The figures of the example, in their order."""
    matplotlib.use("agg")
    runpy.run_path(str(ROOT / "examples" / "six_phases.py"))
    for number in plt.get_fignums():
        target = IMAGES / f"story-{number}.png"
        plt.figure(number).savefig(target, dpi=STORY_DPI)
        print(f"{target.name}: {target.stat().st_size // 1000} KB")


def report() -> None:
    truth = gradine.plant(heads=3, dim=12, scale=4.0, seed=1)
    X = gradine.sample_inputs(150_000, seq_len=3, dim=12, seed=2)
    fit = gradine.learn(X, truth(X), method="sculpt")
    print(fit.reason)
    html = report_html(fit, truth=truth).replace("</style>", f"{SHORT}</style>")
    with tempfile.TemporaryDirectory() as folder:
        page, picture = Path(folder, "short.html"), Path(folder, "short.png")
        page.write_text(html, encoding="utf-8")
        photograph(page, picture)
        TARGET.parent.mkdir(parents=True, exist_ok=True)
        trimmed(Image.open(picture)).save(TARGET, optimize=True)
    print(f"{TARGET.name}: {TARGET.stat().st_size // 1000} KB")


if __name__ == "__main__":
    pictures = {"report": report, "story": story}
    for name in sys.argv[1:] or pictures:
        pictures[name]()
