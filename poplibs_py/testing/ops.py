"""Every op's reference and bound behind one face.

An op says beside its code what it computes and how wrong it may be, and its record in the catalogue says where.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from inspect import Parameter, signature
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import PoplibsError, bad_argument, bad_type, check_keys, described
from ..formats import QuarterArray, format_of
from ..formats.arrays import as_array
from ..formats.bounds import Ball
from ..ops import Op, catalogue, located
from ..program.record import Listener, Run, start, stop
from .assertions import assert_same_bits, assert_within_bound, footer, numbers_of
from .data import as_format
from .exact_ops import EXACT
from .replay import Snapshot, decode_call


def find_op(name: str) -> Op:
    """Return the record of an op of the catalogue, or of one of `PREPARED`, by its name or the end of it."""
    record = PREPARED.get(name.removeprefix("testing.prepared.")) if isinstance(name, str) else None
    return catalogue.find(name) if record is None else record


def bound(op: str, *operands: Any, **keywords: Any) -> Any:
    """Return the exact result of a call, and how far a right result may lie from it.

    Parameters
    ----------
    op : str
        The op's name, or as much of its end as names one: `"matmul"`, `"static.sparse_dense_matmul"`.
    *operands, **keywords
        The call's own; what does not change the result (threads, memory) is ignored.

    Returns
    -------
    Ball
        ``centre`` and ``radius``, in the shape of the result; a tuple of them for an op with several results.
    """
    record = find_op(op)
    return _answered(record, located(record.bound), operands, keywords)


def exact(op: str, *operands: Any, **keywords: Any) -> NDArray[Any]:
    """Return the result of a call as fractions, before any rounding: an object array.

    Parameters
    ----------
    op : str
        As in `bound`.
    *operands, **keywords
        The call's own; all values finite, activations that are rational.

    Examples
    --------
    >>> exact("matmul", np.float32([[0.5, 3.0]]), np.float32([[1.0], [0.125]]))
    array([[Fraction(7, 8)]], dtype=object)
    """
    record = find_op(op)
    if record.name not in EXACT:
        raise bad_argument("op", op, "one whose results are fractions: " + ", ".join(map(repr, sorted(EXACT))))
    made: NDArray[Any] = _answered(record, EXACT[record.name], operands, keywords)
    return made


def reference(op: str, *operands: Any, **keywords: Any) -> Any:
    """Return the result of a call computed plainly, in float64, without the final rounding; of several a tuple.

    Parameters
    ----------
    op : str
        As in `bound`.
    *operands, **keywords
        The call's own.
    """
    record = find_op(op)
    found = _answered(record, located(record.reference or record.bound), operands, keywords)
    return _centres(found) if isinstance(found, tuple | Ball) else np.asarray(found)


def _centres(found: Any) -> Any:
    """What is meant by balls, or by tuples of them and of what is none."""
    if isinstance(found, tuple):
        return tuple(map(_centres, found))
    return found.centre if isinstance(found, Ball) else found


def check(op: str, *operands: Any, kernel_name: str | None = None, **keywords: Any) -> Any:
    """Call an op, fail unless every result is within the op's own bound, and return what it returned.

    Parameters
    ----------
    op : str
        As in `bound`.
    *operands, **keywords
        The call's own.
    kernel_name : str, optional
        What serves the call, for the message; by default what its own record names (see `poplibs_py.profile`).

    Raises
    ------
    AssertionError
        As `assert_within_bound` words it, with the kernels that served the call and a line that makes it again.
        Nothing is written before that.
    """
    return _checked(op, operands, keywords, kernel_name, assert_within_bound)


def check_exact(op: str, *operands: Any, kernel_name: str | None = None, **keywords: Any) -> Any:
    """Call an op, fail unless every result is the exact one rounded once to its format, and return what it returned.

    For operands whose sums are exact in every order, such as those of `exact_operands` and `exact_sparse_operands`,
    and epilogues that round nothing before the last step.

    Parameters
    ----------
    op, *operands, kernel_name, **keywords
        As in `check`.

    Raises
    ------
    AssertionError
        As `assert_same_bits` words it, with the lines that `check` adds.

    Examples
    --------
    >>> from poplibs_py.testing import exact_operands
    >>> made = exact_operands((5, 70), (70, 3), "float16", seed=4)
    >>> check_exact("matmul", made.a, made.b, out_dtype="float32").shape
    (5, 3)
    """
    return _checked(op, operands, keywords, kernel_name, _assert_exact)


def _assert_exact(got: Any, ball: Ball, dtype: Any) -> None:
    held = numbers_of(got)
    form = format_of(getattr(held, "format", held) if dtype is None else dtype)
    scales = held.element_scales() if isinstance(held, QuarterArray) else 0
    assert_same_bits(held, as_format(np.ldexp(ball.centre, -np.asarray(scales, np.int64)), form), dtype=form)


def _checked(op: str, operands: tuple[Any, ...], keywords: dict[str, Any], kernel_name: str | None,
             verdict: Callable[..., None]) -> Any:
    call = Snapshot.of(op, *_arrays(operands, keywords))  # before the call: it may write to its operands
    ball = bound(op, *operands, **keywords)
    got = find_op(op).face(*operands, **keywords)
    try:
        verdict(got, ball, dtype=keywords.get("out_dtype"))
    except AssertionError as failure:
        lines = [str(failure), *footer(kernel_name or _kernels(call), call.reproducer())]
        raise AssertionError("\n".join(lines)) from None
    return got


def _kernels(call: Snapshot) -> str | None:
    """The kernels of a call, as a second run of it records them: while nobody listens, calls take shorter ways."""
    heard: list[Run] = []
    listener = Listener(heard.append)
    start(listener)
    try:
        op, operands, keywords = call.again()
        find_op(op).face(*operands, **keywords)
    except Exception:  # what fails already may fail in any way
        return None
    finally:
        stop(listener)
    return ", ".join(dict.fromkeys(run.kernel for run in heard)) or None


def replay(token: str) -> Any:
    """Make the call of a failed `check` again, from the token or file that its message names."""
    op, operands, keywords = decode_call(token)
    return check(op, *operands, **keywords)


def _arrays(operands: tuple[Any, ...], keywords: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return what a call was given with tensors as arrays that share their memory."""
    return tuple(map(_array, operands)), {key: _array(value) for key, value in keywords.items()}


