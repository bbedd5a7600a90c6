"""Error bounds in ball arithmetic: the mathematics that every op's own bound is built from.

A `Ball` is an exact result and how far a computed one may lie from it. An op's bound repeats the op's contract in
balls: sum the products, scale, add, round to the output format. Each step adds the error that a correct kernel may make
there and no more, so a result outside its ball is a defect.

The rules (N. J. Higham, "Accuracy and Stability of Numerical Algorithms", 2nd edition, chapters 2 to 4), for a format
with unit roundoff u, smallest positive number eta and smallest normal number lambda:

- one rounding of v to nearest: at most the larger of ``u |v|`` and ``eta / 2``; toward zero or stochastic: twice that;
- a sum of n terms in any order, each rounded once before it is added: at most ``gamma_n * sum |term|`` with
  ``gamma_n = n u / (1 - n u)``, because no term meets more than n roundings; a fused multiply-add makes fewer;
- underflow: adding two numbers of a format never underflows inexactly, rounding a product (or a fused sum) may, and
  loses at most eta each time, so n eta in all; a unit that flushes subnormals to zero loses at most lambda for each of
  its 2 n operations, and the whole of every product with a subnormal operand;
- where the sum of magnitudes passes the largest finite number, a partial sum may overflow in one order and not in
  another: nothing is promised, the radius is infinite.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..checks import check_shape, flag, instance, one_of, whole
from ..errors import InvalidIndexError, bad_argument, bad_type, described
from .arrays import Floats, broadcast, floats
from .format import FP32, Format, format_of

__all__ = ["Ball", "dot_ball", "gamma", "magnitude_product", "matmul_ball", "rounding_error", "sum_ball"]

_OWN = 2.0**-53  # unit roundoff of the float64 that centres are computed in
_SLACK = 1 + 2.0**-40  # covers the roundings of the radius itself


def gamma(terms: ArrayLike, unit_roundoff: float) -> Floats:
    """Return gamma_n = n u / (1 - n u), infinite where n u is 1 or more.

    Parameters
    ----------
    terms : array_like of int
        Roundings that a term may meet, the n of the formula.
    unit_roundoff : float
        Unit roundoff, for example `Format.unit_roundoff`.

    Examples
    --------
    >>> from poplibs_py.formats import FP16
    >>> float(gamma(1024, FP16.unit_roundoff))
    1.0
    """
    numbers, unit = floats("terms", terms), floats("unit_roundoff", unit_roundoff)
    broadcast("unit_roundoff", unit.shape, numbers.shape)
    nu = numbers * unit
    with np.errstate(divide="ignore"):
        return np.where(nu < 1, nu / (1 - nu), np.inf)


def rounding_error(value: ArrayLike, dtype: Format, rounding: str = "nearest-even") -> Floats:
    """Bound the error of rounding these values, or smaller ones, to a format once; overflow is another matter.

    Parameters
    ----------
    value : array_like of float
        The numbers before rounding.
    dtype : Format
        What they are rounded to.
    rounding : str, optional
        Half a unit in the last place where it begins with ``"nearest"`` (default), a whole one for any other.

    Examples
    --------
    >>> from poplibs_py.formats import F143
    >>> float(rounding_error(1.0, F143)), float(rounding_error(0.0, F143, "stochastic"))
    (0.0625, 0.0009765625)
    """
    dtype = format_of(dtype)
    instance("rounding", rounding, str, "a text")
    magnitude = np.abs(floats("value", value))
    error = np.maximum(magnitude * dtype.unit_roundoff, dtype.smallest_subnormal / 2)
    return error if rounding.startswith("nearest") else 2 * error


@dataclass(frozen=True)
class Ball:
    """Exact results, and how far from them a computed result may lie.

    Sums, products and functions of balls are exact. `rounded` says where the machine rounds.

    Parameters
    ----------
    centre : numpy.ndarray of float64
        The exact results, to within float64's own error, which the radius takes in. An infinity or a NaN demands
        that very result.
    radius : numpy.ndarray of float64
        At least the distance to any right result; infinite where nothing is promised.

    Examples
    --------
    The bound of ``float16(x + y)`` for FP16 operands:

    >>> from poplibs_py.formats import FP16
    >>> ball = (Ball.exact([1.0, 3.0]) + Ball.exact([2.0**-11, 5.0])).rounded(FP16)
    >>> ball.contains([1.0, 8.0]).tolist(), ball.contains([1.0, 8.5]).tolist()
    ([True, True], [True, False])
    """

    centre: Floats
    radius: Floats

    def __post_init__(self) -> None:
        centre, radius = floats("centre", self.centre), floats("radius", self.radius)
        if radius.shape != centre.shape:
            broadcast("radius", radius.shape, centre.shape)
            centre, radius = np.broadcast_arrays(centre, radius)
        object.__setattr__(self, "centre", centre)
        object.__setattr__(self, "radius", np.where(np.isnan(radius), np.inf, radius))

    @classmethod
    def exact(cls, values: ArrayLike) -> Ball:
        """Return balls of radius zero: operands, which are what they are."""
        return cls(floats("values", values), np.zeros(()))

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the results."""
        return self.centre.shape

    def __getitem__(self, index: Any) -> Ball:
        try:
            return Ball(self.centre[index], self.radius[index])
        except (IndexError, TypeError, ValueError, OverflowError) as error:
            raise InvalidIndexError(f"index: got {described(index)}; allowed: an index of shape {self.shape} "
                                    f"({error})") from None

    def reshape(self, *shape: int) -> Ball:
        """Return the same balls in another shape."""
        try:
            return Ball(self.centre.reshape(shape), self.radius.reshape(shape))
        except Exception:  # whatever an object of somebody else's raises
            raise bad_argument("shape", shape, f"sizes of {self.centre.size} elements in all") from None

    def __add__(self, other: Ball | ArrayLike) -> Ball:
        that = self._met(other)
        with np.errstate(all="ignore"):
            centre = self.centre + that.centre
            return _widened(centre, self.radius + that.radius)

    __radd__ = __add__

    def __neg__(self) -> Ball:
        return Ball(-self.centre, self.radius)

    def __sub__(self, other: Ball | ArrayLike) -> Ball:
        return self + (-_ball(other))

    def __mul__(self, other: Ball | ArrayLike) -> Ball:
        that = self._met(other)
        with np.errstate(all="ignore"):
            centre = self.centre * that.centre
            radius = (_times(_finite(self.centre), that.radius) + _times(_finite(that.centre), self.radius)
                      + _times(self.radius, that.radius))
            lost = np.isinf(self.centre) & that._unsigned() | np.isinf(that.centre) & self._unsigned()
            return _widened(centre, np.where(lost, np.inf, radius))

    __rmul__ = __mul__

    def _unsigned(self) -> NDArray[np.bool_]:
        """Where a result may be zero, or of the other sign, unless that is exact: infinities times it are anything."""
        return (self.radius > 0) & (self.radius >= np.abs(self.centre))

    def _met(self, other: Ball | ArrayLike) -> Ball:
        """The other operand of an operation, of a shape that broadcasts with this one's."""
        that = _ball(other)
        broadcast("other", that.shape, self.shape)
        return that

    def sum(self, axis: int | tuple[int, ...] | None = None) -> Ball:
        """Add balls exactly along axes; say the roundings of a machine's sum with `sum_ball`."""
        for one in axis if isinstance(axis, tuple) else () if axis is None else (axis,):
            whole("axis", one, -self.centre.ndim, self.centre.ndim - 1)
        if isinstance(axis, tuple) and len({one % self.centre.ndim for one in axis}) < len(axis):
            raise bad_argument("axis", axis, "axes that are named once")
        with np.errstate(all="ignore"):
            centre = self.centre.sum(axis)
            own = gamma(self.centre.size, _OWN) * np.abs(_finite(self.centre)).sum(axis)
            return Ball(centre, (self.radius.sum(axis) + own) * _SLACK)

    def mapped(self, function: Callable[[Floats], Floats], lipschitz: float, relative: float = 0.0,
               absolute: float = 0.0) -> Ball:
        """Apply a function of one variable.

        Parameters
        ----------
        function : callable
            float64 arrays to float64 arrays.
        lipschitz : float
            Its greatest slope: 1 for relu.
        relative, absolute : float, optional
            The error of the machine's own evaluation: a share of the result, and a number added to it.
        """
        if not callable(function):
            raise bad_type("function", function, "a function of an array")
        given = {"lipschitz": lipschitz, "relative": relative, "absolute": absolute}
        numbers = {name: floats(name, value) for name, value in given.items()}
        for name, number in numbers.items():
            broadcast(name, number.shape, self.shape)
        with np.errstate(all="ignore"):
            centre = floats("function", function(self.centre))
            broadcast("function", centre.shape, self.shape)
            radius = (_times(numbers["lipschitz"], self.radius) + numbers["relative"] * np.abs(_finite(centre))
                      + numbers["absolute"])
            return _widened(centre, radius, own=4 * _OWN)

    def rounded(self, dtype: Format, rounding: str = "nearest-even", overflow: str | None = None) -> Ball:
        """Round to a format.

        Parameters
        ----------
        dtype : Format
            The format that the machine rounds to.
        rounding : str, optional
            As in `rounding_error`.
        overflow : {"inf", "nan", "saturate", "directed"}, optional
            What a result becomes that is too large; by default infinity where the format has it, else NaN where it has
            that. ``"directed"`` is that on the side that rounding up or down goes to, and saturates on the other.
        """
        dtype = format_of(dtype)
        one_of("overflow", overflow, ("inf", "nan", "saturate", "directed", None))
        if overflow == "directed":
            out, kept = (self.rounded(dtype, rounding, word) for word in (dtype.overflow, "saturate"))
            outward = self.centre > 0 if rounding == "up" else self.centre < 0
            return Ball(np.where(outward, out.centre, kept.centre), np.where(outward, out.radius, kept.radius))
        overflow = overflow or dtype.overflow
        with np.errstate(all="ignore"):
            reach = np.abs(_finite(self.centre)) + self.radius
            radius = self.radius + rounding_error(reach, dtype, rounding)
            if overflow == "saturate":
                near = np.clip(self.centre, -dtype.max, dtype.max)
                if not dtype.has_nan:  # infinities are the largest numbers, NaN is a zero
                    return Ball(np.where(np.isnan(near), 0.0, near), radius)
                # An infinity saturates too, or stays, or is NaN: that is the op's to say before it rounds.
                return Ball(np.where(np.isfinite(self.centre), near, self.centre), radius)
            # What rounds to the number that would follow the largest one overflows.
            step = 2.0 ** (dtype.max_exponent - dtype.mantissa_bits)
            threshold = dtype.max + (step / 2 if rounding.startswith("nearest") else step)
            return self._overflowed(dtype, overflow, threshold, reach, radius)

    def _overflowed(self, fmt: Format, overflow: str, threshold: float, reach: Floats, radius: Floats) -> Ball:
        if np.all(reach <= fmt.max) and np.isfinite(self.centre).all():
            return Ball(self.centre, radius)
        least = np.abs(_finite(self.centre)) - self.radius
        surely = np.isinf(self.centre) | (np.isfinite(self.centre) & (least > threshold))
        maybe = ~surely & np.isfinite(self.centre) & (reach > fmt.max)
        result = np.where(surely, np.sign(self.centre) * np.inf if overflow == "inf" else np.nan, self.centre)
        radius = np.where(maybe, np.inf, radius)
        return Ball(result, np.where(surely & np.isfinite(self.radius), 0.0, radius))

    def contains(self, got: ArrayLike) -> NDArray[np.bool_]:
        """Return for each result whether it is right: within its ball, NaN where NaN is due, infinities by sign.

        Parameters
        ----------
        got : array_like of float
            Computed results, in the shape of the balls.
        """
        values = floats("got", got)
        broadcast("got", values.shape, self.shape)
        with np.errstate(all="ignore"):
            near = np.abs(values - self.centre) <= self.radius
        same = (values == self.centre) | (np.isnan(values) & np.isnan(self.centre))
        return np.where(np.isfinite(self.centre), near, same) | np.isinf(self.radius)


