"""One door to every source that has an address."""

from __future__ import annotations

import os
from pathlib import Path

from gradine.checks import some_path
from gradine.examples.source import Examples, FolderExamples, NpzExamples
from gradine.examples.zarr_store import ZarrExamples, is_zarr

__all__ = ["open_examples"]

SOURCES = (
    "an .npz file, a folder with X.npy and Y.npy, or a zarr store (arrays are for gradine.learn)"
)


def open_examples(path: str | os.PathLike[str], memory: int | None = None) -> Examples:
    """Open what is there: an .npz file, a folder with X.npy and Y.npy, or a zarr store.

    A store is a folder, a zip file, or an fsspec address such as ``s3://bucket/data.zarr``.
    ``memory`` is what the run may take in bytes; a store with larger chunks is refused.

    >>> import tempfile
    >>> import numpy as np
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     np.savez(Path(folder, "data.npz"), X=np.ones((5, 3, 2)), Y=np.zeros((5, 3, 1)))
    ...     examples = open_examples(Path(folder, "data.npz"))
    ...     X, Y = examples.block(0, 4)
    >>> X.shape, Y.shape
    ((4, 3, 2), (4, 3, 1))
    """
    some_path("path", path, SOURCES)
    if (isinstance(path, str) and "://" in path) or is_zarr(Path(path)):
        return ZarrExamples(path, memory=memory)
    return FolderExamples(path) if Path(path).is_dir() else NpzExamples(path)