def _array(value: Any) -> Any:
    if isinstance(value, (np.ndarray, type)) or not hasattr(value, "__dlpack__"):
        return value
    return as_array("operands", value, "arrays, or tensors that require no gradient")


def _answered(record: Op, function: Callable[..., Any], operands: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
    """What a function says of a call; a keyword that the op has not is refused, and so is what it cannot take."""
    known = signature(record.face).parameters
    if not any(p.kind is Parameter.VAR_KEYWORD for p in known.values()):
        check_keys("keywords", keywords, known, keywords=True)
    try:
        arrays, named = _arrays(operands, keywords)
        return function(*arrays, **named)
    except (PoplibsError, MemoryError):
        raise
    except (TypeError, ValueError, ArithmeticError, AttributeError, LookupError, RecursionError) as error:
        got = "nothing" if not operands else ", ".join(described(x) for x in operands)
        allowed = f"operands and keywords that {record.name} takes ({described(str(error))})"
        raise bad_type("operands", got, allowed) from error


PREPARED: dict[str, Op] = {
    name: replace(catalogue[record], name=f"testing.prepared.{name}", draws=f"testing.calls:{draws}")
    for name, record, draws in (
        ("matmul_prepared", "poplin.matmul", "matmul_prepared_calls"),
        ("matmul_prepared_left", "poplin.matmul", "matmul_prepared_calls"),
        ("sparse_dense_matmul_prepared", "popsparse.static.sparse_dense_matmul", "prepared_sparse_dense_matmul_calls"),
        ("dense_sparse_matmul_prepared", "popsparse.static.dense_sparse_matmul", "prepared_dense_sparse_matmul_calls"))
}
"""Ops with an operand that is prepared just before, under the op's own record."""
