"""Nothing is too long to be read: a module of more than 600 lines, or a body of more than 60, is two things."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path

import pytest
from sources import functions_of

ROOT = Path(__file__).parents[1]
MODULE, BODY = 600, 60

PYTHON = sorted(file for room in ("poplibs_py", "tests", "bench") for file in (ROOT / room).rglob("*.py"))
COMPILED = sorted(file for kind in ("pyx", "pxi", "pxd", "h") for file in (ROOT / "src_cython").rglob(f"*.{kind}"))
CYTHON, C = [f for f in COMPILED if f.suffix in (".pyx", ".pxi")], [f for f in COMPILED if f.suffix == ".h"]

Body = tuple[int, int]
"""The line where a function begins, and how many lines its body has."""


def python_bodies(text: str) -> Iterator[Body]:
    """Functions by the parser; a docstring does not count."""
    for node in functions_of(text):
        first = node.body[1:] if ast.get_docstring(node, clean=False) is not None else node.body
        yield node.lineno, (first[-1].end_lineno or 0) - first[0].lineno + 1 if first else 0


def cython_bodies(text: str) -> Iterator[Body]:
    """Functions by indentation: from the line behind the one that ends with a colon to the last that lies deeper."""
    lines = text.split("\n")
    for i, line in enumerate(lines):
        begun = re.match(r"( *)(?:cdef|cpdef|def)\b(?! class)[^=]*\w\(", line)
        if begun is None:
            continue
        signature = range(i, min(i + 12, len(lines)))
        head = next((j for j in signature if lines[j].split("#")[0].rstrip().endswith(":")), None)
        if head is None:  # a declaration
            continue
        inside = head
        for j in range(head + 1, len(lines)):
            if lines[j].strip() and len(lines[j]) - len(lines[j].lstrip()) <= len(begun[1]):
                break
            inside = j if lines[j].strip() else inside
        body = "\n".join(lines[head + 1:inside + 1])
        documented = re.match(r'\s*"""(.*?)"""[^\n]*\n?', body, re.S)
        yield i + 1, inside - head - (documented[0].count("\n") if documented else 0)


def c_bodies(text: str) -> Iterator[Body]:
    """What stands between a brace that opens in a line from the first column, and one that closes there; no tables."""
    begun: int | None = None
    for i, line in enumerate(text.split("\n"), 1):
        if begun is None and re.match(r"([\w][^#=]*)?\{\s*$", line):
            begun = i
        elif begun is not None and line.startswith("}"):
            yield begun, i - begun - 1
            begun = None


def name_of(file: Path) -> str:
    return str(file.relative_to(ROOT))


@pytest.mark.parametrize("file", [*PYTHON, *COMPILED], ids=name_of)
def test_a_module_is_one_thing(file: Path) -> None:
    text = file.read_text()
    assert text.count("\n") <= MODULE
    bodies = {".py": python_bodies, ".h": c_bodies}.get(file.suffix, cython_bodies)
    assert not [f"{name_of(file)}:{line}: {size} lines" for line, size in bodies(text) if size > BODY]


def test_bodies_are_measured() -> None:
    python = 'def f():\n    """Doc.\n\n    More."""\n    a = 1\n    return a\n'
    within = "try: a()\nexcept E:\n    def f():\n        match a:\n            case 1:\n                def g(): pass\n"
    cython = 'cdef int f(int a,\n           int b) noexcept:\n    """Doc."""\n    a = 1\n\n    return a\n'
    c = "static int f(void)\n{\n    a();\n    b();\n}\nint g(void) {\n    c();\n}\n"
    assert list(python_bodies(python)) == [(1, 2)]
    assert list(python_bodies(within)) == [(3, 3), (6, 1)]
    assert list(cython_bodies(cython)) == [(1, 3)]
    assert list(c_bodies(c)) == [(2, 2), (6, 1)]


@pytest.mark.parametrize(("files", "bodies", "least"), [
    (PYTHON, python_bodies, 2000), (CYTHON, cython_bodies, 150), (C, c_bodies, 150),
])
def test_there_is_something_to_measure(files: list[Path], bodies: Callable[[str], Iterator[Body]], least: int) -> None:
    found = (body for file in files for body in bodies(file.read_text()))
    assert sum(1 for _ in islice(found, least + 1)) > least
