"""Dense products: do (`matmul` and its kin), plan (`plan_matmul`), compile (`compile_matmul`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from inspect import Parameter, signature, unwrap
from typing import Any

from ...checks import check_shape, one_of
from ...errors import UnsupportedError, bad_argument, bad_type, check_keys
from ...formats import format_of
from ...ops import Placed, Request, host_target, op, operand, own_numbers, placed_request, target_of
from ...target import Target, TargetLike, resolve_target
from ...target.types import data_type
from ..gemm.api import compile_gemm, gemm_operand, gemm_request, stated
from ..gemm.options import GemmOptions, options_of, parse_options
from ..gemm.plan import Epilogue, GemmPlan
from ..gemm.prepared import SIDES, PreparedMatrix
from ..gemm.search import plan_gemm
from ..tile_conv import ConvPlan
from .modelled import compile_modelled, lacks, modelled_request, plan_modelled
from .params import TYPES

_OF_EVERY_MACHINE = ("available_memory_proportion", "partials_type", "strict_memory")
_OF_THE_HOST = ("reproducible", "half_passes")  # a modelled machine's results always are, and its products are exact


@op("poplin::matMul", reference="poplin.product.reference", bound="poplin.product.bound", draws="testing.calls",
    values=("seed",), numbers=("alpha",))
def matmul(a: Any, b: Any, *, out: Any = None, out_dtype: Any = None, alpha: float = 1.0, bias: Any = None,
           activation: str | None = None, partials_type: str = "float",
           available_memory_proportion: float | None = None, reproducible: bool = False, strict_memory: bool = False,
           half_passes: int = 4, target: TargetLike = None, seed: Any = None,
           options: Mapping[str, Any] | None = None) -> Any:
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
    out : array or QuarterArray [..., m, n], optional
        Where the result goes; any strides in which no two elements share memory. It may overlap the operands: the
        result is then made in a copy, which no limit on memory counts. A `QuarterArray` with one scale 2^s receives the
        result divided by 2^s and rounded to its format, which may be user-defined.
    out_dtype : dtype, Format or str, optional
        The result's format; one without a dtype, as user-defined ones are, gives a `QuarterArray`. By default it is
        float32 where an operand is float32, or one is float16 and the other bfloat16; else the 16-bit format that is
        there; float16 for two FP8 operands.
    alpha : float, optional
        Multiplies the sums. Default 1.
    bias : array_like [n], [..., 1, n] or [..., m, 1], optional
        Added to each row, or to each column.
    activation : {None, "relu", "gelu", "silu"}, optional
        Applied before the result is rounded; gelu is the tanh form.
    partials_type : {"float", "half"}, optional
        ``"half"`` rounds the running sum to FP16 after each 128 of the depth.
    available_memory_proportion : float, optional
        Share of a core's second-level cache that each thread may take for temporaries; 0 sets no limit. By default the
        plan is the fastest on this CPU, and PopLibs' 0.6 holds on a modelled machine.
    reproducible : bool, optional
        Ask for the same bits at every instruction-set level: one chain of FP32 fused multiply-adds in ascending depth.
    half_passes : {4, 3}, optional
        On a matrix unit FP16 takes four passes for exact products; three leave out the product of the low parts, which
        adds an error of at most ``2^-14 |a| |b|`` a product.
    target : Target or str, optional
        The machine; by default this CPU. On a modelled one, such as ``"gc200"``, the numbers are those of its plan:
        operands have one type, `alpha` is 1, and a bias has the result's format. The product is rounded to that
        format, after the bias again, and after the activation again, as PopLibs' vertices do.
    seed : int or (int, int), optional
        On a modelled machine, round stochastically from this seed where tiles exchange half partial sums and at the
        result; by default to nearest even. This CPU rounds products to nearest even only.
    options : mapping, optional
        PopLibs' option keys, such as ``{"availableMemoryProportion": 0.3}``; one that contradicts a keyword is refused.

    Returns
    -------
    numpy.ndarray or QuarterArray [..., m, n]
        `out` where it was given; else a `QuarterArray` of scale 0 where `out_dtype` has no dtype, or an array.

    Raises
    ------
    InvalidTypeError, InvalidArgumentError
        If an argument is not as described.
    MemoryLimitError
        With `strict_memory`, if no plan fits.

    Notes
    -----
    Products are exact, in FP32 fused multiply-adds or in BF16 pairs, and sums are FP32. A kernel of this CPU may add in
    any order. With ``S = sum |a| |b|`` over the depth k, each sum is within ``gamma_k S`` of the exact one, where
    ``gamma_k = k u / (1 - k u)`` and ``u = 2^-24`` (Higham, "Accuracy and Stability of Numerical Algorithms", chapter
    3). Then alpha, bias and activation are rounded to FP32 in turn, and the result once to its format. BF16 units take
    subnormal operands and sums for zero.

    ``poplibs_py.testing.bound("matmul", a, b)`` gives the bound for these operands.

    Examples
    --------
    >>> a = np.arange(6, dtype=np.float32).reshape(2, 3)
    >>> poplin.matmul(a, a.T, bias=[-10.0, 0.0], activation="relu")
    array([[ 0., 14.],
           [ 4., 50.]], dtype=float32)
    >>> poplin.matmul(a.astype(np.float16), a.T, out_dtype="float16").dtype
    dtype('float16')
    """
    keywords = options_of(available_memory_proportion, partials_type, reproducible, strict_memory, half_passes)

    def there(machine: Target) -> Request | str:
        planned = {name: value for name, value in keywords.said().items() if name in _OF_EVERY_MACHINE}
        return lacks(a, b, out, out_dtype, alpha, bias) or modelled_request(
            a, b, out, out_dtype, bias, activation, machine, seed, options, planned)

    def here(placed: Placed[Any]) -> Request:
        if seed is not None:
            raise bad_argument("seed", seed, "None on this CPU: cast a float32 result stochastically")
        (_, own), values = own_numbers(None, alpha)
        chosen, epilogue = parse_options(options, keywords), Epilogue.of(alpha, 0.0, activation).own(own)
        return gemm_request(a, b, out, out_dtype, epilogue, bias, chosen, placed, values=values)

    return placed_request(matmul, target, there, here)


