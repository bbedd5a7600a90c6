"""Batch norm of a run, of several machines, and folded into weights: exact data, results demanded to the bit."""

import re
import threading

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from poplibs_py import poplin, popnn, testing
from poplibs_py.errors import InvalidArgumentError, InvalidTypeError
from poplibs_py.testing.calls import calls

RNG = np.random.default_rng(3)
SIGNS = RNG.permuted(np.tile([-2.0, 2.0], (3, 32)), axis=1).astype(np.float32)
X = np.moveaxis((SIGNS + np.float32([[2], [-3], [5]])).reshape(3, 4, 4, 4), 0, 1)  # means 2, -3, 5; variances 4
GRAD = RNG.integers(-3, 4, X.shape).astype(np.float32)
GAMMA, BETA = np.float32([2, 1, 4]), np.float32([1, 0, -2])


@settings(max_examples=15)
@given(st.data())
def test_drawn_calls_are_within_their_bounds(data):
    operands, keywords = data.draw(calls("popnn.batch_normalise"))
    testing.check("popnn.batch_normalise", *operands, **keywords)


def machines(parts, step):
    """What each of several machines makes of its part, which add up what they give to the callback."""
    barrier, given, made = threading.Barrier(len(parts)), [None] * len(parts), [None] * len(parts)

    def run(number):
        def all_reduce(values):
            given[number] = values
            barrier.wait(10)
            sums = sum(given)
            barrier.wait(10)
            return sums

        made[number] = step(parts[number], all_reduce)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(len(parts))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    return made


@pytest.mark.parametrize("stable", [True, False])
def test_machines_have_the_statistics_of_all(stable):
    parts = [X[:1], X[1:]]
    for made in machines(parts, lambda x, add: popnn.batch_norm_statistics(x, stable_algo=stable, all_reduce=add)):
        np.testing.assert_array_equal(made.mean, [2, -3, 5])
        np.testing.assert_array_equal(made.variance, [4, 4, 4])
        assert made.elements == 64


def test_training_moves_running_statistics():
    made = popnn.batch_norm_training(X, GAMMA, BETA, running_mean=[0, 1, 1], momentum=0.25, eps=0.0)
    np.testing.assert_array_equal(made.y, popnn.batch_norm(X, GAMMA, BETA, eps=0.0))
    np.testing.assert_array_equal(made.running_mean, [0.5, 0, 2])
    np.testing.assert_array_equal(made.running_variance, np.float32(0.75 + 0.25 * 4 * 64 / 63))
    two = popnn.batch_norm_training(X[:1, :, :1, 1:3], eps=0.0, unbiased_var_estimate=True)  # n / (n - 1) is 2
    due = popnn.batch_norm_inference(X[:1, :, :1, 1:3], two.statistics.mean, 2 * two.statistics.variance, eps=0.0)
    np.testing.assert_array_equal(two.y, due)


def test_gradients_of_machines_are_parts_of_the_gradient():
    whole = popnn.batch_norm_grad(GRAD, X, GAMMA, eps=0.0)
    cuts = [slice(0, 1), slice(1, 4)]
    statistics = popnn.batch_norm_statistics(X)
    made = machines(cuts, lambda cut, add: popnn.distributed_batch_norm_grad(
        GRAD[cut], X[cut], statistics, GAMMA, eps=0.0, all_reduce=add))
    np.testing.assert_array_equal(np.concatenate([part.x_grad for part in made]), whole.x_grad)
    np.testing.assert_array_equal(sum(part.gamma_grad for part in made), whole.gamma_grad)
    np.testing.assert_array_equal(sum(part.beta_grad for part in made), whole.beta_grad)


def test_inference_is_one_for_any_strides_and_folds_into_weights():
    mean, variance = [2.0, -3.0, 5.0], [4.0, 4.0, 4.0]
    y = popnn.batch_norm_inference(X, mean, variance, GAMMA, BETA, eps=0.0)
    np.testing.assert_array_equal(y, popnn.batch_norm(X, GAMMA, BETA, eps=0.0))
    last = np.moveaxis(np.ascontiguousarray(np.moveaxis(X, 1, -1)), -1, 1)
    np.testing.assert_array_equal(popnn.batch_norm_inference(last, mean, variance, GAMMA, BETA, eps=0.0), y)
    w, bias = RNG.integers(-2, 3, (3, 3, 1, 1)).astype(np.float32), np.float32([1, 2, 3])
    behind = popnn.batch_norm_inference(poplin.convolution(X, w, bias=bias), mean, variance, GAMMA, BETA, eps=0.0)
    folded = popnn.fold_batch_norm(w, mean, variance, GAMMA, BETA, bias, eps=0.0)
    made = poplin.convolution(X, folded.weights, bias=folded.bias, activation="relu")
    np.testing.assert_array_equal(made, np.maximum(behind, 0))
    folded = popnn.fold_batch_norm(w[..., 0, 0].T, mean, variance, GAMMA, BETA, bias, eps=0.0, axis=1)
    made = poplin.matmul(X[..., 0, 0], folded.weights, bias=folded.bias)
    np.testing.assert_array_equal(made, behind[..., 0, 0])


def test_nothing_has_statistics_of_zero():
    made = popnn.batch_norm_training(np.zeros((0, 2), np.float32))
    assert made.y.shape == (0, 2)
    np.testing.assert_array_equal(made.statistics.mean, [0, 0])


@pytest.mark.parametrize(("call", "error", "words"), [
    (lambda: popnn.batch_normalise(X, GAMMA[1:], BETA), InvalidArgumentError, "multiplicand: got shape (2,)"),
    (lambda: popnn.batch_norm_inference(X, GAMMA, BETA[1:]), InvalidArgumentError, "variance: got shape (2,)"),
    (lambda: popnn.batch_norm_training(X, momentum=2.0), InvalidArgumentError, "momentum: got 2.0"),
    (lambda: popnn.batch_norm_training(X, running_mean=[1.0]), InvalidArgumentError, "running_mean: got shape (1,)"),
    (lambda: popnn.batch_norm_statistics(X, all_reduce=3), InvalidTypeError, "all_reduce: got int"),
    (lambda: popnn.batch_norm_statistics(X, all_reduce=lambda v: v[0]), InvalidArgumentError,
     "all_reduce: got a result"),
    (lambda: popnn.batch_norm_statistics(X[0, 0, 0]), InvalidArgumentError, "x: got shape (4,)"),
    (lambda: popnn.distributed_batch_norm_grad(GRAD[1:], X, popnn.batch_norm_statistics(X)), InvalidArgumentError,
     "grad: got shape (3, 3, 4, 4)"),
    (lambda: popnn.distributed_batch_norm_grad(GRAD, X, None), InvalidTypeError, "statistics: got NoneType"),
    (lambda: popnn.fold_batch_norm(X, GAMMA, BETA, axis=9), InvalidArgumentError, "axis: got 9"),
])  # fmt: skip
def test_bad_input_is_refused_by_name(call, error, words):
    with pytest.raises(error, match="^" + re.escape(words)):
        call()
