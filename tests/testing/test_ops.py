"""Every op on any bit patterns is within its own bound; references, fractions and bounds agree."""

import importlib
import re

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, find, given, settings
from hypothesis import strategies as st

from poplibs_py import poplin, testing
from poplibs_py.errors import InvalidArgumentError, InvalidTypeError, PoplibsError
from poplibs_py.formats import FORMATS, QuarterArray, format_of
from poplibs_py.formats.arrays import as_array
from poplibs_py.ops import catalogue
from poplibs_py.popsparse import BlockSparseMatrix
from poplibs_py.testing.calls import calls
from poplibs_py.testing.cases import cases
from poplibs_py.testing.exact_ops import EXACT
from poplibs_py.testing.ops import PREPARED
from poplibs_py.testing.replay import decode_call

RANDOM = [name for name in catalogue if name.startswith("poprand.")]
OPS = [*(name for name in catalogue if name not in RANDOM), *PREPARED]


def full(op):
    return testing.find_op(op).name


@pytest.mark.parametrize("op", [*OPS, *RANDOM])
@settings(max_examples=settings.default.max_examples // 2,
          suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(data=st.data())
def test_any_call_is_within_its_bound(op, data):
    operands, keywords = data.draw(calls(op))
    testing.check(op, *operands, **keywords)


def whole(value, dtype=None):
    """A value whose numbers become whole ones, up to 16, of a power of two: no sum rounds, whatever its order."""
    if isinstance(value, (tuple, list)):
        return type(value)(whole(part, dtype) for part in value)
    if isinstance(value, dict):
        return {name: whole(part, dtype) for name, part in value.items()}
    if isinstance(value, BlockSparseMatrix):
        return BlockSparseMatrix(value.pattern, whole(value.blocks, dtype))
    if not isinstance(value, np.ndarray) or value.dtype.kind in "biu":
        return value
    numbers = value.astype(np.float64)
    unit = 2.0 ** (np.frexp(np.abs(numbers).max())[1] - 4)
    return (np.rint(numbers / unit) * unit).astype(dtype or value.dtype)


def powers(x):
    """Numbers whose products round nowhere."""
    return np.exp2(np.sign(x)).astype(x.dtype)


OTHERS = {"popops.prod": (1, powers), "popops.cumulative_prod": (1, powers),
          "popops.leaky_relu_slope_grad": (0, np.negative)}
"""Which case, and what is done with its numbers, where whole ones of the first give inexact results, or zeros."""


def exact_calls(op, dtype=None):
    """Small calls of an op as its cases have them, with numbers whose sums are exact in every order."""
    name, (_, other) = full(op), OTHERS.get(full(op), (0, np.asarray))
    if name in catalogue:
        small = cases(name)
    else:  # of a prepared operand, whose bound is that of the op
        small = cases(next(of.name for of in catalogue.values() if of.bound == testing.find_op(op).bound))[:1]
    for case in small:
        operands = (other(x) if isinstance(x, np.ndarray) else x for x in whole(case.operands, dtype))
        yield tuple(operands), {name: value if name == "out" else whole(value) for name, value in case.keywords.items()}


def exact_call(op):
    """The plainest of them."""
    return list(exact_calls(op))[OTHERS.get(full(op), (0,))[0]]


def parts(result):
    """Several results, or one alone."""
    return tuple(part for of in result for part in parts(of)) if isinstance(result, (tuple, list)) else (result,)


@pytest.mark.parametrize("op", OPS)
def test_every_op_has_a_bound_a_reference_a_strategy_and_fractions(op):
    operands, how = exact_call(op)
    ball = testing.bound(op, *operands, **how)
    for part, of_part in zip(parts(testing.reference(op, *operands, **how)), parts(ball), strict=True):
        np.testing.assert_array_equal(part, of_part.centre)
    if full(op) not in EXACT:  # irrational, quotients, or not worth it
        with pytest.raises(InvalidArgumentError, match=f"^op: got {op}; allowed: one whose results"):
            testing.exact(op, *operands, **how)
    else:
        assert (ball.centre == testing.exact(op, *operands, **how)).all()
    testing.check(op, *operands, **how)


@pytest.mark.parametrize("op", sorted(set(OPS) - {"popops.cast", "popfloat.quantise"}))
def test_a_result_that_is_wrong_is_found(op):
    operands, how = exact_call(op)
    ball, got = (parts(of(op, *operands, **how))[-1] for of in (testing.bound, testing.check))
    numbers = np.array(got.blocks if isinstance(got, BlockSparseMatrix) else got)
    numbers = np.asarray(1.5 + numbers) if numbers.dtype.kind in "biu" else numbers
    place = np.unravel_index(np.nanargmax(np.where(np.isinf(ball.centre), 0, np.abs(ball.centre))), ball.shape)
    numbers[place] *= 1.01
    with pytest.raises(AssertionError, match="outside their bounds"):
        testing.assert_within_bound(numbers, ball)


@pytest.mark.parametrize("wanted", [
    lambda a, b, how: how.get("half_passes") == 3,
    lambda a, b, how: isinstance(a, QuarterArray) and a.block_shape is not None and b.ndim > 1,
    lambda a, b, how: isinstance(b, QuarterArray) and isinstance(b.scale, int) and b.scale < 0,
    lambda a, b, how: isinstance(a, QuarterArray) and a.format.dtype is None,
    lambda a, b, how: (a.ndim, b.ndim) == (1, 3),
    lambda a, b, how: a.ndim == b.ndim == 1 and "bias" in how,
    lambda a, b, how: a.shape[:-2] == (2, 1) and b.shape[:-2] == (1, 3),
])  # fmt: skip


def test_calls_of_every_kind_are_drawn(wanted):
    operands, how = find(calls("matmul"), lambda call: wanted(*call[0], call[1]),
                         settings=settings(max_examples=2000, phases=[Phase.generate]))
    assert wanted(*operands, how)


@pytest.mark.parametrize("op", OPS)
def test_a_failing_check_names_its_kernels_and_a_line_that_makes_it_again(op, monkeypatch):
    path, _, name = full(op).rpartition(".")
    module = importlib.import_module(f"poplibs_py.{path}")
    right = getattr(module, name)

    def wrong(*operands, **keywords):
        got = right(*operands, **keywords)
        if isinstance(got, int):
            return got + 16
        for part in parts(got):
            numbers = part.blocks if isinstance(part, BlockSparseMatrix) else np.asarray(part)
            if numbers.dtype == bool:
                numbers ^= True
            else:
                numbers += numbers.dtype.type(16)
        return got

    operands, how = exact_call(op)
    monkeypatch.setattr(module, name, wrong)
    with pytest.raises(AssertionError, match="outside their bounds") as caught:
        testing.check(op, *operands, **how)
    *_, kernel, again = str(caught.value).splitlines()
    assert re.fullmatch(r"  kernel: (?!, )((, )?(NumPy|a copy|\w\S* \(\w+\)))+", kernel)
    assert "testing.replay('" in again
    monkeypatch.undo()
    _, operands, keywords = decode_call(re.search(r"replay\('(.*)'\)", again)[1])
    testing.check(op, *operands, **keywords)  # operands as they were before the call
    monkeypatch.setattr(module, name, wrong)
    operands, how = exact_call(op)
    with pytest.raises(AssertionError, match="kernel: mine"):
        testing.check(op, *operands, **how, kernel_name="mine")


def test_a_result_that_is_a_bit_off_is_no_exact_one(monkeypatch):
    right = poplin.matmul
    monkeypatch.setattr(poplin, "matmul", lambda a, b: np.nextafter(right(a, b), np.float32(0)))
    operands, _ = exact_call("matmul")
    testing.check("matmul", *operands)
    with pytest.raises(AssertionError, match=r"results differ; the first:[^$]*\n  kernel: \w.*\n  again: "):
        testing.check_exact("matmul", *operands)


@pytest.mark.parametrize("dtype", [None, "float16"])
@pytest.mark.parametrize("op", sorted(set(EXACT) - {"popsparse.bs_softmax_grad"}))
def test_exact_operands_give_exact_results(op, dtype):
    for operands, how in exact_calls(op, dtype):
        try:
            testing.exact(op, *operands, **how)
        except InvalidArgumentError:  # of an activation, a mask or an operation without fractions
            continue
        testing.check_exact(op, *operands, **how)


def test_a_result_of_another_shape_names_its_kernels_too(monkeypatch):
    right = poplin.matmul
    monkeypatch.setattr(poplin, "matmul", lambda a, b: right(a, b)[1:])
    with pytest.raises(AssertionError, match=r"got shape \(7, 8\); .*\n  kernel: \w.*\n  again: "):
        testing.check("matmul", *exact_call("matmul")[0])


def test_a_check_that_passes_writes_nothing(monkeypatch, tmp_path):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    a, b = (testing.random_operand((100, 100), "float32", seed) for seed in (1, 2))
    testing.check("matmul", a, b)
    assert not list(tmp_path.iterdir())
    monkeypatch.setattr("poplibs_py.poplin.matmul", lambda a, b: a)
    with pytest.raises(AssertionError):
        testing.check("matmul", a, b)
    assert len(list(tmp_path.iterdir())) == 1


def test_an_unknown_op_is_named_with_those_there_are():
    with pytest.raises(InvalidArgumentError, match=r"op: got matmull \(did you mean 'matmul'\?\); allowed: a name in "):
        testing.bound("matmull")


def test_a_transcendental_activation_has_no_fractions():
    with pytest.raises(InvalidArgumentError, match="activation"):
        testing.exact("matmul", np.ones((1, 1), np.float32), np.ones((1, 1), np.float32), activation="gelu")


def test_values_of_a_quarter_array_carry_its_scales():
    q = QuarterArray.from_array([[1.0, 2.0], [300.0, -4000.0]], "f143", scale="auto", block_shape=(1, -1))
    assert np.array_equal(testing.values_of(q), q.to_array(np.float64))


def vector_calls():
    """Calls with vectors, where ops take them, and what biases they then have."""
    rng = np.random.default_rng(2)
    a, stack, x, y = (rng.integers(-4, 5, shape).astype(np.float32) for shape in ((5, 6), (3, 5, 6), (6,), (5,)))
    w = BlockSparseMatrix.from_dense(a, (2, 3), density=0.6)
    column, one = y[:, None], np.ones(1, np.float32)
    for op, operands in [
        ("matmul", (a, x)), ("matmul", (stack, x)), ("matmul_acc", (y, a, x)), ("matmul_prepared_left", (a, x)),
    ]:  # fmt: skip
        yield from ((op, operands, how) for how in ({}, {"bias": column}, {"bias": one, "activation": "relu"}))
    for op, operands in [
        ("matmul", (y, a)), ("matmul", (y, stack)), ("matmul_acc", (x, y, a)), ("matmul_prepared", (y, a)),
        ("static.dense_sparse_matmul", (y, w)), ("static.sparse_dense_matmul", (w.T, y)),
    ]:  # fmt: skip
        yield from ((op, operands, how) for how in ({}, {"bias": x, "activation": "relu"}))
    yield from (("matmul", (x, x), how) for how in ({}, {"bias": one}))
    yield "static.sparse_dense_matmul", (w, x), {"bias": y}
    yield "dynamic.sparse_dense_matmul", (w.T, x), {"transpose_lhs": True}
    yield "dynamic.sparse_dense_matmul", (w, x), {"transpose_rhs": True}
    yield "dynamic.dense_sparse_matmul", (x, w), {"transpose_rhs": True}


@pytest.mark.parametrize("call", list(vector_calls()), ids=lambda call: f"{call[0]}-{'-'.join(call[2])}")
def test_vectors_have_references_fractions_and_bounds(call):
    op, operands, keywords = call
    exact, reference = testing.exact(op, *operands, **keywords), testing.reference(op, *operands, **keywords)
    ball = testing.bound(op, *operands, **keywords)
    got = testing.check(op, *(np.array(x) if isinstance(x, np.ndarray) else x for x in operands), **keywords)
    assert exact.shape == reference.shape == ball.shape == got.shape
    assert np.array_equal(exact.astype(float), reference)
    assert np.array_equal(reference, ball.centre)
    assert np.array_equal(reference, got)


@pytest.mark.parametrize("how", [testing.exact, testing.reference, testing.bound, testing.check])
@pytest.mark.parametrize("operands", [(), (None, None), ("a", 3), (np.ones(3, np.float32),) * 7, (object(), [[]])])
def test_operands_that_an_op_cannot_take_are_refused(how, operands):
    for op in OPS:
        with pytest.raises(PoplibsError):
            how(op, *operands)


@pytest.mark.parametrize("ask", [testing.bound, testing.reference, testing.exact])
def test_a_keyword_that_the_op_has_not_is_refused_with_the_nearest(ask):
    a = np.ones((2, 2), np.float32)
    with pytest.raises(InvalidTypeError, match=r"^keywords: got unknown keyword 'activaton' \(did you mean 'activ"):
        ask("matmul", a, a, activaton="relu")


def test_formats_that_a_machine_lacks_are_refused_by_name():
    x = np.ones((2, 2), "bfloat16")
    with pytest.raises(PoplibsError, match=r"^a: got bfloat16; allowed: 'float', 'half', 'quarter', or the dtype of"):
        testing.check("matmul", x, x, target="gc200")


def test_torch_tensors_are_operands_and_results():
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(4)
    a, b = (rng.normal(size=shape).astype(np.float32) for shape in ((5, 7), (7, 3)))
    w = BlockSparseMatrix.from_dense(rng.normal(size=(8, 7)), 2)
    for name in (fmt.dtype.name for fmt in FORMATS):
        dtype = getattr(torch, name)
        assert format_of(dtype) == format_of(name)
        left, right = (torch.tensor(x).to(dtype) for x in (a, b))
        same = [as_array("x", x, "numbers") for x in (left, right)]
        for function in (testing.bound, testing.reference, testing.exact):
            made, due = function("matmul", left, right), function("matmul", *same)
            if function is testing.bound:
                np.testing.assert_array_equal(made.radius, due.radius)
                made, due = made.centre, due.centre
            np.testing.assert_array_equal(made, due)
        got = poplin.matmul(left, right, out_dtype="float32")
        assert (testing.ulp_error(torch.tensor(got), got.astype(np.float64)) == 0).all()
        assert (testing.ulp_distance(left, same[0]) == 0).all()
        assert np.isfinite(testing.ulp_error(left, a)).all()
        testing.assert_within_bound(torch.tensor(got), testing.bound("matmul", left, right, out_dtype="float32"))
        testing.assert_same_bits(left, same[0])
        testing.check("matmul", left, right, bias=torch.ones(3))
        testing.check("static.sparse_dense_matmul", w, right)
        out = torch.zeros((5, 3))
        assert testing.check("matmul", left, right, out=out) is out
    grad = torch.tensor(a, requires_grad=True)
    for call in (lambda: testing.bound("matmul", grad, b), lambda: testing.ulp_error(grad, a)):
        with pytest.raises(InvalidTypeError, match="requires a gradient"):
            call()
