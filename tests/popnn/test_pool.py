"""Pooling on this CPU: windows, maxima and their places, averages, gradients."""

from __future__ import annotations

from itertools import product

import ml_dtypes
import numpy as np
import pytest

from poplibs_py import popnn, testing
from poplibs_py.errors import InvalidArgumentError, PoplibsError, UnsupportedError
from poplibs_py.formats import QuarterArray
from poplibs_py.testing import assert_same_bits

RNG = np.random.default_rng(17)
X = RNG.normal(size=(2, 3, 9, 11)).astype(np.float32)
GEOMETRIES = [
    {"kernel": 3, "stride": 2, "padding": 1}, {"kernel": 2}, {"kernel": (1, 3), "stride": (3, 1), "ceil_mode": True},
    {"kernel": 3, "stride": 1, "dilation": 2, "padding": 2}, {"kernel": 3, "stride": 5, "padding": ((0, 1), (2, -2))},
    {"output_size": (4, 3)}, {"output_size": (3, None)}, {},
]  # fmt: skip
OVERLAPS = [{"kernel": 4, "stride": 2, "padding": 1}, {"kernel": 2, "stride": 1}, {"kernel": (2, 3), "stride": 2},
            {"kernel": (3, 5), "stride": (2, 3), "padding": (1, 2)}, {"kernel": 2, "stride": 2, "dilation": 3}]


def checked(name, *operands, op="max", kernel=None, **how):
    """A call within its bound."""
    more = () if name == "popnn.max_pool_with_indices" else (op,)
    return testing.check(name, *operands, kernel, *more, **how)


@pytest.mark.parametrize("how", GEOMETRIES, ids=str)
@pytest.mark.parametrize("op", ["max", "avg", "sum"])
def test_both_layouts_and_all_strides_give_the_same_bits(how, op):
    first = checked("popnn.pool", X, op=op, **how)
    last = np.ascontiguousarray(np.moveaxis(X, 1, -1))
    if how:  # one window is a reduction, whose order differs from a walk's
        assert_same_bits(np.moveaxis(popnn.pool(last, op=op, layout="NHWC", **how), -1, 1), first)
    wide = np.zeros((2, 6, 9, 22), np.float32)
    wide[:, ::2, ::-1, ::2] = X
    for view in (wide[:, ::2, ::-1, ::2], np.moveaxis(last, -1, 1)):
        assert_same_bits(popnn.pool(view, op=op, **how), first)
    out = np.full((*first.shape[:-1], 2 * first.shape[-1]), 7, np.float32)
    assert popnn.pool(X, op=op, out=out[..., ::2], **how).base is out
    assert_same_bits(out[..., ::2], first)
    assert (out[..., 1::2] == 7).all()


ROWS = [{"kernel": 3, "stride": 2, "padding": 1}, {"kernel": 2}, {"kernel": (2, 3), "stride": 2},
        {"kernel": (3, 2), "stride": 1, "dilation": (20, 3), "padding": 1}, {"kernel": (4, 2), "stride": 1},
        {"kernel": 4, "stride": (3, 2), "padding": 2}, {"kernel": (1, 3), "stride": (1, 2), "padding": (0, 1)},
        {"kernel": 2, "padding": 1}, {"kernel": (1, 2), "stride": (1, 2)}]


def assert_bits_of_channels(shape, dtype, how):
    """Whole numbers, NaN, infinities and zeros, whose channels come first or last."""
    x = RNG.integers(-5, 5, shape).astype(np.float32)
    for channel, odd in enumerate((np.nan, -np.inf, -0.0)[:shape[1]]):
        x[:, channel][RNG.random((shape[0], *shape[2:])) < 0.05] = odd
    x = x.astype(dtype)
    for op in ("max", "avg"):
        found = []
        for layout, given in (("NCHW", x), ("NHWC", np.ascontiguousarray(np.moveaxis(x, 1, -1)))):
            y = popnn.pool(given, op=op, layout=layout, **how)
            grad = np.float32([0, 1, 2, 3, -0.0, 5, 6, np.nan, np.inf])[np.arange(y.size) % 9].astype(dtype)
            grad = grad.reshape(*shape[:2], -1)
            grad = np.moveaxis(grad, 1, -1).reshape(y.shape) if layout == "NHWC" else grad.reshape(y.shape)
            pooled = {"x": given, "pooled_x": y} if op == "max" else {}
            results = [y, popnn.pool_input_gradient(grad, given.shape, op=op, layout=layout, **how, **pooled)]
            if op == "max":
                places = popnn.max_pool_with_indices(given, layout=layout, **how).indices
                results.append(popnn.pool_indices_gradient(grad, places, given.shape, layout=layout, **how))
            found.append([r if layout == "NCHW" else np.moveaxis(r, -1, 1) for r in results])
        for one, other in zip(*found, strict=True):
            assert_same_bits(one, other)


