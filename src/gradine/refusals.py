"""Whether an error is our refusal of what someone gave, or a defect that looks like one.

Misuse is a ``ValueError``. So is what numpy raises where shapes do not fit, which after all checks
is nobody's misuse but our mistake. A refusal is raised by a ``raise`` of our own code.
"""

from __future__ import annotations

from opcode import opmap
from types import TracebackType

__all__ = ["is_refusal", "keep_whether_refusal", "refuses_too"]

RAISE = opmap["RAISE_VARARGS"]  # what a raise statement is to the interpreter
KNOWN = "is_refusal"  # of an error that comes from another process

_packages = {"gradine"}


def refuses_too(module: str) -> None:
    """A module that was added to Gradine refuses as Gradine itself does."""
    _packages.add(module.partition(".")[0])


def is_refusal(error: BaseException) -> bool:
    """Whether it is a ``ValueError`` by a ``raise`` of Gradine, and not of what Gradine calls.

    >>> from gradine.checks import whole_number
    >>> try:
    ...     whole_number("heads", 0, 1)
    ... except ValueError as error:
    ...     is_refusal(error)
    True
    >>> try:
    ...     int("two")
    ... except ValueError as error:
    ...     is_refusal(error)
    False
    """
    if not isinstance(error, ValueError):
        return False
    if _is_ours(type(error).__module__):
        return True
    known = getattr(error, KNOWN, None)
    return _raised_by_us(error.__traceback__) if known is None else known


def keep_whether_refusal(error: BaseException) -> None:
    """Note it on an error that is about to leave its process: its traceback stays behind."""
    setattr(error, KNOWN, is_refusal(error))


def _is_ours(module: str) -> bool:
    return module.partition(".")[0] in _packages


def _raised_by_us(trace: TracebackType | None) -> bool:
    if trace is None:
        return False
    while trace.tb_next is not None:
        trace = trace.tb_next
    code = trace.tb_frame.f_code.co_code
    module = trace.tb_frame.f_globals.get("__name__") or ""
    return _is_ours(module) and code[trace.tb_lasti] == RAISE
