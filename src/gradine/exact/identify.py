"""What the examples determine: local identifiability at an answer, and error bars under noise.

Label noise u moves the answer, to first order, by the least-squares response

    dp = H^+ J^T (I - A A^+) u,       dO = A^+ (u - J dp),

whose covariance is the usual one, sigma^2 (J^T J)^+. Drawing u and solving by conjugate gradients
gives samples of that movement, hence error bars of every head, at sizes where H could never be
formed; what a gauge leaves free (U_i K_i^T has many factors) is never entered, as the iteration
stays in the range of H. The same iteration yields Ritz values: the smallest of them are the
directions that the examples determine worst.
"""

from __future__ import annotations

import math
import time

import numpy as np
from numpy.typing import NDArray

from gradine import kernels
from gradine.exact.heads import FitTask, parameters_of, predict
from gradine.exact.results import HeadFit, Identified
from gradine.kernels import AnyArray
from gradine.solvers.gauss_newton import conjugate_gradients
from gradine.solvers.projection import Linearisation, Penalty, Projection, theta_change

__all__ = ["identify", "noise_of", "structure_left"]

Array = NDArray[np.float64]

PRODUCTS = 300  # of one solve; single precision has nothing to add beyond
ACCURACY = 1e-3
UNFINISHED = 0.1  # share of the misfit that a finished fit has no further step for
ROUNDING_MISFIT = 1e-20  # relative squared residual that double precision leaves at worst
SHOWN = 8  # smallest singular values that are kept
GENERIC_FEATURES = 400  # of the regressor that looks for structure in the residual


def noise_of(fit: HeadFit) -> float:
    """Label noise, relative RMS: the residual, made up for what fitting took of it."""
    return fit.residual / math.sqrt(max(1.0 - 1.0 / fit.equations, 1e-3))


def identify(task: FitTask, fit: HeadFit) -> Identified:
    """Error bars and the smallest singular values of the Jacobian at the answer.

    The task may have fewer examples than the fit: bars shrink with the root of their number.
    """
    began = time.perf_counter()
    problem = Projection(task.X, task.Y, task.dim)
    parameters = parameters_of(problem, fit.theta, fit.w, fit.rank)
    line = problem.linearise(problem.evaluate(parameters, Penalty()))
    noise = noise_of(fit)
    size = np.sqrt(problem.energy / (problem.Y.shape[0] * problem.out_dim))
    unit = noise * size * np.sqrt(problem.n / max(fit.examples, problem.n))
    samples = 1 if fit.exact else task.config.bar_samples
    rng = np.random.default_rng([task.seed, fit.heads, 1])
    theta_moves, w_moves, ritz, solved = [], [], np.zeros(0), True
    for _ in range(samples):
        move, out, values = _response(line, rng)
        solved = solved and len(values) < PRODUCTS
        change = kernels.to_numpy(theta_change(line.parameters, move))
        theta_moves.append(np.sum(change**2, axis=(1, 2)))
        w_moves.append(np.sum(_projection_change(line, move, out) ** 2, axis=(1, 2)))
        ritz = values if len(values) > len(ritz) else ritz
    singular = np.sqrt(np.maximum(ritz, 0.0))
    determined = solved and _unfinished(line) < UNFINISHED
    if not determined:  # first-order movements say nothing then, and a small bar would be a lie
        unit = np.inf
    return Identified(
        singular_values=singular[:SHOWN] / singular[-1],
        condition=float(singular[-1] / singular[0]) if singular[0] > 0 else float("inf"),
        noise=noise,
        theta_bars=unit * np.sqrt(np.mean(theta_moves, axis=0)) / _norms(fit.theta),
        w_bars=unit * np.sqrt(np.mean(w_moves, axis=0)) / _norms(fit.w),
        determined=determined,
        samples=samples,
        seconds=time.perf_counter() - began,
    )


def _unfinished(line: Linearisation) -> float:
    """The share of the misfit that one more step of Gauss-Newton promises to explain.

    At the floor of noise or of rounding it is next to nothing; on a slow way down, along heads
    that hardly differ, it is nearly all.
    """
    misfit = line.at.misfit
    if misfit <= ROUNDING_MISFIT:
        return 0.0
    target = line.gradient()
    step, _ = conjugate_gradients(line, target, ACCURACY, PRODUCTS)
    promised = sum(float(line.xp.sum(a * b)) for a, b in zip(step, target, strict=True))
    return promised / (misfit * line.problem.energy)


