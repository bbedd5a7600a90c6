"""Hypothesis strategies for whole calls of each op: operands of any bit patterns, layouts and options that fit."""

from __future__ import annotations

from functools import cache, partial
from typing import Any, get_args

import numpy as np
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from ..formats import FORMATS, FP32, QuarterArray, format_of
from ..formats.presets import PRESETS
from ..formats.reference import Rounding, allowed_overflows
from ..kernels.records import numbers_of
from ..ops import located
from ..popsparse import BlockSparseMatrix, dynamic
from .ops import find_op
from .strategies import (
    NAMES,
    OUT_DTYPE,
    Call,
    arrays,
    block_masks,
    extents,
    formats,
    layouts,
    options,
    relaid,
    sampled,
    scaled,
    shapes,
)

__all__ = ["Call", "block_sparse_matrices", "calls"]

"""The operands of a call and its keywords."""

_BLOCKS = ((1, 1), (4, 4), (8, 8), (16, 16), (3, 5), (1, 4), (32, 32))
_EPILOGUE = {"activation": ["relu", "gelu", "silu"], "out_dtype": NAMES}
_MASKS = tuple(numbers_of("mask"))
_FRONTS = (((), ()), ((2,), (2,)), ((3,), ()), ((), (2,)), ((1,), (3,)), ((2, 1), (1, 3)))
_VECTORS = ("", "", "", "a", "b", "ab")
_BATCHES = ((), (), (), (2,), (1, 3))
_extent = extents("dot", most=70)


def calls(op: str) -> SearchStrategy[Call]:
    """Calls of an op: operands and keywords.

    Parameters
    ----------
    op : str
        As in `poplibs_py.testing.check`.

    Examples
    --------
    ::

        @given(calls("matmul"))
        def test_products(call):
            operands, keywords = call
            testing.check("matmul", *operands, **keywords)
    """
    return _calls(find_op(op).draws)


@cache
def _calls(draws: str) -> SearchStrategy[Call]:
    strategy: SearchStrategy[Call] = located(draws)()
    return strategy


@st.composite
def block_sparse_matrices(draw: st.DrawFn, *, finite: bool = False, moderate: bool = False,
                          groups: SearchStrategy[int] | None = None) -> BlockSparseMatrix:
    """Block-sparse matrices of any bit patterns, formats, blocks, ragged edges and scales, transposed views too.

    Parameters
    ----------
    finite, moderate : bool, optional
        As for `arrays`.
    groups : strategy of int, optional
        How many groups (default 1).
    """
    block = draw(sampled(*_BLOCKS))
    count = 1 if groups is None else draw(groups)
    grid = draw(st.integers(1, 4)), draw(st.integers(1, 4))
    mask = np.stack([draw(block_masks(*map(st.just, grid))) for _ in range(count)])
    fmt = draw(formats())
    rows, columns = (n * b - draw(st.integers(0, b - 1)) for n, b in zip(grid, block, strict=True))
    w = BlockSparseMatrix.from_mask(mask, block, shape=(rows, columns), dtype=fmt)
    values = draw(arrays(w.blocks.shape, fmt, finite=finite, moderate=moderate))
    inside = BlockSparseMatrix.from_dense(np.ones((count, rows, columns), np.float32), block, mask=mask).blocks != 0
    w.blocks[...] = np.where(inside, values, np.zeros((), fmt.dtype))
    if fmt.bits == 8:
        each = st.just(0) if moderate else st.sampled_from(fmt.scales)
        per_block = st.lists(each, min_size=w.n_blocks, max_size=w.n_blocks).map(lambda s: np.array(s, np.int8))
        w = BlockSparseMatrix(w.pattern, w.blocks, fmt, draw(each | per_block))
    return w.T if draw(st.booleans()) else w


@st.composite
def _dense(draw: st.DrawFn, shape: tuple[int, ...]) -> Any:
    return relaid(draw(arrays(shape, draw(formats()))), draw(layouts()))


