"""What examples alone say of the conditions, before anything is learned [CL25].

The heads are unknown, so a condition can only be seen by what it does to the outputs: how much of
them is linear in the tokens (flat attention), how much of their energy the crude sum of phase 1
carries (a sum near zero), how many heads third-order moments show, and how clearly (low rank).
Coherence of the heads and sharp attention are out of reach: a check of examples that finds nothing
wrong says less than one of a layer.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradine.exact.config import ExactConfig
from gradine.exact.moments import moment_spectrum
from gradine.exact.results import Spectrum
from gradine.examples import ArrayExamples, Examples, FittingData, Split, add_each, survey
from gradine.fit import LearnConfig
from gradine.learn import fitting_data
from gradine.progress import Listener
from gradine.sculpt.config import SculptConfig
from gradine.sculpt.crude_sum import crude_sum
from gradine.theory.conditions import conditioning
from gradine.theory.judgement import Check, Rule
from gradine.theory.rules import RULES

__all__ = ["DATA_RULES", "check_examples", "check_source"]

Array = NDArray[np.float64]

SEEN = 20_000  # examples at most that are looked at
LEAST = 1_000  # examples: with fewer, moments are noise
ROWS_PER_UNKNOWN = 30.0  # sculpt learned from 28 (1,000 examples, 2 heads, d = 8), not from 8
ABOVE_BOUND = 1.5  # times the counting bound: from there on the exact learner succeeds
#: The exact learner found heads to 2e-7 at 3e-4, to 3e-6 at 1e-4, to 3e-3 at 1e-5, none at 1e-6
#: (`python -m benchmarks.examples_alone`).
SPREAD = 3e-4
CERTIFY = LearnConfig().least_certify  # held-out examples that a certificate takes

#: Conditions of examples, in the order in which they are told; those of `RULES` keep their names.
DATA_RULES: dict[str, Rule] = {
    "inputs": Rule(
        what="whether tokens look uniform on +-1 or standard Gaussian (1 or 0)",
        purpose="moments and margins are those of such tokens",
        phase="all phases",
        at_least=True,
        sculpt=1.0,
        exact=None,
        paper="tokens uniform on +-1",
    ),
    "examples": Rule(
        what="rows of examples for each unknown of an attention matrix, n k / (D d),",
        purpose="enough rows must carry slabs",
        phase="phase 2, sculpt",
        at_least=True,
        sculpt=ROWS_PER_UNKNOWN,
        exact=None,
        paper="(kd)^Theta(m) examples",
    ),
    "held_out": Rule(
        what="the number of examples that are held out to verify an answer",
        purpose="without a certificate nothing counts as learned",
        phase="verify",
        at_least=True,
        sculpt=CERTIFY,
        exact=CERTIFY,
        paper="examples that take no part in learning",
    ),
    "token_conditioning": Rule(
        what="the smallest spread of the tokens of a sequence over the largest, by direction,",
        purpose="of directions in which tokens do not differ, outputs show nothing",
        phase="all phases",
        at_least=True,
        sculpt=SPREAD,
        exact=SPREAD,
        paper="tokens uniform on +-1",
    ),
    "tokens": RULES["tokens"],
    "sum_energy": Rule(
        what="the energy of the crude sum over that of an output row, |W|^2 / E|y|^2,",
        purpose=RULES["sum_size"].purpose,
        phase=RULES["sum_size"].phase,
        at_least=True,
        sculpt=0.35,
        exact=None,
        paper=RULES["sum_size"].paper,
    ),
    "sum_conditioning": RULES["sum_conditioning"],
    "attention_varies": Rule(
        what="the share of the outputs' variance that is not linear in the tokens, noise included,",
        purpose=RULES["logits_not_flat"].purpose,
        phase=RULES["logits_not_flat"].phase,
        at_least=True,
        sculpt=0.35,
        exact=1e-6,
        paper=RULES["logits_not_flat"].paper,
    ),
    "attention_shows": Rule(
        what="the largest singular value of the moments over the largest that noise gives",
        purpose="attention must stand out from noise of the labels",
        phase="all phases",
        at_least=True,
        sculpt=1.0,
        exact=1.0,
        paper="labels without noise",
    ),
    "head_count": Rule(
        what="the confidence with which moments count the heads",
        purpose="heads of low rank, or in few coordinates, leave no gap to count by",
        phase="phase 5, span",
        at_least=True,
        sculpt=ExactConfig().sure,
        exact=None,
        paper="attention matrices not of too low rank; the number of heads is given",
    ),
    "heads": RULES["heads"],
}


def check_examples(X: Any, Y: Any, seed: int = 0) -> Check:
    """What examples X (n, k, d), Y (n, k, d_out) show of the conditions, before learning.

    Only what a learner would be allowed to fit is looked at. Conditions that such examples say
    nothing of are left out.

    >>> from gradine import AttentionLayer, plant, sample_inputs
    >>> X = sample_inputs(4000, seq_len=3, dim=10)
    >>> layer = plant(heads=2, dim=10, scale=4.0)
    >>> check_examples(X, layer(X)).holds
    True
    >>> flat = AttentionLayer(0.1 * layer.theta, layer.w)
    >>> [condition.name for condition in check_examples(X, flat(X)).failing()]
    ['attention_varies']
    """
    return check_source(ArrayExamples(X, Y), seed)


def check_source(examples: Examples, seed: int = 0) -> Check:
    """Like `check_examples`, for examples from anywhere."""
    config = LearnConfig()
    split = config.split(examples.n, seed)
    seen = survey(examples, may_decide=split.fit_rows)
    data = fitting_data(examples, split, seen, config, Listener())
    k, unknowns = data.seq_len, data.unknowns
    values = {
        "examples": split.n_fit * k / unknowns,
        "held_out": len(split.certify),
        "tokens": k / min(data.dim, data.out_dim),
    }
    heads = 1
    if len(split.certify) >= CERTIFY:  # of fewer, all else would be chance
        few = _few_of(data, seed)
        values |= {"inputs": float(seen.kind != "other"), "token_conditioning": _spread(few)}
        if seen.kind != "other":
            values |= _by_crude_sum(few)
        if seen.kind != "other" and split.n_fit >= LEAST:
            found = moment_spectrum(few, ExactConfig().moments, seed)
            values |= _by_moments(found, values["examples"])
            if found.confidence >= ExactConfig().sure:
                heads = max(found.heads, 1)
                values["heads"] = heads / data.dim
    per_head = (unknowns + data.dim * data.out_dim) / (data.out_dim * unknowns)
    rules = dict(DATA_RULES)
    rules["examples"] = replace(rules["examples"], exact=ABOVE_BOUND * heads * per_head)
    conditions = [rule.judge(name, values[name]) for name, rule in rules.items() if name in values]
    return Check(tuple(conditions), f"{examples.n} examples of {k} tokens")


def _few_of(data: FittingData, seed: int) -> FittingData:
    """A sample of what may be fitted: a check should not take as long as learning."""
    X, Y = data.sample(SEEN, seed)
    none = np.zeros(0, dtype=np.intp)
    return FittingData(ArrayExamples(X, Y), Split(len(X), none, none, seed), data.constant)


def _spread(data: FittingData) -> float:
    """How little tokens differ from others of their sequence in some direction, over how much.

    Attention sees x_r^T Theta (x_j - x_l), so that differences within a sequence are what counts.
    Coordinates are measured in units of their size, as the exact learner does.
    """
    within, squares = data.reduce(_differences, add_each, list)
    size = np.sqrt(np.where(squares > 0.0, squares, 1.0))[: data.dim]
    scaled = within[: data.dim, : data.dim] / np.outer(size, size)
    values = np.maximum(np.linalg.eigvalsh(scaled), 0.0)
    return float(np.sqrt(values[0] / max(values[-1], np.finfo(float).tiny)))


def _differences(X: Array, Y: Array) -> list[Array]:
    """Sums over a block: products of tokens without the mean of their sequence, and squares."""
    tokens = (X - X.mean(axis=1, keepdims=True)).reshape(-1, X.shape[2])
    return [tokens.T @ tokens, np.sum(X**2, axis=(0, 1))]


def _by_moments(found: Spectrum, rows_per_unknown: float) -> dict[str, float]:
    """What third-order moments show; their noise hides heads where examples are few."""
    values = {"attention_varies": found.energy, "head_count": found.confidence}
    if rows_per_unknown >= ROWS_PER_UNKNOWN:
        largest = float(found.values[0]) if len(found.values) else 0.0
        values["attention_shows"] = largest / max(found.edge, np.finfo(float).tiny)
    return values


def _by_crude_sum(data: FittingData) -> dict[str, float]:
    """What phase 1 of the theorem's learner would find."""
    crude = crude_sum(data, replace(SculptConfig(), least_sum_energy=0.0))
    return {
        "sum_energy": crude.energy,
        "sum_conditioning": conditioning(crude.estimate[: data.dim], data.seq_len),
    }
