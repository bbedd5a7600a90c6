"""Every name that the pages, the docstrings and the packages' ``__all__`` promise is there in a fresh interpreter."""

from __future__ import annotations

import ast
import importlib
import inspect
import pkgutil
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from itertools import groupby
from pathlib import Path

import numpy as np
import pytest

import poplibs_py
from poplibs_py import popsparse
from poplibs_py.errors import InvalidTypeError
from poplibs_py.ops import catalogue
from poplibs_py.ops.record import LIBRARIES
from poplibs_py.popsparse import dynamic

ROOT = Path(__file__).parents[1]
_FULL = re.compile(r"\bpoplibs_py(?:\.[a-zA-Z]\w*)+")
_SHORT = re.compile(r"`((?:popops|poplin|poprand|popsparse|popnn|testing)(?:\.[a-zA-Z]\w*)+)")

# Reads dotted names, those of one module on a line, and reaches each by attributes in a child that has imported the
# package and nothing else. A function may have the name of its module; what lies in such a module is imported.
_REACH = """
import os, sys
import poplibs_py

def reach(name):
    found, path = poplibs_py, "poplibs_py"
    for part in name.split(".")[1:]:
        if path in sys.modules and found is not sys.modules[path]:
            inside = {}
            exec(f"from {path} import {part}", inside)
            found = inside[part]
        else:
            found = getattr(found, part)
        path += f".{part}"

for line in sys.stdin:
    if os.fork() == 0:
        for name in line.split():
            try:
                reach(name)
            except (AttributeError, ImportError) as error:
                print(name, error, flush=True)
        os._exit(0)
    os.wait()
"""


def documented_names() -> set[str]:
    """Dotted names in the pages and docstrings, and the members that packages list."""
    now = {"docs", "tutorials", "how_to", "explanation", "reference"}  # decisions tell of their day
    pages = [ROOT / "README.md", *(page for page in sorted((ROOT / "docs").rglob("*.md")) if page.parent.name in now)]
    texts = [page.read_text() for page in pages]
    names = {f"poplibs_py.{name}" for text in texts for name in _SHORT.findall(text)}
    texts += [source.read_text() for source in sorted((ROOT / "poplibs_py").rglob("*.py"))]
    names |= {name for text in texts for name in _FULL.findall(text)}
    for package in pkgutil.walk_packages(poplibs_py.__path__, "poplibs_py."):
        if package.ispkg and "._" not in package.name:
            names |= {f"{package.name}.{name}" for name in getattr(import_module(package.name), "__all__", [])}
    return {name for name in names if not name.endswith(".md")}


def _module_of(name: str) -> str:
    return name.rpartition(".")[0]


def parameters() -> Iterator[tuple[str, str]]:
    """The parameters of all public functions, each with its function's place."""
    for source in sorted((ROOT / "poplibs_py").rglob("*.py")):
        for node in ast.walk(ast.parse(source.read_text())):
            if isinstance(node, ast.FunctionDef) and (node.name == "__init__" or not node.name.startswith("_")):
                of = node.args
                for parameter in (*of.posonlyargs, *of.args, *of.kwonlyargs):
                    yield f"{source.relative_to(ROOT)}:{node.lineno} {node.name}", parameter.arg


def test_one_word_for_one_thing_in_signatures():
    words = {name for _, name in parameters()}
    assert {"dtype", "out_dtype", "x_dtype", "w_dtype", "seed", "scale", "out"} < words
    elsewhere = {"fmt": "dtype", "format": "dtype", "x_format": "x_dtype", "w_format": "w_dtype",
                 "out_format": "out_dtype", "exchanged": "swapped", "turned": "transposed", "domain": "compute_format",
                 "memory_bound": "memory_limit", "temp_bound": "temp_limit"}
    wrong = [f"{place}: {name}, elsewhere {elsewhere[name]}" for place, name in parameters() if name in elsewhere]
    assert not wrong


def test_every_documented_name_is_reached_by_attributes_alone():
    names = documented_names()
    assert {"poplibs_py.popsparse.static.sparse_dense_matmul", "poplibs_py.testing.strategies"} < names
    modules = groupby(sorted(names, key=_module_of), _module_of)
    lines = "\n".join(" ".join(group) for _, group in modules)
    done = subprocess.run([sys.executable, "-c", _REACH], input=lines, capture_output=True, text=True, check=True)
    assert done.stdout == ""


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
