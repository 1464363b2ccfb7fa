"""One batch of inputs in a process of its own, which may crash, hang or run out of memory."""

from __future__ import annotations

import contextlib
import io
import json
import os
import resource
import shutil
import signal
import sys
import tempfile
import traceback
import warnings
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

from benchmarks.fuzz.commands import COMMAND, the_commands
from benchmarks.fuzz.corpus import Corpus, tree
from benchmarks.fuzz.files import FAMILIES, Case, Family
from benchmarks.fuzz.learning import LEARNING
from benchmarks.fuzz.mutate import Payload
from gradine import cli
from gradine.lock import LOCK
from gradine.refusals import is_refusal
from gradine.runs import PROBE

__all__ = ["ALL", "batch", "one_input"]

ALL: dict[str, tuple[int, Family]] = {**FAMILIES, **COMMAND, **LEARNING}
MARGIN = 2**30  # bytes that a process may take beyond what it has when it begins
PATIENCE = 60  # seconds of processor time for one input
CODES = (0, 2, 3)
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
#: What Python tells of itself where code is run, or a process or a connection is begun.
RUNS_CODE = {
    *("pickle.find_class", "os.system", "os.exec", "os.posix_spawn", "os.fork", "os.spawn"),
    *("subprocess.Popen", "socket.connect", "socket.bind"),
}
CHANGES = {"os.remove", "os.rename", "os.rmdir", "os.truncate", "os.mkdir", "os.symlink", "os.link"}


class Watch:
    """Hears what Python does, and writes down what it should not."""

    def __init__(self) -> None:
        self.inside, self.heard = "", ""
        sys.addaudithook(self)

    def __call__(self, event: str, arguments: tuple[Any, ...]) -> None:
        if not self.inside:
            return
        if event in RUNS_CODE:
            self.heard = self.heard or f"{event} {arguments!r:.200}"
        elif event == "open":
            path, _, flags = arguments
            if isinstance(path, str | bytes | Path) and (flags or 0) & WRITING:
                self._changed(event, path)
        elif event in CHANGES:
            for path in arguments[: 2 if event == "os.rename" else 1]:
                self._changed(event, path)

    def _changed(self, event: str, path: Any) -> None:
        if isinstance(path, int):  # of a file that was opened before
            return
        where = os.path.abspath(os.fsdecode(path))
        allowed = (self.inside, str(tempfile.tempdir), "/dev/null")
        # A folder that is named as --out is probed and held before it is looked into. What would
        # be left of that is found at the end, among the sound files.
        held = event in ("open", "os.remove") and (
            os.path.isdir(where) or os.path.basename(where).startswith((LOCK, PROBE))
        )
        in_vain = {"os.mkdir": True, "os.rmdir": False}.get(event) == os.path.isdir(where)
        if not (where.startswith(allowed) or held or in_vain):
            self.heard = self.heard or f"{event} of {where}, outside of the folder"


def one_input(seed: int, index: int, corpus: Corpus, folder: Path) -> tuple[str, Case]:
    """The family and the input of that number; the same for the same seed."""
    rng = Random(f"{seed} {index}")
    names, weights = list(ALL), [weight for weight, _ in ALL.values()]
    family = rng.choices(names, weights)[0]
    return family, ALL[family][1](rng, corpus, folder)


def batch(seed: int, start: int, stop: int, corpus: Corpus, progress: int, whole: Any) -> None:
    """Inputs start:stop; the number of each goes to ``progress`` before it is tried, and what came
    of all to ``whole``."""
    limits()
    watch, counts, findings = Watch(), Counter(), []
    before = resource.getrusage(resource.RUSAGE_SELF)
    sound = tree(corpus.data.parent)
    home = Path(tempfile.mkdtemp(prefix="gradine-fuzz-"))
    os.environ["TMPDIR"] = os.environ["MPLCONFIGDIR"] = tempfile.tempdir = str(home)
    for index in range(start, stop):
        os.pwrite(progress, f"{index:12d}".encode(), 0)
        family, outcome, finding = tried(seed, index, corpus, home / str(index), watch)
        counts[f"{family}/{outcome}"] += 1
        if finding:
            findings.append({"index": index, "family": family, "finding": finding})
    if tree(corpus.data.parent) != sound:  # none was to be changed, and none to be added
        findings.append({"index": start, "family": "all", "finding": "a sound file was changed"})
    shutil.rmtree(home, ignore_errors=True)
    after = resource.getrusage(resource.RUSAGE_SELF)
    told = {
        "counts": dict(counts),
        "findings": findings,
        "grown_bytes": 1024 * (after.ru_maxrss - before.ru_maxrss),
        "seconds": after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime,
    }
    whole.write(json.dumps(told).encode())
    whole.close()


