"""Norms and their gradients: drawn calls, the derivative, order of channels, strides, levels; bad input."""

import re

import ml_dtypes
import numpy as np
import pytest
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from result_bits import bits

from poplibs_py import popnn, testing
from poplibs_py.errors import InvalidArgumentError, InvalidTypeError
from poplibs_py.formats import QuarterArray
from poplibs_py.kernels import kernels
from poplibs_py.testing.calls import calls

RNG = np.random.default_rng(11)
X = RNG.standard_normal((3, 8, 5, 7)).astype(np.float32)
NORMS = ["layer_norm", "rms_norm", "group_norm", "instance_norm", "batch_norm"]


@pytest.mark.parametrize("name", [*NORMS, *(f"{name}_grad" for name in NORMS)])
@settings(max_examples=examples(25))
@given(st.data())
def test_drawn_calls_are_within_their_bounds(name, data):
    operands, keywords = data.draw(calls(f"popnn.{name}"))
    testing.check(f"popnn.{name}", *operands, **keywords)


def norm(x, axes, gamma, factor=1.0, centred=True):
    """A norm of complex numbers, for derivatives by complex steps."""
    apart = x - x.mean(axes, keepdims=True) if centred else x
    return apart / np.sqrt(((apart * apart).mean(axes, keepdims=True) + 1e-3) * factor) * gamma


@pytest.mark.parametrize(("name", "axes", "how"), [
    ("layer_norm", (1, 2, 3), {"axes": (1, 2, 3)}), ("rms_norm", (3,), {}), ("batch_norm", (0, 2, 3), {}),
    ("instance_norm", (2, 3), {}), ("batch_norm", (0, 2, 3), {"unbiased_var_estimate": True}),
])  # fmt: skip
def test_gradients_are_the_derivatives(name, axes, how):
    """Of the sum of grad times the norm, in the direction of each of some elements."""
    own = [X.shape[d] for d in axes] if name in ("layer_norm", "rms_norm") else [1, 8, 1, 1]
    gamma, grad = RNG.standard_normal(own).astype(np.float32), RNG.standard_normal(X.shape).astype(np.float32)
    count = np.prod([X.shape[d] for d in axes])
    factor = count / (count - 1) if how.get("unbiased_var_estimate") else 1.0
    given_gamma = gamma if name in ("layer_norm", "rms_norm") else gamma.ravel()
    ball = testing.bound(f"popnn.{name}_grad", grad, X, gamma=given_gamma, eps=1e-3, **how)[0]
    for place in [(0, 0, 0, 0), (2, 7, 4, 6), (1, 3, 2, 5)]:
        moved = X.astype(np.complex128)
        moved[place] += 1e-150j
        made = norm(moved, axes, gamma.astype(float), factor, name != "rms_norm")
        assert ball[place].contains((grad * made.imag).sum() / 1e-150)


def test_groups_are_blocks_of_channels_or_strided():
    blocks = popnn.group_norm(X, 4)
    np.testing.assert_array_equal(blocks[:, 2:4], popnn.group_norm(X[:, 2:4], 1))
    strided = popnn.group_norm(X, 4, strided_channel_grouping=True)
    np.testing.assert_array_equal(strided[:, 1::4], popnn.group_norm(X[:, 1::4], 1))
    np.testing.assert_array_equal(popnn.group_norm(X, 8), popnn.instance_norm(X))


def test_strides_change_nothing_and_out_may_be_the_operand():
    gamma = RNG.standard_normal(8).astype(np.float32)
    want = popnn.batch_norm(X, gamma, gamma)
    last = np.ascontiguousarray(np.moveaxis(X, 1, -1))
    np.testing.assert_array_equal(popnn.batch_norm(np.moveaxis(last, -1, 1), gamma, gamma), want)
    held = X.copy()
    assert popnn.batch_norm(held, gamma, gamma, out=held) is held
    np.testing.assert_array_equal(held, want)
    outs = np.empty_like(X), np.empty(8, np.float32), np.empty(8, np.float32)
    for got, due in zip(popnn.batch_norm_grad(X, X, gamma, out=outs), popnn.batch_norm_grad(X, X, gamma), strict=True):
        np.testing.assert_array_equal(got, due)