@op("poplin::matMulAcc", reference="poplin.product.reference", bound="poplin.product.bound", draws="testing.calls",
    written="c", numbers=("alpha", "beta"), lacks="that accumulates")
def matmul_acc(c: Any, a: Any, b: Any, *, alpha: float = 1.0, beta: float = 1.0, bias: Any = None,
               activation: str | None = None, target: TargetLike = None,
               options: Mapping[str, Any] | None = None, **keywords: Any) -> Any:
    """Accumulate a product in place: ``c[...] = activation(alpha * a @ b + beta * c + bias)``.

    Corresponds to PopLibs' ``poplin::matMulAcc``, which has no beta.

    Parameters
    ----------
    c : array or QuarterArray [..., m, n]
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
    >>> c = np.ones((2, 2), np.float32)
    >>> poplin.matmul_acc(c, 2 * np.eye(2, dtype=np.float32), np.eye(2, dtype=np.float32), alpha=0.5)
    array([[2., 1.],
           [1., 2.]], dtype=float32)
    """
    if c is None:
        raise bad_type("c", "None", "an array or a QuarterArray, which receives the result")
    chosen = parse_options(options, _from_keywords(matmul_acc, keywords), keywords)
    placed: Placed[Any] = Placed(host=target_of(target))
    own, values = own_numbers(alpha, beta)
    epilogue = Epilogue.of(alpha, beta, activation).own(*own)
    return gemm_request(a, b, c, None, epilogue, bias, chosen, placed, "c", values)


@op("poplin::matMulGrouped", reference="poplin.product.reference:matmul", bound="poplin.product.bound:matmul_bound",
    draws="testing.calls", values=("seed",))
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
    >>> poplin.matmul_grouped(np.ones((2, 1, 3), np.float32), np.ones((2, 3, 1), np.float32)).ravel()
    array([3., 3.], dtype=float32)
    """
    check_keys("matmul_grouped()", keywords, _MATMUL_KEYWORDS, keywords=True)
    _check_groups(a, b)
    return unwrap(matmul)(a, b, **keywords)


@op("poplin::matMulGroupedAcc", reference="poplin.product.reference:matmul_acc",
    bound="poplin.product.bound:matmul_acc_bound", draws="testing.calls", written="c")
def matmul_grouped_acc(c: Any, a: Any, b: Any, **keywords: Any) -> Any:
    """Accumulate products group by group, as `matmul_acc` does: PopLibs' ``poplin::matMulGroupedAcc``."""
    check_keys("matmul_grouped_acc()", keywords, _ACC_KEYWORDS, keywords=True)
    _check_groups(a, b)
    return unwrap(matmul_acc)(c, a, b, **keywords)


def keywords_of(function: Any) -> dict[str, Any]:
    """Return the keywords that a function names, with their defaults."""
    return {p.name: p.default for p in signature(function).parameters.values() if p.kind is Parameter.KEYWORD_ONLY}


_MATMUL_KEYWORDS = keywords_of(matmul)
_ACC_KEYWORDS = tuple(dict.fromkeys((*keywords_of(matmul_acc), *GemmOptions.__dataclass_fields__)))


