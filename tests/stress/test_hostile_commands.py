"""The command line and the environment with words, files and pipes that nobody meant: one clear line, never a trace."""

import os
import subprocess
import sys

import pytest

from poplibs_py.cli import main
from poplibs_py.config import read_settings
from poplibs_py.errors import PoplibsError

GARBAGE = ["", "garbage", "-1", "0", "1e9", "nan", "9" * 5000, "\u0663", "../..", "a b", "\x7f", "auto", "None"]
NAMES = ["POPLIBS_MAX_ISA", "POPLIBS_NUM_THREADS", "POPLIBS_LOG_LEVEL", "POPLIBS_LOG_DEST", "POPLIBS_CACHE_DIR",
         "POPLIBS_EMULATE_AMX", "POPLIBS_EMULATE_AVX512"]


def status_of(*words):
    """Run the command line in this process and return its exit status."""
    try:
        return main(list(words))
    except SystemExit as end:  # argparse, which has said why
        return end.code


@pytest.mark.parametrize("words", [
    [], ["nonsense"], ["info", "nonsense"], ["info", "--why", "5"], ["plan"], ["plan", "matmul"],
    ["plan", "matmul", "a", "b", "c"], ["plan", "matmul", "-1", "2", "3"], ["plan", "matmul", "0x10", "2", "3"],
    ["plan", "matmul", str(2**40), str(2**40), str(2**40)], ["plan", "matmul", "9" * 5000, "1", "1"],
    ["plan", "matmul", "8", "8", "8", "--dtype", "double"], ["plan", "matmul", "8", "8", "8", "--target", "host"],
    ["plan", "matmul", "8", "8", "8", "--target", "nonsense"], ["plan", "matmul", "8", "8", "8", "--tiles", "0"],
    ["plan", "matmul", "8", "8", "8", "--tiles", str(2**70)], ["plan", "matmul", "8", "8", "8", "--amp", "nan"],
    ["plan", "matmul", "8", "8", "8", "--amp", "-1"], ["plan", "matmul", "8", "8", "8", "--pass", "nonsense"],
    ["plan", "matmul", "8", "8", "8", "--option", "nonsense"], ["plan", "matmul", "8", "8", "8", "--option", "a=b"],
    ["plan", "matmul", "8", "8", "8", "--option", "planConstraints={"],
    ["plan", "matmul", "8", "8", "8", "--groups", "0x"],
    ["plan", "matmul", "8", "8", "8", "--option", "planConstraints={\"partition\": {\"kernelSplit\": [[[]]]}}"],
    ["plan", "matmul", "8", "8", "8", "--partials", "quarter"], ["plan", "conv"],
    ["plan", "conv", "--field", "", "--kernel", "3", "--ci", "1", "--co", "1"],
    ["plan", "conv", "--field", "8,8", "--kernel", "3,3,3", "--ci", "1", "--co", "1"],
    ["plan", "conv", "--field", "8", "--kernel", "9", "--ci", "1", "--co", "1"],
    ["plan", "conv", "--field", "8", "--kernel", "3", "--ci", "1", "--co", "1", "--stride", "0"],
    ["plan", "conv", "--field", "8", "--kernel", "3", "--ci", "1", "--co", "1", "--pad", "-1"],
    ["plan", "conv", "--field", ",".join(["2"] * 99), "--kernel", "3", "--ci", "1", "--co", "1"],
    ["plan", "specs"], ["plan", "specs", "--spec-file", "no/such/file"], ["plan", "specs", "--spec-file", "."],
    ["plan", "specs", "--spec-file", ""], ["plan", "specs", "--spec-file", "-", "--jobs", "0"],
    ["bench"], ["bench", "nonsense"], ["bench", "sparsity", "--size", "0"], ["bench", "sparsity", "--density", "2"],
    ["bench", "sparsity", "--density", "1/0"], ["bench", "sparsity", "--block", "-4"],
    ["bench", "sparsity", "--threads", "0"], ["bench", "sparsity", "--seconds", "nan"],
    ["bench", "sparsity", "--seed", "-1"], ["bench", "sparsity", "--matrix", "no/such.smtx"],
    ["bench", "sparsity", "--matrix", "."], ["bench", "sparsity", "--csv", "."], ["bench", "sparsity", "--csv", ""],
    ["bench", "sparsity", "--quick", "--csv", "no/such/folder/rows.csv"], ["bench", "sparsity", "--peer", "nonsense"],
    ["randtest", "--source", "nonsense"], ["randtest", "--seed", "x"], ["randtest", "--tool", "nonsense"],
])  # fmt: skip
def test_wrong_words_end_in_a_line_and_status_2(words, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert status_of(*words) == 2
    said = capsys.readouterr()
    assert len(said.err.strip()) > 10
    assert "Traceback" not in said.err


def test_specs_that_are_no_text_or_no_specs(tmp_path, capsys):
    path = tmp_path / "specs"
    path.write_bytes(b"\xff\xfe\x00\x00")
    assert status_of("plan", "specs", "--spec-file", str(path)) == 2
    path.write_text("mm=1,2\nmm=a,b,c,d\nnonsense\nmm=1,8,8,8 type=double\nmm=1,8,8,8 tiles=x\n\n# comment\nmm="
                    + "9" * 5000)
    assert status_of("plan", "specs", "--spec-file", str(path), "--jsonl", "--jobs", "1") == 1
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 6
    assert all('"error"' in line for line in lines)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("value", GARBAGE)
def test_garbage_in_the_environment_is_named_or_taken(name, value):
    try:
        read_settings({name: value})
        return
    except PoplibsError as error:
        said = str(error)
    assert said.startswith(f"{name}: got ")
    assert "; allowed: " in said


def shell(line, **environment):
    """Run a line of shell with this Python's `poplibs-py`; return status, output and errors."""
    command = f"{sys.executable} -m poplibs_py"
    ran = subprocess.run(["bash", "-o", "pipefail", "-c", line.replace("poplibs-py", command)], capture_output=True,
                         text=True, env={**os.environ, **environment}, timeout=60, check=False)
    return ran.returncode, ran.stdout, ran.stderr


@pytest.mark.parametrize("line", ["poplibs-py info >&-", "poplibs-py info --why | head -n 1", "poplibs-py info | true",
                                  "poplibs-py info > /dev/full", "poplibs-py plan matmul 8 8 8 <&- >&-",
                                  "poplibs-py info >&- 2>&-"])
def test_an_output_that_is_closed_or_full(line):
    _, _, errors = shell(line)
    assert "Traceback" not in errors
    assert "Exception ignored" not in errors


def test_a_folder_for_plans_that_cannot_be(tmp_path):
    (tmp_path / "file").write_text("")
    line = "poplibs-py plan matmul 8 8 8 --json"
    status, _, errors = shell(line, POPLIBS_CACHE_DIR=str(tmp_path / "file"))
    assert status != 0
    assert errors.strip().splitlines()[-1].endswith(f"POPLIBS_CACHE_DIR: got {tmp_path}/file; "
                                                    "allowed: a folder that can be made")
    status, _, errors = shell(line, POPLIBS_NUM_THREADS="many")
    assert status != 0
    assert errors.strip().splitlines()[-1].endswith("allowed: a whole number from 1 to 256")
    status, _, errors = shell(line, POPLIBS_LOG_DEST=str(tmp_path / "no/such/folder/log"))
    assert status != 0
    assert errors.strip().splitlines()[-1].endswith("allowed: stderr, stdout or the name of a file that can be written")
