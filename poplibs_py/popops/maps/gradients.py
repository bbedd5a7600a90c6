"""Gradients of PopOps' operations of two and three numbers, each a `map` with a name of its own.

``<op>_grad(grad, …)`` returns one gradient for each operand: what comes back, `grad`, times the derivative with respect
to that operand, the true one. All have the shape that the arguments broadcast to; that of an operand which was repeated
along an axis is their `sum` along it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ...memo import tabled
from ...ops import Request, argument, op
from ...ops.record import Function
from ...target import TargetLike
from ..elementwise.binary import fmax, fmin, gt, lt, maximum, minimum, pow
from ..elementwise.ternary import select
from ..elementwise.unary import log
from ..expr import Expression
from .bound import map_bound
from .request import expressions_of, mapped

__all__ = ["atan2_grad", "clamp_grad", "div_grad", "fmax_grad", "fmin_grad", "maximum_grad", "minimum_grad", "mul_grad",
           "pow_grad", "select_grad"]

_EXPRESSIONS: dict[str, Callable[..., Any]] = {}
"""By name, what makes a gradient's expressions of its arguments' placeholders."""


def _of_mul(grad: Expression, a: Expression, b: Expression) -> Any:
    return grad * b, grad * a


def _of_div(grad: Expression, a: Expression, b: Expression) -> Any:
    share = grad / b
    return share, -(share * (a / b))


def _of_pow(grad: Expression, a: Expression, b: Expression) -> Any:
    power = select(0.0, pow(a, b) * log(a), a == 0)  # rises from 0 slower than its logarithm falls
    return select(0.0, grad * (b * pow(a, b - 1)), b == 0), grad * power


def _of_atan2(grad: Expression, a: Expression, b: Expression) -> Any:
    share = grad / (a * a + b * b)
    return share * b, -(share * a)


def _of_extreme(extreme: Callable[..., Any]) -> Callable[..., Any]:
    def gradients(grad: Expression, a: Expression, b: Expression) -> Any:
        found, half, nothing = extreme(a, b), grad * 0.5, grad * 0.0
        alone = select(grad, nothing, a == found), select(grad, nothing, b == found)
        return tuple(select(half, one, a == b) for one in alone)

    return gradients


def _of_select(grad: Expression, condition: Expression) -> Any:
    return select(grad, 0.0, condition), select(0.0, grad, condition)


def _of_clamp(grad: Expression, x: Expression, low: Expression, high: Expression) -> Any:
    under = lt(x, low)
    over = gt(select(low, x, under), high)
    of_x, of_low = select(0.0, grad, under), select(grad, 0.0, under)
    return select(0.0, of_x, over), select(0.0, of_low, over), select(grad, 0.0, over)


_PARAMETERS = """
    Parameters
    ----------
    {names} : array_like or QuarterArray
        Of any formats, of any shapes and strides, which broadcast as in NumPy. Lists become float32.
{condition}    out : tuple of arrays, optional
        Where the gradients go, one for each. They may be operands, or overlap them.
    out_dtype : Format, dtype, str or tuple of them, optional
        The gradients' formats; by default those of `out`, or what operations on these operands give.
    target : Target or str, optional
        The machine: this CPU.

    Returns
    -------
    tuple of numpy.ndarray or QuarterArray
        A gradient for each of {of}, all of the shape that the arguments broadcast to.

    Notes
    -----
    Numbers are FP32, those of each gradient rounded once at the end. {notes} PopLibs has no such gradient.
"""


@tabled(256)
def _outputs(name: str, count: int) -> tuple[Expression, ...]:
    """The expressions of a gradient's results."""
    return expressions_of(_EXPRESSIONS[name], count)[0]


def _arrays(operands: Mapping[str, Any]) -> tuple[Any, ...]:
    """The operands in order; a list of truth values is none of numbers."""
    return tuple(argument(name, value, "truth values").array
                 if name == "condition" and isinstance(value, (list, tuple)) else value
                 for name, value in operands.items())


def _gradient(expressions: Callable[..., Any], of: str, notes: str = "",
              draws: str = "binary_gradient_calls") -> Callable[[Function], Function]:
    """Make a function that has a docstring alone the gradient of its name, and beside it ``<name>_bound``."""
    def make(function: Function) -> Function:
        name, code = function.__name__, function.__code__
        operands = code.co_varnames[:code.co_argcount]
        _EXPRESSIONS[name] = expressions

        def bound(*values: Any, out: Any = None, out_dtype: Any = None, target: Any = None, **named: Any) -> Any:
            if len(values) > len(operands):
                raise TypeError(f"{name}() takes {len(operands)} operands but {len(values)} were given")
            given = dict(zip(operands, values, strict=False)) | named
            arrays = _arrays({operand: given[operand] for operand in operands})
            return map_bound(_outputs(name, len(arrays)), *arrays, out=out, out_dtype=out_dtype)

        condition = "    condition : array_like of bool\n        Truth values.\n" if "condition" in operands else ""
        numbers = ", ".join(operand for operand in operands if operand != "condition")
        words = _PARAMETERS.format(names=numbers, condition=condition, of=of, notes=notes + " " * bool(notes))
        function.__globals__[f"{name}_bound"] = bound

        def describe(name: str, /, out: Any, out_dtype: object, target: TargetLike, **given: Any) -> Request:
            return mapped(_outputs(name, len(operands)), True, _arrays(given), out, out_dtype, False, False, target,
                          name, operands)

        return op(bound="popops.maps.gradients", draws=f"testing.map_calls:{draws}", shared=words,
                  by=describe)(function)

    return make


