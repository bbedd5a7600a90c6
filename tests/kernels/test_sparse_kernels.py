"""Each sparse kernel of each level that this machine has, called as the executor calls it.

Exact data, nothing beside its operands touched, and, where a kernel says so, the portable kernel's bits.
"""

from __future__ import annotations

import numpy as np
import pytest
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from poplibs_py.formats import BF16, FORMATS, FP32, format_of
from poplibs_py.kernels.records import FORMAT_NUMBERS, infinite_overflow
from poplibs_py.kernels.registry import Kernel, generality, kernels
from poplibs_py.ops import Operand
from poplibs_py.planner import Memory
from poplibs_py.popsparse import BlockSparseMatrix, random_pattern, reference
from poplibs_py.popsparse.operands import layout_of, sparse_operand
from poplibs_py.popsparse.sddmm.lower import SAMPLE
from poplibs_py.popsparse.spmm import lower, model
from poplibs_py.popsparse.spmm.lower import PANEL, READY
from poplibs_py.popsparse.spmm.params import SpmmParams
from poplibs_py.popsparse.spmm.plan import SparsePlan, plan_spmm
from poplibs_py.program import Segment, host_program
from poplibs_py.target import Target

BLOCKS = [(1, 1), (2, 2), (4, 4), (8, 8), (16, 16), (32, 32), (3, 5), (1, 4), (8, 1), (6, 16), (11, 2)]
CANARY = 57


def each(op: str) -> list:
    return [pytest.param(k, id=f"{k.level}-{k.name}") for k in kernels("sparse") if k.op == op]


def each_product(op: str) -> list:
    """Kernels with the two formats of each product that they serve: any is every one."""
    found = []
    for kernel in kernels("sparse"):
        for served in kernel.served if kernel.op == op else ():
            compute, x = served.split("->")[0].split(",")
            found += [pytest.param(kernel, compute, name, id=f"{kernel.level}-{kernel.name}-{name}")
                      for name in (FORMAT_NUMBERS if x == "any" else (x,))]
    return found


products = pytest.mark.parametrize(("kernel", "compute", "x_name"), each_product("multiply"))


def guarded(array: np.ndarray, off: int | None = None) -> tuple[np.ndarray, np.ndarray]:
    """A copy with canaries around it, so many bytes off a cache line or anywhere, and the memory that holds both."""
    room = np.full(array.nbytes + 256, CANARY, np.uint8)
    if off is not None:
        room = room[(off - room.ctypes.data) % 64:]
    room = room[:array.nbytes + 128]
    inside = room[64:64 + array.nbytes].view(array.dtype).reshape(array.shape)
    inside[...] = array
    return inside, room


def untouched(room: np.ndarray, inside: np.ndarray) -> bool:
    after = room[64 + inside.nbytes:]
    return bool(np.all(room[:64] == CANARY) and np.all(after == CANARY))


def planned(w: BlockSparseMatrix, x: np.ndarray, x_name: str, y: np.ndarray) -> SparsePlan:
    blocks = max(1, w.n_blocks)
    params = SpmmParams(w.shape, w.pattern.block_shape, 1, x.shape[1], blocks, blocks, w.is_transposed, w.format.name,
                        0, layout_of(Operand(x, format_of(x_name))), layout_of(Operand(y, FP32)))
    return plan_spmm("planned", params, Memory(), Target.host(1), lambda: 0)


def run_multiply(kernel: Kernel, w: BlockSparseMatrix, x_name: str, x: np.ndarray, pack: bool,
                 stream_off: int | None = None) -> np.ndarray:
    """Run the kernel on values in its compute format, all in one item; streamed to a Y so far off a cache line."""
    compute, takes_any = w.format.name, kernel.formats.split("->")[0].endswith("any")
    y, room = guarded(np.full((w.shape[0], x.shape[1]), -1, np.float32), stream_off)
    codes, _ = guarded(x)
    plan = planned(w, codes, x_name, y)
    items, tiles = lower.items_of(plan)
    pack = pack or plan.packs or (takes_any and x_name != compute)
    items["pack"] = pack
    items["stream"] = stream_off is not None
    size = 2 if compute == "bfloat16" else 4
    strip = max(1, model.strip_of(w.shape[1], size, x.shape[1], model.TILE_COLUMNS))
    if pack:
        items["strip"], items["x_strip"] = strip, strip * codes.itemsize
    scratch = 128 + w.shape[1] * (strip * size + 1)
    run = host_program((Segment(kernel.address, items, tiles),), operands=5, threads=1, arena_bytes=scratch)
    run(w.row_offsets, w.column_indices, w.blocks, codes, y)
    assert untouched(room, y)
    return y.copy()