def limits() -> None:
    """Memory is bounded, tracebacks are not hidden, and commands are made once."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    most = pages * resource.getpagesize() + MARGIN
    resource.setrlimit(resource.RLIMIT_AS, (most, most))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.signal(signal.SIGPROF, signal.SIG_DFL)  # ends the process
    os.environ["GRADINE_TRACEBACK"] = "1"
    sys.dont_write_bytecode = True
    warnings.filterwarnings("ignore", module=r"benchmarks\.fuzz|zipfile")  # of making inputs
    cli.app = the_commands()  # pyright: ignore[reportAttributeAccessIssue]


def tried(
    seed: int, index: int, corpus: Corpus, folder: Path, watch: Watch
) -> tuple[str, str, str | None]:
    """Family, outcome, and what was wrong with it if anything was."""
    (folder / "out").mkdir(parents=True)
    Payload.mark = str(folder / "code-ran")
    family, case = one_input(seed, index, corpus, folder)
    os.chdir(folder / "out")
    watch.inside, watch.heard = str(folder), ""
    signal.setitimer(signal.ITIMER_PROF, PATIENCE)
    try:
        outcome, finding = run(case, family)
    except BaseException as error:  # whatever it is, it is a finding
        outcome = "traceback"
        last = traceback.extract_tb(error.__traceback__)[-1]
        finding = (
            f"{type(error).__name__}: {error!s:.200} ({Path(last.filename).name}:{last.lineno})"
        )
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        watch.inside = ""
        os.chdir("/")
    if watch.heard:
        outcome, finding = "trespass", watch.heard
    if Path(Payload.mark).exists():
        outcome, finding = "code ran", "the payload of a pickle was run"
    shutil.rmtree(folder, ignore_errors=True)
    return family, outcome, finding


def run(case: Case, family: str) -> tuple[str, str | None]:
    if case.command is None:
        assert case.read is not None
        return _read(case.read)
    out, err = io.StringIO(), io.StringIO()
    with (
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
        warnings.catch_warnings(action="ignore", category=RuntimeWarning),  # as gradine.__main__
    ):
        code = cli.main(case.command)
    said = err.getvalue()
    if code not in CODES:
        return "exit code", f"{case.command!r:.300}: exit code {code}: {said[-200:]}"
    if "Traceback" in said or "Traceback" in out.getvalue():
        return "traceback", f"{case.command!r:.300}: {said[-300:]}"
    if code == 2:
        # A run that had begun has told of its phases before.
        told = said.splitlines()[-1 if case.judge is not None else 0 :]
        if len(told) != 1 or not told[0].startswith("gradine: ") or len(told[0]) < 15:
            return "not one line", f"{case.command!r:.300}: {said!r:.400}"
        if "not enough memory" in said and family != "command line":
            return "memory", f"{case.command!r:.300}: {said:.200}"
        return "refused", None
    if code == 0 and case.judge is not None:
        wrong = case.judge()
        if wrong:
            return "wrong learned", wrong
        return "learned", None
    return "done" if code == 0 else "not learned", None


def _read(read: Any) -> tuple[str, str | None]:
    with warnings.catch_warnings(record=True) as told:
        try:
            read()
        except (ValueError, OSError) as error:
            if isinstance(error, ValueError) and not is_refusal(error):
                raise  # of another library: no reader of ours looked at it
            # The file is named in the message, by whoever raised it or by the system.
            said = f"{error} {getattr(error, 'filename', '')}"
            named = os.getcwd().removesuffix("/out") in said
            return (
                "refused",
                None if named else f"names no file: {type(error).__name__}: {said:.200}",
            )
    return "read", f"warned: {told[0].message}" if told else None
