"""What can be asked, and of which examples: refusals before anything is learned."""

from __future__ import annotations

import math

import numpy as np

from gradine.attention_functions import attention_function
from gradine.checks import whole_number
from gradine.exact.heads import unknowns
from gradine.exact.workshop import bytes_under_fit
from gradine.examples import MOST_CERTIFY, Examples, FittingData, Survey
from gradine.fit import LearnConfig
from gradine.memory import check_kept, in_words

__all__ = [
    "check_memory",
    "check_request",
    "check_size",
    "exact_objection",
    "held_out_objection",
    "least_examples",
    "sculpt_objection",
]

LARGEST_OUTPUT = 1e10  # beyond, the polish mixes numbers of too different sizes


def check_request(
    examples: Examples, heads: int | str, seed: int, config: LearnConfig
) -> int | None:
    """The number of heads, None for auto; ``ValueError`` for what cannot be asked."""
    if not isinstance(config, LearnConfig):
        raise ValueError(
            f"config is of type {type(config).__name__}; expected LearnConfig, whose fields exact "
            "and sculpt have the settings of the learners"
        )
    whole_number("seed", seed, 0)
    if heads == "auto":
        return None
    if isinstance(heads, bool) or not isinstance(heads, int | np.integer):
        raise ValueError(f"heads is {heads!r}; expected 'auto' or a whole number")
    if not 1 <= heads <= examples.dim:
        raise ValueError(
            f"heads is {heads}; expected between 1 and {examples.dim}, the dimension of a token"
        )
    return int(heads)


def check_size(data: FittingData, seen: Survey) -> None:
    size = float(np.sqrt(np.sum(seen.y_second)))
    if size == 0.0:  # or so small that its square is
        size = float(np.max(np.abs(seen.y_mean)))
    if size > LARGEST_OUTPUT or 0.0 < size < 1.0 / LARGEST_OUTPUT:
        raise ValueError(
            f"{data.examples.name}: outputs have size {size:.1g}; expected between "
            f"{1 / LARGEST_OUTPUT:g} and {LARGEST_OUTPUT:g} (scale Y)"
        )


def check_memory(data: FittingData, config: LearnConfig) -> None:
    """A small file can ask for much: attention grows with the square of the tokens."""
    each = bytes_under_fit(data, 1)
    why = f"one example of {data.seq_len} tokens takes {in_words(each)} in a fit"
    check_kept(data.memory, config.exact.memory_share, each, why)


def sculpt_objection(
    data: FittingData, seen: Survey, heads: int | None, config: LearnConfig
) -> str:
    """Why the six phases cannot work with these examples; empty if they can."""
    if config.exact.attention != "softmax":
        return (
            f"attention is {config.exact.attention!r}; the six phases are for 'softmax', "
            "expected method 'exact'"
        )
    m = heads or 1
    per_head = data.unknowns + data.width * data.out_dim
    bound = math.ceil(m * per_head / (data.seq_len * data.out_dim))
    needed = max(bound, math.ceil(1.5 * data.unknowns / (data.seq_len * (data.seq_len - 1))))
    if data.split.n_fit < needed:
        return _too_few(data, m, needed, config, ", and the six phases usually thousands")
    if seen.kind == "other":
        return (
            "X is neither uniform on +-1 nor near standard Gaussian; "
            "the six phases need one of these"
        )
    return ""


def exact_objection(data: FittingData, seen: Survey, heads: int | None, config: LearnConfig) -> str:
    """Why variable projection cannot work with these examples; empty if it can."""
    rank = config.exact.rank
    if rank is not None and not 1 <= rank <= data.dim:
        return f"rank is {rank}; expected between 1 and {data.dim}, the dimension of a token"
    m = heads or 1
    keys = data.keys(attention_function(config.exact.attention))
    least = unknowns(m, data.width, keys, data.out_dim, 1 if rank is None else rank)
    needed = math.ceil(least / (data.seq_len * data.out_dim))
    if not len(data.split.validation) or not len(data.split.certify):
        return f"n = {data.examples.n} is too few examples: none is left to check an answer"
    return _too_few(data, m, needed, config, "") if data.split.n_fit < needed else ""


def held_out_objection(data: FittingData, config: LearnConfig) -> str:
    """Why no answer could be verified, whatever is learned; empty if one could."""
    held, least = len(data.split.certify), config.least_certify
    if held >= least:
        return ""
    taken = f"a certificate takes {least} held-out examples"
    if config.certify_examples < least:
        return f"{taken}; certify_examples is {config.certify_examples}"
    return f"{taken}, for which n = {data.examples.n} is too few: {_certifying(config)} do"


def _too_few(data: FittingData, heads: int, needed: int, config: LearnConfig, more: str) -> str:
    total = least_examples(needed, config)
    return (
        f"n = {data.examples.n} is too few examples for the unknowns; {heads} "
        f"head{'s' if heads > 1 else ''} at dim {data.dim} need at least {total}{more}"
    )


def least_examples(needed: int, config: LearnConfig) -> int:
    """The fewest examples of which ``needed`` are left to fit, and enough to certify.

    >>> least_examples(88, LearnConfig()), least_examples(495, LearnConfig())
    (275, 783)
    """
    total = max(needed, _certifying(config))
    while True:
        validation, certify = config.held_out(total)
        missing = needed - (total - validation - certify)
        if missing <= 0:
            return total
        total += missing


def _certifying(config: LearnConfig) -> int:
    """The fewest examples of which enough can be held out to certify."""
    share = max(MOST_CERTIFY, config.held_out_share)
    return math.ceil(config.least_certify / share - 1e-9)
