"""Functions of rows: their table is that of the kernels, and of all that is described."""

from __future__ import annotations

import pytest

from poplibs_py.kernels import kernels
from poplibs_py.memo import forget
from poplibs_py.ops import catalogue
from poplibs_py.popnn import _rows
from poplibs_py.popnn._row_ops import ROW_OPS
from poplibs_py.testing.cases import cases

RESULTS = {"x_grad", "deltas", "loss", "parts", "gamma_grad", "beta_grad", "new_mean", "new_variance"}
OF_ROWS = "softmax", "norm", "loss", "entropy", "divergence"
READ = {"x", "grad", "mask", "label", "expected", "weights", "positive_weights", "batch_mean", "batch_variance"}


def test_each_kernel_of_rows_has_its_record():
    built = {kernel.op for kernel in kernels("rows")}
    in_columns = {f"{name}_columns" for name, op in ROW_OPS.items() if op.columns}
    assert built == {*ROW_OPS, *in_columns}
    narrow = {kernel.op for kernel in kernels("rows") if kernel.formats != "float32"} - in_columns
    assert narrow <= {name for name, op in ROW_OPS.items() if op.wide}


@pytest.fixture
def described(monkeypatch):
    """Whether operands are written, by body and name, of all that the small calls of `popnn` describe."""
    met = {}

    def lowered(p, threads):
        assert len(p.operands) <= len(p.op.operands), p.body
        for name, x in zip(p.op.operands, p.operands, strict=False):
            if x is not None:
                met.setdefault((p.body, name), set()).add(x.written)
        return original(p, threads)

    original = _rows._lowered
    monkeypatch.setattr(_rows, "_lowered", lowered)
    forget()
    for name, op in catalogue.items():
        if name.startswith("popnn.") and any(word in name for word in OF_ROWS):
            for case in cases(name):
                op.face(*case.operands, **case.keywords)
    return met


def test_what_is_described_has_the_operands_of_its_record(described):
    assert {body for body, _ in described} == set(ROW_OPS)
    for (body, name), written in described.items():
        if name in RESULTS:
            assert written == {True}, (body, name)
        elif name in READ:
            assert written == {False}, (body, name)
