"""The catalogue: every public op has a record, and whatever places a record names are there."""

from __future__ import annotations

import inspect
from importlib import import_module

import pytest

from poplibs_py import testing
from poplibs_py.errors import InvalidArgumentError, PoplibsError
from poplibs_py.ops import catalogue, located
from poplibs_py.ops.record import LIBRARIES
from poplibs_py.program import Face

# What is no op: it plans, packs, makes or advises, is several ops, or is an op under another name.
NO_OPS = {
    "advise", "balanced_pattern", "banded_pattern", "bs_softmax_bound", "bs_softmax_grad_bound",
    "cast_gfloat_to_native", "cast_native_to_gfloat",
    "distributed_batch_norm_grad", "from_torch", "get_hw_seeds", "gru", "gru_bwd_with_wu",
    "index_statistics", "layers_bwd", "lstm", "lstm_bwd_with_wu",
    "random_matrix", "random_pattern", "reduce_many", "rnn", "rnn_steps", "set_hw_seeds",
    "set_seed", "to_torch", "weights_transpose_chans_flip_xy",
}  # fmt: skip
NO_OP_WORDS = ("plan_", "compile_", "prepare", "poplibs_")


def public_functions():
    """The functions that the op libraries list, with their names."""
    for library in LIBRARIES:
        module = import_module(f"poplibs_py.{library}")
        for name in getattr(module, "__all__", ()):
            value = getattr(module, name)
            if callable(value) and not inspect.isclass(value):
                yield f"{library}.{name}", value


def test_what_is_no_op_is_public():
    assert {name.rpartition(".")[2] for name, _ in public_functions()} >= NO_OPS


@pytest.mark.parametrize(("name", "function"), list(public_functions()), ids=lambda x: x if isinstance(x, str) else "")
def test_every_public_op_has_a_record(name, function):
    short = name.rpartition(".")[2]
    if short in NO_OPS or short.startswith(NO_OP_WORDS):
        assert not isinstance(function, Face)
        return
    assert isinstance(function, Face), f"{name} has no record: make it an op, or name it above with what it is"
    assert catalogue[function.op.name] is function.op
    assert function.op.name == name or name.startswith("popnn.")  # which has several names for one op


@pytest.mark.parametrize("name", catalogue)
def test_what_a_record_names_is_there(name):
    record = catalogue[name]
    assert record.face.op is record
    assert record.face.__doc__
    parameters = inspect.signature(record.face).parameters
    assert parameters.keys() & {"target", "keywords"}
    assert record.written is None or record.written in parameters or "keywords" in parameters
    assert set(record.values) <= set(parameters) or "keywords" in parameters
    for place in (record.reference or record.bound, record.bound, record.draws):
        assert callable(located(place))


def test_ops_are_found_by_as_much_of_their_names_as_names_one():
    assert catalogue.find("matmul") is catalogue["poplin.matmul"]
    assert testing.find_op("static.sparse_dense_matmul") is catalogue["popsparse.static.sparse_dense_matmul"]
    assert catalogue.find("popnn.tanh") is catalogue["popops.tanh"]
    assert catalogue.find("swish") is catalogue["popops.silu"]
    with pytest.raises(InvalidArgumentError, match="distributed_batch_norm_grad, a function that is no op"):
        catalogue.find("distributed_batch_norm_grad")
    with pytest.raises(InvalidArgumentError, match=r"'popsparse\.dynamic\.sparse_dense_matmul', 'popsparse\.static"):
        catalogue.find("sparse_dense_matmul")
    for wrong in ("matmull", "", None, 3):
        with pytest.raises(PoplibsError, match=r"^op: got"):
            catalogue.find(wrong)