@pytest.mark.parametrize("name", ["layer_norm", "rms_norm", "batch_norm", "group_norm", "instance_norm"])
def test_each_gradient_goes_to_an_array_of_its_own_format(name):
    groups = (4,) * (name == "group_norm")
    x, n = X.astype(ml_dtypes.bfloat16), X.shape[-1] if name in ("layer_norm", "rms_norm") else X.shape[1]
    gamma = RNG.standard_normal(n).astype(np.float32)
    codes = QuarterArray.from_array(np.zeros(X.shape, np.float32), "f143", scale=-4)
    new = getattr(popnn, f"{name}_grad")(x, x, *groups, gamma)
    assert new.x_grad.dtype == np.float32
    for first in (np.empty_like(x), np.empty(X.shape, np.float16), codes):
        outs = first, np.empty(n, np.float32), np.empty(n, np.float16)
        made = testing.check(f"popnn.{name}_grad", x, x, *groups, gamma, out=outs)
        assert all(a is b for a, b in zip(made, outs, strict=True))
        np.testing.assert_array_equal(made[1], new.gamma_grad)
        np.testing.assert_array_equal(made[2], new.beta_grad.astype(np.float16))
    with pytest.raises(InvalidArgumentError, match=r"out\[1\]: .* out_dtype, which is bfloat16"):
        getattr(popnn, f"{name}_grad")(x, x, *groups, gamma, out=(x, gamma, gamma.copy()), out_dtype="bfloat16")


@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fnuz])
@pytest.mark.parametrize("order", [(0, 2, 3, 1), (1, 2, 3, 0), (3, 1, 2, 0), (2, 0, 3, 1)])
@pytest.mark.parametrize("shape", [(2, 36, 5, 7), (3, 6, 1, 17), (1, 4, 2, 2), (2, 20, 19, 1), (1, 70, 33, 65),
                                   (70, 4, 3, 2), (3, 36, 1, 1), (1, 20, 1, 1)])
def test_any_order_of_axes_gives_the_same_bits(shape, order, dtype):
    """Whether rows lie one after another, side by side, or in parts that do."""
    x, grad = RNG.standard_normal((2, *shape)).astype(dtype)
    last = [np.ascontiguousarray(a.transpose(order)).transpose(np.argsort(order)) for a in (x, grad)]
    gamma = RNG.standard_normal(shape[1]).astype(dtype)
    for function in (lambda x, g: popnn.batch_norm_grad(g, x, gamma),
                     lambda x, g: popnn.group_norm_grad(g, x, 2, gamma),
                     lambda x, g: popnn.instance_norm_grad(g, x, gamma), lambda x, _: (popnn.softmax(x, 1),),
                     lambda x, g: popnn.group_norm_grad(g, x, 2, gamma, strided_channel_grouping=True),
                     lambda x, _: (popnn.group_norm(x, 2, gamma, gamma),), lambda x, _: (popnn.batch_norm(x, gamma),),
                     lambda x, _: (popnn.group_norm(x, 2, strided_channel_grouping=True),)):
        for got, due in zip(function(*last), function(x, grad), strict=True):
            assert np.ascontiguousarray(got).tobytes() == np.ascontiguousarray(due).tobytes()


@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16])
@pytest.mark.parametrize("shape", [(75, 128), (53, 250), (521, 320), (8, 384), (7, 1024), (6, 960), (6, 1025),
                                   (5, 5000), (3, 40000), (2, 140000)])
def test_rows_alone_are_as_rows_that_are_done_at_once(shape, dtype):
    """However many are: 32, 16, four or fewer, or two in turns."""
    x, grad = RNG.standard_normal((2, *shape)).astype(dtype)
    gamma = RNG.standard_normal(shape[1]).astype(dtype)
    y, x_grad = popnn.layer_norm(x, gamma, gamma), popnn.layer_norm_grad(grad, x, gamma).x_grad
    for k in range(len(x)):
        assert popnn.layer_norm(x[k], gamma, gamma).tobytes() == y[k].tobytes()
        assert popnn.layer_norm_grad(grad[k], x[k], gamma).x_grad.tobytes() == x_grad[k].tobytes()


