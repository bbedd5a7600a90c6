"""Small calls of every op of the catalogue: what the table of repeated calls times, and ``poplibs-py info`` runs."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from ..ops import catalogue
from ..popops.elementwise.table import ELEMENTWISE, ElementwiseOp
from ..popops.elementwise.unary import relu
from ..popops.expr import _1, _2
from ..popsparse import BlockSparseMatrix, bs_softmax, dynamic, random_matrix, random_pattern
from .data import random_operand

__all__ = ["Case", "cases"]


class Case(NamedTuple):
    """A call: what is said of it, its operands and its keywords."""

    what: str
    operands: tuple[Any, ...]
    keywords: dict[str, Any]


def cases(op: str) -> list[Case]:
    """Return small calls of an op, the plainest first; each may be made many times.

    Parameters
    ----------
    op : str
        Its name in the catalogue, or the end of it. Ops whose calls are drawn by one strategy have the same cases.

    Examples
    --------
    >>> [case.what for case in cases("popops.exp")]
    ['256', 'out']
    """
    where, _, name = catalogue.find(op).draws.partition(":")
    return _elementwise(ELEMENTWISE[name]) if where == "testing.elementwise_calls" else _CASES[name]()


def _numbers(*shape: int, fmt: str = "float32", seed: int = 1) -> Any:
    return random_operand(shape, fmt, seed)


def _matrix(fmt: str = "float32", seed: int = 3) -> BlockSparseMatrix:
    """An 8 x 8 matrix of which three of four blocks are stored."""
    return random_matrix(random_pattern(8, 8, 4, 0.75, 3), fmt, seed)


_OPTIONS = {"availableMemoryProportion": 0.3}
_CAPACITY = {"capacity": dynamic.Capacity(8)}


def _epilogue() -> dict[str, Any]:
    return {"out": np.empty((8, 8), np.float32), "bias": _numbers(8), "activation": "relu", "out_dtype": "float32",
            "options": _OPTIONS}


def _keyword_by_keyword(what: str, operands: tuple[Any, ...], everything: dict[str, Any]) -> list[Case]:
    """A call without keywords, with each of them, and with all; out_dtype alone is one of 16 bits."""
    each = everything | {"out_dtype": "float16"}
    alone = (Case(name, operands, {name: value}) for name, value in each.items())
    return [Case(what, operands, {}), *alone, Case(", ".join(everything), operands, everything)]


def _matmul() -> list[Case]:
    halves, quarters = ((_numbers(8, 8, fmt=fmt), _numbers(8, 8, fmt=fmt, seed=2)) for fmt in ("float16", "e4m3"))
    finished = {"bias": _numbers(8), "activation": "gelu", "out_dtype": "e5m2"}
    return [*_keyword_by_keyword("8 x 8", (_numbers(8, 8), _numbers(8, 8, seed=2)), _epilogue()),
            Case("FP16", halves, {}), Case("FP8", quarters, {}),
            Case("FP8, bias, activation, out_dtype", quarters, finished),
            Case("batch of 4", (_numbers(4, 8, 8), _numbers(4, 8, 8, seed=2)), {})]


def _matmul_acc() -> list[Case]:
    operands = tuple(_numbers(8, 8, seed=seed) for seed in (3, 1, 2))
    how = {"beta": 0.5, "bias": _numbers(8), "options": _OPTIONS}
    return [Case("8 x 8", operands, {}), Case(", ".join(how), operands, how)]


def _matmul_grouped(*before: Any) -> list[Case]:
    return [Case("4 x 8 x 8", (*before, _numbers(4, 8, 8), _numbers(4, 8, 8, seed=2)), {})]


def _attention() -> list[Case]:
    operands = tuple(_numbers(2, 8, 16, seed=seed) for seed in (1, 2, 3))
    one = _numbers(2, 1, 16), *operands[1:]
    halves = tuple(_numbers(2, 8, 16, fmt="bfloat16", seed=seed) for seed in (1, 2, 3))
    return [Case("2 heads, 8 x 8", operands, {}), Case("causal", operands, {"causal": True}), Case("BF16", halves, {}),
            Case("one query", one, {}), Case("lse", operands, {"return_lse": True})]


def _attention_grad() -> list[Case]:
    q, k, v, y = (_numbers(2, 8, 16, seed=seed) for seed in (1, 2, 3, 4))
    return [Case("2 heads, 8 x 8", (y, q, k, v, y, np.full((2, 8), 8.0, np.float32)), {})]


_IMAGES, _KERNELS, _DELTAS = (1, 4, 8), (8, 4, 3), (1, 8, 6)


def _convolution(*after: str) -> list[Case]:
    operands = _numbers(*_IMAGES), _numbers(*_KERNELS, seed=2), *(np.empty(_DELTAS, np.float32) for _ in after)
    how = {"dilation": 1, "bias": _numbers(8), "activation": "relu", "options": _OPTIONS}
    more = {} if after else {"out": np.empty(_DELTAS, np.float32), "residual": _numbers(*_DELTAS, seed=3)}
    return [Case("1 x 8, 4 to 8 channels", operands, {}), Case(", ".join(how | more), operands, how | more)]


def _gradient(*shapes: tuple[int, ...], scale: tuple[float, ...] = ()) -> list[Case]:
    operands = (*(_numbers(*shape, seed=seed) for seed, shape in enumerate(shapes)), *scale)
    return [Case("1 x 8, 4 to 8 channels", operands, {}), Case("options", operands, {"options": _OPTIONS})]


def _two(make: Callable[[], list[Case]]) -> list[Case]:
    """Calls of two convolutions in one: the plainest twice, and the others with it, in arrays of their own."""
    firsts = make(), make()
    return [Case(f"two of {one.what}", ([(*plain.operands, plain.keywords), (*one.operands, one.keywords)],), {})
            for plain, one in zip((firsts[0][0],) * len(firsts[1]), firsts[1], strict=True)]


def _biased(*operands: tuple[int, ...], scale: tuple[float, ...] = ()) -> list[Case]:
    return [Case("1 x 8, 8 channels", (*(_numbers(*shape) for shape in operands), *scale), {})]


def _sparse_dense_matmul() -> list[Case]:
    return [*_keyword_by_keyword("8 x 8", (_matrix(), _numbers(8, 8)), _epilogue()),
            Case("FP16", (_matrix("float16"), _numbers(8, 8, fmt="float16")), {}),
            Case("FP8", (_matrix("e4m3"), _numbers(8, 8, fmt="e4m3")), {})]


def _dense_sparse_matmul() -> list[Case]:
    operands, everything = (_numbers(8, 8), _matrix()), _epilogue()
    return [Case("8 x 8", operands, {}), Case(", ".join(everything), operands, everything)]


def _dynamic_sparse_dense_matmul() -> list[Case]:
    operands, everything = (_matrix(), _numbers(8, 8)), _CAPACITY | _epilogue()
    return [Case("8 x 8", operands, {}), Case("capacity", operands, _CAPACITY),
            Case(", ".join(everything), operands, everything)]


def _fully_connected(count: int, **epilogue: Any) -> list[Case]:
    """Calls of a layer with so many dense operands."""
    groups = BlockSparseMatrix.from_dense(_numbers(2, 8, 8), 4, mask=np.array([[[1, 1], [0, 1]], [[0, 1], [1, 1]]]) > 0)
    operands, wide = ([_numbers(8, n, seed=seed + 1) for seed in range(count)] for n in (8, 16))
    everything = _CAPACITY | epilogue
    more = [Case(", ".join(everything), (_matrix(), *operands), everything)] if epilogue else []
    return [Case("capacity", (_matrix(), *operands), _CAPACITY), *more, Case("2 groups", (groups, *wide), {})]


def _sparse_grad_w() -> list[Case]:
    w, dense = _matrix(), (_numbers(8, 8), _numbers(8, 8, seed=2))
    everything = {"out": np.empty_like(w.blocks), "out_dtype": "float32", "options": _OPTIONS}
    return [*_keyword_by_keyword("8 x 8", (w, *dense), everything), Case("transposed", (w.T, *dense), {})]


def _bs_softmax() -> list[Case]:
    x = _matrix()
    return [Case("8 x 8", (x,), {}), Case("mask", (x,), {"mask": "zero_upper_triangle"}),
            Case("out", (x,), {"out": x.copy()}), Case("FP8, scale", (_matrix("e4m3"),), {"scale": -6})]


def _bs_matmul_sampled() -> list[Case]:
    operands = _matrix(), _numbers(8, 8), _numbers(8, 8, seed=2)
    return [Case("8 x 8", operands, {}), Case("mask", operands, {"mask": "zero_upper_triangle"}),
            Case("out", operands, {"out": _matrix()})]


def _bs_softmax_grad() -> list[Case]:
    x = _matrix()
    grad = BlockSparseMatrix(x.pattern, _matrix(seed=4).blocks)  # of one pattern, as a product at it gives it
    operands = (bs_softmax(x), grad)
    return [Case("8 x 8", operands, {}), Case("out", operands, {"out": x.copy()})]


def _cast() -> list[Case]:
    x = _numbers(256)
    return [Case("FP32 to FP16", (x, "float16"), {}), Case("FP16 to FP32", (x.astype(np.float16), "float32"), {}),
            Case("FP8 to FP32", (_numbers(256, fmt="f143"), "float32"), {}),
            Case("out", (x, "float16"), {"out": np.empty(256, np.float16)}),
            Case("rounding", (x, "float16"), {"rounding": "toward-zero"}),
            Case("stochastic rounding", (x, "float16"), {"rounding": "stochastic", "seed": 1}),
            Case("FP8, scale", (x, "f143"), {"scale": 2}),
            Case("FP8, overflow, rounding", (x, "f143"), {"overflow": "saturate", "rounding": "toward-zero"})]


def _elementwise(row: ElementwiseOp) -> list[Case]:
    """Numbers for which every function is defined; a number of Python's beside an array, too."""
    drawn = [np.abs(_numbers(256, seed=seed)) for seed in range(1, len(row.operands) + 1)]
    kinds = [x if "f" in row.kinds else (x * 40).astype(np.int32) if "i" in row.kinds else x > 1 for x in drawn]
    operands = tuple(x > 1 if name in row.conditions else x for name, x in zip(row.operands, kinds, strict=True))
    dtype = kinds[0].dtype
    made = [Case("256", operands, {}), Case("out", operands, {"out": np.empty(256, bool if row.tells else dtype)})]
    if len(operands) > 1:
        made.append(Case("a number", (operands[0], dtype.type(1).item(), *operands[2:]), {}))
    return made


