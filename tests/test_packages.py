"""Planned ops are packages of the same files: who knows one can guess every path in the next."""

from __future__ import annotations

import ast
import re
from importlib.util import resolve_name
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "poplibs_py"
STATIONS = {"api", "params", "plan", "lower"}
"""What each has; of the files that come next an op has those that it needs."""
MORE = {"options", "request", "model", "search", "modelled", "prepared", "reference", "bound"}
PLANNED = {
    "popnn/attention": "", "popnn/ctc": "", "popnn/ctc_infer": "decode", "popnn/pooling": "field kinds",
    "popnn/rows": "kinds",
    "popnn/recurrent": "backward balls bound_gradients bound_update builder cell forward gradients gru gru_formulas "
                       "lstm lstm_formulas passes products rnn rnn_formulas sharding sparse steps update update_lower",
    "poplin/gemm": "field",
    "poplin/conv": "columns few few_lower few_search overlap rearranged scales several ways window window_lower "
                   "winograd winograd_bound winograd_lower",
    "poplin/factor": "balls bound_gradients gradients lapack modelled_bound orthogonal",
    "poplin/tile_conv": "axis candidates constraints count explain facts grid interpreter joint multi problem products "
                        "start_tile summary together transforms vertices work",
    "popsparse/fully_connected": "gradient", "popsparse/static_matmul": "", "popsparse/spmm": "", "popsparse/sddmm": "",
    "popsparse/softmax": "", "popsparse/experimental": "", "popops/slices/embedding": ""}
"""What else each has, which others need not have."""
BESIDE = {"popnn/rows"}
"""Those that serve several files of ops, which are beside them: softmax, norms and losses."""


@pytest.mark.parametrize("package", PLANNED)
def test_planned_ops_have_the_same_files(package: str) -> None:
    modules = {path.stem for path in (PACKAGE / package).glob("*.py") if not path.stem.startswith("_")}
    assert modules >= STATIONS - {"api"} if package in BESIDE else modules >= STATIONS
    assert modules - STATIONS - MORE == set(PLANNED[package].split())


def test_what_makes_steps_on_tiles_is_called_modelled() -> None:
    makers = {path.stem for path in PACKAGE.rglob("*.py")
              if re.search(r"tile_plan import .*?\bStep\b", path.read_text().replace("(\n    ", ""))}
    assert "modelled" in makers
    assert {stem for stem in makers if not stem.endswith("modelled")} == {"plan", "compose"}


OF_REFERENCES = {"collections", "functools", "itertools", "math", "numpy", "scipy.linalg", "scipy.special", "typing",
                 "poplibs_py.checks", "poplibs_py.errors", "poplibs_py.formats"}
"""What a reference may import beside others: nothing that it checks, so that they share no error."""


@pytest.mark.parametrize("path", [*PACKAGE.rglob("*reference.py")], ids=lambda path: str(path.relative_to(PACKAGE)))
def test_references_import_nothing_that_they_check(path: Path) -> None:
    home = ".".join(path.relative_to(PACKAGE.parent).parts[:-1])
    for found in ast.walk(ast.parse(path.read_text())):
        names = []
        if isinstance(found, ast.Import):
            names = [alias.name for alias in found.names]
        elif isinstance(found, ast.ImportFrom) and found.module != "__future__":
            names = [resolve_name("." * found.level + (found.module or ""), home)]
        for name in names:
            assert name.endswith("reference") or any(f"{name}.".startswith(f"{each}.") for each in OF_REFERENCES), name


def test_no_other_package_is_a_planned_op() -> None:
    found = {path.parent.relative_to(PACKAGE).as_posix() for path in PACKAGE.glob("*/*/**/plan.py")}
    assert found == set(PLANNED)