@pytest.mark.parametrize("level", sorted({k.level for k in kernels("rows") if k.formats == "bfloat16"}))
@pytest.mark.parametrize("n", [64, 200, 448, 1030])
def test_subnormal_results_beside_zeros_are_rounded_as_others(level, n, rows_at):
    """In BF16 as FP32's are: conversions of this CPU make zeros of them."""
    bf16 = ml_dtypes.bfloat16
    x = np.round(RNG.standard_normal((13, n)) * 4).astype(bf16)
    gamma = np.resize(np.float32([1.0, 2.0**-127, 3e-39, 0.0, 2.0**-125]), n).astype(bf16)
    beta = np.resize(np.float32([0.0, -0.0, 0.0]), n).astype(bf16)
    wide = popnn.layer_norm(*(operand.astype(np.float32) for operand in (x, gamma, beta)))
    assert rows_at(level, "bfloat16", "layer_norm", x, gamma, beta) == bits(wide.astype(bf16))


@pytest.mark.parametrize("n", [64, 200])
def test_nan_is_no_infinity_in_bf16(n):
    """Nor what it stands beside: pairs of vectors are rounded at once."""
    bf16 = ml_dtypes.bfloat16
    x, gamma = RNG.standard_normal((5, n)).astype(bf16), np.ones(n, bf16)
    x[[1, 4], 3] = np.nan
    gamma[[0, 9, 17, 40]] = np.nan, -np.float32(np.nan), np.inf, 3.3e38
    beta = np.where(np.isinf(gamma.astype(np.float32)), 0.0, 1e-40).astype(bf16)
    due = popnn.layer_norm(*(operand.astype(np.float32) for operand in (x, gamma, beta))).astype(bf16)
    np.testing.assert_array_equal(popnn.layer_norm(x, gamma, beta).astype(np.float32), due.astype(np.float32))


@pytest.mark.parametrize("level", sorted({k.level for k in kernels("rows") if k.formats == "float32"} - {"portable"}))
def test_all_levels_give_the_same_bits(level, rows_at):
    x, gamma = RNG.standard_normal((40, 300)).astype(np.float32), RNG.standard_normal(300).astype(np.float32)
    first = RNG.standard_normal((2, 24, 11, 13)).astype(np.float32)
    last, own = np.moveaxis(np.ascontiguousarray(np.moveaxis(first, 1, -1)), -1, 1), gamma[:24]
    for name, operands in (("layer_norm", (x, gamma, gamma)), ("layer_norm_grad", (x[::-1], x, gamma)),
                           ("batch_norm_grad", (x[::-1], x, gamma)), ("batch_norm", (last, own, own)),
                           ("group_norm", (first, 6, own, own)), ("group_norm_grad", (first, first, 6, own)),
                           ("group_norm", (last, 6, own, own)), ("group_norm_grad", (last, last, 6, own)),
                           *(("batch_norm_training", (x, own, own)) for x in (first, last)),
                           ("batch_norm_inference", (last, own, abs(own), own, own))):
        assert rows_at("portable", "float32", name, *operands) == rows_at(level, "float32", name, *operands)


@pytest.mark.parametrize(("call", "error", "words"), [
    (lambda: popnn.group_norm(X, 3), InvalidArgumentError, "groups: got 3; allowed: a divisor of 8"),
    (lambda: popnn.batch_norm(X[0, 0, 0]), InvalidArgumentError, "x: got shape (7,); allowed: activations [N, C, ...]"),
    (lambda: popnn.layer_norm(X[0, 0, 0, 0]), InvalidArgumentError, "x: got shape (); allowed: an axis or more"),
    (lambda: popnn.batch_norm(X, np.ones(7, np.float32)), InvalidArgumentError, "gamma: got shape (7,)"),
    (lambda: popnn.layer_norm(X, eps=-1.0), InvalidArgumentError, "eps: got -1.0"),
    (lambda: popnn.layer_norm_grad(X[0], X), InvalidArgumentError, "grad: got shape (8, 5, 7)"),
    (lambda: popnn.rms_norm(X.astype(float)), InvalidTypeError, "x: got dtype float64"),
])  # fmt: skip
def test_bad_input_is_refused_by_name(call, error, words):
    with pytest.raises(error, match="^" + re.escape(words)):
        call()
