"""The plan of a convolution on this CPU: the way in which it runs, and what all ways have in common.

Each phase is a product of matrices that are gathered while they are packed (`GemmPlan`), or, with few channels in a
group, of lanes side by side (`FewPlan`), or, in a gradient of weights, of windows (`WindowPlan`). Or all taps are
multiplied first (`Overlap`), or there is a product at each point of Winograd's transforms (`Winograd`). Images whose
channels lie apart may be rearranged first (`Rearranged`). One table has the ways, in the order in which they are
tried.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

from ...errors import MemoryLimitError
from ...formats import Format
from ...kernels import Kernel
from ...memo import remembered
from ...planner.explain import Explained, Explanation
from ...target import Target
from ..gemm.options import GemmOptions
from ..gemm.params import GemmParams
from ..gemm.plan import Epilogue, GemmPlan
from ..gemm.search import plan_gemm
from .few_search import dots_format, plan_few
from .model import Part, phases, product
from .overlap import plan_overlap
from .params import ConvCall
from .rearranged import Rearranged, rearrange
from .ways import Phase, Phases, Way, largest
from .window import plan_window
from .winograd import plan_winograd


@dataclass(frozen=True)
class HostConvPlan(Explained):
    """How a convolution runs on this CPU.

    Attributes
    ----------
    call : ConvCall
        The convolution of arrays.
    options, epilogue, target
        How it is wanted, and on which machine.
    way : Phases, Overlap or Winograd
        How it runs; of what is rearranged, where something is.
    residual : bool
        Whether an operand of its own is added to the result.
    tried : tuple of (str, str)
        The ways that were tried, in order, and why each is not taken, or nothing where it is.
    prepared : bool
        Whether weights come packed, or transformed.
    layout : str
        Order of the axes of the arrays that it was planned for.
    rearranged : Rearranged or None
        How arrays are rearranged first.
    """

    call: ConvCall
    options: GemmOptions
    epilogue: Epilogue
    target: Target
    way: Way
    residual: bool = False
    tried: tuple[tuple[str, str], ...] = ()
    prepared: bool = False
    layout: str = "NCHW"
    rearranged: Rearranged | None = None

    def __hash__(self) -> int:
        return hash(self.call)

    @property
    def winograd(self) -> str | None:
        """Where Winograd's transforms were asked for: why they are not taken, or empty where they are."""
        return dict(self.tried).get("winograd")

    @property
    def products(self) -> tuple[Phase, ...]:
        """What multiplies."""
        return self.way.products

    @property
    def kernel(self) -> Kernel:
        """The kernel that multiplies most."""
        return largest(self.way).kernel

    @property
    def dense(self) -> tuple[GemmPlan, ...]:
        """Those of its products that are of matrices."""
        return tuple(plan for phase in self.products for plan in phase.dense)

    @property
    def falls_back(self) -> bool:
        """Whether a product has another way for operands that are not finite."""
        return any(plan.fallback for plan in self.dense)

    @property
    def threads(self) -> int:
        """Threads that share the work."""
        return self.way.threads

    @property
    def scratch_bytes(self) -> int:
        """Bytes that each thread takes."""
        return self.way.scratch_bytes

    @property
    def temporary_bytes(self) -> int:
        """Bytes that a run takes beside its operands."""
        return self.threads * self.scratch_bytes + self.workspace_bytes

    @property
    def workspace_bytes(self) -> int:
        """Those of them that all threads see: kernels transformed, or arrays rearranged."""
        if self.rearranged:
            return self.rearranged.room_bytes
        return 0 if self.prepared else self.way.workspace_bytes

    @property
    def limit(self) -> int | None:
        """Temporary bytes that all threads may take, or None."""
        each = self.options.memory.limit(self.target) if self.rearranged else self.way.memory_limit
        return None if each is None else self.threads * each

    @property
    def raised(self) -> int | None:
        """To what the limit was raised, where a run does not keep to it; None where it was dropped."""
        return max((phase.raised for phase in self.products if phase.raised), default=None)

    @property
    def compute_format(self) -> Format:
        """What operands are decoded to and multiplied in."""
        return largest(self.way).compute_format

    @property
    def flops(self) -> int:
        """Multiplications and additions, without those with padding."""
        return self.call.params.flops()

    @property
    def fits(self) -> bool:
        """Whether a run keeps to the limit."""
        return all(phase.fits for phase in self.products)

    @property
    def problem(self) -> str:
        """What is computed, in words."""
        return f"{'gradient of weights' if self.call.updates else 'convolution'} of {self.call.words}"

    def explain(self) -> Explanation:
        """Return what was decided, and the kernels that were considered."""
        inner = largest(self.way).explain()
        decisions = {"method": self.way.method}
        if self.rearranged:
            decisions["channels"] = self.rearranged.words
        decisions |= {way: f"not taken: {why}" for way, why in self.tried if why}
        decisions |= self.way.decisions(self.call, self.prepared, inner.decisions)
        return Explanation(self.problem, decisions, inner.considered)