def _reduced(form: bool = True, **more: Any) -> list[Case]:
    x, table = _numbers(256), _numbers(8, 16)
    out = np.empty(8, np.float32)
    given = [Case("8 x 16, axis, out", (table, 1), {"out": out})] if form else []
    return [Case("256", (x,), {}), Case("8 x 16, axis", (table, 0), {"keepdims": True}), *given,
            *(Case(f"256, {name}", (x,), {name: value}) for name, value in more.items())]


def _ordered() -> dict[str, Callable[[], list[Case]]]:
    x, table, more = _numbers(256), _numbers(8, 16), {"descending": True}
    return {
        "sort_calls": lambda: [Case("256", (x,), {}), Case("8 x 16, first axis", (table, 0), more)],
        "partition_calls": lambda: [Case("256", (x, 100), {}), Case("8 x 16, first axis", (table, 3, 0), {})],
        "sort_key_value_calls": lambda: [Case("256", (x, x), {}), Case("8 x 16, first axis", (table, table, 0), more)],
        "transpose_calls": lambda: [Case("8 x 16", (table,), {})],
        "top_k_calls": lambda: [Case("10 of 256", (x, 10), {}), Case("4 of 8 x 16", (table, 4), {"largest": False})],
        "top_k_key_value_calls": lambda: [Case("10 of 256", (x, x, 10), {"sort_order": "ascending"})],
    }


