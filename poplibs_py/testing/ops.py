"""Every op's reference and bound behind one face.

An op says beside its code what it computes and how wrong it may be: ``reference.py`` and ``bound.py`` in its own
folder. This table only says where.
"""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import PoplibsError, UnsupportedError, bad_argument, bad_type, described, one_of
from ..formats import QuarterArray, format_of
from ..formats.bounds import Ball
from ..popops._elementwise import ELEMENTWISE
from ..program.record import Listener, Run, start, stop
from .assertions import assert_same_bits, assert_within_bound, footer, numbers_of
from .data import as_format
from .exact_ops import EXACT
from .replay import Snapshot, decode_call

__all__ = ["OPS", "Op", "bound", "check", "check_exact", "exact", "reference", "replay"]


@dataclass(frozen=True)
class Op:
    """Where an op, its reference and its bound live, as ``"module:function"`` below the package."""

    call: str
    reference: str
    bound: str


def _own(call: str, bound: str) -> Op:
    """An op whose bound's centres are the reference."""
    return Op(call, bound, bound)


def _dense(call: str, kin: str) -> Op:
    return Op(call, f"poplin.matmul.reference:{kin}", f"poplin.matmul.bound:{kin}_bound")


_SPARSE = "popsparse.bound:"

OPS: dict[str, Op] = {
    "bs_softmax": _own("popsparse:bs_softmax", "popsparse.softmax_bound:softmax_call_bound"),
    "bs_softmax_grad": _own("popsparse:bs_softmax_grad", "popsparse.softmax_bound:softmax_grad_call_bound"),
    "cast": _own("popops:cast", "popops.bound:cast_bound"),
    "dense_sparse_matmul": _own("popsparse.static:dense_sparse_matmul", _SPARSE + "dense_sparse_matmul_bound"),
    "dense_sparse_matmul_prepared": _own("testing.prepared:dense_sparse_matmul_prepared",
                                         _SPARSE + "dense_sparse_matmul_bound"),
    "dynamic_dense_sparse_matmul": _own("popsparse.dynamic:dense_sparse_matmul",
                                        _SPARSE + "dynamic_dense_sparse_matmul_bound"),
    "dynamic_sparse_dense_matmul": _own("popsparse.dynamic:sparse_dense_matmul",
                                        _SPARSE + "dynamic_sparse_dense_matmul_bound"),
    "fully_connected_fwd": _own("popsparse.dynamic:fully_connected_fwd", _SPARSE + "fully_connected_fwd_bound"),
    "fully_connected_grad_a": _own("popsparse.dynamic:fully_connected_grad_a",
                                   _SPARSE + "fully_connected_grad_a_bound"),
    "fully_connected_sparse_grad_w": _own("popsparse.dynamic:fully_connected_sparse_grad_w",
                                          _SPARSE + "fully_connected_sparse_grad_w_bound"),
    "matmul": _dense("poplin:matmul", "matmul"),
    "matmul_acc": _dense("poplin:matmul_acc", "matmul_acc"),
    "matmul_grouped": _dense("poplin:matmul_grouped", "matmul"),
    "matmul_grouped_acc": _dense("poplin:matmul_grouped_acc", "matmul_acc"),
    "matmul_prepared": _dense("testing.prepared:matmul_prepared", "matmul"),
    "matmul_prepared_left": _dense("testing.prepared:matmul_prepared_left", "matmul"),
    "sparse_dense_matmul": _own("popsparse.static:sparse_dense_matmul", _SPARSE + "sparse_dense_matmul_bound"),
    "sparse_dense_matmul_prepared": _own("testing.prepared:sparse_dense_matmul_prepared",
                                         _SPARSE + "sparse_dense_matmul_bound"),
    "sparse_grad_w": _own("popsparse.static:sparse_grad_w", _SPARSE + "stored_grad_w_bound"),
    **{name: _own(f"popops:{name}", f"popops.elementwise:{name}_bound") for name in ELEMENTWISE},
}
"""The ops that have a bound, by name. Where a bound stands for the reference, its centres are the float64 results."""


def bound(op: str, *operands: Any, **keywords: Any) -> Ball:
    """Return the exact result of a call, and how far a right result may lie from it.

    Parameters
    ----------
    op : str
        One of `OPS`.
    *operands, **keywords
        The call's own; what does not change the result (threads, memory) is ignored.

    Returns
    -------
    Ball
        ``centre`` and ``radius``, in the shape of the result.
    """
    with _operands_of(op, operands):
        found: Ball = _function(_op(op).bound)(*operands, **keywords)
    return found


