"""The strided driver with kernels of many operands: any formats, strides, broadcasts, blocks of scales, threads."""

import ctypes
from math import prod

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from poplibs_py import formats, popops
from poplibs_py.config import thread_limit
from poplibs_py.formats import BF16, E4M3, F143, FP16, FP32, QuarterArray
from poplibs_py.formats.reference import encode
from poplibs_py.kernels import Kernel
from poplibs_py.popops import cast
from poplibs_py.popops.strided import lower as _strided
from poplibs_py.popops.strided.axes import walked
from poplibs_py.popops.strided.lower import StridedOperand, StridedParams, lower
from poplibs_py.popops.strided.steps import Chain, Step
from poplibs_py.program import guard_arenas

FORMATS = (FP32, FP16, BF16, F143, E4M3)
SHAPES = [(5,), (3, 4), (2, 3, 5), (4, 1, 7), (40, 30), (3, 300), (2, 2, 2, 2, 3), (1500,), (2, 700), (130, 3, 3),
          (1, 1), (6, 257)]
CALL = ctypes.CFUNCTYPE(None, ctypes.POINTER(ctypes.c_void_p), ctypes.POINTER(ctypes.c_void_p), ctypes.c_int64)


@pytest.fixture(autouse=True, scope="module")
def arenas_are_guarded():
    guard_arenas(True)
    yield
    guard_arenas(False)


def sums_kernel(inputs, outputs):
    """Output k is the sum of (k + i + 1) * input i, in float32, each product and sum rounded."""

    def body(read, written, n):
        rows = [np.frombuffer((ctypes.c_float * n).from_address(p), np.float32).copy() for p in read[:inputs]]
        for k, result in enumerate(weighted(rows, outputs)):
            np.frombuffer((ctypes.c_float * n).from_address(written[k]), np.float32)[:] = result

    return CALL(body)


def weighted(rows, outputs):
    with np.errstate(all="ignore"):
        return [sum((np.float32(k + i + 1) * row for i, row in enumerate(rows)), np.float32(0)) for k in range(outputs)]


def run(operands, outputs, threads=1):
    """The driver on arrays: inputs, then outputs, `QuarterArray`s with their scales."""
    function = sums_kernel(len(operands) - outputs, outputs)
    kernel = Kernel("elementwise", "sums", "", "sums", "portable", ctypes.cast(function, ctypes.c_void_p).value,
                    (1, 1, 1), (1, 1, 1), 1)
    codes = [x.codes if isinstance(x, QuarterArray) else x for x in operands]
    laid = [StridedOperand(format_of(x), c.strides, *scale_of(x)) for x, c in zip(operands, codes, strict=True)]
    read, written = tuple(laid[:-outputs]), tuple(laid[-outputs:])
    params = StridedParams("sums", codes[0].shape, read, written, "nearest-even", "nan")
    places = tuple(range(len(laid)))
    chain = Chain((Step("sums", places[:-outputs], places[-outputs:]),), ("float32",) * len(laid))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_strided, "_chain", lambda params: (chain, [kernel]))
        program = lower.__wrapped__(params, threads)
    exponents = [np.ascontiguousarray(x.scale).reshape(-1) for x, o in zip(operands, laid, strict=True) if o.blocks]
    program.executable(*codes, *exponents)
    return program


def format_of(x):
    return x.format if isinstance(x, QuarterArray) else formats.format_of(x)


def scale_of(x):
    if not isinstance(x, QuarterArray):
        return 0, None
    return (x.scale, None) if x.block_shape is None else (0, x.block_shape)


def values(x):
    return x.to_array() if isinstance(x, QuarterArray) else x.astype(np.float32)


@st.composite
def views(draw, shape, fmt, writeable):
    """An array of a shape whose axes lie in any order, with gaps, backwards, and for inputs repeated."""
    order = draw(st.permutations(range(len(shape))))
    steps = [draw(st.sampled_from([1, 1, 1, 2, 3, -1, -2])) for _ in shape]
    repeated = [not writeable and draw(st.sampled_from([False, False, True])) for _ in shape]
    extents = [1 if r else n for n, r in zip(shape, repeated, strict=True)]
    base = np.zeros([abs(steps[d]) * extents[d] for d in order], fmt.code_dtype)
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    base[...] = encode(rng.integers(-8, 9, base.shape), fmt) if fmt != FP32 else rng.integers(-8, 9, base.shape).astype(
        np.float32).view(np.uint32)
    seen = base.transpose(np.argsort(order))[tuple(slice(None, None, s) for s in steps)]
    seen = seen[tuple(slice(0, n) for n in extents)]
    return np.broadcast_to(seen, shape) if not writeable else seen


