"""Tables for a terminal, drawn by rich: no cell is broken; a terminal that is narrower wraps lines."""

from __future__ import annotations

import io
from collections.abc import Iterable, Sequence

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

__all__ = ["pairs", "table"]

_WIDTH = 4000


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return rows under aligned heads: words to the left, what begins with a figure to the right.

    Examples
    --------
    >>> print(table(["name", "time"], [["one", "1.5 ms"], ["two", "12 ms"]]))
    name     time
    ─────────────
    one    1.5 ms
    two     12 ms
    """
    rows, drawn = list(rows), Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for i, head in enumerate(heads):
        figures = i > 0 and all(not row[i] or row[i][0].isdigit() for row in rows)
        drawn.add_column(head, justify="right" if figures else "left", no_wrap=True)
    for row in rows:
        drawn.add_row(*map(Text, row))
    return _drawn(drawn)


def pairs(facts: Iterable[tuple[str, str]]) -> str:
    """Return names, each with what it says beside it.

    Examples
    --------
    >>> print(pairs([("most", "1"), ("least of all", "0")]))
    most          1
    least of all  0
    """
    drawn = Table.grid(padding=(0, 2))
    for name, what in facts:
        drawn.add_row(Text(name), Text(what))
    return _drawn(drawn)


def _drawn(drawn: Table) -> str:
    page = io.StringIO()
    Console(file=page, width=_WIDTH, color_system=None, legacy_windows=False).print(drawn)
    return "\n".join(line.rstrip() for line in page.getvalue().rstrip().splitlines())
