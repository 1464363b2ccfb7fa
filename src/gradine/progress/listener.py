"""What a learner tells while it works. A listener shows it, or does nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["Listener", "Tell"]

#: Told of every step of a fit: the relative residual, and what gives the attention matrices
#: (m, D, d) there, in the units of the fit.
Tell = Callable[[float, Callable[[], Any]], None]


class Listener:
    """Hears of phases as they start, go on and end. Override what is of interest."""

    def phase_started(self, name: str, total: int) -> None:
        """``total`` examples will be seen, if the phase passes over them."""

    def examples_seen(self, seen: int) -> None:
        """So many examples of the current phase have been seen."""

    def hits_kept(self, kept: int) -> None:
        """So many rows of those seen are kept, where a phase selects some."""

    def fit_went_on(self, residual: float, theta: Callable[[], Any]) -> None:
        """A step of a fit has led to this relative residual, and to these attention matrices."""

    def phase_ended(self, name: str, figures: dict[str, Any], recalled: bool) -> None:
        """Scalar figures of the result; ``recalled`` if it came from an earlier run."""