def _encoded() -> dict[str, Callable[[], list[Case]]]:
    places, table = np.arange(8) % 4, _numbers(8, 4)
    points, weights = np.abs(_numbers(8, 2)) % 1, _numbers(25, 4, 4)
    return {
        "encode_one_hot_calls": lambda: [Case("8 of 4", (places, 4), {})],
        "fill_calls": lambda: [Case("256", (256, 1.5), {"dtype": "float16"})],
        "iota_calls": lambda: [Case("256", (256, 3), {})],
        "normalise_image_calls": lambda: [Case("8 x 3", (_numbers(8, 3), _numbers(3), _numbers(3)), {})],
        "pad_calls": lambda: [Case("8 x 4", (table, 1), {}), Case("8 x 4, reflect", (table, (2, -1), "reflect"), {})],
        "spline_basis_calls": lambda: [Case("8 x 2", (points, np.full(2, 5), np.arange(2)), {})],
        "spline_weighting_calls": lambda: [Case("8 x 4", (table, weights, table, np.tile(places[:4], (8, 1))), {})],
    }


def _reduce() -> list[Case]:
    x = _numbers(8, 16)
    return [Case("8 x 16, ADD", (x, 1), {}), Case("8 x 16, LOG_ADD", (x, 0, "LOG_ADD"), {"scale": 0.5}),
            Case("out", (x, 1), {"scale": 2.0, "out": np.zeros(8, np.float32)})]


