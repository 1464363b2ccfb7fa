"""A setting: one layer to be learned, and the examples that are given of it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradine.checks import whole_number
from gradine.hard import DIALS, dial, sparse_parity
from gradine.inputs import INPUT_KINDS, InputKind, plant, sample_inputs
from gradine.layer import AttentionLayer

__all__ = ["PARAMETERS", "Setting", "make_setting"]

Array = NDArray[np.float64]

WHOLE = ("heads", "dim", "seq_len", "rank", "examples", "t")
REAL = ("scale", "ratio", "noise", "coherence", "turn")
#: Everything that can be set, or vary along an axis of the map.
NAMED = ("inputs", "dial")
PARAMETERS = (*WHOLE, *REAL, *NAMED)
#: What a parity layer fixes by itself: its heads are made for it, and it takes two tokens.
FIXED_BY_PARITY = ("heads", "seq_len", "scale", "rank", "coherence", "dial")
FIXED_BY_DIAL = ("scale", "rank", "coherence")


@dataclass(frozen=True)
class Setting:
    r"""One kind of layer, and how much is shown of it.

    A planted layer has Gaussian :math:`\Theta_i` of Frobenius norm ``scale`` and W entries of
    variance 1/dim; with ``coherence`` c every two :math:`\Theta_i` have cosine c. With ``t`` the
    layer hides a parity of t secret bits instead (`gradine.hard.sparse_parity`); with ``dial`` it
    leaves one condition of the theorem, by as much as ``turn`` says (`gradine.hard.dial`).
    ``examples`` are those to be fitted, or ``ratio`` times the counting bound of them,

    .. math:: n_{\min} = 2 m (2 d r - r^2) / (k d),

    the number of unknowns over the numbers in one answer.

    >>> setting = Setting(heads=2, dim=8, seq_len=4, ratio=3.0)
    >>> setting.bound, setting.n_fit
    (8.0, 24)
    """

    heads: int = 2
    dim: int = 8
    seq_len: int = 3
    scale: float = 3.0  #: Frobenius norm of Theta: the standard deviation of a logit
    rank: int | None = None  #: of Theta and W; None: full
    examples: int | None = None  #: to be fitted; None: by ``ratio``
    ratio: float = 8.0  #: examples over the counting bound
    noise: float = 0.0  #: of the labels, over their root mean square
    coherence: float | None = None  #: cosine of every two Theta; None: as drawn
    t: int | None = None  #: secret bits of a parity; None: a planted layer
    inputs: InputKind = "boolean"
    dial: str | None = None  #: a way to leave the conditions; None: a planted layer
    turn: float = 0.0  #: from 0, where conditions hold, to 1

    def __post_init__(self) -> None:
        for name in WHOLE:
            if getattr(self, name) is not None:
                # With one token there is no attention to learn.
                whole_number(name, getattr(self, name), 2 if name == "seq_len" else 1)
        for name in REAL:
            _check_real(name, getattr(self, name))
        if self.inputs not in INPUT_KINDS:
            raise ValueError(f"inputs is {self.inputs!r}; expected {' or '.join(INPUT_KINDS)}")
        if self.t is not None and self.t > self.dim - 1:
            raise ValueError(f"t is {self.t}; expected at most dim - 1 = {self.dim - 1}")
        if self.n_heads > self.dim:
            raise ValueError(f"heads is {self.n_heads}; expected at most dim = {self.dim}")
        if self.rank is not None and self.rank > self.dim:
            raise ValueError(f"rank is {self.rank}; expected at most dim = {self.dim}")
        if self.rank is not None and self.coherence is not None:
            raise ValueError("rank and coherence are both set; expected at most one of them")
        if self.dial is not None and self.dial not in DIALS:
            raise ValueError(f"dial is {self.dial!r}; expected one of {', '.join(DIALS)}")
        if self.dial is None and self.turn:
            raise ValueError(f"turn is {self.turn}; expected a dial that it turns")
        if self.t is not None and self.inputs != "boolean":
            raise ValueError(f"inputs is {self.inputs!r}; a parity (t) takes boolean ones")

    @property
    def n_heads(self) -> int:
        """Heads of the layer; a parity of t bits takes t + 1, and one more if t is even."""
        return self.heads if self.t is None else self.t + 1 + (self.t % 2 == 0)

    @property
    def tokens(self) -> int:
        return self.seq_len if self.t is None else 2

    @property
    def bound(self) -> float:
        """The counting bound: unknowns over numbers in one answer."""
        if self.dial is not None:  # some change the sizes of the layer
            bent = self.truth(np.random.default_rng(0))
            unknowns = bent.n_heads * bent.dim * (bent.dim + bent.out_dim)
            return unknowns / (self.tokens * bent.out_dim)
        r = self.rank or self.dim
        return 2 * self.n_heads * (2 * self.dim * r - r**2) / (self.tokens * self.dim)

    @property
    def n_fit(self) -> int:
        """Examples that are to be fitted."""
        return self.examples or max(1, math.ceil(self.ratio * self.bound - 1e-9))

    def truth(self, rng: np.random.Generator) -> AttentionLayer:
        """A layer of this kind.

        >>> Setting(heads=2, dim=4).truth(np.random.default_rng(0))
        AttentionLayer(heads=2, dim=4, out_dim=4, constant=False)
        """
        if self.t is not None:
            return sparse_parity(self.dim, self.t, seed=rng).layer
        if self.dial is not None:
            return dial(self.dial, self.turn, self.heads, self.dim, rng)
        if self.coherence is not None:
            return _coherent(self, self.coherence, rng)
        return plant(self.heads, self.dim, self.scale, self.rank, rng)

    def sample(
        self, truth: AttentionLayer, n: int, rng: np.random.Generator
    ) -> tuple[Array, Array]:
        """n examples, with noise in the labels if there is to be some.

        >>> setting, rng = Setting(heads=2, dim=4, noise=0.1), np.random.default_rng(0)
        >>> [array.shape for array in setting.sample(setting.truth(rng), 5, rng)]
        [(5, 3, 4), (5, 3, 4)]
        """
        X = sample_inputs(n, self.tokens, truth.dim, self.inputs, rng)
        Y = np.asarray(truth(X))
        if self.noise:
            size = self.noise * float(np.sqrt(np.mean(Y**2)))
            Y = Y + size * rng.standard_normal(Y.shape)
        return X, Y


def make_setting(given: Mapping[str, Any]) -> Setting:
    """The setting with these parameters; ``ValueError`` for what does not go together.

    >>> make_setting({"heads": 3, "examples": 100}).n_fit
    100
    """
    known = [item.name for item in fields(Setting)]
    for name in given:
        if name not in known:
            raise ValueError(f"parameter is {name!r}; expected one of {', '.join(known)}")
    if "examples" in given and "ratio" in given:
        raise ValueError("examples and ratio are both set; expected at most one of them")
    if "t" in given:
        for name in FIXED_BY_PARITY:
            if name in given:
                raise ValueError(f"{name} is set, but a parity (t) fixes it: leave it out")
    if "dial" in given:
        for name in FIXED_BY_DIAL:
            if name in given:
                raise ValueError(f"{name} is set, but a dial fixes it: leave it out")
    return Setting(**given)


def _check_real(name: str, value: Any) -> None:
    if value is None and name == "coherence":
        return
    number = math.nan
    if isinstance(value, int | float) and not isinstance(value, bool):
        number = float(value)
    if name in ("scale", "ratio"):
        fits, expected = 0.0 < number < math.inf, "a positive number"
    elif name == "noise":
        fits, expected = 0.0 <= number < math.inf, "a number from 0"
    elif name == "turn":
        fits, expected = 0.0 <= number <= 1.0, "a number from 0 to 1"
    else:
        fits, expected = 0.0 <= number < 1.0, "a number from 0, below 1"
    if not fits:
        raise ValueError(f"{name} is {value!r}; expected {expected}")


def _coherent(setting: Setting, cosine: float, rng: np.random.Generator) -> AttentionLayer:
    """Theta_i = scale (sqrt(c) C + sqrt(1 - c) O_i) with C and all O_i orthonormal."""
    m, d = setting.heads, setting.dim
    if m + 1 > d * d:
        raise ValueError(f"heads is {m}; expected at most dim^2 - 1 = {d * d - 1} of a coherence")
    w = plant(m, d, setting.scale, seed=rng).w
    directions = np.linalg.qr(rng.standard_normal((d * d, m + 1)))[0].T.reshape(m + 1, d, d)
    theta = math.sqrt(cosine) * directions[0] + math.sqrt(1.0 - cosine) * directions[1:]
    return AttentionLayer(setting.scale * theta, w)