@pytest.mark.parametrize("width", [6, 15, 28, 33])
@pytest.mark.parametrize("how", ROWS, ids=str)
def test_rows_of_every_width_have_the_bits_of_channels(how, width):
    for dtype in (np.float32, np.float16, ml_dtypes.bfloat16):
        assert_bits_of_channels((1, 4, 44, width), dtype, how)


@pytest.mark.parametrize("shape", [(2, 2, 90, 28), (1, 2, 600, 16), (1, 3, 120, 150), (1, 1, 9, 530)])
@pytest.mark.parametrize("how", ROWS[:3], ids=str)
def test_fields_that_are_taken_in_parts_have_the_bits_of_channels(how, shape):
    """Rows of windows are brought in parts, and of long fields there are several units for each channel."""
    for dtype in (np.float32, np.float16, ml_dtypes.bfloat16):
        assert_bits_of_channels(shape, dtype, how)


def test_long_lines_and_many_channels_are_taken_in_parts():
    line, wide = RNG.normal(size=(1, 2, 40000)).astype(np.float16), RNG.normal(size=(1, 40, 3, 600)).astype(np.float32)
    for op, how in product(("max", "avg"), ({"kernel": 5, "stride": 2, "padding": 2}, {"kernel": 4, "stride": 7})):
        y = checked("popnn.pool", line, op=op, **how)
        more = {"x": line, "pooled_x": y} if op == "max" else {}
        checked("popnn.pool_input_gradient", y, line.shape, op=op, **how, **more)
    y = testing.check("popnn.pool", wide, 3, "max", stride=1, padding=1, layout="NHWC")
    testing.check("popnn.pool_input_gradient", y, wide.shape, 3, x=wide, pooled_x=y, stride=1, padding=1, layout="NHWC")
    testing.check("popnn.max_pool_with_indices", wide, 3, stride=2, padding=1, layout="NHWC")


def test_averages_divide_by_what_there_is_or_by_padding_too():
    ones = np.ones((1, 1, 4, 4), np.float32)
    assert (popnn.pool(ones, 3, "avg", stride=1, padding=1) == 1).all()
    with_pad = popnn.pool(ones, 3, "avg", stride=1, padding=1, count_include_pad=True)[0, 0]
    assert with_pad[0, 0] == np.float32(4) / 9
    assert with_pad[1, 1] == 1
    up = popnn.pool(ones[..., :3], (1, 2), "avg", ceil_mode=True, count_include_pad=True)
    assert (up == 1).all()  # what lies beyond the padding is never counted


def test_ceil_mode_takes_no_window_that_begins_beyond_the_field():
    x = np.arange(5, dtype=np.float32).reshape(1, 1, 5)
    assert popnn.pool(x, 1, stride=3, ceil_mode=True).tolist() == [[[0, 3]]]
    assert popnn.pool(x, 2, ceil_mode=True).tolist() == [[[1, 3, 4]]]