def exact(op: str, *operands: Any, **keywords: Any) -> NDArray[Any]:
    """Return the result of a call as fractions, before any rounding: an object array.

    Parameters
    ----------
    op : str
        One of `OPS`.
    *operands, **keywords
        The call's own; all values finite, activations that are rational.

    Examples
    --------
    >>> exact("matmul", np.float32([[0.5, 3.0]]), np.float32([[1.0], [0.125]]))
    array([[Fraction(7, 8)]], dtype=object)
    """
    _op(op)
    if op not in EXACT:
        raise bad_argument("op", op, "one whose results are fractions: " + ", ".join(map(repr, sorted(EXACT))))
    with _operands_of(op, operands):
        return EXACT[op](*operands, **keywords)


def reference(op: str, *operands: Any, **keywords: Any) -> NDArray[Any]:
    """Return the result of a call computed plainly, in float64, without the final rounding.

    Parameters
    ----------
    op : str
        One of `OPS`.
    *operands, **keywords
        The call's own.
    """
    with _operands_of(op, operands):
        found = _function(_op(op).reference)(*operands, **keywords)
    return found.centre if isinstance(found, Ball) else np.asarray(found)


def check(op: str, *operands: Any, kernel: str | None = None, **keywords: Any) -> Any:
    """Call an op, fail unless every result is within the op's own bound, and return what it returned.

    Parameters
    ----------
    op : str
        One of `OPS`.
    *operands, **keywords
        The call's own.
    kernel : str, optional
        What serves the call, for the message; by default what its own record names (see `poplibs_py.profile`).

    Raises
    ------
    AssertionError
        As `assert_within_bound` words it, with the kernels that served the call and a line that makes it again.
        Nothing is written before that.
    """
    return _checked(op, operands, keywords, kernel, assert_within_bound)


def check_exact(op: str, *operands: Any, kernel: str | None = None, **keywords: Any) -> Any:
    """Call an op, fail unless every result is the exact one rounded once to its format, and return what it returned.

    For operands whose sums are exact in every order, such as those of `exact_operands` and `exact_sparse_operands`,
    and epilogues that round nothing before the last step.

    Parameters
    ----------
    op, *operands, kernel, **keywords
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
    return _checked(op, operands, keywords, kernel, _assert_exact)


def _assert_exact(got: Any, ball: Ball, fmt: Any) -> None:
    held = numbers_of(got)
    form = format_of(getattr(held, "format", held) if fmt is None else fmt)
    scales = held.element_scales() if isinstance(held, QuarterArray) else 0
    assert_same_bits(held, as_format(np.ldexp(ball.centre, -np.asarray(scales, np.int64)), form), fmt=form)


def _checked(op: str, operands: tuple[Any, ...], keywords: dict[str, Any], kernel: str | None,
             verdict: Callable[..., None]) -> Any:
    call = Snapshot.of(op, operands, keywords)  # before the call: it may write to its operands
    ball = bound(op, *operands, **keywords)
    got = _function(_op(op).call)(*operands, **keywords)
    try:
        verdict(got, ball, fmt=keywords.get("out_dtype"))
    except AssertionError as failure:
        lines = [str(failure), *footer(kernel or _kernels(call), call.reproducer())]
        raise AssertionError("\n".join(lines)) from None
    return got


def _kernels(call: Snapshot) -> str | None:
    """The kernels of a call, as a second run of it records them: while nobody listens, calls take shorter ways."""
    heard: list[Run] = []
    listener = Listener(heard.append)
    start(listener)
    try:
        op, operands, keywords = call.again()
        _function(_op(op).call)(*operands, **keywords)
    except Exception:  # what fails already may fail in any way
        return None
    finally:
        stop(listener)
    return ", ".join(dict.fromkeys(run.kernel for run in heard)) or None


def replay(token: str) -> Any:
    """Make the call of a failed `check` again, from the token or file that its message names."""
    op, operands, keywords = decode_call(token)
    return check(op, *operands, **keywords)


@contextlib.contextmanager
def _operands_of(op: str, operands: tuple[Any, ...]) -> Iterator[None]:
    """Refuse what an op's plain reference cannot even read: the call itself would say more, but it is not made."""
    try:
        yield
    except (PoplibsError, MemoryError):
        raise
    except (TypeError, ValueError, ArithmeticError, AttributeError, LookupError, RecursionError) as error:
        got = "nothing" if not operands else ", ".join(described(x) for x in operands)
        raise bad_type("operands", got, f"operands and keywords that {op} takes ({described(str(error))})") from error


def _op(name: str) -> Op:
    one_of("op", name, tuple(sorted(OPS)))
    return OPS[name]


def _function(path: str) -> Any:
    module, _, name = path.partition(":")
    try:
        return getattr(importlib.import_module(f"{__name__.split('.')[0]}.{module}"), name)
    except (ImportError, AttributeError) as error:
        raise UnsupportedError(f"{path} is not in this build") from error
