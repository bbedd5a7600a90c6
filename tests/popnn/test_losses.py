"""Losses: drawn calls, the gradient, weights, smoothing, labels that are none, PopLibs' masks; bad input."""

import re

import ml_dtypes
import numpy as np
import pytest
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from poplibs_py import popnn, popops, profile, testing
from poplibs_py.errors import InvalidArgumentError, InvalidTypeError
from poplibs_py.formats import QuarterArray
from poplibs_py.kernels import kernels
from poplibs_py.testing import assert_same_bits
from poplibs_py.testing.calls import calls

RNG = np.random.default_rng(5)
X = (3 * RNG.standard_normal((6, 70))).astype(np.float32)
LABELS = RNG.integers(0, 70, 6).astype(np.int32)
WEIGHTS = RNG.random(70).astype(np.float32)


@pytest.mark.parametrize("name", ["calc_loss", "cross_entropy"])
@settings(max_examples=examples(25))
@given(st.data())
def test_drawn_calls_are_within_their_bounds(name, data):
    operands, keywords = data.draw(calls(f"popnn.{name}"))
    testing.check(f"popnn.{name}", *operands, **keywords)


def loss(x, smoothing, weights):
    """Of complex numbers, for derivatives by complex steps."""
    apart = np.log(np.exp(x).sum(1, keepdims=True)) - x
    own = (weights * apart)[np.arange(len(x)), LABELS]
    return (1 - smoothing) * own + smoothing / x.shape[1] * (weights * apart).sum(1)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("weights", [None, WEIGHTS])
def test_the_gradient_is_the_derivative(smoothing, weights):
    due, own = testing.bound("popnn.cross_entropy", X, LABELS, weights, label_smoothing=smoothing), X.astype(complex)
    w = np.ones(70) if weights is None else weights.astype(float)
    assert due[0].contains(loss(own, smoothing, w).real).all()
    for place in [(0, 0), (1, LABELS[1]), (5, 69)]:
        moved = own.copy()
        moved[place] += 1e-150j
        assert due[1][place].contains(loss(moved, smoothing, w).imag[place[0]] / 1e-150)


@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16])
@pytest.mark.parametrize("shape", [(13, 70), (40, 70), (9, 300), (3, 2100)])
def test_all_levels_and_strides_give_the_same_bits(shape, dtype, rows_at):
    x = RNG.standard_normal(shape).astype(dtype)
    labels = RNG.integers(-1, shape[1], shape[0])
    testing.check("popnn.cross_entropy", x, labels)
    due = rows_at(None, "", "cross_entropy", x, labels)
    assert rows_at(None, "", "cross_entropy", np.asfortranarray(x), labels) == due  # whose rows are decoded first
    for level in {kernel.level for kernel in kernels("rows")}:
        assert rows_at(level, "", "cross_entropy", x, labels) == due


@pytest.mark.parametrize("axis", [0, 1, -2, 2])
def test_classes_may_be_any_axis(axis):
    x, labels = RNG.standard_normal((3, 4, 70)).astype(np.float32), RNG.integers(-1, 70, (3, 4))
    how = {"label_smoothing": 0.1, "ignored_index": 3}
    due = popnn.cross_entropy(x.reshape(12, 70), labels.reshape(12), WEIGHTS, **how)
    for moved in (np.moveaxis(x, 2, axis), np.ascontiguousarray(np.moveaxis(x, 2, axis))):
        made = popnn.cross_entropy(moved, labels, WEIGHTS, axis, **how)
        np.testing.assert_array_equal(made.loss, due.loss.reshape(3, 4))
        np.testing.assert_array_equal(np.moveaxis(made.deltas, axis, 2), due.deltas.reshape(3, 4, 70))
        testing.check("popnn.cross_entropy", moved, labels, WEIGHTS, axis, **how)


def test_labels_that_are_none_leave_rows_out():
    whole = popnn.cross_entropy(X, LABELS)
    labels = LABELS.astype(np.int64)
    labels[[0, 3]] = -100, 70
    part = popnn.cross_entropy(X, labels, ignored_index=int(LABELS[1]))
    left = {0, 3, *np.flatnonzero(LABELS[1] == LABELS)}
    for row in range(6):
        due = (0.0, np.zeros(70)) if row in left else (whole.loss[row], whole.deltas[row])
        assert part.loss[row] == due[0]
        np.testing.assert_array_equal(part.deltas[row], due[1])


