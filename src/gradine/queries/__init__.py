"""Learning a layer that answers: oracles, the log of their answers, and how exact these are."""

from gradine.queries.limits import Ball, Box

__all__ = ["Ball", "Box"]
