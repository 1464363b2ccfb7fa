"""The run folder: what a run leaves behind, and how an earlier run is kept from being lost."""

from __future__ import annotations

import os
import platform
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from importlib import metadata
from pathlib import Path
from typing import Any

from gradine.engine import BOOKMARK_PATTERN, BOOKMARKS
from gradine.files import OutputError, check_replaceable, finite, read_json, write_json
from gradine.learn import Fit
from gradine.lock import only_run
from gradine.phases import RECORD_PATTERN, RECORDS
from gradine.progress import Listener
from gradine.queries.asking.log import AnswerLog
from gradine.query import ANSWERS as LOG

__all__ = [
    "LAYER",
    "REPORT",
    "RESULT",
    "ClearsEarlierRun",
    "check_free",
    "check_inputs_outside",
    "check_own",
    "clear_run",
    "output_folder",
    "read_result",
    "write_run",
]

LAYER = "layer.safetensors"
RESULT = "result.json"
REPORT = "report.html"
ANSWERS = (LAYER, RESULT, REPORT)

#: What result.json says of where a command's examples or answers came from.
SOURCES = {"learn": "data", "query": "oracle"}

FORMAT_VERSION = 1
PROBE = ".probe"  # how the name of a file begins that shows whether a folder can be written to
LIBRARIES = ("numpy", "scipy", "piqp")  # those whose versions can change the numbers

PathLike = str | os.PathLike[str]


def write_run(folder: PathLike, fit: Fit, extra: dict[str, Any]) -> dict[str, Any]:
    """Write result.json, and layer.safetensors if it was learned; return what result.json holds."""
    from gradine import __version__

    versions = {"gradine": __version__, "python": platform.python_version()}
    versions |= {name: metadata.version(name) for name in LIBRARIES}
    result = finite(
        {"format_version": FORMAT_VERSION, **fit.to_dict(), "versions": versions, **extra}
    )
    # The layer first: a folder with "learned" in its result.json always holds it.
    if fit.layer is not None:
        fit.layer.save(Path(folder) / LAYER)
    else:
        (Path(folder) / LAYER).unlink(missing_ok=True)
    write_json(Path(folder) / RESULT, result)
    return result


def read_result(folder: PathLike) -> dict[str, Any]:
    """What result.json of a run folder holds; ``ValueError`` if it is not ours or damaged."""
    path = Path(folder) / RESULT
    result = read_json(path)
    version = result.get("format_version")
    if version != FORMAT_VERSION:
        raise ValueError(f"{path}: format version {version!r}; expected {FORMAT_VERSION}")
    return result


def check_free(folder: PathLike, command: str, resume: bool, overwrite: bool) -> None:
    """Refuse a folder that holds a run already, unless it was said what to do with it.

    ``command`` is ``learn`` or ``query``: a run of the other one cannot be continued.
    """
    if resume and overwrite:
        raise ValueError("--resume and --overwrite were both given; expected at most one of them")
    target = Path(folder)
    result = _result_of_a_run(target / RESULT)
    held = result is not None or bool(_records(target) or AnswerLog.held(target / LOG))
    if held and not overwrite:
        others = _commands(target, result or {}) - {command}
        if others:
            raise ValueError(
                f"{folder}: holds a run of gradine {others.pop()}; "
                "choose another folder or replace it with --overwrite"
            )
        if not resume:
            raise ValueError(
                f"{folder}: holds an earlier run; "
                "continue it with --resume or replace it with --overwrite"
            )
    # A layer may be the planted one, and a report somebody else's.
    check_own(target, ANSWERS, held, overwrite)


def _commands(folder: Path, result: dict[str, Any]) -> set[str]:
    """Those that left what the folder holds."""
    learned = SOURCES["learn"] in result or bool(_records(folder))
    asked = SOURCES["query"] in result or AnswerLog.held(folder / LOG)
    return {name for name, left in (("learn", learned), ("query", asked)) if left}


def check_own(folder: Path, names: Iterable[str], own: bool, overwrite: bool) -> None:
    """Refuse to replace files that somebody else put there, unless it was said to; ``own`` is
    whether the folder holds what only a run leaves.

    >>> check_own(Path("no such folder"), ["results.json"], own=False, overwrite=False)
    """
    for name in names:
        if os.path.lexists(folder / name) and not own and not overwrite:
            raise ValueError(
                f"{folder}: holds a {name} that no run wrote; "
                "choose another folder or replace it with --overwrite"
            )
        check_replaceable(folder / name)