@st.composite
def _factor(draw: st.DrawFn, shape: tuple[int, ...]) -> Any:
    """An operand of a dense product: numbers of a format, or codes of any format with one scale or many."""
    if draw(sampled(True, True, False)):
        return draw(_dense(shape))
    fmt = draw(formats(at_most_bits=16, custom=True))
    codes = relaid(draw(arrays(shape, fmt)), draw(layouts()))
    return draw(scaled(codes, fmt, fmt.scales[0], fmt.scales[-1]))


@st.composite
def matmul_calls(draw: st.DrawFn, *, batch: bool = False, acc: bool = False, prepared: bool = False) -> Call:
    """Calls of `poplin.matmul`, or of its kin."""
    m, k, n = (draw(_extent) for _ in range(3))
    fronts, vectors = draw(sampled(*_FRONTS)), draw(sampled(*_VECTORS))
    if batch or prepared:
        fronts, vectors = ((draw(st.integers(1, 3)),),) * 2 if batch else ((), ()), ""
    shapes = [(k,) if name in vectors else (*front, *extents)
              for name, front, extents in zip("ab", fronts, ((m, k), (k, n)), strict=True)]
    a, b = (draw(_factor(shape)) for shape in shapes)
    allowed: dict[str, Any] = {"activation": _EPILOGUE["activation"], "alpha": [0.5, -3.0]}
    if not prepared:
        allowed |= {"partials_type": ["half"], "reproducible": [True], "half_passes": [3]}
    keywords = draw(options(allowed | ({"beta": [0.0, 1.0, -0.5]} if acc else {"out_dtype": NAMES})))
    if draw(st.booleans()):
        keywords["bias"] = draw(arrays((1 if "b" in vectors else n,), FP32))
    if not acc:
        return (a, b), keywords
    outer = np.broadcast_shapes(*(shape[:-2] for shape in shapes))
    own = [extent for name, extent in zip("ab", (m, n), strict=True) if name not in vectors]
    return (draw(arrays((*outer, *own), draw(formats()))), a, b), keywords


@st.composite
def sparse_dense_matmul_calls(draw: st.DrawFn, *, swapped: bool = False, batched: bool = True) -> Call:
    """Calls of static products, X on the right, or on the left, and perhaps a batch of it."""
    w = draw(block_sparse_matrices(groups=st.integers(1, 2)))
    n, front = draw(_extent), (w.groups,) if w.groups > 1 else draw(sampled(*_BATCHES)) if batched else ()
    x = draw(_dense((*front, n, w.shape[0]) if swapped else (*front, w.shape[1], n)))
    rows = w.shape[swapped]
    lone = (1, rows) if swapped else (rows, 1)
    bias = st.sampled_from([(rows,), (w.groups, rows), lone, (w.groups, *lone)]).flatmap(
        lambda shape: arrays(shape, FP32, finite=True, moderate=True))
    return ((x, w) if swapped else (w, x)), draw(options(_EPILOGUE | {"bias": bias}))


@st.composite
def dynamic_sparse_dense_matmul_calls(draw: st.DrawFn, *, swapped: bool = False) -> Call:
    """Calls of dynamic products, with operands transposed and capacities."""
    operands, keywords = draw(sparse_dense_matmul_calls(swapped=swapped))
    keywords |= draw(_capacity(operands[swapped]))
    right = draw(st.integers(0, 1))
    other = [x.T if isinstance(x, BlockSparseMatrix) else x.swapaxes(-1, -2) for x in operands]
    stored = (operands[0], other[1]) if right else (other[0], operands[1])
    return stored, keywords | {"transpose_rhs" if right else "transpose_lhs": True}


def _capacity(w: BlockSparseMatrix) -> SearchStrategy[dict[str, Any]]:
    return options({"capacity": st.integers(0, 9).map(lambda more: dynamic.Capacity(w.n_blocks + more))})


@st.composite
def _layer(draw: st.DrawFn, sides: tuple[int, ...], epilogue: dict[str, Any]) -> Call:
    w = draw(block_sparse_matrices(groups=st.integers(1, 3)))
    batch = draw(_extent)
    given = tuple(draw(_dense((batch, w.groups * w.shape[side]))) for side in sides)
    return (w, *given), draw(options(epilogue)) | draw(_capacity(w))


