"""The pages of the documentation: each begins with what it is for and an example, and their links lead somewhere."""

from __future__ import annotations

import ast
import functools
import inspect
import re
from collections.abc import Iterator
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

import poplibs_py

ROOT = Path(__file__).parents[1]
KINDS = ("tutorials", "how_to", "explanation", "reference")
PAGES = [page for kind in KINDS for page in sorted((ROOT / "docs" / kind).glob("*.md"))]
_EXAMPLE = re.compile(r"^```(?:python|console)\n.*?^```\n", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\]\((?!https?:)([^)#\s]+)(?:#[^)]*)?\)")
_CODE = re.compile(r"^```.*?^```|`[^`\n]*`", re.MULTILINE | re.DOTALL)


def name(page: Path) -> str:
    return str(page.relative_to(ROOT))


def test_there_are_pages_of_each_kind() -> None:
    assert {page.parent.name for page in PAGES} == set(KINDS)


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_a_page_begins_with_what_it_is_for_and_an_example(page: Path) -> None:
    beginning = re.split(r"^## ", page.read_text(), maxsplit=1, flags=re.MULTILINE)[0]
    assert _EXAMPLE.search(beginning)
    title, text = _EXAMPLE.sub("", beginning).split("\n", 1)
    assert title.startswith("# ")
    assert text.strip()


@pytest.mark.parametrize("page", [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))], ids=name)
def test_links_lead_to_files(page: Path) -> None:
    links = _LINK.findall(_CODE.sub("", page.read_text()))
    assert [link for link in links if not (page.parent / link).exists()] == []


def test_the_table_of_families_names_files_that_are_there() -> None:
    text = (ROOT / "docs" / "explanation" / "architecture.md").read_text()
    section = text.partition("## Where a family is")[2].partition("\n## ")[0]
    rows = [[re.findall(r"`([^`]+)`", cell) for cell in line.split("|")[2:6]]
            for line in section.splitlines() if line.startswith("| ")][1:]
    sources, package = ROOT / "src_cython", ROOT / "poplibs_py"
    told = [[sources / "records" / name for name in record] + [package / name for name in (*lower, *bound)]
            + [sources / ("kernels" if "/" in name else "drivers") / name for name in kernels]
            for record, lower, kernels, bound in rows]
    assert len(told) > 20
    assert [str(path) for paths in told for path in paths if not path.exists()] == []
    assert all(record and lower and kernels for record, lower, kernels, _ in rows)
    lists = {path.name for path in (sources / "records").glob("*.def")}
    parts = {"all", "enums", "format", "cast", "epilogue", "dot", "multiplier", "beside", "peak"}  # no family's own
    assert lists - {f"{name}.def" for name in parts} == {name for record, *_ in rows for name in record}


def torch_rows() -> Iterator[list[str]]:
    """The cells of the table of torch's names."""
    for line in (ROOT / "docs" / "reference" / "torch_names.md").read_text().splitlines():
        if line.startswith("| ") and "torch.nn" not in line:
            yield [cell.strip() for cell in line.strip("|").split("|")]


def resolved(node: ast.expr) -> Any:
    return functools.reduce(getattr, ast.unparse(node).split("."), poplibs_py)


@pytest.mark.parametrize("call", [call for _, _, here, _ in torch_rows() for call in re.findall(r"`([^`]+)`", here)])
def test_calls_in_the_table_of_torchs_names_are_calls_of_this_package(call: str) -> None:
    calls = [node for node in ast.walk(ast.parse(call)) if isinstance(node, ast.Call)]
    assert calls
    for node in calls:
        inspect.signature(resolved(node.func)).bind(*node.args, **{str(k.arg): k.value for k in node.keywords})


def test_functions_in_remarks_of_the_table_of_torchs_names_exist() -> None:
    remarks = " ".join(row[3] for row in torch_rows())
    for name in re.findall(r"`(pop\w+\.\w+)", remarks):
        assert callable(resolved(ast.parse(name, mode="eval").body))


@pytest.mark.skipif(find_spec("torch") is None, reason="torch is not installed")
def test_names_of_torch_in_its_table_are_torchs() -> None:
    for functions, modules, *_ in torch_rows():
        for where, cell in (("torch.nn.functional", functions), ("torch.nn", modules)):
            assert [n for n in re.findall(r"`(\w+)`", cell) if not hasattr(import_module(where), n)] == []
