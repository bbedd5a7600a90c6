"""The block-sparse matrix: one type for every sparse operation."""

from __future__ import annotations

import os
from numbers import Integral
from typing import Any

import numpy as np

from ..checks import check_shape, flag
from ..errors import bad_argument, bad_type
from ..files import file_path
from ..formats import Array, Format, QuarterArray
from ..formats.arrays import float_dtype
from ..immutable import anchored, holding, settle, token_of
from ..ops import Seed, seed_of
from ..program import Remake, key_by_parts
from ..target.host_memory import check_memory
from . import convert, host, interop, io
from .face import OPERATORS, MatrixFace
from .matrix_market import write_mtx
from .parts import BLOCKS, index_places, kinds_of, parts_of
from .pattern import BlockPattern, as_extent
from .values import (
    as_format,
    as_quarter,
    as_scale,
    decode,
    encode,
    frozen_scale,
    numeric_array,
    parts_of_quarter,
    stored_blocks,
)

__all__ = ["OPERATORS", "BlockSparseMatrix"]


class BlockSparseMatrix(MatrixFace):
    """A matrix that is zero outside some of its blocks, or a group of such matrices.

    Make one with `from_dense`, `from_mask`, `from_blocks`, `from_scipy`, `from_host` or `load`. Rows of blocks are
    stored one after another, and in each the blocks by ascending column; an element of an edge block that lies outside
    the matrix is zero. Static or dynamic is how a matrix is used, not what it is.

    Parameters
    ----------
    pattern : BlockPattern
        Where the blocks are.
    blocks : numpy.ndarray, shape (n_blocks, block rows, block columns)
        Their values, C-contiguous, in `dtype`. The array is shared, not copied.
    dtype : Format, dtype or str, optional
        By default that of the array's dtype.
    scale : int or array of int, optional
        For 8-bit formats, values are ``blocks * 2**scale``: one exponent for the matrix or one for each block, of
        ``dtype.scales`` (default 0).

    Attributes
    ----------
    pattern, blocks, format, scale
        What was passed in. `blocks` may be written to, the pattern may not.
    is_transposed : bool
        Whether this is a transposed view. The pattern and the blocks are then those of ``self.T``.

    Notes
    -----
    It corresponds to PopLibs' ``popsparse::CSRMatrix`` and ``SparsityParams``; `to_host` gives its layouts.

    Examples
    --------
    >>> import numpy as np
    >>> from poplibs_py.popsparse import BlockSparseMatrix
    >>> dense = np.zeros((4, 6), np.float32)
    >>> dense[0, 1], dense[3, 4] = 5, 7
    >>> w = BlockSparseMatrix.from_dense(dense, 2)
    >>> w
    BlockSparseMatrix(shape=(4, 6), block_shape=(2, 2), n_blocks=2, density=0.3333, dtype=float32)
    >>> w.T.to_dense()[1, 0]
    np.float32(5.0)
    """

    __slots__ = ("__weakref__", "_anchor", "_blocks", "_kinds", "_parts", "format", "is_transposed", "pattern", "scale")
    pattern: BlockPattern
    format: Format
    scale: int | Array
    is_transposed: bool
    _blocks: Array
    _kinds: tuple[tuple[object, ...], ...]
    _parts: tuple[Any, ...]

    @holding
    def __init__(self, pattern: BlockPattern, blocks: Array, dtype: object = None, scale: object = 0) -> None:
        if not isinstance(pattern, BlockPattern):
            raise bad_type("pattern", type(pattern).__name__, "a BlockPattern")
        if not isinstance(blocks, np.ndarray) or isinstance(blocks, np.ma.MaskedArray):
            raise bad_type("blocks", type(blocks).__name__, "a numpy.ndarray without a mask")
        target = as_format(dtype, blocks)
        wanted = (pattern.n_blocks, *pattern.block_shape)
        check_shape("blocks", blocks, blocks.shape == wanted, f"shape {wanted}")
        if blocks.dtype != target.dtype:
            raise bad_type("blocks", f"dtype {blocks.dtype}", f"{target.dtype} for dtype {target.name}")
        if not (blocks.flags.c_contiguous and blocks.flags.aligned):
            raise bad_argument("blocks", "an array that is not aligned and C-contiguous", "one that is both")
        convert.check_edges(pattern, blocks)
        held, anchor = anchored(blocks)
        exponents = frozen_scale(as_scale(scale, target, pattern.n_blocks))
        self._set(pattern=pattern, _blocks=held, _anchor=anchor, format=target, is_transposed=False, scale=exponents)
        self._settle()

    # Making one

    @classmethod
    @holding
    def from_blocks(cls, blocks: object, *, shape: object, column_indices: object, row_offsets: object = None,
                    row_indices: object = None, groups: int = 1, block_shape: object = None, dtype: object = None,
                    scale: object = None, copy: bool = True) -> BlockSparseMatrix:
        """Make a matrix from its raw parts.

        Parameters
        ----------
        blocks : array_like or QuarterArray, shape (n_blocks, block rows, block columns), or (n_blocks,) for elements
        shape : (int, int)
            Rows and columns of each group, in elements.
        column_indices : array_like of int, shape (n_blocks,)
            Block columns.
        row_offsets : array_like of int, shape (groups * block rows + 1,), optional
        row_indices : array_like of int, shape (n_blocks,), optional
            One of the two: where each block row's blocks begin, or the block row of each block counted through all
            groups. Blocks that are out of order are sorted.
        groups : int, optional
        block_shape : int or (int, int), optional
            Checked against the blocks where given.
        dtype : Format, dtype or str, optional
            Values are rounded to it; by default the dtype's own, FP32 for float64 and whole numbers.
        scale : int, array of int, "auto" or "auto_per_block", optional
            For 8-bit formats. Blocks of an 8-bit dtype are codes, whose values are ``blocks * 2**scale`` (by default
            0); a `QuarterArray` has its own scale. Other numbers are divided by ``2**scale`` and rounded. An array has
            one exponent for each block, in the order of `blocks`. ``"auto"``, the default for numbers that are rounded,
            is the least for which nothing overflows; ``"auto_per_block"`` is the least for each block. A `RangeWarning`
            counts what overflows at another.
        copy : bool, optional
            Whether to copy blocks that could be shared as they are (default True).

        Raises
        ------
        InvalidArgumentError, InvalidTypeError
            For indices out of range or given twice, wrong shapes or dtypes, or an edge block with a value outside the
            matrix that is not zero.

        Examples
        --------
        >>> w = BlockSparseMatrix.from_blocks([2.0, 1.0], shape=(2, 2), row_indices=[1, 0], column_indices=[0, 1])
        >>> w.to_dense()
        array([[0., 1.],
               [2., 0.]], dtype=float32)
        """
        if isinstance(blocks, QuarterArray):
            blocks, scale = parts_of_quarter(blocks)
        values = numeric_array("blocks", blocks)
        values = values.reshape(-1, 1, 1) if values.ndim == 1 else values
        if values.ndim != 3:
            raise bad_argument("blocks", f"{values.ndim} dimensions", "3: blocks, their rows, their columns")
        pattern, order = convert.pattern_of_parts(values.shape, shape, column_indices, row_offsets, row_indices, groups,
                                                  block_shape)
        return cls(pattern, *stored_blocks(values, dtype, scale, order, flag("copy", copy)))

    @classmethod
    @holding
    def from_dense(cls, dense: object, block_shape: object, *, density: float | None = None, mask: object = None,
                   dtype: object = None, scale: object = None) -> BlockSparseMatrix:
        """Make a matrix from a dense one.

        Parameters
        ----------
        dense : array_like, shape (rows, columns) or (groups, rows, columns)
        block_shape : int or (int, int)
        density : float, optional
            Keep the ``ceil(density * blocks)`` blocks of greatest Euclidean norm, of all groups together. Where norms
            are equal the first wins.
        mask : array_like of bool, shape (block rows, block columns), or that of `dense`, optional
            Blocks or elements to keep, with an axis of groups in front where there are several. A mask of elements
            keeps every block that has one; the other elements of such a block become zero. Without `mask` and
            `density`, every block with a non-zero element is kept.
        dtype : Format, dtype or str, optional
            Values are rounded to it; by default the dtype's own, FP32 for float64 and whole numbers.
        scale : int, "auto" or "auto_per_block", optional
            For 8-bit formats: store values divided by ``2**scale``. ``"auto"``, the default, is the least for which
            nothing overflows; ``"auto_per_block"`` is the least for each block. What overflows at another becomes NaN,
            or infinite where the format has that, with a `RangeWarning`. An array of an 8-bit dtype is kept as it is by
            default.

        Notes
        -----
        Keeping blocks by norm is the pruning of the PopSparse paper (arXiv 2303.16999).
        """
        values = numeric_array("dense", dense)
        if values.ndim not in (2, 3):
            raise bad_argument("dense", f"{values.ndim} dimensions", "2, or 3 with groups first")
        if density is not None and mask is not None:
            raise bad_argument("mask", "mask and density", "one of the two")
        return cls._made(*convert.blocks_of_dense(values, block_shape, density, mask), dtype, scale)

    @classmethod
    @holding
    def from_mask(cls, mask: object, block_shape: object, *, shape: object = None, dtype: object = "float32",
                  scale: object = None) -> BlockSparseMatrix:
        """Make a matrix of zeros with blocks where a mask is true; write its values to `blocks`.

        Parameters
        ----------
        mask : array_like of bool, shape (block rows, block columns) or (groups, ...)
        block_shape : int or (int, int)
        shape : (int, int), optional
            By default the mask's, in elements.
        dtype, scale
            As for `from_blocks`.

        Examples
        --------
        >>> BlockSparseMatrix.from_mask(np.eye(3, dtype=bool), (4, 2), dtype="float16").shape
        (12, 6)
        """
        pattern = convert.pattern_of_mask(mask, block_shape, shape)
        target = as_format(dtype)
        high, wide = pattern.block_shape
        check_memory("block_shape", (high, wide), pattern.n_blocks * high * wide * target.itemsize)
        blocks = np.zeros((pattern.n_blocks, high, wide), target.dtype)
        return cls(pattern, blocks, target, scale)

    @classmethod
    def from_scipy(cls, matrix: object, block_shape: object = None, *, dtype: object = "float32",
                   scale: object = None) -> BlockSparseMatrix:
        """Make a matrix from a sparse matrix or array of SciPy's, torch's or PyData's, in BSR, CSR, CSC or COO.

        Parameters
        ----------
        matrix : scipy.sparse matrix or array, torch.Tensor, sparse.COO or sparse.GCXS
            Of float32 or float64; torch's and PyData's of any format that has a dtype, or of integers. Where an element
            comes twice its values are added, as in SciPy. Indices out of range are refused.
        block_shape : int or (int, int), optional
            By default that of a BSR matrix, else 1. Every block with a stored element is kept.
        dtype, scale
            As for `from_blocks`.

        Examples
        --------
        >>> import scipy.sparse
        >>> BlockSparseMatrix.from_scipy(scipy.sparse.eye_array(8, format="csr"), 4).n_blocks
        2
        """
        return cls._made(*interop.from_scipy(matrix, block_shape), dtype, scale)

    @classmethod
    def from_host(cls, storage: host.HostMatrix, *, dtype: object = None, scale: object = None) -> BlockSparseMatrix:
        """Make a matrix from PopLibs' own storage: a `COOMatrix`, `CSRMatrix` or `CSCMatrix`.

        It corresponds to PopLibs' ``dynamic::Partitioner::createSparsityDataImpl`` as the way in.
        """
        return cls._made(*host.from_host(storage), dtype, scale)

    @classmethod
    def load(cls, path: str | os.PathLike[str], *, block_shape: object = None, dtype: object = None,
             scale: object = None, seed: Seed = 0) -> BlockSparseMatrix:
        """Read a file.

        Parameters
        ----------
        path : path
            ``.npz`` is what `save` or ``scipy.sparse.save_npz`` writes. ``.smtx`` is a pattern of the Deep Learning
            Matrix Collection, whose values are drawn as `random_matrix` does. ``.mtx`` is MatrixMarket, sparse or
            dense, of real numbers.
        block_shape : int or (int, int), optional
            Size of the blocks, of which each with a stored element is kept (default 1, or that of SciPy's BSR); not for
            what `save` wrote.
        dtype : Format, dtype or str, optional
            Round values to it; by default what `save` wrote, else FP32.
        scale : int, "auto" or "auto_per_block", optional
            For 8-bit formats, as for `from_dense`. What `save` wrote has its own, and takes another only with `dtype`.
        seed : int or (int, int), optional
            For the values of ``.smtx``.

        Raises
        ------
        InvalidArgumentError
            If the file is not what its name says. Nothing in a file can run code.
        """
        file = file_path(path, io.SUFFIXES)
        seed_of(seed)
        stored = io.read_npz(file, io.STORED) if file.suffix.lower() == ".npz" else None
        if stored is None or io.is_scipys(stored):
            found = io.blocks_in(file, block_shape, seed) if stored is None else (
                interop.from_npz(file, stored, block_shape))
            return cls._made(*found, "float32" if dtype is None else dtype, scale)
        if block_shape is not None:
            raise bad_argument("block_shape", block_shape, "none for what BlockSparseMatrix.save wrote")
        if dtype is None and not (scale is None or (isinstance(scale, Integral) and scale == 0)):
            raise bad_argument("scale", scale, "0 without a dtype, for what BlockSparseMatrix.save wrote")
        matrix: BlockSparseMatrix = io.from_npz(file, stored, _rebuild)
        return matrix if dtype is None else matrix.astype(dtype, scale)

    @classmethod
    def _made(cls, pattern: BlockPattern, values: Array, dtype: object, scale: object) -> BlockSparseMatrix:
        target = as_format(dtype, values)
        exponents = as_scale(scale, target, pattern.n_blocks, values)
        return cls(pattern, encode(values, target, exponents), target, exponents)

    # What it is

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns, in elements, of each group."""
        return self.pattern.shape[::-1] if self.is_transposed else self.pattern.shape

    @property
    def block_shape(self) -> tuple[int, int]:
        """Rows and columns of a block."""
        return self.pattern.block_shape[::-1] if self.is_transposed else self.pattern.block_shape

    @property
    def ndim(self) -> int:
        """Two: the axes of each group, as in `shape`."""
        return 2

    @property
    def dtype(self) -> np.dtype[Any]:
        """The NumPy dtype of the stored values, that of `blocks`."""
        dtype: np.dtype[Any] = self._blocks.dtype
        return dtype

    @property
    def groups(self) -> int:
        """How many matrices of `shape` there are."""
        return self.pattern.groups

    @property
    def blocks(self) -> Array:
        """The stored values, shape (n_blocks, block rows, block columns); write to it to change them."""
        return self._blocks.view()

    @property
    def row_offsets(self) -> Array:
        """Where each stored block row's blocks begin, int64; one more at the end. Read-only."""
        return self.pattern.row_offsets

    @property
    def column_indices(self) -> Array:
        """The block column of each stored block, int32. Read-only."""
        return self.pattern.column_indices

    @property
    def n_blocks(self) -> int:
        """Stored blocks, of all groups together."""
        return self.pattern.n_blocks

    @property
    def density(self) -> float:
        """Stored blocks divided by all blocks."""
        return self.pattern.density

    @property
    def nnz(self) -> int:
        """Stored elements, zeros among them."""
        return int(self._blocks.size)

    @property
    def nbytes(self) -> int:
        """Bytes of the values and of the pattern."""
        return self._blocks.nbytes + self.row_offsets.nbytes + self.column_indices.nbytes

    # Other forms

    @property
    def T(self) -> BlockSparseMatrix:  # noqa: N802
        """The transpose, of each group: a view that shares everything."""
        flipped = not self.is_transposed
        return _flip(self, flipped, parts_of(self._kinds, self.pattern, self._blocks, self.scale, flipped))

    def copy(self) -> BlockSparseMatrix:
        """Return a copy that shares nothing; a transposed view becomes a matrix that is stored that way."""
        if not self.is_transposed:
            return self._with(blocks=self._blocks.copy())
        pattern, order = self.pattern.transposed()
        blocks = np.ascontiguousarray(self._blocks[order].transpose(0, 2, 1))
        scale = self.scale if isinstance(self.scale, int) else self.scale[order]
        return BlockSparseMatrix(pattern, blocks, self.format, scale)

    def astype(self, dtype: object, scale: object = None) -> BlockSparseMatrix:
        """Return the same matrix with values rounded to another format, to nearest even.

        Parameters
        ----------
        dtype : Format, dtype or str
        scale : int, array of int, "auto" or "auto_per_block", optional
            The exponents of the result, for 8-bit formats: as for `from_dense`, and by default the matrix's own where
            it has the format already.
        """
        target = as_format(dtype)
        if scale is None and target == self.format:
            return self._with(blocks=self._blocks.copy())
        numbers = decode(self._blocks, self.scale)
        exponents = as_scale(scale, target, self.n_blocks, numbers)
        return self._with(blocks=encode(numbers, target, exponents), format=target, scale=exponents)

    def to_quarter(self) -> QuarterArray:
        """Return the blocks of an 8-bit format as a `QuarterArray`, which shares them; `from_blocks` takes one."""
        if self.format.bits > 8:
            raise bad_argument("format", self.format.name, "a format of 8 bits")
        return as_quarter(self._blocks, self.scale)

    @holding
    def update(self, values: object) -> None:
        """Replace the values and keep the pattern and scale; every view of this matrix sees them.

        Parameters
        ----------
        values : array_like, shape (n_blocks, block rows, block columns)
            Rounded to the format as `from_blocks` does. The scale stays, so what is too large for an 8-bit format at
            that scale becomes NaN, or infinite in E5M2, with a `RangeWarning`. `from_blocks` and `astype` take a new
            scale.
        """
        new = numeric_array("values", values)
        check_shape("values", new, new.shape == self._blocks.shape, f"shape {self._blocks.shape}")
        if not self._blocks.flags.writeable:
            raise bad_argument("values", "new ones for read-only blocks", "a matrix whose blocks may be written to")
        if new.dtype != self.format.dtype:
            new = encode(new, self.format, self.scale)
        convert.check_edges(self.pattern, new)
        self._blocks[...] = new

    def to_dense(self, dtype: Any = np.float32) -> Array:
        """Return the matrix as a dense array, exact in FP32.

        Parameters
        ----------
        dtype : numpy.float32 or numpy.float64, optional

        Returns
        -------
        numpy.ndarray, shape (rows, columns), or (groups, rows, columns) where there are several groups
        """
        dense = convert.dense_of_blocks(self.pattern, decode(self._blocks, self.scale), float_dtype("dtype", dtype))
        dense = dense.swapaxes(1, 2) if self.is_transposed else dense
        return dense[0] if self.groups == 1 else dense

    def to_scipy(self, kind: str = "bsr") -> Any:
        """Return a SciPy array of float32, exact, with every stored element, zeros too.

        Parameters
        ----------
        kind : {"bsr", "csr", "csc", "coo"}, optional
            BSR asks for blocks that divide the matrix. There must be one group: see `group`.
        """
        if self.is_transposed:
            return self.copy().to_scipy(kind)
        return interop.to_scipy(self.pattern, decode(self._blocks, self.scale), kind)

    def to_host(self, kind: str = "csr") -> host.HostMatrix:
        """Return PopLibs' own storage, with FP32 values: see `COOMatrix`, `CSRMatrix` and `CSCMatrix`.

        Parameters
        ----------
        kind : {"coo", "csr", "csc"}, optional

        Notes
        -----
        It corresponds to PopLibs' ``dynamic::Partitioner::sparsityDataImplToCSRMatrix`` and its like.
        """
        if self.is_transposed:
            return self.copy().to_host(kind)
        return host.to_host(self.pattern, decode(self._blocks, self.scale), kind)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a file that `load` reads.

        Parameters
        ----------
        path : path
            ``.npz`` keeps everything, bit for bit; ``.smtx`` the pattern of the stored elements; ``.mtx`` the stored
            elements as FP32. A file that exists is replaced only once all is written.
        """
        file = file_path(path, io.SUFFIXES)
        if file.suffix.lower() == ".npz":
            io.write_npz(file, {
                "shape": self.pattern.shape, "block_shape": self.pattern.block_shape, "groups": self.groups,
                "row_offsets": self.row_offsets, "column_indices": self.column_indices, "codes": self._codes(),
                "format": self.format.name, "scale": self.scale, "is_transposed": self.is_transposed})  # fmt: skip
        elif file.suffix.lower() == ".smtx":
            io.write_smtx(file, self.to_scipy("csr"))
        else:
            write_mtx(file, self.to_scipy("coo"))

    def group(self, index: int) -> BlockSparseMatrix:
        """Return one matrix of a group; its values are shared."""
        pattern, span = convert.group_pattern(self.pattern, as_extent("index", index, 0, self.groups - 1))
        scale = self.scale if isinstance(self.scale, int) else self.scale[span]
        return self._with(pattern=pattern, blocks=self._blocks[span], scale=scale)

    def _rows(self, rows: slice, name: str) -> BlockSparseMatrix:
        start, stop = convert.whole_block_rows(rows, self.shape[0], self.block_shape[0], name)
        pattern, keep = convert.slice_pattern(self.pattern, start, stop, self.is_transposed)
        scale = self.scale if isinstance(self.scale, int) else self.scale[keep]
        return self._with(pattern=pattern, blocks=self._blocks[keep], scale=scale)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        """Refuse to become an array unasked, with all its zeros."""
        raise bad_type("array", "BlockSparseMatrix", "a dense array: see BlockSparseMatrix.to_dense")

    def equals(self, other: object) -> bool:
        """Return whether all is as in another matrix, `other`: shape, pattern, format, scale, every bit of the values.

        ``==`` is refused, because NumPy's compares each element.
        """
        if not isinstance(other, BlockSparseMatrix):
            raise bad_type("other", type(other).__name__, "a BlockSparseMatrix")
        if self.is_transposed != other.is_transposed:
            return self.copy().equals(other.copy())
        return (self.format == other.format and self.pattern == other.pattern
                and np.array_equal(np.broadcast_to(self.scale, self.n_blocks),
                                   np.broadcast_to(other.scale, self.n_blocks))
                and np.array_equal(self._codes(), other._codes()))

    def __reduce__(self) -> tuple[Any, ...]:
        # Codes as whole numbers: pickle sends those out of band, and they do not depend on the version of ml_dtypes.
        return _unpickled, (self.pattern, self._codes(), self.format, self.scale, self.is_transposed)

    def __sizeof__(self) -> int:
        scales = 0 if isinstance(self.scale, int) else self.scale.nbytes
        return object.__sizeof__(self) + self._blocks.nbytes + scales + self.pattern.__sizeof__()

    def __dask_tokenize__(self) -> str:
        pattern, form = self.pattern.__dask_tokenize__(), self.format.__dask_tokenize__()
        scale = np.broadcast_to(np.int64(self.scale), self.n_blocks)
        return token_of("BlockSparseMatrix", pattern, form, self._codes(), scale, self.is_transposed)

    def __repr__(self) -> str:
        scale = self.scale if isinstance(self.scale, int) else "per block"
        return (f"BlockSparseMatrix(shape={self.shape}, block_shape={self.block_shape}, n_blocks={self.n_blocks}, "
                f"density={self.density:.4g}, dtype={self.format.name}" + f", scale={scale}" * bool(scale)
                + f", groups={self.groups}" * (self.groups > 1) + ", transposed" * self.is_transposed + ")")

    def _codes(self) -> Array:
        return self._blocks.view(self.format.code_dtype)

    def _with(self, blocks: Array, **changes: Any) -> BlockSparseMatrix:
        # A matrix like this one but for its blocks and other parts, which are known to fit.
        held, anchor = anchored(blocks)
        changes["scale"] = frozen_scale(changes.get("scale", self.scale))
        made = self._changed(_blocks=held, _anchor=anchor, **changes)
        made._settle()
        return made

    def _settle(self) -> None:
        settle(self, "_kinds", kinds_of(self.pattern, self.format, self.scale))
        self._settle_parts()

    def _settle_parts(self) -> None:
        settle(self, "_parts", parts_of(self._kinds, self.pattern, self._blocks, self.scale, self.is_transposed))

    def _index_places(self) -> range:
        # Where among the arrays of `_parts` the index of the transpose is; made where this is asked for first.
        self.pattern.transposed_index()
        if self._parts[0] is not self._kinds[2 * self.is_transposed + 1]:
            self._settle_parts()
        return index_places(self._parts)


def _rebuild(pattern: BlockPattern, blocks: Array, dtype: Format, scale: int | Array,
             is_transposed: bool) -> BlockSparseMatrix:
    matrix = BlockSparseMatrix(pattern, blocks, dtype, scale)
    return matrix.T if is_transposed else matrix


def _unpickled(pattern: BlockPattern, codes: Array, *rest: Any) -> BlockSparseMatrix:
    return _rebuild(pattern, codes.view(rest[0].dtype), *rest)


_flip = Remake(BlockSparseMatrix, ("pattern", "format", "scale", "_blocks", "_anchor", "_kinds"),
               ("is_transposed", "_parts"))
key_by_parts(BlockSparseMatrix, BLOCKS)