def test_nan_is_the_maximum_and_the_first_is_found():
    x = np.float32([[[1, np.nan, 5, np.nan], [-np.inf, -np.inf, -0.0, 0.0]]])
    values, indices = popnn.max_pool_with_indices(x, 2)
    assert np.isnan(values[0, 0]).all()
    assert indices.tolist() == [[[1, 3], [0, 2]]]
    assert popnn.max_pool_with_indices(x, 1, padding=1).indices[0, 0].tolist() == [-1, 0, 1, 2, 3, -1]


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
@pytest.mark.parametrize("kernel", [2, 3])
def test_maxima_of_all_codes_of_16_bits_are_those_of_their_numbers(kernel, dtype):
    for nan in (False, True):
        x = RNG.permutation(65536).astype(np.uint16).view(dtype).reshape(1, 32, 32, 64)
        with np.errstate(invalid="ignore"):  # some NaN signal
            numbers = x.astype(np.float32)
            numbers[np.isnan(numbers)] = np.nan if nan else -np.inf
        if not nan:
            x = numbers.astype(dtype)
        padded = np.pad(numbers, ((0, 0), (0, 0), (kernel - 2, 0), (kernel - 2, 0)), constant_values=-np.inf)
        windows = np.lib.stride_tricks.sliding_window_view(padded, (kernel, kernel), (2, 3))[:, :, ::2, ::2]
        expected = windows.max((-2, -1)) + np.float32(0.0)  # zeros are +0
        expected[np.isnan(expected)] = np.nan
        assert np.isnan(expected).any() == nan
        for layout, axes in (("NCHW", (0, 1, 2, 3)), ("NHWC", (0, 2, 3, 1))):
            y = popnn.pool(np.ascontiguousarray(x.transpose(axes)), kernel, stride=2, padding=kernel - 2, layout=layout)
            assert_same_bits(y, expected.transpose(axes).astype(dtype))


def test_ties_have_the_gradient_each_or_a_share_of_it():
    x = np.zeros((1, 2, 4, 4), np.float32)
    y = popnn.pool(x, 2)
    grad = np.full(y.shape, 8, np.float32)
    assert (popnn.pool_input_gradient(grad, x.shape, 2, x=x, pooled_x=y) == 8).all()
    assert (popnn.pool_input_gradient(grad, x.shape, 2, x=x, pooled_x=y, use_scaled_gradient=True) == 2).all()


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
@pytest.mark.parametrize("how", [{"kernel": 1}, *(how for how in GEOMETRIES + OVERLAPS if "kernel" in how)], ids=str)
def test_gradients_of_half_types_are_those_of_what_they_are(how, dtype):
    """Ties, zeros of both signs, endless numbers and NaN among them; whole lines of any length."""
    for width in (5, 28, 33, 70):
        x = RNG.integers(-2, 3, (2, 2, 7, width)).astype(np.float32) * RNG.choice([1.0, -1.0], (2, 2, 7, width))
        x[RNG.random(x.shape) < 0.05] = np.nan
        x[RNG.random(x.shape) < 0.05] = -np.inf
        x = x.astype(dtype)
        y = popnn.pool(x, **how)
        grad = (RNG.normal(size=y.shape) * (RNG.random(y.shape) < 0.9)).astype(dtype)
        grad.flat[:2] = np.inf, -0.0
        wide = [a.astype(np.float32) for a in (grad, x, y)]
        due = popnn.pool_input_gradient(wide[0], x.shape, x=wide[1], pooled_x=wide[2], out_dtype=dtype, **how)
        assert_same_bits(popnn.pool_input_gradient(grad, x.shape, x=x, pooled_x=y, **how), due)


@pytest.mark.parametrize("how", GEOMETRIES, ids=str)
@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_gradients_by_places_are_those_by_maxima_where_none_are_equal(how, layout):
    x = X if layout == "NCHW" else np.ascontiguousarray(np.moveaxis(X, 1, -1))
    y, places = checked("popnn.max_pool_with_indices", x, layout=layout, **how)
    grad = RNG.integers(-8, 8, y.shape).astype(np.float32)
    by_places = testing.check("popnn.pool_indices_gradient", grad, places, x.shape, layout=layout)
    for scaled in (False, True):
        assert_same_bits(popnn.pool_input_gradient(grad, x.shape, x=x, pooled_x=y, layout=layout, **how,
                                                   use_scaled_gradient=scaled) + 0, by_places + 0)


