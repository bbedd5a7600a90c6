"""Convolutions on this CPU: exact sums have one answer, in every layout, with every transform, in all three passes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from poplibs_py import poplin
from poplibs_py.config import thread_limit
from poplibs_py.errors import InvalidArgumentError, InvalidTypeError, MemoryLimitWarning, UnsupportedError
from poplibs_py.formats import FORMATS, FP32, QuarterArray, format_of
from poplibs_py.poplin import ConvParams
from poplibs_py.poplin.conv.params import Described, images_shape, weights_shape
from poplibs_py.poplin.tile_conv import FieldTransform, OutputTransform
from poplibs_py.program import memory_in_use, memory_peak
from poplibs_py.testing import assert_same_bits, check, check_exact
from poplibs_py.testing.conv_calls import conv_params
from poplibs_py.testing.strategies import layouts, relaid

NAMES = [f.name for f in FORMATS]


def small(draw: st.DrawFn, shape: tuple[int, ...], name: str) -> Any:
    """Whole numbers so small that sums of thousands of products are exact."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    fmt = format_of(name)
    return relaid(rng.integers(-1, 2, shape).astype(fmt.dtype), draw(layouts()))


def shapes(p: ConvParams, layout: str, grouped: bool) -> tuple[tuple[int, ...], ...]:
    """Of images, weights and results."""
    how = Described(layout=layout)
    return (images_shape(how, p.batch, p.groups * p.in_channels, p.field_shape), weights_shape(how, p, grouped),
            images_shape(how, p.batch, p.groups * p.out_channels, p.output_shape))


@pytest.mark.parametrize("pass_", ["forward", "backward", "weights"])
@settings(max_examples=settings.default.max_examples * 2)
@given(data=st.data())
def test_exact_sums_are_right_to_the_bit(pass_: str, data: st.DataObject) -> None:
    p, layout = data.draw(conv_params(most_channels=33)), data.draw(st.sampled_from(["NCHW", "NHWC"]))
    grouped = data.draw(st.booleans()) or 0 in (p.out_channels, p.groups)
    first, second = data.draw(st.sampled_from(NAMES)), data.draw(st.sampled_from(NAMES))
    x, w, y = shapes(p, layout, grouped)
    how: dict[str, Any] = {"params": p, "layout": layout, "out_dtype": "float32"}
    if pass_ == "forward":
        if data.draw(st.booleans()):
            how["bias"] = np.arange(p.groups * p.out_channels, dtype=np.float32)
        check_exact("convolution", small(data.draw, x, first), small(data.draw, w, second), **how)
    elif pass_ == "backward":
        check_exact("convolution_input_gradient", small(data.draw, y, first), small(data.draw, w, second), **how)
    else:
        check_exact("calculate_weight_deltas", small(data.draw, y, first), small(data.draw, x, second), **how)


CASES: dict[str, tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]] = {
    "3x3": ((2, 20, 13, 17), (35, 20, 3, 3), {"padding": 1}),
    "strided": ((2, 16, 15, 14), (33, 16, 3, 3), {"stride": 2, "padding": (1, (0, 2))}),
    "first layer": ((1, 3, 30, 31), (40, 3, 7, 7), {"stride": 2, "padding": 3}),
    "1x1": ((2, 34, 9, 8), (17, 34, 1, 1), {}),
    "1x1 strided": ((2, 34, 9, 8), (17, 34, 1, 1), {"stride": 2}),
    "dilated": ((1, 18, 20, 12), (16, 18, 3, 2), {"dilation": (2, 3)}),
    "groups": ((2, 24, 10, 10), (36, 6, 3, 3), {"groups": 4, "padding": 1}),
    "depthwise": ((2, 24, 10, 10), (48, 1, 3, 3), {"groups": 24, "padding": 1}),
    "1-d": ((2, 16, 100), (32, 16, 10), {"stride": 5}),
    "3-d": ((1, 8, 5, 6, 7), (16, 8, 3, 3, 3), {"padding": 1}),
    "small map": ((3, 64, 7, 7), (64, 64, 3, 3), {"padding": 1}),
}


