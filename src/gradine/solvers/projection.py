"""Variable projection: the layer as a function of its attention alone.

    min over p of  min over O   | Y - A(p) O |^2 + ridge |O|^2 + decay |p|^2

F is linear in what follows the attention. With full heads p = Theta, the features are
A_i = softmax(X Theta_i X^T) X and O_i = W_i. With heads of rank r, p = (U, K, V),
Theta_i = U_i K_i^T, A_i = softmax(X Theta_i X^T) X V_i and W_i = V_i O_i. Any other attention
function may stand in the place of the softmax.

For given p the best O is one least-squares solve, and its own change does not matter to the
gradient (envelope theorem: the loss is flat in O there). What a small change of p does is in
`gradine.solvers.linearisation`. Far from the end residual and gradient need not be exact
(`Evaluation.rough`). Examples come in blocks, so that temporaries stay small.
"""

from __future__ import annotations

from dataclasses import dataclass

from gradine import kernels
from gradine.attention_functions import SOFTMAX, Attended, AttentionFunction
from gradine.kernels import AnyArray
from gradine.solvers.parameters import Parameters, stacked, theta_of, through, total

__all__ = ["Evaluation", "Penalty", "Projection"]

BLOCK_BYTES = 32 * 2**20  # temporaries of one block: they should stay near the cache
LEAST_RIDGE = 1e-13  # relative; keeps the factorisation of the Gram matrix alive
ROUGH_RIDGE = 1e-6  # the same in single precision


@dataclass(frozen=True)
class Penalty:
    """What pulls towards zero: ``ridge`` on O in units of the mean Gram diagonal, ``decay`` on p
    in units of the energy of Y for each head."""

    ridge: float = 0.0
    decay: float = 0.0


@dataclass(frozen=True, eq=False)
class Evaluation:
    """All that is known at one point p."""

    parameters: Parameters
    theta: AnyArray  #: (m, D, d)
    out: AnyArray  #: O, (q, d_out)
    residual: AnyArray  #: Y - A O, (n k, d_out)
    factor: AnyArray  #: Cholesky factor of the Gram matrix
    attended: list[Attended]  #: of each block, (b, k m, k)
    misfit: float  #: |residual|^2 / |Y|^2
    loss: float  #: misfit and penalties
    penalty: Penalty
    rough: bool  #: in single precision