@pytest.mark.parametrize("how", [how for how in GEOMETRIES + OVERLAPS if how], ids=str)
@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_windows_that_are_told_change_no_bit_of_gradients_by_places(how, layout):
    for dtype, width in product((np.float32, np.float16, ml_dtypes.bfloat16), (11, 28, 33, 70)):
        shape = (2, 18, 7, width) if layout == "NCHW" else (2, 7, width, 18)
        y, places = popnn.max_pool_with_indices(RNG.normal(size=shape).astype(dtype), layout=layout, **how)
        grad = RNG.normal(size=y.shape).astype(dtype)
        grad.flat[:3] = np.nan, np.inf, -0.0
        due = popnn.pool_indices_gradient(grad, places, shape, layout=layout)
        assert_same_bits(popnn.pool_indices_gradient(grad, places, shape, layout=layout, **how), due)
        nowhere = RNG.choice([-1, -5, 2**16, 2**16 + 3, 2**32, 2**32 + 1, 2**62, -(2**63)], y.shape)
        assert not popnn.pool_indices_gradient(grad, nowhere, shape, layout=layout, **how).any()


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_places_that_become_bad_once_they_were_looked_at_write_nothing(layout, monkeypatch):
    y, places = popnn.max_pool_with_indices(X, 3, stride=2)
    grad = RNG.normal(size=y.shape).astype(np.float32)
    bad = RNG.random(y.shape) < 0.5
    skipped = popnn.pool_indices_gradient(grad, np.where(bad, -1, places), X.shape)
    limit = X.shape[2] * X.shape[3]
    wrong = np.where(bad, RNG.choice([-2, limit, limit + 1, 2**31, 2**62, -(2**63)], y.shape), places)
    shape = X.shape
    if layout == "NHWC":
        grad, wrong, skipped = (np.ascontiguousarray(np.moveaxis(a, 1, -1)) for a in (grad, wrong, skipped))
        shape = skipped.shape
    monkeypatch.setattr("poplibs_py.popnn.pooling.request.checked_places", lambda places, _: places)
    assert_same_bits(popnn.pool_indices_gradient(grad, wrong, shape, layout=layout), skipped)


@pytest.mark.parametrize("dtype", [np.int64, np.int32, np.int16])
def test_kept_gradients_of_places_look_at_them_anew(dtype):
    grad, places = np.float32([[[1, 2, 4]]]), np.zeros((1, 1, 3), dtype)
    out, before = np.zeros((1, 1, 5), np.float32), popnn.pool_indices_gradient.kept
    for at in ([0, 1, 1], [4, -1, 4], [2, 2, 2]):
        places[...] = at
        due = np.bincount([n for n in at if n >= 0], [g for n, g in zip(at, (1, 2, 4), strict=True) if n >= 0], 5)
        for how in ({}, {"kernel": 3, "stride": 1}) if at[1] == 2 else ({},):
            for _ in range(2):
                popnn.pool_indices_gradient(grad, places, (1, 1, 5), out=out, **how)
                np.testing.assert_array_equal(out, due[None, None])
    assert popnn.pool_indices_gradient.kept == before + 2
    places[0, 0, 2] = 5
    with pytest.raises(InvalidArgumentError, match=r"^indices: got places from 2 to 5; allowed: from -1 to 4"):
        popnn.pool_indices_gradient(grad, places, (1, 1, 5), out=out)
    np.testing.assert_array_equal(out, due[None, None])


def test_gradients_of_averages_are_the_transposes_of_averages():
    for how, op in product(GEOMETRIES, ("avg", "sum")):
        y = popnn.pool(X, op=op, **how)
        grad = RNG.normal(size=y.shape).astype(np.float32)
        back = checked("popnn.pool_input_gradient", grad, X.shape, op=op, **how)
        there, again = (np.abs(a.astype(float) * b).sum() for a, b in ((y, grad), (X, back)))
        apart = abs((y.astype(float) * grad).sum() - (X.astype(float) * back).sum())
        assert apart <= 100 * 2.0**-24 * (there + again)


def test_shares_of_a_gradient_that_vanish_are_zeros_of_one_sign_in_both_layouts():
    grad = np.full((1, 8, 7, 6), -1e-45, np.float32)
    how = {"kernel": 3, "op": "avg", "stride": 2, "padding": 1}
    first = popnn.pool_input_gradient(grad, (1, 8, 13, 12), **how)
    last = popnn.pool_input_gradient(np.moveaxis(grad, 1, -1), (1, 13, 12, 8), layout="NHWC", **how)
    assert_same_bits(np.moveaxis(last, -1, 1), first)
    assert not np.signbit(first[first == 0]).any()


