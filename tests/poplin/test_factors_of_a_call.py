"""Factors that each call has of its own: another alpha, beta or scale runs the same program, as exactly."""

import ml_dtypes
import numpy as np
import pytest

from poplibs_py import poplin, profile, testing
from poplibs_py.errors import InvalidArgumentError, InvalidTypeError
from poplibs_py.formats import QuarterArray

RNG = np.random.default_rng(18)
A, B, C, X, K, D = (RNG.integers(-3, 4, shape).astype(np.float32) for shape in (
    (9, 40), (40, 21), (9, 21), (2, 8, 7, 7), (16, 8, 3, 3), (2, 16, 5, 5)))
NUMBERS = [0.3, -0.7, 1 / 3, 3, -5, 1000003, 1e-40, 1e-60, 3e38, np.float32(0.1), 1, 2, -0.5, 0.0, -0.0]
OWN = [0.123, -11.7, 3e-5, 65537.5]
BLOCKS = QuarterArray.from_array(A, "f143", block_shape=(1, 8))
COLUMN = np.asfortranarray(K)  # sums lie otherwise than kernels of channels do
DEPTHWISE = K[:, :1].copy()


def weights(k, **how):
    deltas, x = D.astype(k.dtype), X.astype(k.dtype)
    return lambda s: (poplin.convolution_weight_update, (deltas, k.copy(order="K"), x, s), how)


CALLS = {
    "matmul": lambda s: (poplin.matmul, (A, B), {"alpha": s}),
    "of halves": lambda s: (poplin.matmul, (A.astype(np.float16), B.astype(ml_dtypes.bfloat16)), {"alpha": s}),
    "with a bias": lambda s: (poplin.matmul, (A, B), {"alpha": s, "bias": C[0], "activation": "relu"}),
    "of blocks with scales": lambda s: (poplin.matmul, (BLOCKS, B), {"alpha": s}),
    "prepared": lambda s: (poplin.matmul, (A, PREPARED), {"alpha": s}),
    "matmul_acc": lambda s: (poplin.matmul_acc, (C.copy(), A, B), {"alpha": s, "beta": 0.7}),
    "beta": lambda s: (poplin.matmul_acc, (C.copy(), A, B), {"beta": s}),
    "grouped": lambda s: (poplin.matmul_grouped_acc, (C[None].copy(), A[None], B[None]), {"alpha": s, "beta": -0.7}),
    "weights": weights(K),
    "weights in columns": weights(COLUMN),
    "weights of halves": weights(K.astype(np.float16)),
    "depthwise weights": weights(DEPTHWISE, groups=8),
    "bias": lambda s: (poplin.convolution_bias_update, (D, C[0, :16].copy(), s), {}),
}
PREPARED = poplin.prepare(B)


@pytest.mark.parametrize("name", CALLS)
def test_numbers_of_a_call_are_as_exact_as_constants_and_no_other_kinds_of_calls(name):
    def told(number):
        op, operands, how = CALLS[name](number)
        again, others, _ = CALLS[name](number)
        with profile():  # where nothing is kept
            due = again(*others, **how)
        np.testing.assert_array_equal(np.asarray(op(*operands, **how)), np.asarray(due))
        return op

    with np.errstate(all="ignore"):
        for number in NUMBERS:
            face = told(number)
        kept = face.kept
        for number in OWN:
            told(number)
    assert face.kept == kept or name == "grouped"  # which counts them by their values


@pytest.mark.parametrize("number", [*NUMBERS, *OWN])
def test_they_are_within_the_bounds_of_their_ops(number):
    with np.errstate(all="ignore"):
        assert testing.bound("matmul", A, B, alpha=number).contains(poplin.matmul(A, B, alpha=number)).all()
        made = poplin.matmul_acc(C.copy(), A, B, alpha=0.3, beta=number)
        assert testing.bound("matmul_acc", C, A, B, alpha=0.3, beta=number).contains(made).all()
        made = poplin.convolution_weight_update(D, K.copy(), X, number)
        assert testing.bound("convolution_weight_update", D, K, X, number).contains(made).all()


def test_a_beta_that_float32_holds_as_zero_reads_nothing():
    for beta in (0.3, 1e-60, 0.0, 0.7):
        made = poplin.matmul_acc(np.full_like(C, np.nan), A, B, beta=beta)
        assert np.isnan(made).all() == (beta in (0.3, 0.7))


@pytest.mark.parametrize("bad", [np.inf, np.nan, 1e39, -1e300, 10**40])
def test_numbers_beyond_fp32_are_refused_after_good_ones_too(bad):
    for op, operands, name in ((poplin.matmul, (A, B), "alpha"), (poplin.matmul_acc, (C.copy(), A, B), "beta")):
        op(*operands, **{name: 0.3})
        with pytest.raises(InvalidArgumentError, match=name):
            op(*operands, **{name: bad})


def test_a_plan_tells_that_its_factor_is_the_call_s():
    with profile() as seen:
        poplin.matmul(A, B, alpha=0.3)
    assert str(seen.runs[0].plan.epilogue.alpha) == "a number of each call"


def test_a_plan_with_a_beta_wants_what_it_multiplies():
    run = poplin.compile_matmul(poplin.plan_matmul(A.shape, B.shape, alpha=0.3, beta=0.5))
    with pytest.raises(InvalidArgumentError, match="out: got None"):
        run(A, B)
    c = C.copy()
    assert testing.bound("matmul_acc", C, A, B, alpha=0.3, beta=0.5).contains(run(A, B, out=c)).all()


def test_plans_of_calls_with_numbers_of_their_own_and_of_updates_are_not_compiled():
    with profile() as seen:
        poplin.matmul(A, B, alpha=0.3)
        poplin.convolution_weight_update(D, K.copy(), X, 0.3)
        poplin.convolution_weight_update(D, K.copy(), X, 2.0)
    product, *updates = (run.plan for run in seen.runs)
    with pytest.raises(InvalidArgumentError, match="a number of each call"):
        poplin.compile_matmul(product)
    for plan in updates:
        with pytest.raises(InvalidArgumentError, match="an update of weights"):
            poplin.compile_convolution(plan)


def test_a_bad_scale_has_its_name():
    for bad, error in ((np.inf, InvalidArgumentError), (np.timedelta64(3, "s"), InvalidTypeError),
                       (True, InvalidTypeError)):
        with pytest.raises(error, match=r"^scale"):
            poplin.convolution_weight_update(D, K.copy(), X, bad)
        with pytest.raises(error, match=r"^scale"):
            poplin.convolution_bias_update(D, C[0, :16].copy(), bad)


def test_zeros_of_both_signs_are_one_factor():
    for first, second in ((0.0, -0.0), (-0.0, 0.0)):
        made = [poplin.matmul(A, B, alpha=zero) for zero in (first, second)]
        np.testing.assert_array_equal(*(np.signbit(x) for x in made))