def numbers(rng: np.random.Generator, shape: tuple[int, ...], dtype: Any) -> Any:
    return rng.integers(-2, 3, shape).astype(dtype)


def channels_last(x: Any) -> Any:
    """The same numbers with channels innermost in memory."""
    return np.moveaxis(np.ascontiguousarray(np.moveaxis(x, 1, -1)), -1, 1)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("name", ["float32", "float16", "bfloat16", "float8_e4m3fn"])
def test_layouts_threads_and_targets_of_results_change_nothing(case: str, name: str) -> None:
    x_shape, w_shape, how = CASES[case]
    rng, dtype = np.random.default_rng(1), format_of(name).dtype
    x, w = numbers(rng, x_shape, dtype), numbers(rng, w_shape, dtype)
    y = check_exact("convolution", x, w, out_dtype="float32", **how)
    last = poplin.convolution(channels_last(x), channels_last(w), out_dtype="float32", **how)
    assert last.strides[1] == last.itemsize
    assert_same_bits(last, y)
    by_nhwc = poplin.convolution(np.moveaxis(x, 1, -1), np.moveaxis(w, (0, 1), (-1, -2)), layout="NHWC",
                                 out_dtype="float32", **how)
    assert_same_bits(np.moveaxis(by_nhwc, -1, 1), y)
    with thread_limit(4):
        assert_same_bits(poplin.convolution(x, w, out_dtype="float32", **how), y)
    groups = how.get("groups", 1)
    grouped = w.reshape(groups, w_shape[0] // groups, *w_shape[1:])
    out = np.full((*y.shape, 2), 7, np.float32)[..., 0]
    assert poplin.convolution(x, grouped, out=out, **{**how, "groups": None}) is out
    assert_same_bits(out, y)
    deltas = numbers(rng, y.shape, dtype)
    dx = check_exact("convolution_input_gradient", deltas, w, field_shape=x_shape[2:], out_dtype="float32", **how)
    assert dx.shape == x.shape
    assert_same_bits(poplin.convolution_input_gradient(channels_last(deltas), channels_last(w), field_shape=x_shape[2:],
                                                       out_dtype="float32", **how), dx)
    dw = check_exact("calculate_weight_deltas", deltas, x, kernel_shape=w_shape[2:], out_dtype="float32", **how)
    assert dw.shape == w.shape
    assert_same_bits(poplin.calculate_weight_deltas(channels_last(deltas), channels_last(x), kernel_shape=w_shape[2:],
                                                    out_dtype="float32", **how), dw)
    with thread_limit(3):
        again = poplin.calculate_weight_deltas(deltas, x, kernel_shape=w_shape[2:], out_dtype="float32", **how)
    assert_same_bits(again, dw)


def test_a_residual_is_added_before_the_activation_in_any_layout() -> None:
    rng = np.random.default_rng(2)
    x, w = numbers(rng, (2, 4, 9, 9), np.float32), numbers(rng, (6, 4, 3, 3), np.float32)
    bias = numbers(rng, (6,), np.float32)
    plain = poplin.convolution(x, w, padding=1)
    rest = numbers(rng, plain.shape, np.float32)
    expected = np.maximum(plain + rest + bias[:, None, None], 0)
    for residual in (rest, channels_last(rest), rest[::-1][::-1]):
        got = check("convolution", x, w, padding=1, residual=residual, bias=bias, activation="relu")
        assert_same_bits(got, expected)
    for apart in (np.zeros((*got.shape[:-1], 2 * got.shape[-1]), got.dtype)[..., ::2], np.zeros_like(got)[..., ::-1]):
        poplin.convolution(x, w, padding=1, residual=rest, bias=bias, activation="relu", out=apart)
        np.testing.assert_array_equal(apart, got)
    with pytest.raises(InvalidArgumentError, match=r"^residual: got .*; allowed: the result's format and shape"):
        poplin.convolution(x, w, padding=1, residual=rest[:1])


def test_weights_may_be_taken_transposed_and_flipped() -> None:
    rng = np.random.default_rng(3)
    deltas, w = numbers(rng, (2, 6, 5, 7), np.float32), numbers(rng, (2, 3, 4, 3, 2), np.float32)
    turned = poplin.weights_transpose_chans_flip_xy(w)
    assert_same_bits(poplin.weights_transpose_chans_flip_xy(w[1]), turned[1])
    assert turned.shape == (2, 4, 3, 3, 2)
    assert np.shares_memory(turned, w)
    expected = poplin.convolution(deltas, turned, padding=((2, 2), (1, 1)))
    got = check_exact("convolution", deltas, w, padding=((2, 2), (1, 1)), transpose_and_flip_weights=True)
    assert_same_bits(got, expected)
    assert_same_bits(poplin.convolution_input_gradient(deltas, w), expected)


def test_eight_bit_operands_take_scales() -> None:
    rng = np.random.default_rng(4)
    x = QuarterArray(numbers(rng, (1, 4, 6, 6), format_of("f143").dtype), "f143", 3)
    w = QuarterArray(numbers(rng, (8, 4, 3, 3), format_of("f152").dtype), "f152", -1)
    check_exact("convolution", x, w, out_dtype="float32")
    out = QuarterArray(np.zeros((1, 8, 4, 4), format_of("f143").dtype), "f143", 4)
    check("convolution", x, w, out=out)
    with pytest.raises(InvalidArgumentError, match=r"^out: got a QuarterArray with scales of blocks"):
        poplin.convolution(x, w, out=QuarterArray(out.codes, "f143", np.arange(8).reshape(1, 8, 1, 1), (1, 1, -1, -1)))


def test_blocks_of_eight_bit_operands_take_scales_of_their_own() -> None:
    def operand(shape: tuple[int, ...], blocks: tuple[int, ...], name: str, seed: int) -> QuarterArray:
        rng = np.random.default_rng(seed)
        counts = [-(-n // (n if block < 0 else block)) for n, block in zip(shape, blocks, strict=True)]
        codes = rng.integers(-2, 3, shape).astype(format_of(name).dtype)
        return QuarterArray(codes, name, rng.integers(-2, 3, counts), blocks)

    x, w = operand((2, 8, 6, 7), (1, 3, -1, 2), "f143", 0), operand((12, 8, 3, 3), (1, -1, -1, -1), "float8_e5m2", 1)
    deltas = operand((2, 12, 6, 7), (2, 4, 3, -1), "f152", 2)
    how: dict[str, Any] = {"padding": 1, "out_dtype": "float32"}
    expected = check_exact("convolution", x, w, **how)
    check_exact("convolution_input_gradient", deltas, w, **how)
    check_exact("calculate_weight_deltas", deltas, x, **how)
    assert_same_bits(poplin.convolution(x.to_array(), w.to_array(), padding=1), expected)
    both = poplin.multiconv.convolution([(x, w, how), (x.to_array(), w.to_array(), how)])
    for got in both:
        assert_same_bits(got, expected)
    assert poplin.convolution(x, w, padding=1).dtype == np.float16
    before = memory_in_use()
    for _ in range(3):
        assert_same_bits(poplin.convolution(x, w, **how), expected)
    assert memory_in_use() == before
    with pytest.raises(UnsupportedError, match="scales but one"):
        poplin.convolution(x, w, target="gc200")


def test_a_plan_for_this_cpu_is_compiled() -> None:
    p = ConvParams.create(batch=2, field=[9, 8], kernel=[3, 3], in_channels=4, out_channels=5, groups=2,
                          input_transform=[FieldTransform(padding_lower=1)] * 2,
                          output_transform=[OutputTransform(stride=2)] * 2)
    rng = np.random.default_rng(5)
    for layout in ("NCHW", "NHWC"):
        x_shape, w_shape, y_shape = shapes(p, layout, True)
        plan = poplin.plan_convolution(p, target="host", dtype="float16", w_dtype="float32", bias_dtype="float32",
                                       activation="relu", layout=layout)
        assert "product of matrices" in str(plan)
        run = poplin.compile_convolution(plan)
        x, w = numbers(rng, x_shape, np.float16), numbers(rng, w_shape, np.float32)
        bias, out = numbers(rng, (10,), np.float32), np.empty(y_shape, np.float32)
        expected = poplin.convolution(x, w, params=p, layout=layout, bias=bias, activation="relu")
        assert_same_bits(run(x, w, bias=bias), expected)
        assert run(x[:, ::-1][:, ::-1], np.asfortranarray(w), bias=bias, out=out) is out
        assert_same_bits(out, expected)
        with pytest.raises(InvalidArgumentError, match=r"^bias: got None; allowed: as it was planned"):
            run(x, w)
        with pytest.raises(InvalidArgumentError, match=r"^x: got "):
            run(x[:1], w, bias=bias)
    with pytest.raises(InvalidTypeError, match=r"^plan: "):
        poplin.compile_convolution(None)


W = np.ones((4, 2, 3), np.float32)
X = np.ones((1, 2, 8), np.float32)
BAD: list[tuple[Any, str]] = [
    (lambda: poplin.convolution(X[0], W), r"^x: got shape \(2, 8\); allowed: three axes at least: N, C, field"),
    (lambda: poplin.convolution(X, W[0]), r"^weights: got shape \(2, 3\); allowed: 3 axes"),
    (lambda: poplin.convolution(X, W[:, :1]),
     r"^x: got 2 channels in the shape \(1, 2, 8\); allowed: the 1 input channels of weights"),
    (lambda: poplin.convolution(X, W, groups=2),
     r"^x: got 2 channels in .* the 4 input channels of weights \(4, 2, 3\): G \* Co, Ci, K\.\.\., of 2 groups"),
    (lambda: poplin.convolution(X, W, layout="NHWC"), r"^x: .* of weights \(4, 2, 3\): K\.\.\., Ci, G \* Co$"),
    (lambda: poplin.convolution(X, W[:, :, :, None]),
     r"^x: got 2 channels; allowed: a multiple of the 4 groups \(weights of one axis more than images begin with"),
    (lambda: poplin.convolution(X, W, groups=3), r"^weights: got 4 output channels; allowed: a multiple of"),
    (lambda: poplin.convolution(X, W, groups=0), r"^groups: got 0; allowed: a whole number, 1 or more"),
    (lambda: poplin.convolution(X, W, groups=-2), r"^groups: got -2; allowed"),
    (lambda: poplin.convolution(X, W, transpose_and_flip_weights=W), r"^transpose_and_flip_weights: got ndarray"),
    (lambda: poplin.convolution(X, W, stride=0), r"^stride: got 0; allowed"),
    (lambda: poplin.convolution(X, W, stride=(1, 1)), r"^stride: got \(1, 1\); allowed: one number, or one for each"),
    (lambda: poplin.convolution(X, W, padding=((1, 2, 3),)), r"^padding: got .*; allowed: numbers, or pairs"),
    (lambda: poplin.convolution(X, W, padding=-1), r"^padding: got -1; allowed"),
    (lambda: poplin.convolution(X, W, padding="same"), r"^padding: got same; .*for each field dimension, or a pair"),
    (lambda: poplin.convolution(X, W, stride="2"), r"^stride: got '2'; .*, one for each field dimension$"),
    (lambda: poplin.convolution(X[:, :, :2], W), r"^weights: got a kernel that spans \(3,\); .* \(2,\)$"),
    (lambda: poplin.convolution(X, W[:, :, :0]), r"^weights: got a kernel of \(0,\); allowed: one of at least one"),
    (lambda: poplin.convolution(X, W, dilation=4), r"^weights: got a kernel that spans \(9,\); .* \(8,\)$"),
    (lambda: poplin.calculate_weight_deltas(X, X, kernel_shape=9), r"^kernel_shape: got a kernel that spans \(9,\)"),
    (lambda: poplin.convolution(X, W, layout="CHWN"), r"^layout: got CHWN; allowed"),
    (lambda: poplin.convolution(X, W, params=3), r"^params: got 3; allowed: a ConvParams or None"),
    (lambda: poplin.convolution(X, W, bias=np.ones(3, np.float32)), r"^bias: got shape \(3,\); allowed: one number"),
    (lambda: poplin.convolution(X.astype(">f4"), W), r'^x: got dtype >f4; .*; see its astype\("float32"\)$'),
    (lambda: poplin.convolution(X.astype(float), W), r"^x: got dtype float64; allowed: .*astype"),
    (lambda: poplin.convolution(X, W, options={"partialType": "half"}), r"partialsType"),
    (lambda: poplin.convolution_with_output(X, W, None), r"^out: got None; allowed"),
    (lambda: poplin.convolution_input_gradient(X, W), r"^deltas: got 2 channels; allowed: the 4 output channels"),
    (lambda: poplin.convolution_input_gradient(X, W[:2], out=X[0]), r"^out: got shape \(2, 8\); allowed: 3 axes"),
    (lambda: poplin.calculate_weight_deltas(X, X[..., :3], kernel_shape=2), r"^deltas: got a field of \(8,\); allowed"),
    (lambda: poplin.convolution_weight_update(X, None, X, 1.0), r"^weights: got None; allowed"),
    (lambda: poplin.add_bias(X.copy(), [1, 2, 3]), r"^bias: got shape \(3,\); allowed: one number for each channel"),
    (lambda: poplin.weights_transpose_chans_flip_xy(np.ones(3, np.float32)), r"^weights: got shape \(3,\); allowed"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "message"), BAD)
def test_bad_input_is_named(call: Any, message: str) -> None:
    with pytest.raises((InvalidArgumentError, InvalidTypeError), match=message):
        call()


def test_params_and_keywords_do_not_mix() -> None:
    p = ConvParams.create(field=[8], kernel=[3], in_channels=2, out_channels=4)
    with pytest.raises(InvalidArgumentError, match=r"^stride: got 2; allowed: its default where params are given"):
        poplin.convolution(X, W, params=p, stride=2)
    with pytest.raises(InvalidArgumentError, match=r"^params: got batch 1; allowed: that of the arrays, 2"):
        poplin.convolution(np.concatenate([X, X]), W, params=p)


def test_the_limit_is_told_where_nothing_fits() -> None:
    x, w = np.ones((1, 64, 16, 16), np.float16), np.ones((64, 64, 3, 3), np.float16)
    with pytest.warns(MemoryLimitWarning):
        poplin.convolution(x, w, available_memory_proportion=1e-5)


def test_the_largest_field_in_one_dimension_makes_no_tables() -> None:
    x, w = np.ones((1, 1, 480000), np.float32), np.ones((32, 1, 10), np.float32)
    memory_peak(reset=True)
    before = memory_in_use()
    y = poplin.convolution(x, w, stride=5)
    assert y.shape == (1, 32, 95999)
    assert (y == 10).all()
    assert memory_peak() - before - y.nbytes < math.prod(x.shape) * FP32.itemsize


def test_other_machines_are_refused_by_name() -> None:
    with pytest.raises(UnsupportedError, match="gc200"):
        poplin.add_bias(X.copy(), [1, 2], target="gc200")


def test_params_say_the_types_that_no_keyword_does() -> None:
    params = poplin.ConvParams.create(field=[8, 8], kernel=[3, 3], in_channels=4, out_channels=4, input_type="half")
    run = poplin.compile_convolution(poplin.plan_convolution(params, target="host"))
    x, w = np.ones((1, 4, 8, 8), np.float16), np.ones((1, 4, 4, 3, 3), np.float16)
    assert_same_bits(run(x, w), np.full((1, 4, 6, 6), 36, np.float16))
    assert poplin.plan_convolution(params, target="host", dtype="float32").call.out.format.name == "float32"


def test_groups_without_channels_give_zeros_wherever_their_images_lie():
    x, w = np.zeros((3, 2, 3), np.float16)[..., :0], np.zeros((1, 1, 48), np.float16)[:, :0]
    assert (poplin.convolution(x, w, groups=3, layout="NHWC") == np.zeros((3, 2, 48))).all()
