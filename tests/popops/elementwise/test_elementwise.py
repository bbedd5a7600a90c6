"""Elementwise operations of one number: every code of every format, layouts, `out`, defaults, bad input."""

import inspect
import re

import numpy as np
import pytest
from format_oracle import MORE, USERS
from hypothesis import given
from hypothesis import strategies as st
from numpy.lib.stride_tricks import as_strided
from test_cast import array_of, codes_of, strided

from poplibs_py import popops, profile, testing
from poplibs_py.config import thread_limit
from poplibs_py.errors import InvalidArgumentError, InvalidTypeError
from poplibs_py.formats import BF16, E4M3, F143, FORMATS, FP16, FP32, QuarterArray
from poplibs_py.formats.reference import encode
from poplibs_py.popops import cast
from poplibs_py.popops.elementwise.table import ELEMENTWISE
from poplibs_py.popops.strided.lower import THREAD_ELEMENTS

ROWS = {name: row for name, row in ELEMENTWISE.items() if row.operands == ("x",) and "f" in row.kinds}
OPS = [getattr(popops, name) for name, row in ROWS.items() if not row.tells]
NARROW = [*FORMATS[1:], USERS[0], USERS[4], USERS[6]]
OTHERS = [fmt for fmt in MORE if fmt not in NARROW]
each = pytest.mark.parametrize("op", OPS, ids=lambda op: op.__name__)

RNG = np.random.default_rng(20240131)


def every_code(fmt):
    codes = np.arange(1 << fmt.bits).astype(fmt.code_dtype)
    return array_of(fmt, codes) if fmt in FORMATS else QuarterArray(codes, fmt)


def same_numbers(got, want, fmt):
    """The same codes, or NaN both."""
    nans = [np.isnan(cast(array_of(fmt, c), FP32)) for c in (got, want)]
    np.testing.assert_array_equal(*nans)
    np.testing.assert_array_equal(got[~nans[0]], want[~nans[0]])


@each
@pytest.mark.parametrize("fmt", [*NARROW, *(pytest.param(fmt, marks=pytest.mark.nightly) for fmt in OTHERS)], ids=str)
def test_every_code_of_every_format(op, fmt):
    """Within the bound, and for every target the FP32 result rounded once."""
    x = every_code(fmt)
    if fmt.signed and fmt.zero:  # else there are numbers that nothing is near to
        testing.check(op.__name__, x)
    numbers = op(cast(x, FP32))
    for target in (fmt, FP16, BF16, F143, E4M3, FP32):
        got = op(x, out_dtype=target)
        with np.errstate(invalid="ignore"):
            want = numbers.view(np.uint32) if target == FP32 else encode(numbers.astype(np.float64), target)
        same_numbers(codes_of(got, target), want, target)


@pytest.mark.parametrize("fmt", [*NARROW, *OTHERS], ids=str)
def test_questions_of_every_code_of_every_format(fmt):
    x = every_code(fmt)
    with np.errstate(all="ignore"):
        numbers = cast(x, FP32)
    asked = {"is_finite": np.isfinite, "is_inf": np.isinf, "is_nan": np.isnan}
    assert asked.keys() == {name for name, row in ROWS.items() if row.tells}
    for name, due in asked.items():
        np.testing.assert_array_equal(getattr(popops, name)(x), due(numbers))


@each
def test_fp32_of_any_bit_pattern(op):
    x = RNG.integers(0, 2**32, 1 << 16, dtype=np.uint32).view(np.float32)
    usual = RNG.standard_normal(1 << 14), RNG.uniform(-100, 100, 1 << 14)
    for numbers in (x, *(y.astype(np.float32) for y in usual)):
        testing.check(op.__name__, numbers)


@each
@given(strided(np.float32, st.floats(width=32)), st.data())
def test_strides_change_nothing(op, x, data):
    with np.errstate(over="ignore"):
        x = data.draw(st.sampled_from([x, x.astype(np.float16), cast(x, F143)]))
    want = op(x.copy(order="C"))
    np.testing.assert_array_equal(op(x), want)
    out = np.zeros([2 * n for n in x.shape], want.dtype)[tuple(slice(None, None, -2) for _ in x.shape)]
    assert op(x, out=out) is out
    np.testing.assert_array_equal(out, want)


@each
def test_out_may_be_the_operand_or_overlap_it(op):
    numbers = RNG.uniform(0.1, 3, 3000).astype(np.float32)
    want = op(numbers)
    held = numbers.copy()
    assert op(held, out=held) is held
    np.testing.assert_array_equal(held, want)
    for shift in (1, 7, 1024):
        held = np.concatenate([numbers, np.zeros(shift, np.float32)])
        op(held[:3000], out=held[shift:])
        np.testing.assert_array_equal(held[shift:], want)
        held = np.concatenate([np.zeros(shift, np.float32), numbers])
        op(held[shift:], out=held[:3000])
        np.testing.assert_array_equal(held[:3000], want)
    held = numbers.copy()
    op(held[::-1], out=held)
    np.testing.assert_array_equal(held, want[::-1])
    square = numbers[:2500].reshape(50, 50).copy()
    op(square.T, out=square)
    np.testing.assert_array_equal(square, want[:2500].reshape(50, 50).T)
    halves = np.zeros(6000, np.float16)
    halves.view(np.float32)[:] = numbers
    op(halves.view(np.float32), out=halves[3000:])
    np.testing.assert_array_equal(halves[3000:], op(numbers, out_dtype=FP16))


