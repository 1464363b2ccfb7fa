"""Levenberg-Marquardt over all parameters of an attention layer.

    min over Theta_i (D x d), W_i (D x d_out):  sum_n | Y_n - sum_i softmax(X Theta_i X^T) X W_i |^2

With P the attention of head i, V = X W_i its values and O = P V its output, the derivative of
row r, output a is

    d y_ra / d Theta_i = x_r Q_ra^T,    Q_ra = sum_j P_rj (V_ja - O_ra) x_j
    d y_ra / d W_i     = (P X)_r e_a^T

(of another attention function, the slopes stand for P in Q; without O where it is not normalised)

so the normal equations are sums over examples, built in blocks; one damped Cholesky solve a step.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gradine.attention_functions import SOFTMAX, Attended, AttentionFunction

__all__ = ["LevenbergResult", "levenberg_marquardt", "theta_jacobian"]

Array = NDArray[np.float64]

BLOCK_BYTES = 128 * 2**20  # of Jacobian held at once
FLOOR = 1e-15  # relative residual at which nothing is left to gain in double precision
RESTS = 1e-4  # share of the cost by which so many steps in a row must lower it to go on
PATIENCE = 4


class LevenbergResult(NamedTuple):
    theta: Array  #: (m, D, d)
    w: Array  #: (m, D, d_out)
    losses: Array  #: relative RMS residual after each accepted step, the start first


def levenberg_marquardt(
    X: Array,
    Y: Array,
    theta: Array,
    w: Array,
    *,
    steps: int = 80,
    function: AttentionFunction = SOFTMAX,
) -> LevenbergResult:
    """Fit all heads to the examples, from a start that is close enough.

    ``X`` (n, k, D), ``Y`` (n, k, d_out), ``theta`` (m, D, d): keys use the first d coordinates.
    """
    from scipy.linalg import LinAlgError, cho_factor, cho_solve

    total = max(float(np.sum(Y**2)), np.finfo(float).tiny)
    normal, gradient, cost = _normal_equations(X, Y, theta, w, function)
    losses, damping, growth, idle = [np.sqrt(cost / total)], 1e-3, 2.0, 0
    resting = 0
    for _ in range(steps):
        scale = np.maximum(np.diag(normal), 1e-12 * np.diag(normal).max())
        damped = normal.copy()
        damped.flat[:: len(damped) + 1] += damping * scale
        try:
            step = cho_solve(cho_factor(damped, overwrite_a=True), gradient)
        except LinAlgError:
            damping, growth = damping * growth, growth * 2.0
            continue
        new_theta = theta + step[: theta.size].reshape(theta.shape)
        new_w = w + step[theta.size :].reshape(w.shape)
        new_cost = _cost(X, Y, new_theta, new_w, function)
        predicted = float(step @ (damping * scale * step + gradient))
        gain = (cost - new_cost) / max(predicted, np.finfo(float).tiny)
        if not np.isfinite(new_cost) or gain <= 0.0:
            damping, growth = damping * growth, growth * 2.0
            idle += 1
            if idle > 12:
                break
            continue
        theta, w, idle, growth = new_theta, new_w, 0, 2.0
        damping = max(damping * max(1.0 / 9.0, 1.0 - (2.0 * gain - 1.0) ** 3), 1e-14)
        resting = resting + 1 if new_cost > (1.0 - RESTS) * cost else 0
        normal, gradient, cost = _normal_equations(X, Y, theta, w, function)
        losses.append(np.sqrt(cost / total))
        if losses[-1] < FLOOR or resting >= PATIENCE:
            break
    return LevenbergResult(theta, w, np.array(losses))


def _forward(
    X: Array, theta: Array, w: Array, function: AttentionFunction
) -> tuple[Attended, Array, Array]:
    """Attention (n, m, k, k), values (n, m, k, o) and outputs of the heads (n, m, k, o)."""
    keys = X[:, None, :, : theta.shape[2]]
    attended = function.attend((X[:, None] @ theta) @ keys.swapaxes(2, 3))
    values = X[:, None] @ w
    return attended, values, attended.weights @ values


def _cost(X: Array, Y: Array, theta: Array, w: Array, function: AttentionFunction) -> float:
    size = max(1, BLOCK_BYTES // (8 * 8 * X[0].size * len(theta)))
    cost = 0.0
    for at in range(0, len(X), size):
        heads = _forward(X[at : at + size], theta, w, function)[2]
        cost += float(np.sum((Y[at : at + size] - heads.sum(axis=1)) ** 2))
    return cost


def _normal_equations(
    X: Array, Y: Array, theta: Array, w: Array, function: AttentionFunction
) -> tuple[Array, Array, float]:
    """J^T J, J^T residual and the squared residual."""
    n, k, width = X.shape
    m, _, dim = theta.shape
    outputs = Y.shape[2]
    p, q = theta.size, m * width
    block = max(1, BLOCK_BYTES // (8 * k * outputs * p))
    over_theta, over_both, over_w = np.zeros((p, p)), np.zeros((q, outputs, p)), np.zeros((q, q))
    to_theta, to_w, cost = np.zeros(p), np.zeros((q, outputs)), 0.0
    for at in range(0, n, block):
        x, y = X[at : at + block], Y[at : at + block]
        attended, values, heads = _forward(x, theta, w, function)
        residual = (y - heads.sum(axis=1)).reshape(-1, outputs)
        centre = heads if function.normalised else None
        jacobian = _theta_jacobian(x, attended.slopes, values, centre, dim)  # (rows, o, p)
        features = (attended.weights @ x[:, None]).swapaxes(1, 2).reshape(-1, q)
        flat = jacobian.reshape(-1, p)
        over_theta += flat.T @ flat
        over_both += (features.T @ jacobian.reshape(len(features), -1)).reshape(q, outputs, p)
        over_w += features.T @ features
        to_theta += flat.T @ residual.ravel()
        to_w += features.T @ residual
        cost += float(np.sum(residual**2))
    corner = over_both.reshape(q * outputs, p)
    normal = np.block([[over_theta, corner.T], [corner, np.kron(over_w, np.eye(outputs))]])
    return normal, np.concatenate([to_theta, to_w.ravel()]), cost


def theta_jacobian(
    X: Array, theta: Array, w: Array, function: AttentionFunction = SOFTMAX
) -> Array:
    """d y / d Theta of all examples, as (n k, d_out, m D d)."""
    attended, values, heads = _forward(X, theta, w, function)
    centre = heads if function.normalised else None
    return _theta_jacobian(X, attended.slopes, values, centre, theta.shape[2])


def _theta_jacobian(
    X: Array, slopes: Array, values: Array, centre: Array | None, dim: int
) -> Array:
    """d y / d Theta as (n k, d_out, m D d); ``centre`` is O, where it takes part."""
    n, k, width = X.shape
    m, outputs = values.shape[1], values.shape[3]
    keys = X[:, None, :, :dim]
    # sum_j s_rj V_ja x_j  and  O_ra sum_j s_rj x_j, for all outputs at once
    products = (values[..., :, None] * keys[..., None, :]).reshape(n, m, k, outputs * dim)
    mixed = (slopes @ products).reshape(n, m, k, outputs, dim)
    if centre is not None:
        mixed -= centre[..., None] * (slopes @ keys)[..., None, :]
    jacobian = X[:, None, :, None, :, None] * mixed[:, :, :, :, None, :]  # n m k o D d
    return jacobian.transpose(0, 2, 3, 1, 4, 5).reshape(n * k, outputs, m * width * dim)