@st.composite
def sparse_grad_w_calls(draw: st.DrawFn) -> Call:
    """Calls of `static.sparse_grad_w`."""
    w = draw(block_sparse_matrices(groups=st.integers(1, 2)))
    n, front = draw(_extent), (w.groups,) if w.groups > 1 else ()
    return (w, *(draw(_dense((*front, extent, n))) for extent in w.shape)), draw(OUT_DTYPE)


@st.composite
def sparse_sparse_matmul_calls(draw: st.DrawFn) -> Call:
    """Calls of `popsparse.static.sparse_sparse_matmul`."""
    w = draw(block_sparse_matrices(moderate=True, groups=st.integers(1, 2)))
    fmt, wide = draw(formats()), draw(sampled(1, 4, 5))
    grid, side = (-(-w.shape[1] // w.block_shape[1]), draw(st.integers(1, 3))), w.block_shape[1]
    mask = np.stack([draw(block_masks(*map(st.just, grid))) for _ in range(w.groups)])
    v = BlockSparseMatrix.from_mask(mask, (side, wide), shape=(w.shape[1], grid[1] * wide), dtype=fmt)
    v.blocks[...] = np.where(draw(st.booleans()), draw(arrays(v.blocks.shape, fmt, moderate=True)), 1)
    v.blocks[v.pattern.row_indices % grid[0] == grid[0] - 1, w.shape[1] - (grid[0] - 1) * side:] = 0
    return (w, v), draw(options({"out_dtype": [name for name in NAMES if format_of(name).bits > 8]}))


@st.composite
def sparse_embedding_slice_calls(draw: st.DrawFn) -> Call:
    """Calls of `popsparse.dynamic.embedding_slice`."""
    moderate = draw(st.booleans())  # else some numbers are too large for 8 bits, of which a warning tells
    w = draw(block_sparse_matrices(moderate=moderate))
    rows = draw(st.lists(st.integers(0, w.shape[0] - 1), min_size=1, max_size=5))
    names = NAMES if moderate else [f.name for f in FORMATS if f.bits > 8]
    return (w, np.array(rows, draw(sampled(np.int32, np.int64)))), draw(options({"out_dtype": names}))


@st.composite
def sparse_embedding_update_add_calls(draw: st.DrawFn) -> Call:
    """Calls of `popsparse.dynamic.embedding_update_add`."""
    w = draw(block_sparse_matrices(moderate=True))
    rows = np.array(draw(st.lists(st.integers(0, w.shape[0] - 1), min_size=1, max_size=5)))
    wide = draw(st.sampled_from([f for f in FORMATS if f.bits > 8]))
    slices = draw(arrays((rows.size, w.shape[1]), wide, moderate=True))
    return (w, slices, rows, draw(sampled(1.0, -0.5, 0.1))), {}


@st.composite
def bs_matmul_sampled_calls(draw: st.DrawFn) -> Call:
    """Calls of `popsparse.experimental.bs_matmul_sampled`."""
    w = draw(block_sparse_matrices(groups=st.integers(1, 2)))
    k, front = draw(_extent), (w.groups,) if w.groups > 1 else ()
    operands = draw(_dense((*front, w.shape[0], k))), draw(_dense((*front, k, w.shape[1])))
    return (w, *operands), draw(options({"mask": [_MASKS[1], list(_MASKS[:w.groups])], "out_dtype": NAMES}))


@st.composite
def bs_matmul_calls(draw: st.DrawFn) -> Call:
    """Calls of `popsparse.experimental.bs_matmul`."""
    operands, keywords = draw(sparse_dense_matmul_calls(swapped=True))
    return operands, {name: keywords[name] for name in keywords if name == "out_dtype"}


@st.composite
def bs_softmax_calls(draw: st.DrawFn) -> Call:
    """Calls of `popsparse.bs_softmax`."""
    x = draw(block_sparse_matrices(moderate=True, groups=st.integers(1, 2)))
    return (x,), draw(options({"mask": [_MASKS[1], _MASKS[2], list(_MASKS[: x.groups])], "out_dtype": NAMES}))


@st.composite
def bs_softmax_in_place_calls(draw: st.DrawFn) -> Call:
    """Calls of `popsparse.bs_softmax_in_place`, of matrices that can be written to."""
    (x,), keywords = draw(bs_softmax_calls())
    x = x.T if x.is_transposed else x
    keywords.pop("out_dtype", None)
    return (x.copy() if isinstance(x.scale, int) else x.astype(FP32),), keywords


@st.composite
def bs_softmax_grad_calls(draw: st.DrawFn) -> Call:
    """Calls of `popsparse.bs_softmax_grad`."""
    y = draw(block_sparse_matrices(moderate=True, groups=st.integers(1, 2)))
    values = draw(arrays(y.blocks.shape, y.format, moderate=True))
    inside = np.where(y.blocks != 0, values, np.zeros((), y.blocks.dtype))  # and zero beyond the edges
    grad = BlockSparseMatrix(y.pattern, inside, y.format, y.scale)
    return (y, grad.T if y.is_transposed else grad), draw(OUT_DTYPE)


@st.composite
def cast_calls(draw: st.DrawFn) -> Call:
    """Calls of `popops.cast`."""
    x: Any = draw(arrays(shapes(2, "cast", most=40), formats()))
    roundings = ["toward-zero", "up", "down", "nearest-away"]
    keywords = draw(options({"rounding": roundings, "overflow": ["saturate", "nan"]}))
    target = draw(formats(at_most_bits=16))
    if x.dtype.itemsize == 1 and draw(st.booleans()):
        x = QuarterArray(x, x.dtype, draw(sampled(*format_of(x).scales)))
    if target.bits == 8:
        with np.errstate(invalid="ignore"):  # signalling NaNs
            highest, numbers = target.scales[-1], np.asarray(x).astype(np.float64)
        fits = np.abs(numbers).max(initial=0, where=np.isfinite(numbers)) <= np.ldexp(target.max, highest)
        keywords["scale"] = draw(st.sampled_from(target.scales) | st.sampled_from(["auto"] if fits else [highest]))
        keywords["block_shape"] = draw(st.none() | st.tuples(st.integers(1, 5), st.sampled_from([-1, 1, 7])))
    return (x, target), keywords


@st.composite
def quantise_calls(draw: st.DrawFn) -> Call:
    """Calls of `popfloat.quantise`."""
    native = st.sampled_from(["float32", "float16", "bfloat16"])
    x: Any = draw(arrays(shapes(2, "cast", most=40), native))
    target = draw(formats(at_most_bits=16, custom=True) | st.sampled_from(PRESETS))
    keywords: dict[str, Any] = {"rounding": draw(st.none() | st.sampled_from(get_args(Rounding)))}
    keywords |= draw(options({"overflow": allowed_overflows(target, str(keywords["rounding"]))}))
    if keywords["rounding"] == "stochastic":
        keywords["seed"], keywords["random_bits"] = draw(st.integers(0, 2**64 - 1)), draw(st.integers(1, 31))
    return (relaid(x, draw(layouts(broadcast=True))), target), keywords


# The same strategies under the names of other ops.
matmul_acc_calls = partial(matmul_calls, acc=True)
matmul_grouped_calls = partial(matmul_calls, batch=True)
matmul_grouped_acc_calls = partial(matmul_calls, batch=True, acc=True)
matmul_prepared_calls = partial(matmul_calls, prepared=True)  # of `poplin.matmul`, that serve for a prepared operand
dense_sparse_matmul_calls = partial(sparse_dense_matmul_calls, swapped=True)
prepared_sparse_dense_matmul_calls = partial(sparse_dense_matmul_calls, batched=False)  # which nothing prepares
prepared_dense_sparse_matmul_calls = partial(sparse_dense_matmul_calls, swapped=True, batched=False)
dynamic_dense_sparse_matmul_calls = partial(dynamic_sparse_dense_matmul_calls, swapped=True)
fully_connected_fwd_calls = partial(_layer, (1,), _EPILOGUE)
fully_connected_grad_a_calls = partial(_layer, (0,), {"out_dtype": NAMES})
fully_connected_sparse_grad_w_calls = partial(_layer, (0, 1), {"out_dtype": NAMES})
