"""Functions of rows: their table is that of the kernels, and of all that is described."""

from __future__ import annotations

import numpy as np
import pytest

from poplibs_py import popnn, profile
from poplibs_py.config import thread_limit
from poplibs_py.formats import format_of
from poplibs_py.kernels import kernels
from poplibs_py.memo import forget
from poplibs_py.ops import catalogue
from poplibs_py.popnn.rows import lower as rows_lower
from poplibs_py.popnn.rows.kinds import ROW_OPS
from poplibs_py.testing import as_format, assert_same_bits
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

    def lowered(plan):
        p = plan.params
        assert len(p.operands) <= len(p.op.operands), p.body
        for name, x in zip(p.op.operands, p.operands, strict=False):
            if x is not None:
                met.setdefault((p.body, name), set()).add(x.written)
        return original(plan)

    original = rows_lower._lowered
    monkeypatch.setattr(rows_lower, "_lowered", lowered)
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


def test_a_plan_says_how_rows_lie_the_kernel_of_each_step_and_threads():
    x, of_channels = np.ones((64, 32, 8, 8), np.float32), np.ones(32, np.float32)
    with thread_limit(2), profile() as report:
        popnn.softmax(x.reshape(-1, 64))
        popnn.batch_norm_training(np.moveaxis(x.reshape(64, 8, 8, 32), -1, 1), running_mean=of_channels)
    rows, columns = (run.plan.explain() for run in report.runs)
    assert rows.decisions == {"kernel": report.runs[0].kernel, "threads": "2",
                              "rows": "2,048 of 64 numbers, row by row, taken as float32"}
    assert columns.decisions["rows"] == "32 of 4,096 numbers, places side by side, as columns, taken as float32"
    first, then = columns.decisions["steps"].split(", then ")
    assert first == columns.chosen.name
    assert then.startswith("running")
    assert rows.chosen.name.startswith("softmax_f32")
    assert columns.chosen.name.startswith("norm_columns")


def test_a_norm_by_known_statistics_is_told_of_by_its_rows():
    of_channels = np.ones(4, np.float32)
    with profile() as report:
        for batch in (8, 2):
            popnn.batch_norm_inference(np.ones((batch, 4, 6, 6), np.float16), of_channels, of_channels)
    for run, batch in zip(report.runs, (8, 2), strict=True):
        assert run.what.startswith(f"norm [{batch}, 4, 6, 6]")
        said = run.plan.explain().decisions
        assert said["kernel"] == run.kernel
        assert said["rows"].endswith("of 36 numbers, row by row, taken as float16")
        assert said["steps"].split(", then ")[1] == run.kernel


@pytest.mark.parametrize("n", [1, 2, 3, 16, 100, 128, 200, 300, 1024, 1100])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "e4m3"])
def test_rows_that_are_brought_together_have_the_bits_of_one_alone(n, dtype):
    """Operands and results of another format than the kernel's are brought some rows at a time."""
    rng = np.random.default_rng(n)
    shapes = (70, n), (70, n), (70, 2, n)
    x, grad, wide = (as_format(rng.standard_normal(shape), format_of(dtype)) for shape in shapes)
    mask, gamma = rng.random((70, n)) < 0.9, rng.standard_normal(n).astype(np.float32)
    labels, own = rng.integers(0, n, 70).astype(np.int32), {"out_dtype": "float32"}
    calls = [lambda x, at: popnn.softmax(x[at], mask=mask[at], **own), lambda x, at: popnn.log_softmax(x[at], **own),
             lambda x, at: popnn.softmax_grad(grad[at], x[at], **own),
             lambda x, at: popnn.cross_entropy(x[at], labels[at], **own).deltas,
             lambda x, at: popnn.layer_norm(x[at], gamma, gamma), lambda x, at: popnn.rms_norm(x[at], gamma),
             lambda x, at: popnn.layer_norm_grad(grad[at], x[at], gamma)[0],
             lambda x, at: popnn.layer_norm(x[at].astype(np.float32), gamma, out_dtype=dtype)]
    for given in (x, wide[:, 0], np.asfortranarray(x)):
        for call in calls:
            for rows in (4, 33, 70):
                made = call(given, slice(rows))
                for q in (0, rows // 2, rows - 1):
                    assert_same_bits(made[q:q + 1], call(given, slice(q, q + 1)))