def check_inputs_outside(folder: PathLike, inputs: Iterable[PathLike | None]) -> None:
    """Refuse inputs in the place of the run's own files, which it would take away.

    >>> check_inputs_outside("run", ["data.npz", None])
    """
    names = [*ANSWERS, RECORDS, BOOKMARKS, LOG]
    lost = [Path(os.path.realpath(folder), name) for name in names]
    for given in inputs:
        if given is None or not os.path.lexists(given):  # module:function, or an address
            continue
        parent, name = os.path.split(os.path.abspath(given))
        # By its name, which would be gone, and by what that leads to.
        paths = (Path(os.path.realpath(parent), name), Path(os.path.realpath(given)))
        if any(path.is_relative_to(place) for path in paths for place in lost):
            raise ValueError(
                f"{given}: is read, and lies where the run in {folder} writes; choose another --out"
            )


def _result_of_a_run(path: Path) -> dict[str, Any] | None:
    """What a run wrote there, of whatever version; None if there is nothing of the kind."""
    try:
        result = read_json(path)
    except (ValueError, OSError):
        return None
    return result if "format_version" in result else None


def clear_run(folder: PathLike, *, keep_records: bool = False) -> None:
    """Remove the files of a run, and nothing else that is in the folder."""
    target = Path(folder)
    stale = [target / name for name in ANSWERS]
    for path in stale if keep_records else [*stale, *_records(target)]:
        path.unlink(missing_ok=True)
    if not keep_records:
        AnswerLog.clear(target / LOG)


@contextmanager
def output_folder(folder: PathLike) -> Iterator[Path]:
    """Make the folder, sure to be writable, and hold it: two runs would spoil each other's files.
    Take it away again if nothing came to be in it.

    A run may take hours: that its answer cannot be written must show before, not after.
    """
    target = Path(folder)
    if os.path.lexists(target) and not target.is_dir():
        raise OutputError(f"cannot write {target}: is no folder")
    inside = (target / RECORDS, target / BOOKMARKS, target / LOG)
    for path in inside:  # what a link leads to is not ours to write into, or to clear
        if path.is_symlink():
            raise ValueError(f"{path}: is a link; expected a folder of the run")
    made = [path for path in (*inside, target, *target.parents) if not path.exists()]
    try:
        try:
            target.mkdir(parents=True, exist_ok=True)
            with tempfile.NamedTemporaryFile(dir=target, prefix=PROBE):
                pass
        except OSError as error:
            raise OutputError(f"cannot write {target}: {error.strerror or error}") from error
        with only_run(target):
            yield target
    finally:
        for path in made:  # from the inside out; a folder that is not empty stays
            with suppress(OSError):
                path.rmdir()


class ClearsEarlierRun(Listener):
    """Passes everything on to ``listener``, and clears the folder once a new run is sure to begin.

    Until then the examples may still be refused, and the earlier run must not be lost to that;
    from then on a stale answer must not be mistaken for one of the new run.
    """

    def __init__(self, folder: PathLike, resume: bool, listener: Listener) -> None:
        self._folder = Path(folder)
        self._listener = listener
        self._resume = resume
        self._begun = False

    def phase_started(self, name: str, total: int) -> None:
        if name != "survey" and not (self._resume and _records(self._folder)):
            self._clear()
        self._listener.phase_started(name, total)

    def examples_seen(self, seen: int) -> None:
        self._listener.examples_seen(seen)

    def hits_kept(self, kept: int) -> None:
        self._listener.hits_kept(kept)

    def fit_went_on(self, residual: float, theta: Callable[[], Any]) -> None:
        self._listener.fit_went_on(residual, theta)

    def phase_ended(self, name: str, figures: dict[str, Any], recalled: bool) -> None:
        # When resuming, the first record read back shows that it is a run of the same data.
        if name != "survey":
            self._clear()
        self._listener.phase_ended(name, figures, recalled)

    def _clear(self) -> None:
        if self._begun:
            return
        self._begun = True
        clear_run(self._folder, keep_records=self._resume)


def _records(folder: Path) -> list[Path]:
    """What a run leaves on its way: results of phases, and passes that it was in the middle of."""
    return [
        *sorted((folder / RECORDS).glob(RECORD_PATTERN)),
        *sorted((folder / BOOKMARKS).glob(BOOKMARK_PATTERN)),
    ]
