r"""How often all heads look the same way: chances that phases 2 and 3 of [CL25] live on.

For a random head, :math:`\Theta` Gaussian of Frobenius norm s, the logits of a row given its
tokens are Gaussian with covariance :math:`s^2 G`, :math:`G = X X^\top / d` the Gram matrix of the
tokens, up to :math:`O(1/d^2)`: :math:`\langle \Theta, x_r x_j^\top \rangle` for j = 1, ..., k.
Given X the heads are independent and alike. So chances over m heads are powers of chances of one
head, averaged over Gram matrices:

.. math:: P(\text{matched}) = E_G\, E_p\, P_{p'}\big(|p' - p|_\infty \le \tau\big)^{m-1},
          \qquad
          P(\text{margin}) = E_G \sum_j P\big(l_j \ge l_{j'} + \mu \ \forall j' \ne j\big)^m ,

where :math:`p, p'` are patterns (softmax of logits) of one head. The average over G is over a fixed
set of token sequences, the inner integrals are over fixed nodes. So rare events cost no more than
frequent ones: a power is taken, nothing is waited for.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from gradine.checks import whole_number
from gradine.inputs import sample_inputs
from gradine.kernels import softmax
from gradine.sculpt.config import SculptConfig

__all__ = ["margin_probability", "matched_probability"]

Array = NDArray[np.float64]

GRAMS, PATTERNS = 256, 256  # matched: token sequences to average over, nodes for each
#: Margins: rare sequences, with tokens nearly opposite, have far more of them than others.
MARGIN_GRAMS, NODES = 1024, 64


def matched_probability(
    heads: int, seq_len: int, dim: int, scale: float, tolerance: float, *, informative: bool = True
) -> float:
    """Chance that on one row all heads have the attention of the first to within ``tolerance``.

    With ``informative`` the row must say something, too, as phase 2 asks: its second largest
    weight is at least `SculptConfig.least_weight`.

    >>> round(matched_probability(1, seq_len=3, dim=10, scale=4.0, tolerance=0.1), 2)
    0.73
    >>> round(matched_probability(2, seq_len=3, dim=10, scale=4.0, tolerance=0.1), 3)
    0.074
    """
    m, k, d, s = _checked(heads, seq_len, dim, scale)
    if not 0.0 < tolerance < 1.0:
        raise ValueError(f"tolerance is {tolerance}; expected between 0 and 1")
    least = SculptConfig().least_weight if informative else 0.0
    return float(np.mean([_matched(p, m, tolerance, least) for p in _patterns(k, d, s)]))


def margin_probability(heads: int, seq_len: int, dim: int, scale: float, margin: float) -> float:
    """Chance that on one row all heads prefer one token, by ``margin`` over every other.

    >>> round(margin_probability(2, seq_len=3, dim=10, scale=4.0, margin=2.0), 2)
    0.13
    """
    m, k, d, s = _checked(heads, seq_len, dim, scale)
    if not margin >= 0.0:
        raise ValueError(f"margin is {margin}; expected a number from 0 on")
    if k == 1:
        return 1.0
    grams = _grams(MARGIN_GRAMS, k, d)
    total = sum(np.mean(_wins(grams, j, margin / s) ** m) for j in range(k))
    return float(total)


def _matched(p: Array, heads: int, tolerance: float, least: float) -> float:
    """The chance for one Gram matrix, whose patterns are at the nodes ``p`` (N, k).

    Of N - 1 other nodes, c are near a node. The power of c / (N - 1) is too large where c is
    small; the chance that m - 1 different nodes are all near it is not.
    """
    two = np.partition(p, -2, axis=1)[:, -2] if p.shape[1] > 1 else np.zeros(len(p))
    said = two >= least
    if heads == 1 or not said.any():
        return float(np.mean(said))
    close = np.ones((int(said.sum()), len(p)), dtype=bool)
    for weights in p.T:
        close &= np.abs(weights[said, None] - weights) <= tolerance
    near = close.sum(axis=1) - 1.0
    chance = np.ones(len(near))
    for taken in range(heads - 1):
        chance *= np.maximum(near - taken, 0.0) / (len(p) - 1.0 - taken)
    return float(chance.sum() / len(p))


def _wins(grams: Array, j: int, level: float) -> Array:
    """P(l_j - l_j' >= level for all j') for each Gram matrix, by sequential conditioning (Genz).

    With the differences D = L y, L lower triangular, y_1 must exceed level / L_11, then y_2 what is
    left for it, and so on: each is drawn from its tail, and the product of tails is averaged.
    """
    from scipy.special import ndtr, ndtri

    k = grams.shape[1]
    others = np.delete(np.arange(k), j)
    own = grams[:, j, j][:, None, None]
    cross = grams[:, j, others]
    C = own - cross[:, :, None] - cross[:, None, :] + grams[:, others][:, :, others]
    L = np.linalg.cholesky(C + 1e-9 * np.eye(k - 1))  # equal tokens: no margin between them
    u = _sobol(NODES, k - 1)
    y = np.zeros((len(grams), NODES, k - 1))
    product = np.ones((len(grams), NODES))
    for i in range(k - 1):
        known = np.einsum("gni,gi->gn", y[:, :, :i], L[:, i, :i])
        tail = ndtr((known - level) / L[:, i, i, None])
        product *= tail
        y[:, :, i] = -ndtri(np.maximum(u[:, i] * tail, np.finfo(float).tiny))
    return product.mean(axis=1)


def _patterns(k: int, d: int, scale: float) -> list[Array]:
    """Attention of one head at the nodes, (N, k), for each Gram matrix.

    Nodes are independent: quasi-random ones keep away from each other, and pairs are counted here.
    """
    z = np.random.default_rng(0).standard_normal((GRAMS, PATTERNS, k))
    values, vectors = np.linalg.eigh(_grams(GRAMS, k, d))
    roots = vectors * np.sqrt(np.maximum(values, 0.0))[:, None, :]
    return [softmax(scale * x @ root.T) for x, root in zip(z, roots, strict=True)]


@lru_cache(maxsize=8)
def _grams(count: int, k: int, d: int) -> Array:
    X = sample_inputs(count, k, d, seed=0)
    return X @ X.swapaxes(1, 2) / d


@lru_cache(maxsize=8)
def _sobol(count: int, dim: int) -> Array:
    from scipy.stats import qmc

    points = qmc.Sobol(dim, scramble=False).random_base2(int(math.log2(count)))
    return points + 0.5 / count  # within the cube: the first point is its corner


def _checked(heads: int, seq_len: int, dim: int, scale: float) -> tuple[int, int, int, float]:
    if not (math.isfinite(scale) and scale > 0):
        raise ValueError(f"scale is {scale}; expected a positive finite number")
    sizes = (("heads", heads), ("seq_len", seq_len), ("dim", dim))
    m, k, d = (whole_number(name, value, 1) for name, value in sizes)
    return m, k, d, float(scale)