def _response(
    line: Linearisation, rng: np.random.Generator
) -> tuple[tuple[AnyArray, ...], AnyArray, Array]:
    """How parameters and O move under unit noise in the labels; Ritz values of H on the way."""
    xp, residual = line.xp, line.at.residual
    u = kernels.cast(kernels.like(rng.standard_normal(residual.shape), residual), xp.float32)
    blocks = [u[rows, :] for _, rows in line.problem.blocks()]
    target = line.transposed(line.projected(blocks))
    move, values = conjugate_gradients(line, target, ACCURACY, PRODUCTS)
    moved = line.unprojected_product(move)
    inside = sum(
        xp.matrix_transpose(block.basis) @ (a - b)
        for block, a, b in zip(line.blocks, blocks, moved, strict=True)
    )
    factor = xp.matrix_transpose(kernels.cast(line.at.factor, xp.float32))
    return move, xp.linalg.solve(factor, inside), values


def _projection_change(line: Linearisation, move: tuple[AnyArray, ...], out: AnyArray) -> Array:
    """The change of W_i: of O_i, or of V_i O_i."""
    m = line.at.theta.shape[0]
    change = line.xp.reshape(out, (m, -1, line.problem.out_dim))
    if len(line.parameters) > 1:
        O = line.xp.reshape(line.out, (m, -1, line.problem.out_dim))  # noqa: E741
        change = line.parameters[2] @ change + move[2] @ O
    return kernels.to_numpy(change)


def _norms(matrices: Array) -> Array:
    return np.maximum(np.sqrt(np.sum(matrices**2, axis=(1, 2))), np.finfo(float).tiny)


def structure_left(task: FitTask, fit: HeadFit) -> tuple[float, float]:
    """The share of the residual that a generic regressor explains on fresh examples.

    Noise cannot be predicted from the tokens; what a missing head, or a function that is no
    attention layer, leaves behind can. Random tanh features of a row and of the sequence it is in,
    and powers of the predicted outputs, with ridge, fitted on the examples under fit and judged on
    the validation examples: the mean gain over predicting zero, and the same over its standard
    error.
    """
    from scipy.linalg import cho_factor, cho_solve

    rng = np.random.default_rng([task.seed, 2])
    X, Y = kernels.to_numpy(task.X), kernels.to_numpy(task.Y)
    width = X.shape[2]
    directions = rng.standard_normal((3 * width, GENERIC_FEATURES)) / np.sqrt(width)
    shifts = rng.standard_normal(GENERIC_FEATURES)
    scale = max(float(np.std(Y)), np.finfo(float).tiny)

    def residual(X: Array, Y: Array) -> Array:
        return Y - predict(fit.theta, fit.w, X)

    def features(X: Array) -> Array:
        mean = np.broadcast_to(X.mean(axis=1, keepdims=True), X.shape)
        rows = np.concatenate([X, np.sqrt(X.shape[1]) * mean, X * mean], axis=2)
        rows = rows.reshape(-1, 3 * width)
        bend = np.tanh(rows @ directions + shifts)
        guess = predict(fit.theta, fit.w, X).reshape(len(rows), -1) / scale
        return np.concatenate([bend, bend**2, rows, guess, guess**2, guess**3], axis=1)

    A, R = features(X), residual(X, Y)
    gram = A.T @ A
    gram.flat[:: len(gram) + 1] += 0.1 * np.trace(gram) / len(gram)
    weights = cho_solve(cho_factor(gram, overwrite_a=True), A.T @ R.reshape(-1, R.shape[2]))
    fresh = residual(task.X_fresh, task.Y_fresh)
    guess = (features(task.X_fresh) @ weights).reshape(fresh.shape)
    # Any scale of the guess is fair: one number, by least squares on the fresh examples.
    products, squares = np.sum(fresh * guess, axis=(1, 2)), np.sum(guess**2, axis=(1, 2))
    error = np.std(products) * np.sqrt(len(products))
    z = float(products.sum() / max(error, np.finfo(float).tiny))
    share = products.sum() ** 2 / max(squares.sum() * np.sum(fresh**2), np.finfo(float).tiny)
    return float(share), z
