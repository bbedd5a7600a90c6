"""Every op on any bit patterns is within its own bound; references, fractions and bounds agree."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from poplibs_py import testing
from poplibs_py.errors import InvalidArgumentError
from poplibs_py.formats import QuarterArray
from poplibs_py.popsparse import BlockSparseMatrix
from poplibs_py.testing import OPS
from poplibs_py.testing.calls import CALLS, calls
from poplibs_py.testing.exact_ops import EXACT


@pytest.mark.parametrize("op", OPS)
@settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(data=st.data())
def test_any_call_is_within_its_bound(op, data):
    operands, keywords = data.draw(calls(op))
    testing.check(op, *operands, **keywords)


def exact_operands(op):
    """Operands of small whole numbers, whose results every format of theirs holds."""
    rng = np.random.default_rng(1)
    a, b, c = (rng.integers(-8, 8, (4, 4)).astype(np.float16) for _ in range(3))
    w = BlockSparseMatrix.from_dense(a.astype(np.float32), 2, density=0.5, format="bfloat16")
    single = BlockSparseMatrix.from_dense(a.astype(np.float32), 2, density=0.5)
    pair = BlockSparseMatrix.from_dense(np.stack([a, b]).astype(np.float32), 2, density=0.5)
    batch = np.concatenate([b, c], 1)
    return {
        "bs_softmax": (single,), "bs_softmax_grad": (single, single), "cast": (a, "f143"),
        "dense_sparse_matmul": (b, w), "dynamic_sparse_dense_matmul": (w, b), "fully_connected_fwd": (pair, batch),
        "fully_connected_grad_a": (pair, batch), "fully_connected_sparse_grad_w": (pair, batch, batch[:, ::-1]),
        "matmul": (a, b), "matmul_acc": (c, a, b), "matmul_grouped": (a[None], b[None]),
        "matmul_grouped_acc": (c[None], a[None], b[None]), "matmul_prepared": (a, b), "matmul_prepared_left": (a, b),
        "sparse_dense_matmul": (w, b), "sparse_dense_matmul_prepared": (w, b), "sparse_grad_w": (w.T, b, c),
    }[op]  # fmt: skip


@pytest.mark.parametrize("op", OPS)
def test_every_op_has_a_bound_a_reference_a_strategy_and_fractions(op):
    operands = exact_operands(op)
    ball = testing.bound(op, *operands)
    assert op in CALLS
    assert (testing.reference(op, *operands) == ball.centre).all()
    if op == "bs_softmax":  # exponentials
        with pytest.raises(InvalidArgumentError, match=r"^op: got bs_softmax; allowed: one whose results"):
            testing.exact(op, *operands)
    else:
        assert op in EXACT
        assert (ball.centre == testing.exact(op, *operands)).all()
    testing.check(op, *operands)


@pytest.mark.parametrize("op", sorted(set(OPS) - {"cast"}))
def test_a_result_that_is_wrong_is_found(op):
    operands = exact_operands(op)
    ball = testing.bound(op, *operands)
    got = testing.check(op, *operands)
    numbers = np.array(got.blocks if isinstance(got, BlockSparseMatrix) else got)
    place = np.unravel_index(np.argmax(np.abs(ball.centre)), ball.shape)
    numbers[place] *= 1.01
    with pytest.raises(AssertionError, match="outside their bounds"):
        testing.assert_within_bound(numbers, ball)


def test_an_unknown_op_is_named_with_those_there_are():
    with pytest.raises(InvalidArgumentError, match="op: got matmull; allowed: 'bs_softmax', "):
        testing.bound("matmull")


def test_a_transcendental_activation_has_no_fractions():
    with pytest.raises(InvalidArgumentError, match="activation"):
        testing.exact("matmul", np.ones((1, 1), np.float32), np.ones((1, 1), np.float32), activation="gelu")


def test_values_of_a_quarter_array_carry_its_scales():
    q = QuarterArray.from_array([[1.0, 2.0], [300.0, -4000.0]], "f143", scale="auto", block_shape=(1, -1))
    assert np.array_equal(testing.values_of(q), q.to_array(np.float64))
