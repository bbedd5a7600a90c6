"""CTC losses and their gradients: all alignments by hand, invariants, levels, layouts, what is refused."""

from __future__ import annotations

import itertools
import math

import ml_dtypes
import numpy as np
import pytest

from poplibs_py import popnn, profile, testing
from poplibs_py.config import thread_limit
from poplibs_py.errors import InvalidArgumentError, InvalidTypeError, UnsupportedError
from poplibs_py.kernels import kernels
from poplibs_py.kernels.registry import Selection
from poplibs_py.memo import forget
from poplibs_py.popnn.ctc import lower
from poplibs_py.popnn.ctc.bound import ctc_loss_and_gradient_bound
from poplibs_py.testing import assert_same_bits, assert_within_bound


def log_softmax(x):
    apart = x - x.max(-1, keepdims=True)
    return (apart - np.log(np.exp(apart).sum(-1, keepdims=True))).astype(np.float32)


def drawn(steps, batch, classes, longest, seed=0, blank=0):
    """Logits and labels."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, classes - 1, (batch, longest))
    return rng.standard_normal((steps, batch, classes)).astype(np.float32), labels + (labels >= blank)


def without_repeats_and_blanks(path, blank):
    return tuple(k for k, _ in itertools.groupby(path) if k != blank)


@pytest.mark.parametrize("labels", [(), (1,), (2, 2), (1, 2), (2, 1, 2)])
@pytest.mark.parametrize("blank", [0, 3])
def test_the_loss_is_that_of_all_alignments_together(labels, blank):
    steps, classes = 5, 4
    labels = tuple(3 - k if blank else k for k in labels)
    labels = tuple(k for k in labels if k != blank)
    x = drawn(steps, 1, classes, 0, seed=len(labels))[0]
    p = np.exp(testing.values_of(x[:, 0]) - np.log(np.exp(testing.values_of(x[:, 0])).sum(-1, keepdims=True)))
    total, posteriors = 0.0, np.zeros((steps, classes))
    for path in itertools.product(range(classes), repeat=steps):
        if without_repeats_and_blanks(path, blank) == labels:
            share = math.prod(p[t, k] for t, k in enumerate(path))
            total += share
            posteriors[range(steps), path] += share
    loss, grad = popnn.ctc_loss_and_gradient(x, np.array([labels], np.int32), blank=blank, logits=True)
    radii = ctc_loss_and_gradient_bound(x, np.array([labels], np.int32), blank=blank, logits=True)
    assert abs(loss[0] + math.log(total)) <= radii[0].radius[0]
    assert (np.abs(grad[:, 0] - (p - posteriors / total)) <= radii[1].radius[:, 0]).all()


def test_probabilities_that_are_powers_of_two_give_exact_gradients():
    half, nothing = np.log(0.5), -np.inf
    steps = np.float32([[half, half, nothing], [nothing, half, half], [half, nothing, half]])[:, None]
    loss, grad = popnn.ctc_loss_and_gradient(steps, [[1, 2]], include_softmax_gradient=False)
    alignments = [(0, 1, 2), (1, 1, 2), (1, 2, 2), (1, 2, 0)]  # of equal probability
    due = np.zeros((3, 1, 3))
    for path in alignments:
        due[range(3), 0, path] -= 0.25
    np.testing.assert_array_equal(grad, due.astype(np.float32))
    assert loss[0] == np.float32(-np.log(0.5))


def test_labels_that_cannot_be_are_infinite_or_nothing():
    x, _ = drawn(3, 4, 4, 0)
    labels = np.array([[1, 1, 2], [1, 2, 3], [1, 0, 0], [3, 0, 0]])  # four steps, three, two of nothing, none left
    rest = labels, [3, 3, 3, 0], [3, 3, 1, 1]
    logs = log_softmax(x)
    logs[:, 2, 1] = -np.inf
    loss, grad = popnn.ctc_loss_and_gradient(logs, *rest)
    assert np.isinf(loss).tolist() == [True, False, True, True]
    assert np.isnan(grad).all((0, 2)).tolist() == [True, False, True, False]
    loss, grad = popnn.ctc_loss_and_gradient(logs, *rest, zero_infinity=True)
    assert loss[[0, 2, 3]].tolist() == [0, 0, 0]
    assert not grad[:, [0, 2, 3]].any()
    assert loss[1] == popnn.ctc_loss(logs, *rest)[1]


def test_what_comes_after_a_sequence_does_not_count():
    x, labels = drawn(9, 3, 6, 5, seed=1)
    ends, counts = np.array([9, 4, 0]), np.array([5, 2, 0])
    loss, grad = popnn.ctc_loss_and_gradient(x, labels, ends, counts, logits=True)
    for n in range(3):
        x[ends[n]:, n] = np.nan
        labels[n, counts[n]:] = -7
        own = popnn.ctc_loss_and_gradient(x[:ends[n], n, None], labels[n, None, :counts[n]], logits=True)
        assert_same_bits(loss[n, None], own.loss)
        assert_same_bits(grad[:ends[n], n], own.grad[:, 0])
        assert not grad[ends[n]:, n].any()
    assert_same_bits(popnn.ctc_loss(x, labels, ends, counts, logits=True), loss)
    assert loss[2] == 0


def test_numbers_that_are_none_spoil_their_sequence_alone():
    x, labels = drawn(6, 4, 5, 2)
    x[2, 1, 4], x[3, 2, 0] = np.nan, np.inf
    loss, grad = popnn.ctc_loss_and_gradient(x, labels, logits=True)
    assert np.isnan(loss).tolist() == [False, True, True, False]
    assert np.isnan(grad).all((0, 2)).tolist() == [False, True, True, False]


def test_long_paths_keep_their_digits():
    steps = 2000
    x, labels = drawn(steps, 1, 20, 150, seed=3)
    x *= 12  # a path's logarithm is about -30,000
    ball = testing.bound("ctc_loss", x, labels, logits=True)
    loss = testing.check("ctc_loss", x, labels, logits=True)
    assert 2e4 < loss[0] < 1e5
    assert ball.radius[0] < 2e-6 * loss[0]


@pytest.mark.parametrize("logits", [False, True])
def test_reversal_and_other_names_of_classes_change_little(logits):
    x, labels = drawn(40, 2, 7, 12, seed=4)
    x = x if logits else log_softmax(x)
    loss, grad = popnn.ctc_loss_and_gradient(x, labels, logits=logits)
    radii = testing.bound("ctc_loss_and_gradient", x, labels, logits=logits)
    back = popnn.ctc_loss_and_gradient(x[::-1], labels[:, ::-1], logits=logits)
    np.testing.assert_array_less(np.abs(back.loss - loss), 2 * radii[0].radius)
    np.testing.assert_array_less(np.abs(back.grad[::-1] - grad), 2 * radii[1].radius)
    order = np.random.default_rng(0).permutation(7)
    place = np.argsort(order)
    named = popnn.ctc_loss_and_gradient(x[..., order], place[labels], blank=int(place[0]), logits=logits)
    np.testing.assert_array_less(np.abs(named.loss - loss), 2 * radii[0].radius)
    np.testing.assert_array_less(np.abs(named.grad[..., place] - grad), 2 * radii[1].radius)


def test_reductions_are_those_of_the_losses():
    x, labels = drawn(12, 3, 6, 4)
    counts = np.array([4, 0, 2])
    loss, grad = popnn.ctc_loss_and_gradient(x, labels, None, counts, logits=True)
    weights = 1 / (np.maximum(counts, 1) * 3)
    for reduction, each in (("sum", np.ones(3)), ("mean", weights)):
        total, of_total = popnn.ctc_loss_and_gradient(x, labels, None, counts, logits=True, reduction=reduction)
        assert total.shape == ()
        np.testing.assert_allclose(total, (loss.astype(np.float64) * each).sum(), rtol=1e-6)
        np.testing.assert_allclose(of_total, grad * each[None, :, None], rtol=1e-5, atol=1e-8)


@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16])
def test_every_level_and_number_of_threads_gives_the_same_bits(dtype, monkeypatch):
    x, labels = drawn(30, 5, 37, 18, seed=6)
    x, ends, counts = x.astype(dtype), [30, 29, 3, 30, 0], [18, 3, 1, 17, 0]
    how = {"logits": True, "reduction": "mean"}
    due = popnn.ctc_loss_and_gradient(x, labels, ends, counts, **how)
    monkeypatch.setattr(lower, "_THREAD_WORK", 100)
    for kernel in kernels("ctc"):
        if kernel.op != "loss":
            continue
        monkeypatch.setattr(lower, "select", lambda *_, taken=kernel: Selection(taken, ()))
        for threads in (1, 2, 3):
            forget()
            with thread_limit(threads), profile() as report:
                got = popnn.ctc_loss_and_gradient(x, labels, ends, counts, **how)
            assert report.runs[0].plan.threads == threads
            for one, other in zip(got, due, strict=True):
                assert_same_bits(one, other)
    forget()


def test_layouts_do_not_matter_and_out_is_written():
    x, labels = drawn(7, 3, 5, 3)
    due = popnn.ctc_loss_and_gradient(x, labels, logits=True)
    batch_first = np.ascontiguousarray(x.swapaxes(0, 1)).swapaxes(0, 1)
    for same in (batch_first, np.asfortranarray(x), np.ascontiguousarray(x[::-1])[::-1]):
        for one, other in zip(popnn.ctc_loss_and_gradient(same, labels, logits=True), due, strict=True):
            assert_same_bits(one, other)
    loss, grad = np.zeros(6, np.float32)[::2], x.copy()
    made = popnn.ctc_loss_and_gradient(grad, labels, logits=True, out=(loss, grad))
    assert made.loss is loss
    assert_same_bits(loss, due.loss)
    assert_same_bits(grad, due.grad)
    assert_same_bits(popnn.ctc_loss(x, labels, logits=True, out=np.zeros(3, np.float32)), due.loss)


def test_the_second_call_looks_at_its_own_labels():
    x, labels = drawn(5, 2, 4, 2)
    for _ in range(3):
        popnn.ctc_loss(x, labels)
    labels[1, 1] = 4
    with pytest.raises(InvalidArgumentError, match=r"labels: got 4 at \[1, 1\]; allowed: 0 to 3 without 0"):
        popnn.ctc_loss(x, labels)
    labels[1, 1] = 0
    with pytest.raises(InvalidArgumentError, match=r"labels: got 0 at \[1, 1\]"):
        popnn.ctc_loss(x, labels)


X, LABELS = drawn(5, 2, 4, 2)


@pytest.mark.parametrize(("arguments", "how", "error", "message"), [
    ((X[0], LABELS), {}, InvalidArgumentError, "data: got shape"),
    ((X[..., :0], LABELS), {}, InvalidArgumentError, "data: got shape"),
    ((X.astype(np.float64), LABELS), {}, InvalidTypeError, "data: got dtype float64"),
    ((X, LABELS.astype(np.float32)), {}, InvalidTypeError, "labels: got dtype float32"),
    ((X, LABELS[:1]), {}, InvalidArgumentError, "labels: got shape"),
    ((X, LABELS, [5, 6]), {}, InvalidArgumentError, "data_lengths: got a length of 6; allowed: lengths from 0 to 5"),
    ((X, LABELS, [5]), {}, InvalidArgumentError, "data_lengths: got shape"),
    ((X[:, :0], LABELS[:0], np.zeros(0, complex)), {}, InvalidTypeError, "data_lengths: got dtype complex128"),
    ((X, LABELS, None, [-1, 2]), {}, InvalidArgumentError, "label_lengths: got a length of -1"),
    ((X, LABELS), {"blank": 4}, InvalidArgumentError, "blank: got 4; allowed: a whole number from 0 to 3"),
    ((X, LABELS), {"reduction": "max"}, InvalidArgumentError, "reduction: got max"),
    ((X, LABELS), {"logits": 1}, InvalidTypeError, "logits: got 1"),
    ((X, LABELS), {"out_dtype": "f143"}, InvalidArgumentError, "out_dtype: got f143"),
    ((X, LABELS), {"target": "gc200", "zero_infinity": True}, UnsupportedError, "target: gc200 has no vertex"),
])
def test_what_cannot_be_is_refused_by_name(arguments, how, error, message):
    for function in (popnn.ctc_loss, popnn.ctc_loss_and_gradient):
        with pytest.raises(error, match=message):
            function(*arguments, **how)


def test_inside_a_profile_of_a_machine_it_runs_here_and_says_so():
    with profile(target="gc200") as report:
        popnn.ctc_loss(X, LABELS)
    assert "popnn.ctc_loss" in report.runs[0].lacking


def test_a_bound_tells_a_wrong_result():
    ball = testing.bound("ctc_loss", X, LABELS, logits=True)
    with pytest.raises(AssertionError, match="outside their bounds"):
        assert_within_bound(ball.centre * (1 + 1e-4), ball)
