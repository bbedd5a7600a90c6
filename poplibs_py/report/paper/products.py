"""Products on a modelled machine by the paper's sizes: planned once in a run, told exactly and as calibrated."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

from ...checks import instance
from ...errors import MemoryLimitError, MemoryLimitWarning, PlanError
from ...poplin import ConvPlan, plan_matmul
from ...popsparse import BlockPattern, random_pattern
from ...popsparse.fully_connected import FullyConnectedOptions, FullyConnectedParams
from ...popsparse.fully_connected.api import plan_quietly
from ...popsparse.static_matmul import plan_static_matmul
from ...target import Target, modelled_machine
from .calibrated import CALIBRATION, EXACT, Calibration, Plan, PlanFigures, figures_of_plan

_DATA_TYPES = {"FP16": "half", "FP32": "float"}


@dataclass(frozen=True)
class Cell:
    """A product as the paper names it.

    Parameters
    ----------
    type : {"FP16", "FP32"}
    method : {"dense", "static_sparse", "dynamic_sparse"}
    m, k : int
    density : float
        1 for a dense product.
    block_size : int or None
        None for a dense product.
    n : int or None, optional
        None is the best over n.
    """

    type: str
    method: str
    m: int
    k: int
    density: float
    block_size: int | None
    n: int | None = None

    @property
    def flops(self) -> float:
        """Operations on stored values for a column of X."""
        return 2.0 * self.m * self.k * self.density

    @property
    def dense(self) -> Cell:
        """The dense product of the same sizes."""
        return replace(self, method="dense", density=1.0, block_size=None)


@dataclass(frozen=True)
class Rate:
    """What a product reaches.

    Attributes
    ----------
    tflops : float
        TFLOP/s on stored values; NaN where there is no plan.
    n : int
        Columns of X it was planned for; 0 where there is no plan.
    cycles : float
    fits : bool
        Whether it keeps to a tile's memory. The best over n is one that does.
    """

    tflops: float
    n: int
    cycles: float
    fits: bool


def columns_tried(type_name: str) -> list[int]:
    """Return the n of the best over n, as in the paper: powers of 4 in FP16, of 2 in FP32.

    Examples
    --------
    >>> columns_tried("FP16")
    [4, 16, 64, 256, 1024, 4096, 16384]
    """
    return [4 << i for i in range(0, 13, 2 if type_name == "FP16" else 1)]


@dataclass
class ModelledProducts:
    """Plans of products on a modelled machine, each made once.

    Dense FP16 products have half partial sums, static ones their type's, dynamic ones float, as in the paper's harness;
    all may use 0.6 of a tile's memory. Patterns have ``ceil(density * blocks)`` blocks, drawn with equal chance.

    Parameters
    ----------
    target : Target or str, optional
        The machine (default Bow, the paper's).
    seed : int, optional
        Of the patterns (default 123, the paper's).
    calibration : Calibration, optional
    """

    target: Target | str = "bow"
    seed: int = 123
    calibration: Calibration = CALIBRATION
    _plans: dict[Cell, PlanFigures | None] = field(default_factory=dict, init=False, repr=False)
    _pattern: tuple[tuple[int, int, int, float], BlockPattern] | None = field(default=None, init=False, repr=False)

    def __post_init__(self) -> None:
        self.machine = modelled_machine(self.target)

    def rate(self, cell: Cell, exact: bool = False) -> Rate:
        """Return what a product reaches by the calibrated cost, or by PopLibs' own; the best over n where n is None."""
        instance("cell", cell, Cell, "a Cell")
        if cell.n is not None:
            return self._one(cell, exact)
        tried = [self._one(replace(cell, n=n), exact) for n in columns_tried(cell.type)]
        return max((rate for rate in tried if rate.fits), key=lambda rate: rate.tflops,
                   default=Rate(math.nan, 0, math.nan, False))

    def speed_up(self, cell: Cell, exact: bool = False) -> float:
        """Return how many times faster than the dense product of the same sizes it is."""
        dense = self.rate(cell.dense, exact).tflops
        return self.rate(cell, exact).tflops / (dense * cell.density)

    def plans(self, cells: Iterable[Cell]) -> Iterator[Cell]:
        """Plan products, every n of those that are the best over n, and yield each cell when it is planned."""
        for cell in cells:
            for n in columns_tried(cell.type) if cell.n is None else [cell.n]:
                self._planned(replace(cell, n=n))
            yield cell

    def _one(self, cell: Cell, exact: bool) -> Rate:
        plan, n = self._planned(cell), cell.n or 0
        if plan is None:
            return Rate(math.nan, 0, math.nan, False)
        calibration = EXACT if exact else self.calibration
        cycles = calibration.cycles(plan)
        return Rate(cell.flops * n * self.machine.clock_hz / cycles / 1e12, n, cycles, calibration.fits(plan))

    def _planned(self, cell: Cell) -> PlanFigures | None:
        if cell not in self._plans:
            try:
                self._plans[cell] = figures_of_plan(self._plan(cell))
            except (PlanError, MemoryLimitError):
                self._plans[cell] = None
        return self._plans[cell]

    def _plan(self, cell: Cell) -> Plan:
        kind, n, side = _DATA_TYPES[cell.type], cell.n or 1, cell.block_size or 1
        if cell.method == "dense":
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", MemoryLimitWarning)  # whether it fits, the figures tell
                plan = plan_matmul((cell.m, cell.k), (cell.k, n), dtype=kind, target=self.machine,
                                   options={"partialsType": kind})
            assert isinstance(plan, ConvPlan)
            return plan
        if cell.method == "static_sparse":
            return plan_static_matmul(self._drawn(cell.m, cell.k, side, cell.density), n, dtype=kind,
                                      target=self.machine)
        blocks = cell.m // side * (cell.k // side)
        ratio = math.ceil(cell.density * blocks) / blocks
        params = FullyConnectedParams(cell.m, cell.k, n, ratio, side, kind)
        return plan_quietly(params, FullyConnectedOptions(), self.machine)

    def _drawn(self, m: int, k: int, side: int, density: float) -> BlockPattern:
        """A pattern; the last one is kept, for products of one pattern follow each other."""
        key = m, k, side, density
        if self._pattern is None or self._pattern[0] != key:
            self._pattern = key, random_pattern(m, k, side, density, self.seed)
        return self._pattern[1]
