"""What programs and plans hold: whether a program knows what is one call's alone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache, partial
from types import BuiltinMethodType, CellType, FunctionType, MappingProxyType, MethodType, MethodWrapperType, ModuleType
from typing import Any, cast

import numpy as np

from ..errors import described
from ..formats import Array, Format
from ..kernels import Kernel, Selection
from ..program import Executable, Face, Sequence, Views, arrays_in
from ..target import Target
from .operands import Operand
from .parts import Results

_WHOLE = frozenset({str, int, float, bool, type(None), Format, Target, Kernel, Selection, Executable, Views, Face})
_TYPES = type, ModuleType, np.ndarray, np.generic, np.dtype


def of_one_call(program: Any, operands: Iterable[Any]) -> str:
    """Return, in words, what a program or several know of one call alone; an empty string where the next may run it.

    That is an operand, a matrix, or an array that shares memory with those of the call, wherever it is held: in a
    closure's variables, a partial's arguments, an object's attributes, a function or a constant of a sequence.

    Examples
    --------
    >>> import numpy as np
    >>> from poplibs_py.ops.contents import of_one_call
    >>> def adds(number):
    ...     return lambda x, result: np.add(x, number, result)
    >>> x = np.ones(3)
    >>> of_one_call(adds(2.0), [x]), of_one_call(adds(x), [x])
    ('', 'adds.<locals>.<lambda> knows ndarray of float64, shape (3,)')
    """
    for x in met_in(program):
        if type(x) in _WHOLE or type(x) in _CONTAINERS:
            continue
        shares = any(map(partial(_shares, x), operands)) if isinstance(x, np.ndarray) else arrays_in(x)
        if shares or isinstance(x, _OWN):
            return f"{getattr(program, '__qualname__', type(program).__name__)} knows {described(x)}"
    return ""


def _shares(x: Array, operand: Any) -> bool:
    """Whether an array may share memory with an operand, as a request has them."""
    array = operand.array if isinstance(operand, Operand) else operand
    return isinstance(array, np.ndarray) and np.may_share_memory(x, array)


def met_in(value: Any) -> Iterator[Any]:
    """Return what a value holds, itself first, each object once, no further than kernels, formats, executables."""
    met = {id(value): value}  # none of which goes, and leaves its identity to another
    left = [value]
    while left:
        x = left.pop()
        yield x
        if type(x) not in _WHOLE and not isinstance(x, _TYPES):
            further = {id(y): y for y in _held_by(x) if id(y) not in met}
            met |= further
            left += further.values()


_OWN = Operand, Results
_CONTAINERS = frozenset({tuple, list, set, frozenset, dict, MappingProxyType})
_EMPTY = CellType()


def _held_by(x: Any) -> Iterable[Any]:
    """What an object holds."""
    if isinstance(x, partial):
        return x.func, x.args, x.keywords
    if isinstance(x, FunctionType):
        held = [cell.cell_contents for cell in x.__closure__ or () if cell != _EMPTY]
        return [*held, *(x.__defaults__ or ()), *(x.__kwdefaults__ or {}).values()]
    if isinstance(x, MethodType):
        return x.__func__, x.__self__
    if isinstance(x, (BuiltinMethodType, MethodWrapperType)):
        return (x.__self__,)
    if isinstance(x, Sequence):
        return x.known
    if isinstance(x, (dict, MappingProxyType)):
        return [*x.values()]  # which another thread may add to
    if isinstance(x, (tuple, list, set, frozenset)):
        return x
    slots = [getattr(x, name) for name in _slots_of(cast(Any, type(x))) if hasattr(x, name)]
    return [*slots, *vars(x).values()] if hasattr(x, "__dict__") else slots


@cache
def _slots_of(kind: type) -> tuple[str, ...]:
    return tuple(name for of in kind.__mro__ for name in getattr(of, "__slots__", ()))
