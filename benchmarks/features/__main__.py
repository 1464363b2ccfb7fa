"""Random-feature attention, beside scikit-learn and in order: `python -m benchmarks.features`."""

from __future__ import annotations

import sys

from benchmarks.features import orderings, regime, speed
from benchmarks.parts import Parts

__all__ = ["main"]

PARTS = Parts(
    "features",
    "Random-feature attention, measured",
    (__doc__ or "").strip(),
    {"speed": speed, "orderings": orderings, "regime": regime},
)
main = PARTS.main

if __name__ == "__main__":
    sys.exit(main())
