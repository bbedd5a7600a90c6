"""What NumPy's and SciPy's users expect of a matrix, beside what `BlockSparseMatrix` says itself."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from ..checks import check_shape, finite, whole
from ..errors import InvalidIndexError, bad_argument, bad_type, described
from ..formats import FP32, Array, Format, QuarterArray
from ..formats.arrays import as_array
from ..immutable import Immutable, holding
from ..ops import result_format
from ..target.host_memory import check_memory
from .convert import inside_matrix
from .pattern import BlockPattern, pattern_at, places_of
from .reference import sampled
from .values import as_format, as_quarter, decode, encode, parts_of_quarter

OPERATORS: dict[str, Callable[..., Any]] = {}
"""What the operators call: the products put themselves here, of which matrices know nothing."""

_ELEMENTWISE = "a finite number of float32's range; w @ x is the matrix product, w.to_dense() * x the elementwise one"


class MatrixFace(Immutable):
    """Operators, parts, SciPy's names for conversions, and the methods of its linear operators."""

    __slots__ = ()

    __array_ufunc__ = None
    __hash__ = None  # type: ignore[assignment]

    if TYPE_CHECKING:
        pattern: BlockPattern
        format: Format
        scale: int | Array
        is_transposed: bool
        _blocks: Array

        @property
        def shape(self) -> tuple[int, int]: ...
        @property
        def block_shape(self) -> tuple[int, int]: ...
        @property
        def groups(self) -> int: ...
        @property
        def nnz(self) -> int: ...
        @property
        def T(self) -> Self: ...  # noqa: N802
        def copy(self) -> Self: ...
        def equals(self, other: object) -> bool: ...
        def group(self, index: int) -> Self: ...
        def to_dense(self, dtype: Any = np.float32) -> Array: ...
        def to_scipy(self, kind: str = "bsr") -> Any: ...
        def _with(self, blocks: Array, **changes: Any) -> Self: ...
        def _rows(self, rows: slice, name: str) -> Self: ...

    # SciPy's names

    @property
    def size(self) -> int:
        """Stored elements, as `nnz`: SciPy's meaning of the word for sparse arrays."""
        return self.nnz

    @property
    def mT(self) -> Self:  # noqa: N802  (NumPy's name)
        """The transpose, of each group, as `T`."""
        return self.T

    def toarray(self) -> Array:
        """Return the matrix as a dense float32 array, as `to_dense`."""
        return self.to_dense()

    def tobsr(self) -> Any:
        """Return a SciPy BSR array, as ``to_scipy("bsr")``."""
        return self.to_scipy("bsr")

    def tocsr(self) -> Any:
        """Return a SciPy CSR array, as ``to_scipy("csr")``."""
        return self.to_scipy("csr")

    def tocsc(self) -> Any:
        """Return a SciPy CSC array, as ``to_scipy("csc")``."""
        return self.to_scipy("csc")

    def tocoo(self) -> Any:
        """Return a SciPy COO array, as ``to_scipy("coo")``."""
        return self.to_scipy("coo")

    def dot(self, other: Any) -> Any:
        """Return ``w @ other``, SciPy's other name for the product."""
        return self @ other

    def sum(self, axis: int | None = None) -> Any:
        """Return the sum of all elements, or of each column (``axis=0``) or row (``axis=1``), in float32.

        A sum is made in float64 and rounded once. With groups, one sum, or vector of sums, for each.

        Examples
        --------
        >>> import numpy as np
        >>> from poplibs_py.popsparse import BlockSparseMatrix
        >>> w = BlockSparseMatrix.from_dense(np.diag([1.0, 2.0, 4.0]), 1)
        >>> w.sum(), w.sum(axis=1).tolist()
        (np.float32(7.0), [1.0, 2.0, 4.0])
        """
        if axis is not None:
            axis = whole("axis", axis, -2, 1) % 2
        with np.errstate(over="ignore", invalid="ignore"):  # sums beyond float32 are infinite; signalling NaNs
            sums = [matrix.tocsr().astype(np.float64).sum(axis) for matrix in self._each()]
            return np.float32(sums[0]) if self.groups == 1 else np.asarray(sums, np.float32)

    def map(self, operation: Callable[..., Any], *others: Any, **keywords: Any) -> Self:
        """Apply an elementwise function to the stored values: what is not stored stays zero, whatever it makes of zero.

        Parameters
        ----------
        operation : callable
            Called as ``operation(values, *others, **keywords)``: any elementwise op of `popops`, or of NumPy. Values
            are an array of the blocks' shape, or a `QuarterArray` where they have a scale. It returns numbers of that
            shape, in any of the formats.
        *others
            Matrices of the same pattern; dense arrays of the matrix's shape, read where something is stored. Whatever
            has no shape, such as a number or a dtype, is passed on.

        Examples
        --------
        >>> import numpy as np
        >>> from poplibs_py import popops
        >>> from poplibs_py.popsparse import BlockSparseMatrix
        >>> w = BlockSparseMatrix.from_dense([[-1.0, 0.0], [0.0, 4.0]], 1)
        >>> w.map(popops.mul, np.float32([[2, 9], [9, 3]])).to_dense()
        array([[-2.,  0.],
               [ 0., 12.]], dtype=float32)
        """
        if not callable(operation):
            raise bad_type("operation", operation, "an elementwise function")
        scale = self.scale if isinstance(self.scale, int) else self.scale.copy()
        values = as_quarter(self._blocks, scale) if np.any(scale) else self._blocks.copy()
        made = operation(values, *(self._met(x) for x in others), **keywords)
        found, exponents = parts_of_quarter(made) if isinstance(made, QuarterArray) else (np.asarray(made), 0)
        if found.shape != self._blocks.shape:
            raise bad_argument("operation", f"one that returns shape {found.shape}", f"shape {self._blocks.shape}")
        try:
            target = as_format(found.dtype)
        except TypeError:
            raise bad_type("operation", f"one that returns {found.dtype}", "one that returns numbers") from None
        blocks = np.array(found, order="C")
        if self.pattern.is_ragged:
            blocks[~inside_matrix(self.pattern)] = 0
        return self._with(blocks=blocks, format=target, scale=exponents)

    def _met(self, other: Any) -> Any:
        """What a function of the stored values is given of another operand."""
        if isinstance(other, MatrixFace):
            if other.pattern != self.pattern or other.is_transposed != self.is_transposed:
                raise bad_argument("others", repr(other), f"a matrix of the same pattern, {self.pattern}")
            return as_quarter(other._blocks, other.scale) if np.any(other.scale) else other._blocks
        if not hasattr(other, "shape") and not isinstance(other, (list, tuple)):
            return other
        array = as_array("others", other, "numbers, a matrix of the same pattern, or a dense array")
        if array.ndim == 0:
            return other
        shape = ((self.groups,) if self.groups > 1 else ()) + self.shape
        check_shape("others", array, array.shape == shape, f"shape {shape}, a number or a matrix")
        stack, p = array.reshape(-1, *self.shape), self.pattern
        turned = stack.swapaxes(1, 2) if self.is_transposed else stack
        return sampled(turned, p.block_shape, p.row_offsets, p.column_indices)

    def diagonal(self, k: int = 0) -> Array:
        """Return the elements ``w[i, i + k]``, in float32; with groups, of each."""
        k = whole("k", k, -(2**31), 2**31)
        found = [np.zeros(0, np.float32) if not -self.shape[0] < k < self.shape[1] else matrix.tocsr().diagonal(k)
                 for matrix in self._each()]
        return np.asarray(found[0] if self.groups == 1 else found)

    def _each(self) -> list[Self]:
        return [self] if self.groups == 1 else [self.group(i) for i in range(self.groups)]

    # SciPy's linear operators

    def matvec(self, x: object) -> Array:
        """Return ``W x`` for a vector, in float32: with `rmatvec`, what ``scipy.sparse.linalg`` asks of an operator.

        Parameters
        ----------
        x : array_like of real numbers, shape (columns,) or (columns, 1)
            Rounded to float32 where it is float64 or of integers, as solvers pass it.

        Examples
        --------
        >>> import numpy as np
        >>> from scipy.sparse.linalg import cg
        >>> from poplibs_py.popsparse import BlockSparseMatrix
        >>> w = BlockSparseMatrix.from_dense(np.diag([1.0, 2.0, 4.0]), 1)
        >>> solution, info = cg(w, np.ones(3))
        >>> solution.round(4).tolist(), info
        ([1.0, 0.5, 0.25], 0)
        """
        return self._applied(x, 1)

    def rmatvec(self, x: object) -> Array:
        """Return ``W' x`` for a vector, as `matvec`."""
        return self.T._applied(x, 1)

    def matmat(self, x: object) -> Array:
        """Return ``W X`` for a matrix, as `matvec`."""
        return self._applied(x, 2)

    def rmatmat(self, x: object) -> Array:
        """Return ``W' X`` for a matrix, as `matvec`."""
        return self.T._applied(x, 2)

    @holding
    def _applied(self, x: object, ndim: int) -> Array:
        depth = self.shape[1]
        if self.groups > 1:
            raise bad_argument("w", f"{self.groups} groups", "one: see BlockSparseMatrix.group")
        numbers = as_array("x", x, "an array of real numbers")
        shapes = f"shape ({depth},) or ({depth}, 1)" if ndim == 1 else f"shape ({depth}, columns)"
        fits = numbers.ndim in (ndim, 2) and len(numbers) == depth and (ndim != 1 or numbers.size == depth)
        check_shape("x", numbers, fits, shapes)
        if numbers.dtype.kind in "iub" or numbers.dtype == np.float64:
            numbers = numbers.astype(np.float32)
        product: Array = OPERATORS["w @ x"](self, numbers, out_dtype=FP32)
        return product

    # Parts

    def __getitem__(self, index: Any) -> Any:
        """Return a part, of each group: ``w[start:stop]``, ``w[:, start:stop]``, or a dense row, column or element.

        Slices begin and end on the edges of blocks; the values are shared where they lie together: those of rows, in
        a matrix without groups that is not transposed. ``w[i]``, ``w[:, j]`` and ``w[i, j]`` are new float32 arrays,
        with an axis of groups in front where there are several.
        """
        if isinstance(index, slice):
            return self._rows(index, "rows")
        entries = index if isinstance(index, tuple) else (index,)
        if not 1 <= len(entries) <= 2:
            raise InvalidIndexError(f"index: got {described(index)}; allowed: rows, or rows and columns")
        part, row = _lines(self, entries[0], "rows")
        column: Any = slice(None)
        if len(entries) == 2:
            turned, column = _lines(part.T, entries[1], "columns")
            part = turned.T
        if isinstance(row, slice) and isinstance(column, slice):
            return part
        return part.to_dense()[..., row, column]

    def split_rows(self, parts: int) -> list[Self]:
        """Return the matrix in parts of whole rows of blocks, one below another, with about as many stored blocks each.

        Parameters
        ----------
        parts : int
            How many there are at most; fewer where there are not so many rows of blocks. ``w.T.split_rows`` cuts
            columns.

        Examples
        --------
        >>> import numpy as np
        >>> from poplibs_py.popsparse import BlockSparseMatrix
        >>> w = BlockSparseMatrix.from_dense(np.tri(8), 2)
        >>> [(part.shape, part.n_blocks) for part in w.split_rows(2)]
        [((6, 8), 6), ((2, 8), 4)]
        """
        parts = whole("parts", parts, 1, 2**31)
        offsets = self.pattern.transposed_index()[0] if self.is_transposed else self.pattern.row_offsets
        counts = np.diff(offsets).reshape(self.groups, -1).sum(0)
        parts = min(parts, counts.size)
        if not parts:
            return []
        # Rows without blocks are shared out too; one block weighs more than all of those.
        weights = counts * (counts.size + 1) + 1
        ends, numbers = np.cumsum(weights), np.arange(1, parts)
        nearest = np.searchsorted(ends - weights / 2, numbers * (ends[-1] / parts))
        behind = numbers + np.maximum.accumulate(np.clip(nearest - numbers, 0, counts.size - parts))
        edges = [0, *behind.tolist(), counts.size]
        side, extent = self.block_shape[0], self.shape[0]
        return [self._rows(slice(first * side, min(last * side, extent)), "rows") for first, last in pairwise(edges)]

    # Arithmetic

    def __matmul__(self, x: Any) -> Any:
        return OPERATORS["w @ x"](self, x)

    def __rmatmul__(self, x: Any) -> Any:
        return OPERATORS["x @ w"](x, self)

    def __mul__(self, number: object) -> Self:
        """Multiply the stored values by a number: rounded to FP32 first, each product then once to the result's format.

        The result is float32, float16 or bfloat16 as the matrix is, float16 for an 8-bit one: see `astype`.
        """
        return self._by(number, np.multiply)

    __rmul__ = __mul__

    def __truediv__(self, number: object) -> Self:
        """Divide the stored values by a number, as `*` multiplies."""
        return self._by(number, np.divide)

    def __neg__(self) -> Self:
        """Return the matrix with all signs turned, in its own format."""
        return self._with(blocks=encode(-decode(self._blocks, self.scale), self.format, self.scale))

    def __add__(self, other: object) -> Self:
        """Add two matrices of one shape and one shape of blocks: where either has blocks, each sum rounded once.

        The result's format is that of all operations: float32 where a matrix is or where FP16 meets BF16, else the
        16-bit format that is there, float16 for 8-bit ones alone.
        """
        return self._sum(other, np.add)

    def __radd__(self, other: object) -> Self:
        if type(other) is int and other == 0:  # where `sum` begins
            return self
        return self._sum(other, np.add)

    def __sub__(self, other: object) -> Self:
        """Subtract a matrix, as `+` adds."""
        return self._sum(other, np.subtract)

    def __eq__(self, other: object) -> Any:
        return self._no_comparison(other)

    def __ne__(self, other: object) -> Any:
        return self._no_comparison(other)

    def _no_comparison(self, other: object) -> Any:
        try:
            compared = hasattr(other, "shape") or isinstance(other, (int, float, list, tuple))
        except Exception:  # whatever an object of somebody else's raises
            compared = True
        if compared:
            raise bad_type("==", f"a BlockSparseMatrix and {described(other)}",
                           "w.equals(v), whether all is the same, or w.to_dense() == v, element by element")
        return NotImplemented

    def _by(self, number: object, operation: np.ufunc) -> Self:
        try:
            factor = np.float32(finite("other", number, -FP32.max, FP32.max))
        except TypeError:
            raise bad_type("other", number, _ELEMENTWISE) from None
        if operation is np.divide and not factor:
            raise bad_argument("other", number, "a number other than zero")
        target = result_format(self.format)
        with np.errstate(all="ignore"):
            values = operation(_wide(self, target), factor)
        return self._with(blocks=encode(values, target), format=target, scale=0)

    def _sum(self, other: object, operation: np.ufunc) -> Self:
        if not isinstance(other, MatrixFace):
            raise bad_type("other", other, "a BlockSparseMatrix; w.to_dense() + x is the dense sum")
        if (self.shape, self.groups) != (other.shape, other.groups):
            raise bad_argument("other", f"{other.groups} x {other.shape}", f"{self.groups} x {self.shape}")
        if self.block_shape != other.block_shape:
            raise bad_argument("other", f"blocks of {other.block_shape}", f"blocks of {self.block_shape}: "
                               "BlockSparseMatrix.from_scipy(v.tocsr(), block_shape) makes others")
        if self.is_transposed != other.is_transposed:
            return self.copy()._sum(other.copy(), operation)
        target = result_format(self.format, other.format)
        left, right = _wide(self, target), _wide(other, target)
        pattern = self.pattern
        if pattern != other.pattern:
            pattern, places = _union(pattern, other.pattern)
            left, right = (_spread(values, at, pattern) for values, at in zip((left, right), places, strict=True))
        with np.errstate(all="ignore"):
            values = operation(left, right)
        return self._with(blocks=encode(values, target), pattern=pattern, format=target, scale=0)


