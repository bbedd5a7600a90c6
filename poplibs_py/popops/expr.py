"""What `poplibs_py.popops.map` evaluates: placeholders, constants, and operations on them (``popops::expr``).

``_1`` to ``_20`` stand for the arrays that `map` is given. Python's operators, the elementwise functions of
`poplibs_py.popops` and `poplibs_py.popops.cast` make expressions of expressions. Equal expressions are one object, so
what occurs twice is computed once.

Examples
--------
>>> from poplibs_py import popops
>>> from poplibs_py.popops.expr import _1, _2
>>> popops.relu(_1 * 2 + _2)
relu(add(mul(_1, 2), _2))
>>> popops.map(popops.relu(_1 * 2 + _2), [1.0, -2.0], [0.5, 1.0])
array([2.5, 0. ], dtype=float32)
"""

from __future__ import annotations

import struct
import threading
from collections.abc import Callable, Sequence
from typing import Any
from weakref import WeakValueDictionary

import numpy as np

from ..checks import is_number, real, whole
from ..errors import UnsupportedError, bad_argument, bad_type
from ..memo import tabled
from ..program import key_by_identity, key_by_parts, number_word
from .elementwise.promotion import element_of
from .elementwise.table import ELEMENTWISE

MOST_PLACEHOLDERS = 20
"""How many arrays an expression may have."""

_made: WeakValueDictionary[Any, Expression] = WeakValueDictionary()
_lock = threading.Lock()


def _two(op: str, swapped: bool = False) -> Callable[[Any, Any], Any]:
    """An operator of two operands, of which the other may stand on the left."""
    def method(self: Expression, other: Any) -> Any:
        if not isinstance(other, (Expression, bool, int, float, np.generic, np.ndarray)):
            return NotImplemented
        pair = _taken(other), self
        return expression_of(op, pair if swapped else pair[::-1])

    return method


def _pair(op: str) -> tuple[Callable[[Any, Any], Any], Callable[[Any, Any], Any]]:
    return _two(op), _two(op, True)


def _one(op: str) -> Callable[[Any], Any]:
    return lambda self: expression_of(op, (self,))


