"""Count the heads, and find the spans of their matrices, from third-order moments.

The moment matrix M (`gradine.exact.operator`) is sum_i vec(W_i) vec(Theta_i)^T, its mirror image
under exchange of two indices, terms of higher order, and noise. Block power iteration

    A <- orthonormalise((M - S) B),     B <- (M - S)^T A,     S the mirror image of the heads so far

finds its leading singular vectors in two passes a round. As soon as there is an estimate of the
heads, their mirror image is subtracted in the next round, which costs no pass: M - S tends to
M_0 of rank m. Then the right singular space is span(Theta_i), the left one span(W_i).

How large a singular value can be without any head is read off a second block of probes, which
meets the same sum with random signs of the examples.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from gradine.engine import time_is_up
from gradine.exact.operator import LowRank, MomentOperator, moment_operator
from gradine.exact.results import Spectrum
from gradine.examples import FittingData
from gradine.settings import Count, Number, Settings, Threshold, Whole

__all__ = ["MomentConfig", "count_heads", "moment_spectrum"]

Array = NDArray[np.float64]


@dataclass(frozen=True)
class MomentConfig(Settings):
    """Settings of the count; each default was chosen by measurement on planted layers."""

    #: Singular values that are followed at first, and at most: doubled while heads fill them.
    probes: Count = 16
    most_probes: Count = 256
    #: Singular values followed beyond the heads: what the last head has to stand out from, and
    #: what makes the power iteration converge fast.
    spare: Whole = 4
    #: Probes of the null. Four agree to some 5 %: the edge of a noise spectrum is crowded.
    nulls: Count = 4
    #: Rounds of two passes. Two rounds show the heads, the others subtract their mirror image.
    least_rounds: Count = 3
    most_rounds: Count = 12
    #: Rounds end when no head's value moves by more than this share.
    settled: Threshold = 0.03
    #: A value counts as signal above this multiple of the null's largest, which a power iteration
    #: approaches from below.
    edge_factor: Threshold = 1.15
    #: Once there is a head, the others need to be above this multiple of the edge only: the null
    #: has the energy of the heads in its noise.
    floor: Threshold = 0.75
    #: A fall of this ratio from one value to the next ends the heads, even if there is a steeper
    #: one before it: heads may differ in size, what is beyond them falls slowly.
    clear_gap: Threshold = 1.3
    #: log-odds that the count is right: offset + gap * log(last head's value / next value)
    #: + depth * log(edge / next value) - unsettled (if the rounds ran out). Fitted to planted
    #: layers with few examples, low rank and heads of unequal size; right as often as it says on
    #: 240 others.
    confidence_offset: Number = -2.4
    confidence_gap: Number = 4.7
    confidence_depth: Number = 7.5
    confidence_unsettled: Number = 1.3
    #: Blocks of examples that are counted by at first; twice as many, and so on, until the count is
    #: so certain. Fewer examples are all looked at.
    first_leg: Count = 64
    certain: Threshold = 0.999
    #: Outputs that are linear in the tokens to this share of their variance show no attention.
    least_energy: Threshold = 1e-9


def moment_spectrum(
    data: FittingData, config: MomentConfig, seed: int, *, normalised: bool = True
) -> Spectrum:
    """Leading singular values and vectors of the moment matrix, and the count of the heads.

    Of many examples, the first ones are looked at, and twice as many until the gap is certain.
    Tokens must be independent with coordinates that are independent, of mean 0 and variance 1:
    +-1 or Gaussian. The caller knows whether they are; `Spectrum.not_applicable` is for it, too.
    ``normalised`` says that attention adds up to 1.
    """
    began = time.perf_counter()
    found = None
    for leg in data.legs(config.first_leg):
        assert leg.between is not None
        part = replace(data, between=(0, leg.between[1]))  # all so far: heads must agree
        found = _spectrum_of(part, config, seed, normalised)
        if found.confidence >= config.certain or time_is_up(data.deadline):
            break
    assert found is not None
    return replace(found, seconds=time.perf_counter() - began)


def _spectrum_of(data: FittingData, config: MomentConfig, seed: int, normalised: bool) -> Spectrum:
    began = time.perf_counter()
    operator = moment_operator(data, seed, normalised=normalised)
    if operator.energy < config.least_energy:
        reason = "the outputs are linear in the tokens: attention does not vary"
        return Spectrum.not_applicable(reason, data.dim, data.out_dim)
    rng = np.random.default_rng([seed, 1])
    found, edge, heads, rounds, settled = _power_iteration(operator, config, rng)
    reason = "" if heads else "no singular value of the moment matrix is above its noise"
    return Spectrum(
        values=found.values,
        edge=edge,
        heads=heads,
        confidence=_confidence(found, edge, heads, settled, config),
        theta_span=found.right[:heads],
        w_span=found.left[:heads],
        energy=operator.energy,
        passes=1 + 2 * rounds,
        examples=operator.examples,
        applies=True,
        reason=reason,
        seconds=time.perf_counter() - began,
    )


def count_heads(values: Array, edge: float, config: MomentConfig) -> int:
    """How many of the decreasing ``values`` are heads: those before the last clear gap.

    Without a clear gap, those before the widest one. Only values above the noise edge count.

    >>> count_heads(np.array([5.0, 4.0, 2.5, 0.6, 0.5]), 0.5, MomentConfig())
    3
    """
    falls = _falls(values, edge, config)
    if not len(falls):
        return 0
    clear = np.flatnonzero(falls >= config.clear_gap)
    return int(clear[-1] if len(clear) else np.argmax(falls)) + 1


def _falls(values: Array, edge: float, config: MomentConfig) -> Array:
    """Ratio of each value above the edge to what comes next, noise included.

    Nobody knows what comes after the last value, so that it is left out.
    """
    if not len(values) or values[0] <= edge:
        return np.zeros(0)
    above = min(int(np.sum(values > config.floor * edge)), max(len(values) - 1, 1))
    following = np.append(values[1:], 0.0)[:above]
    return values[:above] / np.maximum(following, np.finfo(float).tiny)


def _confidence(
    found: LowRank, edge: float, heads: int, settled: bool, config: MomentConfig
) -> float:
    """The chance that the count is right: a wide gap after the heads, and only noise behind it.

    Heads that are their own mirror image make it small: M = M_0 + S(M_0) is then as well explained
    by two halves, which happens for heads with W_i and Theta_i of rank one.
    """
    tiny = np.finfo(float).tiny
    last = found.values[heads - 1] if heads else edge
    following = max(found.values[heads] if heads < len(found.values) else 0.0, tiny)
    odds = (
        config.confidence_offset
        + config.confidence_gap * math.log(max(last, tiny) / following)
        + config.confidence_depth * math.log(max(edge, tiny) / following)
        - config.confidence_unsettled * (not settled)
    )
    chance = 1.0 / (1.0 + math.exp(-min(max(odds, -50.0), 50.0)))
    return chance * min(1.0, max(0.0, 2.0 * (1.0 - found.first(heads).overlap())))


def _power_iteration(
    operator: MomentOperator, config: MomentConfig, rng: np.random.Generator
) -> tuple[LowRank, float, int, int, bool]:
    """Singular triplets of M without its mirror image, the noise edge, the count, the
    rounds, and whether they had settled."""
    d, o = operator.data.dim, operator.data.out_dim
    most = min(config.most_probes, d * d, d * o)
    size = min(config.probes, most)
    right = rng.standard_normal((size, d, d))
    null = rng.standard_normal((min(config.nulls, most), d, d))
    model, heads, before, rounds = None, -1, np.zeros(size), 0
    while True:
        found, null, edge = _round(operator, model, right, null)
        edge *= config.edge_factor
        rounds += 1
        counted = count_heads(found.values, edge, config)
        moved = np.abs(found.values - before)[:counted] / found.values[:counted]
        still = counted == heads and moved.max(initial=0.0) < config.settled
        still = still and rounds >= config.least_rounds
        heads, before = counted, found.values
        full = size < most and (heads > size - config.spare or (still and found.values[-1] > edge))
        if rounds >= config.most_rounds or (still and not full):
            return found, edge, heads, rounds, still
        right = found.right
        if full:
            fresh = rng.standard_normal((min(size, most - size), d, d))
            right, size = np.concatenate([right, fresh]), size + len(fresh)
            before = np.zeros(size)
        model = _soft(found)


def _soft(found: LowRank) -> LowRank:
    """The heads so far: all values take part, less the smallest of them.

    Which values are heads and which their mirror image may not be visible yet. Soft thresholding
    needs no decision: it is a step towards the M_0 of smallest nuclear norm, and opens the gap.
    """
    return LowRank(found.values - found.values[-1], found.left, found.right)


def _round(
    operator: MomentOperator, model: LowRank | None, right: Array, null: Array
) -> tuple[LowRank, Array, float]:
    """Once through M and back, for the probes and for the null's."""
    size, nulls, rho = len(right), len(null), operator.rho
    image = operator.apply(np.concatenate([right, null]), nulls)
    if model is not None:
        image[:size] -= model.mirror(right, rho)
    left = np.concatenate([_orthonormal(image[:size]), _orthonormal(image[size:])])
    back = operator.adjoint(left, nulls)
    if model is not None:
        back[:size] -= model.mirror_adjoint(left[:size], rho)
    found = _triplets(left[:size], back[:size])
    noise = _triplets(left[size:], back[size:])
    return found, noise.right, float(noise.values[0])


def _orthonormal(matrices: Array) -> Array:
    """An orthonormal basis of the span of matrices (L, p, q)."""
    flat = np.linalg.qr(matrices.reshape(len(matrices), -1).T)[0]
    return np.ascontiguousarray(flat.T).reshape(matrices.shape)


def _triplets(left: Array, back: Array) -> LowRank:
    """Singular triplets of the operator on the orthonormal ``left``, from its transpose there."""
    flat = back.reshape(len(back), -1)
    rotation, values, rows = np.linalg.svd(flat, full_matrices=False)
    turned = np.tensordot(rotation.T, left, axes=1)
    return LowRank(values, turned, rows.reshape(back.shape))
