"""Tables for a terminal, drawn by rich: no cell is broken; a terminal that is narrower wraps lines."""

from __future__ import annotations

import io
from collections.abc import Iterable, Sequence

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from ..checks import all_of
from ..errors import bad_argument

__all__ = ["pairs", "table"]

_WIDTH = 4000


def table(heads: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return rows under aligned heads: words to the left, what begins with a figure to the right.

    Parameters
    ----------
    heads : sequence of str
        The columns' names.
    rows : sequence of sequence
        The cells: strings as they are, floats to three digits, None as an empty cell.

    Examples
    --------
    >>> print(table(["name", "time"], [["one", "1.5 ms"], ["two", "12 ms"]]))
    name     time
    ─────────────
    one    1.5 ms
    two     12 ms
    """
    heads, rows = all_of("heads", heads, str, "texts"), all_of("rows", rows, Sequence, "sequences of cells")
    for row in rows:
        if len(row) != len(heads):
            raise bad_argument("rows", f"a row of {len(row)} cells", f"{len(heads)}, one for each head")
    cells = [[_cell(value) for value in row] for row in rows]
    drawn = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for i, head in enumerate(heads):
        figures = i > 0 and all(not row[i] or row[i][0].isdigit() for row in cells)
        drawn.add_column(head, justify="right" if figures else "left", no_wrap=True)
    for row in cells:
        drawn.add_row(*map(Text, row))
    return _drawn(drawn)


def _cell(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.0f}" if abs(value) >= 999.5 else f"{value:.3g}"
    return str(value)


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
