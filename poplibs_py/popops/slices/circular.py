"""A circular buffer: `CircBuf`."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...checks import as_shape, whole
from ...errors import bad_argument
from ...formats import FP32, Format
from ...formats.format import preset_of
from ...ops import Operand, new_result, receive
from ...ops import argument as array_argument
from ..making.made import element_of

_MOST = 1 << 48


class CircBuf:
    """The last arrays that were added, as many as there is room for (``popops::CircBuf``).

    Parameters
    ----------
    size : int
        How many arrays there is room for, one or more.
    shape : int or tuple of int
        Of each.
    dtype : Format, dtype or str, optional
        Of their elements: any format that has a dtype, integer type or bool; by default float32.

    Attributes
    ----------
    size : int
    shape : tuple of int
    dtype : numpy.dtype
    index : int
        Where the last one added is; the first one is at 1, modulo `size`.

    Raises
    ------
    InvalidTypeError, InvalidArgumentError
        If an argument is of the wrong kind or value.

    Notes
    -----
    All elements are zero at first. A buffer belongs to one thread at a time.

    Examples
    --------
    >>> from poplibs_py import popops
    >>> buffer = popops.CircBuf(2, 3)
    >>> buffer.add([1.0, 2.0, 3.0])
    >>> buffer.add([4.0, 5.0, 6.0])
    >>> buffer.prev(0), buffer.prev(1)
    (array([4., 5., 6.], dtype=float32), array([1., 2., 3.], dtype=float32))
    """

    def __init__(self, size: int, shape: Any, *, dtype: object = None) -> None:
        self.size, self.shape = whole("size", size, 1, _MOST), as_shape("shape", shape)
        self._element = element_of(dtype, None, FP32)
        own = self._element.dtype if isinstance(self._element, Format) else self._element
        if own is None:
            raise bad_argument("dtype", dtype, "a format that has a dtype")
        self.dtype: np.dtype[Any] = np.dtype(own)
        self._held = new_result((self.size, *self.shape), self._element).array
        self._held.view(np.uint8 if self.dtype.itemsize == 1 else f"u{self.dtype.itemsize}")[...] = 0
        self.index = 0

    def add(self, x: Any) -> None:
        """Put an array of this shape and dtype in the place of the one that was added `size` calls before.

        Parameters
        ----------
        x : array_like
            Lists become float32.

        Raises
        ------
        InvalidTypeError, InvalidArgumentError
            If its shape or dtype is another. Nothing has been written then.
        """
        held: Operand = array_argument("x", x, f"an array of {self.dtype}", np.float32)
        if held.array.dtype != self.dtype or held.shape != self.shape:
            raise bad_argument("x", f"{held.array.dtype} of shape {held.shape}", f"{self.dtype} of shape {self.shape}")
        index = (self.index + 1) % self.size
        self._held[index] = held.array
        self.index = index

    def prev(self, i: int, *, out: Any = None) -> Any:
        """Return the array that was added i calls before the last one.

        Parameters
        ----------
        i : int
            Less than `size`; 0 for the last one.
        out : array, optional
            Where it goes.

        Returns
        -------
        numpy.ndarray
            `out`, or a copy.

        Raises
        ------
        InvalidTypeError, InvalidArgumentError
            If an argument is of the wrong kind or value.
        """
        place = (self.index - whole("i", i, 0, self.size - 1)) % self.size
        receiver = receive("out", out, self.shape, None, preset_of(self.dtype) or self.dtype, own="the buffer's")
        receiver.array[...] = self._held[place]
        return receiver.finish(None, None)

    def __repr__(self) -> str:
        return f"CircBuf({self.size}, {self.shape}, dtype={self.dtype.name!r})"
