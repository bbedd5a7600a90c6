"""The rows of recurrent cells: what hangs on their names, how their planes fit, and who else knows a cell."""

from __future__ import annotations

import ast
import pickle
import re
from pathlib import Path

import numpy as np
import pytest

from poplibs_py import popnn
from poplibs_py.kernels import kernels
from poplibs_py.popnn.recurrent import reference
from poplibs_py.popnn.recurrent.cell import CELLS, GRU, LSTM, cell_of

ROOT = Path(__file__).parents[2]
FORMS = [form for cell in CELLS.values() for form in dict.fromkeys((cell, cell.form(True)))]

each = pytest.mark.parametrize("cell", CELLS.values(), ids=str)
every_form = pytest.mark.parametrize("cell", FORMS, ids=lambda cell: f"{cell}{', reset after' * cell.apart}")


@each
def test_functions_kernels_and_formulas_have_the_name_of_their_cell(cell):
    assert all(callable(getattr(popnn, f"{cell}_{kind}")) for kind in ("fwd", "bwd", "wu"))
    assert callable(getattr(popnn, str(cell)))
    assert callable(getattr(reference, str(cell)))
    kinds = "forward_balls", "backward_balls", "forward_steps", "backward_steps"
    assert all(callable(getattr(cell.formulas, kind)) for kind in kinds)
    names = {kernel.op for kernel in kernels("cells") if kernel.op.partition("_")[0] == str(cell)}
    assert names == {f"{cell}", f"{cell}_grad"} | ({f"{cell}_again"} if len(cell.kept) > 1 else set())


@every_form
def test_each_gate_has_its_planes_and_one_product(cell):
    gates = list(range(len(cell.gates)))
    assert sorted(cell.torch) == sorted(cell.gates)
    assert sorted(gate for product in cell.products for gate in product) == gates
    assert sorted(cell.input_planes) == gates
    assert set(cell.input_planes + cell.state_planes) == set(range(cell.grads))
    assert [cell.input_planes[gate] for gate in cell.input_gates] == gates
    for product in cell.products:  # a product reads planes that lie side by side
        first = cell.state_planes[product[0]]
        assert [cell.state_planes[gate] for gate in product] == [*range(first, first + len(product))]
    assert cell.whole == max(cell.kept.values())
    assert cell.saved("full", False) == 0
    assert cell.saved("none", False) == cell.whole + 1


@every_form
def test_a_row_that_was_pickled_is_the_row(cell):
    assert pickle.loads(pickle.dumps(cell)) is cell
    assert cell_of(str(cell), cell.apart) is cell


def test_only_a_gru_has_a_second_form():
    assert [cell for cell in CELLS.values() if cell.form(True) is not cell] == [GRU]
    assert GRU.form(True).gates_at_once((2, 0, 1)) == ((0, 1, 2),)
    assert GRU.gates_at_once((2, 0, 1)) == ((2, 0), (1,))
    assert LSTM.modes == ("none", "cell_and_tanh", "full")


@pytest.mark.parametrize("cell", ["lstm", "gru", "rnn"])
def test_what_a_pass_and_an_update_give_has_the_shapes_that_the_row_says(cell):
    row, numbers = CELLS[cell], np.ones((2, 3, 5), np.float32)
    weights = [np.ones((*row.front, 5, 5), np.float32) for _ in range(2)]
    forward, back, update = (getattr(popnn, f"{cell}_{kind}") for kind in ("fwd", "bwd", "wu"))
    made = forward(numbers, *weights)
    kept = made.intermediates if row.whole else None
    assert (0 if kept is None else kept.shape[2]) == row.whole
    grads = getattr(back(numbers, numbers, *weights), row.grads_name)
    assert grads.shape == (2, 3, *((row.grads,) if row.front else ()), 5)
    updated = update(grads, numbers, made.output, **({"intermediates": kept} if row.resets else {}))
    assert updated.biases_grad.shape == (*row.bias_shape, 5)


def words_of(path):
    """What code says: C without its comments, names and strings of a module without its docstrings."""
    text = path.read_text()
    if path.suffix != ".py":
        yield re.sub(r"/\*.*?\*/", "", text, flags=re.S)
        return
    tree = ast.parse(text) if re.search("gru", text, re.I) else ast.Module([], [])
    told = {id(line.value) for node in ast.walk(tree) if isinstance(getattr(node, "body", None), list)
            for line in node.body if isinstance(line, ast.Expr)}
    for node in ast.walk(tree):
        if id(node) not in told:
            yield from (str(getattr(node, field, "")) for field in ("id", "attr", "name", "arg", "module", "value"))


def test_the_page_names_all_that_know_a_cell():
    page = (ROOT / "docs" / "explanation" / "architecture.md").read_text()
    [count, told] = re.search(r"A recurrent cell takes (\d+) files(.*?)\n\n", page, re.S).groups()
    named = set(re.findall(r"`((?:poplibs_py|src_cython)/[\w./]+)`", told))
    sources = [*(ROOT / "poplibs_py").rglob("*.py"), *(path for path in (ROOT / "src_cython").rglob("*.*")
                                                       if path.suffix in (".h", ".def", ".pyx", ".pxi", ".pxd"))]
    found = {path.relative_to(ROOT).as_posix() for path in sources
             if any(re.search("(?i)(?<![a-z])gru(?![a-z])", word) for word in words_of(path))}
    assert found == named
    assert int(count) == len(named)
