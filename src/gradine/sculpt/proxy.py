"""Phase 3: the proxy and the refined sum [CL25, phase 3].

Theta* is the minimum-norm point of the body; it is close to the mean of the heads. Where it
predicts a large margin for token j over all others, all heads look at j, and

    y = x_j W   up to exp(-margin).

Least squares over such rows refines the estimate of W by orders of magnitude.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gradine.examples import FittingData
from gradine.sculpt.body import Body, first_of_each
from gradine.sculpt.config import SculptConfig
from gradine.sculpt.results import Proxy
from gradine.solvers.convex import minimum_norm_point
from gradine.solvers.least_squares import trimmed_least_squares
from gradine.status import NotLearned, Status

__all__ = ["Choosing", "MarginRows", "large_margin_rows", "proxy_and_refine"]

Array = NDArray[np.float64]


class MarginRows(NamedTuple):
    """Rows on which a proxy predicts that one token takes all the attention."""

    tokens: Array  #: (rows, D) the token that is looked at
    outputs: Array  #: (rows, d_out)
    margins: Array  #: (rows,)
    examples: int  #: that were looked at

    @property
    def kept(self) -> int:
        return len(self.margins)

    def widest(self, count: int) -> MarginRows:
        """The ``count`` rows of largest margin, each token once (up to sign: F is odd).

        On a small cube few tokens take most of the large margins; alone they would leave rows of
        W unseen.
        """
        order = np.argsort(-self.margins, kind="stable")
        return self._chosen(order[first_of_each(self.tokens[order])[:count]])

    def merge(self, other: MarginRows, count: int) -> MarginRows:
        examples = self.examples + other.examples
        if self.kept == count:  # what is narrower than all of these never comes in
            wider = other.margins > self.margins.min()
            if not wider.any():
                return self._replace(examples=examples)
            other = other._chosen(np.flatnonzero(wider))
        pairs = zip(self[:3], other[:3], strict=True)
        tokens, outputs, margins = (np.concatenate(pair) for pair in pairs)
        return MarginRows(tokens, outputs, margins, examples).widest(count)

    def _chosen(self, which: NDArray[np.intp]) -> MarginRows:
        tokens, outputs, margins = (array[which] for array in self[:3])
        return MarginRows(tokens, outputs, margins, self.examples)


@dataclass(frozen=True, eq=False)
class Choosing:
    """What is done with every block: its rows of largest margin, and those of all."""

    theta: Array
    count: int

    def __call__(self, X: Array, Y: Array) -> MarginRows:
        return large_margin_rows(X, Y, self.theta, self.count).widest(self.count)

    def merged(self, a: MarginRows, b: MarginRows) -> MarginRows:
        return a.merge(b, self.count)


def large_margin_rows(X: Array, Y: Array, theta: Array, count: int) -> MarginRows:
    """The rows of a block on which ``theta`` (D, d) predicts the largest margins."""
    n, k, _ = X.shape
    logits = (X @ theta) @ X[:, :, : theta.shape[1]].swapaxes(1, 2)
    two_largest = np.partition(logits, k - 2, axis=-1)[..., -2:]
    margins = (two_largest[..., 1] - two_largest[..., 0]).ravel()
    count = min(count, n * k)
    best = np.sort(np.argpartition(-margins, count - 1)[:count])
    example, row = np.unravel_index(best, (n, k))
    looked_at = X[example, logits[example, row].argmax(axis=-1)]
    return MarginRows(looked_at, Y[example, row], margins[best], n)


def proxy_and_refine(data: FittingData, body: Body, config: SculptConfig) -> Proxy:
    """Minimum-norm point of the body, then W from the rows of largest margin."""
    began = time.perf_counter()
    carved = body.with_slack(config.proxy_slack * body.slack)
    theta = minimum_norm_point(carved.A, carved.b, carved.width).reshape(data.width, data.dim)
    count = int(config.margin_rows_per_unknown * data.width)
    choose = Choosing(theta, count)
    rows = data.reduce(choose, choose.merged, MarginRows, until=data.share_of_time())
    keep = min(int(config.trimmed_rows_per_unknown * data.width), (len(rows.margins) + 1) // 2)
    fit = trimmed_least_squares(
        rows.tokens, rows.outputs, keep, least_coverage=config.least_coverage
    )
    if fit.residual > config.largest_margin_residual:
        _explain(body, rows, fit.residual, config)
    return Proxy(
        theta=theta,
        refined_sum=fit.coefficients,
        margins=rows.margins,
        rows=len(fit.kept),
        residual=fit.residual,
        examples=rows.examples,
        seconds=time.perf_counter() - began,
    )


def _explain(body: Body, rows: MarginRows, residual: float, config: SculptConfig) -> None:
    """No linear map fits the selected rows: say whether margins or agreement are missing.

    The proxy itself is short when the slabs are wide; the best-fitting point of the body is not,
    and its norm is the standard deviation of the logits it predicts.
    """
    scaled, target = body.A / body.sigma[:, None], body.b / body.sigma
    logits = float(np.linalg.norm(np.linalg.lstsq(scaled, target, rcond=1e-3)[0]))
    detail = (
        f"rows of the largest margins follow a linear map only to {residual:.2g}, "
        f"{config.largest_margin_residual:g} is needed; logits vary by {logits:.2g}"
    )
    raise NotLearned(
        Status.TOO_FLAT if logits < config.flat_logits else Status.NO_AGREEMENT, detail
    )
