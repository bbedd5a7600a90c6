"""Every name that the pages, the docstrings and the packages' ``__all__`` promise is there in a fresh interpreter."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from sources import functions_of
from surface import doors

import poplibs_py
from poplibs_py import popsparse, testing
from poplibs_py.errors import InvalidTypeError
from poplibs_py.ops import catalogue
from poplibs_py.ops.record import LIBRARIES
from poplibs_py.popsparse import dynamic

ROOT = Path(__file__).parents[1]
_FULL = re.compile(r"\bpoplibs_py(?:\.[a-zA-Z]\w*)+")
_SHORT = re.compile(r"`((?:popops|popfloat|poplin|poprand|popsparse|popnn|testing)(?:\.[a-zA-Z]\w*)+)")

# Reads dotted names and reaches each by attributes in a child that has imported the package, has reached by attributes
# the module that the name lies in, and nothing else. A function may have the name of its module; what lies in such a
# module is imported.
_REACH = """
import os, sys
import poplibs_py

def step(found, path, part):
    try:
        if path in sys.modules and found is not sys.modules[path]:
            inside = {}
            exec(f"from {path} import {part}", inside)
            return inside[part]
        return getattr(found, part)
    except (AttributeError, ImportError) as error:
        print(f"{path}.{part}", error, flush=True)

def explore(found, path, names):
    within = {}
    for part, *more in names:
        if more:
            within.setdefault(part, []).append(more)
    for part, below in within.items():
        if os.fork() == 0:
            inner = step(found, path, part)
            if inner is not None:
                explore(inner, f"{path}.{part}", below)
            os._exit(0)
        _, status = os.wait()
        if status:
            print(f"{path}.{part}", status, flush=True)
    for part, *more in names:
        if not more:
            step(found, path, part)

explore(poplibs_py, "poplibs_py", [line.split(".")[1:] for line in sys.stdin.read().split()])
"""


_DOORS = {name: find_spec(package) is not None for name, package in (("torch", "torch"), ("dask", "dask"))}
"""Rooms that are another library's door, and whether that library is here."""


def is_here(name: str) -> bool:
    """Whether what a name's room needs is installed."""
    return _DOORS.get(name.split(".")[1] if "." in name else "", True)


def documented_names() -> set[str]:
    """Dotted names in the pages and docstrings, and the members that packages list."""
    now = {"docs", "tutorials", "how_to", "explanation", "reference"}  # decisions tell of their day
    pages = [ROOT / "README.md", *(page for page in sorted((ROOT / "docs").rglob("*.md")) if page.parent.name in now)]
    texts = [page.read_text() for page in pages]
    names = {f"poplibs_py.{name}" for text in texts for name in _SHORT.findall(text)}
    texts += [source.read_text() for source in sorted((ROOT / "poplibs_py").rglob("*.py"))]
    names |= {name for text in texts for name in _FULL.findall(text)}
    for package in pkgutil.walk_packages(poplibs_py.__path__, "poplibs_py."):
        if package.ispkg and "._" not in package.name and is_here(package.name):
            names |= {f"{package.name}.{name}" for name in getattr(import_module(package.name), "__all__", [])}
    return {name for name in names if not name.endswith(".md") and is_here(name)}


def _reached(names: set[str]) -> str:
    """What a fresh interpreter says of names that it cannot reach."""
    lines = "\n".join(sorted(names))
    done = subprocess.run([sys.executable, "-c", _REACH], input=lines, capture_output=True, text=True, check=True)
    return done.stdout


def parameters() -> Iterator[tuple[str, str]]:
    """The parameters of all public functions, each with its function's place."""
    for source in sorted((ROOT / "poplibs_py").rglob("*.py")):
        for node in functions_of(source.read_text()):
            if node.name == "__init__" or not node.name.startswith("_"):
                of = node.args
                for parameter in (*of.posonlyargs, *of.args, *of.kwonlyargs):
                    yield f"{source.relative_to(ROOT)}:{node.lineno} {node.name}", parameter.arg


def test_one_word_for_one_thing_in_signatures():
    found = [*parameters()]
    words = {name for _, name in found}
    assert {"dtype", "out_dtype", "x_dtype", "w_dtype", "seed", "scale", "out"} < words
    elsewhere = {"fmt": "dtype", "format": "dtype", "x_format": "x_dtype", "w_format": "w_dtype",
                 "out_format": "out_dtype", "exchanged": "swapped", "turned": "transposed", "domain": "compute_format",
                 "memory_bound": "memory_limit", "temp_bound": "temp_limit"}
    wrong = [f"{place}: {name}, elsewhere {elsewhere[name]}" for place, name in found if name in elsewhere]
    assert not wrong