def test_fp8_is_read_and_written_at_its_scale():
    codes = QuarterArray.from_array(X * 4, "f143", scale=1)
    testing.check("popnn.pool", codes, 3, "avg", stride=2, out_dtype="float32")
    out = QuarterArray(np.empty((2, 3, 4, 5), np.uint8), "f143", -1)
    assert testing.check("popnn.pool", codes, 3, "avg", stride=2, out=out) is out
    assert popnn.pool(codes, 2).dtype == np.float16


WRONG = [
    ({"kernel": 0}, "kernel"), ({"kernel": (2, 2, 2)}, "kernel"), ({"kernel": 12}, "kernel"), ({"op": "min"}, "op"),
    ({"kernel": 2, "stride": 0}, "stride"), ({"kernel": 2, "padding": ((1, 2, 3), 0)}, "padding"),
    ({"kernel": 2, "dilation": -1}, "dilation"), ({"kernel": 2, "output_size": 2}, "output_size"),
    ({"kernel": 2, "padding": "same"}, "padding"),
    ({"output_size": 0}, "output_size"), ({"stride": 2}, "stride"), ({"kernel": 2, "layout": "CHWN"}, "layout"),
    ({"kernel": 2, "ceil_mode": 1}, "ceil_mode"), ({"kernel": 2, "out": np.zeros(3, np.float32)}, "out"),
    ({"kernel": 2, "padding": ((0, -1), 0), "ceil_mode": True}, "padding"),
]  # fmt: skip


@pytest.mark.parametrize(("how", "name"), WRONG, ids=str)
def test_wrong_arguments_are_named(how, name):
    with pytest.raises(PoplibsError, match=f"^{name}: got"):
        popnn.pool(X, **how)


def test_wrong_gradients_are_named():
    y = popnn.pool(X, 2)
    for how, name in (({}, "x"), ({"x": X}, "pooled_x"), ({"op": "avg", "x": X}, "x"),
                      ({"op": "sum", "use_scaled_gradient": True}, "use_scaled_gradient"),
                      ({"x": X[:1], "pooled_x": y}, "x")):
        with pytest.raises(PoplibsError, match=f"^{name}: got"):
            popnn.pool_input_gradient(y, X.shape, 2, **how)
    with pytest.raises(PoplibsError, match=r"^grad: got shape"):
        popnn.pool_input_gradient(y, X.shape, 3, "avg")
    places = popnn.max_pool_with_indices(X, 2).indices
    for wrong, name in ((places + 99, "indices"), (places - 99, "indices"), (places[:1], "indices"),
                        (places.astype(float), "indices")):
        with pytest.raises(PoplibsError, match=f"^{name}: got"):
            popnn.pool_indices_gradient(y, wrong, X.shape)
    with pytest.raises(UnsupportedError, match=r"^target: gc200 has no vertex"):
        popnn.pool(X, 2, dilation=2, target="gc200")


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
@pytest.mark.parametrize("shape", [(0, 4, 6, 6), (2, 0, 6, 6), (2, 4, 0, 6), (2, 4, 6, 0), (0, 0, 0)])
def test_gradients_of_fields_without_elements_have_none(shape, layout):
    x = np.ones(shape, np.float32)
    for kernel, padding in ((None, 0), (2, 1)):
        try:
            made = popnn.pool(x, kernel, "sum", padding=padding, layout=layout)
        except PoplibsError:
            continue
        got = popnn.pool_input_gradient(np.ones_like(made), shape, kernel, "sum", padding=padding, layout=layout)
        assert (got.shape, got.any()) == (shape, False)


@pytest.mark.parametrize("kernel", [2.5, (2, 0), np.array([2, 2])], ids=str)
def test_what_sizes_may_be_says_that_each_dimension_may_have_its_own(kernel):
    allowed = "a whole number from 1 to 2147483647, or one for each of 2 field dimensions"
    with pytest.raises(PoplibsError, match=rf"(?s)^kernel: got .*; allowed: {allowed}$"):
        popnn.pool(np.ones((1, 1, 4, 4), np.float32), kernel)
