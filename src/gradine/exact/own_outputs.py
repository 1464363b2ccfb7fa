"""One head from the outputs that it writes to, where next to nothing else is left.

Of all heads together, moments and fits see what the others do as noise, or have to fit it as well.
In the r outputs of a head of rank r (`gradine.exact.spaces`) it is alone,

    z_r = sum_j p_rj x_j V  +  a little of the other heads,

and everything is cheap: a layer with one head and r outputs. What is linear in z starts V, as the
coefficients of all tokens add up to V. One moment with that V starts Theta. Both may be poor, as
they are for tokens of real text; steps of Gauss-Newton do the rest.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from gradine.exact.probes import theta_moment
from gradine.exact.spaces import Space
from gradine.solvers.narrow import Heads, NarrowProblem
from gradine.solvers.narrow_walk import Walk, descend, scaled

__all__ = ["head_of_space"]

Array = NDArray[np.floating]


def head_of_space(
    everything: NarrowProblem,
    rows: NarrowProblem,
    outputs: Array,
    space: Space,
    norms: tuple[float, ...],
    walk: Walk,
) -> Heads:
    """The head (1, ...) that writes to this space of the ``outputs`` (n k, q) of ``everything``.

    It begins with what all of these show, and is fitted to the first of them, ``rows``.
    """
    own = outputs @ space.read
    linear, predicted = everything.linear_part(own)
    others = linear[everything.width :]
    V = math.sqrt(everything.k - 1) * others
    identity = np.eye(V.shape[1], dtype=V.dtype)[None]
    rest = (own - predicted).reshape(everything.n, everything.k, -1)
    U, K = theta_moment(everything.X, rest, everything.dim, (V[None], identity))
    problem = rows.with_outputs(own[: len(rows.Y)])
    start = scaled(problem, Heads(U, K, V[None], identity), others, norms)
    head = descend(problem, start, walk)
    return head._replace(O=head.O @ space.write)