@products
@given(block_shape=st.sampled_from(BLOCKS), rows=st.integers(1, 60), depth=st.integers(1, 60),
       columns=st.integers(1, 200), density=st.floats(0, 1), pack=st.booleans(), seed=st.integers(0, 2**32 - 1))
def test_multiply(kernel, compute, x_name, block_shape, rows, depth, columns, density, pack, seed):
    check_multiply(kernel, compute, x_name, block_shape, rows, depth, columns, density, pack, seed)


def check_multiply(kernel, compute, x_name, block_shape, rows, depth, columns, density, pack, seed, stream_off=None):
    rng = np.random.default_rng(seed)
    w = BlockSparseMatrix.from_dense(rng.integers(-4, 5, (rows, depth)), block_shape, density=density, dtype=compute)
    x = rng.integers(-4, 5, (depth, columns)).astype(format_of(x_name).dtype)
    stored = reference.dense_of(w.shape, block_shape, w.row_offsets, w.column_indices, w.blocks)[0]
    got = run_multiply(kernel, w, x_name, x, pack, stream_off)
    assert np.array_equal(got, stored @ x.astype(np.float64))


@products
@given(block_shape=st.sampled_from([(4, 4), (8, 8), (16, 16), (2, 4), (4, 8), (12, 4), (1, 4)]),
       rows=st.integers(1, 40), deep=st.integers(1, 8), vectors=st.integers(1, 12), density=st.floats(0, 1),
       pack=st.booleans(), seed=st.integers(0, 2**32 - 1))
def test_multiply_whole_vectors_and_blocks(kernel, compute, x_name, block_shape, rows, deep, vectors, density, pack,
                                           seed):
    check_multiply(kernel, compute, x_name, block_shape, rows, deep * block_shape[1], vectors * 16, density, pack, seed)


@pytest.mark.parametrize(("kernel", "compute", "x_name"), [
    p for p in each_product("multiply") if p.values[1] == p.values[2]])
@settings(max_examples=examples(40))
@given(block_shape=st.sampled_from([(1, 1), (4, 4), (8, 8), (16, 16), (20, 2), (72, 4), (3, 5)]),
       rows=st.integers(1, 80), vectors=st.integers(1, 20), off=st.integers(0, 15), pack=st.booleans(),
       seed=st.integers(0, 2**32 - 1))
def test_multiply_past_the_caches(kernel, compute, x_name, block_shape, rows, vectors, off, pack, seed):
    check_multiply(kernel, compute, x_name, block_shape, rows, 48, vectors * 16, 0.5, pack, seed, 4 * off)


@products
def test_multiply_with_values_far_from_the_caches(kernel, compute, x_name):
    check_multiply(kernel, compute, x_name, (4, 4), 1030, 512, 16, 0.6, False, 5)


def tile_numbers(rng: np.random.Generator, shape: tuple[int, ...], name: str) -> np.ndarray:
    """Numbers whose sums of products are exact in FP32; half-precision ones need both of their BF16 parts."""
    few = [-257, 0, 1, 259] if name == "float16" else [-3, 0, 1, 4]
    return rng.choice(few, shape).astype(format_of(name).dtype)


@pytest.mark.parametrize(("kernel", "compute", "x_name"), each_product("multiply_tiles"))
@given(block_shape=st.sampled_from([(16, 16), (32, 32), (48, 16), (16, 32)]), rows=st.integers(1, 100),
       depth=st.integers(1, 100), columns=st.integers(1, 150), density=st.floats(0, 1), transposed=st.booleans(),
       seed=st.integers(0, 2**32 - 1))
def test_tiles(kernel, compute, x_name, block_shape, rows, depth, columns, density, transposed, seed):
    rng = np.random.default_rng(seed)
    w = BlockSparseMatrix.from_dense(tile_numbers(rng, (rows, depth), compute), block_shape, density=density,
                                     dtype=compute)
    op = w.T if transposed else w
    x, _ = guarded(tile_numbers(rng, (op.shape[1], columns), x_name))
    y, room = guarded(np.full((op.shape[0], columns), -1, np.float32))
    plan = planned(op, x, x_name, y)
    assert plan.kernel.op == "multiply_tiles"
    operand = sparse_operand("w", op)
    order = [] if operand.order is None else [operand.order.array]
    lower.lower(plan)(operand.offsets.array, operand.columns.array, w.blocks, x, y, *order)
    stored = reference.dense_of(w.shape, block_shape, w.row_offsets, w.column_indices, w.blocks)[0]
    assert untouched(room, y)
    assert np.array_equal(y, (stored.T if transposed else stored) @ x.astype(np.float64))


@pytest.mark.parametrize(("kernel", "compute", "x_name"),
                         [p for p in each_product("multiply") if p.values[0].consistent])
