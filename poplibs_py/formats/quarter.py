"""`QuarterArray`: an array of codes with its scale, PopLibs' `quarter` tensor with its metadata."""

from __future__ import annotations

import json
import operator
import os
from collections.abc import Sequence
from typing import Any, BinaryIO, get_args

import numpy as np

from ..checks import one_of
from ..errors import InvalidIndexError, bad_argument, bad_type, described
from ..files import ArrayFile, file_path, replacing
from ..immutable import Immutable, anchored, frozen, holding, kind_of, token_of
from ..memo import tabled
from .arrays import Array, as_array, broadcast, float_dtype
from .format import F143, FORMATS, LAYOUT, Format, format_of
from .metadata import pack_metadata, unpack_metadata
from .presets import PRESETS
from .reference import Overflow, Rounding, decode, encode
from .scales import auto_scale, checked_block_shape, checked_scale, spread, uniform_scale

_NO_INDEX = "whole numbers, slices, ... and None, at most one for each axis"


class QuarterArray(Immutable):
    """Codes of a format of at most 16 bits, each standing for its value times a power of two.

    PopLibs' ``quarter`` tensor with its metadata, with two things more: any format of at most 16 bits, and a scale for
    each block of elements. The element at an index has the value ``decode(code) * 2**s`` with s its block's scale.

    Parameters
    ----------
    codes : numpy.ndarray
        Codes as unsigned integers of the format's width, or an array of the format's own dtype. Kept, not copied.
    dtype : Format or what stands for one
        The format of the codes.
    scale : int or array of int, optional
        Exponents s, of ``dtype.scales``: one number, or one for each block. PopLibs has -32 to 31.
    block_shape : sequence of int, optional
        Extents of the blocks that share a scale, one for each axis, -1 for the axis's whole extent: ``(1, -1)`` is a
        scale per row of a matrix. By default the tensor has one.

    Raises
    ------
    InvalidTypeError, InvalidArgumentError
        If an argument does not fit the others.

    See Also
    --------
    poplibs_py.popops.cast : Makes one from numbers, fast, and makes numbers from one.

    Examples
    --------
    >>> q = QuarterArray.from_array([[1.0, 2.0], [300.0, -4000.0]], "f143", scale="auto", block_shape=(1, -1))
    >>> q
    QuarterArray([[1., 2.],
                  [288., -4096.]], dtype=f143, scale=[[-6], [5]], block_shape=(1, 2))
    >>> q[1].scale, q[1].to_array()
    (array([5], dtype=int8), array([  288., -4096.], dtype=float32))
    """

    __slots__ = ("_anchor", "_codes", "_parts", "_scale", "block_shape", "format")

    __array_ufunc__ = None  # NumPy's operators raise TypeError instead of decoding behind the back
    __hash__ = None  # type: ignore[assignment]  # as arrays, which `==` compares element by element

    format: Format
    block_shape: tuple[int, ...] | None
    _parts: tuple[object, ...]
    _codes: Array
    _scale: Array

    @holding
    def __init__(self, codes: Array, dtype: object, scale: object = 0,
                 block_shape: Sequence[int] | None = None) -> None:
        fmt = format_of(dtype)
        held = _checked_codes(codes, _narrow(fmt))
        blocks = checked_block_shape(block_shape, held.shape)
        self._hold(held, fmt, checked_scale(scale, fmt, held.shape, blocks), blocks)

    def _hold(self, codes: Array, fmt: Format, scale: Array, blocks: tuple[int, ...] | None) -> None:
        held, anchor = anchored(codes)
        exponent = int(scale) if blocks is None else scale.strides
        flags = held.flags
        kind = kind_of("QuarterArray", fmt, exponent, blocks, held.shape, held.strides, flags.writeable, flags.aligned)
        parts = (kind, held) if blocks is None else (kind, held, scale)  # what a call's key reads
        self._set(_codes=held, _anchor=anchor, _parts=parts, format=fmt, block_shape=blocks, _scale=scale)

    @classmethod
    def _of_parts(cls, codes: Array, fmt: Format, scale: Array, block_shape: tuple[int, ...] | None) -> QuarterArray:
        # From parts that are known to fit, scales frozen.
        made = cls.__new__(cls)
        made._hold(codes, fmt, scale, block_shape)
        return made

    @classmethod
    @holding
    def from_array(cls, values: object, dtype: object = F143, scale: object = 0,
                   block_shape: Sequence[int] | None = None, *, rounding: Rounding = "nearest-even",
                   overflow: Overflow | None = None) -> QuarterArray:
        """Round real numbers to a format, in plain NumPy.

        `poplibs_py.popops.cast` gives the same codes, much faster, and rounds stochastically too.

        Parameters
        ----------
        values : array-like of real numbers
            Float16, float32, float64, bfloat16, FP8 or integers that float64 holds.
        dtype : Format or what stands for one, optional
            At most 16 bits.
        scale : int, array of int or "auto", optional
            ``"auto"`` takes for each block the least s for which nothing overflows (`auto_scale`).
        block_shape : sequence of int, optional
            As for `QuarterArray`.
        rounding : {"nearest-even", "toward-zero", "up", "down", "nearest-away"}, optional
        overflow : {"saturate", "nan", "inf", "directed"}, optional
            What too large numbers become; by default IEEE 754's result, as for `cast`.
        """
        fmt = _narrow(format_of(dtype))
        x = _real(values)
        one_of("rounding", rounding, tuple(word for word in get_args(Rounding) if word != "stochastic"))
        blocks = checked_block_shape(block_shape, x.shape)
        chosen = auto_scale(x, fmt, blocks) if isinstance(scale, str) and scale == "auto" else scale
        exponents = checked_scale(chosen, fmt, x.shape, blocks)
        codes = encode(x, fmt, scale=spread(exponents, x.shape, blocks), rounding=rounding, overflow=overflow)
        return cls._of_parts(codes.reshape(x.shape), fmt, exponents, blocks)

    @classmethod
    def from_metadata(cls, codes: Array, metadata: int) -> QuarterArray:
        """Make an array from codes and PopLibs' metadata byte, as `metadata` gives it.

        Examples
        --------
        >>> QuarterArray.from_metadata(np.uint8([0x40, 0x80]), 0x84)
        QuarterArray([16., nan], dtype=f143, scale=4)
        """
        fmt, scale = unpack_metadata(metadata)
        return cls(codes, fmt, scale)

    @property
    def metadata(self) -> int:
        """PopLibs' metadata byte: see `pack_metadata`. There is one for F143 and F152 with one scale for all elements.

        Raises
        ------
        InvalidArgumentError
            For another format, for a scale beyond six bits, or where elements have different scales.
        """
        scale = self.uniform_scale()
        if scale is None:
            raise bad_argument("scale", "different scales", "one for the whole array, as PopLibs has")
        return pack_metadata(self.format, scale)

    @property
    def codes(self) -> Array:
        """The codes as unsigned integers of the format's width; write to them to change values."""
        return self._codes.view()

    @property
    def scale(self) -> int | Array:
        """The exponent s: an int where the tensor has one, else an int8 array for the blocks, read-only."""
        return int(self._scale) if self.block_shape is None else self._scale.view()

    @property
    def shape(self) -> tuple[int, ...]:
        """Extents of the axes."""
        return tuple(self._codes.shape)

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return self._codes.ndim

    @property
    def size(self) -> int:
        """Number of elements."""
        return self._codes.size

    @property
    def nbytes(self) -> int:
        """Bytes of codes and scales."""
        return self._codes.nbytes + self._scale.nbytes

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype that the codes have as numbers at scale 0, or their integer dtype where the format has none."""
        return self.format.dtype or self.format.code_dtype

    @property
    def T(self) -> QuarterArray:  # noqa: N802  (NumPy's name)
        """The array with its axes reversed; shares the codes."""
        blocks = self.block_shape and self.block_shape[::-1]
        scale = self._scale if blocks is None else frozen(self._scale.T)  # programs read exponents in C order
        return QuarterArray._of_parts(self._codes.T, self.format, scale, blocks)

    def uniform_scale(self) -> int | None:
        """Return the one exponent that every element has, or None if they differ."""
        return uniform_scale(self._scale)

    def element_scales(self) -> Array:
        """Return the exponents as an int8 array that broadcasts against the elements."""
        return spread(self._scale, self.shape, self.block_shape)

    def to_array(self, dtype: object = np.float32) -> Array:
        """Return the values, exactly, as float32 or float64.

        Raises
        ------
        InvalidArgumentError
            For another dtype; `poplibs_py.popops.cast` rounds to any format.
        """
        wanted = float_dtype("dtype", dtype)
        return np.asarray(np.ldexp(_table(self.format)[self._codes].astype(wanted), self.element_scales()))

    def __array__(self, dtype: object = None, copy: bool | None = None) -> Array:
        if copy is False:
            raise bad_argument("copy", copy, "True or None: the values must be decoded")
        values = self.to_array()
        return values if dtype is None else values.astype(dtype)  # type: ignore[call-overload]

    def copy(self) -> QuarterArray:
        """Return an array of its own with the same codes and scales."""
        return QuarterArray._of_parts(self._codes.copy(), self.format, self._scale, self.block_shape)

    def __len__(self) -> int:
        return len(self._codes)

    def __getitem__(self, index: object) -> QuarterArray:
        """Return the part at whole numbers, slices, ``...`` and ``None``; codes are shared.

        A slice that begins at a block's border with step 1 keeps the blocks; along an axis that any other slice cuts,
        each index carries its own scale.
        """
        entries = _full_index(index, self.ndim)
        try:
            codes = self._codes[tuple(entries)]
        except (IndexError, TypeError, ValueError, OverflowError) as error:
            raise InvalidIndexError(f"index: got {described(index)}; allowed: {_NO_INDEX} ({error})") from None
        if not isinstance(codes, np.ndarray):  # a single element
            codes = self._codes[(*entries, Ellipsis)]
        if self.block_shape is None:
            return QuarterArray._of_parts(codes, self.format, self._scale, None)
        scale, blocks, axis = self._scale, [], 0
        picks: list[Any] = []
        for entry in entries:
            if entry is None:
                picks.append(None)
                blocks.append(1)
                continue
            pick, block = _pick_blocks(entry, self.shape[axis], self.block_shape[axis])
            if isinstance(pick, np.ndarray):
                scale, pick = scale.take(pick, axis=axis), slice(None)
            picks.append(pick)
            if block is not None:
                blocks.append(block)
            axis += 1
        scale = frozen(np.asarray(scale[tuple(picks)]))
        return QuarterArray._of_parts(codes, self.format, scale, tuple(blocks) if blocks else None)

    def __eq__(self, other: object) -> Any:
        """Compare values element by element, as NumPy does: with a `QuarterArray`, numbers or an array of them."""
        return self._compared(np.equal, other)

    def __ne__(self, other: object) -> Any:
        return self._compared(np.not_equal, other)

    def _compared(self, relation: np.ufunc, other: object) -> Any:
        if not (isinstance(other, (QuarterArray, np.generic, int, float, list, tuple)) or hasattr(other, "__dlpack__")):
            return NotImplemented
        that = other.to_array() if isinstance(other, QuarterArray) else _real(other, "other")
        broadcast("other", that.shape, self.shape)
        return relation(self.to_array(), that)

    def __reduce__(self) -> tuple[Any, ...]:
        return QuarterArray, (self._codes, self.format, self._scale, self.block_shape)

    def __sizeof__(self) -> int:
        return object.__sizeof__(self) + self.nbytes

    def __dask_tokenize__(self) -> str:
        form = self.format.__dask_tokenize__()
        return token_of("QuarterArray", form, self._codes, self._scale, self.block_shape)

    def __repr__(self) -> str:
        values = self.to_array(np.float64)
        shown = np.array2string(values, separator=", ", prefix="QuarterArray(", formatter=_FORMATTER)
        scale = "" if self.block_shape is None else f", block_shape={self.block_shape}"
        exponents = self.scale if self.block_shape is None else self._scale.tolist()
        return f"QuarterArray({shown}, dtype={self.format}, scale={exponents}{scale})"

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write codes, scales and format to a ``.npz`` file, exactly at this path, once all of it is written."""
        layout = {key: getattr(self.format, key) for key in LAYOUT}
        with replacing(path) as file:
            np.savez(file, codes=self._codes.view(self.format.code_dtype), scale=self._scale,
                     block_shape=np.array(self.block_shape or (), np.int64), format=np.array(json.dumps(layout)))

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> QuarterArray:
        """Read what `save` wrote; it is not compressed, so a file takes no more memory than some times its size.

        Raises
        ------
        InvalidArgumentError
            If the file is of another kind.
        FileNotFoundError
            If there is no such file.
        """
        with file_path(path).open("rb") as opened:
            try:
                return cls._read(opened)
            except MemoryError:
                raise
            except Exception as error:  # a damaged archive fails in as many ways as it has bytes
                raise bad_argument("path", str(path), f"a file that QuarterArray.save wrote ({error})") from None

    @classmethod
    def _read(cls, opened: BinaryIO) -> QuarterArray:
        file = ArrayFile(opened)
        described, block_shape, scale = file["format"], file["block_shape"], file["scale"]
        if described.nbytes > _LONGEST_LAYOUT or block_shape.size > _MOST_AXES:
            raise bad_argument("format", f"{described.nbytes} bytes for {block_shape.size} axes", "what save writes")
        layout = json.loads(str(described))
        fmt = Format(**{key: layout[key] for key in LAYOUT if key in layout})
        fmt = next((preset for preset in (*FORMATS, *PRESETS) if preset == fmt), fmt)
        return cls(file["codes"], fmt, scale, tuple(block_shape.tolist()) if scale.ndim else None)


