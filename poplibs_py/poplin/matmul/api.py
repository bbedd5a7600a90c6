"""Dense products: do (`matmul` and its kin), plan (`plan_matmul`), compile (`compile_matmul`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import numpy as np

from ...config import settings
from ...errors import UnsupportedError, bad_argument, bad_type, one_of
from ...formats import QuarterArray, format_of
from ...program import Hold, result_array, temporary
from ...program.record import asked_target, listening
from ...target import Target, resolve_target
from ..convolution import ConvPlan
from .arguments import (
    Array,
    Call,
    Given,
    check_size,
    contiguous,
    default_out_format,
    epilogue_of,
    given,
    read_call,
    receiver,
    taken,
)
from .compiled import CompiledMatmul
from .lower import Program, program_of
from .modelled import TileMatmul, compile_modelled, matmul_modelled, plan_modelled
from .options import MatmulOptions, parse_options
from .params import MatmulParams
from .plan import Epilogue, HostPlan, plan_host
from .prepared import SIDES, PreparedMatrix

__all__ = [
    "CompiledMatmul",
    "compile_matmul",
    "matmul",
    "matmul_acc",
    "matmul_grouped",
    "matmul_grouped_acc",
    "plan_matmul",
    "prepare",
]

_KEPT_CALLS = 4096


class _Ready:
    """A call seen before: its program, and how to make its result."""

    __slots__ = ("dtype", "program", "run", "shape")

    def __init__(self, call: Call, program: Program, run: Callable[..., bool]) -> None:
        self.program = program  # owns the tables that the items of `run` point to
        self.run = run
        self.shape = call.shape
        self.dtype = call.format.dtype


_ready: dict[Any, _Ready] = {}


def matmul(
    a: Any,
    b: Any,
    *,
    out: Any = None,
    out_dtype: Any = None,
    alpha: float = 1.0,
    bias: Any = None,
    activation: str | None = None,
    partials_type: str = "float",
    available_memory_proportion: float = 0.6,
    reproducible: bool = False,
    strict_memory: bool = False,
    half_passes: int = 4,
    target: Target | str | None = None,
    seed: int | None = None,
    options: Mapping[str, Any] | None = None,
) -> Any:
    """Multiply matrices: ``activation(alpha * a @ b + bias)``.

    Corresponds to PopLibs' ``poplin::matMul`` and ``matMulWithOutput``.

    Parameters
    ----------
    a : array_like [..., m, k] or [k], or PreparedMatrix
        float32, float16, bfloat16 or an FP8 dtype of ml_dtypes, with any strides; lists become float32, and tensors
        (torch's, in any of these formats) are taken by DLPack without a copy.
    b : array_like [..., k, n] or [k], or PreparedMatrix
        Any of those formats, not necessarily a's. Both take a `QuarterArray` too, with a scale per tensor, row or
        block. Batch axes broadcast as in `numpy.matmul`.
    out : numpy.ndarray or QuarterArray [..., m, n], optional
        Where the result goes; any strides in which no two elements share memory. It may overlap the operands: the
        result is then made in a copy, beyond the bound on memory. A `QuarterArray` with one scale 2^s receives the
        result divided by 2^s and rounded to its format, which may be user-defined.
    out_dtype : dtype, Format or str, optional
        The result's format; one without a dtype, as user-defined ones are, gives a `QuarterArray`. By default float32
        where an operand is float32 or one is float16 and the other bfloat16, else float16 or bfloat16, whichever is
        there, and float16 for two FP8 operands.
    alpha : float, optional
        Multiplies the sums. Default 1.
    bias : array_like [n], [..., 1, n] or [..., m, 1], optional
        Added to each row, or to each column.
    activation : {None, "relu", "gelu", "silu"}, optional
        Applied before the result is rounded; gelu is the tanh form.
    partials_type : {"float", "half"}, optional
        ``"half"`` rounds the running sum to FP16 after each 128 of the depth.
    available_memory_proportion : float, optional
        Share of a core's second-level cache that each thread may take for temporaries; 0 sets no bound. Default 0.6.
    reproducible : bool, optional
        Ask for the same bits at every instruction-set level: one chain of FP32 fused multiply-adds in ascending depth.
    strict_memory : bool, optional
        Raise `MemoryBoundError` where no plan meets the bound; otherwise the bound is raised with a
        `MemoryBoundWarning`.
    half_passes : {4, 3}, optional
        On a matrix unit FP16 takes four passes for exact products; three leave out the product of the low parts, which
        adds an error of at most ``2^-14 |a| |b|`` a product.
    target : Target or str, optional
        The machine; by default this CPU. On a modelled one, such as ``"gc200"``, the numbers are those of its plan:
        see `poplibs_py.poplin.matmul.modelled.matmul_modelled`.
    seed : int, optional
        On a modelled machine, round stochastically from this seed where its plan rounds to half; by default to
        nearest even. This CPU rounds products to nearest even only.
    options : mapping, optional
        PopLibs' option keys, such as ``{"availableMemoryProportion": 0.3}``.

    Returns
    -------
    numpy.ndarray or QuarterArray [..., m, n]
        `out` where it was given; else a `QuarterArray` of scale 0 where `out_dtype` has no dtype, or an array.

    Raises
    ------
    InvalidTypeError, InvalidArgumentError
        If an argument is not as described.
    MemoryBoundError
        With `strict_memory`, if no plan fits.

    Notes
    -----
    Products are exact where they are formed in FP32 fused multiply-adds or in BF16 pairs, and sums are FP32. A host
    kernel may add in any order, so with ``S = sum |a| |b|`` over the depth k each sum is within gamma_k S of the exact
    one, with gamma_k = k u / (1 - k u), u = 2^-24 (Higham, "Accuracy and Stability of Numerical Algorithms",
    chapter 3). Then alpha, bias and activation are rounded to FP32 in turn, and the result once to its format.
    BF16 units take subnormal operands and sums for zero.
    ``poplibs_py.testing.bound("matmul", a, b)`` gives the bound for given operands.

    Examples
    --------
    >>> import numpy as np
    >>> from poplibs_py import poplin
    >>> a = np.arange(6, dtype=np.float32).reshape(2, 3)
    >>> poplin.matmul(a, a.T, bias=[-10.0, 0.0], activation="relu")
    array([[ 0., 14.],
           [ 4., 50.]], dtype=float32)
    >>> poplin.matmul(a.astype(np.float16), a.T, out_dtype="float16").dtype
    dtype('float16')
    """
    if listening():
        key = None
        target = asked_target() if target is None else target
    elif (
        type(a) is np.ndarray
        and type(b) is np.ndarray
        and (out is None or type(out) is np.ndarray)
        and options is None
        and bias is None
    ):
        key = (
            a.shape, a.strides, a.dtype, b.shape, b.strides, b.dtype, out_dtype,
            None if out is None else (out.shape, out.strides, out.dtype), alpha, activation, partials_type,
            available_memory_proportion, reproducible, strict_memory, half_passes, target, seed,
            settings.num_threads,
        )  # fmt: skip
        ready = _seen(_ready, key, a, b, out)
        if ready is not None and a.flags.aligned and b.flags.aligned:
            result = result_array(ready.shape, ready.dtype) if out is None else out
            if ready.run(a, b, result):
                return result
    elif options is None and bias is None and PreparedMatrix in (type(a), type(b)):
        rest = (
            out_dtype, alpha, activation, partials_type, available_memory_proportion, reproducible, strict_memory,
            half_passes, target, seed, settings.num_threads,
        )  # fmt: skip
        key, again = _again(a, b, out, rest)
        if again is not None:
            return again
    else:
        key = None
    if target is not None and resolve_target(target).kind != "host":
        _refuse_on_modelled(alpha=(alpha, 1.0), bias=(bias, None), activation=(activation, None))
        for name, x in (("a", a), ("b", b)):
            if isinstance(x, PreparedMatrix):
                raise bad_type(
                    name, "PreparedMatrix", "an array on a modelled machine: what was prepared is for this CPU"
                )
        return matmul_modelled(
            a, b, target=target, out=out, out_dtype=out_dtype, seed=seed, partials_type=partials_type,
            available_memory_proportion=available_memory_proportion, strict_memory=strict_memory, options=options,
        )  # fmt: skip
    if seed is not None:
        raise bad_argument("seed", seed, "None on this CPU: cast a float32 result stochastically")
    chosen = parse_options(
        options, MatmulOptions(available_memory_proportion, partials_type, reproducible, strict_memory, half_passes)
    )
    return _product(a, b, out, out_dtype, epilogue_of(alpha, 0.0, activation), bias, chosen, target, key)


def matmul_acc(
    c: Any,
    a: Any,
    b: Any,
    *,
    alpha: float = 1.0,
    beta: float = 1.0,
    bias: Any = None,
    activation: str | None = None,
    target: Target | str | None = None,
    options: Mapping[str, Any] | None = None,
    **keywords: Any,
) -> Any:
    """Accumulate a product in place: ``c[...] = activation(alpha * a @ b + beta * c + bias)``.

    Corresponds to PopLibs' ``poplin::matMulAcc``, with beta besides.

    Parameters
    ----------
    c : numpy.ndarray or QuarterArray [..., m, n]
        Read, and overwritten with the result in its own format.
    a, b, alpha, bias, activation, target, options
        As for `matmul`.
    beta : float, optional
        Multiplies c. Default 1; with 0, c is not read.
    **keywords
        `partials_type`, `available_memory_proportion`, `reproducible`, `strict_memory` and `half_passes` of `matmul`.

    Returns
    -------
    numpy.ndarray
        `c`.

    Notes
    -----
    ``alpha * sum`` and ``beta * c`` are rounded to FP32, then their sum, then as for `matmul`.

    Examples
    --------
    >>> import numpy as np
    >>> from poplibs_py import poplin
    >>> c = np.ones((2, 2), np.float32)
    >>> poplin.matmul_acc(c, 2 * np.eye(2, dtype=np.float32), np.eye(2, dtype=np.float32), alpha=0.5)
    array([[2., 1.],
           [1., 2.]], dtype=float32)
    """
    if not isinstance(c, (np.ndarray, QuarterArray)):
        raise bad_type("c", type(c).__name__, "a numpy.ndarray or a QuarterArray, which receives the result")
    chosen = parse_options(options, _from_keywords(keywords))
    return _product(a, b, c, None, epilogue_of(alpha, beta, activation), bias, chosen, target, None, "c")


def matmul_grouped(a: Any, b: Any, **keywords: Any) -> Any:
    """Multiply matrices group by group: [g, m, k] by [g, k, n].

    Corresponds to PopLibs' ``poplin::matMulGrouped``: both of rank 3 and of as many groups, with no broadcasting.

    Parameters
    ----------
    a, b : array_like [g, m, k], [g, k, n]
        As for `matmul`.
    **keywords
        As for `matmul`.

    Returns
    -------
    numpy.ndarray [g, m, n]

    Examples
    --------
    >>> import numpy as np
    >>> from poplibs_py import poplin
    >>> poplin.matmul_grouped(np.ones((2, 1, 3), np.float32), np.ones((2, 3, 1), np.float32)).ravel()
    array([3., 3.], dtype=float32)
    """
    _check_groups(a, b)
    return matmul(a, b, **keywords)


def matmul_grouped_acc(c: Any, a: Any, b: Any, **keywords: Any) -> Any:
    """Accumulate products group by group, as `matmul_acc` does: PopLibs' ``poplin::matMulGroupedAcc``."""
    _check_groups(a, b)
    return matmul_acc(c, a, b, **keywords)


def plan_matmul(
    a_shape: tuple[int, ...],
    b_shape: tuple[int, ...],
    *,
    dtype: Any = "float32",
    b_dtype: Any = None,
    out_dtype: Any = None,
    alpha: float = 1.0,
    beta: float = 0.0,
    bias_dtype: Any = None,
    activation: str | None = None,
    target: Target | str | None = None,
    options: Mapping[str, Any] | None = None,
    **keywords: Any,
) -> HostPlan | ConvPlan:
    """Plan a product of C-contiguous arrays without running it.

    Corresponds to PopLibs' ``poplin::matMulReportPlan``. For a modelled machine the plan is PopLibs' own; it takes
    its options (see `plan_modelled`) and no epilogue.

    Parameters
    ----------
    a_shape, b_shape : tuple of int
        [m, k] and [k, n], with batch axes of equal extents in front if wanted.
    dtype, b_dtype, out_dtype : dtype, Format or str, optional
        Formats of a, of b (by default a's) and of the result (by default as for `matmul`).
    bias_dtype : dtype, Format or str, optional
        Format of a bias [n]; by default there is none.
    alpha, beta, activation, target, options, **keywords
        As for `matmul_acc`.

    Returns
    -------
    HostPlan or ConvPlan
        Its `explain` tells kernel, packing, blocks, threads and temporary bytes. On a modelled machine, PopLibs' plan.

    Examples
    --------
    >>> from poplibs_py import poplin
    >>> plan = poplin.plan_matmul((512, 256), (256, 128), dtype="float16", available_memory_proportion=0.1)
    >>> plan.scratch_bytes <= 0.1 * plan.target.bytes_per_tile
    True
    >>> poplin.plan_matmul((512, 256), (256, 128), dtype="float16", target="gc200").cycles
    2600
    """
    if target is not None and resolve_target(target).kind != "host":
        if (alpha, beta, bias_dtype, activation) != (1.0, 0.0, None, None) or b_dtype not in (None, dtype):
            raise UnsupportedError("target: a modelled machine plans products of one format and without an epilogue")
        return plan_modelled(
            a_shape, b_shape, dtype=dtype, out_dtype=out_dtype, target=target, options=options, **keywords
        )
    shapes = [_checked_shape(s, name) for s, name in ((a_shape, "a_shape"), (b_shape, "b_shape"))]
    (*batch, m, k), (*b_batch, b_rows, n) = shapes
    if batch != b_batch or b_rows != k:
        raise bad_argument("b_shape", tuple(b_shape), f"batch axes {tuple(batch)} and {k} rows, as a_shape has")
    fa = format_of(dtype, "dtype")
    fb = fa if b_dtype is None else format_of(b_dtype, "b_dtype")
    fo = default_out_format(fa, fb) if out_dtype is None else format_of(out_dtype, "out_dtype")
    axes = tuple(batch)
    a, b, out = contiguous(fa, m, k, axes), contiguous(fb, k, n, axes), contiguous(fo, m, n, axes)
    bias = None if bias_dtype is None else format_of(bias_dtype, "bias_dtype")
    params = MatmulParams(m, n, k, a, b, out, axes, bias, bias.itemsize if bias else 0, (0,) * len(axes))
    check_size(params, tuple(shapes[0]), tuple(shapes[1]))
    chosen = parse_options(options, _from_keywords(keywords))
    return plan_host(params, chosen, epilogue_of(alpha, beta, activation), _host(target))


def compile_matmul(plan: HostPlan | ConvPlan) -> CompiledMatmul | TileMatmul:
    """Lower a plan to a callable to use many times, from any number of threads."""
    if isinstance(plan, ConvPlan):
        return compile_modelled(plan)
    return CompiledMatmul(plan)


def prepare(
    w: Any,
    *,
    side: str = "right",
    a_dtype: Any = None,
    b_dtype: Any = None,
    target: Target | str | None = None,
    **keywords: Any,
) -> PreparedMatrix:
    """Pack an operand once, for many products.

    Corresponds to PopLibs' ``poplin::preArrangeMatMulInputRHS``, and to the same for the left side.

    Parameters
    ----------
    w : array_like [k, n], or [m, k] for the left
        The matrix; it is copied, so later changes to it are not seen. A `QuarterArray`'s scales go with it.
    side : {"right", "left"}, optional
        Which operand it will be: ``matmul(x, prepared)``, or ``matmul(prepared, x)``.
    a_dtype, b_dtype : dtype, Format or str, optional
        Format of the other operands to come, on the left of a right operand or on the right of a left one; by default
        w's.
    target, **keywords
        As for `matmul_acc`.

    Returns
    -------
    PreparedMatrix

    Examples
    --------
    >>> import numpy as np
    >>> from poplibs_py import poplin
    >>> w = poplin.prepare(np.eye(3, dtype=np.float32))
    >>> poplin.matmul(np.ones((1, 3), np.float32), w)
    array([[1., 1., 1.]], dtype=float32)
    >>> w = poplin.prepare([[1, 2], [3, 4]], side="left")
    >>> poplin.matmul(w, np.ones((2, 1), np.float32), bias=[[10], [20]])
    array([[13.],
           [27.]], dtype=float32)
    """
    one_of("side", side, SIDES)
    matrix = given(w, "w")
    other, unused = ("a_dtype", "b_dtype") if side == "right" else ("b_dtype", "a_dtype")
    dtypes = {"a_dtype": a_dtype, "b_dtype": b_dtype}
    if dtypes[unused] is not None:
        raise bad_argument(
            unused, dtypes[unused], f"None for side={side!r}: w has its own format, {other} is the other's"
        )
    fmt = matrix.format if dtypes[other] is None else format_of(dtypes[other], other)
    return PreparedMatrix(matrix, fmt, _from_keywords(keywords), _host(target), side)


def _from_keywords(keywords: Mapping[str, Any]) -> MatmulOptions:
    try:
        return MatmulOptions(**keywords)
    except TypeError:
        unknown = sorted(set(keywords) - set(MatmulOptions.__dataclass_fields__))
        raise bad_type("keywords", ", ".join(unknown), ", ".join(MatmulOptions.__dataclass_fields__)) from None


def _checked_shape(shape: Any, name: str) -> list[int]:
    if not isinstance(shape, (tuple, list)) or not all(isinstance(x, (int, np.integer)) for x in shape):
        raise bad_type(name, shape, "a tuple of whole numbers")
    if len(shape) < 2 or min(shape) < 0:
        raise bad_argument(name, tuple(shape), "at least two extents, none negative")
    return [int(x) for x in shape]


def _check_groups(a: Any, b: Any) -> None:
    shapes = [given(x, name).shape for x, name in ((a, "a"), (b, "b"))]
    for name, shape in zip("ab", shapes, strict=True):
        if len(shape) != 3:
            raise bad_argument(name, f"shape {shape}", "three axes: groups, rows, columns")
    if shapes[0][0] != shapes[1][0]:
        raise bad_argument("b", f"{shapes[1][0]} groups", f"as many groups as a has, {shapes[0][0]}")


def _refuse_on_modelled(**arguments: tuple[Any, Any]) -> None:
    """Refuse what a modelled machine's product does not have: each argument may only be its default."""
    for name, (value, default) in arguments.items():
        if value is not default and (default is None or value != default):
            got = type(value).__name__ if hasattr(value, "shape") else value
            raise bad_argument(name, got, f"{default} on a modelled machine: PopLibs' product has no more")


@cache
def _own_host(threads: int) -> Target:
    return Target.host(threads)


def _host(target: Target | str | None) -> Target:
    if target is None:
        return _own_host(settings.num_threads)
    machine = resolve_target(target)
    if machine.kind != "host":
        raise UnsupportedError(f"target: got {machine.name}; allowed: the host, for this form of a product")
    return machine


def _again(a: Any, b: Any, out: Any, rest: tuple[Any, ...]) -> tuple[Any, Array | None]:
    """Make a product with a prepared operand again: the call's key, and its result if it was seen before."""
    held, other = (a, b) if type(a) is PreparedMatrix else (b, a)
    if type(other) is not np.ndarray or not (out is None or type(out) is np.ndarray):
        return None, None
    key = (
        held is a,
        other.shape,
        other.strides,
        other.dtype,
        out is not None and (out.shape, out.strides, out.dtype),
        rest,
    )
    ready = _seen(held.calls, key, other, other, out)
    if ready is None or not other.flags.aligned:
        return key, None
    result = result_array(ready.shape, ready.dtype) if out is None else out
    return key, result if ready.run(other, result) else None


def _seen(calls: dict[Any, _Ready], key: Any, a: Array, b: Array, out: Array | None) -> _Ready | None:
    """Return the program of a call seen before, if `out` may be written straight away or is None."""
    try:
        ready = calls.get(key)
    except TypeError:  # an argument that is no key is no valid argument either
        return None
    if ready is None or out is None:
        return ready
    apart = not (np.may_share_memory(a, out) or np.may_share_memory(b, out))
    return ready if apart and out.flags.writeable and out.flags.aligned else None


def _product(
    a: Any,
    b: Any,
    out: Any,
    out_dtype: Any,
    epilogue: Epilogue,
    bias: Any,
    options: MatmulOptions,
    target: Target | str | None,
    key: Any,
    out_name: str = "out",
) -> Any:
    """Check the arguments, plan, lower and run; keep the program for the next call with this key."""
    machine = _host(target)
    row = None if bias is None else taken(bias, "bias")
    left, right = _operand(a, "a"), _operand(b, "b")
    held = _prepared(a, b)
    into = None if out is None else receiver(out, out_name)
    call = read_call(left, right, into, out_dtype, row, out_name)
    written = None if into is None else into.array
    keep = Hold(left.array, right.array, row, written)  # until this call returns
    sources = [x for x in (left.array, right.array, row) if x is not None]
    if into is not None and any(np.may_share_memory(into.array, x) for x in sources):
        into = Given(_copied(into.array), into.format, into.scale)
        call, key = read_call(left, right, into, out_dtype, row, out_name), None
    whole = None
    dtype = call.format.dtype
    result = result_array(call.shape, dtype or call.format.code_dtype) if into is None else into.array
    if held is None:
        program = program_of(call.params, options, epilogue, machine)
    else:
        program, packed, whole = held.program(call.params, options, epilogue, machine)
        left, right = (packed, right) if held is a else (left, packed)
    if key is not None and dtype is not None:
        run = program.bound(left.array, right.array, result, None, left.scales, right.scales, whole)
        _keep(a, b, key, _Ready(call, program, run), left, right)
    program.run(left.array, right.array, result, row, left.scales, right.scales, whole)
    if written is not None and written is not result:
        written[...] = result
    del keep
    if out is not None:
        return out
    return result if dtype is not None else QuarterArray(result, call.format)


def _copied(array: Array) -> Array:
    copy: Array = temporary(array.shape, array.dtype)
    copy[...] = array
    return copy


def _prepared(a: Any, b: Any) -> PreparedMatrix | None:
    """Return the operand that is prepared, if one is."""
    held = [x for x in (a, b) if isinstance(x, PreparedMatrix)]
    if len(held) > 1:
        raise bad_type("b", "PreparedMatrix", "an array where a is prepared: one of the two may be")
    return held[0] if held else None


def _keep(a: Any, b: Any, key: Any, ready: _Ready, left: Given, right: Given) -> None:
    """Keep a call's program for the next one with this key, with the operand that is prepared if one is."""
    calls, run = _ready, ready.run
    if isinstance(a, PreparedMatrix):
        calls, ready.run = a.calls, lambda b, out: run(left.array, b, out)
    elif isinstance(b, PreparedMatrix):
        calls, ready.run = b.calls, lambda a, out: run(a, right.array, out)
    if len(calls) >= _KEPT_CALLS:
        calls.clear()
    calls[key] = ready


def _operand(value: Any, name: str) -> Given:
    return value.stand_in(name) if isinstance(value, PreparedMatrix) else given(value, name)
