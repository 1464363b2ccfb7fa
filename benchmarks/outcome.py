"""One run of a learner with so many examples to fit, and whether it found the heads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import gradine
from benchmarks.clock import clock
from benchmarks.exact.ours import SOLVED, error_of
from benchmarks.instances import INPUT_SEED
from gradine.admission import least_examples
from gradine.fit import LearnConfig

__all__ = ["CONFIGS", "Learner", "Setting", "attempt"]

Learner = Literal["exact", "sculpt"]

#: For the exact learner so few are held out that what is fitted makes most of the difference; 165
#: must certify.
CONFIGS: dict[Learner, LearnConfig] = {
    "exact": LearnConfig(validation_examples=40, certify_examples=165, held_out_share=0.95),
    "sculpt": LearnConfig(),
}


@dataclass(frozen=True)
class Setting:
    heads: int
    seq_len: int
    dim: int
    scale: float

    @property
    def name(self) -> str:
        return f"m{self.heads}-k{self.seq_len}-d{self.dim}-s{self.scale:g}"


def attempt(setting: Setting, learner: Learner, fitted: int, seed: int) -> dict[str, Any]:
    """One run with so many examples to fit: whether the heads were found, and how long it took."""
    config = CONFIGS[learner]
    n = least_examples(fitted, config)
    truth = gradine.plant(setting.heads, setting.dim, setting.scale, seed=seed)
    X = gradine.sample_inputs(n, setting.seq_len, setting.dim, seed=seed + INPUT_SEED)
    Y = truth(X)
    began = clock()
    try:
        fit = gradine.learn(X, Y, setting.heads, learner, seed, config=config)
    except ValueError:  # fewer examples than unknowns
        return {"success": False, "status": "refused", "seconds": clock() - began}
    taken = clock() - began
    error = error_of(fit.layer, truth)
    success = fit.learned and error is not None and error <= SOLVED
    return {"success": success, "status": fit.status.code, "seconds": taken}
