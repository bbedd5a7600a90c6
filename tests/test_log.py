"""The log tells at each level what `poplibs_py.log` promises, and nothing where nobody asked."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from poplibs_py import log
from poplibs_py.errors import InvalidTypeError

CALLS = """
import warnings
import numpy as np
import poplibs_py
from poplibs_py import poplin, popsparse
from poplibs_py.popsparse import dynamic, static

warnings.simplefilter("always")
a = np.ones((8, 8), np.float32)
w = popsparse.BlockSparseMatrix.from_dense(a, 4)
for _ in range(2):
    poplin.matmul(a, a)
    static.sparse_dense_matmul(w, a)
    poplibs_py.cast(a, "float16")
poplin.compile_matmul(poplin.plan_matmul((8, 8), (8, 8)))(a, a)
poplin.prepare(a)
static.prepare_dense(a)
dynamic.fully_connected_fwd(w, a)
static.sparse_grad_w(w, a, a)
popsparse.bs_softmax(w)
popsparse.bs_softmax_grad(w, w)
static.plan_sparse_dense_matmul(w, 8)
dynamic.fully_connected_fwd(w, a, capacity=dynamic.Capacity(1))
poplibs_py.poprand.uniform(5, seed=1)
poplin.plan_matmul((512, 512), (512, 512), available_memory_proportion=1e-6)
"""
LINE = re.compile(r"^\S+ \S+ (poplibs_py\.\w+) ([A-Z]+) (.*)$")


def run(script: str, **environment: str) -> subprocess.CompletedProcess[str]:
    clean = {name: value for name, value in os.environ.items() if not name.startswith("POPLIBS_LOG")}
    done = subprocess.run([sys.executable, "-c", script], env={**clean, **environment}, capture_output=True, text=True,
                          check=True)
    assert done.stdout == "" or environment.get("POPLIBS_LOG_DEST") == "stdout"
    return done


def lines_of(text: str, level: str) -> list[tuple[str, str]]:
    """Logger and message of each line of a level."""
    found = (LINE.match(line) for line in text.splitlines())
    return [(match[1], match[3]) for match in found if match and match[2] == level]


def test_info_tells_each_operation_with_shapes_formats_kernel_and_time():
    printed = run(CALLS, POPLIBS_LOG_LEVEL="INFO", POPLIBS_LOG_DEST="stdout").stdout
    told = lines_of(printed, "INFO")
    ops = [message.split()[0] for _, message in told]
    assert ops.count("poplin.matmul") == 3
    assert ops.count("popops.cast") == 2
    assert {"poplin.prepare", "popsparse.static.prepare_dense", "popsparse.bs_softmax", "popsparse.bs_softmax_grad",
            "popsparse.static.sparse_grad_w", "poprand.uniform"} < set(ops)
    assert ops.count("popsparse.static.sparse_dense_matmul") == 2
    assert ops.count("popsparse.dynamic.fully_connected_fwd") == 2
    assert all(re.search(r": .+, \d+\.\d{3} ms$", message) for _, message in told)
    assert {logger.removeprefix("poplibs_py.") for logger, _ in told} == {"poplin", "popops", "poprand", "popsparse"}
    assert any(message.startswith("poplin.matmul [8, 8] x [8, 8] float32 x float32: ") for _, message in told)
    assert not lines_of(printed, "DEBUG")


def test_debug_tells_each_plan_and_program_once_on_one_line():
    told = [message for _, message in lines_of(run(CALLS, POPLIBS_LOG_LEVEL="DEBUG").stderr, "DEBUG")]
    for beginning in ("matmul [8, 8] x [8, 8]: float32 x float32 -> float32; kernel ",
                      "sparse_dense_matmul [8, 8] x [8, 8]: up to 4 blocks of 4 x 4, float32 x float32 -> ",
                      "matmul [512, 512] x [512, 512]"):
        assert any(message.startswith(beginning) for message in told), beginning
    assert sum(message.startswith("sparse_dense_matmul [8, 8] x [8, 8]: 4 blocks") for message in told) <= 3


def test_trace_tells_each_choice_of_a_kernel():
    told = lines_of(run(CALLS, POPLIBS_LOG_LEVEL="TRACE").stderr, "TRACE")
    assert ("poplibs_py.kernels", "sparse multiply float32,float32->float32") in told


def test_plans_of_modelled_machines_are_told():
    script = "from poplibs_py import poplin; poplin.plan_matmul((64, 64), (64, 64), dtype='half', target='gc200')"
    told = lines_of(run(script, POPLIBS_LOG_LEVEL="DEBUG").stderr, "DEBUG")
    assert any(logger == "poplibs_py.poplin" and "cycles" in message for logger, message in told)


@pytest.mark.parametrize("level", ["", "INFO"])
def test_warnings_of_bounds_and_capacities_are_in_the_log(level: str, tmp_path: Path):
    file = tmp_path / "log"
    printed = run(CALLS, POPLIBS_LOG_LEVEL=level, POPLIBS_LOG_DEST=str(file)).stderr
    told = lines_of(file.read_text(), "WARNING")
    assert [message.split(":")[0] for _, message in told] == ["CapacityWarning", "MemoryLimitWarning"]
    assert {logger for logger, _ in told} == {"poplibs_py.warnings"}
    assert all(message.split(": ", 1)[1] in printed for _, message in told)  # as Python shows them


def test_by_default_stderr_holds_pythons_warnings_alone():
    printed = run(CALLS).stderr
    assert printed.count("room was made for 1") == printed.count("the limit was raised") == 1
    assert not any(LINE.match(line) for line in printed.splitlines())


def test_off_is_silent_and_errs_tell_no_warnings(tmp_path: Path):
    for level in ("OFF", "ERR"):
        file = tmp_path / level
        run(CALLS, POPLIBS_LOG_LEVEL=level, POPLIBS_LOG_DEST=str(file))
        assert file.read_text() == ""


@pytest.mark.parametrize("level", ["", "INFO"])
def test_a_destination_that_cannot_be_written_is_refused_at_import(level: str, tmp_path: Path):
    for path in (tmp_path / "none" / "log", tmp_path):
        with pytest.raises(subprocess.CalledProcessError) as caught:
            run("import poplibs_py", POPLIBS_LOG_LEVEL=level, POPLIBS_LOG_DEST=str(path))
        wanted = rf"ArgumentError: POPLIBS_LOG_DEST: got {re.escape(str(path))} \(.*\); allowed: stderr, stdout or"
        assert re.search(wanted, caught.value.stderr)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no disk that is always full")
def test_a_full_disk_breaks_no_call():
    run(CALLS, POPLIBS_LOG_LEVEL="TRACE", POPLIBS_LOG_DEST="/dev/full")


@pytest.mark.parametrize("level", ["INFO", None, 1.5])
def test_a_level_is_a_number(level: object):
    with pytest.raises(InvalidTypeError, match=r"^level: got .*; allowed: a level as a number"):
        log.is_on(level)


def test_nobody_listens_unless_the_environment_asks():
    script = "from poplibs_py.program.record import listening; import sys; sys.exit(listening())"
    run(script)
    with pytest.raises(subprocess.CalledProcessError):
        run(script, POPLIBS_LOG_LEVEL="INFO")
