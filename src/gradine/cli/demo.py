"""`gradine demo`: the whole story on one small layer."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Annotated

import typer

from gradine.cli.compare import largest_errors
from gradine.cli.console import STOPPED, Ending, print_json
from gradine.cli.options import AsJson, Seed
from gradine.cli.run import Outcome, Request, ending_of, run, what_in_words
from gradine.cli.sampled import Sampling, write_examples
from gradine.cli.story import with_examples
from gradine.engine import BOOKMARKS
from gradine.inputs import plant
from gradine.phases import RECORDS
from gradine.runs import LAYER, REPORT, RESULT, output_folder

__all__ = ["demo"]

TRUTH = "truth.safetensors"
DATA = "data.npz"
MARK = "gradine.demo"  # in the metadata of a demo's truth: what lies beside it is a demo's, too
OWN_FILES = {TRUTH, DATA, LAYER, RESULT, REPORT, RECORDS, BOOKMARKS}


@with_examples("gradine demo", "gradine demo --heads 3 --dim 12 --examples 150000 --out three")
def demo(
    out: Annotated[Path, typer.Option("--out", help="Where everything goes.")] = Path(
        "gradine-demo"
    ),
    heads: Annotated[int, typer.Option("--heads", help="Heads of the planted layer.")] = 2,
    dim: Annotated[int, typer.Option("--dim", help="Coordinates of a token.")] = 10,
    seq_len: Annotated[int, typer.Option("--seq-len", help="Tokens of a sequence.")] = 3,
    scale: Annotated[float, typer.Option("--scale", help="Spread of a logit.")] = 4.0,
    examples: Annotated[int, typer.Option("--examples", help="How many sequences.")] = 40_000,
    seed: Seed = 0,
    as_json: AsJson = False,
) -> None:
    """Plant, sample, learn, compare, and write a report: the whole story.

    An earlier demo in the same folder is replaced.
    """
    # Another seed than the layer's: inputs must not share its random numbers.
    sampling = Sampling(plant(heads, dim, scale, seed=seed), examples, seq_len, "boolean", seed + 1)
    _check_own(out)
    try:
        outcome = _tell_story(out, sampling, seed)
    except KeyboardInterrupt:
        raise Ending(STOPPED, "stopped") from None
    _print_story(outcome, sampling, as_json)
    if not outcome.fit.learned:
        raise ending_of(outcome)


def _tell_story(out: Path, sampling: Sampling, seed: int) -> Outcome:
    with output_folder(out), _earlier_kept(out):
        sampling.layer.save(out / TRUTH, notes={MARK: "truth"})
        write_examples(out / DATA, sampling)
        return run(Request(out / DATA, out, seed=seed, overwrite=True, truth=sampling.layer))


@contextmanager
def _earlier_kept(folder: Path) -> Iterator[None]:
    """Put truth and data of an earlier demo back if the new one ends before it begins to learn.

    Until then the folder has the earlier answer, which must not stand beside another's truth.
    """
    aside = {folder / name: folder / f".{name}.earlier" for name in (TRUTH, DATA)}
    earlier = (folder / TRUTH).exists()
    for path, kept in aside.items():
        if path.exists():
            os.replace(path, kept)
    try:
        yield
    except BaseException as error:
        if (folder / RESULT).exists():
            for path, kept in aside.items():
                with suppress(FileNotFoundError):
                    os.replace(kept, path)
        elif not earlier and isinstance(error, ValueError | OSError):
            for path in aside:
                path.unlink(missing_ok=True)
        raise
    finally:
        for kept in aside.values():
            kept.unlink(missing_ok=True)


def _check_own(folder: Path) -> None:
    """Refuse a folder with anything in it that no demo wrote: names there are ours to replace."""
    if not folder.is_dir():
        return
    held = [path.name for path in sorted(folder.iterdir()) if not path.name.startswith(".")]
    others = [name for name in held if name not in OWN_FILES]
    if held and not others and not _is_marked(folder / TRUTH):
        others = held  # names alone prove nothing
    if others:
        raise ValueError(f"{folder}: holds {others[0]}, which no demo wrote; choose another --out")


def _is_marked(truth: Path) -> bool:
    from safetensors import SafetensorError, safe_open

    if not truth.is_file() or truth.is_symlink():
        return False
    try:
        with safe_open(os.fspath(truth), framework="numpy") as file:
            return MARK in (file.metadata() or {})
    except (SafetensorError, OSError):
        return False


def _print_story(outcome: Outcome, sampling: Sampling, as_json: bool) -> None:
    fit, report = outcome.fit, outcome.out / REPORT
    errors = {} if outcome.match is None else largest_errors(outcome.match)
    if as_json:
        print_json(outcome.result | errors | {"out": str(outcome.out), "report": str(report)})
        return
    print(f"planted {sampling.layer!r} in {outcome.out / TRUTH}")
    print(f"sampled {sampling.n} examples of {sampling.seq_len} tokens in {outcome.out / DATA}")
    print(f"report: {report}")
    if errors and fit.certificate is not None:
        print(
            f"recovered {what_in_words(fit)}: "
            f"largest theta error {errors['theta_error']:.1g}, "
            f"largest w error {errors['w_error']:.1g}, "
            f"function error {errors['function_error']:.1g}; "
            f"{fit.certificate.sentence()}"
        )
