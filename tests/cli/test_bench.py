"""``poplibs-py bench sparsity`` from its words to its files and exit status."""

from __future__ import annotations

import csv
import html
import re
import shlex
from pathlib import Path

import numpy as np
import pytest
from scipy import io as scipy_io
from scipy import sparse

from poplibs_py.cli import main
from poplibs_py.config import LEVELS
from poplibs_py.report.sparsity import COLUMNS, METHODS, TYPES, Sweep, quick_cases

FAST = ["--size", "64", "--n", "8", "--density", "1/4", "--block", "8", "--seconds", "0.01"]


def run(tmp_path: Path, *words: str) -> tuple[int, list[dict[str, str]]]:
    """Run the command; return its status and the rows of the CSV file."""
    rows, page = tmp_path / "s.csv", tmp_path / "s.html"
    status = main(["bench", "sparsity", "--csv", str(rows), "--html", str(page), *words])
    with rows.open() as file:
        reader = csv.DictReader(file)
        found = list(reader)
    assert tuple(reader.fieldnames) == COLUMNS
    assert page.read_text().startswith("<!doctype html>")
    return status, found


def test_runs_and_writes(tmp_path, capsys):
    status, rows = run(tmp_path, *FAST, "--peer", "numpy,scipy")
    out = capsys.readouterr().out
    assert status == 0
    assert {r["method"] for r in rows if r["library"] == "poplibs_py"} == {"dense", "static_sparse", "dynamic_sparse"}
    assert {r["library"] for r in rows} == {"poplibs_py", "numpy", "scipy"}
    assert {r["type"] for r in rows} == {"FP32", "BF16", "FP16", "FP8"}
    assert all(r["valid"] == "True" for r in rows)
    assert "64x64x8 block 8 density 1/4" in out
    assert "times faster than dense" in out
    assert "s.csv" in out
    assert "x scipy" in out
    assert "x mkl" not in out
    assert out.index("times faster than dense") < out.index("Static products, m = k = 64, n = 8")
    assert "worst .. median .. best" in out


def test_the_table_and_the_page_say_how_it_was_run(tmp_path, capsys):
    run(tmp_path, *FAST, "--peer", "numpy", "--type", "FP32")
    out = capsys.readouterr().out
    told = dict(line.split(maxsplit=1) for line in out.split("\n\n")[-2].splitlines())
    assert list(told) == ["version", "date", "command", "machine", "instructions", "peaks", "libraries", "environment",
                          "rounds"]
    files = [word for kind in ("csv", "html") for word in (f"--{kind}", str(tmp_path / f"s.{kind}"))]
    words = ["bench", "sparsity", *files, *FAST, "--peer", "numpy", "--type", "FP32"]
    assert told["command"] == shlex.join(["poplibs-py", *words])
    page = html.unescape((tmp_path / "s.html").read_text())
    assert all(f"<dt>{name}</dt><dd>{what}</dd>" in page for name, what in told.items())
    heads = next(line for line in out.splitlines() if line.startswith("type")).split("  ")
    assert {"of ideal", "rounds", "of peak"} <= {head.strip() for head in heads}


def test_few_rounds_of_a_peer_stand_beside_its_ratio(tmp_path, monkeypatch, capsys):
    through = Sweep.run

    def with_slow_peer(self, case):
        found = through(self, case)
        for record in found:
            record.rounds = 2 if record.library == "numpy" else 7
        return found

    monkeypatch.setattr(Sweep, "run", with_slow_peer)
    _, rows = run(tmp_path, *FAST, "--peer", "numpy,scipy", "--type", "FP32", "--method", "static")
    out = capsys.readouterr().out
    assert out.count("(2 rounds)") == 1
    ratio = float(next(r["x_numpy"] for r in rows if r["library"] == "poplibs_py"))
    assert f"{ratio:.3g} (2 rounds)" in out


