"""Layers to try a learner with: functions that are hard to learn, conditions that fail."""

from gradine.hard.dials import DIALS, Dial, dial
from gradine.hard.hidden import (
    Hidden,
    RoundedModulus,
    SparseParity,
    rounded_modulus,
    sparse_parity,
)

__all__ = [
    "DIALS",
    "Dial",
    "Hidden",
    "RoundedModulus",
    "SparseParity",
    "dial",
    "rounded_modulus",
    "sparse_parity",
]