def plan_matmul(a_shape: tuple[int, ...], b_shape: tuple[int, ...], *, dtype: Any = "float32", b_dtype: Any = None,
                out_dtype: Any = None, alpha: float = 1.0, beta: float = 0.0, bias_dtype: Any = None,
                activation: str | None = None, target: TargetLike = None,
                options: Mapping[str, Any] | None = None, **keywords: Any) -> GemmPlan | ConvPlan:
    """Plan a product of C-contiguous arrays without running it.

    Corresponds to PopLibs' ``poplin::matMulReportPlan``. For a modelled machine the plan is PopLibs' own; it takes
    its options (see `plan_modelled`) and no epilogue.

    Parameters
    ----------
    a_shape, b_shape : tuple of int
        [m, k] and [k, n], with batch axes of equal extents in front if wanted, of one alone where all entries have
        the other.
    dtype, b_dtype, out_dtype : dtype, Format or str, optional
        Formats of a, of b (by default a's) and of the result (by default as for `matmul`).
    bias_dtype : dtype, Format or str, optional
        Format of a bias [n]; by default there is none.
    alpha, beta, activation, target, options, **keywords
        As for `matmul_acc`.

    Returns
    -------
    GemmPlan or ConvPlan
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
        one_format = b_dtype is None or data_type("b_dtype", b_dtype, TYPES) == data_type("dtype", dtype, TYPES)
        if not one_format or Epilogue.of(alpha, beta, activation) != Epilogue() or bias_dtype is not None:
            raise UnsupportedError("target: a modelled machine plans products of one format and without an epilogue; "
                                   "the compiled plan takes a bias and an activation")
        _from_keywords(plan_matmul, {name: keywords[name] for name in _OF_THE_HOST if name in keywords})
        more = {name: value for name, value in keywords.items() if name not in _OF_THE_HOST}
        return plan_modelled(a_shape, b_shape, dtype=dtype, out_dtype=out_dtype, target=target, options=options, **more)
    params = stated(a_shape, b_shape, dtype, b_dtype, out_dtype, bias_dtype)
    chosen = parse_options(options, _from_keywords(plan_matmul, keywords), keywords)
    return plan_gemm(params, chosen, Epilogue.of(alpha, beta, activation), host_target(target, "this form of a plan"))


def compile_matmul(plan: GemmPlan | ConvPlan) -> Callable[..., Any]:
    """Lower a plan to a function to use many times, from any number of threads.

    Parameters
    ----------
    plan : GemmPlan or ConvPlan
        As `plan_matmul` returned it.

    Returns
    -------
    callable
        ``run(a, b, *, out=None, bias=None)`` on operands of the planned shapes and formats, whose attribute ``plan`` is
        the plan. For a modelled machine's plan ``run(a, b, *, out=None, bias=None, activation=None, seed=None)``.

    Raises
    ------
    InvalidTypeError, InvalidArgumentError
        If it is not a plan that the planner makes here.

    Examples
    --------
    >>> import numpy as np
    >>> from poplibs_py import poplin
    >>> run = poplin.compile_matmul(poplin.plan_matmul((2, 3), (3, 2)))
    >>> run(np.ones((2, 3), np.float32), np.ones((3, 2), np.float32))
    array([[3., 3.],
           [3., 3.]], dtype=float32)
    """
    return compile_modelled(plan) if isinstance(plan, ConvPlan) else compile_gemm(plan)


def prepare(w: Any, *, side: str = "right", a_dtype: Any = None, b_dtype: Any = None,
            target: TargetLike = None, **keywords: Any) -> PreparedMatrix:
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
    matrix = operand("w", w)
    other, unused = ("a_dtype", "b_dtype") if side == "right" else ("b_dtype", "a_dtype")
    dtypes = {"a_dtype": a_dtype, "b_dtype": b_dtype}
    if dtypes[unused] is not None:
        raise bad_argument(unused, dtypes[unused],
                           f"None for side={side!r}: w has its own format, {other} is the other's")
    fmt = matrix.format if dtypes[other] is None else format_of(dtypes[other], other)
    return PreparedMatrix(matrix, fmt, _from_keywords(prepare, keywords), host_target(target, "preparing"), side)


def _from_keywords(function: Callable[..., Any], keywords: Mapping[str, Any]) -> GemmOptions:
    """Return the options that a function was called with beside its own keywords."""
    options = GemmOptions.__dataclass_fields__
    if not keywords.keys() <= options.keys():
        check_keys(f"{function.__name__}()", keywords, (*keywords_of(function), *options), keywords=True)
    return GemmOptions(**keywords)


def _check_groups(a: Any, b: Any) -> None:
    shapes = [gemm_operand(x, name).shape for x, name in ((a, "a"), (b, "b"))]
    for name, shape, x in zip("ab", shapes, (a, b), strict=True):
        if isinstance(x, PreparedMatrix):
            raise bad_type(name, "PreparedMatrix", "an array [groups, rows, columns]: what was prepared is one matrix")
        check_shape(name, shape, len(shape) == 3, "three axes: groups, rows, columns")
    if shapes[0][0] != shapes[1][0]:
        raise bad_argument("b", f"{shapes[1][0]} groups", f"as many groups as a has, {shapes[0][0]}")

