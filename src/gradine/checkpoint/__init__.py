"""One attention layer out of a saved model: find its files, know its names, read its maps."""

from gradine.checkpoint.model import CheckpointLayer, read_checkpoint

__all__ = ["CheckpointLayer", "read_checkpoint"]
