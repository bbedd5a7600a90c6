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
from ...kernels.registry import Selection, select
from ...log import tell
from ...memo import remembered
from ...planner import Explanation
from ...planner.explain import Considered, Explained, considered_kernels
from ...program import Executable, Segment, Sequence, host_program, rounded, spread
from .model import LANES, by_rows, grain, suits_kernels, threads_of
from .params import FactorLayout, FactorParams

_ITEM = dtype_of("pop_factor_item")
_BLOCK, _PANEL = 4, 16  # rows that registers hold (LU: steps), and right-hand sides of a panel: kernels/factor/solve.h
_SIDES = 64  # right-hand sides of a panel: kernels/factor/solve_rows.h

REFUSALS = {"cholesky": ("not positive definite, or not finite", "symmetric positive definite matrices"),
            "solve": ("singular: there is a zero on its diagonal", "triangles without a zero on the diagonal")}
"""What a marked status means, and what is allowed."""


@dataclass(frozen=True, eq=False)
class Factoring(Explained):
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
        alone = self.selection is None or by_rows(self.params)
        beside = ", or right-hand sides that fill vectors" * (self.params.op == "solve")
        ways = "one matrix after another" if alone else f"up to {LANES} matrices side by side{beside}"
        return Explanation(str(self.params), {"kernel": self.kernel, "way": ways, "threads": str(self.threads)},
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
        threads = threads_of(params, threads)
        made = on_kernels(params, threads)
    else:
        from .lapack import ROUTINES

        made = Factoring(params, partial(ROUTINES[params.op], params), 1, None)
    tell("poplin", made)
    return made


def on_kernels(p: FactorParams, threads: int) -> Factoring:
    """Return what kernels do: shares of whole groups of matrices, one for each thread."""
    least = grain(p)
    edges = np.minimum(np.arange(threads + 1) * -(-p.batch // (least * threads)) * least, p.batch)
    items = np.zeros(threads, _ITEM)
    items["first"], items["count"] = edges[:-1], np.diff(edges)
    for name in ("rows", "columns", "width", "upper", "unit"):
        items[name] = getattr(p, name)
    for i, operand in enumerate(p.operands):
        _describe(items["operands"][:, i], operand)
    count = max(o.operand for o in p.operands) + 1
    if p.op in REFUSALS:
        items["operands"][:, len(p.operands)]["matrix"] = 1
        items["operands"][:, len(p.operands)]["operand"] = count
        count += 1
    reads = 2 if p.op == "solve" else 1
    formats = ",".join(o.format.name for o in p.operands[:reads]) + "->" + p.operands[reads].format.name
    selection = select("factor", p.op, formats)
    segment = Segment(selection.kernel.address, items, spread(threads, threads))
    executable = host_program((segment,), operands=count, threads=threads, arena_bytes=scratch_bytes(p))
    return Factoring(p, executable, threads, selection)


def _describe(record: Any, operand: FactorLayout) -> None:
    for name in ("matrix", "line", "rows", "columns", "transposed", "operand"):
        record[name] = getattr(operand, name)
    record["format"] = FORMAT_NUMBERS[operand.format.name]


def scratch_bytes(p: FactorParams) -> int:
    """Return the bytes of the workspace of a group of matrices, as the kernels lay it out."""
    if by_rows(p):
        return 4 * (rounded(p.rows, LANES) * (_SIDES + p.rows + 2) + LANES)
    padded = rounded(p.rows, _BLOCK)
    square = padded * (padded + 1)
    area = p.rows * p.columns
    vectors, places = {
        "cholesky": (square + padded, 2 * p.rows**2),
        "solve": (square + padded * (_PANEL + 3), padded + p.rows**2 + 4 * p.rows * _PANEL),
        "lu": (p.rows * ((rounded(p.columns, _BLOCK) | 1) + 2 + _BLOCK), area + p.rows),
        "qr": (p.rows * ((p.columns | 1) + (p.width | 1)) + 2 * p.columns + p.rows,
               2 * area + p.rows * (p.width + p.rows)),
    }[p.op]
    return 4 * ((vectors + 1) * LANES + places + 5 * LANES)
