"""Fit the constants of the calibrated cost to the PopSparse paper's figures, and tell how well each set meets them.

    python bench/fit_calibration.py [FIGURES.jsonl]

A grid over each constant in turn, the others held, until none moves; what is made least is the mean square of the
logarithm of model over figure, of sparse figures and of dense ones with the same weight. The plans are made once: the
constants enter after them. `poplibs_py.report.paper.Calibration` has the result.
"""

from __future__ import annotations

import math
import sys
from dataclasses import replace

from poplibs_py.report.paper import (
    CALIBRATION,
    PUBLISHED,
    Calibration,
    Figure,
    ModelledProducts,
    cells_of,
    compare,
    read_figures,
    verdict_of,
)

GRIDS = {"step_cycles": [25.0 * i for i in range(25)], "regroup_cycles_per_byte": [0.1 * i for i in range(21)],
         "memory_factor": [1 + 0.1 * i for i in range(41)]}


def misfit(figures: list[Figure], products: ModelledProducts, calibration: Calibration) -> float:
    """Return the mean square of log(model / figure), sparse and dense figures weighing the same."""
    products.calibration = calibration
    compared = compare(figures, products)
    found = 0.0
    for is_dense in (False, True):
        squares = [math.log(c.ratio) ** 2 if c.ratio > 0 else 1.0 for c in compared if c.figure.is_dense == is_dense]
        found += sum(squares) / len(squares) if squares else 0.0
    return found


def fit(figures: list[Figure], products: ModelledProducts) -> Calibration:
    """Return the constants of least misfit; of equals, those in the middle of their run."""
    best, before = CALIBRATION, None
    while best != before:
        before = best
        for name, grid in GRIDS.items():
            misfits = [(round(misfit(figures, products, replace(best, **{name: value})), 9), value) for value in grid]
            equals = [value for found, value in misfits if found == min(misfits)[0]]
            best = replace(best, **{name: round(equals[len(equals) // 2], 6)})
    return best


def main() -> None:
    """Fit, and print the constants in use beside what was found."""
    figures = read_figures(sys.argv[1]) if len(sys.argv) > 1 else list(PUBLISHED)
    products = ModelledProducts("bow")
    for _ in products.plans(cells_of(figures)):
        pass
    for name, calibration in (("PopLibs' cost alone", Calibration(0.0, 0.0, 1.0)), ("in use", CALIBRATION),
                              ("fitted", fit(figures, products))):
        error = misfit(figures, products, calibration)
        print(f"{name}: {calibration}\n  misfit {error:.5f}, {verdict_of(compare(figures, products))}")


if __name__ == "__main__":
    main()
