"""The docs' table of ops: what it says of a few ops."""

import importlib.util
import re
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "table_of_ops.py"


@pytest.fixture(scope="module")
def table():
    spec = importlib.util.spec_from_file_location("table_of_ops", PAGE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    names = "popops.exp", "popops.square_sum", "popops.bitwise_not"
    lines = module.rows(names, examples=3)
    assert lines[0].count("|") == lines[1].count("|") == len(module.HEADS) + 1
    cells = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines[2:]]
    return dict(zip(names, cells, strict=True))


def test_a_row_says_what_an_op_is(table):
    name, poplibs, formats, words, kernels, vertices, cycles = table["popops.exp"]
    assert (name, poplibs) == ("`popops.exp`", "`popops::exp`")
    assert formats.startswith("float32, float16, bfloat16, f143, f152, e4m3, e5m2")
    assert words.startswith("e^x, within 1 ulp of FP32.")
    assert "`exp_f32`" in kernels
    assert "portable" in kernels
    assert vertices == "`UnaryOp1D`"
    assert re.fullmatch(r"float16 [\d,]+ \(\([\d, ]+\) float16 to float16\)", cycles.partition("; ")[0])


def test_reductions_have_vertices_and_whole_numbers_their_own_formats(table):
    assert "Reduce" in table["popops.square_sum"][5]
    assert "half to half)" in table["popops.square_sum"][6]
    assert table["popops.bitwise_not"][2] == "integers"