def test_every_documented_name_is_reached_by_attributes_alone():
    names = documented_names()
    assert {"poplibs_py.popsparse.static.sparse_dense_matmul", "poplibs_py.testing.strategies"} < names
    assert _reached(names) == ""


def test_a_name_that_only_another_import_would_bring_is_found():
    lacking = ["poplibs_py.popsparse.nothing", "poplibs_py.popops.vertices.nothing.below", "poplibs_py.nowhere.at.all"]
    told = _reached({"poplibs_py.popsparse.static", "poplibs_py.popsparse.static.sparse_dense_matmul", *lacking})
    assert sorted(line.split()[0] for line in told.splitlines()) == [
        "poplibs_py.nowhere", "poplibs_py.popops.vertices.nothing", "poplibs_py.popsparse.nothing"]


def test_a_package_offers_its_modules_and_nothing_else():
    assert {"static", "dynamic", "BlockSparseMatrix"} < set(dir(popsparse))
    assert popsparse.dynamic.__name__ == "poplibs_py.popsparse.dynamic"
    with pytest.raises(AttributeError, match=r"'poplibs_py\.popsparse' has no attribute 'statik'"):
        popsparse.statik  # noqa: B018


def test_importing_the_package_loads_no_operation_but_cast():
    script = "import sys, poplibs_py; print(*sorted(m for m in sys.modules if m.startswith('poplibs_py.pop')))"
    loaded = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout.split()
    assert {name.split(".")[1] for name in loaded} == {"popops"}


def test_a_library_without_operations_says_so() -> None:
    for library in LIBRARIES:
        module = importlib.import_module(f"poplibs_py.{library}")
        names = [name for name in catalogue if name.rpartition(".")[0] == library]
        if not names:
            assert "nothing yet" in (module.__doc__ or ""), library


def test_weights_come_first_in_layers_and_their_docs_say_so() -> None:
    for name in ("fully_connected_fwd", "fully_connected_grad_a", "fully_connected_sparse_grad_w"):
        function = getattr(dynamic, name)
        first = next(iter(inspect.signature(function).parameters))
        assert first == "w"
        assert "first" in function.__doc__.partition("Notes")[2], name
        with pytest.raises(InvalidTypeError, match=r"^w: got ndarray"):
            function(*[np.ones((2, 2), np.float32)] * (3 if "grad_w" in name else 2))


# The table of arguments ----------------------------------------------------------------------------

_ROW = re.compile(r"^\| (`[^|]+`) \| ([^|]+) \| ([^|]+) \|$", re.MULTILINE)
_ANY = {"Any", "object", "", "None", "Self"}
_ARRAYS = {"Array", "ArrayLike", "Floats", "NDArray", "np.ndarray", "Number"}
_KINDS = {
    "array": _ARRAYS | {"QuarterArray", "PreparedDense", "int", "float"}, "count": {"int"}, "number": {"float", "int"},
    "flag": {"bool"}, "word": {"str", "Rounding", "Overflow", "Stream", "Specials", "Sequence"}, "type": {"str"},
    "dtype": {"Format", "DType", "DTypeLike", "np.dtype", "str"}, "shape": {"Shape", "tuple", "Sequence", "int"},
    "sizes": {"Sides", "Sequence", "int", "tuple"}, "path": {"str", "Path", "os.PathLike"}, "axis": {"int", "tuple"},
    "axes": {"Axes", "Axis", "tuple"},
    "seed": {"Seed", "int", "tuple"}, "scale": {"Scale", "int", "float", "str", "Array"}, "out": {"BlockSparseMatrix"},
    "target": {"Target", "TargetLike", "str"}, "matrix": {"BlockSparseMatrix", "PreparedSparse", "Array"},
    "mapping": {"Mapping", "dict", "str", "TileMapping"},
    "options": {"Mapping", "str", "ConvOptions", "GemmOptions", "Sequence"},
    "params": {"ConvParams", "GemmParams"}, "problem": {"ConvProblem"}, "numbers": {"Iterable", "float"},
    "plan": {"GemmPlan", "ConvPlan", "HostConvPlan", "EmbeddingPlan", "HostEmbeddingPlan", "Plan", "P",
             "Callable", "R", "SparsePlan"},
    "key": {"Hashable"},
    "problems": {"Sequence", "ConvParams", "Iterable", "P"}, "cache": {"PlanCache", "ConvPlan"},
    "constraints": {"str", "Mapping"}, "function": {"Callable", "str"},
    "strategy": {"SearchStrategy", "int"}, "expression": {"Mappable", "Expression"},
    "Ball": {"Ball", "tuple"}, "Capacity": {"Capacity"}, "BlockPattern": {"BlockPattern"},
}  # fmt: skip
"""What the page's kinds are called in annotations; arguments that functions check themselves are `object`."""


