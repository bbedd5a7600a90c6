"""Every product, packing and epilogue kernel of every level present: tails, misaligned operands, no byte too far."""

import ctypes

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from poplibs_py.formats import FORMATS, FP16, format_of
from poplibs_py.formats.reference import decode, encode
from poplibs_py.kernels import kernels
from poplibs_py.kernels.records import infinite_overflow, record_of
from poplibs_py.poplin.gemm.lower import format_record
from poplibs_py.testing import assert_same_bits, random_operand

CANARY = np.float32(-123456.0)


def these(*ops):
    found = [k for k in kernels("dot") if k.op in ops]
    return pytest.mark.parametrize("kernel", found, ids=[f"{k.level}-{k.name}" for k in found])


def hook(name, level):
    for k in kernels("dot"):
        if (k.op, k.level) == (name, level):
            ctypes.CFUNCTYPE(None)(k.address)()


def cells_of(numbers, elements):
    """Whole numbers [lines, depth] as cells: FP32, or pairs of BF16."""
    if elements == 1:
        return numbers.astype(np.float32)
    return numbers.astype(ml_dtypes.bfloat16).view(np.float32)


def offset_copy(array, shift):
    """The same content at an address that is off a cache line by `shift` bytes."""
    room = np.zeros(array.nbytes + 128, np.uint8)
    start = -room.ctypes.data % 64 + shift
    view = room[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
    view[...] = array
    return view


@these("multiply", "multiply_dots", "multiply_across", "multiply_apart", "multiply_panels", "multiply_parts")
@given(st.data())
def test_products_are_exact_and_stay_in_their_block(kernel, data):
    rows = data.draw(st.integers(1, kernel.block[0]))
    cols = data.draw(st.integers(1, kernel.block[1]))
    depth = data.draw(st.integers(0, 5)) * kernel.grain[2] + (
        0 if kernel.grain[2] > 2 else 2 * data.draw(st.integers(0, 20) | st.integers(120, 400))
    )
    accumulate = data.draw(st.booleans())
    shift = data.draw(st.sampled_from([0, 4, 60]))
    a_format, _, b_format = kernel.formats.partition(",")  # an operand that lies in its own format, beside FP32
    elements = 2 if kernel.formats == "bfloat16" else 1
    rng = np.random.default_rng(data.draw(st.integers(0, 2**16)))
    high = -(-rows // kernel.grain[0]) * kernel.grain[0]
    wide = kernel.block[1] if kernel.takes_tiles else cols
    a, b = rng.integers(-8, 9, (high, depth)), rng.integers(-8, 9, (wide, depth))
    c = np.full((rows + 2, cols + 5), CANARY, np.float32)
    c[1 : rows + 1, 2 : cols + 2] = old = rng.integers(-8, 9, (rows, cols))
    a_cells = offset_copy(a.astype(format_of(a_format).dtype) if b_format else cells_of(a, elements), shift)
    b_cells = b.astype(format_of(b_format).dtype) if b_format else cells_of(b, elements)
    dots, apart = kernel.op in ("multiply_dots", "multiply_across"), kernel.op == "multiply_apart"
    lines = b.T.astype(format_of(b_format or kernel.formats).dtype) if apart else b_cells if dots else b_cells.T
    if kernel.op == "multiply_panels":
        wide = kernel.grain[1]
        lines = np.pad(b_cells, ((0, -cols % wide), (0, 0))).reshape(-(-cols // wide), wide, depth).transpose(0, 2, 1)
    b_cells = offset_copy(np.ascontiguousarray(lines), shift)
    ahead = data.draw(st.integers(0, 2**46)), data.draw(st.integers(0, 20))  # what is prefetched is never touched
    block = record_of(
        "pop_dot_block",
        a=a_cells.ctypes.data, b=b_cells.ctypes.data, c=c[1:, 2:].ctypes.data, a_row=a_cells.strides[0], a_cell=4,
        b_cell=4 if dots else elements * b_cells.strides[0] if apart else 4 * wide, b_col=b_cells.strides[0],
        c_row=cols + 5, rows=rows, cols=cols,
        cells=depth // elements, accumulate=accumulate,
        a_next=ahead[0], c_next=ahead[0], a_next_rows=ahead[1], c_next_rows=ahead[1],
        a_next_row=ahead[0] // 16, a_next_step=64, a_next_steps=ahead[1], c_next_row=ahead[0] // 16, c_next_lines=4,
        c_next_each=ahead[1] // 5, b_next=ahead[0], b_next_lines=ahead[1],
    )  # fmt: skip
    hook("begin", kernel.level)
    ctypes.CFUNCTYPE(None, ctypes.c_void_p)(kernel.address)(block.ctypes.data)
    hook("end", kernel.level)
    wanted = np.full_like(c, CANARY)
    wanted[1 : rows + 1, 2 : cols + 2] = (a[:rows] @ b[:cols].T if depth else 0) + (old if accumulate else 0)
    assert_same_bits(c, wanted, kernel_name=kernel.name)


@these("multiply")
@pytest.mark.parametrize("runs", [1, 2, 5])
def test_runs_of_the_depth_are_added_in_order(kernel, runs):
    """Each begins anywhere in either operand; tiles take one run."""
    if kernel.takes_tiles:
        pytest.skip("a row grain")
    rng, elements = np.random.default_rng(7), kernel.grain[2]
    rows, cols, cells = kernel.block[0], kernel.block[1] - 1, 9
    a, b = (rng.integers(-8, 9, (runs + 1, lines, cells * elements)) for lines in (rows, cols))
    a_cells = cells_of(a, elements)
    b_cells = np.ascontiguousarray(cells_of(b, elements).transpose(0, 2, 1))
    order = rng.permutation(runs)
    a_at, b_at = (np.array([(n - order[0]) * cells.strides[0] for n in order[1:]] + [0], np.int64)
                  for cells in (a_cells, b_cells))
    c = np.ones((rows, cols), np.float32)
    block = record_of(
        "pop_dot_block",
        a=a_cells[order[0]].ctypes.data, b=b_cells[order[0]].ctypes.data, c=c.ctypes.data, a_row=a_cells.strides[1],
        a_cell=4, b_cell=b_cells.strides[1], c_row=cols, rows=rows, cols=cols, cells=cells, accumulate=1, more=runs - 1,
        a_at=a_at.ctypes.data, b_at=b_at.ctypes.data,
    )  # fmt: skip
    ctypes.CFUNCTYPE(None, ctypes.c_void_p)(kernel.address)(block.ctypes.data)
    assert_same_bits(c, np.float32(1 + sum(a[n] @ b[n].T for n in order)), kernel_name=kernel.name)


def bf16_products():
    found = [k for k in kernels("dot") if k.op in ("multiply", "multiply_parts") and k.formats == "bfloat16"]
    return pytest.mark.parametrize("kernel", found, ids=[f"{k.level}-{k.name}" for k in found])


@bf16_products()
@pytest.mark.parametrize("cols", [1, 47, 48])
def test_lines_of_bf16_round_their_sums_where_asked(kernel, cols):
    if kernel.takes_tiles:
        pytest.skip("sums of tiles are rounded by their epilogue")
    rng, rows, cols, depth = np.random.default_rng(3), kernel.block[0], min(cols, kernel.block[1]), 34
    a, b = rng.standard_normal((rows, depth)), rng.standard_normal((cols, depth))
    a[0, 0], a[-1, 1] = np.inf, 3e38
    a_cells, b_cells = cells_of(a, 2), np.ascontiguousarray(cells_of(b, 2).T)
    sums = np.full((rows, cols + 3), CANARY, np.float32)
    results = sums.astype(ml_dtypes.bfloat16)
    for c in (sums, results):
        block = record_of(
            "pop_dot_block",
            a=a_cells.ctypes.data, b=b_cells.ctypes.data, c=c.ctypes.data, a_row=a_cells.strides[0], a_cell=4,
            b_cell=4 * cols, c_row=cols + 3, rows=rows, cols=cols, cells=depth // 2, narrow=c is results,
            c_next=c.ctypes.data, c_next_rows=3, c_next_row=c.strides[0], c_next_lines=1, c_next_each=1,
        )  # fmt: skip
        ctypes.CFUNCTYPE(None, ctypes.c_void_p)(kernel.address)(block.ctypes.data)
    assert_same_bits(results, sums.astype(ml_dtypes.bfloat16), kernel_name=kernel.name)


@bf16_products()
@pytest.mark.parametrize(
    ("a", "b", "old", "wanted"),
    [
        (2.0**-133, 2.0**120, 0.0, 0.0),  # a subnormal operand
        (2.0**120, -(2.0**-127), 0.0, 0.0),
        (2.0**-126, 2.0**120, 0.0, 2.0**-6),  # the least normal number counts
        (2.0**-64, 2.0**-63, 0.0, 0.0),  # a subnormal sum
        (2.0**-64, 2.0**-62, 0.0, 2.0**-126),
        (2.0**-63, 1.5 * 2.0**-63, -(2.0**-126), 0.0),  # that cancels to a subnormal one
        (1.0, 1.0, 2.0**-130, 1.0),
        (2.0**-24, 2.0**-24, 0.0, 2.0**-48),  # FP16's least numbers: its products and sums are far above
    ],
)
def test_bf16_units_take_subnormal_numbers_for_zero(kernel, a, b, old, wanted):
    rows, cols = kernel.grain[0], kernel.block[1] if kernel.takes_tiles else 1
    depth = kernel.grain[2]
    left, right = np.zeros((rows, depth)), np.zeros((cols, depth))
    left[:, depth // 2], right[:, depth // 2] = a, b
    a_cells, b_cells = cells_of(left, 2), np.ascontiguousarray(cells_of(right, 2).T)
    c = np.full((rows, cols), old, np.float32)
    block = record_of(
        "pop_dot_block",
        a=a_cells.ctypes.data, b=b_cells.ctypes.data, c=c.ctypes.data, a_row=a_cells.strides[0], a_cell=4,
        b_cell=4 * cols, c_row=cols, rows=rows, cols=cols, cells=depth // 2, accumulate=1,
    )  # fmt: skip
    hook("begin", kernel.level)
    ctypes.CFUNCTYPE(None, ctypes.c_void_p)(kernel.address)(block.ctypes.data)
    hook("end", kernel.level)
    np.testing.assert_array_equal(c, np.float32(wanted))


@these("multiply_parts")
@pytest.mark.parametrize("split", [(2, 1), (1, 2), (2, 2)])
@pytest.mark.parametrize("skip", [0, 1])
def test_split_operands_multiply_part_by_part(kernel, split, skip):
    rng = np.random.default_rng(5)
    a, b = (rng.integers(-8, 9, (parts, 32, 96)) for parts in split)
    a_cells, b_cells = cells_of(a, 2), np.ascontiguousarray(cells_of(b, 2).transpose(0, 2, 1))
    c = np.zeros((32, 32), np.float32)
    block = record_of(
        "pop_dot_block",
        a=a_cells.ctypes.data, b=b_cells.ctypes.data, c=c.ctypes.data, a_row=a_cells.strides[1], a_cell=4, b_cell=128,
        c_row=32, rows=32, cols=32, cells=48, a_low=a_cells.strides[0] if split[0] == 2 else 0,
        b_low=b_cells.strides[0] if split[1] == 2 else 0, skip_lows=skip,
    )  # fmt: skip
    hook("begin", kernel.level)
    ctypes.CFUNCTYPE(None, ctypes.c_void_p)(kernel.address)(block.ctypes.data)
    hook("end", kernel.level)
    wanted = a.sum(0) @ b.sum(0).T - (a[1] @ b[1].T if skip and split == (2, 2) else 0)
    assert_same_bits(c, wanted.astype(np.float32))


def decoding(op):
    found = [k for k in kernels("dot") if k.op == op and "any" not in k.formats]
    return pytest.mark.parametrize("kernel", found, ids=[f"{k.level}-{k.formats}" for k in found])


@decoding("decode")
@given(n=st.integers(0, 100), scale=st.integers(-20, 20), seed=st.integers(0, 2**16))
def test_decoding_gives_every_value_and_writes_no_more(kernel, n, scale, seed):
    source, _, result = kernel.formats.partition("->")
    fmt, panel = format_of(source), format_of(result)
    scale = scale if fmt.bits == 8 else 0
    codes = random_operand((n,), fmt, seed, patterns=not (fmt.bits == 16 and panel.bits == 16))
    to = np.full(n + 8, 1.5, panel.dtype)
    low = np.full(n + 8, 1.5, panel.dtype)
    call = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 4, ctypes.c_int64)(kernel.address)
    call(format_record(fmt, scale).ctypes.data, codes.ctypes.data, to.ctypes.data, low.ctypes.data, n)
    with np.errstate(invalid="ignore"):
        wanted = np.ldexp(codes.astype(np.float64), scale)
        got = to[:n].astype(np.float64)
        if fmt.name == "float16" and panel.name == "bfloat16":
            got = got + low[:n].astype(np.float64)
    np.testing.assert_array_equal(got, wanted)
    assert (to[n:] == 1.5).all()
    assert (low[n:] == 1.5).all()


@these("transpose")
@pytest.mark.parametrize("lines", [1, 7, 15, 16])
@pytest.mark.parametrize("cells", [1, 15, 16, 17, 40])
@pytest.mark.parametrize("apart", [20, 16, 8, 3])
def test_lines_turn_into_lines_of_sixteen_cells(kernel, lines, cells, apart):
    """Where these lie nearer, each is written over the one before."""
    source = np.arange(lines * (cells + 3), dtype=np.int32).reshape(lines, cells + 3)
    to = np.full(cells * apart + 20, -7, np.int32)
    call = ctypes.CFUNCTYPE(None, ctypes.c_void_p, *[ctypes.c_int64] * 3, ctypes.c_void_p, ctypes.c_int64)
    call(kernel.address)(source.ctypes.data, source.strides[0], lines, cells, to.ctypes.data, 4 * apart)
    wanted = np.full_like(to, -7)
    for k in range(cells):
        wanted[k * apart : k * apart + 16] = [*source[:, k], *[0] * (16 - lines)]
    np.testing.assert_array_equal(to, wanted)


@these("interleave")
@pytest.mark.parametrize("n", [0, 1, 31, 32, 33, 70])
def test_two_lines_interleave(kernel, n):
    even, odd = np.arange(n, dtype=np.uint16), np.arange(n, dtype=np.uint16) + 1000
    to = np.full(2 * n + 4, 9, np.uint16)
    ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 3, ctypes.c_int64)(kernel.address)(
        even.ctypes.data, odd.ctypes.data, to.ctypes.data, n
    )
    np.testing.assert_array_equal(to, [*np.stack([even, odd], 1).ravel(), 9, 9, 9, 9])


@these("pair")
@given(n=st.integers(0, 200), scale=st.integers(-20, 20), seed=st.integers(0, 2**16))
def test_two_lines_of_codes_become_cells(kernel, n, scale, seed):
    fmt, panel = (format_of(name) for name in kernel.formats.split("->"))
    lines = random_operand((2, n), fmt, seed, patterns=True)
    to = np.full(2 * n + 8, 1.5, panel.dtype)
    ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 4, ctypes.c_int64)(kernel.address)(
        format_record(fmt, scale).ctypes.data, lines[0].ctypes.data, lines[1].ctypes.data, to.ctypes.data, n
    )
    with np.errstate(invalid="ignore"):
        wanted = np.ldexp(lines.T.astype(np.float64), scale)
        np.testing.assert_array_equal(to[: 2 * n].astype(np.float64), wanted.ravel())
    assert (to[2 * n :] == 1.5).all()


@decoding("lines")
@given(lines=st.integers(0, 3), n=st.just(16) | st.integers(0, 200), scale=st.integers(-20, 20),
       seed=st.integers(0, 2**16))
def test_lines_of_codes_are_decoded_where_each_belongs(kernel, lines, n, scale, seed):
    fmt, panel = (format_of(name) for name in kernel.formats.split("->"))
    scale = scale if fmt.bits == 8 else 0
    codes = random_operand((lines, n + 3), fmt, seed, patterns=True)
    to = np.full((lines, n + 8), 1.5, panel.dtype)
    pointer, number = ctypes.c_void_p, ctypes.c_int64
    ctypes.CFUNCTYPE(None, pointer, pointer, number, number, pointer, number, number)(kernel.address)(
        format_record(fmt, scale).ctypes.data, codes.ctypes.data, (n + 3) * fmt.itemsize, lines, to.ctypes.data,
        (n + 8) * panel.itemsize, n,
    )  # fmt: skip
    with np.errstate(invalid="ignore"):
        np.testing.assert_array_equal(to[:, :n].astype(np.float64), np.ldexp(codes[:, :n].astype(np.float64), scale))
    assert (to[:, n:] == 1.5).all()


@these("round_at_random")
@pytest.mark.parametrize("n", [0, 1, 15, 16, 17, 5000])
def test_sums_are_rounded_at_random_as_a_cast_rounds_them(kernel, n):
    rng = np.random.default_rng(n)
    sums = rng.integers(0, 2**32, n + 1, dtype=np.uint32).view(np.float32)
    sums[:n:2] = (rng.standard_normal(n) * np.float32(2.0) ** rng.integers(-30, 18, n)).astype(np.float32)[::2]
    words = rng.integers(0, 2**32, n, dtype=np.uint32)
    with np.errstate(invalid="ignore"):
        codes = encode(sums[:n], FP16, rounding="stochastic", words=words)
    last = sums[n].tobytes()
    ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p)(kernel.address)(
        sums.ctypes.data, n, words.ctypes.data
    )
    np.testing.assert_array_equal(sums[:n], decode(codes, FP16))
    np.testing.assert_array_equal(sums[:n].astype(np.float16).view(np.uint16), codes)
    assert sums[n].tobytes() == last


@pytest.mark.parametrize("fmt", FORMATS, ids=str)
@given(st.data())
def test_epilogues_give_the_same_bits_at_every_level(fmt, data):
    rows, cols = data.draw(st.integers(1, 4)), data.draw(st.integers(1, 70))
    step, activation = data.draw(st.sampled_from([1, 3])), data.draw(st.integers(0, 3))
    beta = data.draw(st.sampled_from([0.0, 0.75]))
    seed = data.draw(st.integers(0, 2**16))
    sums = random_operand((rows, cols), "float32", seed) * np.float32(10)
    bias, row_bias = random_operand((cols,), "float32", seed + 1), random_operand((rows,), "float32", seed + 2)
    first = None
    for kernel in (k for k in kernels("dot") if k.op == "epilogue" and k.formats == f"float32->{fmt}"):
        out = random_operand((rows + 1, step * cols + 2), fmt, seed + 3)
        before = out.copy()
        e = record_of(
            "pop_epilogue", format=format_record(fmt).ctypes.data, overflow=infinite_overflow(fmt),
            activation=activation, alpha=1.5, beta=beta, bias=bias.ctypes.data, row_bias=row_bias.ctypes.data,
            out=out.ctypes.data, out_row=out.strides[0], out_col=step * out.itemsize,
        )  # fmt: skip
        call = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, *[ctypes.c_int64] * 3)
        call(kernel.address)(e.ctypes.data, sums.ctypes.data, cols, rows, cols)
        untouched = np.ones(out.shape, bool)
        untouched[:rows, : step * cols : step] = False
        assert_same_bits(out[untouched], before[untouched], kernel_name=kernel.name)
        first = out if first is None else first
        assert_same_bits(out, first, kernel_name=f"{kernel.level} {kernel.name}")


