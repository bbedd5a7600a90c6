"""Operands whose sums of products are the same in every order.

The idea is oneDNN's (benchdnn's "safe" fillings): let every operand be a small whole number times a power of two, and
let no sum of magnitudes pass 2^p, where p is the precision of the accumulator. Every partial sum, in any order,
blocked, fused or split, is then a whole number of at most p bits: nothing is ever rounded before the end. Results must
be equal to the last bit, and no tolerance hides an index that is one off.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..checks import as_shape, flag, instance, whole
from ..errors import bad_argument
from ..formats import FP32, Array, Format, format_of
from ..ops import Seed, seed_of
from ..popsparse import BlockPattern, BlockSparseMatrix
from ..popsparse.spmm.bound import most_terms
from .exact import round_exact, values_of

_MOST = 1 << 34


@dataclass(frozen=True)
class ExactOperands:
    """Two operands whose products may be summed in any order.

    Attributes
    ----------
    a : numpy.ndarray or BlockSparseMatrix
        The left operand, in its format's dtype (codes, for a format without one).
    b : numpy.ndarray
        The right one.
    quantum : float
        Every product is a whole multiple of it.
    limit : int
        No sum of magnitudes of products passes `limit` quanta, and as much again can be added exactly.
    """

    a: Any
    b: Array
    quantum: float
    limit: int

    def addend(self, shape: tuple[int, ...], dtype: Any, seed: Seed = 0) -> Array:
        """Return an operand (bias, accumulator) that may be added to the products' sums without a rounding."""
        form, seed = format_of(dtype), seed_of(seed)
        shape = as_shape("shape", shape, most=_MOST)
        most = min(self.limit, _whole_numbers(form))
        numbers = np.random.default_rng(seed).integers(-most, most, shape, endpoint=True)
        if not form.smallest_subnormal <= self.quantum <= form.max / most:
            raise bad_argument("dtype", form.name, f"a format that holds multiples of {self.quantum}")
        return as_format(numbers * self.quantum, form)