@cache
def arguments() -> dict[str, list[tuple[str, str]]]:
    """The parameters of public functions by name: where, and its annotation. What users do not make is left out."""
    found: dict[str, list[tuple[str, str]]] = {}
    for door in doors():
        is_record = isinstance(door.function, type) and "Parameters\n" not in (door.function.__doc__ or "")
        if door.name.startswith(("report.", "errors.")) or is_record:
            continue
        for name, parameter in door.parameters.items():
            if parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
                annotation = "" if parameter.annotation is parameter.empty else str(parameter.annotation)
                found.setdefault(name, []).append((door.name, annotation))
    return found


@cache
def table() -> dict[str, set[str]]:
    """The rows of the page: each name's kinds."""
    page = next((ROOT / "docs").rglob("arguments.md")).read_text()
    return {name: set(re.split(", | or ", kinds)) for names, kinds, _ in _ROW.findall(page)
            for name in re.findall("`([^`]+)`", names)}


def words_of(annotation: str) -> set[str]:
    """The types that an annotation speaks of."""
    return set(re.findall(r"[A-Za-z_][\w.]*", re.sub(r"'[^']*'", lambda m: m[0].strip("'"), annotation))) - _ANY


def test_every_argument_is_in_the_table_or_in_the_one_docstring_that_takes_it() -> None:
    listed, taken = table(), arguments()
    shared = {name for name, places in taken.items() if len(places) > 1}
    assert sorted(shared - listed.keys()) == []
    assert sorted(listed.keys() - taken.keys()) == []
    of_ops = {name for op in catalogue.values() for name in inspect.signature(op.face).parameters}
    assert {"out", "out_dtype", "seed"} < of_ops
    docs = {door.name: f"{door.function.__doc__} {getattr(door.owner, '__doc__', '')}" for door in doors()}
    untold = [f"{place}: {name}" for name, places in taken.items() if name not in listed
              for place, _ in places if not re.search(rf"\b{name}\b", docs[place])]
    assert untold == []


@pytest.mark.parametrize("name", sorted(table()))
def test_an_argument_is_of_one_kind_everywhere(name: str) -> None:
    kinds = table()[name]
    if kinds == {"anything"}:
        return
    allowed = set().union(*(_KINDS[kind] for kind in kinds)) | {"np.floating", "np.float64", "collections.abc"}
    wrong = [f"{place}: {annotation}" for place, annotation in arguments().get(name, [])
             if not words_of(annotation) <= allowed]
    assert wrong == [], f"{name} is {kinds}"


def test_a_limit_on_memory_may_be_strict_wherever_there_is_one() -> None:
    taken = {name: {place for place, _ in arguments()[name]}
             for name in ("available_memory_proportion", "strict_memory")}
    always = {"popnn.plan_ctc_loss"}  # raises where nothing fits, as PopLibs does
    assert taken["available_memory_proportion"] - taken["strict_memory"] == always


def test_a_seed_is_a_number_or_a_pair_everywhere() -> None:
    pattern = popsparse.random_pattern(16, 16, 4, 0.5, seed=(5, 1))
    assert pattern == popsparse.random_pattern(16, 16, 4, 0.5, seed=5 + 2**32)
    assert popsparse.random_matrix(pattern, seed=(5, 1)).equals(popsparse.random_matrix(pattern, seed=5 + 2**32))
    assert np.array_equal(testing.random_operand((3, 4), "float32", (5, 1)),
                          testing.random_operand((3, 4), "float32", 5 + 2**32))
    wrong = [f"{place}: {annotation}" for place, annotation in arguments()["seed"] if annotation == "int"]
    assert wrong == []
