"""List the licences of all packages that an installation of Gradine brings along.

    python scripts/licences.py

It writes docs/licences.md from the metadata of the installed packages: those that pyproject.toml
names, and what they need in turn. Tools of development are not listed: no user gets them.
"""

from __future__ import annotations

import sys
import tomllib
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "licences.md"
DEVELOPMENT = {"test", "bench", "docs"}
SHORT = 60  # characters; a longer field holds the text of the licence, not its name
OSI = "License :: OSI Approved :: "
HEAD = """# Licences of dependencies

Gradine is under the [MIT licence](../LICENSE). Its wheel holds nothing of others; pip installs
what it needs beside it. `python scripts/licences.py` writes this page from the metadata of the
installed packages.
"""


def main() -> int:
    PAGE.write_text(page(), encoding="utf-8")
    print(f"written: {PAGE.relative_to(ROOT)}")
    return 0


def page() -> str:
    """The page: a table of what is always there, and one for each extra."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    always = closure(project["dependencies"])
    parts = [HEAD, table("Always installed", always)]
    for extra, requirements in sorted(project["optional-dependencies"].items()):
        if extra not in DEVELOPMENT:
            more = {name: why for name, why in closure(requirements).items() if name not in always}
            parts.append(table(f"With the extra `{extra}`", more))
    return "\n".join(parts)


def closure(requirements: list[str]) -> dict[str, str]:
    """All packages that these need on this system, each with the one that asks for it first."""
    found: dict[str, str] = {}
    waiting = [(Requirement(text), "Gradine") for text in requirements]
    while waiting:
        requirement, asked_by = waiting.pop(0)
        name = canonicalize_name(requirement.name)
        if name not in found:
            found[name] = asked_by
            for text in metadata.requires(name) or []:
                inner = Requirement(text)
                extras = requirement.extras or {""}
                marker = inner.marker
                if marker is None or any(marker.evaluate({"extra": extra}) for extra in extras):
                    waiting.append((inner, name))
    return found


def table(title: str, packages: dict[str, str]) -> str:
    rows = [f"| {name} | {licence(name)} | {packages[name]} |" for name in sorted(packages)]
    return "\n".join(
        [f"## {title}\n", "| package | licence | needed by |", "|---|---|---|", *rows, ""]
    )


def licence(name: str) -> str:
    """What the metadata of a package calls its licence, in the newest field that has it."""
    about = metadata.metadata(name)
    classified = [
        text.removeprefix(OSI) for text in about.get_all("Classifier") or [] if text.startswith(OSI)
    ]
    written = (about.get("License") or "").strip().splitlines()
    if expression := about.get("License-Expression"):
        return expression
    if classified:
        return ", ".join(classified)
    if written and len(written[0]) <= SHORT:
        return written[0].strip()
    raise SystemExit(f"{name}: its metadata name no licence; look it up and say so here")


if __name__ == "__main__":
    sys.exit(main())
