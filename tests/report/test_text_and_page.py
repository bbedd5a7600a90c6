"""Tables and the HTML page."""

from __future__ import annotations

import base64
import re
from html.parser import HTMLParser

from poplibs_py.report.chart import Axis, LineChart, Series
from poplibs_py.report.page import Page
from poplibs_py.report.tables import table


def test_table_aligns_numbers_right_and_words_left():
    lines = table(["method", "GFLOP/s"], [["dense", 1234.5], ["static", 2.0], ["none", None]]).splitlines()
    assert lines == ["method   GFLOP/s", "────────────────", "dense       1234", "static         2", "none"]


class Checker(HTMLParser):
    """Counts tags and refuses anything that would load or run."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []

    def handle_starttag(self, tag, attrs):
        assert tag not in {"script", "link", "img", "iframe"}
        assert not any(value and value.startswith(("http:", "https:")) for key, value in attrs if key != "xmlns")
        if tag not in {"meta", "br"}:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        pass

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def test_page_is_self_contained_and_balanced():
    page = Page("A <page>")
    page.heading("Charts & tables")
    page.paragraph("One.", soft=True)
    page.facts([("3.2x", "over dense")])
    page.charts([LineChart("c", Axis("x"), Axis("y"), [Series("s", [1, 2], [3, 4])])] * 2)
    page.table(["name", "value"], [["<b>", "1.5"], ["c", ""]], summary="All rows")
    page.download("rows.csv", "a,b\n1,2\n")
    html = page.html()
    checker = Checker()
    checker.feed(html)
    assert checker.open == []
    assert "<b>" not in html.split("All rows")[1].split("</table>")[0].replace("&lt;b&gt;", "")
    data = re.search(r"base64,([^']+)'", html)[1]
    assert base64.b64decode(data) == b"a,b\n1,2\n"
    assert html.count("<svg") == 2