_LONGEST_LAYOUT, _MOST_AXES = 1 << 16, 64  # NumPy's arrays have no more axes


@tabled(64)
def _table(fmt: Format) -> Array:
    """The value of each code, at scale 0: NaN for those beyond the format's bits, which may be written to `codes`."""
    table = np.full(1 << 8 * fmt.itemsize, np.nan, np.float32)
    table[:1 << fmt.bits] = decode(np.arange(1 << fmt.bits, dtype=np.uint32), fmt)
    table.flags.writeable = False
    return table


def _narrow(fmt: Format) -> Format:
    if fmt.bits > 16:
        raise bad_argument("dtype", fmt.name, "a format of at most 16 bits; FP32 arrays are plain NumPy arrays")
    return fmt


def _checked_codes(codes: object, fmt: Format) -> Array:
    dtypes = f"a NumPy array of {fmt.code_dtype}" + (f" or {fmt.dtype}" if fmt.dtype else "") + f", for {fmt}"
    if not isinstance(codes, np.ndarray) or isinstance(codes, np.ma.MaskedArray):
        raise bad_type("codes", type(codes), dtypes)
    if fmt.dtype is not None and codes.dtype == fmt.dtype:  # NumPy takes None for float64
        return codes.view(fmt.code_dtype)
    if codes.dtype != fmt.code_dtype:
        raise bad_type("codes", str(codes.dtype), f"{dtypes}; numbers are rounded by QuarterArray.from_array and cast")
    if fmt.bits < 8 * fmt.itemsize and codes.size and int(codes.max()) >> fmt.bits:
        raise bad_argument("codes", f"{int(codes.max()):#x}", f"codes of {fmt.bits} bits")
    return codes