def test_absent_libraries_are_named_once_and_take_no_column(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("poplibs_py.cli.bench.installed", lambda: {"numpy": "2", "scipy": "1"})
    assert run(tmp_path, *FAST, "--type", "FP32")[0] == 0
    out = capsys.readouterr().out
    assert out.count("not installed: mkl, torch (pip install mkl torch)") == 1
    assert "x torch" not in out


def test_axes_and_types_are_taken(tmp_path):
    status, rows = run(tmp_path, "--size", "32,16x64", "--n", "4", "--density", "0.5", "--block", "4,16",
                       "--type", "fp32", "--method", "static", "--peer", "none", "--seconds", "0.01")
    assert status == 0
    assert {(r["m"], r["k"], r["block_size"]) for r in rows} == {
        ("32", "32", "4"), ("32", "32", "16"), ("16", "64", "4"), ("16", "64", "16")}
    assert {r["library"] for r in rows} == {"poplibs_py"}


def test_every_method_in_every_type_is_right_and_says_its_kernel(tmp_path):
    status, rows = run(tmp_path, *FAST, "--method", ",".join(METHODS), "--peer", "scipy")
    assert status == 0
    ours = [r for r in rows if r["library"] == "poplibs_py"]
    assert {(r["type"], r["method"]) for r in ours} == {(t, m) for t in TYPES for m in METHODS.values()}
    for r in ours:
        assert r["valid"] == "True"
        assert r["kernel"]
        assert r["isa"] in LEVELS
        assert r["plan"]
        assert float(r["x_dense"]) > 0
        assert r["x_scipy"] or r["method"].endswith("grad_w")


@pytest.mark.parametrize(("words", "count"), [
    ([], 14), (["--block", "16"], 6), (["--block", "1,4", "--density", "1/4,1/16"], 4), (["--n", "1024"], 1),
    (["--size", "2048", "--type", "FP32"], 14),
])
def test_axes_narrow_the_quick_cases(words, count, tmp_path, monkeypatch):
    seen = []
    monkeypatch.setattr(Sweep, "run", lambda _, case: seen.append(case) or [])
    assert run(tmp_path, "--quick", *words)[0] == 0
    assert len(seen) == count
    assert set(seen) <= set(quick_cases())


@pytest.mark.parametrize(("words", "cells"), [
    ([], [(256, 1), (256, 4), (256, 16), (16, 1), (1024, 1)]), (["--n", "256"], [(256, 1), (256, 4), (256, 16)]),
    (["--block", "1", "--n", "16,1024"], [(16, 1), (1024, 1)]),
])
def test_quick_cases_of_files(words, cells, pattern, tmp_path, monkeypatch):
    seen = []
    monkeypatch.setattr(Sweep, "run", lambda self, case: seen.append((self.seconds, case)) or [])
    files = [word for kind in ("smtx", "npz", "smtx") for word in ("--matrix", str(pattern[kind]))]
    assert run(tmp_path, "--quick", *files, *words)[0] == 0
    assert [(case.n, case.block) for _, case in seen] == cells * 2  # a file that is given twice is taken once
    assert [case.source.name for _, case in seen] == ["pattern.smtx"] * len(cells) + ["pattern.npz"] * len(cells)
    assert {seconds for seconds, _ in seen} == {1.0}


def test_a_quick_run_of_files_tells_them_by_name(pattern, tmp_path, capsys):
    other = tmp_path / "other" / "pattern.smtx"
    other.parent.mkdir()
    other.write_text("10, 12, 2\n0 1 1 1 1 1 1 1 1 1 2\n3 7\n")
    names = [str(pattern["smtx"]), str(other)]  # two of one name and shape
    status, rows = run(tmp_path, "--quick", "--matrix", names[0], "--matrix", names[1], "--n", "256", "--seconds",
                       "0.01", "--peer", "scipy", "--type", "FP32,BF16")
    assert status == 0
    assert {r["source"] for r in rows} == set(names)
    assert {(r["source"], r["block_size"]) for r in rows if r["method"] == "static_sparse"} == {
        (name, block) for name in names for block in ("1", "4", "16")}
    out = capsys.readouterr().out
    assert all(f"{name} 10x12x256 block 4" in out for name in names)
    assert "Static products of files, n = 256" in out
    page = (tmp_path / "s.html").read_text()
    charts = page.split("<h2>Files: speed-up over dense, by block size</h2>")[1].split("<h2>")[0]
    assert charts.count("<svg") == 2
    assert charts.count("<polyline") == 2 * 2 * 2  # formats, files, static and dynamic: each line through its blocks
    assert all(len(points.split()) == 3 for points in re.findall("<polyline[^>]*points='([^']*)'", charts))


def test_interrupt_keeps_what_was_measured(tmp_path, monkeypatch, capsys):
    through = Sweep.run
    seen = []

    def stop_at_third(self, case):
        seen.append(case)
        if len(seen) == 3:
            raise KeyboardInterrupt
        return through(self, case)

    monkeypatch.setattr(Sweep, "run", stop_at_third)
    status, rows = run(tmp_path, "--size", "32", "--n", "4", "--density", "1/2,1/4", "--block", "1,8", "--peer", "none",
                       "--type", "FP32", "--method", "static", "--seconds", "0.01")
    assert status == 130
    assert [r["case"] for r in rows] == ["1", "2"]
    assert "interrupted" in capsys.readouterr().out


def test_a_wrong_answer_is_marked_and_fails_the_run(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("poplibs_py.report.sparsity.check.Check.judge", lambda *_: (1.0, 2.0))
    status, rows = run(tmp_path, *FAST, "--peer", "none", "--type", "FP32")
    assert status == 1
    assert {r["valid"] for r in rows} == {"False"}
    assert "INVALID" in capsys.readouterr().out


BAD = [
    (["--size", "64,x"], "--size: got x"),
    (["--size", "0"], "--size: got '0'"),
    (["--n", "1.5"], "--n: got '1.5'"),
    (["--density", "1/0"], "--density: got 1/0"),
    (["--density", "2"], "--density: got '2'"),
    (["--block", "7", "--size", "64"], "--block: got '7'"),
    (["--type", "FP64"], "--type: got FP64"),
    (["--method", "magic"], "--method: got magic"),
    (["--target", "gc300"], "--target: got gc300"),
    (["--peer", "cupy"], "--peer: got cupy"),
    (["--threads", "0"], "--threads: got 0"),
    (["--threads", "100000"], "--threads: got 100000"),
    (["--seconds", "-1"], "--seconds: got -1"),
    (["--seconds", "nan"], "--seconds: got nan"),
    (["--seed", "-1"], "--seed: got -1"),
    (["--quick", "--n", "4"], "--quick"),
    (["--quick", "--matrix", "a.smtx"], "a.smtx"),
    (["--quick", "--matrix", "a.smtx", "--density", "1/4"], "--matrix"),
    (["--matrix", "a.smtx", "--size", "64"], "--matrix"),
    (["--csv", "/no/such/folder/s.csv", *FAST], "/no/such/folder/s.csv"),
]


@pytest.mark.parametrize(("words", "message"), BAD, ids=lambda v: " ".join(v) if isinstance(v, list) else "")
def test_bad_words_are_refused_by_name_before_any_work(words, message, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(Sweep, "run", lambda *_: pytest.fail("work was done"))
    assert main(["bench", "sparsity", *words]) == 2
    assert message in capsys.readouterr().err


def test_unknown_suite_and_help(capsys):
    with pytest.raises(SystemExit) as stop:
        main(["bench", "nothing"])
    assert stop.value.code == 2
    with pytest.raises(SystemExit) as stop:
        main(["bench", "sparsity", "--help"])
    assert stop.value.code == 0
    assert "Control-C keeps what was measured" in " ".join(capsys.readouterr().out.split())


@pytest.fixture
def pattern(tmp_path) -> dict[str, Path]:
    """One pattern in each kind of file: 10 x 12 with a last row and column that no whole block of 8 covers."""
    dense = np.zeros((10, 12), np.float32)
    dense[0, 0] = dense[3, 5] = dense[9, 11] = 1
    matrix = sparse.csr_array(dense)
    paths = {kind: tmp_path / f"pattern.{kind}" for kind in ("smtx", "mtx", "npz")}
    lines = ["10, 12, 3", " ".join(map(str, matrix.indptr)), " ".join(map(str, matrix.indices))]
    paths["smtx"].write_text("\n".join(lines) + "\n")
    scipy_io.mmwrite(paths["mtx"], matrix)
    sparse.save_npz(paths["npz"], matrix)
    return paths


@pytest.mark.parametrize("kind", ["smtx", "mtx", "npz"])
def test_a_pattern_from_a_file(kind, pattern, tmp_path):
    status, rows = run(tmp_path, "--matrix", str(pattern[kind]), "--n", "4", "--block", "1,8", "--peer", "scipy",
                       "--method", "dense,static,dynamic", "--seconds", "0.01")
    assert status == 0
    static = [r for r in rows if r["method"] == "static_sparse" and r["type"] == "FP32"]
    assert [(r["m"], r["k"], r["block_size"]) for r in static] == [("10", "12", "1"), ("10", "12", "8")]
    assert float(static[0]["density"]) == pytest.approx(3 / 120)
    assert float(static[1]["density"]) == pytest.approx(2 / 4)
    assert {r["source"] for r in rows} == {f"pattern.{kind}"}


@pytest.mark.parametrize(("name", "content"), [
    ("absent.smtx", None),
    ("empty.smtx", b""),
    ("short.smtx", b"4, 4, 2\n0 1 1 2 2\n"),
    ("range.smtx", b"4, 4, 2\n0 1 1 2 2\n0 9\n"),
    ("offsets.smtx", b"4, 4, 2\n0 3 1 2 2\n0 1\n"),
    ("words.smtx", b"four, 4, 2\n0 1 1 2 2\n0 1\n"),
    ("huge.smtx", b"99999999999999999999, 4, 2\n0 1 1 2 2\n0 1\n"),
    ("nothing.smtx", b"2, 2, 0\n0 0 0\n\n"),
    ("binary.mtx", bytes(range(256))),
    ("binary.npz", bytes(range(256))),
    ("pattern.txt", b"1 2 3"),
])
def test_bad_files_are_refused_by_name(name, content, tmp_path, capsys):
    path = tmp_path / name
    if content is not None:
        path.write_bytes(content)
    assert main(["bench", "sparsity", "--matrix", str(path), "--csv", str(tmp_path / "s.csv"),
                 "--html", str(tmp_path / "s.html")]) == 2
    assert name in capsys.readouterr().err
    assert not (tmp_path / "s.csv").exists()


def test_a_folder_is_no_matrix(tmp_path, capsys):
    folder = tmp_path / "folder.smtx"
    folder.mkdir()
    assert main(["bench", "sparsity", "--matrix", str(folder)]) == 2
    assert "folder.smtx" in capsys.readouterr().err
