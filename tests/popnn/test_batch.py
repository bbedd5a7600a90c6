"""Batch norm of a run, of several machines, and folded into weights: exact data, results demanded to the bit."""

import re
import threading

import ml_dtypes
import numpy as np
import pytest
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from result_bits import bits

from poplibs_py import poplin, popnn, profile, testing
from poplibs_py.errors import InvalidArgumentError, InvalidTypeError, UnsupportedError
from poplibs_py.formats import F143, QuarterArray
from poplibs_py.testing.calls import calls

RNG = np.random.default_rng(3)
SIGNS = RNG.permuted(np.tile([-2.0, 2.0], (3, 32)), axis=1).astype(np.float32)
X = np.moveaxis((SIGNS + np.float32([[2], [-3], [5]])).reshape(3, 4, 4, 4), 0, 1)  # means 2, -3, 5; variances 4
GRAD = RNG.integers(-3, 4, X.shape).astype(np.float32)
GAMMA, BETA = np.float32([2, 1, 4]), np.float32([1, 0, -2])


@pytest.mark.parametrize("name", ["batch_norm_training", "batch_norm_statistics", "batch_norm_inference",
                                  "batch_normalise"])
@settings(max_examples=examples(25))
@given(st.data())
def test_drawn_calls_are_within_their_bounds(name, data):
    operands, keywords = data.draw(calls(f"popnn.{name}"))
    testing.check(f"popnn.{name}", *operands, **keywords)


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
    due = popnn.batch_norm(X[:1, :, :1, 1:3], eps=0.0, unbiased_var_estimate=True)
    np.testing.assert_array_equal(two.y, due)


@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fnuz])
@pytest.mark.parametrize("shape", [(6, 24), (40, 5), (3, 8, 9), (2, 20, 17, 4), (1, 70, 33, 65)])
@pytest.mark.parametrize("stable", [True, False])
def test_training_is_batch_norm_wherever_channels_lie(shape, dtype, stable):
    """To the bit, and the statistics are those of `batch_norm_statistics`."""
    x, own = RNG.standard_normal(shape).astype(dtype), RNG.standard_normal((4, shape[1])).astype(np.float32)
    how = {"running_mean": own[0], "running_variance": abs(own[1]), "unbiased_var_estimate": True}
    last = np.moveaxis(np.ascontiguousarray(np.moveaxis(x, 1, -1)), -1, 1)
    first = popnn.batch_norm_training(x, own[2], own[3], **how, stable_algo=stable)
    batch = np.moveaxis(np.ascontiguousarray(np.moveaxis(x, 0, -1)), -1, 0)
    for acts in (x, last, batch, x[:, ::-1][:, ::-1]):
        made = popnn.batch_norm_training(acts, own[2], own[3], **how, stable_algo=stable)
        assert bits(made) == bits(first)
        assert made.y.strides == np.empty_like(acts, made.y.dtype).strides
        assert bits(made.statistics) == bits(popnn.batch_norm_statistics(acts, stable_algo=stable))
    if stable:
        due = popnn.batch_norm(x, own[2], own[3], unbiased_var_estimate=True, out_dtype=first.y.dtype)
        assert bits(first.y) == bits(due)


def test_an_algorithm_loses_what_the_mean_has_more():
    x = np.float32([[1e6 - 1], [1e6 + 1]])
    assert popnn.batch_norm_statistics(x).variance == 1
    assert popnn.batch_norm_statistics(x, stable_algo=False).variance != 1
    assert popnn.batch_norm_statistics(X, stable_algo=False).variance.tolist() == [4, 4, 4]


def test_the_result_alone_may_be_given():
    """Its place is as any op's; further results are new, in a repeated call too."""
    due, x = popnn.batch_norm_training(X, GAMMA, BETA), X.copy()
    strided, quarter = np.empty((*X.shape, 2), np.float32)[..., 0], QuarterArray(np.zeros(X.shape, np.uint8), F143, -3)
    for out in (np.empty_like(X), strided, x, quarter):
        for _ in range(3):
            x[...] = X
            made = popnn.batch_norm_training(x, GAMMA, BETA, out=out)
            assert made.y is out
            assert bits(made[1:]) == bits(due[1:])
            assert bits(np.ascontiguousarray(out)) == bits(due.y) if out is not quarter else out.to_array().any()
    before = GAMMA.copy()
    made = popnn.batch_norm_training(X, running_mean=before, momentum=0.5)
    again = popnn.batch_norm_training(X, running_mean=before, momentum=0.5)
    assert bits(made) == bits(again)
    assert not np.may_share_memory(made.running_mean, again.running_mean)
    np.testing.assert_array_equal(before, GAMMA)


def test_several_machines_tell_of_their_sums_and_of_the_norm():
    with profile(target="gc200") as report:
        made = popnn.batch_norm_training(X, all_reduce=lambda sums: 2 * sums, eps=0.0)
    *_, run = report.runs
    assert (run.op, "over several machines" in run.lacking) == ("popnn.batch_norm_training", True)
    with pytest.raises(UnsupportedError, match=r"^target: gc200 has no vertex for .* over several machines"):
        popnn.batch_norm_statistics(X, all_reduce=np.copy, target="gc200")
    assert made.statistics.elements == 128
    np.testing.assert_array_equal(made.y, popnn.batch_norm(X, eps=0.0))


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


def test_kept_folds_read_their_vectors_anew():
    w, mean, variance = (RNG.normal(size=n).astype(np.float32) for n in ((4, 6), 6, 6))
    gamma, bias = np.ones(6, np.float16), QuarterArray.from_array(np.arange(6.0), "f143", 1)
    outs, before = (np.zeros((6, 4), np.float32).T, np.zeros(6, np.float32)), popnn.fold_batch_norm.kept
    for shift in (1.0, 2.0, 3.0):
        variance[...] = shift**2
        mean[...] = gamma[...] = shift
        for _ in range(2):
            made = popnn.fold_batch_norm(w, mean, variance, gamma, None, bias, eps=0.0, axis=1, out=outs)
            assert made.weights is outs[0]
            np.testing.assert_array_equal(made.weights, w)
            np.testing.assert_array_equal(made.bias, np.arange(6) - shift)
    assert popnn.fold_batch_norm.kept == before + 1
    with pytest.raises(InvalidTypeError, match=r"^mean: got"):
        popnn.fold_batch_norm(w, None, variance, axis=1)


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