class Projection:
    """The examples, and everything that a solver asks of them."""

    def __init__(
        self,
        X: AnyArray,
        Y: AnyArray,
        dim: int | None = None,
        function: AttentionFunction = SOFTMAX,
    ) -> None:
        """``X`` (n, k, D), ``Y`` (n, k, d_out), float64; keys use the first ``dim`` coordinates."""
        xp = self.xp = kernels.namespace(X, Y)
        self.function = function
        self.n, self.k, self.width = X.shape
        self.dim = self.width if dim is None else dim
        self.out_dim = Y.shape[2]
        self.size = max(1, BLOCK_BYTES // (64 * self.k * self.width))
        self.X, self.Y = X, xp.reshape(Y, (self.n * self.k, self.out_dim))
        self.energy = max(float(xp.sum(self.Y * self.Y)), 1e-300)
        self.X32, self.Y32 = (kernels.cast(array, xp.float32) for array in (self.X, self.Y))
        self.products = 0
        self.flops = 0.0
        # The feature energy of uniform attention: a unit for the ridge that no step changes.
        mean = xp.mean(X, axis=1)
        self.unit = self.k * float(xp.sum(mean * mean)) / self.width

    def blocks(self) -> list[tuple[slice, slice]]:
        """Slices of the examples of each block, and of their rows."""
        starts = range(0, max(self.n, 1), self.size)  # no examples are one block of none
        return [
            (
                slice(at, min(at + self.size, self.n)),
                slice(at * self.k, min(at + self.size, self.n) * self.k),
            )
            for at in starts
        ]

    def evaluate(self, parameters: Parameters, penalty: Penalty, rough: bool = False) -> Evaluation:
        """Attention, the best O and the residual at p; ``rough``: in single precision."""
        xp = self.xp
        Y = self.Y32 if rough else self.Y
        theta, attended, features = self._attend(parameters, rough)
        gram, right = self._normal_equations(features, Y)
        width = gram.shape[0]
        ridge = max(penalty.ridge, ROUGH_RIDGE if rough else LEAST_RIDGE) * self.unit
        factor = kernels.cholesky(gram + ridge * xp.eye(width, dtype=gram.dtype))
        out = kernels.solve_cholesky(factor, right)
        residual = Y - stacked(xp, [A @ out for A in features])
        if penalty.ridge == 0.0 and not rough:  # one refinement takes the least ridge away again
            right = self._right(features, residual)
            out = out + kernels.solve_cholesky(factor, right)
            residual = Y - stacked(xp, [A @ out for A in features])
        misfit = float(xp.sum(residual * residual)) / self.energy
        loss = misfit + penalty.ridge * self.unit * float(xp.sum(out * out)) / self.energy
        loss += penalty.decay * sum(float(xp.sum(p * p)) for p in parameters) / theta.shape[0]
        self.count_flops(width, gram=True)
        return Evaluation(
            parameters, theta, out, residual, factor, attended, misfit, loss, penalty, rough
        )

    def evaluate_with(self, parameters: Parameters, out: AnyArray) -> Evaluation:
        """The same for an O that is given: the best one for other examples, say."""
        xp = self.xp
        theta, attended, features = self._attend(parameters)
        residual = self.Y - stacked(xp, [A @ out for A in features])
        misfit = float(xp.sum(residual * residual)) / self.energy
        unused = xp.eye(out.shape[0], dtype=out.dtype)
        return Evaluation(
            parameters, theta, out, residual, unused, attended, misfit, misfit, Penalty(), False
        )

    def normal_equations(self, parameters: Parameters) -> tuple[AnyArray, AnyArray]:
        """A^T A and A^T Y: sums over examples, so that those of others may be added."""
        return self._normal_equations(self._attend(parameters)[2], self.Y)

    def _attend(
        self, parameters: Parameters, rough: bool = False
    ) -> tuple[AnyArray, list[Attended], list[AnyArray]]:
        """Theta, and of each block its attention and A (b k, q)."""
        X = self.X32 if rough else self.X
        typed = tuple(kernels.cast(p, X.dtype) for p in parameters)
        theta, attended, features = theta_of(typed), [], []
        for at, _ in self.blocks():
            block = self.function.attend(kernels.logits_of(X[at, ...], theta))
            attended.append(block)
            seen = kernels.features_of(X[at, ...], block.weights)
            features.append(through(self.xp, seen, typed))
        return theta, attended, features

    def _normal_equations(self, features: list[AnyArray], Y: AnyArray) -> tuple[AnyArray, AnyArray]:
        gram = total(self.xp.matrix_transpose(A) @ A for A in features)
        return gram, self._right(features, Y)

    def _right(self, features: list[AnyArray], Y: AnyArray) -> AnyArray:
        pairs = zip(features, self.blocks(), strict=True)
        return total(self.xp.matrix_transpose(A) @ Y[rows, :] for A, (_, rows) in pairs)

    def projections(self, at: Evaluation) -> AnyArray:
        """W_i, (m, D, d_out)."""
        xp, m = self.xp, at.theta.shape[0]
        out = xp.reshape(at.out, (m, -1, self.out_dim))
        return out if len(at.parameters) == 1 else kernels.cast(at.parameters[2], out.dtype) @ out

    def count_flops(self, features: int, gram: bool = False) -> None:
        """Floating-point operations of a pass through the large products."""
        rows, keys = self.n * self.k, self.k
        heads_width = features if features >= self.width else self.width
        each = (
            2.0
            * rows
            * (self.width * heads_width + 2 * heads_width * keys + features * self.out_dim)
        )
        self.flops += each + (2.0 * rows * features * (features + 2 * self.out_dim) if gram else 0)
