"""Figures beside what the model makes of them: ratios, who wins, break-even densities."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import product
from statistics import median

from ...checks import all_of, instance, real, whole
from ...errors import bad_argument
from ..sparsity.charts import break_even_density
from .figures import METHODS, Figure, law_of_speed_up
from .products import Cell, ModelledProducts, Rate

_CLEAR = 0.1
"""How far from 1 a speed-up lies that says who wins."""


@dataclass(frozen=True)
class Compared:
    """A figure beside the model's.

    Attributes
    ----------
    figure : Figure
    exact, calibrated : float
        The same quantity by PopLibs' cost, and by the calibrated one; NaN where there is no plan.
    exact_n, n : int
        The n of each.
    fits : bool
        Whether the calibrated one keeps to a tile's memory.
    wins, exact_wins, calibrated_wins : bool or None
        Whether the product is faster than the dense one in the paper, by PopLibs' cost, as calibrated; None where the
        paper has no dense figure beside it, or is within a tenth of it.
    """

    figure: Figure
    exact: float
    calibrated: float
    exact_n: int
    n: int
    fits: bool
    wins: bool | None = None
    exact_wins: bool | None = None
    calibrated_wins: bool | None = None

    @property
    def exact_ratio(self) -> float:
        """PopLibs' cost over the paper's figure."""
        return self.exact / self.figure.value

    @property
    def ratio(self) -> float:
        """The calibrated one over the paper's figure."""
        return self.calibrated / self.figure.value


def cell_of(figure: Figure) -> Cell:
    """Return the product that a figure is of; a dense one of density 1."""
    instance("figure", figure, Figure, "a Figure")
    density = 1.0 if figure.is_dense else figure.density
    return Cell(figure.type, figure.method, figure.m, figure.k, density, figure.block_size, figure.n)


def cells_of(figures: Iterable[Figure]) -> list[Cell]:
    """Return the products that figures are of, and the dense ones beside them, each once; one pattern's together."""
    cells = [cell_of(figure) for figure in all_of("figures", figures, Figure, "a sequence of Figure")]
    every = dict.fromkeys([*cells, *(cell.dense for cell in cells)])
    return sorted(every, key=lambda cell: (cell.m, cell.k, cell.block_size or 0, cell.density, cell.type, cell.method))


def checked(cells: object, compared: object, products: object) -> tuple[list[Cell], list[Compared]]:
    """Return what a page or a table is made of, or raise."""
    instance("products", products, ModelledProducts, "ModelledProducts")
    return all_of("cells", cells, Cell, "cells"), all_of("compared", compared, Compared, "a sequence of Compared")


def compare(figures: Sequence[Figure], products: ModelledProducts) -> list[Compared]:
    """Compare figures with a model.

    Parameters
    ----------
    figures : sequence of Figure
    products : ModelledProducts
        What plans; its machine is the one whose figures they are.
    """
    instance("products", products, ModelledProducts, "ModelledProducts")
    figures = all_of("figures", figures, Figure, "figures")
    dense = {(f.type, f.m, f.k, f.n): f.value / f.density for f in figures if f.is_dense}
    found = []
    for figure in figures:
        cell = cell_of(figure)
        exact, calibrated = products.rate(cell, exact=True), products.rate(cell)
        told = Compared(figure, _like(figure, exact, cell, products, True),
                        _like(figure, calibrated, cell, products, False), exact.n, calibrated.n, calibrated.fits)
        if not figure.is_dense:
            beside = dense.get((figure.type, figure.m, figure.k, figure.n))
            paper = figure.speed_up or (figure.value / (beside * figure.density) if beside else 1.0)
            if abs(paper - 1) > _CLEAR + 1e-9:
                told = replace(told, wins=paper > 1, exact_wins=_wins(products.speed_up(cell, exact=True)),
                               calibrated_wins=_wins(products.speed_up(cell)))
        found.append(told)
    return found


def _wins(speed_up: float) -> bool | None:
    """Whether a speed-up is one; None where there is no plan."""
    return None if math.isnan(speed_up) else speed_up > 1


def _like(figure: Figure, rate: Rate, cell: Cell, products: ModelledProducts, exact: bool) -> float:
    """What the model says in the figure's own unit."""
    if figure.speed_up is not None:
        return products.speed_up(cell, exact)
    return rate.tflops * (figure.density if figure.is_dense else 1.0)


@dataclass(frozen=True)
class Verdict:
    """How well some figures are met.

    Attributes
    ----------
    count : int
        Figures that the model has a plan for.
    exact, calibrated : float
        Median ratios.
    least, most : float
        Calibrated ratios at the ends.
    clear, exact_signs, calibrated_signs : int
        Figures that say clearly who wins, and for how many of them the model says the same.
    """

    count: int
    exact: float
    calibrated: float
    least: float
    most: float
    clear: int
    exact_signs: int
    calibrated_signs: int


