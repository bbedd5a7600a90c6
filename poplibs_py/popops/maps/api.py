"""``popops::map``: expressions of any number of arrays, evaluated in one pass."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

from ...checks import flag, whole
from ...ops import op, travel
from ...program import Face
from ...target import TargetLike
from ..expr import MOST_PLACEHOLDERS, Expression
from .request import expressions_of, mapped, worded

Mappable = Expression | Sequence[Expression] | Callable[..., Any]


@op("popops::map", bound="popops.maps.bound", draws="testing.map_calls",
    numbers=tuple([f"arrays[{i}]" for i in range(MOST_PLACEHOLDERS)]))
def map(expression: Mappable, *arrays: object, out: Any = None, out_dtype: object = None, round_each: bool = False,
        relaxed: bool = False, target: TargetLike = None) -> Any:
    """Evaluate an expression of arrays in one pass (``popops::map``, ``mapInPlace``, ``mapWithOutput``).

    Parameters
    ----------
    expression : Expression, sequence of them, or callable
        Of placeholders (`poplibs_py.popops.expr`), one for each array in order; or a function that is called on
        placeholders once, and returns expressions. Python's operators, the elementwise functions of
        `poplibs_py.popops` and `popops.cast` make expressions; `popops.select` takes the place of a branch. A tuple or
        list of one to four expressions gives as many results.
    *arrays : array_like, QuarterArray or number
        Up to 20, of any formats, integers or bool and of any strides, which broadcast as in NumPy. Lists become
        float32. Python's numbers are constants of the expression.
    out : array, QuarterArray or tuple of them, optional
        Where the result goes; for several results a tuple. It may be one of the arrays, or overlap it: the result is as
        if it did not.
    out_dtype : Format, dtype, str or tuple of them, optional
        The result's format; by default that of `out`. Without one: what the operations give, by the rule for all of
        them, float16 for FP8 alone.
    round_each : bool, optional
        Round what each operation takes (8-bit numbers, constants) and what it gives to its type, as PopLibs' operations
        one after another do. By default numbers are FP32 between them, and rounded once at the end.
    relaxed : bool, optional
        Rewrite also where special values come out otherwise: ``x ** 0.5`` as a square root and ``x ** -0.5`` as its
        reciprocal (of minus zero and minus infinity), ``x + 0`` as x (of minus zero). What changes no special value is
        always rewritten: powers 2, 1 and -1, products with 1, differences with 0, quotients of unsigned integers by
        powers of two, `select` with a constant condition.
    target : Target or str, optional
        The machine; by default this CPU. On a modelled one, such as ``"gc200"``, the result of each operation is
        rounded, as with `round_each`.

    Returns
    -------
    numpy.ndarray, QuarterArray or tuple
        `out`, or new arrays, a single one laid out like the first of the arrays that has its shape.

    Raises
    ------
    InvalidTypeError, InvalidArgumentError
        If an argument is of the wrong kind or value, or a function does what cannot be traced: a branch, a loop, a
        slice. Nothing has been written then.
    UnsupportedError
        If there is no kernel for an operation on these types, a function calls an op that is not elementwise, or
        `target` is a modelled machine.

    Notes
    -----
    Elements go through all operations by chunks that stay in the first-level cache: no temporary of the arrays' size is
    made. What occurs twice is computed once, what no result needs is not computed. A product and a sum are two
    roundings. Each operation keeps its own contract; all levels, thread counts and strides give the same bits.

    A function is traced in each call. An expression, or what `compile_map` made of a function, is not: its repeated
    calls cost as little as those of any op.

    Examples
    --------
    >>> a, b = np.float32([1, -2, 3]), np.float32([0.5, 0.5, -9])
    >>> popops.map(lambda x, y: popops.relu(x * 2 + y), a, b)
    array([2.5, 0. , 0. ], dtype=float32)
    >>> popops.map(lambda x, y: (x < y, popops.select(x, y, x > 0)), a, b)
    (array([False,  True, False]), array([1. , 0.5, 3. ], dtype=float32))
    """
    outputs, several = expressions_of(expression, len(arrays))
    return mapped(outputs, several, arrays, out, out_dtype, flag("round_each", round_each), flag("relaxed", relaxed),
                  target, plain=worded(expression, outputs))


def compile_map(expression: Mappable, *, arrays: int | None = None, out_dtype: object = None,
                round_each: bool = False, relaxed: bool = False) -> Any:
    """Return `map` with its expression settled: a function of the arrays, traced once.

    Parameters
    ----------
    expression, out_dtype, round_each, relaxed
        As in `map`.
    arrays : int, optional
        How many arrays a function takes, where its signature does not say it.

    Returns
    -------
    callable
        ``f(*arrays, out=None)``. Its first call with arrays of some types and shapes makes the program, later ones run
        it.

    Raises
    ------
    InvalidTypeError, InvalidArgumentError, UnsupportedError
        As for `map`; what depends on the arrays, when the function is called.

    Examples
    --------
    >>> import numpy as np
    >>> from poplibs_py import popops
    >>> swish = popops.compile_map(lambda x, beta: x * popops.sigmoid(beta * x))
    >>> swish(np.float32([-1, 0, 2]), 1.0)
    array([-0.26894143,  0.        ,  1.7615942 ], dtype=float32)
    """
    count = None if arrays is None else whole("arrays", arrays, 0, MOST_PLACEHOLDERS)
    outputs, several = expressions_of(expression, count)
    rounded, loose, plain = flag("round_each", round_each), flag("relaxed", relaxed), worded(None, outputs)
    record = cast(Any, map).op

    def call(*arrays: object, out: Any = None) -> Any:
        return mapped(outputs, several, arrays, out, out_dtype, rounded, loose, None, plain=plain)

    face = Face(call, travel, record, "out", numbers=record.numbers)
    vars(face).update(expression=outputs if several else outputs[0], what=", ".join([repr(part) for part in outputs]))
    return face
