"""Every op on any bit patterns is within its own bound; references, fractions and bounds agree."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from poplibs_py import testing
from poplibs_py.errors import InvalidArgumentError
from poplibs_py.formats import FORMATS, FP32, QuarterArray
from poplibs_py.popsparse import BlockSparseMatrix
from poplibs_py.testing import OPS, strategies
from poplibs_py.testing.exact_ops import EXACT

ACTIVATIONS = {"activation": ["relu", "gelu", "silu"]}
BLOCKS = [(1, 1), (4, 4), (8, 8), (16, 16), (3, 5), (1, 4), (32, 32)]
extent = strategies.extents("dot", most=70)


@st.composite
def matrices(draw, finite=False):
    """Block-sparse matrices of any bit patterns."""
    block = draw(st.sampled_from(BLOCKS))
    mask = draw(strategies.block_masks(st.integers(1, 5), st.integers(1, 5)))
    fmt = draw(strategies.formats())
    rows, columns = (n * b - draw(st.integers(0, b - 1)) for n, b in zip(mask.shape, block, strict=True))
    w = BlockSparseMatrix.from_mask(mask, block, shape=(rows, columns), format=fmt)
    values = draw(strategies.arrays(w.blocks.shape, fmt, finite=finite))
    inside = BlockSparseMatrix.from_dense(np.ones((rows, columns), np.float32), block, mask=mask).blocks != 0
    w.blocks[...] = np.where(inside, values, np.zeros((), fmt.dtype))
    scaled = BlockSparseMatrix(w.pattern, w.blocks, fmt, draw(st.integers(-32, 31))) if fmt.bits == 8 else w
    return scaled.T if draw(st.booleans()) else scaled


@given(st.data(), strategies.options({**ACTIVATIONS, "alpha": [0.5, -3.0], "partials_type": ["half"],
                                      "reproducible": [True], "out_dtype": [f.name for f in FORMATS]}))
def test_matmul_of_any_bits(data, keywords):
    m, k, n = (data.draw(extent) for _ in range(3))
    operands = [data.draw(strategies.arrays(shape, data.draw(strategies.formats()))) for shape in ((m, k), (k, n))]
    a, b = (strategies.relaid(x, data.draw(strategies.layouts())) for x in operands)
    if data.draw(st.booleans()):
        keywords["bias"] = data.draw(strategies.arrays((n,), FP32))
    testing.check("matmul", a, b, **keywords)


@given(st.data(), st.sampled_from([0.0, 1.0, -0.5]))
def test_matmul_acc_of_any_bits(data, beta):
    m, k, n = (data.draw(extent) for _ in range(3))
    c, a, b = (data.draw(strategies.arrays(shape, data.draw(strategies.formats())))
               for shape in ((m, n), (m, k), (k, n)))
    testing.check("matmul_acc", c, a, b, beta=beta)


@pytest.mark.parametrize("op", ["sparse_dense_matmul", "dense_sparse_matmul"])
@given(data=st.data(), keywords=strategies.options({**ACTIVATIONS, "out_dtype": [f.name for f in FORMATS]}))
def test_sparse_products_of_any_bits(op, data, keywords):
    w = data.draw(matrices())
    swapped = op == "dense_sparse_matmul"
    n = data.draw(extent)
    shape = (n, w.shape[0]) if swapped else (w.shape[1], n)
    x = data.draw(strategies.arrays(shape, data.draw(strategies.formats())))
    x = strategies.relaid(x, data.draw(strategies.layouts()))
    testing.check(op, *((x, w) if swapped else (w, x)), **keywords)


@given(st.data(), strategies.options({"rounding": ["toward-zero"], "overflow": ["saturate", "nan"]}))
def test_casts_of_any_bits(data, keywords):
    x = data.draw(strategies.arrays(strategies.shapes(2, "cast", most=40), strategies.formats()))
    target = data.draw(strategies.formats(at_most_bits=16))
    if target.bits == 8:
        keywords["scale"] = data.draw(st.integers(-32, 31))
    testing.check("cast", x, target, **keywords)


@pytest.mark.parametrize("op", OPS)
def test_every_op_has_a_bound_a_reference_and_fractions(op):
    rng = np.random.default_rng(1)
    a, b, c = (rng.integers(-8, 8, (4, 4)).astype(np.float16) for _ in range(3))
    w = BlockSparseMatrix.from_dense(a.astype(np.float32), 2, density=0.5, format="bfloat16")
    operands = {"cast": (a, "f143"), "matmul": (a, b), "matmul_acc": (c, a, b), "sparse_dense_matmul": (w, b),
                "dense_sparse_matmul": (b, w)}[op]
    assert op in EXACT
    ball, exact = testing.bound(op, *operands), testing.exact(op, *operands)
    assert (ball.centre == exact).all()
    assert (testing.reference(op, *operands) == exact).all()
    testing.check(op, *operands)


def test_an_unknown_op_is_named_with_those_there_are():
    with pytest.raises(InvalidArgumentError, match="op: got matmull; allowed: 'cast', "):
        testing.bound("matmull")


def test_a_transcendental_activation_has_no_fractions():
    with pytest.raises(InvalidArgumentError, match="activation"):
        testing.exact("matmul", np.ones((1, 1), np.float32), np.ones((1, 1), np.float32), activation="gelu")


def test_values_of_a_quarter_array_carry_its_scales():
    q = QuarterArray.from_array([[1.0, 2.0], [300.0, -4000.0]], "f143", scale="auto", block_shape=(1, -1))
    assert np.array_equal(testing.values_of(q), q.to_array(np.float64))