class Expression:
    """What is computed of the arrays of a `map`: see the module.

    Attributes
    ----------
    op : str
        The operation's name in `poplibs_py.popops`, ``"cast"``, ``"placeholder"`` or ``"const"``; of Python's operators
        whose meaning depends on types, theirs: ``"/"``, ``">>"``, ``"&"``, ``"|"``, ``"^"``, ``"~"``. ``"number"`` is a
        constant whose value a word of the call says.
    args : tuple of Expression
    value : object
        A placeholder's number, a constant's value, what a cast casts to; of a number which block of words, which word
        of it, and a value that is taken as it is.
    """

    __slots__ = ("__weakref__", "_parts", "args", "op", "value")

    op: str
    args: tuple[Expression, ...]
    value: Any

    __array_ufunc__: Any
    __add__, __radd__ = _pair("add")
    __sub__, __rsub__ = _pair("sub")
    __mul__, __rmul__ = _pair("mul")
    __truediv__, __rtruediv__ = _pair("/")
    __floordiv__, __rfloordiv__ = _pair("floor_divide")
    __mod__, __rmod__ = _pair("remainder")
    __pow__, __rpow__ = _pair("pow")
    __and__, __rand__ = _pair("&")
    __or__, __ror__ = _pair("|")
    __xor__, __rxor__ = _pair("^")
    __lshift__, __rlshift__ = _pair("shift_left")
    __rshift__, __rrshift__ = _pair(">>")
    __eq__, __ne__ = _two("eq"), _two("neq")
    __lt__, __le__ = _two("lt"), _two("lteq")
    __gt__, __ge__ = _two("gt"), _two("gteq")
    __neg__, __abs__, __invert__ = _one("neg"), _one("abs"), _one("~")
    __hash__ = object.__hash__

    def __reduce__(self) -> tuple[Any, ...]:
        return expression_of, (self.op, self.args, self.value)

    def __getattr__(self, name: str) -> Any:
        if name != "_parts":  # what keys know it by, made where a key asks first
            raise AttributeError(name)
        (plain,), words = with_words((self,))
        self._parts = (plain, words) if len(words) else (plain,)
        return self._parts

    def __copy__(self) -> Expression:
        return self

    def __deepcopy__(self, memo: object) -> Expression:
        return self

    def __repr__(self) -> str:
        if self.op == "placeholder":
            return f"_{self.value}"
        if self.op == "const":
            return repr(self.value)
        named = [*map(repr, self.args), *([str(self.value)] if self.op == "cast" else [])]
        return f"{_NAMES.get(self.op, self.op)}({', '.join(named)})"

    def __poplibs_op__(self, face: Any, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
        """Trace an op of the library on this expression, but for those that evaluate one."""
        name = face.op.name.removeprefix("popops.")
        if name in ("map", "scatter"):
            return NotImplemented
        if name == "cast":
            return _cast(*args, **named)
        row = ELEMENTWISE.get(name)
        if row is None:
            hint = f"; of two arrays see popops.{_OF_TWO[name]}" if name in _OF_TWO else ""
            raise UnsupportedError(f"popops.map: {face.op.name} cannot be traced; allowed: popops.cast and elementwise "
                                   f"operations{hint}")
        if len(args) > len(row.operands):
            raise bad_argument("expression", f"{len(args)} arguments of popops.{name}", f"{len(row.operands)}")
        given = dict(zip(row.operands, args, strict=False)) | named
        for key, value in given.items():
            if key not in row.operands and value is not None:
                raise bad_argument("expression", f"{key}= of popops.{name}", "operands alone; see map and popops.cast")
        if missing := [key for key in row.operands if key not in given]:
            raise bad_argument("expression", f"popops.{name} without {missing[0]}", ", ".join(row.operands))
        return expression_of(name, tuple(_taken(given[key]) for key in row.operands))

    def __bool__(self) -> bool:
        raise bad_type("expression", "a branch on an array's values", "popops.select, which takes both sides")

    def __iter__(self) -> Any:
        raise bad_type("expression", "a loop over an array's elements", "operations on whole arrays")

    def __index__(self) -> int:
        raise bad_type("expression", "an array's values as a number", "operations on whole arrays")

    __float__: Any = __index__
    __int__: Any = __index__

    def __getitem__(self, index: object) -> Any:
        raise bad_type("expression", "a slice of an array", "elementwise operations; slice the array that map is given")

    def __array__(self, *args: object, **named: object) -> Any:
        raise bad_type("expression", "an expression where an array is asked for",
                       "elementwise functions of poplibs_py.popops")


def expression_of(op: str, args: tuple[Expression, ...], value: Any = None) -> Expression:
    """Return the one expression of an operation, its operands and its value."""
    own = struct.pack("d", value) if isinstance(value, float) else value  # zeros of two signs; NaNs equal themselves
    key = op, tuple(map(id, args)), type(value), own
    with _lock:
        found = _made.get(key)
        if found is None:
            found = _made[key] = object.__new__(Expression)
            found.op, found.args, found.value = op, args, value
        return found


def postorder(outputs: Sequence[Expression]) -> list[Expression]:
    """Every expression that outputs need, once, operands first."""
    order: dict[Expression, None] = {}
    waiting = [(node, False) for node in reversed(outputs)]
    while waiting:
        node, ready = waiting.pop()
        if ready:
            order[node] = None
        elif node not in order:
            waiting.append((node, True))
            waiting += [(arg, False) for arg in reversed(node.args) if arg not in order]
    return list(dict.fromkeys(order))


def rebuilt(outputs: Sequence[Expression], put: Callable[[Expression], Expression | None]) -> tuple[Expression, ...]:
    """Expressions with others in the place of their placeholders and constants, each taken once, in order."""
    new: dict[Expression, Expression] = {}
    waiting = list(reversed(outputs))
    while waiting:
        node = waiting[-1]
        missing = [arg for arg in node.args if arg not in new]
        waiting += reversed(missing)
        if missing:
            continue
        if waiting.pop() not in new:
            found = None if node.args else put(node)
            for arg in node.args:
                if new[arg] is not arg:
                    found = expression_of(node.op, tuple([new[arg] for arg in node.args]), node.value)
                    break
            new[node] = node if found is None else found
    return tuple([new[node] for node in outputs])


def number(block: int, at: int, value: Any) -> tuple[Expression, int]:
    """Return a constant, and the word of a call that it is, or 0 where programs differ by its value."""
    found = number_word(value)
    if found is None:
        return const(value), 0
    word, kind = found
    size = (1 << (kind >> 1)) - 1
    return expression_of("number", (), (block, at, 1.5 if not kind else -size if kind & 1 else size)), word


@tabled(1024)
def with_words(outputs: tuple[Expression, ...]) -> tuple[tuple[Expression, ...], Any]:
    """Return expressions with words in the place of constants, but where programs differ by these; and the words."""
    words: list[int] = []

    def put(node: Expression) -> Expression | None:
        if node.op != "const":
            return None
        found, word = number(0, len(words), node.value)
        words.extend([word] if found.op == "number" else [])
        return found

    return rebuilt(outputs, put), np.array(words, np.uint64)


def placeholder(number: int) -> Expression:
    """Return what stands for one of the arrays of a `map`, counted from 1: ``_1`` is ``placeholder(1)``.

    Parameters
    ----------
    number : int
        1 to 20.
    """
    return expression_of("placeholder", (), whole("number", number, 1, MOST_PLACEHOLDERS))


_CONSTANTS = "numbers, and expressions of placeholders; arrays are operands of map"


def const(value: Any) -> Expression:
    """Return a constant. Numbers beside expressions become constants of themselves.

    Parameters
    ----------
    value : bool, int, float or NumPy scalar
        It takes the type of what it meets, as far as its kind (truth value, whole number, real number) allows.
    """
    if isinstance(value, (np.generic, np.ndarray)) and value.ndim == 0 and value.dtype.kind in "biuf":
        value = value.item()
    if is_number(value):
        value = int(value) if isinstance(value, int) else real("expression", value, _CONSTANTS)
    if type(value) not in (bool, int, float):
        raise bad_type("expression", value, _CONSTANTS)
    return expression_of("const", (), value)


def _taken(value: Any) -> Expression:
    return value if isinstance(value, Expression) else const(value)


def _cast(x: Any, dtype: Any, **named: Any) -> Expression:
    if wrong := [key for key, value in named.items() if value is not None and (key, value) != ("random_bits", 31)]:
        raise bad_argument("expression", f"{wrong[0]}= of popops.cast", "a dtype alone, rounded to nearest even")
    return expression_of("cast", (_taken(x),), element_of("dtype", dtype))


_OF_TWO = {"max": "maximum", "min": "minimum", "sum": "add", "prod": "mul", "any": "logical_or", "all": "logical_and"}
_NAMES = {"/": "div", ">>": "shift_right", "&": "and", "|": "or", "^": "xor", "~": "not"}
_UFUNCS = {"add": "add", "subtract": "sub", "multiply": "mul", "divide": "/", "floor_divide": "floor_divide",
           "remainder": "remainder", "power": "pow", "negative": "neg", "absolute": "abs", "bitwise_and": "&",
           "bitwise_or": "|", "bitwise_xor": "^", "invert": "~", "equal": "eq", "not_equal": "neq", "less": "lt",
           "less_equal": "lteq", "greater": "gt", "greater_equal": "gteq", "left_shift": "shift_left",
           "right_shift": ">>", "isnan": "is_nan", "isinf": "is_inf", "isfinite": "is_finite"}  # fmt: skip


def _ufunc(self: Expression, ufunc: Any, method: str, *args: Any, **named: Any) -> Expression:
    """NumPy's functions of an expression: those that are operations here."""
    name = _UFUNCS.get(ufunc.__name__, ufunc.__name__)
    if method != "__call__" or named or (name not in ELEMENTWISE and name not in _NAMES):
        raise UnsupportedError(f"popops.map: numpy.{ufunc.__name__} cannot be traced; allowed: the elementwise "
                               "functions of poplibs_py.popops")
    return expression_of(name, tuple(map(_taken, args)))


Expression.__array_ufunc__ = _ufunc
key_by_parts(Expression)
key_by_identity(Expression)  # those in a tuple: equal ones are one
_1, _2, _3, _4, _5, _6, _7, _8, _9, _10 = map(placeholder, range(1, 11))
_11, _12, _13, _14, _15, _16, _17, _18, _19, _20 = map(placeholder, range(11, 21))