@pytest.mark.parametrize("fmt", [fmt for fmt in FORMATS if fmt.bits == 8], ids=str)
def test_epilogues_take_no_bit_of_a_nan_for_a_code(fmt):
    bits = np.random.default_rng(0).integers(0, 2**32, (64, 1024), dtype=np.uint32) | np.uint32(0x7F800001)
    sums = bits.view(np.float32)
    for kernel in (k for k in kernels("dot") if k.op == "epilogue" and k.formats == f"float32->{fmt}"):
        out = np.zeros(sums.shape, fmt.code_dtype)
        e = record_of("pop_epilogue", format=format_record(fmt).ctypes.data, overflow=infinite_overflow(fmt), alpha=1.0,
                      out=out.ctypes.data, out_row=out.strides[0], out_col=1)  # fmt: skip
        call = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, *[ctypes.c_int64] * 3)
        call(kernel.address)(e.ctypes.data, sums.ctypes.data, sums.shape[1], *sums.shape)
        assert np.isnan(decode(out, fmt)).all(), kernel.name


@pytest.mark.parametrize("gap", [0, 3])
@pytest.mark.parametrize("cols", [15, 16, 17, 31, 32, 33, 48, 63, 64, 65, 80, 97, 128, 144, 200])
@pytest.mark.parametrize("fmt", [fmt for fmt in FORMATS if fmt.bits == 8], ids=str)
def test_bytes_of_rows_of_any_width_are_those_of_single_numbers(fmt, cols, gap):
    rng, rows = np.random.default_rng(cols), 5
    values = decode(np.arange(256, dtype=fmt.code_dtype), fmt)
    values = np.sort(values[np.isfinite(values)]).astype(np.float32)
    values = np.concatenate([values, (values[1:] + values[:-1]) / 2])  # what lies halfway too, and next to it
    values = np.concatenate([values, *(np.nextafter(values, np.float32(to)) for to in (-np.inf, np.inf))])
    sums = rng.choice(values, (rows, cols + gap)).astype(np.float32)
    sums[1, cols // 2], sums[2, -gap - 1], sums[3, 0] = np.nan, np.inf, 1e30
    first = None
    for kernel in (k for k in kernels("dot") if k.op == "epilogue" and k.formats == f"float32->{fmt}"):
        out = np.full((rows + 1, cols + gap), 7, fmt.code_dtype)
        e = record_of("pop_epilogue", format=format_record(fmt).ctypes.data, overflow=infinite_overflow(fmt), alpha=1.0,
                      out=out.ctypes.data, out_row=out.strides[0], out_col=1)  # fmt: skip
        call = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, *[ctypes.c_int64] * 3)
        call(kernel.address)(e.ctypes.data, sums.ctypes.data, sums.shape[1], rows, cols)
        first = encode(sums[:, :cols], fmt).astype(fmt.code_dtype) if first is None else first
        np.testing.assert_array_equal(out[:rows, :cols], first, err_msg=f"{kernel.level} {kernel.name}")
        assert (out[:, cols:] == 7).all()
        assert (out[rows] == 7).all()
