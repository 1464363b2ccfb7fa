"""Learning a layer that answers: oracles, the log of their answers, and how exact these are."""

from gradine.queries.config import OracleConfig
from gradine.queries.courier import Usage
from gradine.queries.defences import Clipped, Noisy, Rounded
from gradine.queries.errors import BudgetSpent, OracleFailed
from gradine.queries.limits import Ball, Box
from gradine.queries.log import AnswerLog
from gradine.queries.oracle import Oracle, as_oracle
from gradine.queries.precision import Precision, precision_of, probe_precision
from gradine.queries.readout import Readout

__all__ = [
    "AnswerLog",
    "Ball",
    "Box",
    "BudgetSpent",
    "Clipped",
    "Noisy",
    "Oracle",
    "OracleConfig",
    "OracleFailed",
    "Precision",
    "Readout",
    "Rounded",
    "Usage",
    "as_oracle",
    "precision_of",
    "probe_precision",
]
