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