@each
def test_threads_change_nothing(op):
    x = RNG.standard_normal(2 * THREAD_ELEMENTS + 321).astype(np.float32)
    results = []
    for threads in (1, 2):
        with thread_limit(threads):
            results.append((op(x), op(x, out_dtype=FP16)))
    for one, two in zip(*results, strict=True):
        np.testing.assert_array_equal(one, two)


@pytest.mark.parametrize(("x", "fmt"), [
    (np.ones(3, np.float32), FP32), (np.ones(3, np.float16), FP16), (np.ones(3, BF16.dtype), BF16),
    (np.ones(3, F143.dtype), FP16), (QuarterArray(np.zeros(3, np.uint8), F143, 2), FP16), ([1.0, 2.0], FP32),
    (2.5, FP32), (cast(np.ones(3, np.float32), USERS[0]), FP16), (cast(np.ones(3, np.float32), USERS[6]), USERS[6]),
])  # fmt: skip
def test_the_result_has_the_operands_format_of_16_bits_or_more(x, fmt):
    got = popops.exp(x)
    assert (got.format if isinstance(got, QuarterArray) else got.dtype) == (fmt if fmt.dtype is None else fmt.dtype)


def test_scales_are_part_of_the_numbers():
    x = RNG.standard_normal((5, 8)).astype(np.float32)
    q = cast(x, F143, scale="auto", block_shape=(2, -1))
    np.testing.assert_array_equal(popops.exp(q, out_dtype=FP32), popops.exp(cast(q, FP32)))
    out = QuarterArray(np.zeros((5, 8), np.uint8), F143, [[-4], [0], [3]], (2, -1))
    assert popops.exp(q, out=out) is out
    due = QuarterArray(np.zeros((5, 8), np.uint8), F143, [[-4], [0], [3]], (2, -1))
    np.testing.assert_array_equal(out.codes, cast(popops.exp(cast(q, FP32)), F143, out=due).codes)
    testing.check("exp", q, out=out)


@each
def test_shapes_without_elements_and_without_axes(op):
    assert op(np.zeros((3, 0), np.float16)).shape == (3, 0)
    assert op(np.float32(0.5)).shape == ()
    assert op(np.zeros((0,), np.float32), out=np.zeros(0, np.float32)).shape == (0,)


def test_results_are_laid_out_like_the_operand():
    x = np.ones((4, 5, 6), np.float32)
    for view in (x, x.T, x.transpose(1, 0, 2)):
        assert popops.neg(view).strides == view.strides


@each
def test_a_row_is_a_function_and_its_record(op):
    row = ELEMENTWISE[op.__name__]
    assert row.poplibs in op.__doc__
    assert list(inspect.signature(op).parameters) == ["x", "out", "out_dtype", "target"]
    sections = re.findall(r"\n    (\w+)\n    -+\n", op.__doc__)
    assert sections == ["Parameters", "Returns", "Raises", "Examples"]


def test_a_run_is_recorded_by_its_name():
    with profile() as report:
        popops.exp(np.ones(3, np.float32))
        popops.abs(np.ones(3, F143.dtype))
    assert [run.op for run in report.runs] == ["popops.exp", "popops.abs"]
    assert report.runs[0].kernel.startswith("exp_f32 (")


X = np.ones((2, 3), np.float32)


@pytest.mark.parametrize("op", [op for op in OPS if ROWS[op.__name__].kinds == "f"], ids=lambda op: op.__name__)
def test_integers_are_refused_where_there_is_no_operation_of_them(op):
    with pytest.raises(InvalidTypeError, match=r"^x: got dtype int64; allowed: float32, float16"):
        op(X.astype(int))


@each
@pytest.mark.parametrize(("arguments", "message"), [
    ({"x": X.astype(float)}, "x: got dtype float64; allowed: float32, float16, bfloat16 or FP8 numbers, or a Quart"),
    ({"x": X.astype(bool)}, "x: got dtype bool"),
    ({"x": X.astype(complex)}, "x: got dtype complex128"),
    ({"x": X.astype(">f4")}, "x: got dtype >f4"),
    ({"x": "text"}, "x: got"),
    ({"x": [[1.0], [1.0, 2.0]]}, "x: got"),
    ({"x": np.ma.masked_array(X)}, "x: got a masked array"),
    ({"x": X, "out_dtype": "float64"}, "out_dtype: got float64"),
    ({"x": X, "out": np.empty(6, np.float32)}, "out: got shape (6,)"),
    ({"x": X, "out": np.empty((2, 3))}, "out: got dtype float64"),
    ({"x": X, "out": [1]}, "out: got"),
    ({"x": X, "out": np.broadcast_to(np.float32(1), (2, 3))}, "out: got a read-only array"),
    ({"x": X, "out": np.zeros((2, 3), np.float16), "out_dtype": "float32"}, "out: got dtype float16"),
    ({"x": X, "out": as_strided(np.zeros(9, np.float32), (2, 3), (4, 4))}, "out: got an array whose"),
])  # fmt: skip
def test_bad_arguments_are_named(op, arguments, message):
    x = arguments.pop("x") if "x" in (arguments := dict(arguments)) else X
    with pytest.raises((InvalidArgumentError, InvalidTypeError), match="^" + re.escape(message)):
        op(x, **arguments)