def sum_ball(centre: ArrayLike, magnitude: ArrayLike, terms: ArrayLike, partials_dtype: Format = FP32, *,
             flushes: bool = False, carried: ArrayLike = 0.0) -> Ball:
    """Bound a sum, in any order, of terms that are each rounded once.

    Parameters
    ----------
    centre : array_like of float
        The exact sums.
    magnitude : array_like of float
        The sums of the terms' magnitudes, those that are not finite left out.
    terms : array_like of int
        How many terms each sum has: roundings that one term may meet.
    partials_dtype : Format, optional
        The format of the partial sums, FP32 by default.
    flushes : bool, optional
        Whether the unit takes subnormal results for zero.
    carried : array_like of float, optional
        What the terms may already be wrong by, in all.
    """
    with np.errstate(all="ignore"):
        partials, wrong = format_of(partials_dtype, "partials_dtype"), floats("carried", carried)
        sizes, roundings = floats("magnitude", magnitude), floats("terms", terms)
        shape = floats("centre", centre).shape
        for name, met in (("carried", wrong), ("magnitude", sizes), ("terms", roundings)):
            shape = broadcast(name, met.shape, shape)
        least = partials.smallest_normal if flag("flushes", flushes) else partials.smallest_subnormal
        relative = gamma(roundings, partials.unit_roundoff) + 2 * gamma(roundings, _OWN)
        sizes = sizes + wrong
        radius = _times(relative, sizes) + 2 * roundings * least + wrong
        overflows = sizes + radius > partials.max
        return Ball(floats("centre", centre), np.where(overflows, np.inf, radius * _SLACK))


