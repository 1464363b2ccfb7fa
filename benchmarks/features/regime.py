"""How much the identity mean can help: by dimension, examples and spread of the matrices.

Infinitely many heads and one key, so that nothing but examples is scarce; then many heads.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import Any

from benchmarks.store import Store
from benchmarks.text import markdown, short
from gradine.features import experiments
from gradine.features.experiments import Setting
from gradine.features.experiments import measure as measure_unit

__all__ = ["MEASURED_BY", "TITLE", "measure", "page"]

TITLE = "Where the identity mean helps most"
MEASURED_BY = ("features/regime.py",)
ANY_BUILD = True
TARGETS = ("p=1", "p=2", "p=3")
ASKED = 10.0  # ratio that the theory makes one look for
TESTING = 2000
#: Of BRFA with so many examples, to save time: with more, its errors could only fall.
SMALL_ALPHAS, MANY = (1e-4, 1e-3, 1e-2), 2**15
#: Dimension, keys, heads (None: infinitely many), examples, spreads of the random matrices.
Regime = tuple[int, int, int | None, tuple[int, ...], tuple[float, ...]]
REGIMES: tuple[Regime, ...] = (
    (32, 1, None, (2**12, 2**13, 2**14), (0.5, 0.35, 0.25)),
    (64, 1, None, (2**15,), (0.35, 0.25)),
    (16, 1, None, (2**12, 2**13), (0.5, 0.25)),
    (32, 1, 2000, (2**12, 2**13), (0.35,)),
)


def measure(store: Store, quick: bool) -> dict[str, Any]:
    rows = []
    for dim, keys, heads, sizes, spreads in REGIMES[:1] if quick else REGIMES:
        sizes = (2**6, 2**7) if quick else sizes
        setting = replace(
            experiments.FULL, dim=dim, n_keys=keys, n_heads=heads, sizes=sizes, testing=TESTING
        )
        # RFA does not depend on the spread of its matrices: relu is homogeneous.
        plain = _errors(store, "RFA", setting)
        for spread in spreads:
            alphas = SMALL_ALPHAS if max(sizes) >= MANY else setting.alphas
            biased = _errors(store, "BRFA", replace(setting, scale=spread, alphas=alphas))
            for i, n in enumerate(sizes):
                errors = {p: [plain[p][i], biased[p][i]] for p in TARGETS}
                rows.append(
                    {"dim": dim, "keys": keys, "heads": heads, "n": n, "spread": spread} | errors
                )
    return {"rows": rows}


def _errors(store: Store, model: str, setting: Setting) -> dict[str, list[float]]:
    def work() -> dict[str, Any]:
        unit = measure_unit("targets", model, 0, setting, ["correlation"])
        return {"errors": {k.split("/")[1]: c.errors for k, c in unit.curves.items()}}

    sizes = (setting.dim, setting.n_keys, setting.n_heads, max(setting.sizes), setting.scale)
    entry = store.once(work, model, *sizes)
    print(f"regime {model} {sizes}: {entry['errors']}", file=sys.stderr, flush=True)
    return entry["errors"]


def page(content: dict[str, Any]) -> str:
    lines, best = [], max(content["rows"], key=lambda row: max(_ratios(row)))
    for row in content["rows"]:
        heads = "infinitely many" if row["heads"] is None else f"{row['heads']:,}"
        sizes = [str(row["dim"]), str(row["keys"]), heads, f"{row['n']:,}", f"{row['spread']:g}"]
        lines.append(sizes + [f"{a:.3f} / {b:.3f} = {short(a / b)}" for a, b in _pairs(row)])
    header = ["d", "keys", "heads", "n", "spread", "RFA / BRFA, p = 1", "p = 2", "p = 3"]
    most = max(_ratios(best))
    verdict = "holds" if most >= ASKED else "MISSED"
    return (
        "Test error over variance of <x_0, x_i>^p <beta, x_i>, RFA over BRFA, one seed. The "
        f"largest ratio is {short(most)}, at d = {best['dim']} and n = {best['n']:,} (asked: "
        f"{ASKED:g}, {verdict}).\n\n{markdown(header, lines)}"
    )


def _pairs(row: dict[str, Any]) -> list[list[float]]:
    return [row[p] for p in TARGETS]


def _ratios(row: dict[str, Any]) -> list[float]:
    return [plain / biased for plain, biased in _pairs(row)]