def _quantise() -> list[Case]:
    x = _numbers(256)
    return [Case("FP32 to E2M1", (x, "e2m1"), {}), Case("out", (x, "f143"), {"out": np.empty(256, np.float32)}),
            Case("BF16, up", (_numbers(256, fmt="bfloat16"), "e3m2"), {"rounding": "up"}),
            Case("stochastic rounding", (x, "float16"), {"rounding": "stochastic", "seed": 1})]


def _drawn(*numbers: Any, fmt: str = "float32") -> list[Case]:
    out = np.empty(16, fmt)
    return [Case("seed", (16, *numbers), {"seed": 1}), Case("out, seed", (None, *numbers), {"out": out, "seed": 1})]


def _seeded(*operands: Any) -> list[Case]:
    return [Case("seed", operands, {"seed": 1})]


def _definite() -> Any:
    half = _numbers(8, 8)
    return half @ half.T + 8 * np.eye(8, dtype=np.float32)


def _cholesky() -> list[Case]:
    a = _definite()
    return [Case("8 x 8", (a,), {}), Case("upper, out", (a,), {"lower": False, "out": np.empty_like(a)}),
            Case("FP16", (a.astype(np.float16),), {}), Case("batch of 32", (np.tile(a, (32, 1, 1)),), {})]


def _triangular_solve() -> list[Case]:
    a, b = _definite(), _numbers(8, 8, seed=2)
    return [Case("8 x 8", (a, b), {}), Case("batch of 32", (np.tile(a, (32, 1, 1)), np.tile(b, (32, 1, 1))), {}),
            Case("right, upper, out", (a, b), {"left_side": False, "lower": False, "out": np.empty_like(b)})]


def _recurrent(gates: int, *states: str, back: bool = False) -> list[Case]:
    weights = (_numbers(*((gates,) if gates > 1 else ()), 8, 8, seed=seed) for seed in (2, 3))
    operands = (*(_numbers(3, 2, 8, seed=5),) * back, _numbers(3, 2, 8), *weights)
    how = {name: _numbers(2, 8, seed=4) for name in states}
    return [Case("3 steps, 2 x 8", operands, {}), Case(", ".join(how), operands, how),
            Case("time_steps", operands, {"time_steps": np.array([1, 3])})]


def _recurrent_update(gates: int, **how: Any) -> list[Case]:
    front = (gates,) if gates > 1 else ()
    operands = (_numbers(3, 2, *front, 8, seed=5), _numbers(3, 2, 4), _numbers(3, 2, 8, seed=2))
    return [Case("3 steps, 2 x 8", operands, how), Case("out_dtype", operands, how | {"out_dtype": "float16"})]


def _factored() -> list[Case]:
    a = _definite()
    return [Case("8 x 8", (a,), {}), Case("batch of 32", (np.tile(a, (32, 1, 1)),), {})]


def _of_channels(alike: int, channels: int, *more: Any) -> list[Case]:
    operands = [_numbers(2, 4, 8, seed=i + 1) for i in range(alike)]
    operands += [_numbers(4, seed=i + 5) for i in range(channels)]
    return [Case("2 x 4 x 8", (*operands, *more), {})]


def _rowwise(count: int) -> list[Case]:
    """Calls of functions of rows with so many operands."""
    operands = tuple(_numbers(8, 32, seed=seed + 1) for seed in range(count))
    return [Case("8 x 32", operands, {}), Case("axis", operands, {"axis": 0}),
            Case("out", operands, {"out": np.empty((8, 32), np.float32)})]


def _normed(count: int, *groups: int, shape: tuple[int, ...] = (16, 8)) -> list[Case]:
    """Calls of norms of 8 channels, or of the last 8 numbers."""
    operands = (*(_numbers(*shape, seed=seed + 1) for seed in range(count)), *groups)
    return [Case(" x ".join(map(str, shape)), operands, {}), Case("gamma", operands, {"gamma": _numbers(8)})]


def _trained() -> list[Case]:
    x, running = _numbers(16, 8), {"running_mean": _numbers(8), "running_variance": np.ones(8, np.float32)}
    return [Case("16 x 8", (x,), {}), Case("gamma, beta, running", (x, _numbers(8), _numbers(8, seed=2)), running),
            Case("out", (x,), {"out": np.empty((16, 8), np.float32)})]


