"""What workers are sent once and use for many blocks: examples, and the kernel of a pass."""

from __future__ import annotations

import mmap
import os
import pickle
import sys
import tempfile
from collections import OrderedDict
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

__all__ = ["Parcel", "Shipment"]

LARGE = 2**16  # bytes from which an array is mapped by workers instead of sent with each block
ALIGNED = 64  # bytes
REMEMBERED = 4  # parcels a worker keeps unpacked: examples and kernel of this pass and the last


@dataclass(frozen=True)
class Parcel:
    """Anything that can be pickled; large arrays may lie in a file of bare numbers."""

    token: str
    stream: bytes = field(repr=False)
    path: str | None = None
    places: tuple[tuple[int, int], ...] = ()  #: where each array starts and stops in the file

    def open(self) -> Any:
        """What was wrapped; unpacked once in each process."""
        if self.token in _OPENED:
            _OPENED.move_to_end(self.token)
            return _OPENED[self.token]
        arrays = []
        if self.path is not None:
            with Path(self.path).open("rb") as file:
                mapped = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
            arrays = [mapped[start:stop] for start, stop in self.places]
        thing = _OPENED[self.token] = pickle.loads(self.stream, buffers=arrays)
        while len(_OPENED) > REMEMBERED:
            _OPENED.popitem(last=False)
        return thing


_OPENED: OrderedDict[str, Any] = OrderedDict()


class Shipment:
    """A parcel, and the file with its large arrays for as long as it is needed.

    ``mapped`` says that workers can map files of this machine. Nothing that is pickled touches a
    disk: what is mapped are the numbers of arrays alone.

    >>> import numpy as np
    >>> shipment = Shipment({"small": 1, "large": np.arange(20_000.0)}, mapped=True)
    >>> len(shipment.parcel.stream) < 1000, float(shipment.parcel.open()["large"][-1])
    (True, 19999.0)
    """

    def __init__(self, thing: Any, *, mapped: bool) -> None:
        large: list[memoryview] = []

        def small(buffer: pickle.PickleBuffer) -> bool:
            raw = buffer.raw()
            if not mapped or raw.nbytes < LARGE:
                return True
            large.append(raw)
            return False

        try:
            stream = pickle.dumps(thing, protocol=5, buffer_callback=small)
        except (pickle.PicklingError, AttributeError, TypeError) as error:
            raise ValueError(
                f"{type(thing).__name__} cannot be sent to workers ({error}); expected functions "
                'of a module, by name as "module:function", or the serial engine'
            ) from error
        self.thing = thing  # held: its identity says what has been sent already
        self._file = None
        token = os.urandom(16).hex()
        if not large:
            self.parcel: Parcel = Parcel(token, stream)
            return
        starts = [0]
        for raw in large:
            starts.append(-(-(starts[-1] + raw.nbytes) // ALIGNED) * ALIGNED)
        # Where it can be, the file has no name and goes with this process, even if it is killed.
        nameless = sys.platform == "linux"
        make = tempfile.TemporaryFile if nameless else tempfile.NamedTemporaryFile
        self._file = make()
        for raw, (start, stop) in zip(large, pairwise(starts), strict=True):
            self._file.seek(start)
            self._file.write(raw)
            self._file.write(bytes(stop - start - raw.nbytes))
        self._file.flush()
        path = f"/proc/{os.getpid()}/fd/{self._file.fileno()}" if nameless else self._file.name
        places = tuple((at, at + raw.nbytes) for at, raw in zip(starts, large, strict=False))
        self.parcel = Parcel(token, stream, path, places)

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
