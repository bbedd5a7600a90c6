"""What was checked stays so: no attribute can be set, no index written, no memory moved behind a kernel's back."""

import copy
import dataclasses
import pickle

import numpy as np
import pytest
from cases import matrix, operand

from poplibs_py import poplin, testing
from poplibs_py.errors import InvalidTypeError, PoplibsError, ReadOnlyError
from poplibs_py.formats import Format, QuarterArray
from poplibs_py.popsparse import BlockPattern, BlockSparseMatrix, dynamic, static
from poplibs_py.popsparse.static import PreparedDense, prepare_dense


def quarter():
    return QuarterArray.from_array(operand((3, 4), 1), "f143", scale="auto", block_shape=(1, -1))


def compiled():
    return poplin.compile_matmul(poplin.plan_matmul((6, 4), (4, 5)))


def modelled():
    return poplin.compile_matmul(poplin.plan_matmul((16, 32), (32, 8), dtype="half", target="gc200"))


MAKERS = {
    "pattern": lambda: matrix(1).pattern,
    "matrix": lambda: matrix(1, "f143"),
    "transposed": lambda: matrix(1).T,
    "quarter": quarter,
    "prepared": lambda: poplin.prepare(operand((4, 5), 1, "float16")),
    "prepared left": lambda: poplin.prepare(operand((4, 5), 1, "float16"), side="left"),
    "prepared dense": lambda: prepare_dense(operand((24, 5), 1)),
    "capacity": lambda: dynamic.Capacity(4),
}

EVIL = [None, "abc", -1, 10**9, (10**6, 10**6), np.full(3, 2**30, np.int32), np.zeros(0, np.int64)]


def attributes(made):
    return [name for name in dir(type(made)) if not name.startswith("__") and not callable(read(made, name))]


def read(made, name):
    """An attribute, or None where this object has none: PopLibs' metadata of scales that differ."""
    try:
        return getattr(made, name)
    except PoplibsError:
        return None


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_no_attribute_can_be_set_or_deleted(make):
    made = make()
    names = [name for name in attributes(made) if not name.startswith("_")]
    assert names
    for name in names:
        before = read(made, name)
        for value in EVIL:
            with pytest.raises(AttributeError):
                setattr(made, name, value)
        with pytest.raises(AttributeError):
            delattr(made, name)
        after = read(made, name)
        assert after is before or name in ("T", "mT", "dense") or np.all(after == before)


def test_the_error_names_the_attribute_and_is_ours():
    with pytest.raises(ReadOnlyError, match=r"^shape: got a new value; allowed: none, a BlockPattern does not change"):
        matrix(1).pattern.shape = (9, 9)
    with pytest.raises(PoplibsError, match=r"^scale: got a new value"):
        matrix(1, "f143").scale = 10**9


def test_an_object_cannot_be_made_again():
    w = matrix(1)
    before = w.copy()
    with pytest.raises(ReadOnlyError):
        w.pattern.__init__((10**6, 10**6), 1, np.zeros(10**6 + 1, np.int64), [])
    with pytest.raises(ReadOnlyError):
        w.__init__(w.pattern, w.blocks)
    q = quarter()
    with pytest.raises(ReadOnlyError):
        q.__init__(np.zeros(1, np.uint8), "f143")
    assert w.equals(before)


@pytest.mark.parametrize("array", [
    matrix(1).row_offsets, matrix(1).column_indices, matrix(1).pattern.column_indices, matrix(1)[0:8].row_offsets,
    quarter().scale, quarter().T.scale, quarter()[1:, ::2].scale,
    BlockSparseMatrix(matrix(1).pattern, matrix(1, "f143").blocks, None, np.arange(matrix(1).n_blocks)).scale,
])  # fmt: skip
def test_indices_and_scales_cannot_be_made_writeable(array):
    for part in (array, array.base, array.view(), array[...]):
        if isinstance(part, np.ndarray):
            with pytest.raises(ValueError, match="WRITEABLE"):
                part.setflags(write=True)
            with pytest.raises(ValueError, match="read-only"):
                part[...] = 7


def test_arrays_given_are_not_the_ones_that_are_kept():
    offsets, columns, scale = np.array([0, 1, 2]), np.array([0, 1], np.int32), np.zeros((2, 1), np.int8)
    pattern = BlockPattern((2, 2), 1, offsets, columns)
    q = QuarterArray(np.ones((2, 2), np.uint8), "f143", scale, (1, -1))
    offsets[:], columns[:], scale[:] = 99, 99, 99
    assert pattern.row_offsets.tolist() == [0, 1, 2]
    assert pattern.column_indices.tolist() == [0, 1]
    assert not q.scale.any()


