"""What is told about how a benchmark was run."""

from __future__ import annotations

import os
import re
import subprocess

import pytest

import poplibs_py
from poplibs_py.errors import PoplibsError
from poplibs_py.kernels import available_levels
from poplibs_py.kernels.peak import peak_flop_rate, unit_rates
from poplibs_py.report import conditions as conditions_module
from poplibs_py.report.conditions import Conditions, copy_rate, environment
from poplibs_py.report.peers import installed


@pytest.fixture(scope="module")
def told() -> dict[str, str]:
    return dict(Conditions.measure("poplibs-py bench sparsity --quick", 1).rows())


def test_a_run_says_what_it_ran_on_and_with(told):
    assert list(told) == [
        "version", "date", "command", "machine", "instructions", "peaks", "libraries", "environment"]
    assert told["version"].startswith(f"poplibs_py {poplibs_py.__version__}")
    assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d UTC", told["date"])
    assert told["command"] == "poplibs-py bench sparsity --quick"
    assert f"{len(os.sched_getaffinity(0))} of {os.cpu_count()} CPUs" in told["machine"]
    assert told["instructions"] == f"{available_levels()[-1]}; every method and peer on 1 thread"
    assert f"FP32 FMA {unit_rates(1)['float32'] / 1e9:.0f} GFLOP/s" in told["peaks"]
    assert f"memory {copy_rate() / 1e9:.1f} GB/s" in told["peaks"]
    assert all(f"{name} {version}" in told["libraries"] for name, version in installed().items())
    assert ("BF16 dot" in told["peaks"]) == ("bfloat16" in unit_rates(1))
    assert peak_flop_rate("float32") == unit_rates(1)["float32"]


def test_settings_of_blas_and_threads_are_told(monkeypatch):
    for setting in environment():
        monkeypatch.delenv(setting.partition("=")[0])
    assert environment() == []
    for name, value in [("OMP_NUM_THREADS", "1"), ("OPENBLAS_CORETYPE", "Haswell"), ("MKL_CBWR", ""),
                        ("POPLIBS_MAX_ISA", "avx2"), ("POPLIBS_LOG_DEST", "private.log"), ("OTHER", "1")]:
        monkeypatch.setenv(name, value)
    assert environment() == ["OMP_NUM_THREADS=1", "OPENBLAS_CORETYPE=Haswell", "POPLIBS_MAX_ISA=avx2"]
    assert dict(Conditions("c", 2, {}, 1.0).rows())["environment"].startswith("OMP_NUM_THREADS=1, ")
    assert "on 2 threads" in dict(Conditions("c", 2, {}, 1.0).rows())["instructions"]


def test_the_commit_is_told_in_a_clone_alone(tmp_path, monkeypatch):
    inside = tmp_path / "poplibs_py" / "report" / "conditions.py"
    monkeypatch.setattr(conditions_module, "__file__", str(inside))
    assert conditions_module._commit() == ""
    (tmp_path / ".git").mkdir()
    assert conditions_module._commit() == ""  # no repository that git can read
    (tmp_path / ".git").rmdir()
    who = ["-c", "user.name=a", "-c", "user.email=a@b"]
    for words in (["init", "-q"], [*who, "commit", "-q", "--allow-empty", "-m", "first"], ["tag", "v9"]):
        subprocess.run(["git", "-C", str(tmp_path), *words], check=True)
    assert conditions_module._commit() == "v9"
    assert dict(Conditions("c", 1, {}, 1.0, conditions_module._commit()).rows())["version"].endswith(", commit v9")
    monkeypatch.setenv("PATH", "")
    assert conditions_module._commit() == ""


def test_bad_arguments():
    with pytest.raises(PoplibsError, match="threads"):
        copy_rate(0)
    with pytest.raises(PoplibsError, match="variables"):
        environment(["A=1"])
    with pytest.raises(PoplibsError, match="command"):
        Conditions.measure(["poplibs-py"])
