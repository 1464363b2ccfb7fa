"""Learning a layer that answers: oracles, the log of their answers, and how exact these are."""

from gradine.queries.asking.config import OracleConfig
from gradine.queries.asking.courier import Usage
from gradine.queries.asking.defences import Clipped, Noisy, Rounded
from gradine.queries.asking.errors import BudgetSpent, OracleFailed
from gradine.queries.asking.limits import Ball, Box
from gradine.queries.asking.log import AnswerLog
from gradine.queries.asking.oracle import Oracle, as_oracle
from gradine.queries.asking.precision import Precision, precision_of, probe_precision
from gradine.queries.asking.readout import Readout

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
