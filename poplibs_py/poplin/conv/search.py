"""Which way a convolution on this CPU runs: one table has the ways, in the order in which they are tried."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from ...errors import MemoryLimitError
from ...formats import Format
from ...memo import remembered
from ...target import Target
from ..gemm.model import matrix_unit
from ..gemm.options import GemmOptions
from ..gemm.params import GemmParams
from ..gemm.plan import Epilogue
from ..gemm.search import on_units, plan_gemm
from .columns import phases_as_columns
from .few_search import dots_format, plan_few
from .model import Part, phases, product
from .overlap import plan_overlap
from .params import ConvCall
from .plan import HostConvPlan
from .rearranged import rearrange
from .ways import Phase, Phases, Way
from .window import plan_window
from .winograd import plan_winograd


@dataclass(frozen=True)
class Wanted:
    """A convolution of arrays that is to be planned, as `plan_call` takes it."""

    call: ConvCall
    options: GemmOptions
    epilogue: Epilogue
    target: Target
    residual: bool
    prepared: bool

    @property
    def bars_lanes(self) -> str:
        """Why lanes of channels, which do what follows the sums by themselves, cannot serve, in words; or nothing."""
        if self.options.partials_type != "float":
            return "partials are half"
        return "a residual is added" if self.residual else ""

    def runs(self, way: Way, prepared: bool = False) -> HostConvPlan:
        """Return the plan in which it runs in a way."""
        return HostConvPlan(self.call, self.options, self.epilogue, self.target, way, self.residual, prepared=prepared)


@remembered(keeps=lambda plan: plan.fits)
def plan_call(call: ConvCall, options: GemmOptions, epilogue: Epilogue, target: Target,
              residual: bool = False, winograd: bool = False, prepared: bool = False) -> HostConvPlan:
    """Plan a convolution of arrays on this CPU.

    A residual is what beta multiplies in place of the old result. Weights may come `prepared` for transforms and for
    products of matrices.
    """
    return _first_of(_WAYS if winograd else _WAYS[1:], Wanted(call, options, epilogue, target, residual, prepared))


def _first_of(ways: _Ways, wanted: Wanted) -> HostConvPlan:
    """Return the plan in the first of some ways that serves; the last of them serves every convolution."""
    tried: list[tuple[str, str]] = []
    for name, way in ways:
        found = way(wanted)
        if isinstance(found, HostConvPlan):
            return replace(found, tried=(*tried, (name, ""), *found.tried))
        tried.append((name, found))
    raise AssertionError("phases serve every convolution")


def _transformed(wanted: Wanted) -> HostConvPlan | str:
    way = plan_winograd(wanted.call, wanted.options, wanted.target, wanted.prepared)
    return way if isinstance(way, str) else wanted.runs(way, wanted.prepared)


def _rearranged(wanted: Wanted) -> HostConvPlan | str:
    moves = rearrange(wanted.call, wanted.options, wanted.epilogue, wanted.target, wanted.residual)
    if isinstance(moves, str):
        return moves
    inner = replace(wanted, call=moves.call, options=moves.options)
    dots = dots_format(inner.call, inner.options) if moves.to_few else None
    if isinstance(dots, str):
        return dots
    try:
        found = _first_of(_AS_THEY_LIE, inner)
    except MemoryLimitError:
        return "no plan of it keeps to the limit"
    return replace(found, call=wanted.call, options=wanted.options, rearranged=moves)


def _of_dots(wanted: Wanted) -> HostConvPlan | str:
    dots = wanted.bars_lanes or dots_format(wanted.call, wanted.options)
    if isinstance(dots, str):
        return dots
    found = [_on_lanes(wanted, parts, dots) for parts, _ in _worked(wanted.call)]
    taken = tuple(phase for phase in found if phase)
    if len(taken) < len(found):
        return "its boxes keep to no limit"
    return wanted.runs(Phases(taken)) if found else "there is nothing to multiply"


def _as_columns(wanted: Wanted) -> HostConvPlan | str:
    call, options = wanted.call, wanted.options
    unit = matrix_unit()
    if unit is None or not on_units(call.x.format, call.weights.format, options):
        return "no matrix unit multiplies these"
    if wanted.residual or wanted.prepared:
        return "a residual is added" if wanted.residual else "weights come prepared"
    params = phases_as_columns(call, unit.block[1])
    if isinstance(params, str):
        return params
    limit, unlimited = options.memory.limit(wanted.target), replace(options, available_memory_proportion=None)
    plan = plan_gemm(params, unlimited, wanted.epilogue, wanted.target, op="convolution")
    if not plan.even:
        return "what rows meet is in no window"
    if limit is not None and plan.scratch_bytes > limit:
        return "its window keeps to no limit"
    return wanted.runs(Phases((plan_gemm(params, options, wanted.epilogue, wanted.target, op="convolution"),)))


def _overlapped(wanted: Wanted) -> HostConvPlan | str:
    if wanted.residual:
        return "a residual is added"
    way = plan_overlap(wanted.call, wanted.options, wanted.epilogue, wanted.target)
    return way if isinstance(way, str) else wanted.runs(way)


def _worked(call: ConvCall) -> list[tuple[tuple[Part, ...], GemmParams]]:
    """Return the phases that have something to multiply, each with the product of matrices that it is."""
    found = ((parts, product(call, parts)) for parts in phases(call))
    return [(parts, params) for parts, params in found if params.m and params.n and params.entries]


def _on_lanes(wanted: Wanted, parts: tuple[Part, ...], dots: Format | None = None) -> Phase | None:
    """Plan a phase of windows or of few channels; None where it is a product of matrices."""
    if wanted.bars_lanes:
        return None
    window = plan_window(wanted.call, parts, wanted.options, wanted.epilogue, wanted.target)
    return window or plan_few(wanted.call, parts, wanted.options, wanted.epilogue, wanted.target, dots)


def _in_phases(wanted: Wanted) -> HostConvPlan:
    """Plan each phase, with its weights packed if that was asked for and can be."""
    call, options, epilogue, target = wanted.call, wanted.options, wanted.epilogue, wanted.target
    unlimited = replace(options, available_memory_proportion=None)
    found = [_on_lanes(wanted, parts) or plan_gemm(params, options, epilogue, target, op="convolution")
             for parts, params in _worked(call)]
    if not found:  # an empty result
        return wanted.runs(Phases((plan_gemm(product(call, next(phases(call))), unlimited, epilogue, target),)))
    plan = wanted.runs(Phases(tuple(found)))
    if not wanted.prepared or len(plan.dense) < len(found):
        return plan
    dense = [phase.product for phase in plan.dense]
    packed = [plan_gemm(params, unlimited, Epilogue(), target, packing=True) for params in dense]
    return wanted.runs(Phases(tuple(plan_gemm(params, options, epilogue, target, panels, op="convolution")
                                    for params, panels in zip(dense, packed, strict=True))), prepared=True)


_Ways = tuple[tuple[str, Callable[[Wanted], HostConvPlan | str]], ...]
_AS_THEY_LIE: _Ways = (("phases as columns", _as_columns), ("dots", _of_dots), ("all taps first", _overlapped),
                      ("phases", _in_phases))
_WAYS: _Ways = ("winograd", _transformed), ("rearranged", _rearranged), *_AS_THEY_LIE
"""In the order in which they are tried: each returns the plan where it serves, else why it does not, in words."""
