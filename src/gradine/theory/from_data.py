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

from gradine.exact.config import ExactConfig
from gradine.exact.moments import moment_spectrum
from gradine.examples import ArrayExamples, Examples, FittingData, Split, survey
from gradine.fit import LearnConfig
from gradine.learn import fitting_data
from gradine.progress import Listener
from gradine.sculpt.config import SculptConfig
from gradine.sculpt.crude_sum import crude_sum
from gradine.theory.conditions import conditioning
from gradine.theory.judgement import Check, Rule
from gradine.theory.rules import RULES

__all__ = ["DATA_RULES", "check_examples", "check_source"]

SEEN = 20_000  # examples at most that are looked at
LEAST = 1_000  # examples: with fewer, moments are noise
ROWS_PER_UNKNOWN = 30.0  # sculpt learned from 28 (1,000 examples, 2 heads, d = 8), not from 8
ABOVE_BOUND = 1.5  # times the counting bound: from there on the exact learner succeeds

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
    "tokens": RULES["tokens"],
    "sum_energy": Rule(
        what="the share of the outputs' energy that the crude sum carries",
        purpose=RULES["sum_size"].purpose,
        phase=RULES["sum_size"].phase,
        at_least=True,
        sculpt=0.35,
        exact=None,
        paper=RULES["sum_size"].paper,
    ),
    "sum_conditioning": RULES["sum_conditioning"],
    "attention_varies": Rule(
        what="the share of the outputs' variance that is not linear in the tokens",
        purpose=RULES["logits_not_flat"].purpose,
        phase=RULES["logits_not_flat"].phase,
        at_least=True,
        sculpt=0.35,
        exact=1e-6,
        paper=RULES["logits_not_flat"].paper,
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
        "inputs": float(seen.kind != "other"),
        "examples": split.n_fit * k / unknowns,
        "tokens": k / min(data.dim, data.out_dim),
    }
    heads = 1
    if seen.kind != "other":
        few = _few_of(data, seed)
        values |= _by_crude_sum(few)
        if split.n_fit >= LEAST:
            found = moment_spectrum(few, ExactConfig().moments, seed)
            values |= {"attention_varies": found.energy, "head_count": found.confidence}
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


def _by_crude_sum(data: FittingData) -> dict[str, float]:
    """What phase 1 of the theorem's learner would find."""
    crude = crude_sum(data, replace(SculptConfig(), least_sum_energy=0.0))
    return {
        "sum_energy": crude.energy,
        "sum_conditioning": conditioning(crude.estimate[: data.dim], data.seq_len),
    }
