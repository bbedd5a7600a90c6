"""Plans of sparse ops: the bits of the plain call, no more bytes than they say, other operands and plans refused."""

from __future__ import annotations

import dataclasses
import pickle
import re
from importlib import import_module

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from poplibs_py import popsparse
from poplibs_py.errors import InvalidArgumentError, PoplibsError
from poplibs_py.formats import FORMATS
from poplibs_py.ops import catalogue
from poplibs_py.popsparse import BlockSparseMatrix, dynamic, static
from poplibs_py.program import memory_in_use, memory_peak
from poplibs_py.testing import assert_same_bits, random_operand

BLOCKS = [(1, 1), (4, 4), (16, 16), (3, 5)]


@given(name=st.sampled_from([f.name for f in FORMATS]), x_name=st.sampled_from([f.name for f in FORMATS]),
       out_name=st.sampled_from(["float32", "float16", "e4m3"]), block_shape=st.sampled_from(BLOCKS),
       columns=st.integers(1, 200), groups=st.integers(1, 2), transposed=st.booleans(), swapped=st.booleans(),
       with_bias=st.booleans(), activation=st.sampled_from([None, "gelu"]), seed=st.integers(0, 2**32 - 1))
def test_a_planned_product_is_the_plain_one(name, x_name, out_name, block_shape, columns, groups, transposed, swapped,
                                            with_bias, activation, seed):
    rng = np.random.default_rng(seed)
    numbers = rng.integers(-4, 5, (groups, 40, 50)).astype(np.float32)
    w = BlockSparseMatrix.from_dense(numbers if groups > 1 else numbers[0], block_shape, density=0.4, dtype=name)
    w = w.T if transposed else w
    rows, depth = w.shape[::-1] if swapped else w.shape
    fmt = next(f for f in FORMATS if f.name == x_name)
    shape = (*(groups,) * (groups > 1), *((columns, depth) if swapped else (depth, columns)))
    x = rng.integers(-4, 5, shape).astype(fmt.dtype)
    bias = rng.integers(-4, 5, rows).astype(np.float32) if with_bias else None
    plan_it, compile_it, call = (
        (static.plan_dense_sparse_matmul, static.compile_dense_sparse_matmul,
         lambda: static.dense_sparse_matmul(x, w, **how)) if swapped else
        (static.plan_sparse_dense_matmul, static.compile_sparse_dense_matmul,
         lambda: static.sparse_dense_matmul(w, x, **how)))
    how = {"out_dtype": out_name, "bias": bias, "activation": activation}
    plan = plan_it(w, columns, dtype=fmt, out_dtype=out_name, has_bias=with_bias, activation=activation)
    run = compile_it(plan)
    expected = call()
    memory_peak(reset=True)
    before = memory_in_use()
    got = run(w, x, bias=bias)
    assert memory_peak() - before <= plan.temporary_bytes
    assert_same_bits(got, expected)
    assert plan.kernel.name in str(plan.explain())


@pytest.mark.parametrize("block", [1, 4])
def test_a_plan_without_columns_explains_itself(block):
    w = BlockSparseMatrix.from_dense(np.ones((16, 8), np.float32), block)
    plan = static.plan_sparse_dense_matmul(w, 0)
    assert f"{plan.temporary_bytes:,} bytes of all threads, " in str(plan.explain())
    assert static.compile_sparse_dense_matmul(plan)(w, np.ones((8, 0), np.float32)).shape == (16, 0)


@pytest.mark.parametrize(("named", "call"), [
    ("w: got BlockSparseMatrix(shape=(48, 32)", lambda run, w, x: run(w.T, x)),
    ("w: got ndarray", lambda run, w, x: run(x, x)),
    ("x: got float32 of shape (48, 3)", lambda run, w, x: run(w, x[:, :3])),
    ("x: got float16 of shape (48, 5)", lambda run, w, x: run(w, x.astype(np.float16))),
    ("bias: got an array", lambda run, w, x: run(w, x, bias=np.ones(32))),
    ("out: got ", lambda run, w, x: run(w, x, out=np.empty((32, 5), np.float16))),
    ("w: got BlockSparseMatrix(", lambda run, w, x: run(BlockSparseMatrix.from_dense(np.ones((32, 48)), 4), x)),
    ("plan: got BlockSparseMatrix", lambda run, w, x: static.compile_sparse_dense_matmul(w)),
    ("n: got -1", lambda run, w, x: static.plan_sparse_dense_matmul(w, -1)),
    ("activation: got tanh", lambda run, w, x: static.plan_sparse_dense_matmul(w, 5, activation="tanh")),
    ("w: got ndarray", lambda run, w, x: static.plan_sparse_dense_matmul(x, 5)),
])
def test_other_operands_are_refused(named, call):
    w = BlockSparseMatrix.from_dense(np.eye(32, 48, dtype=np.float32), 4)
    x = np.ones((48, 5), np.float32)
    run = static.compile_sparse_dense_matmul(static.plan_sparse_dense_matmul(w, 5))
    assert_same_bits(run(w, x), w @ x)
    with pytest.raises(PoplibsError, match="^" + re.escape(named)):
        call(run, w, x)