def verdict_of(compared: Sequence[Compared]) -> Verdict:
    """Return the medians, the ends and the counts of signs."""
    compared = all_of("compared", compared, Compared, "figures compared")
    ratios = [c.ratio for c in compared if c.ratio > 0]
    exact = [c.exact_ratio for c in compared if c.exact_ratio > 0]
    clear = [c for c in compared if c.wins is not None]
    return Verdict(
        len(ratios), median(exact) if exact else math.nan, median(ratios) if ratios else math.nan,
        min(ratios, default=math.nan), max(ratios, default=math.nan), len(clear),
        sum(c.exact_wins == c.wins for c in clear), sum(c.calibrated_wins == c.wins for c in clear))


@dataclass(frozen=True)
class BreakEven:
    """The density below which a sparse product is faster than the dense one, best over n.

    Attributes
    ----------
    type, method : str
    m, k, block_size : int
    exact, calibrated : float or None
        By PopLibs' cost and as calibrated; None where it is never faster, `densest` where it always is.
    densest : float
        The highest density tried.
    law : float or None
        By the paper's power law of static FP16 products; None for others.
    """

    type: str
    method: str
    m: int
    k: int
    block_size: int
    exact: float | None
    calibrated: float | None
    densest: float
    law: float | None


def break_evens(cells: Sequence[Cell], products: ModelledProducts) -> list[BreakEven]:
    """Return the break-even densities among cells that are best over n, between densities on logarithmic axes."""
    cells, _ = checked(cells, (), products)
    sparse = [cell for cell in cells if cell.method != "dense" and cell.n is None]
    keys = dict.fromkeys((c.type, c.method, c.m, c.k, c.block_size or 1) for c in sparse)
    found = []
    for kind, method, m, k, block in sorted(keys, key=lambda key: (key[0], METHODS.index(key[1]), *key[2:])):
        mine = [c for c in sparse if (c.type, c.method, c.m, c.k, c.block_size) == (kind, method, m, k, block)]
        if len(mine) < 2:
            continue
        exact, calibrated = ([(c.density, s) for c in mine if (s := products.speed_up(c, is_exact)) > 0]
                             for is_exact in (True, False))
        law = break_even_of_law(m, block) if (kind, method) == ("FP16", "static_sparse") and m == k else None
        found.append(BreakEven(kind, method, m, k, block, break_even_density(exact), break_even_density(calibrated),
                               max(c.density for c in mine), law))
    return found


def break_even_of_law(m: int, block: int) -> float:
    """Return the density at which the paper's power law gives a speed-up of one, at most 1.

    Examples
    --------
    >>> round(1 / break_even_of_law(4096, 4), 1)
    6.9
    """
    at_one = law_of_speed_up(m, 1.0, block)
    from_density = law_of_speed_up(m, 0.5, block) / at_one
    return float(min(1.0, 0.5 ** (math.log(1 / at_one) / math.log(from_density))))


def cells_of_axes(types: Sequence[str], methods: Sequence[str], sizes: Sequence[tuple[int, int]],
                  densities: Sequence[float], blocks: Sequence[int], columns: Sequence[int | None]) -> list[Cell]:
    """Return the products over some axes, one pattern's together; blocks that do not divide m and k are left out.

    Parameters
    ----------
    types, methods, sizes, densities, blocks : sequence
        Dense products are always among them.
    columns : sequence of int or None
        The n; None is the best over n.
    """
    types, methods = (all_of(name, given, str, "a sequence of texts") for name, given in
                      (("types", types), ("methods", methods)))
    pairs = [tuple(all_of("sizes", size, int, "pairs of whole numbers")) for size in
             all_of("sizes", sizes, (tuple, list), "a sequence of pairs")]
    if any(len(pair) != 2 for pair in pairs):
        raise bad_argument("sizes", sizes, "pairs of whole numbers")
    densities = [real("densities", d, low=1e-9, high=1.0) for d in all_of("densities", densities, object, "numbers")]
    blocks = [whole("blocks", b, 1) for b in all_of("blocks", blocks, int, "a sequence of whole numbers")]
    columns = all_of("columns", columns, (int, type(None)), "a sequence of whole numbers, or None")
    dense = [Cell(kind, "dense", m, k, 1.0, None, n) for (m, k), kind, n in product(pairs, types, columns)]
    axes = product(pairs, blocks, densities, types, methods, columns)
    return dense + [Cell(kind, method, m, k, density, block, n) for (m, k), block, density, kind, method, n in axes
                    if method != "dense" and m % block == 0 and k % block == 0]
