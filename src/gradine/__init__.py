"""Gradine learns a multi-head attention layer from examples.

>>> import gradine
>>> layer = gradine.plant(heads=2, dim=8, seed=1)
>>> layer(gradine.sample_inputs(5, seq_len=4, dim=8)).shape
(5, 4, 8)
"""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gradine.certificate import Certificate
    from gradine.exact.config import ExactConfig
    from gradine.examples import GeneratedExamples, from_batches, open_examples
    from gradine.factors import Factors
    from gradine.features.estimators import RandomFeatureAttention, RandomFeatureMLP
    from gradine.features.flat_tokens import FlatTokens
    from gradine.fit import Fit, LearnConfig
    from gradine.inputs import plant, sample_inputs
    from gradine.layer import AttentionLayer
    from gradine.learn import learn, learn_examples
    from gradine.queries.asking.config import OracleConfig
    from gradine.queries.asking.defences import Clipped, Noisy, Rounded
    from gradine.queries.asking.limits import Ball, Box
    from gradine.queries.asking.log import AnswerLog
    from gradine.queries.asking.oracle import Oracle, as_oracle
    from gradine.queries.config import QueryConfig
    from gradine.query import learn_by_queries
    from gradine.score import Match, compare
    from gradine.sculpt.config import SculptConfig
    from gradine.status import Status
    from gradine.theory.conditions import check
    from gradine.theory.from_data import check_examples
    from gradine.theory.plan import Plan, plan

    __version__: str

__all__ = [
    "AnswerLog",
    "AttentionLayer",
    "Ball",
    "Box",
    "Certificate",
    "Clipped",
    "ExactConfig",
    "Factors",
    "Fit",
    "FlatTokens",
    "GeneratedExamples",
    "LearnConfig",
    "Match",
    "Noisy",
    "Oracle",
    "OracleConfig",
    "Plan",
    "QueryConfig",
    "RandomFeatureAttention",
    "RandomFeatureMLP",
    "Rounded",
    "SculptConfig",
    "Status",
    "as_oracle",
    "check",
    "check_examples",
    "compare",
    "from_batches",
    "learn",
    "learn_by_queries",
    "learn_examples",
    "open_examples",
    "plan",
    "plant",
    "sample_inputs",
]

# Where each public name lives: loaded at first use, so that `import gradine` stays fast.
_HOME = {
    "AnswerLog": "gradine.queries.asking.log",
    "AttentionLayer": "gradine.layer",
    "Ball": "gradine.queries.asking.limits",
    "Box": "gradine.queries.asking.limits",
    "Certificate": "gradine.certificate",
    "Clipped": "gradine.queries.asking.defences",
    "ExactConfig": "gradine.exact.config",
    "Factors": "gradine.factors",
    "Fit": "gradine.fit",
    "FlatTokens": "gradine.features.flat_tokens",
    "GeneratedExamples": "gradine.examples",
    "LearnConfig": "gradine.fit",
    "Match": "gradine.score",
    "Noisy": "gradine.queries.asking.defences",
    "Oracle": "gradine.queries.asking.oracle",
    "OracleConfig": "gradine.queries.asking.config",
    "Plan": "gradine.theory.plan",
    "QueryConfig": "gradine.queries.config",
    "RandomFeatureAttention": "gradine.features.estimators",
    "RandomFeatureMLP": "gradine.features.estimators",
    "Rounded": "gradine.queries.asking.defences",
    "SculptConfig": "gradine.sculpt.config",
    "Status": "gradine.status",
    "as_oracle": "gradine.queries.asking.oracle",
    "check": "gradine.theory.conditions",
    "check_examples": "gradine.theory.from_data",
    "compare": "gradine.score",
    "from_batches": "gradine.examples",
    "learn": "gradine.learn",
    "learn_by_queries": "gradine.query",
    "learn_examples": "gradine.learn",
    "open_examples": "gradine.examples",
    "plan": "gradine.theory.plan",
    "plant": "gradine.inputs",
    "sample_inputs": "gradine.inputs",
}


#: Modules with more public names, loaded at first use as well.
_MODULES = (
    "atlas",
    "attention_functions",
    "engine",
    "examples",
    "features",
    "hard",
    "kernels",
    "learners",
    "progress",
    "report",
    "status",
)


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f"gradine.{name}")
    if name == "__version__":
        value = _installed_version()
    elif name in _HOME:
        value = getattr(importlib.import_module(_HOME[name]), name)
    else:
        raise AttributeError(f"module 'gradine' has no attribute {name!r}")
    globals()[name] = value
    return value


def _installed_version() -> str:
    """What the installed package says; the build takes it from the tags of the repository."""
    from importlib import metadata  # here: it takes longer than everything above

    try:
        return metadata.version("gradine")
    except metadata.PackageNotFoundError:  # a folder on the path, and nothing else
        return "0+unknown"


def __dir__() -> list[str]:
    return sorted({*__all__, *_MODULES, "__version__"})


class _Package(ModuleType):
    """Keeps `gradine.learn` the function.

    Importing the module of the same name makes Python bind it to the package, in whatever order
    the imports come; the public name wins here, and `from gradine.learn import ...` still works.
    """

    def __setattr__(self, name: str, value: Any) -> None:
        if name in _HOME and isinstance(value, ModuleType):
            value = getattr(value, name)
        super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package