def test_masked_labels_are_poplibs():
    p, labels = popnn.softmax(X), np.uint32(LABELS)
    labels[2] = popnn.MASKED_LABEL_CODE
    entropy, squares = (popnn.calc_loss(p, labels, f"{kind}_LOSS") for kind in ("CROSS_ENTROPY", "SUM_SQUARED"))
    assert entropy.loss[2] == 0
    assert (entropy.deltas[2] == 0).all()
    np.testing.assert_array_equal(squares.deltas[2], p[2])
    one_hot = np.eye(70, dtype=np.float32)[LABELS]
    np.testing.assert_array_equal(popnn.calc_loss(p, one_hot, "CROSS_ENTROPY_LOSS").deltas[:2], entropy.deltas[:2])


def test_accuracy_counts_rows():
    labels = np.argmax(X, 1).astype(np.uint32)
    assert popnn.calc_accuracy(X, labels) == 6
    labels[4] = popnn.MASKED_LABEL_CODE
    assert popnn.calc_accuracy(X, labels) == 5
    assert popnn.calc_accuracy(X, labels.astype(np.uint64) + np.uint64(2**64 - 2**32)) == 0
    for _ in range(3):
        assert popnn.calc_accuracy(QuarterArray.from_array(X, "f143", scale=3), labels) == 5
        assert type(popnn.calc_accuracy(X[:0], labels[:0])) is int
    with pytest.raises(InvalidArgumentError, match=r"^model_outputs: got shape \(6, 0\); allowed: one class or more"):
        popnn.calc_accuracy(X[:, :0], labels)


def test_an_accuracy_is_planned_as_places_and_a_comparison():
    labels = np.argmax(X, 1).astype(np.int32)
    with profile(target="gc200") as report:
        assert popnn.calc_accuracy(X, labels) == 6
        popops.argmax(X, 1)
    accuracy, places = (run.plan for run in report.runs)
    assert accuracy.steps[:-1] == places.steps
    assert accuracy.phases["compare"] == 6 * (14 + 4 * 6)


ELEMENTS = {
    "mse_loss": lambda x, e: (x - e) ** 2,
    "huber_loss": lambda x, e: np.where(np.abs((x - e).real) < 1, (x - e) ** 2 / 2,
                                        np.sign((x - e).real) * (x - e) - 0.5),
    "binary_cross_entropy": lambda x, e: -(e * np.log(x) + (1 - e) * np.log(1 - x)),
    "binary_cross_entropy_with_logits": lambda x, e: np.log(1 + np.exp(x)) - e * x,
    "kl_divergence": lambda x, e: e * (np.log(e) - x),
}  # fmt: skip


@pytest.mark.parametrize("name", ELEMENTS)
@settings(max_examples=examples(15))
@given(st.data())
def test_drawn_calls_of_elements_are_within_their_bounds(name, data):
    operands, keywords = data.draw(calls(f"popnn.{name}"))
    testing.check(f"popnn.{name}", *operands, **keywords)


@pytest.mark.parametrize("name", ELEMENTS)
def test_losses_of_elements_and_their_derivatives(name):
    """By complex steps, weighted and masked; what is left out is nothing."""
    x, e = RNG.uniform(0.01, 0.99, (2, 3, 70)).astype(np.float32)
    x = x if name == "binary_cross_entropy" else 4 * x - 1
    mask = RNG.random((3, 1)) < 0.8
    made = ELEMENTS[name](x.astype(complex) + 1e-150j, e.astype(float)) * WEIGHTS
    left = np.where(mask, x, np.nan)
    balls = testing.bound(f"popnn.{name}", x, e, WEIGHTS, mask=mask, reduction="mean")
    assert balls[0].contains(np.where(mask, made.real, 0).mean(1)).all()
    assert balls[1].contains(np.where(mask, made.imag, 0) / 1e-150 / 70).all()
    got = getattr(popnn, name)(left, e, WEIGHTS, mask=mask, reduction="mean")
    assert balls[0].contains(got.loss).all()
    assert balls[1].contains(got.deltas).all()


@pytest.mark.parametrize("name", ELEMENTS)
def test_deltas_of_means_over_any_count_are_within_their_bounds(name):
    x, e = RNG.uniform(0.01, 0.99, (2, 200, 3)).astype(np.float32)
    testing.check(f"popnn.{name}", x, e, reduction="mean")