def matrix(rows=32, columns=48, seed=1, dtype="float16", groups=1, density=0.4):
    numbers = np.random.default_rng(seed).integers(-4, 5, (groups, rows, columns)).astype(np.float32)
    return BlockSparseMatrix.from_dense(numbers if groups > 1 else numbers[0], 4, density=density, dtype=dtype)


def numbers(*shape, seed=2, dtype="float16"):
    return random_operand(shape, dtype, seed)


W, PAIR = matrix(), matrix(groups=2)
BIAS = random_operand((32,), "float32", 3)
SOFT = popsparse.bs_softmax(W)
HALF = {"available_memory_proportion": 0.5}

# An op, what a plan of it is made of, the operands of a call, and the keywords of each.
PLANNED = {
    "W X": ("static.sparse_dense_matmul", (W, 5), (W, numbers(48, 5)), {"out_dtype": "float32"}),
    "X W": ("static.dense_sparse_matmul", (W, 5), (numbers(5, 32), W), HALF),
    "dY X'": ("static.sparse_grad_w", (W, 5), (W, numbers(32, 5), numbers(48, 5)), {}),
    "dY X', W transposed": ("static.sparse_grad_w", (W.T, 5), (W.T, numbers(48, 5), numbers(32, 5)), HALF),
    "dY X', groups": ("static.sparse_grad_w", (PAIR, 5), (PAIR, numbers(2, 32, 5), numbers(2, 48, 5)), {}),
    "op(W) op(X)": ("dynamic.sparse_dense_matmul", (W, 5), (W, numbers(5, 32)),
                    {"transpose_lhs": True, "transpose_rhs": True}),
    "op(X) op(W)": ("dynamic.dense_sparse_matmul", (W, 5), (numbers(48, 5), W),
                    {"transpose_lhs": True, "transpose_rhs": True}),
    "W X, a capacity": ("dynamic.sparse_dense_matmul", (W, 5), (W, numbers(48, 5)), {"capacity": dynamic.Capacity(90)}),
    "a layer": ("dynamic.fully_connected_fwd", (W, 5), (W, numbers(5, 48)), {"activation": "relu"}),
    "a layer, groups": ("dynamic.fully_connected_fwd", (PAIR, 5), (PAIR, numbers(5, 96)), HALF),
    "a layer's gradient": ("dynamic.fully_connected_grad_a", (PAIR, 5), (PAIR, numbers(5, 64)), {}),
    "a layer's weights": ("dynamic.fully_connected_sparse_grad_w", (PAIR, 5), (PAIR, numbers(5, 64), numbers(5, 96)),
                          {"capacity": dynamic.Capacity(400)}),
    "softmax": ("bs_softmax", (W,), (W,), {"mask": "zero_upper_triangle", "out_dtype": "bfloat16"}),
    "softmax, groups": ("bs_softmax", (PAIR,), (PAIR,), {"mask": ["none", "zero_lower_triangle"]}),
    "softmax to FP8": ("bs_softmax", (W,), (W,), {"out_dtype": "f143", "scale": -5}),
    "softmax's gradient": ("bs_softmax_grad", (SOFT, W), (SOFT, W), {"out_dtype": "float32"}),
}


def verbs(op):
    """The three functions of an op."""
    module, _, name = f"popsparse.{op}".rpartition(".")
    inside = import_module(f"poplibs_py.{module}")
    return tuple(getattr(inside, verb + name) for verb in ("", "plan_", "compile_"))


def bits(result):
    return result.blocks if isinstance(result, BlockSparseMatrix) else result


WITHOUT_PLANS = {"popsparse.bs_softmax_in_place", "popsparse.dynamic.embedding_slice",
                 "popsparse.dynamic.embedding_update_add", "popsparse.static.sparse_sparse_matmul"}
