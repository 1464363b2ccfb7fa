r"""How often all heads look the same way: chances that phases 2 and 3 of [CL25] live on.

For a random head, :math:`\Theta` Gaussian of Frobenius norm s, the logits of a row given its
tokens are Gaussian with covariance :math:`s^2 G`, :math:`G = X X^\top / d` the Gram matrix of the
tokens, up to :math:`O(1/d^2)`: :math:`\langle \Theta, x_r x_j^\top \rangle` for j = 1, ..., k.
Given X the heads are independent and alike. So chances over m heads are powers of chances of one
head, averaged over Gram matrices:

.. math:: P(\text{matched}) = E_G\, E_p\, P_{p'}\big(|p' - p|_\infty \le \tau\big)^{m-1},
          \qquad
          P(\text{margin}) = E_G\, k\, P\big(l_1 \ge l_j + \mu \ \forall j \ne 1\big)^m ,

where :math:`p, p'` are patterns (softmax of logits) of one head; tokens are alike, so that the
first stands for all. With many heads a power near 1 on rare sequences outweighs the rest: tokens
that are equal or nearly so are always matched, tokens opposite to all others win most often. So
two tokens are summed over how many signs they differ in, and with more of them such sequences are
drawn on purpose and weighted. Inner integrals are over fixed nodes: rare events cost no more than
frequent ones, as a power is taken and nothing is waited for.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from gradine.checks import whole_number
from gradine.kernels import softmax
from gradine.sculpt.config import SculptConfig

__all__ = ["margin_probability", "matched_probability"]

Array = NDArray[np.float64]

GRAMS, PATTERNS = 384, 256  # matched: token sequences to average over, nodes for each
MARGIN_GRAMS, NODES = 1024, 128
WORK = 2**28  # multiplications, about, that a chance may take: fewer sequences where they are long
FEW_HEADS = 32  # up to here powers are without bias


def matched_probability(
    heads: int, seq_len: int, dim: int, scale: float, tolerance: float, *, informative: bool = True
) -> float:
    """Chance that on one row all heads have the attention of the first to within ``tolerance``.

    With ``informative`` the row must say something, too, as phase 2 asks: its second largest
    weight is at least `SculptConfig.least_weight`.

    >>> round(matched_probability(1, seq_len=3, dim=10, scale=4.0, tolerance=0.1), 2)
    0.74
    >>> round(matched_probability(2, seq_len=3, dim=10, scale=4.0, tolerance=0.1), 3)
    0.076
    """
    m, k, d, s = _checked(heads, seq_len, dim, scale)
    if not 0.0 < tolerance < 1.0:
        raise ValueError(f"tolerance is {tolerance}; expected between 0 and 1")
    least = SculptConfig().least_weight if informative else 0.0
    if k == 1:
        return float(not informative)  # the one weight says nothing
    if k == 2:
        spreads, chances = _two_tokens(d, s)
        return float(chances @ _matched_pair(spreads, m, tolerance, least))
    patterns, weights = _patterns(k, d, s)
    return float(weights @ [_matched(p, m, tolerance, least) for p in patterns])


def margin_probability(heads: int, seq_len: int, dim: int, scale: float, margin: float) -> float:
    """Chance that on one row all heads prefer one token, by ``margin`` over every other.

    >>> round(margin_probability(2, seq_len=3, dim=10, scale=4.0, margin=2.0), 2)
    0.13
    """
    from scipy.special import ndtr

    m, k, d, s = _checked(heads, seq_len, dim, scale)
    if not margin >= 0.0:
        raise ValueError(f"margin is {margin}; expected a number from 0 on")
    if k == 1:
        return 1.0
    if k == 2:
        spreads, chances = _two_tokens(d, s)
        return float(2.0 * chances @ ndtr(-margin / np.maximum(spreads, 1e-9)) ** m)
    grams, weights = _sequences_apart(_affordable(MARGIN_GRAMS, k * k * (d + NODES + k)), k, d)
    return float(k * (weights @ _wins(grams, margin / s) ** m))


def _affordable(count: int, work: int) -> int:
    """How many sequences to take, of so much work each."""
    return min(count, max(2, WORK // work))


def _two_tokens(d: int, scale: float) -> tuple[Array, Array]:
    """Standard deviation of the difference of two logits, by signs that differ, and its chance."""
    signs = np.arange(d + 1.0)
    chances = np.exp(_log_binomial(signs, d))
    seen = chances > 1e-18  # the rest adds up to less than anyone waits for
    return 2.0 * scale * np.sqrt(signs[seen] / d), chances[seen]


def _matched_pair(spreads: Array, heads: int, tolerance: float, least: float) -> Array:
    """The chance for two tokens, for each standard deviation of the difference of their logits.

    The first head's is integrated by Gauss-Legendre, up to where it says no more and beyond.
    """
    from scipy.special import expit, logit, ndtr

    spreads = np.maximum(spreads, 1e-9)[:, None]
    nodes, shares = np.polynomial.legendre.leggauss(PATTERNS // 2)
    said = np.minimum(logit(1.0 - (least or 0.01)) / spreads, 9.0)
    total = np.zeros(len(spreads))
    for low, high in ((0.0, said), (said, np.maximum(said, 9.0)))[: 2 if least == 0.0 else 1]:
        z = low + (high - low) * (nodes + 1.0) / 2.0
        p = expit(spreads * z)
        upper, lower = (logit(np.clip(p + t, 0.0, 1.0)) for t in (tolerance, -tolerance))
        near = ndtr(upper / spreads) - ndtr(lower / spreads)
        density = np.exp(-(z**2) / 2.0) / math.sqrt(2.0 * math.pi)
        total += ((high - low) * shares * density * near ** (heads - 1)).sum(axis=1)
    return total  # twice one half of the line


def _matched(p: Array, heads: int, tolerance: float, least: float) -> float:
    """The chance for one Gram matrix, whose patterns are at the nodes ``p`` (N, k).

    Of N - 1 other nodes, c are near a node. The power of c / (N - 1) is too large where c is
    small; the chance that m - 1 different nodes are all near it is not.
    """
    from scipy.spatial.distance import pdist, squareform

    said = np.partition(p, -2, axis=1)[:, -2] >= least
    others = heads - 1
    if others == 0 or not said.any():
        return float(np.mean(said))
    near = squareform(pdist(p, "chebyshev") <= tolerance)[said].sum(axis=1)
    chance = np.ones(len(near))
    for taken in range(min(others, FEW_HEADS)):
        chance *= np.maximum(near - taken, 0.0) / (len(p) - 1.0 - taken)
    return float((chance ** max(1.0, others / FEW_HEADS)).sum() / len(p))


def _wins(grams: Array, level: float) -> Array:
    """P(l_1 - l_j >= level for all j) for each Gram matrix, by sequential conditioning (Genz).

    With the differences D = L y, L lower triangular, y_1 must exceed level / L_11, then y_2 what is
    left for it, and so on: each is drawn from its tail, and the product of tails is averaged.
    """
    from scipy.special import ndtr, ndtri

    k = grams.shape[1]
    cross = grams[:, 0, 1:]
    C = 1.0 - cross[:, :, None] - cross[:, None, :] + grams[:, 1:, 1:]
    L = np.linalg.cholesky(C + 1e-9 * np.eye(k - 1))  # equal tokens: no margin between them
    u = _nodes(NODES, k - 1)
    y = np.zeros((len(grams), NODES, k - 1))
    product = np.ones((len(grams), NODES))
    for i in range(k - 1):
        known = np.einsum("gni,gi->gn", y[:, :, :i], L[:, i, :i])
        tail = ndtr((known - level) / L[:, i, i, None])
        product *= tail
        y[:, :, i] = -ndtri(np.maximum(u[:, i] * tail, np.finfo(float).tiny))
    return product.mean(axis=1)


@lru_cache(maxsize=1)
def _patterns(k: int, d: int, scale: float) -> tuple[list[Array], Array]:
    """Attention of one head at the nodes, (N, k), for each Gram matrix, and weights of these.

    Nodes are independent: quasi-random ones keep away from each other, and pairs are counted here.
    """
    rng = np.random.default_rng(0)
    grams, weights = _sequences_alike(_affordable(GRAMS, k * (d * k + PATTERNS**2)), k, d)
    values, vectors = np.linalg.eigh(grams)
    roots = vectors * np.sqrt(np.maximum(values, 0.0))[:, None, :]
    z = rng.standard_normal((len(grams), PATTERNS, k))
    return list(softmax(scale * z @ roots.swapaxes(1, 2))), weights


def _sequences_alike(count: int, k: int, d: int) -> tuple[Array, Array]:
    """Gram matrices of sequences of which many have tokens nearly equal, and their weights.

    Tokens form a chain. With some chance a token is a copy of the one before or, as often, has a
    number of signs changed that is uniform from 0 to d; else it is a random token. Any grouping of
    tokens into nearly equal ones occurs in some order along the chain, and order does not matter.
    """
    rng = np.random.default_rng(0)
    shares = np.array([min(0.5, 1.0 / (k - 1)), 0.5, 0.95])  # of tokens near the one before
    share = shares[np.arange(count) % 3, None]
    near, copied, theta = rng.random((3, count, k - 1))
    theta = np.where(near < share, np.where(copied < 0.5, 0.0, theta), 0.5)
    changed = rng.random((count, k - 1, d)) < theta[:, :, None]
    signs = changed.sum(axis=2, dtype=np.float64)
    usual = _log_binomial(signs, d)
    drawn = np.log(np.where(signs == 0, 0.5, 0.0) + 0.5 / (d + 1.0))
    each = np.logaddexp(usual[..., None] + np.log1p(-shares), drawn[..., None] + np.log(shares))
    weights = usual.sum(axis=1) - np.logaddexp.reduce(each.sum(axis=1), axis=1)
    tokens = np.cumprod(np.where(changed, -1.0, 1.0), axis=1, dtype=np.float64)
    return _grams(tokens), _normed(weights)


def _sequences_apart(count: int, k: int, d: int) -> tuple[Array, Array]:
    """Gram matrices of sequences whose first token is often far from all others, and their weights.

    In every other sequence the number of signs in which others differ from the first, over all of
    them, is uniform from 0 to (k - 1) d.
    """
    rng = np.random.default_rng(0)
    theta = np.where(np.arange(count) % 2, (np.arange(count) + 0.5) / count, 0.5)
    changed = rng.random((count, k - 1, d)) < theta[:, None, None]
    usual = _log_binomial(changed.sum(axis=(1, 2), dtype=np.float64), (k - 1) * d)
    weights = usual - np.logaddexp(usual, -math.log((k - 1.0) * d + 1.0))
    return _grams(np.where(changed, -1.0, 1.0)), _normed(weights)


def _grams(others: Array) -> Array:
    """With the first token all ones: signs of a coordinate are the same for all tokens or not."""
    X = np.concatenate([np.ones_like(others[:, :1]), others], axis=1)
    return X @ X.swapaxes(1, 2) / X.shape[2]


def _normed(logarithms: Array) -> Array:
    weights = np.exp(logarithms - logarithms.max())
    return weights / weights.sum()


def _log_binomial(successes: Array, trials: int) -> Array:
    """Of the chance of so many heads in fair tosses."""
    from scipy.special import gammaln

    ways = gammaln(trials + 1.0) - gammaln(successes + 1.0) - gammaln(trials - successes + 1.0)
    return ways - trials * math.log(2.0)


def _nodes(count: int, dim: int) -> Array:
    """A Latin hypercube: quasi-random points do no better here, and worse in many dimensions."""
    evenly = np.tile((np.arange(count) + 0.5) / count, (dim, 1))
    return np.random.default_rng(0).permuted(evenly, axis=1).T


def _checked(heads: int, seq_len: int, dim: int, scale: float) -> tuple[int, int, int, float]:
    if not (math.isfinite(scale) and scale > 0):
        raise ValueError(f"scale is {scale}; expected a positive finite number")
    sizes = (("heads", heads), ("seq_len", seq_len), ("dim", dim))
    m, k, d = (whole_number(name, value, 1) for name, value in sizes)
    return m, k, d, float(scale)
