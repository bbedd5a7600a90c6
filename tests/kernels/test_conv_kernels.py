"""Kernels of convolutions with few channels in a group, at every level present: one chain of sums, no byte too far."""

import ctypes

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from poplibs_py.formats import BF16, FORMATS, FP16, FP32
from poplibs_py.formats.bounds import gamma
from poplibs_py.kernels import kernels, select
from poplibs_py.kernels.records import ACTIVATIONS, FORMAT_NUMBERS, infinite_overflow, record_of
from poplibs_py.poplin.conv.winograd_bound import IMAGES, KERNELS, RESULTS, ROUNDINGS
from poplibs_py.poplin.gemm.lower import format_record
from poplibs_py.testing import assert_same_bits

LANES, MOST = 16, 14
CANARY = np.float32(-123456.0)


def these(*ops):
    found = [k for k in kernels("conv") if k.op in ops]
    return pytest.mark.parametrize("kernel", found, ids=[f"{k.level}-{k.name}" for k in found])


def chain(x, w, sums):
    """One fused multiply-add after another, each rounded to FP32; numbers are such that 64 bits hold it exactly."""
    for step in range(len(w)):
        sums = (x[:, step].astype(np.longdouble) * w[step] + sums).astype(np.float32)
    return sums


def words(rng, shape):
    """Words of two BF16 numbers, small and whole."""
    halves = rng.integers(-15, 16, (*shape, 2)).astype(next(f for f in FORMATS if str(f) == "bfloat16").dtype)
    return halves.view(np.float32)[..., 0]


def rows_in_words(w):
    """Rows of weights, the last dimension but two, two by two in words of BF16 numbers; after an odd number zeros."""
    codes = w.view(np.uint32) >> 16
    below = np.concatenate([codes[..., 1:, :, :], np.zeros_like(codes[..., :1, :, :])], -3)
    return np.ascontiguousarray((codes | below << 16)[..., ::2, :, :]).view(np.float32)


def numbers_of(words, half):
    """One of the numbers of each word."""
    codes = np.ascontiguousarray(words).view(np.uint32)
    return (codes << 16 if half == 0 else codes & 0xFFFF0000).view(np.float32)