@given(block_shape=st.sampled_from(BLOCKS), columns=st.integers(1, 70), seed=st.integers(0, 2**32 - 1))
def test_consistent_kernels_have_the_portable_bits(kernel, compute, x_name, block_shape, columns, seed):
    rng = np.random.default_rng(seed)
    w = BlockSparseMatrix.from_dense(rng.standard_normal((40, 30), np.float32), block_shape, density=0.5)
    x = rng.standard_normal((30, columns)).astype(format_of(x_name).dtype)
    portable = next(k for k in kernels("sparse") if k.op == "multiply" and k.level == "portable")
    assert compute == "float32"
    expected = run_multiply(portable, w, x_name, x, False)
    assert run_multiply(kernel, w, x_name, x, False).tobytes() == expected.tobytes()


@pytest.mark.parametrize("kernel", each("sample"))
@given(block_shape=st.sampled_from(BLOCKS), rows=st.integers(1, 40), depth=st.integers(1, 40),
       columns=st.integers(0, 100), density=st.floats(0, 1), to=st.sampled_from(FORMATS),
       seed=st.integers(0, 2**32 - 1))
def test_sample(kernel, block_shape, rows, depth, columns, density, to, seed):
    rng = np.random.default_rng(seed)
    dtype = format_of(kernel.formats.split(",")[0]).dtype
    pattern = random_pattern(rows, depth, block_shape, density, seed)
    dy, x = (guarded(rng.integers(-2, 3, (n, columns)).astype(dtype))[0] for n in (rows, depth))
    values, room = guarded(np.full((pattern.n_blocks, *block_shape), 3, to.dtype))
    item = np.zeros(1, SAMPLE)
    item["inner"], item["y"], item["x"], item["to"] = 1, 2, 3, 4
    item["n_rows"], item["parts"] = pattern.block_rows, 1
    item["rows"], item["depth"], item["columns"] = rows, depth, columns
    item["block_rows"], item["block_depth"] = block_shape
    item["y_row"] = item["x_row"] = columns * dtype.itemsize
    item["y_column"] = item["x_column"] = dtype.itemsize
    item["chunk"] = max(1, columns)
    item["to_format"], item["overflow"] = FORMAT_NUMBERS[to.name], infinite_overflow(to)
    run = host_program((Segment(kernel.address, item, np.zeros(1, int)),), operands=5, threads=1, arena_bytes=4 * 4096)
    run(pattern.row_offsets, pattern.column_indices, dy, x, values)
    full = dy.astype(np.float64) @ x.astype(np.float64).T
    expected = reference.sampled(full[None], block_shape, pattern.row_offsets, pattern.column_indices)
    assert untouched(room, values)
    with np.errstate(over="ignore", invalid="ignore"):
        rounded = expected.astype(np.float32).astype(to.dtype)
    assert np.array_equal(values, rounded, equal_nan=True)


@pytest.mark.parametrize("kernel", each("ready") + each("panel"))
@pytest.mark.parametrize("fmt", FORMATS, ids=str)
def test_decoding_every_code(kernel, fmt):
    """All codes of the formats up to 16 bits that the result's format holds come out with their value."""
    target = FP32 if kernel.formats.endswith("float32") else BF16
    codes = np.arange(1 << min(fmt.bits, 16), dtype=fmt.code_dtype)
    if fmt.bits > 16:
        codes = (codes.astype(np.uint32) << 16).astype(np.uint32)
    if generality(kernel.formats, f"{fmt.name}->{target.name}") is None:
        assert fmt.name in ("float16", "float32")  # not BF16 values
        return
    given_values = codes.view(fmt.dtype)
    to, room = guarded(np.full(codes.size, 3, target.dtype))
    offsets = np.array([0, 1], np.int64)
    if kernel.op == "ready":
        item = np.zeros(1, READY)
        item["n_rows"], item["from"], item["to"], item["scales"], item["parts"] = 1, 1, 2, -1, 1
        item["order"] = -1
        item["block_rows"], item["block_columns"] = 1, codes.size
    else:
        item = np.zeros(1, PANEL)
        item["from"], item["to"], item["rows"], item["columns"], item["parts"] = 1, 2, 1, codes.size, 1
        item["row"], item["column"], item["to_row"] = codes.nbytes, codes.itemsize, to.nbytes
    item["format"] = FORMAT_NUMBERS[fmt.name]
    decode = Segment(kernel.address, item, np.zeros(1, int))
    host_program((decode,), operands=3, threads=1)(offsets, given_values, to)
    assert untouched(room, to)
    assert np.array_equal(to.astype(np.float32), given_values.astype(np.float32), equal_nan=True)
