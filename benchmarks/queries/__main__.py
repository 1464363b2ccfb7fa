"""What learning by queries reaches and what it costs: `python -m benchmarks.queries [part ...]`."""

from __future__ import annotations

import sys

from benchmarks.parts import Parts
from benchmarks.queries import defences, design, minilm, planted

__all__ = ["main"]

PARTS = Parts(
    "queries",
    "Learning by queries, measured",
    (__doc__ or "").strip(),
    {"planted": planted, "minilm": minilm, "design": design, "defences": defences},
)
main = PARTS.main

if __name__ == "__main__":
    sys.exit(main())