@these("convolve")
@given(st.data())
def test_sums_are_one_chain_in_order(kernel, data):
    together = data.draw(st.sampled_from([1, 2, 4, 8, 16]))
    positions, runs, steps = data.draw(st.integers(1, MOST)), data.draw(st.integers(0, 4)), data.draw(st.integers(1, 5))
    blocks, accumulate = data.draw(st.integers(1, 3)), data.draw(st.booleans())
    vectors = data.draw(st.integers(1, 5)) if together == 1 else 1
    ordered = data.draw(st.booleans()) and 1 < together < LANES
    rng = np.random.default_rng(data.draw(st.integers(0, 2**16)))
    places = rng.permutation(40)[:positions] * together  # where positions read, in numbers
    pairs = kernel.formats == "bfloat16"  # words of two whole numbers, whose sums are exact in any order
    x, w = (words(rng, shape) if pairs else rng.integers(-4095, 4096, shape).astype(np.float32) for shape in (
        (blocks, 40 + 3 * runs + 4 * steps, together), (blocks, vectors, max(1, runs * steps), LANES)))
    sums = np.full((blocks * vectors * 20 + 1, LANES), CANARY)
    slots = rng.permutation(20)[:positions]
    for number in range(blocks * vectors):
        sums[number * 20 + slots] = rng.integers(-4095, 4096, (positions, LANES))
    before = sums.copy()
    order = rng.permutation(LANES).astype(np.int32)
    x_at, w_at = np.arange(runs) * 3 * together * 4, np.arange(runs) * steps * 64
    at, to = places * 4, slots * 64
    record = record_of(
        "pop_conv_block", x=x.ctypes.data, w=w.ctypes.data, sums=sums.ctypes.data, x_at=x_at.ctypes.data,
        w_at=w_at.ctypes.data, runs=runs, steps=steps, x_step=4 * together, w_step=64, positions=positions,
        at=at.ctypes.data, to=to.ctypes.data, together=together, accumulate=accumulate, blocks=blocks,
        x_block=x[0].nbytes, w_block=w[0].nbytes, sums_block=vectors * 20 * 64, vectors=vectors,
        w_vector=w[0, 0].nbytes, sums_vector=20 * 64, ahead=data.draw(st.booleans()), x_ahead=64,
        sums_ahead=data.draw(st.sampled_from([0, 64])), order=order.ctypes.data if ordered else 0,
    )  # fmt: skip
    ctypes.CFUNCTYPE(None, ctypes.c_void_p)(kernel.address)(record.ctypes.data)
    want = before.copy()
    for number, (block, vector) in enumerate(np.ndindex(blocks, vectors)):
        numbers = x[block].ravel()
        ways = [(3 * run + step) * together for run in range(runs) for step in range(steps)]
        taken = np.array([[numbers[place + way :][:together] for way in ways] for place in places], np.float32)
        lanes = np.tile(taken.reshape(positions, runs * steps, together), LANES // together)
        start = before[number * 20 + slots] if accumulate else np.zeros((positions, LANES), np.float32)
        by = w[block, vector][: runs * steps]
        if pairs:
            made = start + sum((numbers_of(lanes, half) * numbers_of(by, half)).sum(1) for half in (0, 1))
        else:
            made = chain(lanes, by, start)
        want[number * 20 + slots] = made[:, order] if ordered else made
    assert np.array_equal(sums, want)


def tile_of(data, known, neighbours=False, line=False):
    """Fields of a tile, perhaps of 14 columns if `neighbours`, of one row if a `line`, and which elements are there."""
    step, most = data.draw(st.integers(1, 2)), 1 if line else 4
    row_step, rows = (data.draw(st.integers(1, min(n, most))) for n in (3, 2))
    widths = [1, 2, 4, 7, 14] if neighbours and rows == 1 else [1, 2, 4, 7]
    cols, blocks = data.draw(st.sampled_from(widths)), data.draw(st.integers(1, 3))
    planes, tap_rows = data.draw(st.tuples(st.integers(0, 2), st.integers(1, most)))
    tap_cols = data.draw(st.one_of(st.integers(1, 9), st.sampled_from([62, 64, 70])))
    high, wide = (rows - 1) * row_step + tap_rows, (cols - 1) * step + tap_cols
    row_low, col_low = data.draw(st.integers(-1, 2)), data.draw(st.integers(-1, 3))
    row_low = 0 if line else row_low
    row_high, col_high = (max(low, n - data.draw(st.integers(-1, 2))) for low, n in ((row_low, high), (col_low, wide)))
    row_high = 1 if line else row_high
    there = np.zeros((high, wide), bool)
    there[max(0, row_low) : max(0, row_high), max(0, col_low) : max(0, col_high)] = True
    fields = {"step": step, "row_step": row_step, "rows": rows, "cols": cols, "blocks": blocks, "planes": planes,
              "tap_rows": tap_rows, "tap_cols": tap_cols, "row_low": row_low, "row_high": row_high, "col_low": col_low,
              "col_high": col_high, "out": data.draw(st.sampled_from([FP32, *known])),
              "ahead": data.draw(st.booleans()), "x_ahead": 64, "sums_ahead": 64}
    return fields, there


def run_tile(kernel, tile, codes, weights, **more):
    """Results of x (planes, rows, columns, blocks, ...) and weights (blocks, planes, ...); others stay as they are."""
    out = np.full((tile["rows"], tile["cols"] + 1, tile["blocks"], LANES), -77, tile["out"].dtype)
    plane_x, plane_w = np.arange(2) * codes[0].nbytes, np.arange(2) * weights[0, 0].nbytes
    record = record_of(
        "pop_conv_slide", x=codes.ctypes.data, w=weights.ctypes.data, sums=out.ctypes.data, x_row=codes[0, 0].nbytes,
        x_col=codes[0, 0, 0].nbytes, plane_x=plane_x.ctypes.data, plane_w=plane_w.ctypes.data, sums_row=out[0].nbytes,
        sums_col=out[0, 0].nbytes, x_block=codes[0, 0, 0, 0].nbytes, w_block=weights[0].nbytes,
        sums_block=LANES * out.itemsize, **tile | {"out": FORMAT_NUMBERS[tile["out"].name]}, **more,
    )  # fmt: skip
    ctypes.CFUNCTYPE(None, ctypes.c_void_p)(kernel.address)(record.ctypes.data)
    assert (out[:, tile["cols"]] == np.full((), -77, out.dtype)).all()
    return out


def windows(tile, x):
    """Of each result, x at its taps: (planes, rows, columns, ...)."""
    for r, c in np.ndindex(tile["rows"], tile["cols"]):
        row, column = r * tile["row_step"], c * tile["step"]
        yield (r, c), x[: tile["planes"], row : row + tile["tap_rows"], column : column + tile["tap_cols"]]


@these("slide", "slide_pairs", "slide_line")
@given(st.data())
def test_tiles_read_zeros_outside_and_sum_in_order(kernel, data):
    fmt = next(f for f in FORMATS if kernel.formats == str(f))
    joined, line = kernel.op != "slide", kernel.op == "slide_line"
    tile, there = tile_of(data, [BF16, FP16] if joined else [fmt], kernel.op != "slide_pairs", line)
    planes, blocks = tile["planes"], tile["blocks"]
    rng = np.random.default_rng(data.draw(st.integers(0, 2**16)))
    x = rng.integers(-15, 16, (max(1, planes), *there.shape, blocks, LANES)).astype(np.float32)
    taps = max(1, planes), tile["tap_rows"], tile["tap_cols"]
    w = rng.integers(-15, 16, (blocks, *taps, LANES)).astype(np.float32) / 4096
    codes = np.where(there[:, :, None, None], x, np.nan).astype(fmt.dtype)  # what is not there is not read
    weights = rows_in_words(w.swapaxes(2, 3) if line else w) if joined else w  # sums are exact in any order
    out = run_tile(kernel, tile, codes, weights)
    for at, window in windows(tile, np.where(there[:, :, None, None], x, 0)):
        met = window.reshape(-1, blocks * LANES)
        by = np.moveaxis(w[:, :planes], 0, -2).reshape(-1, blocks * LANES)
        assert len(met) == len(by) == planes * tile["tap_rows"] * tile["tap_cols"]
        made = chain(met.T, by, np.zeros(blocks * LANES, np.float32)).reshape(blocks, LANES)
        assert_same_bits(out[at], made.astype(out.dtype))


@these("slide_words")
@given(st.data())
def test_tiles_of_groups_repeat_words_over_their_lanes(kernel, data):
    fmt = next(f for f in FORMATS if kernel.formats == str(f))
    tile, there = tile_of(data, [fmt])
    planes, blocks, together = tile["planes"], tile["blocks"], data.draw(st.sampled_from([1, 2, 4, 8]))
    count = data.draw(st.integers(1, LANES // together))
    rng = np.random.default_rng(data.draw(st.integers(0, 2**16)))
    x = rng.integers(-15, 16, (max(1, planes), *there.shape, blocks, together, count, 2)).astype(np.float32)
    w = rng.integers(-15, 16, (blocks, max(1, planes), tile["tap_rows"], tile["tap_cols"], count, LANES, 2)) / 4096
    inside = there.reshape(*there.shape, 1, 1, 1, 1)
    codes = np.where(inside, x, np.nan).astype(fmt.dtype)
    order = np.repeat(np.arange(together, dtype=np.int32) * count, LANES // together)
    out = run_tile(kernel, tile, codes, w.astype(fmt.dtype), together=together, words=count,
                   order=order.ctypes.data)
    for at, window in windows(tile, np.where(inside, x, 0)):
        met = np.repeat(window, LANES // together, axis=4)
        made = np.einsum("psqblkh,bpsqklh->bl", met, w[:, :planes])
        assert_same_bits(out[at], made.astype(np.float32).astype(out.dtype))


@these("quads")
@given(st.data())
def test_sums_over_taps_repeat_four_numbers_of_a_group(kernel, data):
    together, blocks = data.draw(st.sampled_from([1, 2, 4])), data.draw(st.integers(1, 3))
    count, positions = data.draw(st.integers(1, LANES // together)), data.draw(st.integers(1, 10))
    runs, steps = data.draw(st.integers(0, 4)), data.draw(st.integers(1, 5))
    rng = np.random.default_rng(data.draw(st.integers(0, 2**16)))
    beside, pairs = data.draw(st.booleans()), kernel.formats == "bfloat16"
    apart = 2 if beside and pairs else 1  # elements from a step to the next
    elements = 20 + 3 * runs + apart * steps
    x, w = (words(rng, shape) if pairs else rng.integers(-4095, 4096, shape).astype(np.float32) for shape in (
        (elements + 16, blocks, together, count), (max(1, runs * steps), blocks, LANES)))
    places = np.arange(positions) if beside else rng.permutation(20)[:positions]
    sums = np.full((blocks, count + 1, positions, LANES), CANARY)
    sums[:, :count] = rng.integers(-4095, 4096, (blocks, count, positions, LANES))
    start, element, line = sums.copy(), x[0].nbytes, w[0].nbytes
    x_at, w_at = np.arange(runs) * 3 * element, np.arange(runs) * steps * line
    at, to = places * element, np.arange(positions) * 64
    record = record_of(
        "pop_conv_block", x=x.ctypes.data, w=w.ctypes.data, sums=sums.ctypes.data, x_at=x_at.ctypes.data,
        w_at=w_at.ctypes.data, runs=runs, steps=steps, x_step=apart * element, w_step=line, positions=positions,
        at=at.ctypes.data, to=to.ctypes.data, together=together, accumulate=True, blocks=blocks, words=count,
        sums_word=sums[0, 0].nbytes, x_block=x[0, 0].nbytes, w_block=w[0, 0].nbytes, sums_block=sums[0].nbytes,
    )  # fmt: skip
    ctypes.CFUNCTYPE(None, ctypes.c_void_p)(kernel.address)(record.ctypes.data)
    ways = np.array([3 * run + apart * step for run in range(runs) for step in range(steps)], int)
    for block, c, p in np.ndindex(blocks, count, positions):
        met = np.repeat(x[places[p] + ways, block, :, c], LANES // together, axis=1)
        by = w[: len(ways), block]
        if pairs:
            made = start[block, c, p] + sum((numbers_of(met, half) * numbers_of(by, half)).sum(0) for half in (0, 1))
        else:
            made = chain(met.T, by, start[block, c, p])
        assert np.array_equal(sums[block, c, p], made)
    assert (sums[:, count] == CANARY).all()


@these("slide_taps")
@given(st.data())
def test_sums_over_taps_leave_out_what_is_outside(kernel, data):
    fmt = next(f for f in FORMATS if kernel.formats == str(f))
    step, unit, down = (data.draw(st.integers(1, n)) for n in (2, 2, 3))  # columns, a kernel's and a delta's next row
    rows, cols = data.draw(st.integers(1, 4)), data.draw(st.integers(1, 16))
    tap_rows, tap_cols, blocks = data.draw(st.tuples(st.integers(1, 3), st.integers(1, 17), st.integers(1, 3)))
    high, wide = 1 + (rows - 1) * down + (tap_rows - 1) * unit, (cols - 1) * step + tap_cols
    first, row_end = data.draw(st.integers(-2, 1)), data.draw(st.integers(0, high + 1))
    low = data.draw(st.integers(-1, 3))
    col_high = max(low, wide - data.draw(st.integers(-1, 3)))
    there = np.zeros((high, wide), bool)
    there[max(0, -first) : max(0, row_end - first), max(0, low) : max(0, col_high)] = True
    rng = np.random.default_rng(data.draw(st.integers(0, 2**16)))
    x = rng.integers(-15, 16, (high, wide, blocks, LANES)).astype(np.float32)
    w = rng.integers(-15, 16, (rows, cols, blocks, LANES)).astype(fmt.dtype)
    codes = np.where(there[:, :, None, None], x, np.nan).astype(fmt.dtype)  # what is not there is not read
    before = rng.integers(-4095, 4096, (blocks, tap_rows, tap_cols, LANES)).astype(np.float32)
    sums = np.concatenate([before.ravel(), np.full(LANES, CANARY)])
    record = record_of(
        "pop_conv_gradient", x=codes.ctypes.data, w=w.ctypes.data, sums=sums.ctypes.data, x_row=unit * codes[0].nbytes,
        x_col=codes[0, 0].nbytes, x_down=down * codes[0].nbytes, w_row=w[0].nbytes, w_col=w[0, 0].nbytes, rows=rows,
        cols=cols, tap_rows=tap_rows, tap_cols=tap_cols, row_first=first, row_unit=unit, row_step=down, row_end=row_end,
        step=step, col_low=low, col_high=col_high, blocks=blocks, x_block=codes[0, 0, 0].nbytes,
        w_block=w[0, 0, 0].nbytes, sums_block=before[0].nbytes, ahead=data.draw(st.booleans()), down=down,
    )  # fmt: skip
    ctypes.CFUNCTYPE(None, ctypes.c_void_p)(kernel.address)(record.ctypes.data)
    met = np.where(there[:, :, None, None], x, 0)
    for s, t in np.ndindex(tap_rows, tap_cols):  # whole numbers: exact in any order
        window = met[s * unit : s * unit + (rows - 1) * down + 1 : down, t : t + (cols - 1) * step + 1 : step]
        assert_same_bits(sums[:-LANES].reshape(before.shape)[:, s, t],
                         before[:, s, t] + (window * w.astype(np.float32)).sum((0, 1), dtype=np.float32))
    assert (sums[-LANES:] == CANARY).all()


@these("reorder")
@given(st.data())
def test_numbers_change_places(kernel, data):
    n = LANES * data.draw(st.integers(1, 2))
    rng = np.random.default_rng(data.draw(st.integers(0, 2**16)))
    order, numbers = rng.integers(0, n, n).astype(np.int32), rng.standard_normal(n).astype(np.float32)
    out = np.full(n + LANES, CANARY)
    call = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p)(kernel.address)
    call(order.ctypes.data, n, numbers.ctypes.data, out.ctypes.data)
    assert np.array_equal(out[:n], numbers[order])
    assert (out[n:] == CANARY).all()


@these("finish")
@given(st.data())
def test_results_have_the_bits_of_the_common_epilogue(kernel, data):
    fmt = next(f for f in FORMATS if kernel.formats == f"float32->{f}")
    rows, cols = data.draw(st.integers(1, 9)), data.draw(st.integers(1, 5) | st.integers(1, 70))
    rng = np.random.default_rng(data.draw(st.integers(0, 2**16)))
    sums = (rng.standard_normal((rows, cols + 3)) * 2.0 ** rng.integers(-20, 9)).astype(np.float32)
    bias = rng.standard_normal(cols).astype(np.float32)
    activation = data.draw(st.sampled_from([None, "relu"]))
    e = record_of(
        "pop_epilogue", format=format_record(fmt).ctypes.data, overflow=infinite_overflow(fmt), alpha=1.0,
        activation=ACTIVATIONS.index(activation), bias=bias.ctypes.data if data.draw(st.booleans()) else 0,
        out_row=(cols + 5) * fmt.itemsize, out_col=fmt.itemsize,
    )  # fmt: skip
    found = []
    for function in (kernel, select("dot", "epilogue", kernel.formats).kernel):
        out = np.full((rows, cols + 5), 7, fmt.dtype)
        e["out"] = out.ctypes.data
        call = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)
        call(function.address)(e.ctypes.data, sums.ctypes.data, sums.shape[1], rows, cols)
        found.append(out)
    assert_same_bits(found[0], found[1])
    assert (found[0][:, cols:] == np.full((), 7, fmt.dtype)).all()


@pytest.mark.parametrize("kind", ["images", "weights", "results"])
@pytest.mark.parametrize("tile", [2, 4])
def test_winograd_s_transforms_are_one_to_the_bit_at_every_level(kind, tile):
    matrix = np.array({"images": IMAGES, "weights": KERNELS, "results": RESULTS}[kind][tile], float)
    made, taken = matrix.shape
    rng, count, lanes = np.random.default_rng(tile), 3, 32
    pictures = rng.standard_normal((count, taken, taken, lanes)).astype(np.float32)
    expected = np.einsum("ai,nijl,bj->nabl", matrix, pictures, matrix)
    sizes = np.einsum("ai,nijl,bj->nabl", abs(matrix), abs(pictures), abs(matrix))
    first = None
    for kernel in (k for k in kernels("conv") if k.op == f"winograd_{kind}_{tile}"):
        to = np.full((count, made, made, lanes + 16), CANARY)
        record = record_of(
            "pop_winograd_block", **{"from": pictures.ctypes.data}, to=to.ctypes.data, row=pictures.strides[1],
            column=pictures.strides[2], to_row=to.strides[1], to_column=to.strides[2], next=pictures.strides[0],
            to_next=to.strides[0], count=count, lanes=lanes,
        )  # fmt: skip
        ctypes.CFUNCTYPE(None, ctypes.c_void_p)(kernel.address)(record.ctypes.data)
        assert (to[..., lanes:] == CANARY).all()
        got = to[..., :lanes]
        assert (abs(got - expected) <= gamma(ROUNDINGS[tile], 2.0**-24) * sizes).all()
        first = got if first is None else first
        assert_same_bits(got, first)
