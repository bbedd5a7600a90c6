"""The pages of the documentation: each begins with what it is for and an example, and their links lead somewhere."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

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