@st.composite
def cases(draw):
    shape = draw(st.sampled_from(SHAPES))
    inputs, outputs = draw(st.integers(1, 6)), draw(st.integers(1, 2))
    made = []
    for i in range(inputs + outputs):
        fmt = draw(st.sampled_from(FORMATS))
        codes = draw(views(shape, fmt, i >= inputs))
        if fmt.bits == 8 and draw(st.booleans()):
            blocks = draw(st.none() | st.tuples(*[st.sampled_from([-1, 1, 2, 3, 64]) for _ in shape]))
            counts = [1 if b == -1 else -(-n // b) for n, b in zip(shape, blocks or (), strict=blocks is not None)]
            scale = np.random.default_rng(draw(st.integers(0, 99))).integers(-3, 4, counts)
            made.append(QuarterArray(codes, fmt, scale, blocks))
        else:
            made.append(codes.view(fmt.dtype))
    return made, outputs


@given(cases(), st.booleans())
def test_operands_of_any_format_and_layout(case, streams):
    operands, outputs = case
    rows = [values(x) for x in operands[:-outputs]]
    with pytest.MonkeyPatch.context() as patch:
        if streams:
            patch.setattr(_strided, "STREAM_BYTES", {"arrays": 0})
        run(operands, outputs)
    for got, due in zip(operands[-outputs:], weighted(rows, outputs), strict=True):
        want = np.zeros_like(got.codes) if isinstance(got, QuarterArray) else np.zeros_like(got)
        if isinstance(got, QuarterArray):
            held = QuarterArray(want, got.format, got.scale, got.block_shape)
            np.testing.assert_array_equal(got.codes, cast(due, got.format, overflow="nan", out=held).codes)
        else:
            want[...] = cast(due, got.dtype, overflow="nan")
            np.testing.assert_array_equal(got.astype(np.float32), want.astype(np.float32))


@given(st.data())
def test_the_identity_of_any_format_and_layout(data):
    shape = data.draw(st.sampled_from(SHAPES))
    source, target = data.draw(st.sampled_from(FORMATS)), data.draw(st.sampled_from(FORMATS))
    x, out = (data.draw(views(shape, fmt, i == 1)).view(fmt.dtype) for i, fmt in enumerate((source, target)))
    rounding = data.draw(st.sampled_from(["nearest-even", "stochastic"]))
    seed = {"seed": 5} if rounding == "stochastic" else {}
    assert cast(x, target, rounding=rounding, out=out, **seed) is out
    plain = cast(x.copy(), target, rounding=rounding, **seed)
    np.testing.assert_array_equal(out.astype(np.float32), plain.astype(np.float32))
    if rounding == "nearest-even":
        rounded = x.astype(np.float32).astype(target.dtype)
        np.testing.assert_array_equal(out.astype(np.float32), rounded.astype(np.float32))


@given(st.data())
def test_nothing_is_written_between_elements(data):
    shape = data.draw(st.sampled_from([(3, 4), (40, 7), (2, 300), (2, 3, 5)]))
    fmt = data.draw(st.sampled_from(FORMATS))
    big = np.full([2 * n + 1 for n in shape], 0xA5, fmt.code_dtype)
    out = big[tuple(slice(1, None, 2) for _ in shape)].view(fmt.dtype)
    x = np.arange(prod(shape), dtype=np.float32).reshape(shape) % 5
    run([x, out], 1)
    np.testing.assert_array_equal(out.astype(np.float32), x)
    out.view(fmt.code_dtype)[...] = 0xA5
    assert (big == 0xA5).all()


def test_threads_change_nothing():
    shape = (3, _strided.THREAD_ELEMENTS + 77)
    rng = np.random.default_rng(1)
    x = rng.integers(-8, 9, (shape[1], 3)).astype(np.float16).T
    row = rng.integers(-8, 9, (1, shape[1])).astype(np.float32)
    column = rng.integers(-8, 9, (3, 1)).astype(np.float32)
    y, z = np.broadcast_to(row, shape), np.broadcast_to(column, shape)
    results = []
    for threads in (1, 2, 3):
        out = np.zeros(shape, np.float16)
        assert run([x, y, z, out], 1, threads).executable.threads == threads
        results.append(out)
    np.testing.assert_array_equal(results[0], weighted([x.astype(np.float32), y, z], 1)[0].astype(np.float16))
    assert (results[0] == results[1]).all()
    assert (results[0] == results[2]).all()


@given(st.lists(st.integers(1, 5), min_size=1, max_size=4), st.data())
def test_axes_are_merged_and_ordered_for_memory(shape, data):
    out = data.draw(views(tuple(shape), FP32, True))
    x = np.zeros(shape, np.float32)
    axes, firsts = walked(tuple(shape), [x.strides, out.strides], [None, None], 1, False)
    strides = [axis.strides[1] for axis in axes]
    assert strides == sorted(strides, reverse=True)
    assert prod(axis.extent for axis in axes) == prod(shape)
    assert firsts[1] == sum(min(0, s * (n - 1)) for s, n in zip(out.strides, shape, strict=True) if n > 1)


def test_what_lies_alike_is_one_row():
    x = np.zeros((4, 5, 6), np.float32)
    for view in (x, x.T, x[::-1], x.transpose(1, 0, 2)[:, ::-1]):
        axes, _ = walked(view.shape, [view.strides] * 3, [None] * 3, 1, False)
        assert [axis.extent for axis in axes] == [120]


def test_small_arrays_take_no_memory():
    """What a call of few elements needs beside its operands lies on the stack."""
    x = StridedOperand(FP16, (4,))
    for count, scratch in ((256, False), (1 << 16, True)):
        program = lower(StridedParams("exp", (count,), (x,), (StridedOperand(F143, (1,)),), "nearest-even", "nan"), 1)
        assert (program.executable.scratch_bytes > 0) is scratch
    plain = StridedOperand(FP32, (4,))
    program = lower(StridedParams("exp", (1 << 20,), (plain,), (plain,), "nearest-even", "inf"), 1)
    assert program.executable.scratch_bytes == 0


@pytest.mark.parametrize("fmt", FORMATS, ids=str)
@pytest.mark.parametrize("misaligned", [0, 1, 13])
@pytest.mark.parametrize(("outputs", "in_place"), [(1, False), (1, True), (2, False)])
def test_results_past_the_caches_are_the_same_wherever_they_lie(fmt, misaligned, outputs, in_place):
    count, rng = 40_000, np.random.default_rng(misaligned)
    numbers = [cast(rng.integers(-8, 9, count).astype(np.float32), fmt) for _ in range(2)]
    due = [cast(row, fmt, overflow="nan") for row in weighted([values(x) for x in numbers], outputs)]
    bytes_of = [x.codes if isinstance(x, QuarterArray) else x for x in numbers]
    bytes_of = [np.concatenate([x[:apart], x])[apart:] for apart, x in zip((misaligned + 3, 7), bytes_of, strict=True)]
    rooms = [np.zeros(count + 40, x.dtype) for x in bytes_of]
    held = [room[misaligned:misaligned + count] for room in rooms]
    if in_place:
        held[0][...] = bytes_of[0]
        bytes_of[0] = held[0]

    def of_format(codes):
        return QuarterArray(codes, fmt) if isinstance(numbers[0], QuarterArray) else codes

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_strided, "STREAM_BYTES", {"arrays": 0})
        run([of_format(x) for x in (*bytes_of, *held[:outputs])], outputs)
    for room, made, want in zip(rooms, held, due, strict=False):
        np.testing.assert_array_equal(of_format(made).codes if isinstance(want, QuarterArray) else made.view(np.uint8),
                                      want.codes if isinstance(want, QuarterArray) else want.view(np.uint8))
        assert not room[:misaligned].view(np.uint8).any()
        assert not room[misaligned + count:].view(np.uint8).any()


def test_only_what_memory_bounds_goes_past_the_caches(monkeypatch):
    monkeypatch.setattr(_strided, "STREAM_BYTES", {"arrays": 32 << 20})

    def streams(op, shape, fmt=FP32, out=FP32, strides=None):
        size = fmt.itemsize
        laid = strides or tuple(size * prod(shape[d + 1:]) for d in range(len(shape)))
        operands = StridedOperand(fmt, laid), StridedOperand(out, tuple(s // size * out.itemsize for s in laid))
        axes = walked(shape, [o.strides for o in operands], [None, None], 1, False)[0]
        params = StridedParams(op, shape, operands[:1], operands[1:], "nearest-even", "inf")
        _, used = _strided._chain(params)
        modes = [_strided._mode(i, params, axes, False) for i in range(2)]
        return _strided._streaming(params, modes, axes, used)[1]

    assert streams("relu", (4 << 20,))
    assert streams("relu", (8 << 20,), BF16, BF16)
    assert not streams("relu", (2 << 20,))  # what is read next would rather be in the cache
    assert not streams("exp", (16 << 20,))  # takes longer than memory does
    assert not streams("exp", (16 << 20,), BF16, BF16)  # whose table wants many elements at a time
    assert not streams("relu", (1 << 16, 200), strides=(1024, 4))  # rows of parts of lines


def test_results_that_pass_the_caches_take_no_room_of_what_is_gathered_beside_them():
    """A result begins within its room as an operand begins within a cache line, which NumPy's large arrays do."""
    n = 2048
    room = np.zeros(4 * n * n + 64, np.uint8)
    begin = (16 - room.ctypes.data) % 64
    x = room[begin:begin + 4 * n * n].view(np.float32).reshape(n, n)
    x[...] = np.arange(n * n, dtype=np.float32).reshape(n, n) % 4093
    half = x.astype(np.float16)
    assert (popops.add(x, x.T) == x + x.T).all()
    assert (popops.mul(half, x) == half.astype(np.float32) * x).all()
    assert (popops.add(x, x[::-1, ::-1]) == x + x[::-1, ::-1]).all()


@pytest.mark.parametrize("threads", [1, 2, 3, 4])
def test_a_share_that_begins_within_a_row_leaves_the_next_rows_what_they_repeat(threads):
    w, f = np.arange(1, 1 + 130 * 300 * 16, dtype=np.float32).reshape(130, 300, 16), np.float32(np.arange(1, 131))
    f = f.reshape(130, 1, 1)
    out = np.full((130, 16, 300), np.nan, np.float32).transpose(0, 2, 1)
    x, one = w.reshape(-1)[:512000].reshape(1000, 512)[:, :300], np.float32([3.0])
    with thread_limit(threads):
        for _ in range(5):
            out[...] = np.nan
            assert (popops.mul(w, f, out=out) == w * f).all()
            assert (popops.mul(x, one) == x * 3).all()
            assert (popops.clamp(x, one, 10 * one) == np.clip(x, 3, 30)).all()


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize(("shape", "row"), [
    ((50_000, 3), (3,)), ((700, 100, 1), (100, 1)), ((11, 1343, 3), (11, 1, 3)), ((5, 40, 41, 17), (5, 1, 1, 17)),
    ((5, 40, 41, 17), (40, 1, 17)), ((9, 3, 257, 2), (1, 3, 1, 2)), ((40, 2, 255), (2, 255)),
    ((300, 2, 1025), (1, 2, 1025)),
])
def test_rows_that_repeat_one_are_gathered_at_once(shape, row, threads):
    rng = np.random.default_rng(len(shape))
    x = rng.integers(-99, 99, shape)
    wide = rng.integers(-99, 99, (*row[:-1], 2 * row[-1]))
    for dtype in (np.float32, np.float16, np.int32, ml_dtypes.bfloat16):
        given, kept = x.astype(dtype), wide.astype(dtype)
        for y in (kept[..., ::2].copy(), kept[..., ::2], kept[..., ::-2]):
            with thread_limit(threads):
                made = popops.add(given, y)
            np.testing.assert_array_equal(made, (given + y).astype(dtype))
    with thread_limit(threads):
        made = popops.add(x.astype(np.float16), wide[..., ::2].astype(np.float16), out_dtype="float32")  # decoded
    np.testing.assert_array_equal(made, x + wide[..., ::2])
