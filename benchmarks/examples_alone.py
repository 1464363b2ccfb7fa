"""What examples alone show of tokens and of noise: `python -m benchmarks.examples_alone`.

Two conditions of `gradine.check_examples` have no dial. Tokens with narrow directions are learned
by the exact learner, down to where they no longer determine the heads (`token_conditioning`); and
layers without noise are held against attention that is lost in it (`attention_shows`).
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

import gradine
from benchmarks.text import markdown
from gradine.hard import dial

__all__ = ["main"]

RESULTS = Path(__file__).parent / "results"
HEADS, DIM, SEQ_LEN, EXAMPLES, SCALE = 2, 6, 3, 700, 3.0
NARROW = (1e-2, 1e-3, 3e-4, 1e-4, 1e-5, 1e-6)
#: Turns beyond what the theorem asks, up to where the exact learner does without its conditions.
TURNS = {
    "equal_theta": 0.9,
    "equal_w": 1.0,
    "low_rank": 1.0,
    "one_row": 1.0,
    "one_column": 1.0,
    "faint_head": 0.9,
    "zero_sum": 1.0,
    "steep_sum": 1.0,
    "sharp": 0.3,
    "flat": 0.6,
    "few_outputs": 1.0,
    "few_coordinates": 0.6,
    "many_heads": 0.5,
}
#: Heads, coordinates, tokens, examples, scale and rank of other layers: about 30 rows of what may
#: be fitted for each unknown, the fewest that the condition is told of.
OTHERS = (
    (16, 32, 8, 6500, 3.0, None),
    (4, 16, 8, 1700, 2.0, None),
    (4, 16, 8, 1700, 6.0, None),
    (2, 10, 2, 2600, 4.0, None),
    (2, 6, 16, 1700, 4.0, None),
    (2, 10, 3, 2000, 12.0, None),
    (2, 10, 3, 2000, 25.0, None),
    (4, 16, 3, 4500, 4.0, 1),
    (8, 16, 4, 3300, 4.0, 2),
)
#: Turns of ``flat``, and noise relative to the outputs.
NOISES = ((1.0, 0.01), (1.0, 0.8), (0.8, 0.01), (0.4, 0.1), (0.0, 0.8))


def narrow_tokens(seeds: Sequence[int]) -> Iterator[list[str]]:
    """One line for each width: the condition, how runs ended, and how far heads are off."""
    for one_direction in (True, False):
        for width in NARROW:
            values, statuses, errors = [], [], []
            for seed in seeds:
                rng = np.random.default_rng([seed, 5])
                layer = gradine.plant(HEADS, DIM, SCALE, seed=seed)
                basis = np.linalg.qr(rng.standard_normal((DIM, DIM)))[0]
                widths = np.geomspace(1.0, width, DIM)
                if one_direction:
                    widths = np.append(np.ones(DIM - 1), width)
                X = rng.standard_normal((EXAMPLES, SEQ_LEN, DIM)) @ (basis * widths) @ basis.T
                values.append(gradine.check_examples(X, layer(X))["token_conditioning"].value)
                fit = gradine.learn(X, layer(X), HEADS, "exact", seed)
                statuses.append(fit.status.code)
                if fit.layer is not None:
                    match = gradine.compare(fit.layer, layer, seq_len=SEQ_LEN)
                    errors.append(float(np.max(match.theta_error)))
            yield [
                "one" if one_direction else "all, ever narrower",
                f"{width:g}",
                f"{min(values):.1e}",
                ", ".join(f"{statuses.count(code)} {code}" for code in sorted(set(statuses))),
                f"{max(errors):.0e}" if errors else "-",
            ]


def shows(layer: gradine.AttentionLayer, n: int, seq_len: int, seed: int, noise: float) -> float:
    """``attention_shows`` of examples of a layer."""
    X = gradine.sample_inputs(n, seq_len, layer.dim, seed=np.random.default_rng([seed, 1]))
    Y = layer(X)
    Y = Y + noise * Y.std() * np.random.default_rng([seed, 2]).standard_normal(Y.shape)
    return gradine.check_examples(X, Y)["attention_shows"].value


def attention(seeds: Sequence[int]) -> Iterator[list[str]]:
    """One line for each kind of layer: the smallest and the largest ratio."""

    def line(what: str, noise: float, found: list[float]) -> list[str]:
        return [what, f"{noise:g}", str(len(found)), f"{min(found):.2f}", f"{max(found):.2f}"]

    for name, turn in TURNS.items():
        found = [shows(dial(name, turn, seed=seed), 2000, 3, seed, 0.0) for seed in seeds]
        yield line(f"{name} at {turn:g}", 0.0, found)
    for heads, dim, seq_len, n, scale, rank in OTHERS:
        layers = [gradine.plant(heads, dim, scale, rank, seed=seed) for seed in seeds[:2]]
        found = [shows(a, n, seq_len, seed, 0.0) for seed, a in zip(seeds, layers, strict=False)]
        sizes = f"{heads} heads, d = {dim}, k = {seq_len}, n = {n}, scale {scale:g}"
        yield line(sizes + ("" if rank is None else f", rank {rank}"), 0.0, found)
    for turn, noise in NOISES:
        found = [shows(dial("flat", turn, seed=seed), 4000, 3, seed, noise) for seed in seeds]
        yield line(f"flat at {turn:g}", noise, found)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser("benchmarks.examples_alone", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one seed of each, kept nowhere")
    quick = parser.parse_args(arguments).quick
    seeds = range(300, 301 if quick else 304)
    narrow = markdown(
        ("narrow directions", "width", "token_conditioning", "exact", "largest error of a Theta"),
        narrow_tokens(seeds),
    )
    seen = markdown(("layers", "noise", "runs", "smallest", "largest"), attention(seeds))
    text = (
        f"# What examples alone show\n\n## Narrow tokens\n\n{narrow}\n\n"
        f"{HEADS} heads, d = {DIM}, k = {SEQ_LEN}, {EXAMPLES} examples of Gaussian tokens; seeds "
        f"{seeds[0]} to {seeds[-1]}, of which the smallest condition is shown, and the largest "
        "error of those runs that gave a layer.\n\n"
        f"## Attention and noise\n\n{seen}\n\nThe condition `attention_shows`; noise is relative "
        "to the outputs.\n"
    )
    print(text)
    if not quick:
        (RESULTS / "examples_alone.md").write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
