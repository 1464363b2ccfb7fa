"""What the examples determine: local identifiability at an answer, and error bars under noise.

Label noise u moves the answer, to first order, by the least-squares response

    dp = H^+ J^T (I - A A^+) u,       dO = A^+ (u - J dp),

whose covariance is the usual one, sigma^2 (J^T J)^+. Drawing u and solving by conjugate gradients
gives samples of that movement, hence error bars of every head, at sizes where H could never be
formed. The same iteration yields Ritz values: the smallest of them are the directions that the
examples determine worst.

Bars mean nothing where H has directions that do not show at all, or so little that single precision
does not see them. So a random v is first recovered from H v: what is missing of it is what the
examples leave open, but for the gauge (U_i K_i^T has many factors), which changes no head. If
anything is missing and the problem is small, the singular values of J itself, in double precision,
have the last word. The scale of a head is gauge, too, where attention is scale-free: (c Theta, W/c)
is one head for all c > 0, and bars are those of heads of a fixed scale.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gradine import kernels
from gradine.exact.heads import FitTask, parameters_of, predict
from gradine.exact.results import HeadFit, Identified
from gradine.exact.units import Units
from gradine.kernels import AnyArray
from gradine.solvers.gauss_newton import conjugate_gradients
from gradine.solvers.levenberg import theta_jacobian
from gradine.solvers.linearisation import Linearisation
from gradine.solvers.parameters import theta_change
from gradine.solvers.projection import Penalty

__all__ = ["identify", "noise_of", "structure_left"]

Array = NDArray[np.float64]

PRODUCTS = 300  # of one solve; single precision has nothing to add beyond
ACCURACY = 1e-4  # of a response to noise
ROUGHLY = 3e-2  # the same where there is none: rounding is no noise, its size is all that is asked
RECOVERED = 3e-5  # accuracy to which a random direction is recovered
OPEN = 0.25  # directions of a head that may seem open, by what single precision leaves
CLOSED = 2e-3  # the same where no more need be asked; the singular values are good to 5% by then
DENSE_WORK = 2e10  # multiplications of one decomposition of J in double precision
DENSE_NUMBERS = 2e8  # numbers in J that are held at once
RESOLVED = 1e-9  # singular value, relative to the largest, below which a direction does not show
SAME_FEATURES = 1e-11  # the same for the squares of the features
UNFINISHED = 0.1  # share of the misfit that a finished fit has no further step for
ROUNDING_MISFIT = 1e-20  # relative squared residual that double precision leaves at worst
SHOWN = 8  # smallest singular values that are kept
GENERIC_FEATURES = 400  # of the regressor that looks for structure in the residual


def noise_of(fit: HeadFit) -> float:
    """Label noise, relative RMS: the residual, made up for what fitting took of it."""
    return fit.residual / math.sqrt(max(1.0 - 1.0 / fit.equations, 1e-3))


class _Solver(NamedTuple):
    """How H^+ is applied, and what was found on the way."""

    apply: Callable[[AnyArray], AnyArray]
    singular_values: Array  #: of J in units of the heads, increasing
    determined: bool


def identify(task: FitTask, fit: HeadFit, units: Units) -> Identified:
    """Error bars and the smallest singular values of the Jacobian at the answer.

    The task may have fewer examples than the fit: bars shrink with the root of their number.
    """
    began = time.perf_counter()
    problem = task.problem()
    parameters = parameters_of(problem, fit.theta, fit.w, fit.rank)
    line = Linearisation(problem, problem.evaluate(parameters, Penalty()))
    noise = noise_of(fit)
    typical = np.sqrt(problem.energy / (problem.Y.shape[0] * problem.out_dim))
    unit = noise * typical * np.sqrt(problem.n / max(fit.examples, problem.n))
    samples = 1 if fit.exact else task.config.bar_samples
    rng = np.random.default_rng([task.seed, fit.heads, 1])

    solver = _iterative(line, rng, ROUGHLY if fit.exact else ACCURACY)
    if not solver.determined:
        solver = _dense(line) or solver
    determined = solver.determined and _features_differ(line, task.shared)
    determined = determined and _unfinished(line, solver) < UNFINISHED + _by_chance(line, fit)
    theta, w = units.theta(fit.theta), units.w(fit.w)
    theta_moves, w_moves = [], []
    for _ in range(samples if determined else 0):
        labels = unit * rng.standard_normal(line.at.residual.shape)
        if fit.exact and units.basis is not None:
            labels += _rounding(task, fit, units.rounding(kernels.to_numpy(task.X)), rng)
        # Rounding is too small for squares in single precision.
        size = max(float(np.sqrt(np.mean(labels**2))), np.finfo(float).tiny)
        move, out = _response(line, solver, labels / size)
        change = units.theta(kernels.to_numpy(theta_change(line.parameters, line.shaped(move))))
        w_change = units.w(_projection_change(line, move, out))
        if task.function.scale_free:
            along = _along(change, theta)
            change, w_change = change - along * theta, w_change + along * w
        theta_moves.append(np.sum((size * change) ** 2, axis=(1, 2)))
        w_moves.append(np.sum((size * w_change) ** 2, axis=(1, 2)))
    unknown = np.full(fit.heads, np.inf)
    singular = solver.singular_values
    return Identified(
        singular_values=singular[:SHOWN] / max(singular[-1], np.finfo(float).tiny),
        condition=float(singular[-1] / singular[0]) if singular[0] > 0 else float("inf"),
        noise=noise,
        theta_bars=_bars(theta_moves, theta) if determined else unknown,
        w_bars=_bars(w_moves, w) if determined else unknown,
        determined=determined,
        samples=len(theta_moves),
        seconds=time.perf_counter() - began,
    )


def _rounding(task: FitTask, fit: HeadFit, size: Array, rng: np.random.Generator) -> Array:
    """What tokens that are off by ``size`` do to the outputs, (rows, d_out).

    A direction in which tokens are narrow is the difference of large numbers. Heads follow its
    rounding as if it were in the tokens, and the residual shows little of it.
    """
    X = kernels.to_numpy(task.X)
    moved = predict(fit.theta, fit.w, X + size * rng.standard_normal(X.shape), task.function)
    change = moved - predict(fit.theta, fit.w, X, task.function)
    return change.reshape(-1, change.shape[2])


def _bars(moves: list[Array], matrices: Array) -> Array:
    norms = np.sqrt(np.sum(matrices**2, axis=(1, 2)))
    return np.sqrt(np.mean(moves, axis=0)) / np.maximum(norms, np.finfo(float).tiny)


def _iterative(line: Linearisation, rng: np.random.Generator, accuracy: float) -> _Solver:
    """Conjugate gradients, if they recover a random direction."""
    units = line.units()

    def solve(target: AnyArray) -> AnyArray:
        return conjugate_gradients(line, target, accuracy, PRODUCTS, units).step

    direction = units * kernels.like(rng.standard_normal(units.shape), units)
    whole = np.maximum(_theta_squares(line, direction), np.finfo(float).tiny)
    # A random direction has an equal share in each of the d_i dimensions that a head has.
    numbers = sum(math.prod(p.shape[1:]) for p in line.parameters)

    def open_directions(found: AnyArray) -> float:
        return numbers * float((_theta_squares(line, direction - found) / whole).max())

    # Errors of conjugate gradients only fall, so what is not open soon never will be.
    found = conjugate_gradients(
        line,
        line.curvature(direction),
        RECOVERED,
        PRODUCTS,
        units,
        enough=lambda step: open_directions(step) < CLOSED,
    )
    singular = np.sqrt(np.maximum(found.ritz, 0.0))
    return _Solver(solve, singular, found.solved and open_directions(found.step) < OPEN)


def _theta_squares(line: Linearisation, flat: AnyArray) -> Array:
    """|dTheta_i|^2, without the part that is gauge."""
    change = kernels.to_numpy(theta_change(line.parameters, line.shaped(flat)))
    if line.problem.function.scale_free:
        theta = kernels.to_numpy(line.at.theta)
        change = change - _along(change, theta) * theta
    return np.sum(change**2, axis=(1, 2))


def _along(change: Array, theta: Array) -> Array:
    """How much longer the Theta_i become by a change of them, (m, 1, 1)."""
    squares = np.maximum(np.sum(theta**2, axis=(1, 2)), np.finfo(float).tiny)
    return (np.sum(change * theta, axis=(1, 2)) / squares)[:, None, None]


def _dense(line: Linearisation) -> _Solver | None:
    """The singular values of J in double precision; None where that takes too long."""
    problem, at = line.problem, line.at
    unknowns = math.prod(at.theta.shape)
    numbers = problem.Y.shape[0] * problem.out_dim * unknowns
    if len(at.parameters) > 1 or numbers > DENSE_NUMBERS or numbers * unknowns > DENSE_WORK:
        return None
    X, theta = kernels.to_numpy(problem.X), kernels.to_numpy(at.theta)
    w, function = kernels.to_numpy(problem.projections(at)), problem.function
    J = theta_jacobian(X, theta, w, function)  # (rows, o, p)
    units = kernels.to_numpy(line.units())
    features = kernels.features_of(X, function(kernels.logits_of(X, theta)))
    basis = np.linalg.qr(features)[0]
    flat = J.reshape(len(J), -1)
    flat -= basis @ (basis.T @ flat)
    scaled = J.reshape(-1, unknowns) * units
    values, right = _singular(np.asarray(np.linalg.qr(scaled, mode="r")))
    seen = values > RESOLVED * values[0]
    shown = unknowns - (len(theta) if function.scale_free else 0)  # the others are gauge

    def solve(target: AnyArray) -> AnyArray:
        inner = right @ (units * kernels.to_numpy(target))
        inner = np.where(seen, inner / np.where(seen, values, 1.0) ** 2, 0.0)
        return kernels.like(units * (right.T @ inner), target)

    determined = bool(seen[:shown].all()) and len(values) == unknowns
    return _Solver(solve, values[:shown][::-1], determined)


def _singular(matrix: Array) -> tuple[Array, Array]:
    """Singular values and right vectors: divide and conquer fails on some singular matrices."""
    try:
        _, values, right = np.linalg.svd(matrix)
    except np.linalg.LinAlgError:
        from scipy.linalg import svd

        _, values, right = svd(matrix, lapack_driver="gesvd")
    return values, right


def _features_differ(line: Linearisation, shared: bool) -> bool:
    """Whether O is determined, given the attention: no features are combinations of others.

    ``shared`` features of a constant coordinate are 1 for every head: only the sum of their O
    shows, and no more is asked of them.
    """
    xp, m = line.xp, line.at.theta.shape[0]
    gram = line.at.factor @ xp.matrix_transpose(line.at.factor)
    size = xp.sqrt(xp.linalg.diagonal(gram))
    values = kernels.to_numpy(xp.linalg.eigvalsh(gram / (size[:, None] * size[None, :])))
    same = int(np.sum(values < SAME_FEATURES * values[-1]))
    return same <= (m - 1 if shared else 0)


def _by_chance(line: Linearisation, fit: HeadFit) -> float:
    """The share of noise that a step explains where the answer is that of more examples: as many
    numbers as are fitted, of all."""
    problem = line.problem
    fitted = sum(math.prod(p.shape) for p in line.parameters)
    fewer = 1.0 - problem.n / max(fit.examples, problem.n)
    return fewer * fitted / (problem.Y.shape[0] * problem.out_dim)


def _unfinished(line: Linearisation, solver: _Solver) -> float:
    """The share of the misfit that one more step of Gauss-Newton promises to explain.

    At the floor of noise or of rounding it is next to nothing; on a slow way down, along heads
    that hardly differ, it is nearly all.
    """
    misfit = line.at.misfit
    if misfit <= ROUNDING_MISFIT:
        return 0.0
    target = line.flat(line.gradient())
    promised = float(line.xp.vecdot(solver.apply(target), target))
    return promised / (misfit * line.problem.energy)


def _response(line: Linearisation, solver: _Solver, noise: Array) -> tuple[AnyArray, AnyArray]:
    """How parameters (flat) and O move under such noise in the labels."""
    xp, residual = line.xp, line.at.residual
    u = kernels.cast(kernels.like(noise, residual), xp.float32)
    pieces = [u[block.rows, :] for block in line.blocks]
    move = solver.apply(line.flat(line.transposed(line.projected(pieces))))
    moved = line.unprojected_product(line.shaped(move))
    inside = sum(
        xp.matrix_transpose(block.basis) @ (a - b)
        for block, a, b in zip(line.blocks, pieces, moved, strict=True)
    )
    factor = xp.matrix_transpose(kernels.cast(line.at.factor, xp.float32))
    return move, xp.linalg.solve(factor, inside)


def _projection_change(line: Linearisation, move: AnyArray, out: AnyArray) -> Array:
    """The change of W_i: of O_i, or of V_i O_i."""
    m = line.at.theta.shape[0]
    change = line.xp.reshape(out, (m, -1, line.problem.out_dim))
    if len(line.parameters) > 1:
        O = line.xp.reshape(line.out, (m, -1, line.problem.out_dim))  # noqa: E741
        change = line.parameters[2] @ change + line.shaped(move)[2] @ O
    return kernels.to_numpy(change)


def structure_left(task: FitTask, fit: HeadFit) -> tuple[float, float]:
    """The share of the residual that a generic regressor explains on fresh examples.

    Noise cannot be predicted from the tokens; what a missing head, or a function that is no
    attention layer, leaves behind can. Random tanh features of a row, of the sequence it is in and
    of the tokens up to it, its place, and powers of the predicted outputs, with ridge, fitted on
    the examples under fit and judged on the validation examples: the mean gain over predicting
    zero, and the same over its standard error.
    """
    from scipy.linalg import cho_factor, cho_solve

    rng = np.random.default_rng([task.seed, 2])
    X, Y = kernels.to_numpy(task.X), kernels.to_numpy(task.Y)
    width = X.shape[2]
    directions = rng.standard_normal((4 * width, GENERIC_FEATURES)) / np.sqrt(width)
    shifts = rng.standard_normal(GENERIC_FEATURES)
    scale = max(float(np.std(Y)), np.finfo(float).tiny)

    def residual(X: Array, Y: Array) -> Array:
        return Y - predict(fit.theta, fit.w, X, task.function)

    def features(X: Array) -> Array:
        mean = np.broadcast_to(X.mean(axis=1, keepdims=True), X.shape)
        sums = np.cumsum(X, axis=1) / np.sqrt(np.arange(1, X.shape[1] + 1))[:, None]
        rows = np.concatenate([X, np.sqrt(X.shape[1]) * mean, X * mean, sums], axis=2)
        rows = rows.reshape(-1, 4 * width)
        place = np.tile(np.eye(X.shape[1]), (len(X), 1))
        bend = np.tanh(rows @ directions + shifts)
        guess = predict(fit.theta, fit.w, X, task.function).reshape(len(rows), -1) / scale
        return np.concatenate([bend, bend**2, rows, place, guess, guess**2, guess**3], axis=1)

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