"""What writes its operand, which is planned as what does not, reads and adds to rows, and products of two sparse
matrices."""


def test_every_sparse_op_is_planned():
    planned = {f"popsparse.{op}" for op, *_ in PLANNED.values()} | WITHOUT_PLANS
    assert planned == {n for n in catalogue if n.startswith("popsparse.") and ".experimental." not in n}
    for op, *_ in PLANNED.values():
        assert all(function.__doc__ for function in verbs(op))


@pytest.mark.parametrize(("op", "planned", "operands", "how"), PLANNED.values(), ids=PLANNED)
def test_do_plan_and_compile_are_one_thing(op, planned, operands, how):
    do, plan_it, compile_it = verbs(op)
    plan = plan_it(*planned, **how)
    assert plan_it(*planned, **how) == plan == pickle.loads(pickle.dumps(plan))
    assert hash(plan_it(*planned, **how)) == hash(plan)
    assert plan.fits
    assert str(plan) == plan.explain().words()
    assert plan.explain().chosen.name == plan.kernel.label
    run, due = compile_it(plan), do(*operands, **how)
    given = operands if isinstance(operands[0], BlockSparseMatrix) else operands[::-1]
    memory_peak(reset=True)
    before = memory_in_use()
    for _ in range(3):
        assert_same_bits(bits(run(*given)), bits(due))
    assert memory_peak() - before <= plan.temporary_bytes
    assert (run.plan, run.kept) == (plan, 1)
    apart = [x if isinstance(x, BlockSparseMatrix) else np.repeat(x, 2, axis=-1)[..., ::2] for x in given]
    assert_same_bits(bits(run(*apart)), bits(due))
    out = due.copy()
    bits(out)[...] = 0
    assert run(*given, out=out) is out
    assert_same_bits(bits(out), bits(due))


@pytest.mark.parametrize(("op", "planned", "operands", "how"), PLANNED.values(), ids=PLANNED)
def test_a_plan_that_was_changed_is_not_compiled(op, planned, operands, how):
    _, plan_it, compile_it = verbs(op)
    plan = plan_it(*planned, **how)
    changed = [{"threads": plan.threads + 1}, {"scratch_bytes": plan.scratch_bytes + 64}, {"selection": None}]
    for field in ("shape", "block_shape"):
        changed += [{"params": dataclasses.replace(plan.params, **{field: (-1, 4)})}]
    if op.startswith("bs_softmax"):
        changed += [{"params": dataclasses.replace(plan.params, formats=formats)}
                    for formats in (None, (), (1, 2), (("f143", 0),) * 2, ((W.format, 99),) * 3, ((W.format,),) * 2)]
    else:
        changed += [{"params": dataclasses.replace(plan.params, **{name: dataclasses.replace(plan.params.y, **change)})}
                    for name in "xy" for change in ({"strides": (0, 4, 4)}, {"scale": 1}, {"aligned": False})]
    changed += [{"params": None}, {"memory": None}, {"target": "gc200"}]
    for changes in changed:
        with pytest.raises(PoplibsError, match=r"^(plan[a-z.]*|scale|[a-z_]*shape): got "):
            compile_it(dataclasses.replace(plan, **changes))
    for other in (None, "a plan", W):
        with pytest.raises(PoplibsError, match=r"^plan: got .*; allowed: a plan from plan_"):
            compile_it(other)


@pytest.mark.parametrize(("op", "planned", "operands", "how"), PLANNED.values(), ids=PLANNED)
def test_a_compiled_op_refuses_what_was_not_planned(op, planned, operands, how):
    _, plan_it, compile_it = verbs(op)
    run = compile_it(plan_it(*planned, **how))
    w, *more = operands if isinstance(operands[0], BlockSparseMatrix) else operands[::-1]
    wrong = [matrix(36, 48), w.T, "no matrix", None]
    if "sparse_grad_w" not in op:  # which does not read the values
        wrong += [w.astype("bfloat16"), matrix(*w.shape, dtype="f143", groups=w.groups, density=1.0)]
    for w_wrong in wrong:
        with pytest.raises(PoplibsError, match=r"^(w|x|y|grad): got "):
            run(w_wrong, *more)
    for i, x in enumerate(more):
        for x_wrong in (x.astype("bfloat16"), x[:, :4] if isinstance(x, np.ndarray) else x.T, "no array"):
            with pytest.raises(PoplibsError, match=r"^(x|grads|grad|y): got "):
                run(w, *more[:i], x_wrong, *more[i + 1:])
    due = run(w, *more)
    for out in (bits(due).astype(np.float64), due.T, "no array"):
        with pytest.raises(PoplibsError, match=r"^out: got "):
            run(w, *more, out=out)


