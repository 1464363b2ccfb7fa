"""How loose the tail bounds are, and how near predicted chances come: `python -m benchmarks.tails`.

Bounds stand beside what real tokens do: exact where the cube is small, simulated elsewhere. Chances
of matched patterns and of large margins stand beside planted heads on +-1 tokens.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

import gradine
from benchmarks.text import markdown, short
from gradine.theory import cube, tails
from gradine.theory.patterns import margin_probability, matched_probability

__all__ = ["bound_rows", "main", "pattern_rows", "simulated"]

Array = NDArray[np.float64]

HEADS = (1, 2, 3, 4, 6, 8)
SIZES = ((2, 6), (2, 8), (2, 10), (3, 6), (3, 10), (4, 16), (5, 16))  # tokens, dim
SCALES = (1.0, 2.0, 4.0, 6.0)
TOLERANCE, MARGIN = 0.1, 2.0
DRAWN = 24  # heads of a simulated layer: any m of them are m random heads
LAYERS = 24
RAREST = 1e-5  # what is seen less often is not compared


def simulated(
    seq_len: int, dim: int, scale: float, *, rows: int, seed: int = 0
) -> dict[int, tuple[float, float]]:
    """By number of heads: shares of rows that are matched and informative, and that have a margin.

    Rows are those of planted layers of many heads on +-1 tokens; the share of the m-tuples of
    heads that do it is counted on each row.
    """
    found: dict[int, list[tuple[float, float]]] = {m: [] for m in HEADS}
    for number in range(LAYERS):
        rng = np.random.default_rng([seed, number])
        theta = gradine.plant(DRAWN, dim, scale, seed=rng).theta
        X = gradine.sample_inputs(rows // LAYERS, seq_len, dim, seed=rng)
        logits = np.einsum("nhe,nke->nhk", np.tensordot(X[:, 0], theta, (1, 1)), X)
        near, winners = _neighbours(logits), _winners(logits)
        for m, seen in found.items():
            matched = float(np.mean(_tuples(near, m - 1) * (near >= 0)) / _tuples(DRAWN - 1, m - 1))
            margin = float(np.mean(_tuples(winners, m).sum(axis=0)) / _tuples(DRAWN, m))
            seen.append((matched, margin))
    return {m: tuple(np.mean(seen, axis=0).tolist()) for m, seen in found.items()}


def _neighbours(logits: Array) -> NDArray[np.int64]:
    """How many heads have the attention of each, (n, heads); -1 where that says nothing."""
    p = np.exp(logits - logits.max(axis=-1, keepdims=True))
    p /= p.sum(axis=-1, keepdims=True)
    near = np.ones((*p.shape[:2], p.shape[1]), dtype=bool)
    for weights in np.moveaxis(p, -1, 0):
        near &= np.abs(weights[:, :, None] - weights[:, None]) <= TOLERANCE
    informative = np.partition(p, -2, axis=-1)[..., -2] >= gradine.SculptConfig().least_weight
    return np.where(informative, near.sum(axis=-1) - 1, -1)


def _winners(logits: Array) -> NDArray[np.int64]:
    """How many heads prefer each token by the margin, (k, n)."""
    two = np.partition(logits, -2, axis=-1)
    wide = two[..., -1] - two[..., -2] >= MARGIN
    best = logits.argmax(axis=-1)
    return np.stack([(wide & (best == j)).sum(axis=1) for j in range(logits.shape[-1])])


def _tuples(among: Any, count: int) -> Any:
    """Ordered tuples of different things."""
    result = np.ones_like(among, dtype=float)
    for taken in range(count):
        result = result * np.maximum(np.asarray(among) - taken, 0)
    return result


def pattern_rows(
    sizes: Sequence[tuple[int, int]] = SIZES,
    scales: Sequence[float] = SCALES,
    rows: int = 48_000,
) -> list[dict[str, Any]]:
    """Predicted and simulated chances over a grid."""
    found = []
    for k, d in sizes:
        for s in scales:
            for m, (matched, margin) in simulated(k, d, s, rows=rows).items():
                found.append(
                    {
                        "setting": (m, k, d, s),
                        "matched": matched_probability(m, k, d, s, TOLERANCE),
                        "matched_seen": matched,
                        "margin": margin_probability(m, k, d, s, MARGIN),
                        "margin_seen": margin,
                    }
                )
    return found


def bound_rows(samples: int = 200_000) -> list[list[str]]:
    """Each bound beside the truth, for a planted head (dim 32, scale 3) or a sum of 32 signs."""
    d, rng = 32, np.random.default_rng(0)
    Theta = gradine.plant(1, d, 3.0, seed=0).theta[0]
    x, y = rng.choice([-1.0, 1.0], (2, samples, d))
    logits = np.einsum("ni,ni->n", x @ Theta, y)
    own = np.einsum("ni,ni->n", x @ Theta, x) - np.trace(Theta)
    weights = np.array([math.comb(d, j) / 2**d for j in range(d + 1)])  # of j minus signs
    sums = d - 2.0 * np.arange(d + 1)
    jump = np.cumsum(weights[::-1]) - [0.5 * math.erfc(-s / math.sqrt(2.0 * d)) for s in sums[::-1]]
    rows = []

    def row(name: str, bound: float, truth: float) -> None:
        loose = bound / truth if truth else None
        rows.append([name, short(bound), short(truth), "-" if loose is None else short(loose)])

    root = math.sqrt(d)
    ones = np.ones(d)
    for t in (2.0, 3.0):
        share = float(weights[sums >= t * root].sum())
        row(f"Hoeffding, sum of signs, {t:g} sd", tails.hoeffding_tail(ones, t * root), share)
    for t in (2.0, 3.0):
        seen = float(np.mean(logits >= 3.0 * t))
        row(f"Hanson-Wright, two tokens, {t:g} sd", tails.bilinear_tail(Theta, 3.0 * t), seen)
    for t in (2.0, 3.0):
        seen = float(np.mean(own >= 3.0 * t))
        row(f"Hanson-Wright, one token, {t:g} sd", tails.quadratic_tail(Theta, 3.0 * t), seen)
    row("Berry-Esseen, sum of signs", tails.berry_esseen(ones), float(np.abs(jump).max()))
    row("Littlewood-Offord, sum of signs", cube.littlewood_offord(d), float(weights.max()))
    two = float(weights[15] + weights[16])  # an interval of length 2 with both its ends
    row("small ball, sum of signs, width 1", cube.small_ball(ones, 1.0), two)
    half = float(np.mean(np.abs(logits) >= 1.5))
    least = cube.paley_zygmund(2, independent=True)
    row("Paley-Zygmund, logit above half its sd (from below)", least, half)
    row("slice of weight 16, any event", cube.slice_ratio(d, 16), 1.0 / float(weights[16]))
    tail = sum(math.comb(16, j) ** 2 for j in range(12, 17)) / math.comb(32, 16)
    row("slice of weight 16, mean of 16 above 3/4", cube.slice_mean_tail(d, 16, 0.25), tail)
    return rows


def _pattern_lines(rows: list[dict[str, Any]]) -> tuple[list[list[str]], str]:
    lines, ratios = [], []
    for row in rows:
        line = [f"{value:g}" for value in row["setting"]]
        for name in ("matched", "margin"):
            predicted, seen = row[name], row[f"{name}_seen"]
            compared = seen >= RAREST
            if compared:
                ratios.append(predicted / seen)
            ratio = f"{predicted / seen:.2f}" if compared else "too rare"
            line += [f"{predicted:.2g}", f"{seen:.2g}", ratio]
        lines.append(line)
    said = (
        f"Predicted over seen: {min(ratios):.2f} to {max(ratios):.2f} over {len(ratios)} chances "
        f"seen at least {RAREST:g} of the time."
    )
    return lines, said


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="benchmarks.tails", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a corner of the grid")
    quick = parser.parse_args(arguments).quick
    print(
        markdown(["bound", "bound says", "truth", "ratio"], bound_rows(5_000 if quick else 200_000))
    )
    rows = pattern_rows(((2, 8),), (1.0,), 600) if quick else pattern_rows()
    lines, said = _pattern_lines(rows)
    header = ["heads", "tokens", "dim", "scale"]
    header += ["matched, predicted", "seen", "ratio", "margin, predicted", "seen", "ratio"]
    print(f"\nTolerance {TOLERANCE:g}, margin {MARGIN:g}.\n\n{markdown(header, lines)}\n\n{said}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