def exact_operands(a_shape: tuple[int, ...], b_shape: tuple[int, ...], a_dtype: Any, b_dtype: Any = None, *,
                   partials_dtype: Any = FP32, seed: Seed = 0, terms: int | None = None) -> ExactOperands:
    """Make operands of a product ``a @ b`` whose sums are exact in the partials' format.

    Seeds vary the picture: many small numbers, or few large ones (which fill every bit of the operands' formats), and
    the powers of two that they are multiplied by.

    Parameters
    ----------
    a_shape, b_shape : tuple of int
        Shapes ``[..., m, k]`` and ``[..., k, n]``.
    a_dtype, b_dtype : Format, dtype or str
        Their formats; that of `b` is that of `a` by default.
    partials_dtype : Format, dtype or str, optional
        The format of the partial sums, FP32 by default.
    seed : int or (int, int), optional
        The same seed gives the same operands.
    terms : int, optional
        The most products that any sum has. By default k: the last axis of `a`, which then may hold few non-zeros.
        Give the largest extent where sums run along other axes too, as in gradients.

    Examples
    --------
    >>> made = exact_operands((3, 100), (100, 4), "f143", seed=7)
    >>> a, b = made.a.astype(np.float32), made.b.astype(np.float32)
    >>> forwards, backwards = a @ b, a[:, ::-1] @ b[::-1]
    >>> bool((forwards == backwards).all() and forwards.any())
    True
    """
    a_form, sums = format_of(a_dtype), format_of(partials_dtype)
    b_form = a_form if b_dtype is None else format_of(b_dtype)
    a_shape, b_shape = as_shape("a_shape", a_shape, 1, _MOST), as_shape("b_shape", b_shape, 1, _MOST)
    if terms is None and a_shape[-1] != b_shape[-2:][0]:
        raise bad_argument("b_shape", b_shape, f"as many rows as a_shape has columns, {a_shape[-1]}, or terms")
    rng = np.random.default_rng(seed_of(seed))
    depth = max(1, a_shape[-1] if terms is None else whole("terms", terms, 0, 1 << 62))
    budget = 1 << (sums.precision - 1)
    filled = depth
    if terms is None and rng.random() < 0.5:
        filled = int(max(1, min(depth, budget // (_whole_numbers(a_form) * _whole_numbers(b_form)))))
    if filled > budget:
        raise bad_argument("terms", depth, f"at most {budget}, for exact sums in {sums.name}")
    a, b, quantum = _operands(rng, (a_shape, a_form), (b_shape, b_form), sums, filled)
    if filled < depth:
        kept = np.argsort(rng.random(a_shape), axis=-1) < filled
        a = np.where(kept, a, np.zeros((), a.dtype))
    return ExactOperands(a, b, quantum, budget)


def exact_sparse_operands(pattern: BlockPattern, columns: int, w_dtype: Any, x_dtype: Any = None, *,
                          transposed: bool = False, scale: Any = 0, partials_dtype: Any = FP32,
                          seed: Seed = 0) -> ExactOperands:
    """Make operands of a block-sparse product ``w @ x`` whose sums are exact in the partials' format.

    Parameters
    ----------
    pattern : BlockPattern
        Where `w` has blocks; every one of them is filled.
    columns : int
        Columns of `x`, which has an axis of groups in front where the pattern has several.
    w_dtype, x_dtype : Format, dtype or str
        Their formats, with dtypes; that of `x` is that of `w` by default.
    transposed : bool, optional
        Make `w` the transposed view of a matrix with the pattern.
    scale : int or array of int, optional
        Of `w`, as `BlockSparseMatrix` takes it: 8-bit formats have one, for the matrix or for each block.
    partials_dtype : Format, dtype or str, optional
        The format of the partial sums, FP32 by default.
    seed : int or (int, int), optional
        The same seed gives the same operands.

    Examples
    --------
    >>> from poplibs_py.popsparse import random_pattern
    >>> made = exact_sparse_operands(random_pattern(32, 48, 8, density=0.5), 3, "float16", seed=1)
    >>> dense = made.a.to_dense()
    >>> bool((dense @ made.b == dense[:, ::-1] @ made.b[::-1]).all() and (made.a @ made.b).any())
    True
    """
    instance("pattern", pattern, BlockPattern, "a BlockPattern")
    columns = whole("columns", columns, 0, 1 << 40)
    w_form, sums = format_of(w_dtype, "w_dtype"), format_of(partials_dtype)
    empty = BlockSparseMatrix(pattern, np.zeros((pattern.n_blocks, *pattern.block_shape), w_form.dtype), w_form, scale)
    view = empty.T if flag("transposed", transposed) else empty
    scales = np.asarray(empty.scale)
    low, high = (int(scales.min()), int(scales.max())) if scales.size else (0, 0)
    budget, spread = 1 << (sums.precision - 1), high - low
    filled = max(1, most_terms(view)) << spread  # the least scale's unit counts, and the largest is so many of them
    if filled > budget:
        raise bad_argument("pattern", f"sums of {most_terms(view)} products, scales 2^{spread} apart",
                           f"at most {budget} times the least, for exact sums in {sums.name}")
    x_shape = as_shape("columns", (*(pattern.groups,) * (pattern.groups > 1), view.shape[1], columns), most=_MOST)
    x_form = w_form if x_dtype is None else format_of(x_dtype, "x_dtype")
    rng = np.random.default_rng(seed_of(seed))
    blocks, x, quantum = _operands(rng, (empty.blocks.shape, w_form), (x_shape, x_form), sums, filled, (low, high))
    w = BlockSparseMatrix(pattern, np.where(_inside(pattern), blocks, empty.blocks), w_form, empty.scale)
    return ExactOperands(w.T if transposed else w, x, quantum * 2.0**low, budget)


def _inside(pattern: BlockPattern) -> NDArray[np.bool_]:
    """Which elements of the blocks lie in the matrix."""
    first = pattern.row_indices % max(1, pattern.block_rows), pattern.column_indices
    down, across = (place[:, None] * side + np.arange(side) < extent
                    for place, side, extent in zip(first, pattern.block_shape, pattern.shape, strict=True))
    return np.asarray(down[:, :, None] & across[:, None, :])


def _operands(rng: np.random.Generator, a_side: tuple[tuple[int, ...], Format], b_side: tuple[tuple[int, ...], Format],
              sums: Format, filled: int, scales: tuple[int, int] = (0, 0)) -> tuple[Array, Array, float]:
    """Both operands for sums of so many products, and the products' quantum; a is scaled by 2^scales afterwards."""
    (a_shape, a_form), (b_shape, b_form) = a_side, b_side
    budget = 1 << (sums.precision - 1)
    a_most, b_most = _shared_range(rng, budget // filled, _whole_numbers(a_form), _whole_numbers(b_form))
    a_power, b_power = _powers(rng, sums, scales, (a_form, a_most), (b_form, b_most))
    a, b = (rng.integers(-most, most, shape, endpoint=True).astype(np.float64)
            for shape, most in ((a_shape, a_most), (b_shape, b_most)))
    return as_format(a * 2.0**a_power, a_form), as_format(b * 2.0**b_power, b_form), 2.0 ** (a_power + b_power)


def _whole_numbers(fmt: Format) -> int:
    """The largest n such that every whole number up to n, times a power of two, is in the format."""
    return int(min(1 << fmt.precision, fmt.max / fmt.smallest_subnormal))


def _shared_range(rng: np.random.Generator, budget: int, a_most: int, b_most: int) -> tuple[int, int]:
    """Split a bound on |a||b| between the two, unevenly at random."""
    bits = int(budget).bit_length() - 1
    a_bits, b_bits = a_most.bit_length() - 1, b_most.bit_length() - 1
    share = int(rng.integers(max(0, min(bits - b_bits, a_bits)), min(a_bits, bits), endpoint=True))
    return 1 << share, 1 << min(bits - share, b_bits)


def _powers(rng: np.random.Generator, sums: Format, scales: tuple[int, int],
            *sides: tuple[Format, int]) -> tuple[int, int]:
    """Powers of two for both operands that keep them normal, and their sums between underflow and overflow."""
    ranges = []
    for form, most in sides:
        low = max(form.min_exponent, FP32.min_exponent)
        high = form.max_exponent - most.bit_length() + 1
        if high < low:  # a format of few exponents: let it use its subnormals
            low = form.min_exponent - form.mantissa_bits
            high = max(low, high)
        ranges.append((low, high))
    (a_low, a_high), (b_low, b_high) = ranges
    least, most_power = sums.min_exponent - scales[0], sums.max_exponent - sums.precision - scales[1]
    a = int(rng.integers(max(a_low, least - b_high), min(a_high, most_power - b_low), endpoint=True))
    b = int(rng.integers(max(b_low, least - a), min(b_high, most_power - a), endpoint=True))
    return a, b


def random_operand(shape: tuple[int, ...], dtype: Any, seed: Seed = 0, *, patterns: bool = False) -> Array:
    """Make an operand of ordinary numbers (a normal distribution), or of any bit patterns at all.

    Parameters
    ----------
    shape : tuple of int
        Its shape.
    dtype : Format, dtype or str
        Its format.
    seed : int or (int, int), optional
        The same seed gives the same operand.
    patterns : bool, optional
        Draw codes evenly: every exponent is as frequent as any other, and infinities and NaNs come with them.

    Examples
    --------
    >>> random_operand((2, 2), "bfloat16", seed=1).dtype
    dtype(bfloat16)
    """
    form, shape = format_of(dtype), as_shape("shape", shape, most=_MOST)
    rng = np.random.default_rng(seed_of(seed))
    if flag("patterns", patterns):
        codes = rng.integers(0, 1 << form.bits, shape, dtype=np.int64).astype(form.code_dtype)
        return codes if form.dtype is None else codes.view(form.dtype)
    return as_format(rng.standard_normal(shape) * min(1.0, form.max / 8), form)


def as_format(values: NDArray[np.floating[Any]], dtype: Format) -> Array:
    """Return values rounded to a format, in its dtype, or as codes where it has none."""
    form, numbers = format_of(dtype), values_of(values, name="values")
    if form.dtype is not None:
        with np.errstate(all="ignore"):
            return numbers.astype(form.dtype)
    codes = [round_exact(float(v), form) for v in numbers.flat]
    return np.array(codes, form.code_dtype).reshape(numbers.shape)