def owner_of(array):
    while isinstance(array.base, np.ndarray):
        array = array.base
    return array


def test_memory_that_is_in_use_cannot_be_resized():
    blocks = matrix(1).blocks.copy()
    codes = np.ones((40, 50), np.uint8)
    kept = [BlockSparseMatrix(matrix(1).pattern, blocks), QuarterArray(codes, "f143")]
    kept.append(prepare_dense(operand((24, 5), 1)))
    views = [kept[0][0:8], kept[0].T, kept[1].T, kept[1][3:]]
    del kept[:2]
    for owner in (blocks, codes, owner_of(kept[0].panels)):
        with pytest.raises(ValueError, match="resize"):
            owner.resize((1,), refcheck=False)
    assert len(views) == 4


def test_the_shape_of_what_is_handed_out_is_the_callers_own():
    w, q = matrix(1, "f143"), quarter()
    blocks, codes = w.blocks, q.codes
    blocks.shape, codes.shape = (-1,), (-1,)
    assert w.blocks.shape == (w.n_blocks, 4, 4)
    assert q.shape == (3, 4)


@pytest.mark.parametrize("make", [MAKERS[name] for name in ("pattern", "matrix", "transposed", "quarter")])
@pytest.mark.parametrize("clone", [copy.copy, copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))],
                         ids=["copy", "deepcopy", "pickle"])
def test_copies_and_pickles_are_equal_and_checked(make, clone):
    made = make()
    again = clone(made)
    assert type(again) is type(made)
    assert repr(again) == repr(made)
    if not isinstance(made, QuarterArray):
        assert again.equals(made) if isinstance(made, BlockSparseMatrix) else again == made
    else:
        assert np.array_equal(again.codes, made.codes)
    for name in ("shape", "format"):
        if hasattr(made, name):
            with pytest.raises(ReadOnlyError):
                setattr(again, name, 1)


@pytest.mark.parametrize("make", [*(MAKERS[name] for name in ("prepared", "prepared left", "prepared dense")), compiled,
                                  modelled])
def test_what_is_made_for_this_machine_is_its_own_copy_and_not_pickled(make):
    made = make()
    assert copy.copy(made) is made
    assert copy.deepcopy([made])[0] is made
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        with pytest.raises(InvalidTypeError, match=rf"^pickle: got a {type(made).__name__}, .*; allowed: .* again$"):
            pickle.dumps(made, protocol)


def test_codes_and_blocks_may_still_be_written_to():
    w, q = matrix(1), quarter()
    w.blocks[0, 0, 0] = 7
    q.codes[0, 0] = 0
    assert w.blocks[0, 0, 0] == 7
    assert q.to_array()[0, 0] == 0


@pytest.mark.parametrize("changes", [{"mc": 10**6}, {"threads": 0}, {"layout": ()}, {"kc": 0}, {"a_mode": 99},
                                     {"grid": (0, 0)}, {"swapped": True}])
def test_a_plan_that_was_changed_is_not_compiled(changes):
    plan = poplin.plan_matmul((300, 200), (200, 100), dtype="float16")
    with pytest.raises(PoplibsError, match=r"^plan: got a plan with changes"):
        poplin.compile_matmul(dataclasses.replace(plan, **changes))
    with pytest.raises(PoplibsError, match=r"^plan: got a plan with changes"):
        poplin.compile_matmul(dataclasses.replace(plan, product=dataclasses.replace(plan.product, m=10**6)))
    assert poplin.compile_matmul(pickle.loads(pickle.dumps(plan))).plan == plan


def test_makers_of_prepared_operands_check_too():
    with pytest.raises(PoplibsError, match=r"^w: got NoneType"):
        poplin.PreparedMatrix(None, None, None, None)
    with pytest.raises(PoplibsError, match=r"^array: got None"):
        PreparedDense(None, "float32")
    with pytest.raises(PoplibsError, match=r"^compute_format: got nonsense"):
        PreparedDense(operand((2, 2), 1), "nonsense")
    with pytest.raises(PoplibsError, match=r"^array: got shape"):
        PreparedDense(operand((2,), 1), "float32")