def test_a_softmax_in_halves_is_planned_for_rows_of_so_many_blocks():
    """What it keeps of a row until its sum is known."""
    apart, along = (BlockSparseMatrix.from_mask(mask, 4, dtype="float16") for mask in (
        np.eye(4, 6, dtype=bool), np.arange(24).reshape(4, 6) < 4))
    with pytest.raises(InvalidArgumentError, match="of 4 blocks at most, 1 in a row"):
        popsparse.compile_bs_softmax(popsparse.plan_bs_softmax(apart))(along)


def test_a_softmax_is_no_gradient():
    for plan, compile_it in ((popsparse.plan_bs_softmax(W), popsparse.compile_bs_softmax_grad),
                             (popsparse.plan_bs_softmax_grad(SOFT, W), popsparse.compile_bs_softmax)):
        with pytest.raises(PoplibsError, match=r"^plan: got a plan of bs_softmax"):
            compile_it(plan)


def test_a_plan_has_room_for_other_patterns_as_its_capacity_says():
    room = dynamic.Capacity(W.n_blocks + 20)
    run = dynamic.compile_sparse_dense_matmul(dynamic.plan_sparse_dense_matmul(W, 5, capacity=room))
    x, other = numbers(48, 5), matrix(seed=9, density=0.5)
    assert W.n_blocks < other.n_blocks <= room.n_blocks
    assert_same_bits(run(other, x), other @ x)
    with pytest.raises(PoplibsError, match=r"^w: got .* blocks at most"):
        run(matrix(density=1.0), x)


def test_a_plan_takes_as_many_blocks_as_its_capacity_says_and_no_more():
    """77 blocks share programs of 80 where nobody says how many there are to be."""
    x, sizes = numbers(44, 3, dtype="float32"), (70, 77, 75, 77, 78)
    matrices = [BlockSparseMatrix.from_mask(np.arange(121).reshape(11, 11) < n, 4, dtype="float32") for n in sizes]
    for w in matrices:
        w.blocks[...] = 1
    run = dynamic.compile_sparse_dense_matmul(dynamic.plan_sparse_dense_matmul(matrices[0], 3,
                                                                               capacity=dynamic.Capacity(77)))
    for w in matrices[:4]:
        assert_same_bits(run(w, x), static.sparse_dense_matmul(w, x))
    with pytest.raises(InvalidArgumentError, match="of 77 blocks at most"):
        run(matrices[4], x)


def test_the_keywords_of_a_plan_are_those_of_the_op():
    for call in (lambda: dynamic.plan_fully_connected_grad_a(W, 5, has_bias=True),
                 lambda: static.plan_sparse_dense_matmul(W, 5, capacity=None),
                 lambda: popsparse.plan_bs_softmax(W, n=5)):
        with pytest.raises(TypeError, match="unexpected keyword argument"):
            call()
    with pytest.raises(PoplibsError, match=r"^dtype: got fp12"):
        static.plan_sparse_grad_w(W, 5, dtype="fp12")
    with pytest.raises(PoplibsError, match=r"^mask: got upper"):
        popsparse.plan_bs_softmax(W, mask="upper")


_PLANS = {f"{module.__name__.rpartition('.')[2]}.{name}":
          (getattr(module, f"plan_{name}"), getattr(module, f"compile_{name}"))
          for module in (static, dynamic) for name in ("sparse_dense_matmul", "dense_sparse_matmul")}


@pytest.mark.parametrize("planned_for", _PLANS)
@pytest.mark.parametrize("compiled_as", _PLANS)
def test_a_plan_is_compiled_for_its_own_op(planned_for, compiled_as):
    plan = _PLANS[planned_for][0](BlockSparseMatrix.from_dense(np.eye(4), 2), 4)
    compile_it = _PLANS[compiled_as][1]
    if planned_for.partition(".")[2] == compiled_as.partition(".")[2]:
        compile_it(plan)
    else:
        with pytest.raises(InvalidArgumentError, match=f"plan: got a plan of {planned_for.partition('.')[2]}; allowed"):
            compile_it(plan)


def test_what_a_plan_does_not_take_is_told_with_its_name():
    with pytest.raises(TypeError, match=r"plan_sparse_dense_matmul\(\): .*allowed: \(w, n"):
        static.plan_sparse_dense_matmul(3, 4, 5)
