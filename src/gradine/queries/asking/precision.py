"""How exact the answers are, by the answers themselves.

Three things are looked at. The numbers: whether they all are multiples of 10^-k, all have k digits,
or all are of a short float type. The same questions again: whether the answers differ. And answers
along a short line of tokens: a layer is smooth there, so that high differences of its outputs along
the line are nothing but the noise of rounding and arithmetic, whatever its kind [MW11]:

    sigma^2 = gamma_p * mean of (Delta^p f)^2,   gamma_p = (p!)^2 / (2p)!.

[MW11] Moré and Wild, Estimating computational noise, SIAM J. Sci. Comput. 33 (2011) 1292-1314.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from gradine.inputs import Seed
from gradine.queries.asking.errors import MisuseError
from gradine.queries.asking.grids import float_type_of, printed_as
from gradine.queries.asking.oracle import Oracle
from gradine.queries.asking.rounding import EPS, rounded_to
from gradine.status import NotLearned, Status

__all__ = ["Precision", "glance_at_precision", "precision_of", "probe_precision"]

Array = NDArray[np.float64]
Kind = Literal["float64", "float32", "float16", "bfloat16", "decimals", "digits", "coarse", "noisy"]

TOKENS = 3  # of a probe: no power of two, as means over tokens would then be short numbers
NUMBERS = 16  # that the grid is judged by, if so many come in at most MOST_PROBES sequences
MOST_PROBES = 4
ORDER = 6  # of the differences: the smooth part of them falls with this power of the step
POINTS = ORDER + 3
COARSE = 1e-12  # relative noise that double arithmetic does not make
RESTLESS = 64.0  # differences of so many eps, asked again, are noise; smaller ones are threads
RESTLESS_NUMBERS = 500  # that their size is taken from, which is then known to 5%
SMALLEST, LARGEST = 1e-100, 1e100  # answers that can be squared
STILL = 0.25  # share of neighbours on the line with equal answers at which it is too short
UNIFORM = 1.0 / math.sqrt(12.0)  # standard deviation of what rounding to a grid of step 1 does

#: Steps of the line, as powers of 1/2: tokens are then exact in the float type, and a step moves
#: answers by more than their grid. The next one is tried where answers stand still.
STEPS: dict[str, tuple[int, ...]] = {
    "float64": (20, 14, 8),
    "float32": (14,),
    "float16": (7,),
    "bfloat16": (7,),
}


@dataclass(frozen=True)
class Precision:
    """How answers are rounded, and the noise this leaves in them.

    ``kind`` is the float type of all answers, "decimals" (multiples of 10^-k), "digits" (so many
    significant ones), "noisy" (asked again, answers differ), or "coarse": double precision numbers
    with more noise than double arithmetic makes.
    """

    kind: Kind
    step: float  #: distance of neighbouring answers, at their typical size
    relative: float  #: standard deviation of the noise that grows with answers, over their size
    absolute: float  #: standard deviation of the noise that does not
    deterministic: bool | None  #: whether the same questions had the same answers; None: not asked
    queries: int  #: what finding out has cost

    def noise(self, size: float) -> float:
        """Standard deviation of the noise of answers of that root mean square size."""
        return math.hypot(self.absolute, self.relative * size)

    def representable(self, X: Array) -> Array:
        """The nearest tokens that the oracle can be expected to read as they are.

        What computes in a short float type rounds its tokens, too: it answers for these.
        """
        if self.kind == "float64":
            return X
        return rounded_to(X, self.kind if self.kind in EPS else "float32")


def precision_of(Y: Array) -> Precision:
    """How answers are rounded, by these answers alone: no question is asked.

    The noise is that of the last rounding. Arithmetic may have left more.

    >>> precision_of(np.array([0.25, 0.31, -1.07])).step
    0.01
    """
    if not np.any(Y):
        raise NotLearned(Status.NOTHING_TO_SEE, "the answers to all questions so far are zero")
    size = _rms(Y)
    name = float_type_of(Y)
    printed = printed_as(Y, name)
    if printed is None:
        return Precision(name, EPS[name] * size, EPS[name] * UNIFORM, 0.0, None, 0)
    noise = _rms(printed.steps) * UNIFORM
    if printed.kind == "decimals":
        return Precision("decimals", float(printed.steps[0]), 0.0, noise, None, 0)
    return Precision("digits", float(np.median(printed.steps)), noise / size, 0.0, None, 0)


def glance_at_precision(oracle: Oracle, *, seed: Seed = 0) -> Precision:
    """What a few questions, each asked twice, tell: what numbers answers are, and if they differ.

    Numbers of a short type, and short decimal ones, are looked at more closely, as what they are
    worth has to be known. Those in double precision may be less exact than they look.
    """
    before = oracle.queries_used
    found = _first_look(oracle, np.random.default_rng(seed))[0]
    if found.kind != "float64" and found.kind != "noisy":
        found = probe_precision(oracle, seed=seed)
    return replace(found, queries=oracle.queries_used - before)


def probe_precision(oracle: Oracle, *, seed: Seed = 0) -> Precision:
    """Find out how exact the answers of an oracle are, by a dozen questions or two.

    >>> import gradine
    >>> from gradine.queries import Rounded, as_oracle
    >>> layer = gradine.plant(heads=2, dim=8)
    >>> probe_precision(as_oracle(layer)).kind
    'float64'
    >>> probe_precision(as_oracle(Rounded(layer, decimals=3))).step
    0.001
    """
    rng = np.random.default_rng(seed)
    before = oracle.queries_used
    found, size = _first_look(oracle, rng)
    if found.kind not in ("decimals", "digits", "noisy"):  # these hide the arithmetic
        noise, along = _noise_along_line(oracle, found.kind, _token_size(oracle), rng)
        # Answers that happen to be small along the line are no less exact for that.
        relative = max(found.relative, noise / max(along, size))
        coarse = found.kind == "float64" and relative > COARSE
        found = replace(found, kind="coarse" if coarse else found.kind, relative=relative)
    return replace(found, queries=oracle.queries_used - before)


def _first_look(oracle: Oracle, rng: np.random.Generator) -> tuple[Precision, float]:
    """What numbers the answers to a few short sequences are, asked twice; and their size."""
    numbers = oracle.readout.n_rows(TOKENS) * (oracle.out_dim or oracle.dim)
    n = min(MOST_PROBES, math.ceil(NUMBERS / numbers))
    # Tokens of many digits: exact arithmetic on short ones would look like a short float type.
    shape = (n, TOKENS, oracle.dim)
    X = oracle.center + _token_size(oracle) * rng.uniform(-0.5, 0.5, shape)
    Y, again = oracle.ask(X), oracle.ask(X)
    largest = float(np.abs(Y).max())
    if largest > 0.0 and not SMALLEST < largest < LARGEST:
        raise MisuseError(
            f"answers are of size {largest:.2g}; expected between {SMALLEST:g} and {LARGEST:g}, "
            "so that their squares are numbers: ask for multiples of them"
        )
    found = precision_of(np.concatenate([Y, again]))
    differs = _rms(again - Y) / math.sqrt(2.0)
    typical = found.noise(_rms(Y))
    printed = found.kind in ("decimals", "digits")  # so coarse that the arithmetic is hidden
    if differs > (typical if printed else RESTLESS * typical):
        # The verdict rests on how much they differ: a few numbers do not say it well enough.
        squares = [np.mean((again - Y) ** 2)]
        while len(squares) * Y.size < RESTLESS_NUMBERS:
            squares.append(np.mean((oracle.ask(X) - oracle.ask(X)) ** 2))
        differs = math.sqrt(float(np.mean(squares)) / 2.0)
        found = replace(found, kind="noisy", relative=0.0, absolute=differs)
    return replace(found, deterministic=differs == 0.0), _rms(Y)


def _token_size(oracle: Oracle) -> float:
    """A power of two that entries of tokens may have, 1 at most: scaling by it is exact."""
    room = oracle.largest_entry()
    if room == 0.0:
        raise ValueError("the limit of the oracle leaves no room around its center")
    return 1.0 if room >= 1.0 else 2.0 ** math.floor(math.log2(room))


def _noise_along_line(
    oracle: Oracle, kind: str, size: float, rng: np.random.Generator
) -> tuple[float, float]:
    """Standard deviation of the answers along a line without their smooth part, and their size.

    Permuted tokens would show some of it, too, but not what projecting single tokens leaves.
    """
    shape = (TOKENS, oracle.dim)
    # Multiples of a sixteenth of the size, and signs: with the steps, few digits in all.
    grid = size / 16.0
    middle = np.round(oracle.center / grid) * grid + grid * rng.integers(-7, 8, shape)
    direction = rng.choice([-1.0, 1.0], shape)
    noise = along = 0.0
    for power in STEPS[kind]:
        steps = size * 2.0**-power * (np.arange(POINTS) - POINTS // 2)
        Y = oracle.ask(middle + steps[:, None, None] * direction).reshape(POINTS, -1)
        differences = np.diff(Y, n=ORDER, axis=0)
        gamma = math.factorial(ORDER) ** 2 / math.factorial(2 * ORDER)
        noise, along = math.sqrt(gamma) * _rms(differences), _rms(Y)
        moving = Y[:, np.ptp(Y, axis=0) > 0.0]
        if moving.size and np.mean(np.diff(moving, axis=0) == 0.0) < STILL:
            break
    return noise, along


def _rms(values: Array) -> float:
    return float(np.sqrt(np.mean(np.square(values))))