@_gradient(_of_mul, "a and b")
def mul_grad(grad: object, a: object, b: object, *, out: Any = None, out_dtype: object = None,
             target: TargetLike = None) -> Any:
    """Gradients of `mul`: grad times b, and grad times a.

    Examples
    --------
    >>> popops.mul_grad([1.0, 2.0], [3.0, 4.0], 5.0)
    (array([ 5., 10.], dtype=float32), array([3., 8.], dtype=float32))
    """


@_gradient(_of_div, "a and b")
def div_grad(grad: object, a: object, b: object, *, out: Any = None, out_dtype: object = None,
             target: TargetLike = None) -> Any:
    """Gradients of `div`: grad / b, and minus that times a / b.

    Examples
    --------
    >>> popops.div_grad([1.0, 2.0], [3.0, 4.0], 2.0)
    (array([0.5, 1. ], dtype=float32), array([-0.75, -2.  ], dtype=float32))
    """


@_gradient(_of_pow, "a and b",
           "Where b is 0 the first is 0; where a is 0 the second is.")
def pow_grad(grad: object, a: object, b: object, *, out: Any = None, out_dtype: object = None,
             target: TargetLike = None) -> Any:
    """Gradients of `pow`: grad times b a^(b - 1), and grad times a^b log(a).

    Examples
    --------
    >>> popops.pow_grad([1.0, 2.0], [3.0, 1.0], 2.0)
    (array([6., 4.], dtype=float32), array([9.88751, 0.     ], dtype=float32))
    """


@_gradient(_of_atan2, "a and b")
def atan2_grad(grad: object, a: object, b: object, *, out: Any = None, out_dtype: object = None,
               target: TargetLike = None) -> Any:
    """Gradients of `atan2`: grad times b and grad times -a, over a^2 + b^2.

    Examples
    --------
    >>> popops.atan2_grad([1.0, 2.0], [0.0, 1.0], [2.0, 1.0])
    (array([0.5, 1. ], dtype=float32), array([-0., -1.], dtype=float32))
    """


@_gradient(_of_extreme(maximum), "a and b",
           "Equal operands have half of it each. Where either is NaN neither has any.")
def maximum_grad(grad: object, a: object, b: object, *, out: Any = None, out_dtype: object = None,
                 target: TargetLike = None) -> Any:
    """Gradients of `maximum`: grad goes to the greater operand.

    Examples
    --------
    >>> popops.maximum_grad([1.0, 2.0], [3.0, 1.0], [2.0, 1.0])
    (array([1., 1.], dtype=float32), array([0., 1.], dtype=float32))
    """


@_gradient(_of_extreme(minimum), "a and b",
           "Equal operands have half of it each. Where either is NaN neither has any.")
def minimum_grad(grad: object, a: object, b: object, *, out: Any = None, out_dtype: object = None,
                 target: TargetLike = None) -> Any:
    """Gradients of `minimum`: grad goes to the lesser operand.

    Examples
    --------
    >>> popops.minimum_grad([1.0, 2.0], [3.0, 1.0], [2.0, 1.0])
    (array([0., 1.], dtype=float32), array([1., 1.], dtype=float32))
    """


@_gradient(_of_extreme(fmax), "a and b",
           "Equal operands have half of it each. The other has all of it where one is NaN.")
def fmax_grad(grad: object, a: object, b: object, *, out: Any = None, out_dtype: object = None,
              target: TargetLike = None) -> Any:
    """Gradients of `fmax`: grad goes to the greater operand.

    Examples
    --------
    >>> popops.fmax_grad([1.0, 2.0], [3.0, 1.0], [2.0, 1.0])
    (array([1., 1.], dtype=float32), array([0., 1.], dtype=float32))
    """


@_gradient(_of_extreme(fmin), "a and b",
           "Equal operands have half of it each. The other has all of it where one is NaN.")
def fmin_grad(grad: object, a: object, b: object, *, out: Any = None, out_dtype: object = None,
              target: TargetLike = None) -> Any:
    """Gradients of `fmin`: grad goes to the lesser operand.

    Examples
    --------
    >>> popops.fmin_grad([1.0, 2.0], [3.0, 1.0], [2.0, 1.0])
    (array([0., 1.], dtype=float32), array([1., 1.], dtype=float32))
    """


@_gradient(_of_select, "select's a and b", draws="select_grad_calls")
def select_grad(grad: object, condition: object, *, out: Any = None, out_dtype: object = None,
                target: TargetLike = None) -> Any:
    """Gradients of `select`: grad goes to the operand that was taken.

    Examples
    --------
    >>> popops.select_grad([1.0, 2.0], [True, False])
    (array([1., 0.], dtype=float32), array([0., 2.], dtype=float32))
    """


@_gradient(_of_clamp, "x, low and high",
           "An x that is NaN has all of it.", "clamp_grad_calls")
def clamp_grad(grad: object, x: object, low: object, high: object, *, out: Any = None, out_dtype: object = None,
               target: TargetLike = None) -> Any:
    """Gradients of `clamp`: grad goes to x between the bounds, else to the bound that x was put to.

    Examples
    --------
    >>> popops.clamp_grad([1.0, 2.0], [0.5, 3.0], 0.0, 1.0)
    (array([1., 0.], dtype=float32), array([0., 0.], dtype=float32), array([0., 2.], dtype=float32))
    """
