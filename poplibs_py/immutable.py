"""Objects that stay as they were checked: what a kernel is told by one must still be so when it runs."""

from __future__ import annotations

import hashlib
import weakref
from collections.abc import Callable
from functools import lru_cache, wraps
from typing import Any, ClassVar, NoReturn, ParamSpec, Self, TypeVar

import numpy as np

from .errors import InvalidTypeError, ReadOnlyError

__all__ = ["Constant", "Immutable", "anchor_of", "anchored", "frozen", "holding", "kind_of", "settle", "token_of"]

Array = np.ndarray[Any, Any]

P = ParamSpec("P")
T = TypeVar("T")

_put = object.__setattr__


class Immutable:
    """Base of classes whose attributes are set once, with `_set`, while an object is made.

    Examples
    --------
    >>> class Point(Immutable):
    ...     __slots__ = ("x",)
    ...     def __init__(self, x):
    ...         self._set(x=x)
    >>> Point(1).x = 2
    Traceback (most recent call last):
        ...
    poplibs_py.errors.ReadOnlyError: x: got a new value; allowed: none, a Point does not change once it is made
    """

    __slots__: tuple[str, ...] = ()

    def _set(self, **parts: Any) -> None:
        for name, value in parts.items():
            if hasattr(self, name):
                raise _read_only(self, name)
            _put(self, name, value)

    def _changed(self, **changes: Any) -> Self:
        # An object like this one but for some attributes, which are known to fit.
        made = object.__new__(type(self))
        for name in self.__slots__:
            if name != "__weakref__":
                _put(made, name, changes[name] if name in changes else getattr(self, name))
        return made

    def __setattr__(self, name: str, value: object) -> None:
        raise _read_only(self, name)

    def __delattr__(self, name: str) -> None:
        raise _read_only(self, name)


class Constant(Immutable):
    """Base of those that hold nothing a caller can write to, laid out for this machine.

    A copy is the object itself; pickling it is refused.

    Attributes
    ----------
    _KEEP : str
        What to pickle in its place.
    """

    __slots__ = ()

    _KEEP: ClassVar[str]

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: object) -> Self:
        return self

    def __reduce__(self) -> NoReturn:
        raise InvalidTypeError(f"pickle: got a {type(self).__name__}, made for this machine; allowed: {self._KEEP}")


def _read_only(owner: object, name: str) -> ReadOnlyError:
    return ReadOnlyError(f"{name}: got a new value; allowed: none, a {type(owner).__name__} does not change once it is "
                         "made")


def settle(owner: Immutable, name: str, value: object) -> None:
    """Set what an object keeps of what follows from its other attributes, when that is first asked for."""
    _put(owner, name, value)


@lru_cache(maxsize=8192)
def kind_of(owner: str, *facts: object) -> tuple[object, ...]:
    """Return one object for the same facts of one class: what a call's key takes by identity."""
    return owner, *facts


def frozen(array: Array) -> Array:
    """Return a copy that cannot be written to, now or later.

    An array that owns its memory can be made writeable again by anybody; one over bytes cannot.
    """
    if not array.size:
        return np.zeros(array.shape, array.dtype)
    return np.frombuffer(array.tobytes(), array.dtype).reshape(array.shape)


def anchor_of(array: object) -> object:
    """Return what keeps the memory of an array in its place for as long as it is kept; None for anything else.

    It is a weak reference to the array that owns the memory: NumPy does not resize an array that one points to, even
    with ``refcheck=False``.
    """
    if not isinstance(array, np.ndarray):
        return None
    owner = array
    while isinstance(owner.base, np.ndarray):
        owner = owner.base
    return weakref.ref(owner)


def anchored(array: Array) -> tuple[Array, object]:
    """Return a view of an array, and its anchor."""
    anchor = anchor_of(array)  # before the view is made
    return array.view(np.ndarray), anchor


def token_of(*parts: object) -> str:
    """Return a text that is the same for the same contents, in every process: arrays by their bytes, others by repr.

    Examples
    --------
    >>> token_of("x", np.uint8([1, 2])) == token_of("x", np.uint8([1, 2])) != token_of("x", np.uint8([2, 1]))
    True
    """
    found = hashlib.blake2b(digest_size=16)
    for part in parts:
        if isinstance(part, np.ndarray):
            found.update(f"{part.shape} {part.dtype.str} ".encode())
            found.update(np.ascontiguousarray(part).reshape(-1).view(np.uint8))
        else:
            found.update(f"{part!r} ".encode())
    return found.hexdigest()


def holding(function: Callable[P, T]) -> Callable[P, T]:
    """Make a function keep the memory of the arrays that it is given in its place until it returns: see `anchor_of`.

    It is for what looks at arrays in NumPy, which gives up Python's lock as kernels do; ops anchor their operands
    themselves.
    """

    @wraps(function)
    def held(*args: P.args, **keywords: P.kwargs) -> T:
        anchors = [anchor_of(value) for value in (*args, *keywords.values())]
        try:
            return function(*args, **keywords)
        finally:
            anchors.clear()

    return held