def test_products_of_every_kind_still_work():
    w, x = matrix(1), operand((24, 5), 2)
    due = testing.check("static.sparse_dense_matmul", w, x)
    testing.assert_same_bits(static.sparse_dense_matmul(w, prepare_dense(x)), due)
    testing.check("dynamic.sparse_dense_matmul", w.T, x, transpose_lhs=True, capacity=dynamic.Capacity(99))


def test_a_modelled_plan_that_was_changed_is_not_compiled():
    plan = poplin.plan_matmul((16, 32), (32, 8), dtype="half", target="gc200")
    for name in [field.name for field in dataclasses.fields(plan) if field.init]:
        if isinstance(getattr(plan, name), tuple) or name == "problem":
            with pytest.raises(PoplibsError, match=r"^plan: got "):
                poplin.compile_matmul(dataclasses.replace(plan, **{name: None}))
    assert poplin.compile_matmul(type(plan).from_json(plan.to_json())).plan == plan


def test_a_sparse_plan_that_was_changed_is_not_compiled():
    plan = static.plan_sparse_dense_matmul(matrix(1), 5)
    p = plan.params
    for changes in ({"strip": 10**6}, {"threads": 0}, {"scratch_bytes": plan.scratch_bytes + 64}, {"selection": None},
                    {"packs": not plan.packs},
                    *({"params": dataclasses.replace(p, **change)} for change in (
                        {"columns": 10**6}, {"blocks": 0}, {"prepared": "float32"},
                        {"x": dataclasses.replace(p.x, strides=(0, 80, 4))}))):
        with pytest.raises(PoplibsError, match=r"^plan: got a plan with changes"):
            static.compile_sparse_dense_matmul(dataclasses.replace(plan, **changes))
    for changes in ({"params": None}, {"memory": 0.5}, {"target": "gc200"}, {"longest": -1},
                    {"params": dataclasses.replace(p, x=None)}, {"params": dataclasses.replace(p, groups=0)}):
        with pytest.raises(PoplibsError, match=r"^plan(\.[a-z.]+: got|: got a plan with changes)"):
            static.compile_sparse_dense_matmul(dataclasses.replace(plan, **changes))
    assert static.compile_sparse_dense_matmul(plan).plan is plan
    with pytest.raises(PoplibsError, match=r"^w: got .*BlockSparseMatrix"):
        static.compile_sparse_dense_matmul(plan)(matrix(1, density=1.0), operand((24, 5), 1))


@pytest.mark.parametrize("facts", [
    {"name": "float32", "exponent_bits": 4, "mantissa_bits": 3, "bias": 7, "dtype": np.dtype(np.uint8)},
    {"name": "f143", "exponent_bits": 3, "mantissa_bits": 4, "bias": 7},
    {"name": "mine", "exponent_bits": 4, "mantissa_bits": 3, "bias": 7, "dtype": np.dtype(np.float64)},
    {"name": "mine", "exponent_bits": 4, "mantissa_bits": 3, "bias": 7, "dtype": np.dtype(object)},
    {"name": "mine", "exponent_bits": 4, "mantissa_bits": 3, "bias": 7, "dtype": np.dtype(np.uint8)},
    {"name": "mine", "exponent_bits": 4, "mantissa_bits": 3, "bias": 7, "dtype": "f1"},
    {"name": "mine", "exponent_bits": 2**70, "mantissa_bits": 3, "bias": 7},
    {"name": "mine", "exponent_bits": 8, "mantissa_bits": 2**31, "bias": 7},
    {"name": "mine", "exponent_bits": 8, "mantissa_bits": 7, "bias": -(2**63)},
])  # fmt: skip
def test_a_format_cannot_pass_for_another(facts):
    with pytest.raises(PoplibsError, match=rf"^({'|'.join(facts)}): got .*; allowed: "):
        Format(**facts)


def test_a_format_without_kernels_holds_no_blocks():
    mine = Format("mine", 4, 3, 9)
    with pytest.raises(PoplibsError, match=r"^dtype: got mine; allowed: float32, "):
        BlockSparseMatrix.from_mask(np.eye(2, dtype=bool), 2, dtype=mine)


def test_an_array_that_is_handed_out_has_a_shape_of_its_own():
    pattern, q = matrix(4).pattern, quarter()
    for owner, name in ((pattern, "row_offsets"), (pattern, "column_indices"), (q, "scale"), (q, "codes")):
        before = getattr(owner, name).copy()
        getattr(owner, name).shape = (-1, 1)
        getattr(owner, name).dtype = np.int8
        again = getattr(owner, name)
        assert (again.shape, again.dtype) == (before.shape, before.dtype)
        assert (again == before).all()
