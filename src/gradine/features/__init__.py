"""Attention whose query-key matrices are random and frozen, and whose values are fitted [FGBM23].

[FGBM23] Fu, Guo, Bai, Mei, What can a single attention layer learn? NeurIPS 2023.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gradine.features import complexity, targets
    from gradine.features.estimators import RandomFeatureAttention, RandomFeatureMLP
    from gradine.features.flat_tokens import FlatTokens
    from gradine.features.targets import Target, correlation, gamma_mixture, on_sphere, powers

__all__ = [
    "FlatTokens",
    "RandomFeatureAttention",
    "RandomFeatureMLP",
    "Target",
    "complexity",
    "correlation",
    "gamma_mixture",
    "on_sphere",
    "powers",
    "targets",
]

# Loaded at first use, as in `gradine`. `complexity` is the module: its function has its name.
_MODULES = ("complexity", "targets")
_HOME = {
    "FlatTokens": "flat_tokens",
    "RandomFeatureAttention": "estimators",
    "RandomFeatureMLP": "estimators",
}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'gradine.features' has no attribute {name!r}")
    if name in _MODULES:
        return importlib.import_module(f"gradine.features.{name}")
    home = _HOME.get(name, "targets")
    value = getattr(importlib.import_module(f"gradine.features.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