@pytest.mark.parametrize("rows", [1, 3, 15, 40])
@pytest.mark.parametrize("name", ELEMENTS)
def test_rows_of_no_elements_have_no_loss(name, rows):
    none, loss = np.zeros((rows, 0), np.float32), np.full(rows, np.nan, np.float32)
    getattr(popnn, name)(none, none, out=(loss, none.copy()))
    assert not loss.any()


def test_logits_far_out_lose_nothing():
    x, e = np.float32([[80.0, -80.0, 200.0, -200.0]]), np.float32([[1, 0, 0, 1]])
    made = popnn.binary_cross_entropy_with_logits(x, e, positive_weights=[3.0])
    np.testing.assert_allclose(made.deltas, [[-3 * np.exp(-80.0), np.exp(-80.0), 1, -3]], rtol=3e-7)
    assert made.loss == 800


@pytest.mark.parametrize(("call", "error", "words"), [
    (lambda: popnn.mse_loss(X, X[1:]), InvalidArgumentError, "expected: got shape (5, 70)"),
    (lambda: popnn.mse_loss(X, X, reduction="none"), InvalidArgumentError, "reduction: got none"),
    (lambda: popnn.huber_loss(X, X, delta=0.0), InvalidArgumentError, "delta: got 0.0"),
    (lambda: popnn.kl_divergence(X, X, mask=WEIGHTS), InvalidTypeError, "mask: got dtype float32"),
    (lambda: popnn.binary_cross_entropy_with_logits(X, X, positive_weights=X[0, 1:]), InvalidArgumentError,
     "positive_weights: got shape (69,)"),
    (lambda: popnn.cross_entropy(X, LABELS[:2]), InvalidArgumentError, "labels: got shape (2,)"),
    (lambda: popnn.cross_entropy(X[0], LABELS), InvalidArgumentError, "logits: got shape (70,)"),
    (lambda: popnn.cross_entropy(X, LABELS, axis=2), InvalidArgumentError, "axis: got 2"),
    (lambda: popnn.cross_entropy(X, LABELS, axis=0), InvalidArgumentError, "labels: got shape (6,)"),
    (lambda: popnn.cross_entropy(X, LABELS, axis=(0, 1)), InvalidTypeError, "axis: got (0, 1)"),
    (lambda: popnn.cross_entropy(X, LABELS.astype(float)), InvalidTypeError, "labels: got dtype float64"),
    (lambda: popnn.cross_entropy(X, LABELS, WEIGHTS[1:]), InvalidArgumentError, "weights: got shape (69,)"),
    (lambda: popnn.cross_entropy(X, LABELS, label_smoothing=1.5), InvalidArgumentError, "label_smoothing: got 1.5"),
    (lambda: popnn.calc_loss(X[0], LABELS, "SUM_SQUARED_LOSS"), InvalidArgumentError, "model_outputs: got shape (70,)"),
    (lambda: popnn.calc_loss(X, LABELS, "HUBER"), InvalidArgumentError, "loss_type: got HUBER"),
    (lambda: popnn.calc_loss(X, LABELS, "SUM_SQUARED_LOSS", deltas_scale=2.0), InvalidArgumentError, "deltas_scale"),
])  # fmt: skip
def test_bad_input_is_refused_by_name(call, error, words):
    with pytest.raises(error, match="^" + re.escape(words)):
        call()


def test_labels_may_be_a_list() -> None:
    p = np.full((4, 3), 1 / 3, np.float32)
    for of_list, of_array in zip(popnn.calc_loss(p, [0, 1, 2, 1], "CROSS_ENTROPY_LOSS"),
                                 popnn.calc_loss(p, np.int64([0, 1, 2, 1]), "CROSS_ENTROPY_LOSS"), strict=True):
        assert_same_bits(of_list, of_array)


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
@pytest.mark.parametrize("out_dtype", [None, "float32"])
def test_cross_entropy_of_large_logits(dtype, out_dtype):
    for size in (1.0, 759.5, 3e3, 6e4):
        x = (size * RNG.choice([-1.0, 1.0], (9, 1)) + RNG.standard_normal((9, 5))).astype(dtype)
        testing.check("popnn.cross_entropy", x, RNG.integers(0, 5, 9).astype(np.int32), out_dtype=out_dtype)
        testing.check("popnn.cross_entropy", x[:, :1], np.zeros(9, np.int32), out_dtype=out_dtype)
