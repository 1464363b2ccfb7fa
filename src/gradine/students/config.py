"""Settings of gradient descent, with the reason for each default."""

from __future__ import annotations

from dataclasses import dataclass

from gradine.settings import Count, Positive, Settings, Threshold

__all__ = ["StudentConfig"]


@dataclass(frozen=True)
class StudentConfig(Settings):
    """Settings of the training, the same for every layer."""

    steps: Count = 2000  #: of Adam from one start
    #: Of the loss, by L-BFGS from one start at most: where it succeeds it takes 50 to 400.
    evaluations: Count = 600
    starts: Count = 2  #: the best by its loss counts; a loss that is ``enough`` ends them
    #: Entries of Theta and W at a random start. Of 0.1, 0.03, 0.01 and 0.003 one of the last two
    #: was best on planted layers.
    std: Positive = 0.01
    rate: Positive = 1e-2  #: of Adam, at the first step; it falls to zero along half a cosine
    #: Examples of one step of Adam; L-BFGS takes the first so many for all its steps, as more make
    #: them slower and hardly fewer. Never fewer than ``per_bound`` times the counting bound.
    batch: Count = 512
    per_bound: Positive = 16.0
    history: Count = 50  #: steps that L-BFGS remembers
    enough: Threshold = 1e-8  #: squared error over that of zero at which a student is done