def matmul_ball(a: ArrayLike, b: ArrayLike, partials_dtype: Format = FP32, *, terms: int | None = None,
                flushes: bool = False) -> Ball:
    """Bound ``a @ b``: products exact or rounded once to the partials' format, summed in any order.

    Parameters
    ----------
    a, b : array_like of float
        The operands' values, at least two-dimensional; batch dimensions broadcast.
    partials_dtype : Format, optional
        The format of the partial sums, FP32 by default.
    terms : int, optional
        Terms of each sum; the inner dimension by default. A kernel that splits its operands into parts has more.
    flushes : bool, optional
        Whether the unit takes subnormal operands and results for zero, as bfloat16 units do.

    Examples
    --------
    >>> ball = matmul_ball([[1.0, 2.0]], [[3.0], [4.0]])
    >>> float(ball.centre[0, 0]), float(ball.radius[0, 0]) <= 2.1 * 2.0**-24 * 11
    (11.0, True)
    """
    left, right, partials = floats("a", a), floats("b", b), format_of(partials_dtype, "partials_dtype")
    check_product(left, right)
    with np.errstate(all="ignore"):
        centre = left @ right
        magnitude = magnitude_product(left, right)
        lost: ArrayLike = 0.0
        if flag("flushes", flushes):
            magnitudes = np.abs(_finite(left)), np.abs(_finite(right))
            small = [np.where(m < partials.smallest_normal, m, 0.0) for m in magnitudes]
            lost = small[0] @ magnitudes[1] + magnitudes[0] @ small[1]
            # An infinity times a subnormal taken for zero is NaN: no promise there.
            special = [(~np.isfinite(v)).astype(float) for v in (left, right)]
            tiny = [((m > 0) & (m < partials.smallest_normal)).astype(float) for m in magnitudes]
            lost = np.where(special[0] @ tiny[1] + tiny[0] @ special[1] > 0, np.inf, lost)
    count = left.shape[-1] if terms is None else terms
    return sum_ball(centre, magnitude, count, partials, flushes=flushes, carried=lost)


