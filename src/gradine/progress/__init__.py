"""What a learner tells while it works, and how it is shown: the one progress system.

A learner talks to a `Listener`. `PhaseDisplay` shows what it hears on standard error, and
`NotebookDisplay` below the cell of a notebook, in place. Functions that take a ``listener`` choose
for themselves when they are given None: a notebook gets its display, everything else gets nothing.
"""

from __future__ import annotations

from gradine.progress.display import PhaseDisplay, tell
from gradine.progress.listener import Listener, Tell
from gradine.progress.notebook import NotebookDisplay, chosen_listener
from gradine.progress.words import duration

__all__ = [
    "Listener",
    "NotebookDisplay",
    "PhaseDisplay",
    "Tell",
    "chosen_listener",
    "duration",
    "tell",
]
