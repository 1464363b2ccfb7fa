"""How Sphinx makes the site: `make docs`.

The source folder is the root of the repository, so that a link from a page to the README or to a
result of a benchmark is the same on the site as where the files are read as they are.
"""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

from docutils import nodes
from docutils.utils.math import MathError
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.addnodes import pending_xref
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.util import logging
from sphinx.writers.html5 import HTML5Translator
from sphinx_gallery.sorting import ExplicitOrder

ROOT = Path(__file__).parent.parent
sys.path[:0] = [str(ROOT / "src"), str(ROOT / "docs")]

import gradine  # noqa: E402

project = "Gradine"
author = "Gradine developers"
release = version = gradine.__version__
copyright = author

root_doc = "docs/index"
include_patterns = ["README.md", "CHANGELOG.md", "docs/**", "benchmarks/results/*.md"]
# Looked through, if it were not said that there is nothing to be found.
exclude_patterns = [".*", "src", "tests", "scripts", "examples", "build", "docs/_*", "run", "dist"]
extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx_gallery.gen_gallery",
]

myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 4

# Docstrings are prose with names in single backticks, and examples that the tests run.
default_role = "py:obj"
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_default_options = {
    "members": True,
    "inherited-members": "BaseEstimator,RegressorMixin,_MetadataRequester,Enum,ABC",
    "exclude-members": "set_fit_request,set_predict_request,set_score_request",
}
autosummary_generate = True
templates_path = [str(ROOT / "docs" / "_templates")]
# Names of others have their own sites; ours that are not public need not have a page.
nitpick_ignore_regex = [(r"py:.*", r"(?!gradine).*"), (r"py:.*", r"gradine\.\w+\.\w[\w.]*")]

html_theme = "furo"
html_title = f"Gradine {release}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_extra_path = ["_root"]
html_show_sphinx = False
html_show_copyright = False
html_copy_source = False
html_math_renderer = "mathml"

WHOLE_GALLERY = "GRADINE_WHOLE_GALLERY" in os.environ
sphinx_gallery_conf = {
    "examples_dirs": "examples",
    "gallery_dirs": "docs/gallery",
    # Real layers take half a minute and a package with their weights: `make gallery` runs them too.
    "filename_pattern": "/" if WHOLE_GALLERY else r"/(?!real_layer)[^/]*$",
    "run_stale_examples": WHOLE_GALLERY,
    "within_subsection_order": ExplicitOrder(
        [
            "recover_heads.py",
            "six_phases.py",
            "held_out.py",
            "noise.py",
            "black_box.py",
            "real_layer.py",
            "hidden_parity.py",
            "random_features.py",
            "*",
        ]
    ),
    "download_all_examples": False,
    "default_thumb_file": str(ROOT / "docs" / "images" / "report.png"),
    "write_computation_times": False,  # seconds belong to a machine
    "min_reported_time": 1e9,
    "only_warn_on_example_error": True,  # and warnings are errors: all are seen in one build
}


def navigation(app: Sphinx, docname: str, source: list[str]) -> None:
    """The map on the front page is the navigation of the site: a part for each of its sections."""
    source[0] = source[0].replace("../examples/GALLERY_HEADER.rst", "gallery/index.rst")
    if docname != root_doc:
        return
    sections = re.findall(r"^### (.+?)$(.*?)(?=^##)", source[0], re.MULTILINE | re.DOTALL)
    for title, table in sections:
        pages = re.findall(r"^\| \[[^]]+\]\(([^)]+)\)", table, re.MULTILINE)
        entries = "\n".join(page.rpartition(".")[0] for page in pages)
        source[0] += f"\n```{{toctree}}\n:hidden:\n:caption: {title}\n\n{entries}\n```\n"


#: An accented letter with an index: not in a group of its own, the index would end up below it.
ACCENTED = re.compile(r"(\\(?:hat|tilde|bar)\s*(?:\{[^{}]*\}|\\[A-Za-z]+|\w))(?=\s*[_^])")


def formula(self: HTML5Translator, node: nodes.math | nodes.math_block) -> None:
    """As MathML, which browsers draw themselves: no script, no font, nothing to fetch."""
    block = isinstance(node, nodes.math_block)
    try:
        drawn = tex2mathml(ACCENTED.sub(r"{\1{}}", node.astext()), as_block=block)
    except MathError as error:
        logging.getLogger(__name__).warning("%s: %s", node.astext(), error, location=node)
        drawn = self.encode(node.astext())
    self.body.append(f'<div class="math">{drawn}</div>' if block else drawn)
    raise nodes.SkipNode


#: Types are known by the module that they are defined in, and documented by their public names.
PUBLIC = {f"{home}.{name}": f"gradine.{name}" for name, home in gradine._HOME.items()}


def public_name(
    app: Sphinx, env: BuildEnvironment, node: pending_xref, content: nodes.TextElement
) -> nodes.Node | None:
    """What a name leads to; words in single backticks that are no public name stay words."""
    target = str(node["reftarget"])
    target = PUBLIC.get(target, f"gradine.{target}")
    domain = env.get_domain("py")
    found = domain.resolve_xref(env, node["refdoc"], app.builder, "obj", target, node, content)
    return content if found is None and node["reftype"] == "obj" else found


def setup(app: Sphinx) -> None:
    app.add_html_math_renderer("mathml", (formula, None), (formula, None))
    app.connect("source-read", navigation)
    app.connect("missing-reference", public_name)
