"""``poplibs-py bench sparsity --target NAME``: the paper's sweep planned for a modelled machine, beside its figures."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TextIO

from rich.console import Console
from rich.progress import track

from .. import __version__
from ..errors import bad_argument
from ..report import paper
from ..report.sparsity import METHODS, Axes, Record
from ..report.tables import table

_METHODS = ("dense", "static", "dynamic")


def compare_with_paper(products: paper.ModelledProducts, axes: Axes | None, types: Sequence[str],
                       methods: Sequence[str], columns: Sequence[int | None], figures: Sequence[paper.Figure],
                       files: tuple[TextIO, TextIO], words: Sequence[str]) -> int:
    """Plan the products over the axes and those of the figures, print how they compare and write the files.

    Parameters
    ----------
    products : ModelledProducts
        What plans.
    axes : Axes or None
        Sizes, densities and blocks; None for the figures' products alone.
    types, methods : sequence of str
        As the command has them.
    columns : sequence of int or None
        The n over the axes; None is the best over n.
    figures : sequence of Figure
        The paper's, or others; none where nothing is compared.
    files : (text stream, text stream)
        Where the rows and the page go.
    words : sequence of str
        The command's.
    """
    for option, given, known in (("type", types, ("FP16", "FP32")), ("method", methods, _METHODS)):
        wrong = [name for name in given if name not in known]
        if wrong:
            raise bad_argument(f"--{option}", wrong[0], f"for a modelled machine, out of {', '.join(known)}")
    cells = _cells(axes, types, methods, columns)
    rows, page = files
    terminal = Console(stderr=True)
    every = list(dict.fromkeys([*paper.cells_of(figures), *cells]))
    every.sort(key=lambda c: (c.m, c.k, c.block_size or 0, c.density))
    for _ in track(products.plans(every), f"plans for {products.machine.name}", len(every), console=terminal,
                   transient=True, disable=not terminal.is_terminal):
        pass
    compared = paper.compare(figures, products)
    evens = paper.break_evens(cells, products)
    rows.write(paper.csv_text(cells, compared, products))
    facts = [("version", f"poplibs_py {__version__}"), ("date", f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC"),
             ("command", shlex.join(["poplibs-py", *words])), ("machine", f"{products.machine.name}, modelled")]
    page.write(paper.comparison_page(cells, compared, evens, products, facts))
    print(paper.summary(cells, compared, evens, products))
    print(f"\n{len(cells) + len(compared)} rows in {rows.name}, plots in {page.name}")
    return 0


def machine_table(records: Sequence[Record]) -> str:
    """Return what a modelled machine did in a case as a table."""
    heads = [f"on {records[0].isa}" if records else "", "method", "us", "GFLOP/s", "of peak", "x dense", "of ideal",
             "err/bound", "plan"]
    return table(heads, [(r.type, r.method, r.time_s * 1e6 if r.time_s > 0 else None,
                          r.flop_rate / 1e9 if r.time_s > 0 else None, r.of_peak, r.x_dense, r.of_ideal,
                          r.err_over_bound if r.time_s > 0 else None, r.plan) for r in records])


def _cells(axes: Axes | None, types: Sequence[str], methods: Sequence[str],
           columns: Sequence[int | None]) -> list[paper.Cell]:
    """The products over the axes, none without axes."""
    if axes is None:
        return []
    wrong = [side for side in axes.blocks if side not in (1, 4, 8, 16)]
    if wrong:
        raise bad_argument("--block", wrong[0], "for a modelled machine, out of 1, 4, 8, 16")
    return paper.cells_of_axes(types, [METHODS[name] for name in methods], axes.sizes, axes.densities, axes.blocks,
                               columns)