def _lines(w: Any, entry: Any, name: str) -> tuple[Any, Any]:
    """Return the block rows of a matrix that an index asks for, and which rows of them."""
    if isinstance(entry, slice):
        return (w if entry == slice(None) else w._rows(entry, name)), slice(None)
    extent, side = w.shape[0], w.block_shape[0]
    allowed = f" within {extent} {name}, or a slice on the edges of blocks"
    place = whole("index", entry, what=allowed)
    if not -extent <= place < extent:
        raise InvalidIndexError(f"index: got {place}; allowed: a whole number{allowed}")
    first = place % extent // side * side
    return w._rows(slice(first, min(first + side, extent)), name), place % extent - first


def _wide(w: MatrixFace, target: Format) -> Array:
    """The values in a type in which one operation on two of them, rounded to the target, is rounded correctly."""
    values = decode(w._blocks, w.scale)
    if target == FP32:
        return values
    check_memory("w", f"{values.size} values as float64", 3 * 8 * values.size)
    return values.astype(np.float64)


def _union(one: BlockPattern, other: BlockPattern) -> tuple[BlockPattern, tuple[Array, Array]]:
    """Return the pattern of the blocks of two patterns of one shape, and where those of each are in it."""
    keys = [places_of(p) for p in (one, other)]
    both = np.union1d(*keys)
    return pattern_at(one, both), (np.searchsorted(both, keys[0]), np.searchsorted(both, keys[1]))


def _spread(values: Array, places: Array, pattern: BlockPattern) -> Array:
    shape = pattern.n_blocks, *pattern.block_shape
    check_memory("other", f"{shape[0]} blocks", 3 * values.itemsize * shape[0] * shape[1] * shape[2])
    full = np.zeros(shape, values.dtype)
    full[places] = values
    return full