def _probabilities(seed: int = 1) -> Any:
    numbers = np.exp(_numbers(8, 32, seed=seed))
    return (numbers / numbers.sum(1, keepdims=True)).astype(np.float32)


def _map() -> list[Case]:
    made, operands = relu(_1 * 2 + _2), (_numbers(256), _numbers(256, seed=2))
    return [Case("256, relu(a * 2 + b)", (made, *operands), {}),
            Case("out", (made, *operands), {"out": np.empty(256, np.float32)}),
            Case("two results", ((made, _1 > _2), *operands), {})]


def _rows_by_index(updates: bool, groups: bool = False) -> list[Case]:
    x, indices = _numbers(16, 8), np.array([3, 0, 3, 9], np.int32)
    operands: tuple[Any, ...] = (x, _numbers(4, 1, 8, seed=2), indices) if updates else (x, indices)
    operands = tuple(array[None] for array in operands) if groups else operands
    return [Case("4 of 16 x 8", operands, {}), Case("wrap", operands, {"index_policy": "wrap"})]


def _scaled(*scales: float) -> list[Case]:
    operands = _numbers(256), _numbers(256, seed=2), *scales
    return [Case("256", operands, {}), Case("out", operands, {"out": np.empty(256, np.float32)})]


def _several(count: int) -> list[Case]:
    return [Case("256", tuple(_numbers(256, seed=i) for i in range(1, count + 1)), {})]


def _pooled() -> list[Case]:
    x = _numbers(1, 4, 8, 8)
    return [Case("1 x 4 x 8 x 8", (x, 2), {}), Case("3 x 3 by 2", (x, 3), {"stride": 2, "padding": 1}),
            Case("FP16, NHWC", (x.astype(np.float16), 2), {"layout": "NHWC"})]


def _pool_gradient() -> list[Case]:
    x, y = _numbers(1, 4, 8, 8), _numbers(1, 4, 4, 4)
    return [Case("average", (y, x.shape, 2, "avg"), {}), Case("maximum", (y, x.shape, 2), {"x": x, "pooled_x": y})]


def _ctc() -> list[Case]:
    operands = _numbers(8, 2, 5), np.array([[1, 2, 2], [4, 3, 1]], np.int32)
    lengths = np.array([8, 6], np.int32), np.array([3, 2], np.int32)
    return [Case("8 x 2 x 5", operands, {}), Case("lengths, logits", (*operands, *lengths), {"logits": True})]


def _decoded() -> list[Case]:
    operands = _numbers(8, 2, 5), np.array([8, 6], np.int32)
    return [Case("8 x 2 x 5", operands[:1], {}), Case("lengths, logits", operands, {"logits": True})]


_REGION = np.array([[0, 0, 4, 4]], np.float32), np.zeros(1, np.int64)