class Wanted(NamedTuple):
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
    way, why = plan_winograd(wanted.call, wanted.options, wanted.target, wanted.prepared)
    return wanted.runs(way, wanted.prepared) if way else why


def _rearranged(wanted: Wanted) -> HostConvPlan | str:
    moves = rearrange(*wanted[:5])
    if isinstance(moves, str):
        return moves
    inner = wanted._replace(call=moves.call, options=moves.options)
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


def _overlapped(wanted: Wanted) -> HostConvPlan | str:
    way = "a residual is added" if wanted.residual else plan_overlap(*wanted[:4])
    return way if isinstance(way, str) else wanted.runs(way)


def _worked(call: ConvCall) -> list[tuple[tuple[Part, ...], GemmParams]]:
    """Return the phases that have something to multiply, each with the product of matrices that it is."""
    found = ((parts, product(call, parts)) for parts in phases(call))
    return [(parts, params) for parts, params in found if params.m and params.n and params.entries]


def _on_lanes(wanted: Wanted, parts: tuple[Part, ...], dots: Format | None = None) -> Phase | None:
    """Plan a phase of windows or of few channels; None where it is a product of matrices."""
    if wanted.bars_lanes:
        return None
    how = wanted.call, parts, wanted.options, wanted.epilogue, wanted.target
    return plan_window(*how) or plan_few(*how, dots)


def _in_phases(wanted: Wanted) -> HostConvPlan:
    """Plan each phase, with its weights packed if that was asked for and can be."""
    call, options, epilogue, target, _, prepared = wanted
    unlimited = replace(options, available_memory_proportion=None)
    found = [_on_lanes(wanted, parts) or plan_gemm(params, options, epilogue, target, op="convolution")
             for parts, params in _worked(call)]
    if not found:  # an empty result
        return wanted.runs(Phases((plan_gemm(product(call, next(phases(call))), unlimited, epilogue, target),)))
    if not prepared or not all(phase.dense for phase in found):
        return wanted.runs(Phases(tuple(found)))
    dense = [plan.product for phase in found for plan in phase.dense]
    packed = [plan_gemm(params, unlimited, Epilogue(), target, packing=True) for params in dense]
    return wanted.runs(Phases(tuple(plan_gemm(params, options, epilogue, target, panels, op="convolution")
                                    for params, panels in zip(dense, packed, strict=True))), prepared=True)


_Ways = tuple[tuple[str, Callable[[Wanted], HostConvPlan | str]], ...]
_AS_THEY_LIE: _Ways = ("dots", _of_dots), ("all taps first", _overlapped), ("phases", _in_phases)
_WAYS: _Ways = ("winograd", _transformed), ("rearranged", _rearranged), *_AS_THEY_LIE
"""In the order in which they are tried: each returns the plan where it serves, else why it does not, in words."""
