"""Cases of the sweep run on a modelled machine: planned, computed tile by tile, checked, told as rows of results."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from ...checks import all_of, instance
from ...errors import MemoryLimitError, PlanError, PoplibsWarning, UnsupportedError, bad_argument
from ...formats import Array
from ...formats.bounds import Ball
from ...poplin import matmul
from ...poplin.product.bound import matmul_modelled_bound
from ...popsparse import BlockSparseMatrix, dynamic, static
from ...popsparse.fully_connected.bound import dynamic_ball
from ...popsparse.static_matmul.bound import static_ball
from ...program.record import Run
from ...target import Target, modelled_machine
from ..profile import profile
from ..sparsity.cases import TYPES, Case
from ..sparsity.check import Check
from ..sparsity.methods import METHODS
from ..sparsity.record import Record
from .calibrated import CALIBRATION, Calibration, Plan, figures_of_plan

_METHODS = ("dense", "static", "dynamic")


@dataclass(frozen=True)
class _Product:
    """What computes one method's product, and its exact result with radii."""

    call: Callable[[], Array]
    ball: Callable[[], Ball]


@dataclass
class MachineRuns:
    """A modelled machine that cases run on.

    Seconds are cycles of PopLibs' plan at the machine's clock; `plan` tells those of the calibrated cost. Dense FP16
    products have half partial sums, static ones their type's, dynamic ones float, as in the paper's harness.

    Parameters
    ----------
    target : Target or str, optional
        The machine (default GC200).
    types : sequence of str, optional
        FP16 and FP32.
    methods : sequence of str, optional
        Some of dense, static and dynamic.
    calibration : Calibration, optional
    """

    target: Target | str = "gc200"
    types: Sequence[str] = ("FP16", "FP32")
    methods: Sequence[str] = _METHODS
    calibration: Calibration = CALIBRATION
    _dense: dict[tuple[int, int, int, int, str], Record] = field(default_factory=dict, init=False, repr=False)

    def __post_init__(self) -> None:
        self.machine = modelled_machine(self.target)
        for name, known in (("types", ("FP16", "FP32")), ("methods", _METHODS)):
            for given in all_of(name, getattr(self, name), str, "names"):
                if given not in known:
                    raise bad_argument(name, given, f"for a modelled machine, out of {', '.join(known)}")

    def run(self, case: Case, number: int = 0) -> list[Record]:
        """Plan, run and check the methods of a case; one that no vertex or plan takes is not valid and says why."""
        instance("case", case, Case, "a Case")
        records = []
        for kind in self.types:
            dense = self._dense_record(case, kind)
            for method in self.methods:
                if method == "dense":
                    records.append(dense)
                    continue
                w, x = case.weights(kind), case.inputs.astype(TYPES[kind].dtype, copy=False)
                record = self._record(case, kind, method, self._sparse(method, w, x))
                if record.valid and dense.valid:
                    record.x_dense = dense.time_s / record.time_s
                    record.of_ideal = record.x_dense * record.density
                records.append(record)
        for record in records:
            record.case, record.source = number, case.source.name if case.source else ""
        return records

    def _dense_record(self, case: Case, kind: str) -> Record:
        """The record of the dense product, made once for cases of one shape."""
        key = (*case.shape, case.seed, kind)
        if key not in self._dense:
            w, x = (v.astype(TYPES[kind].dtype, copy=False) for v in (case.dense_weights, case.inputs))
            options = {"partialsType": kind.replace("FP16", "half").replace("FP32", "float")}
            how: dict[str, Any] = {"target": self.machine, "options": options}
            self._dense[key] = self._record(case, kind, "dense", _Product(
                partial(matmul, w, x, **how), partial(matmul_modelled_bound, w, x, **how)))
        made = self._dense[key]
        return Record(**{**vars(made), "case": 0, "x_dense": 1.0 if made.valid else None})

    def _sparse(self, method: str, w: BlockSparseMatrix, x: Array) -> _Product:
        if method == "static":
            return _Product(partial(static.sparse_dense_matmul, w, x, target=self.machine),
                            partial(static_ball, w, x, self.machine, None, None))
        return _Product(partial(dynamic.sparse_dense_matmul, w, x, target=self.machine),
                        partial(dynamic_ball, w, x, None))

    def _record(self, case: Case, kind: str, method: str, product: _Product) -> Record:
        is_dense = method == "dense"
        density = 1.0 if is_dense else case.density
        flops = 2.0 * case.m * case.k * case.n * density
        record = Record(*case.shape, density, None if is_dense else case.block, kind, "IPU", METHODS[method], False,
                        flops, math.nan, seed=case.seed, threads=0, isa=self.machine.name)
        try:
            with warnings.catch_warnings(), profile() as profiled:
                warnings.simplefilter("ignore", PoplibsWarning)  # of a limit, or of a pattern that took another plan
                y = product.call()
        except (PlanError, MemoryLimitError, UnsupportedError, ValueError) as error:
            record.plan = str(error)
            return record
        run: Run = profiled.runs[-1]
        plan: Plan = run.plan
        summary, figures = plan.summary, figures_of_plan(plan)
        record.err, record.err_over_bound = Check(np.arange(y.shape[0]), product.ball()).judge(y)
        record.valid, record.bytes = record.err_over_bound <= 1, run.read_bytes + run.written_bytes
        record.time_s = plan.cycles / self.machine.clock_hz
        record.flop_rate, record.peak_flop_rate = flops / record.time_s, summary.peak_teraflops * 1e12
        record.of_peak = record.flop_rate / record.peak_flop_rate
        over = "" if figures.within_limit else ", more temporaries than allowed"
        record.plan = f"{plan.cycles} cycles, {self.calibration.cycles(figures):.0f} as calibrated{over}"
        record.kernel = run.kernel
        return record
