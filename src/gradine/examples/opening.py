"""One door to every source that has an address."""

from __future__ import annotations

import os
from pathlib import Path

from gradine.examples.source import Examples, FolderExamples, NpzExamples

__all__ = ["open_examples"]


def open_examples(path: str | os.PathLike[str]) -> Examples:
    """Open an .npz file, or a folder with X.npy and Y.npy.

    >>> import tempfile
    >>> import numpy as np
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     np.savez(Path(folder, "data.npz"), X=np.ones((5, 3, 2)), Y=np.zeros((5, 3, 1)))
    ...     examples = open_examples(Path(folder, "data.npz"))
    ...     X, Y = examples.block(0, 4)
    >>> X.shape, Y.shape
    ((4, 3, 2), (4, 3, 1))
    """
    return FolderExamples(path) if Path(path).is_dir() else NpzExamples(path)