def check_product(a: Floats, b: Floats) -> None:
    """Raise unless two arrays are matrices, or batches of them that broadcast, of which there is a product."""
    check_shape("b", b, a.ndim >= 2 and b.ndim >= 2 and a.shape[-1] == b.shape[-2],
                f"matrices of as many rows as a, {a.shape}, has columns")
    try:
        np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    except ValueError:
        raise bad_argument("b", f"shape {b.shape}", f"batches that broadcast with those of a, {a.shape}") from None


def magnitude_product(a: Floats, b: Floats) -> Floats:
    """Return ``|a| @ |b|``, numbers that are not finite left out: what the rounding errors of a product grow with."""
    left, right = floats("a", a), floats("b", b)
    check_product(left, right)
    with np.errstate(all="ignore"):
        product: Floats = np.abs(_finite(left)) @ np.abs(_finite(right))
    return product


def dot_ball(products: ArrayLike, axis: int = -1, partials_dtype: Format = FP32, *, flushes: bool = False) -> Ball:
    """Bound sums of exact terms, `products`, along an axis, in any order: the general form of `matmul_ball`.

    Examples
    --------
    >>> float(dot_ball([1.0, -1.0, 2.0**-30]).centre) == 2.0**-30
    True
    """
    values = floats("products", products)
    axis = whole("axis", axis, -values.ndim, values.ndim - 1)
    with np.errstate(all="ignore"):
        magnitude = np.abs(_finite(values)).sum(axis)
        return sum_ball(values.sum(axis), magnitude, values.shape[axis], partials_dtype, flushes=flushes)


def _ball(value: Ball | ArrayLike) -> Ball:
    return value if isinstance(value, Ball) else Ball.exact(value)


def _widened(centre: Floats, radius: Floats, own: float = _OWN) -> Ball:
    return Ball(centre, (radius + own * np.abs(_finite(centre))) * _SLACK)


def _finite(values: Floats) -> Floats:
    return np.where(np.isfinite(values), values, 0.0)


def _times(a: Floats, b: Floats) -> Floats:
    """Magnitudes multiplied, where nothing times an infinite radius is nothing."""
    magnitude = np.abs(a), np.abs(b)
    return np.where((magnitude[0] == 0) | (magnitude[1] == 0), 0.0, magnitude[0] * magnitude[1])
