"""``poplibs-py info``: every level, target and kernel family is there, with the kernel that dispatch would take."""

import subprocess
import sys

import numpy as np
import pytest

import poplibs_py
from poplibs_py import lazy, poplin
from poplibs_py.cli import main
from poplibs_py.cli.info import describe
from poplibs_py.config import LEVELS
from poplibs_py.formats import FORMATS
from poplibs_py.kernels import FAMILIES, kernels, select
from poplibs_py.ops import catalogue
from poplibs_py.popsparse import BlockSparseMatrix, static
from poplibs_py.program import result_pool_limit
from poplibs_py.target import PRESETS


def test_report_names_every_level_target_and_family(capsys):
    assert main(["info"]) == 0
    printed = capsys.readouterr().out
    first_words = {line.split()[0] for line in printed.splitlines()}
    assert {*LEVELS, *PRESETS, *FAMILIES} <= first_words


def test_report_tells_what_the_pool_of_results_keeps():
    with result_pool_limit(12 << 20):
        assert "\nresults   pool keeps up to 12 MiB\n" in describe()
    with result_pool_limit(0):
        assert "\nresults   pool off\n" in describe()


def test_every_op_and_format_stands_under_the_level_that_dispatch_takes():
    report = " ".join(describe().split())
    for family in FAMILIES:
        for kernel in kernels(family):
            for formats in kernel.served:
                assert f"{kernel.op} {select(family, kernel.op, formats).kernel.level} " in report
                assert formats in report


def test_every_op_names_the_kernels_of_its_calls():
    report = describe()
    table = report[report.index("ops: ") : report.index("products: ")].splitlines()[1:]
    found = {}
    for line in table:
        if not line.startswith("      "):
            name, _, poplibs = line.strip().partition(" ")
            assert poplibs.removeprefix("(").removesuffix(")") == catalogue[name].poplibs
            found[name] = []
        else:
            found[name] += line.strip(" ,").split(", ")
    assert list(found) == list(catalogue)
    known = {f"{kernel.name} [{kernel.level}]" for family in FAMILIES for kernel in kernels(family)}
    known.add("NumPy [ufuncs]")
    for name, labels in found.items():
        assert labels
        assert set(labels) <= known, name
    assert any(label.startswith("exp_f32 ") for label in found["popops.exp"])


def test_products_of_every_format_name_kernel_level_and_reason():
    report = describe()
    begin = report.index("products: ")
    table = report[begin : report.index("attention kernels")].splitlines()[1:]
    starts = [i for i, line in enumerate(table) if not line.startswith("    ")]
    assert [table[i].split()[0] for i in starts] == [fmt.name for fmt in FORMATS]
    for fmt, first, last in zip(FORMATS, starts, [*starts[1:], len(table)], strict=True):
        rows = [line[12:] for line in table[first:last]]
        dense = poplin.plan_matmul((512, 512), (512, 512), dtype=fmt).kernel
        assert rows[0].startswith("dense ")
        assert rows[0].split()[1:3] == [dense.name, dense.level]
        for side in (1, 4, 16):
            line = next(row for row in rows[1:] if str(side) in row[:16].replace(",", "").split())
            w = BlockSparseMatrix.from_dense(np.eye(16), side).astype(fmt)
            kernel = static.plan_sparse_dense_matmul(w, 64).kernel
            assert line[17:].split()[:2] == [kernel.name, kernel.level]
            assert line[17:].split()[2:]
    assert max(map(len, report.splitlines())) <= 100


def test_why_names_the_kernels_taken_and_those_that_lost():
    report = describe(why=True)
    for family in FAMILIES:
        for op, formats in {(kernel.op, formats) for kernel in kernels(family) for formats in kernel.served}:
            selection = select(family, op, formats)
            assert f"{selection.kernel.name} [{selection.kernel.level}]" in report
            for rejection in selection.rejected:
                assert f"not {rejection.kernel.name} [{rejection.kernel.level}]: {rejection.reason}" in report


def test_the_package_runs_as_a_module_and_imports_its_rooms_when_asked():
    script = "import poplibs_py; print(poplibs_py.poplin.matmul.__name__, poplibs_py.__version__)"
    printed = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    assert printed.split() == ["matmul", poplibs_py.__version__]
    assert subprocess.run([sys.executable, "-m", "poplibs_py", "info"], capture_output=True, check=True).stdout
    assert set(poplibs_py.__all__) < set(dir(poplibs_py))


def test_help_needs_no_package_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lazy, "find_spec", lambda name: None)
    assert {"cast", "poplin"} < set(dir(poplibs_py))
    assert not {"dask", "torch", "not_built"} & set(dir(poplibs_py))


def test_the_command_line_tells_its_version(capsys):
    with pytest.raises(SystemExit) as ended:
        main(["--version"])
    assert ended.value.code == 0
    assert capsys.readouterr().out == f"poplibs-py {poplibs_py.__version__}\n"
