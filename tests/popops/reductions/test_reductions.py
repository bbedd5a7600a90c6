"""Reductions: bounds, orders of sums, special values, axes, dtypes, out, defaults, bad input."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest

from poplibs_py import popops, profile, testing
from poplibs_py.config import thread_limit
from poplibs_py.errors import InvalidArgumentError, InvalidTypeError, PoplibsError
from poplibs_py.formats import BF16, F143, FORMATS, FP16, FP32, QuarterArray
from poplibs_py.kernels import Selection, kernels
from poplibs_py.kernels import select as taken
from poplibs_py.memo import forget
from poplibs_py.ops import catalogue
from poplibs_py.popops.counts.lower import lower_bincount, lower_greatest, lower_histogram
from poplibs_py.popops.elementwise.cast import cast
from poplibs_py.popops.reductions import named as reductions
from poplibs_py.popops.reductions.bound import roundings
from poplibs_py.popops.reductions.lower import BLOCK, ReduceParams, Way, lower, lower_scan
from poplibs_py.program import memory_in_use, memory_peak
from poplibs_py.testing import as_format, assert_same_bits
from poplibs_py.testing.exact import exact_values

NAMES = [*reductions.__all__, "reduce"]
TO_NUMPY = {"sum": np.sum, "prod": np.prod, "max": np.max, "min": np.min, "any": np.any, "all": np.all}
EXTENTS = (1, 2, 3, 6, 9, 12, 15, 16, 17, 127, 128, 129, 300, 511, 512, 513, 1024, 8191, 8193, 20000)
RNG = np.random.default_rng(20261122)
each = pytest.mark.parametrize("name", NAMES)


def numbers(shape, fmt=FP32, seed=0):
    values = np.random.default_rng(seed).standard_normal(shape)
    return as_format(values, fmt)


def bits(x):
    return np.asarray(x).tobytes()


@each
@pytest.mark.parametrize("fmt", [FP32, FP16, BF16, F143], ids=str)
def test_the_order_is_the_rows_alone(name, fmt):
    """Rows as they lie, gathered, as columns, in parts of threads: the same bits."""
    for n in EXTENTS:
        scale = 0.01 if name == "prod" else 1
        x = as_format(np.random.default_rng(n).standard_normal((n, 11)) * scale + (name == "prod"), fmt)
        face = getattr(popops, name)
        due = testing.check(name, x, 0)
        lying = np.asfortranarray(x), np.ascontiguousarray(x[::-1])[::-1], np.repeat(x, 2, axis=1)[:, ::2]
        for y in lying:
            assert bits(face(y, 0)) == bits(due)
        for column in (0, 7, 10):
            assert bits(face(x[:, column])) == bits(due[column])
        assert bits(face(x.reshape(n, 1, 11), (0, 1))) == bits(due)


@each
@pytest.mark.parametrize("fmt", [FP32, FP16, BF16], ids=str)
def test_columns_of_few_elements_are_as_rows(name, fmt):
    """Vectors of columns one by one and several at once, of blocks of some parts and lanes and of all."""
    face = getattr(popops, name)
    for n in (1, 3, 8, 9, 15, 16, 17, 31, 32, 33, 47, 48, 49, 63, 64, 65):
        x = numbers((2, n, 75), fmt, n)
        assert bits(face(x, 1)) == bits(face(np.ascontiguousarray(x.swapaxes(1, 2)), 2))


@pytest.mark.parametrize("n", [520, 528, 784, 1041, 7000])
@pytest.mark.parametrize("fmt", [FP32, FP16], ids=str)
def test_many_rows_of_blocks_and_more_are_as_columns(n, fmt):
    """More rows than are taken together, whose ends are read with their beginnings."""
    x = numbers((300, n), fmt)
    for name in ("sum", "max", "square_sum", "variance"):
        face = getattr(popops, name)
        assert bits(face(x, 1)) == bits(face(np.ascontiguousarray(np.asarray(x).T), 0))


@each
def test_threads_change_nothing(name):
    scale = 1e-4 if name == "prod" else 1
    for shape, axes in (((1 << 18,), None), ((6, 70000), 1), ((700, 512), 1), ((700, 512), 0), ((20000, 24), 0)):
        x = numbers(shape) * np.float32(scale) + np.float32(name == "prod")
        results = []
        for threads in (1, 2, 5):
            with thread_limit(threads):
                results.append(bits(getattr(popops, name)(x, axes)))
        assert len(set(results)) == 1


@pytest.mark.parametrize("name", ["max", "min"])
def test_the_order_says_which_of_two_zeros(name):
    x = np.copysign(np.float32(0), numbers((1500, 40)))
    due = bits(getattr(popops, name)(x, 0))
    assert due == bits(getattr(popops, name)(np.asfortranarray(x), 0))
    assert due == bits(getattr(popops, name)(np.repeat(x, 2, axis=1)[:, ::2], 0))


STATES = {"moments": ("moments", "spread"), "logsumexp": ("log", "log"), "argmax": ("argmax", "index"),
          "argmin": ("argmin", "index"), "prod": ("product", "plain"), "min": ("min", "plain")}


@pytest.mark.parametrize("kernel", [k for k in kernels("reduce") if k.formats != "any"
                                    and k.op not in ("scan", "weighted")], ids=lambda k: k.label)
def test_levels_give_the_same_bits(kernel, monkeypatch):
    state, finish = STATES.get(kernel.op, ("compensated", "plain") if "compensated" in kernel.op else
                               ("sum", "plain") if kernel.op.endswith("sum") else ("max", "plain"))
    fmt = next(f for f in FORMATS if f.name == kernel.formats)
    result = np.dtype(np.int64) if finish == "index" else FP32
    portable = [k for k in kernels("reduce") if k.level == "portable"]
    same_level = [k for k in kernels("reduce") if k.level == kernel.level]

    def run(chosen, x, axis):
        def select(family, op, formats):
            if family != "reduce":
                return taken(family, op, formats)
            return Selection(next(k for k in chosen if k.op == op and k.formats in (formats, "any")), ())

        monkeypatch.setattr("poplibs_py.popops.reductions.lower.kernels", lambda family: chosen)
        monkeypatch.setattr("poplibs_py.popops.reductions.lower.select", select)
        scale = 1.0 if kernel.op != "logsumexp" else 0.0
        way = Way(kernel.op, state, finish)
        params = ReduceParams(way, fmt, 0, x.shape, x.strides, (axis,), result, 0, scale, False)
        out = np.empty(x.shape[1 - axis], result if finish == "index" else np.float32)
        lower.__wrapped__(params, 1).executable(x, out)
        return out.tobytes()

    for shape in ((5, 16), (300, 33), (40, 600), (9000, 20)):
        values = np.random.default_rng(3).standard_normal(shape)
        values = values * 0.01 + 1 if kernel.op == "prod" else values
        for special in (False, True):
            x = as_format(values, fmt)
            if special:
                x[shape[0] // 2, 1], x[2, 0], x[0, 3:5] = math.nan, -math.inf, (math.inf, -0.0)
            for axis in (0, 1):
                assert run(same_level, x, axis) == run(portable, x, axis)


@pytest.mark.parametrize("level", sorted({k.level for k in kernels("reduce")}))
def test_running_reductions_and_counts_are_the_same_at_each_level(level, monkeypatch):
    x, levels = numbers((5000, 20), FP16), np.sort(numbers((99,)))
    x[7, 3] = math.nan
    whole = RNG.integers(-2**31, 2**31, x.shape)
    scans = popops.cumulative_sum, popops.cumulative_prod, popops.cumulative_max
    calls = [lambda f=f, y=y, axis=axis: f(y, axis) for f in scans for y in (x, whole) for axis in (0, 1)]
    even = np.linspace(-2, 2, 99, dtype=np.float32)
    calls += [lambda: popops.histogram(x, levels), lambda: popops.histogram(x, even)]
    calls += [lambda w=w: popops.bincount(whole[:, 0] & 511, w) for w in (None, x[:, 0], whole[:, 1])]
    due = [bits(call()) for call in calls]

    def select(family, op, formats):
        found = [k for k in kernels("reduce") if (k.level, k.op, k.formats) == (level, op, formats)]
        return Selection(found[0], ()) if found else taken(family, op, formats)

    monkeypatch.setattr("poplibs_py.popops.reductions.request.lower_scan", lower_scan.__wrapped__)
    for lowered in (lower_histogram, lower_bincount, lower_greatest):
        monkeypatch.setattr(f"poplibs_py.popops.counts.api.{lowered.__name__}", lowered.__wrapped__)
    monkeypatch.setattr("poplibs_py.popops.counts.lower.select", select)
    monkeypatch.setattr("poplibs_py.popops.reductions.lower.select", select)
    forget()
    assert [bits(call()) for call in calls] == due
    forget()


@pytest.mark.parametrize("name", ["sum", "max", "variance", "argmax"])
@pytest.mark.parametrize("fmt", [FP32, BF16], ids=str)
@pytest.mark.parametrize("shape", [(300, 2), (77, 4), (130, 8), (100, 16), (3, 40 * 8192 + 700), (1, 17 * 8192)],
                         ids=str)
def test_rows_that_lie_together_give_what_they_give_apart(name, fmt, shape):
    x = popops.cast(np.random.default_rng(11).standard_normal(shape).astype(np.float32), fmt)
    x.flat[-1] = x.flat[5]
    apart = np.zeros((shape[0], 2 * shape[1] + 3), x.dtype)[:, 1:1 + shape[1]]
    apart[...] = x
    strided = np.zeros((*shape, 2), x.dtype)[..., 1]
    strided[...] = x
    face = getattr(popops, name)
    due = face(x, -1).tobytes()
    assert face(apart, -1).tobytes() == due
    assert face(strided, -1).tobytes() == due



@pytest.mark.parametrize("name", ["sum", "square_sum", "mean"])
@pytest.mark.parametrize("fmt", [FP32, FP16, BF16], ids=str)
def test_whole_numbers_are_added_exactly(name, fmt):
    x = RNG.integers(-3, 4, (64, 1024)).astype(np.float32)
    exact = {"sum": x.sum(1), "square_sum": (x * x).sum(1), "mean": x.sum(1) / 1024}[name]
    got = getattr(popops, name)(as_format(x, fmt), 1, out_dtype="float32")
    assert_same_bits(got, exact.astype(np.float32))


def test_compensated_sums_are_nearly_exact():
    rng = np.random.default_rng(5)
    x = (rng.standard_normal(5000) * 10.0 ** rng.integers(-6, 6, 5000)).astype(np.float32)
    y = np.concatenate([x, -x, [np.float32(0.3)]])
    assert abs(float(popops.sum(y)) - 0.3) > 1e-3
    assert abs(float(testing.check("sum", y, compensated=True)) - float(sum(exact_values(y)))) < 1e-6
    assert float(popops.sum([math.inf, 1.0, 2.0], compensated=True)) == math.inf
    testing.check("norm", x, compensated=True)


def test_variances_do_not_suffer_from_the_mean():
    x = np.float32(1e4) + RNG.integers(-8, 8, (3, 100_000)).astype(np.float32) / 512
    due = x.astype(np.float64).var(1)
    np.testing.assert_allclose(popops.variance(x, 1), due, rtol=50 * FP32.unit_roundoff)
    testing.check("standard_deviation", x, 1, ddof=1)


def test_roundings_are_within_twice_the_logarithm():
    assert all(roundings(n) <= max(0, 2 * math.log2(n)) for n in range(1, 2000))
    assert max(roundings(n) for n in range(1, 5000)) == roundings(BLOCK) == 13


@pytest.mark.parametrize("place", [0, 5, 511, 512, 9000, 19999])
@pytest.mark.parametrize("axis", [0, 1])
def test_nan_is_numpys(place, axis):
    x = numbers((20000, 9))
    x[place] = math.nan
    y = x if axis == 0 else np.ascontiguousarray(x.T)
    for name in ("max", "min"):
        assert np.isnan(getattr(popops, name)(y, axis)).all()
        assert (getattr(popops, "arg" + name)(y, axis) == place).all()
    assert popops.has_nan(y, axis).all()
    assert not popops.has_nan(numbers((20000, 9)), axis).any()


def test_places_are_the_first():
    for n in (1, 7, 16, 600, 9000):
        x = RNG.integers(0, 4, (n, 12)).astype(np.float32)
        for axis, y in ((0, x), (1, np.ascontiguousarray(x.T)), (0, x.astype(np.float16)), (0, cast(x, F143))):
            z = np.asarray(y, np.float32)
            np.testing.assert_array_equal(popops.argmax(y, axis), z.argmax(axis))
            np.testing.assert_array_equal(popops.argmin(y, axis), z.argmin(axis))
    assert int(popops.argmax(np.full(700, -np.inf, np.float32))) == 0
    assert int(popops.argmax(x[None], keepdims=True)[0, 0, 0]) == x.argmax()


def test_infinities_in_logarithms():
    low = np.full((3, 700), -np.inf, np.float32)
    low[1, 600], low[2, 3] = 5.0, math.inf
    np.testing.assert_array_equal(popops.logsumexp(low, 1), np.float32([-np.inf, 5.0, np.inf]))
    np.testing.assert_array_equal(popops.logsumexp(low.T, 0), np.float32([-np.inf, 5.0, np.inf]))
    assert np.isnan(popops.logsumexp([math.nan, 1.0]))


@pytest.mark.parametrize(("name", "due"), [
    ("sum", 0), ("prod", 1), ("square_sum", 0), ("mean", math.nan), ("variance", math.nan), ("any", 0), ("all", 1),
    ("logsumexp", -math.inf), ("norm", 0), ("has_nan", 0),
])  # fmt: skip
def test_rows_of_nothing_give_the_identity(name, due):
    for fmt in (FP32, FP16, F143):
        got = getattr(popops, name)(np.zeros((2, 0), fmt.dtype), 1)
        np.testing.assert_array_equal(np.asarray(got, np.float32), np.full(2, due, np.float32))
    assert getattr(popops, name)(np.zeros((0, 2), np.float32), 1).shape == (0,)


def test_extremes_of_nothing_are_refused_but_by_poplibs_name():
    empty = np.zeros((2, 0), np.float32)
    for name in ("max", "min", "argmax", "argmin"):
        with pytest.raises(InvalidArgumentError, match=r"^x: got shape \(2, 0\)"):
            getattr(popops, name)(empty, 1)
        assert getattr(popops, name)(np.zeros((0, 0), np.float32), 1).shape == (0,)
    due = {"ADD": 0, "SQUARE_ADD": 0, "MUL": 1, "MIN": np.inf, "MAX": -np.inf, "LOG_ADD": -np.inf}
    for op, value in due.items():
        np.testing.assert_array_equal(popops.reduce(empty, 1, op), np.full(2, value, np.float32))
        testing.check("popops.reduce", empty, 1, op, out_dtype="f143")  # which has no infinity
    assert popops.reduce(empty.astype(np.int16), 1, "MIN").tolist() == [32767] * 2
    held = np.float32([3, 4])
    assert popops.reduce(empty, 1, update=True, out=held).tolist() == [3, 4]


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "bool"])
@pytest.mark.parametrize("name", TO_NUMPY)
def test_integers_are_numpys(name, dtype):
    x = RNG.integers(0, 100, (6, 50)).astype(dtype)
    for axes in (None, 0, 1, (0, 1)):
        got, due = getattr(popops, name)(x, axes), TO_NUMPY[name](x, axis=axes)
        assert got.dtype == due.dtype
        np.testing.assert_array_equal(got, due)
    wrapped = popops.reduce(x, 1, "MUL")
    assert wrapped.dtype == x.dtype
    np.testing.assert_array_equal(wrapped, np.prod(x, axis=1, dtype=x.dtype))
    assert popops.mean(x).dtype == np.float32


@each
def test_defaults_and_shapes(name):
    x = numbers((2, 3, 4), FP16)
    face = getattr(popops, name)
    for axes, shape, kept in ((None, (), (1, 1, 1)), (-1, (2, 3), (2, 3, 1)), ((0, 2), (3,), (1, 3, 1)),
                              ((), x.shape, x.shape)):
        got = face(x, axes)
        assert (got.shape, face(x, axes, keepdims=True).shape) == (shape, kept)
        assert got.dtype in (np.float16, np.bool_, np.int64)
    assert face(numbers((3,), F143)).dtype in (np.float16, np.bool_, np.int64)
    assert face(np.float32(1.5)).shape == ()
    assert catalogue[f"popops.{name}"].poplibs in ("popops::reduce", "") or "pop" in catalogue[f"popops.{name}"].poplibs


def test_axes_that_lie_anyhow():
    x = numbers((3, 40, 5, 17))
    for order in ((0, 1, 2, 3), (3, 1, 0, 2), (2, 3, 1, 0)):
        lying = np.ascontiguousarray(x.transpose(order)).transpose(np.argsort(order))
        for axes in ((0,), (1, 3), (0, 2), (1, 2, 3), (0, 1, 2, 3)):
            assert bits(popops.sum(lying, axes)) == bits(popops.sum(x, axes))
            assert bits(popops.argmax(lying, axes)) == bits(popops.argmax(x, axes))


def test_out_may_lie_anyhow_and_overlap():
    x = numbers((40, 30))
    due = popops.sum(x, 0)
    out = np.zeros((30, 2), np.float32)[:, 0]
    assert popops.sum(x, 0, out=out) is out
    np.testing.assert_array_equal(out, due)
    held = x.copy()
    popops.sum(held, 0, out=held[7])
    np.testing.assert_array_equal(held[7], due)
    halves = np.zeros(30, np.float16)
    popops.sum(x, 0, out=halves)
    np.testing.assert_array_equal(halves, due.astype(np.float16))


def test_scales_are_part_of_the_numbers():
    x = numbers((6, 700))
    for blocks in (None, (2, -1), (1, 100)):
        q = cast(x, F143, scale="auto", block_shape=blocks)
        for axes in (0, 1):
            assert bits(popops.sum(q, axes, out_dtype=FP32)) == bits(popops.sum(cast(q, FP32), axes))
            assert bits(popops.argmax(q, axes)) == bits(popops.argmax(cast(q, FP32), axes))
    out = QuarterArray(np.zeros(6, np.uint8), F143, 5)
    popops.sum(q, 1, out=out)
    testing.check("sum", q, 1, out=out)


def test_numbers_with_scales_of_blocks_are_decoded_in_memory_that_is_told():
    x = numbers((16, 64)) * np.geomspace(1, 1e6, 16, dtype=np.float32)[:, None]
    q = cast(x, F143, scale="auto", block_shape=(1, -1))
    memory_peak(reset=True)
    held = memory_in_use()
    request = popops.sum.function(q, 1)
    assert memory_peak() - held < 4 * q.size  # what is described takes none of it
    with profile() as report:
        popops.sum(q, 1)
    assert report.runs[0].temporary_bytes == request.program.temporary_bytes >= 4 * q.size


@pytest.mark.parametrize("make", [
    np.float16, lambda x: (x * 4).astype(np.int16), lambda x: x > 0.5, lambda x: QuarterArray.from_array(x, "f143", 2),
    lambda x: QuarterArray.from_array(x, "f143", "auto", (1, 8)),
], ids=["FP16", "integers", "truths", "a scale", "scales of blocks"])  # fmt: skip
def test_extremes_with_their_places_are_those_of_two_calls(make):
    x = make(np.random.default_rng(4).standard_normal((5, 40)).astype(np.float32))
    for name, other in (("max", "argmax"), ("min", "argmin")):
        due = [getattr(popops, one)(x, 1, keepdims=True) for one in (name, other)]
        outs = tuple(np.zeros_like(y) for y in due)
        for _ in range(3):
            made = getattr(popops, f"{name}_with_indices")(x, 1, keepdims=True)
            written = getattr(popops, f"{name}_with_indices")(x, 1, keepdims=True, out=outs)
            assert [bits(y) for y in made] == [bits(y) for y in written] == [bits(y) for y in due]
        assert written.values is outs[0]


def test_extremes_with_their_places_see_other_scales_of_blocks_in_the_next_call():
    codes = QuarterArray.from_array(np.float32([[1, 2], [1, 1]]), "f143").codes
    for scale in ([[0], [0]], [[0], [2]], [[0], [0]]):
        made = popops.max_with_indices(QuarterArray(codes, "f143", scale, (1, 2)))
        assert (made.values.item(), made.indices.item()) == ((4, 2) if scale[1][0] else (2, 1))


@pytest.mark.parametrize("name", ["cumulative_sum", "cumulative_prod", "cumulative_max", "cumulative_min"])
def test_running_reductions_are_of_rows_alone(name):
    scan = getattr(popops, name)
    for fmt in (FP32, BF16, F143):
        for shape in ((700, 11), (3, 5000), (2, 600, 9), (40,)):
            x = numbers(shape, fmt)
            for axis in (None, *range(-1, len(shape))):
                due = testing.check(name, x, axis)
                for y in (np.asfortranarray(x), np.repeat(x, 2, axis=-1)[..., ::2]):
                    assert bits(scan(y, axis)) == bits(due)
            column = x[(slice(None), *(0,) * (len(shape) - 1))]
            assert bits(scan(column)) == bits(np.asarray(scan(x, 0))[(slice(None), *(0,) * (len(shape) - 1))])
    held = numbers((50,))
    due = scan(held)
    np.testing.assert_array_equal(scan(held, out=held), due)


_ACCUMULATED = {"cumulative_sum": np.cumsum, "cumulative_prod": np.cumprod,
                "cumulative_max": np.maximum.accumulate, "cumulative_min": np.minimum.accumulate}


@pytest.mark.parametrize("name", _ACCUMULATED)
@pytest.mark.parametrize("dtype", ["bool", *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64))])
def test_running_reductions_of_integers_are_those_of_numpy(name, dtype):
    limits = (0, 1) if dtype == "bool" else (np.iinfo(dtype).min, np.iinfo(dtype).max)
    scan, accumulate = getattr(popops, name), _ACCUMULATED[name]
    for shape in ((7,), (700, 11), (3, 5000), (2, 600, 9)):
        x = RNG.integers(*limits, shape, np.uint64 if dtype == "uint64" else np.int64, endpoint=True).astype(dtype)
        for y in (x, np.asfortranarray(x), np.repeat(x, 2, axis=-1)[..., ::-2]):
            for axis in range(len(shape)):
                due = accumulate(y, axis)
                got = scan(y, axis)
                assert got.dtype == due.dtype
                np.testing.assert_array_equal(got, due)
                out = np.zeros(shape[::-1], due.dtype).T
                np.testing.assert_array_equal(scan(y, axis, out=out), due)
            np.testing.assert_array_equal(scan(y), accumulate(y.ravel()))
    assert scan(np.zeros((0, 3), dtype), 0).shape == (0, 3)


def test_running_sums_keep_minus_zero_and_not_a_number():
    x = np.full(9, -0.0, np.float32)
    assert np.signbit(popops.cumulative_sum(x)).all()
    x[5] = math.nan
    for name in _ACCUMULATED:
        np.testing.assert_array_equal(np.isnan(getattr(popops, name)(x)), np.arange(9) >= 5)


def test_many_reductions():
    x, out = numbers((4, 5)), np.ones(5, np.float32)
    first, second = popops.reduce_many([{"x": x, "axes": 1}, {"x": x, "axes": 0, "op": "MAX", "out": out}])
    np.testing.assert_array_equal(first, popops.sum(x, 1))
    assert second is out
    with pytest.raises(InvalidArgumentError, match=r"^reductions: got"):
        popops.reduce_many([{"x": x, "axis": 1}])
    held = out.copy()
    for wrong in ({"x": x, "axes": 2}, {"x": x, "op": "MEAN"}, {"x": x, "out": np.zeros(3, np.int32)}, {"x": "x"}):
        with pytest.raises(PoplibsError):
            popops.reduce_many([{"x": x, "axes": 0, "out": out}, wrong])
        assert_same_bits(out, held)
    popops.reduce_many([{"x": x, "axes": 0, "out": out}, {"x": out, "axes": 0, "out": out[:1], "keepdims": True}])
    np.testing.assert_array_equal(out[:1], popops.sum(popops.sum(x, 0), keepdims=True))


def test_a_run_is_recorded():
    with profile() as report:
        popops.sum(numbers((4, 500)), 0)
        popops.argmax([1, 2, 3])
    assert [run.op for run in report.runs] == ["popops.sum", "popops.argmax"]
    assert report.runs[0].kernel.startswith("sum_f32 (")
    assert "columns" in str(report.runs[0].plan)


X = np.ones((2, 3), np.float32)


@pytest.mark.parametrize(("name", "arguments", "message"), [
    ("sum", {"x": X.astype(float)}, "x: got dtype float64"),
    ("sum", {"x": X.astype(complex)}, "x: got dtype complex128"),
    ("sum", {"x": X.astype(">f4")}, "x: got dtype >f4"),
    ("logsumexp", {"x": X.astype(int)}, "x: got dtype int64"),
    ("sum", {"x": X, "axes": 2}, "axes: got 2"),
    ("sum", {"x": X, "axes": (0, -2)}, "axes: got (0, -2)"),
    ("sum", {"x": X, "axes": "0"}, "axes: got"),
    ("sum", {"x": X, "axes": 0.5}, "axes: got 0.5"),
    ("sum", {"x": X, "keepdims": 2}, "keepdims: got 2"),
    ("sum", {"x": X, "out": np.zeros(2, np.float32)}, "out: got shape (2,)"),
    ("any", {"x": X, "out": np.zeros((), np.float32)}, "out: got an array of float32"),
    ("variance", {"x": X, "ddof": -1}, "ddof: got -1"),
    ("norm", {"x": X, "ord": 3}, "ord: got 3"),
    ("norm", {"x": X, "ord": 1, "compensated": True}, "compensated: got True"),
    ("reduce", {"x": X, "op": "add"}, "op: got add"),
    ("reduce", {"x": X, "op": "MAX", "scale": 2.0}, "scale: got 2.0; allowed: None for op='MAX': only ADD, "),
    ("reduce", {"x": X, "op": "MAX", "update": True}, "update: got True; allowed: False for op='MAX': only ADD"),
    ("reduce", {"x": X, "update": True}, "update: got True"),
    ("reduce", {"x": X, "scale": math.inf}, "scale: got inf"),
    ("sum", {"x": X.astype(int), "out_dtype": "float32"}, "out_dtype: got float32"),
    ("argmax", {"x": X, "axes": 1, "out": np.zeros(2, np.int32)}, "out: got an array of int32"),
])  # fmt: skip
def test_bad_arguments_are_named(name, arguments, message):
    with pytest.raises((InvalidArgumentError, InvalidTypeError), match="^" + re.escape(message)):
        getattr(popops, name)(**arguments)
