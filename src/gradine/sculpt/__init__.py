"""The theorem's learner: six phases that carve the heads out of a convex body [CL25]."""

from gradine.sculpt.config import SculptConfig

__all__ = ["SculptConfig"]