def _real(values: object, name: str = "values") -> Array:
    x = as_array(name, values, "real numbers")
    if x.dtype.kind in "fiu" and x.dtype.itemsize <= 8:
        return x
    if any(x.dtype == fmt.dtype for fmt in (*FORMATS, *PRESETS)):
        return x.astype(np.float32)
    raise bad_type(name, str(x.dtype), "real numbers: float16, float32, float64, bfloat16, FP8 or integers")


def _full_index(index: object, ndim: int) -> list[Any]:
    """The index as a list with one entry for each axis, beside the Nones."""
    given = list(index) if isinstance(index, tuple) else [index]
    for place, entry in enumerate(given):
        if not (entry is None or entry is Ellipsis or isinstance(entry, slice)):
            try:
                given[place] = operator.index(entry)  # type: ignore[arg-type]
            except Exception:  # whatever an object of somebody else's raises
                raise bad_type("index", index, _NO_INDEX) from None
            if isinstance(entry, (bool, np.bool_)):
                raise bad_type("index", index, _NO_INDEX)
    axes = sum(entry is not None and entry is not Ellipsis for entry in given)
    dots = [i for i, entry in enumerate(given) if entry is Ellipsis]
    if axes > ndim or len(dots) > 1:
        raise bad_argument("index", index, f"{_NO_INDEX}; this array has {ndim}")
    at = dots[0] if dots else len(given)
    return [*given[:at], *[slice(None)] * (ndim - axes), *given[at + len(dots):]]


def _pick_blocks(entry: Any, n: int, block: int) -> tuple[Any, int | None]:
    """Which scales an index takes along one axis, and the block extent that remains (None: the axis goes)."""
    if not isinstance(entry, slice):
        return range(n)[entry] // block, None
    picked = range(n)[entry]
    if len(picked) == 0:
        return slice(0, 0), 1
    if block >= n:
        return slice(None), len(picked)
    if picked.step == 1 and picked.start % block == 0:
        return slice(picked.start // block, -(-picked.stop // block)), min(block, len(picked))
    return np.asarray(picked) // block, 1


def _shown(value: Any) -> str:
    return np.format_float_positional(value, unique=True, trim=".") if 1e-4 <= abs(value) < 1e6 or value == 0 \
        else f"{value:.4g}"


_FORMATTER: Any = {"float_kind": _shown}
