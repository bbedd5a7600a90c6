"""Planned ops are packages of the same files: who knows one can guess every path in the next."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "poplibs_py"
STATIONS = {"api", "params", "plan", "lower"}
"""What each has; of the files that come next an op has those that it needs."""
MORE = {"few", "few_lower", "field", "gradient", "modelled", "options", "overlap", "request", "model", "rearranged",
        "search", "several", "scales", "reference", "bound", "prepared", "window", "window_lower", "winograd",
        "winograd_bound", "winograd_lower"}
PLANNED = ["popnn/ctc", "popnn/pooling", "poplin/gemm", "poplin/conv", "poplin/tile_conv",
           "popsparse/fully_connected", "popsparse/static_matmul", "popsparse/spmm", "popsparse/sddmm",
           "popsparse/softmax", "popsparse/experimental", "popops/slices/embedding"]
OF_CONVOLUTIONS = {"axis", "candidates", "constraints", "count", "explain", "facts", "grid", "interpreter", "joint",
                   "multi", "problem", "products", "start_tile", "summary", "together", "transforms",
                   "vertices", "work"}  # fmt: skip


@pytest.mark.parametrize("package", PLANNED)
def test_planned_ops_have_the_same_files(package: str) -> None:
    modules = {path.stem for path in (PACKAGE / package).glob("*.py") if not path.stem.startswith("_")}
    assert modules >= STATIONS
    assert modules - STATIONS - MORE <= (OF_CONVOLUTIONS if package.endswith("tile_conv") else set())


def test_what_makes_steps_on_tiles_is_called_modelled() -> None:
    makers = {path.stem for path in PACKAGE.rglob("*.py")
              if re.search(r"tile_plan import .*?\bStep\b", path.read_text().replace("(\n    ", ""))}
    assert "modelled" in makers
    assert {stem for stem in makers if not stem.endswith("modelled")} == {"plan", "modelled_plan", "compose"}


def test_no_other_package_is_a_planned_op() -> None:
    found = {path.parent.relative_to(PACKAGE).as_posix() for path in PACKAGE.glob("*/*/**/plan.py")}
    assert found == set(PLANNED)