_CASES: dict[str, Callable[[], list[Case]]] = {
    **dict.fromkeys(("sum_calls", "mean_calls", "square_sum_calls"), partial(_reduced, compensated=True)),
    **dict.fromkeys(("logsumexp_calls", "max_calls", "min_calls", "prod_calls"), _reduced),
    **dict.fromkeys(("variance_calls", "standard_deviation_calls"), partial(_reduced, ddof=1)),
    **dict.fromkeys(("all_calls", "any_calls", "argmax_calls", "argmin_calls", "has_nan_calls",
                     "has_nan_or_inf_calls", "max_with_indices_calls", "min_with_indices_calls"),
                    partial(_reduced, False)),
    "norm_calls": partial(_reduced, ord=1),
    "reduce_calls": _reduce,
    "scan_calls": lambda: [Case("256", (_numbers(256),), {}), Case("8 x 16, axis", (_numbers(8, 16), 0), {})],
    **_ordered(),
    **_encoded(),
    "histogram_calls": lambda: [Case("256", (_numbers(256), np.arange(-1, 2, dtype=np.float32)), {})],
    "bincount_calls": lambda: [Case("256", (np.arange(256) % 7,), {})],
    "dynamic_slice_calls": lambda: [Case("4 of 16 x 8", (_numbers(16, 8), np.array([3]), 0, 4), {})],
    "dynamic_update_calls": lambda: [
        Case("4 of 16 x 8", (_numbers(16, 8), _numbers(4, 8, seed=2), np.array([3]), 0), {})],
    "embedding_bag_calls": lambda: [
        Case("2 x 2 of 16 x 8", (_numbers(16, 8), np.array([[3, 0], [3, 9]], np.int32)), {}),
        Case("offsets", (_numbers(16, 8), np.array([3, 0, 3, 9]), np.array([0, 1])), {"mode": "mean"})],
    "embedding_gradient_calls": lambda: [Case("4 of 16 x 8", (_numbers(4, 8), np.array([3, 0, 3, 9]), 16), {})],
    "sequence_slice_calls": lambda: [
        Case("2 of 16 x 8", (_numbers(16, 8), _numbers(8, 8, seed=2), *np.array([[2, 1], [5, 0], [0, 7]])), {})],
    **dict.fromkeys(("select_scalar_from_rows_calls", "update_scalar_in_rows_calls"), lambda: [
        Case("16 x 8", (_numbers(16, 8), np.arange(16, dtype=np.uint32) % 8), {})]),
    "scatter_calls": lambda: [
        Case("4 of 16 x 8", (_numbers(16, 8), np.array([3, 0, 3, 9], np.int32), _numbers(4, 8, seed=2)), {}),
        Case("add", (_numbers(16), np.array([3, 0, 3, 9]), _numbers(4, seed=2)), {"operation": "add"}),
        Case("function", (_numbers(16), np.array([3, 0, 3, 9]), _numbers(4, seed=2)),
             {"operation": lambda old, new: old * 0.5 + new})],
    **{f"{'grouped_' * groups}multi_{name}_calls": partial(_rows_by_index, name != "slice", groups)
       for name in ("slice", "update", "update_add", "update_max", "update_mul") for groups in (False, True)},
    "scaled_dot_product_attention_calls": _attention,
    "scaled_dot_product_attention_grad_calls": _attention_grad,
    "add_bias_calls": partial(_biased, _DELTAS, (8,)),
    "convolution_bias_update_calls": partial(_biased, _DELTAS, (8,), scale=(-0.5,)),
    "bernoulli_calls": _drawn,
    "binary_gradient_calls": partial(_several, 3),
    "bits_calls": partial(_drawn, fmt="uint32"),
    "sparse_sparse_matmul_calls": lambda: [Case("8 x 8", (_matrix(), _matrix(seed=4)), {})],
    "sparse_embedding_slice_calls": lambda: [Case("2 of 8 rows", (_matrix(), np.arange(2)), {})],
    "sparse_embedding_update_add_calls": lambda: [
        Case("2 of 8 rows", (_matrix(), _numbers(2, 8), np.arange(2), 0.5), {})],
    "bs_matmul_calls": lambda: [Case("8 x 8", (_numbers(8, 8), _matrix()), {}),
                                Case("out", (_numbers(8, 8), _matrix()), {"out": np.empty((8, 8), np.float32)})],
    "bs_matmul_sampled_calls": _bs_matmul_sampled,
    "bs_softmax_calls": _bs_softmax,
    "bs_softmax_in_place_calls": lambda: [
        Case("8 x 8", (_matrix(),), {}), Case("mask", (_matrix(),), {"mask": "zero_upper_triangle"})],
    "bs_softmax_grad_calls": _bs_softmax_grad,
    "cast_calls": _cast,
    "categorical_calls": partial(_seeded, 16, (0.25, 0.75)),
    "convolution_calls": _convolution,
    "convolution_with_output_calls": partial(_convolution, "out"),
    "cholesky_calls": _cholesky,
    "cholesky_grad_calls": lambda: [Case("8 x 8", (_numbers(8, 8), _definite()), {})],
    "clamp_grad_calls": partial(_several, 4),
    **dict.fromkeys(("ctc_loss_calls", "ctc_loss_and_gradient_calls"), _ctc),
    **dict.fromkeys(("ctc_greedy_decoder_calls", "ctc_beam_search_decoder_calls"), _decoded),
    "dense_sparse_matmul_calls": _dense_sparse_matmul,
    "dropout_calls": partial(_seeded, np.ones(16, np.float32), 0.5),
    "dynamic_dense_sparse_matmul_calls": lambda: [Case("capacity", (_numbers(8, 8), _matrix()), _CAPACITY)],
    "dynamic_sparse_dense_matmul_calls": _dynamic_sparse_dense_matmul,
    "exponential_calls": _drawn,
    "fully_connected_fwd_calls": lambda: _fully_connected(1, bias=_numbers(8), activation="relu"),
    "fully_connected_grad_a_calls": partial(_fully_connected, 1),
    "fully_connected_sparse_grad_w_calls": partial(_fully_connected, 2),
    "gather_calls": partial(_rows_by_index, False),
    "gumbel_calls": _drawn,
    "convolution_input_gradient_calls": partial(_gradient, _DELTAS, _KERNELS),
    "log_uniform_calls": partial(_drawn, 1.0, 16.0),
    "linspace_calls": lambda: [
        Case("16", (0.0, 1.0, 16), {}), Case("out", (0.0, 1.0, 4), {"out": np.empty(4, np.float32)})],
    "gru_bwd_calls": partial(_recurrent, 3, "init_output", "last_output_grad", back=True),
    "gru_fwd_calls": partial(_recurrent, 3, "init_output"),
    "gru_wu_calls": partial(_recurrent_update, 4, reset_after=True),
    "lstm_bwd_calls": partial(_recurrent, 4, "init_output", "last_cell_state_grad", back=True),
    "lstm_fwd_calls": partial(_recurrent, 4, "init_output", "init_cell_state"),
    "lstm_wu_calls": partial(_recurrent_update, 4),
    "batch_norm_inference_calls": lambda: [
        Case("16 x 8", (_numbers(16, 8), _numbers(8), np.ones(8, np.float32)), {}),
        Case("gamma", (_numbers(16, 8), _numbers(8), np.ones(8, np.float32)), {"gamma": _numbers(8)})],
    "fold_batch_norm_calls": lambda: [
        Case("8 x 16", (_numbers(8, 16), _numbers(8), np.ones(8, np.float32)), {}),
        Case("axis, gamma, bias", (_numbers(16, 8), _numbers(8), np.ones(8, np.float32), _numbers(8, seed=2)),
             {"bias": _numbers(8, seed=3), "axis": 1})],
    "batch_norm_statistics_calls": lambda: [Case("16 x 8", (_numbers(16, 8),), {})],
    "batch_norm_training_calls": _trained,
    "batch_normalise_calls": lambda: [
        Case("8 x 32", (_numbers(8, 32), _probabilities()[0], _probabilities()[1]), {})],
    "calc_accuracy_calls": lambda: [Case("8 x 32", (_numbers(8, 32), np.argmax(_numbers(8, 32), 1)), {})],
    "calc_loss_calls": lambda: [
        Case("8 x 32, cross-entropy", (_probabilities(), np.arange(8, dtype=np.int32), "CROSS_ENTROPY_LOSS"), {}),
        Case("8 x 32, squares", (_probabilities(), np.arange(8, dtype=np.int32), "SUM_SQUARED_LOSS"), {})],
    **dict.fromkeys(("mse_loss_calls", "huber_loss_calls", "binary_cross_entropy_with_logits_calls"), lambda: [
        Case("8 x 32", (_numbers(8, 32), _probabilities()), {}),
        Case("8 x 32, weights", (_numbers(8, 32), _probabilities(), _probabilities()[0]), {"reduction": "mean"})]),
    **dict.fromkeys(("binary_cross_entropy_calls", "kl_divergence_calls"), lambda: [
        Case("8 x 32", (_probabilities(), _probabilities(2)), {})]),
    "cross_entropy_calls": lambda: [
        Case("8 x 32", (_numbers(8, 32), np.arange(8, dtype=np.int32)), {}),
        Case("smoothing, weights", (_numbers(8, 32), np.arange(8, dtype=np.int32), _probabilities()[0]),
             {"label_smoothing": 0.1})],
    "lu_calls": _factored,
    "rnn_bwd_calls": partial(_recurrent, 1, "init_output", "last_output_grad", back=True),
    "rnn_wu_calls": partial(_recurrent_update, 1),
    "rnn_fwd_calls": partial(_recurrent, 1, "init_output"),
    "lu_grad_calls": lambda: [
        Case("8 x 8", (_numbers(8, 8), _numbers(8, 8), np.arange(8, dtype=np.int32), _definite(), _definite()), {})],
    "map_calls": _map,
    "matmul_acc_calls": _matmul_acc,
    "matmul_calls": _matmul,
    "matmul_grouped_acc_calls": lambda: _matmul_grouped(_numbers(4, 8, 8, seed=3)),
    "matmul_grouped_calls": _matmul_grouped,
    "meshgrid2d_calls": lambda: [Case("4 x 8", (_numbers(8), _numbers(4)), {})],
    "norm_gradients_calls": partial(_of_channels, 1, 1),
    "norm_param_gradients_calls": partial(_of_channels, 2, 0),
    "norm_statistics_calls": partial(_of_channels, 1, 0, 1e-5),
    "norm_statistics_gradients_calls": partial(_of_channels, 2, 1),
    "norm_whiten_calls": partial(_of_channels, 1, 2),
    "normal_calls": _drawn,
    "normalise_calls": partial(_of_channels, 1, 2),
    "permutation_calls": partial(_seeded, 16),
    "pool_calls": _pooled,
    "max_pool_with_indices_calls": _pooled,
    "pool_input_gradient_calls": _pool_gradient,
    "pool_indices_gradient_calls": lambda: [Case("1 x 4 x 4 x 4", (
        _numbers(1, 4, 4, 4), np.arange(64).reshape(1, 4, 4, 4), (1, 4, 8, 8)), {})],
    "roi_align_calls": lambda: [
        Case("1 x 4 x 8 x 8 to 2 x 2", (_numbers(1, 4, 8, 8), *_REGION, 2, 2), {"sampling_ratio": 2}),
        Case("as many samples as elements", (_numbers(1, 4, 8, 8), *_REGION, 2, 2), {})],
    "roi_align_input_gradient_calls": lambda: [
        Case("1 x 4 x 8 x 8 from 2 x 2", (_numbers(1, 4, 2, 2), *_REGION, (1, 4, 8, 8)), {"sampling_ratio": 2}),
        Case("as many samples as elements", (_numbers(1, 4, 2, 2), *_REGION, (1, 4, 8, 8)), {})],
    "qr_calls": _factored,
    "qr_grad_calls": lambda: [Case("8 x 8", (_numbers(8, 8), _numbers(8, 8), _numbers(8, 8), _definite()), {})],
    "quantise_calls": _quantise,
    "scaled_add_calls": partial(_scaled, 0.5),
    "select_grad_calls": lambda: [Case("256", (_numbers(256), _numbers(256, seed=2) > 0), {})],
    **dict.fromkeys(("softmax_calls", "log_softmax_calls", "scaled_softmax_stable_calls"), partial(_rowwise, 1)),
    **dict.fromkeys(("layer_norm_calls", "rms_norm_calls", "batch_norm_calls"), partial(_normed, 1)),
    **dict.fromkeys(("layer_norm_grad_calls", "rms_norm_grad_calls", "batch_norm_grad_calls"), partial(_normed, 2)),
    "instance_norm_calls": partial(_normed, 1, shape=(2, 8, 8)),
    "instance_norm_grad_calls": partial(_normed, 2, shape=(2, 8, 8)),
    "group_norm_calls": partial(_normed, 1, 4), "group_norm_grad_calls": partial(_normed, 2, 4),
    **dict.fromkeys(("softmax_grad_calls", "log_softmax_grad_calls"), partial(_rowwise, 2)),
    "spatial_softmax_2d_calls": lambda: [
        Case("4 x 8 x 8", (_numbers(4, 8, 8),), {}), Case("temperature", (_numbers(4, 8, 8), 2.0), {}),
        Case("out", (_numbers(4, 8, 8),), {"out": np.empty((4, 2), np.float32)}),
        Case("weights", (_numbers(4, 8, 8),), {"disable_softmax": True})],
    "spatial_softmax_2d_grad_calls": lambda: [Case("4 x 8 x 8", (_numbers(4, 2), _numbers(4, 8, 8)), {})],
    "shaped_dropout_calls": partial(_seeded, np.ones((4, 4), np.float32), (4, 1), 0.5),
    "sparse_dense_matmul_calls": _sparse_dense_matmul,
    "sparse_grad_w_calls": _sparse_grad_w,
    "triangular_solve_calls": _triangular_solve,
    "triangular_solve_grad_calls": lambda: [Case("8 x 8", (_numbers(8, 8), _definite(), _numbers(8, 8, seed=2)), {})],
    "truncated_normal_calls": _drawn,
    "uniform_calls": _drawn,
    "calculate_weight_deltas_calls": partial(_gradient, _DELTAS, _IMAGES),
    "convolution_weight_update_calls": partial(_gradient, _DELTAS, _KERNELS, _IMAGES, scale=(-0.5,)),
    "several_convolution_calls": partial(_two, _convolution),
    "several_calculate_weight_deltas_calls": partial(_two, partial(_gradient, _DELTAS, _IMAGES)),
    "several_convolution_weight_update_calls": partial(
        _two, partial(_gradient, _DELTAS, _KERNELS, _IMAGES, scale=(-0.5,))),
    "x_minus_ax_plus_by_calls": partial(_scaled, 0.25, 0.5),
}
