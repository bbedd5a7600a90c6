"""From the parameters of a factorisation to what runs: kernels on small matrices, or LAPACK on single ones."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import numpy as np

from ...errors import bad_argument
from ...formats import Array
from ...kernels.records import FORMAT_NUMBERS, dtype_of
from ...kernels.registry import Selection
from ...log import tell
from ...memo import remembered
from ...planner import Explanation
from ...planner.explain import Considered, PlanDefaults, considered_kernels
from ...program import Executable, Segment, Sequence, host_program, spread
from .model import suits_kernels, way_of
from .params import FactorLayout, FactorParams

_ITEM = dtype_of("pop_factor_item")

REFUSALS = {"cholesky": ("not positive definite, or not finite", "symmetric positive definite matrices"),
            "solve": ("singular: there is a zero on its diagonal", "triangles without a zero on the diagonal")}
"""What a marked status means, and what is allowed."""


@dataclass(frozen=True, eq=False)
class Factoring(PlanDefaults):
    """How a batch is factored.

    Attributes
    ----------
    params : FactorParams
    run : callable
        Takes the arrays of the program; where there is a status, that is the last.
    threads : int
    selection : Selection or None
        The kernel; None where LAPACK factors one matrix after another.
    """

    params: FactorParams
    run: Callable[..., Any]
    threads: int
    selection: Selection | None

    def __reduce__(self) -> tuple[Any, ...]:
        return lower, (self.params, self.threads)

    @property
    def kernel(self) -> str:
        """Who does it, for a reader."""
        return f"{self.params.op} (LAPACK)" if self.selection is None else self.selection.kernel.label

    def explain(self) -> Explanation:
        """Return what was decided."""
        beside = 1 if self.selection is None else self.selection.kernel.block[0]
        way = "one matrix after another" if beside == 1 else f"up to {beside} matrices side by side"
        return Explanation(str(self.params), {"kernel": self.kernel, "way": way, "threads": str(self.threads)},
                           self._considered())

    def _considered(self) -> tuple[Considered, ...]:
        if self.selection is None:
            return (Considered(self.kernel, None, None, "chosen", True),)
        return considered_kernels(self.selection)


class _Factoring(Protocol):
    """What `checked` runs: a `Factoring`, or that of a modelled machine."""

    @property
    def params(self) -> FactorParams: ...
    @property
    def run(self) -> Callable[..., Any]: ...


def checked(factoring: _Factoring, name: str) -> Callable[..., None]:
    """Return a program that raises where a matrix of the operand of this name is none that it can factor.

    What it wrote then is nobody's.
    """
    p, run = factoring.params, factoring.run

    def refusal(failed: Array, *_: Array) -> Exception:
        return refusal_of(p, name, failed)

    if isinstance(run, Executable):
        count = run.operands - 1
        return Sequence([(run, range(count + 1))], count, p.batch, [(0, 0, p.batch)] if p.batch else [], refusal)

    def run_checked(*arrays: Array) -> None:
        failed = np.zeros(p.batch, np.uint8)
        run(*arrays, failed)
        if failed.any():
            raise refusal(failed)

    return run_checked


def refusal_of(p: FactorParams, name: str, failed: Array) -> Exception:
    """Return what is raised where matrices of the operand of this name are none that can be factored."""
    got, allowed = REFUSALS[p.op]
    return bad_argument(name, f"{p.which(failed)}, which is {got}", allowed)


@remembered()
def lower(params: FactorParams, threads: int) -> Factoring:
    """Return what runs on at most so many threads."""
    if suits_kernels(params):
        made = on_kernels(params, threads)
    else:
        from .lapack import ROUTINES

        made = Factoring(params, partial(ROUTINES[params.op], params), 1, None)
    tell("poplin", made)
    return made


def on_kernels(p: FactorParams, threads: int) -> Factoring:
    """Return what kernels do on at most so many threads, one share each."""
    way = way_of(p, threads)
    items = np.zeros(way.threads, _ITEM)
    items["first"], items["count"], items["side"], items["columns"] = way.shares(p)
    for name in ("rows", "width", "upper", "unit"):
        items[name] = getattr(p, name)
    for i, operand in enumerate(p.operands):
        _describe(items["operands"][:, i], operand)
    count = max(o.operand for o in p.operands) + 1
    if p.op in REFUSALS:
        items["operands"][:, len(p.operands)]["matrix"] = 1
        items["operands"][:, len(p.operands)]["operand"] = count
        count += 1
    segment = Segment(way.kernel.address, items, spread(way.threads, way.threads))
    executable = host_program((segment,), operands=count, threads=way.threads, arena_bytes=way.scratch_bytes(p))
    return Factoring(p, executable, way.threads, way.selection)


def _describe(record: Any, operand: FactorLayout) -> None:
    for name in ("matrix", "line", "rows", "columns", "transposed", "operand"):
        record[name] = getattr(operand, name)
    record["format"] = FORMAT_NUMBERS[operand.format.name]
