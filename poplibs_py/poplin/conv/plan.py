"""The plan of a convolution on this CPU: the products that it is made of, and how each runs.

A product is of matrices that are gathered while they are packed (`GemmPlan`), or, with few channels in a group, of
lanes side by side (`FewPlan`), or, in a gradient of weights, of windows (`WindowPlan`); or one at each point of
Winograd's transforms (`Winograd`). Images whose channels lie apart may be rearranged first (`Rearranged`).
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace

from ...errors import MemoryLimitError
from ...formats import Format
from ...kernels import Kernel
from ...memo import remembered
from ...planner.explain import Explained, Explanation
from ...target import Target
from ..gemm.options import GemmOptions
from ..gemm.plan import Epilogue, GemmPlan
from ..gemm.search import plan_gemm
from .few import FewPlan, plan_few
from .model import phases, product
from .overlap import Overlap, plan_overlap
from .params import ConvCall
from .rearranged import Rearranged, rearrange
from .window import WindowPlan, plan_window
from .winograd import Winograd, plan_winograd


@dataclass(frozen=True)
class HostConvPlan(Explained):
    """How a convolution runs on this CPU.

    Attributes
    ----------
    call : ConvCall
        The convolution of arrays.
    options, epilogue, target
        How it is wanted, and on which machine.
    products : tuple of GemmPlan, FewPlan or WindowPlan
        The products that it is made of: one, or one for each phase of a dilated input.
    overlap : Overlap or None
        How the product's results are added, where it is of elements and all taps.
    residual : bool
        Whether an operand of its own is added to the result.
    winograd : Winograd, str or None
        Where Winograd's transforms were asked for: how it runs so, or why it does not.
    prepared : bool
        Whether weights come packed, or transformed.
    layout : str
        Order of the axes of the arrays that it was planned for.
    rearranged : Rearranged or None
        How arrays are rearranged first; products are then those of that.
    """

    call: ConvCall
    options: GemmOptions
    epilogue: Epilogue
    target: Target
    products: tuple[GemmPlan | FewPlan | WindowPlan, ...]
    overlap: Overlap | None = None
    residual: bool = False
    winograd: Winograd | str | None = None
    prepared: bool = False
    layout: str = "NCHW"
    rearranged: Rearranged | None = None

    def __hash__(self) -> int:
        return hash(self.call)

    @property
    def kernel(self) -> Kernel:
        """The kernel that multiplies most."""
        return self._largest.kernel

    @property
    def _largest(self) -> GemmPlan | FewPlan | WindowPlan:
        return max(self.products, key=lambda plan: plan.flops)

    @property
    def dense(self) -> tuple[GemmPlan, ...]:
        """Those of its products that are of matrices."""
        return tuple(plan for plan in self.products if isinstance(plan, GemmPlan))

    @property
    def falls_back(self) -> bool:
        """Whether a product has another way for operands that are not finite."""
        return any(plan.fallback for plan in self.dense)

    @property
    def transformed(self) -> Winograd | None:
        """How it runs by Winograd's transforms, if it does."""
        return self.winograd if isinstance(self.winograd, Winograd) else None

    @property
    def threads(self) -> int:
        """Threads that share the work."""
        if self.transformed:
            return self.transformed.threads
        if self.overlap:
            p = (self.rearranged or self).call.params
            return min(self.target.tiles, p.batch * p.groups * self.overlap.bands)
        return max((plan.threads for plan in self.products), default=1)

    @property
    def scratch_bytes(self) -> int:
        """Bytes that each thread takes."""
        if self.transformed:
            return self.transformed.scratch_bytes
        if self.overlap:
            return self.overlap.scratch_bytes
        return max((plan.scratch_bytes for plan in self.products), default=0)

    @property
    def temporary_bytes(self) -> int:
        """Bytes that a run takes beside its operands."""
        return self.threads * self.scratch_bytes + self.workspace_bytes

    @property
    def workspace_bytes(self) -> int:
        """Those of them that all threads see: kernels transformed, or arrays rearranged."""
        if self.rearranged:
            return self.rearranged.room_bytes
        return self.transformed.workspace_bytes if self.transformed and not self.prepared else 0

    @property
    def limit(self) -> int | None:
        """Temporary bytes that all threads may take, or None."""
        each = self.options.memory.limit(self.target) if self.rearranged else (
            self.transformed or self._largest).memory_limit
        return None if each is None else self.threads * each

    @property
    def compute_format(self) -> Format:
        """What operands are decoded to and multiplied in."""
        return self._largest.compute_format

    @property
    def flops(self) -> int:
        """Multiplications and additions, without those with padding."""
        return self.call.params.flops()

    @property
    def fits(self) -> bool:
        """Whether a run keeps to the limit."""
        return all(plan.fits for plan in self.products)

    @property
    def _method(self) -> str:
        """How it is computed, in words."""
        way = self.transformed or self.overlap or self._largest
        if not isinstance(way, GemmPlan):
            return way.method
        if way.by_taps:
            reads = "decoded once for all" if way.window_bytes else "read where they lie"
            return f"a product of matrices for each kernel element, images {reads}"
        sides = ("images", way.product.a), ("weights", way.product.b)
        gathered = " and ".join(name for name, x in sides if x.field)
        return "a product of matrices" + (f", {gathered} gathered while they are packed" if gathered else "")

    @property
    def problem(self) -> str:
        """What is computed, in words."""
        p, call = self.call.params, self.call

        def sizes(extents: tuple[int, ...]) -> str:
            return "x".join(map(str, extents)) or "1"

        groups = f"{p.groups} groups of " if p.groups > 1 else ""
        return (f"convolution of {p.batch} x {sizes(p.field_shape)} by {sizes(p.kernel_shape)}, "
                f"{groups}{p.in_channels} to {p.out_channels} channels: "
                f"{call.x.format} x {call.weights.format} -> {call.out.format}")

    def explain(self) -> Explanation:
        """Return what was decided, and the kernels that were considered."""
        inner = self._largest.explain()
        decisions = {"method": self._method}
        if self.rearranged:
            decisions["channels"] = self.rearranged.words
        if isinstance(self.winograd, str):
            decisions["winograd"] = f"not taken: {self.winograd}"
        if self.transformed:
            decisions["winograd"] = self.transformed.words
            decisions |= {"kernel": inner.decisions["kernel"]} | self._blocks(self.transformed)
            return Explanation(self.problem, decisions, inner.considered)
        count = len(self.products)
        decisions["products"] = f"{count}" + ", a phase of the dilated input each" * (count > 1)
        if self.overlap:
            decisions["products"] = f"of {self.overlap.chunk} elements at once"
        decisions |= inner.decisions
        return Explanation(self.problem, decisions, inner.considered)

    def _blocks(self, w: Winograd) -> dict[str, str]:
        """What a reader wants to know of blocks and memory where transforms are taken."""
        limit = "none" if w.memory_limit is None else f"{w.memory_limit:,}"
        at_once = "all" if w.columns >= self.call.params.out_channels else str(w.columns)
        kernels = f"kernels of {at_once} output channels transformed at once"
        if self.prepared:
            kernels = "kernels come transformed"
        return {"blocks": f"{w.chunk} tiles, {w.width} columns; {kernels}",
                "threads": str(w.threads),
                "scratch": f"{w.scratch_bytes:,} bytes a thread (limit {limit}), {self.workspace_bytes:,} of all"}


@remembered()
def plan_call(call: ConvCall, options: GemmOptions, epilogue: Epilogue, target: Target,
              residual: bool = False, winograd: bool = False, prepared: bool = False) -> HostConvPlan:
    """Plan a convolution of arrays on this CPU.

    A residual is what beta multiplies in place of the old result. Weights may come `prepared` for transforms and for
    products of matrices.
    """
    transforms = plan_winograd(call, options, target, prepared) if winograd else None
    if isinstance(transforms, Winograd):
        return HostConvPlan(call, options, epilogue, target, (transforms.product,), None, residual, transforms,
                            prepared=prepared)
    way = rearrange(call, options, epilogue, target, residual)
    if way:
        with suppress(MemoryLimitError):
            made = plan_call(way.call, way.options, epilogue, target, residual, prepared=prepared)
            return replace(made, call=call, options=options, winograd=transforms, rearranged=way)
    overlap = None if residual else plan_overlap(call, options, epilogue, target)
    if overlap:
        return HostConvPlan(call, options, epilogue, target, (overlap.product,), overlap, winograd=transforms)
    plans: list[GemmPlan | FewPlan | WindowPlan] = []
    lanes = options.partials_type == "float" and not residual
    unlimited = replace(options, available_memory_proportion=None)
    for parts in phases(call):
        params = product(call, parts)
        if params.m and params.n and params.entries:
            how = call, parts, options, epilogue, target
            own = (plan_window(*how) or plan_few(*how)) if lanes else None
            plans.append(own or plan_gemm(params, options, epilogue, target, op="convolution"))
    if not plans:  # an empty result
        plans.append(plan_gemm(product(call, next(phases(call))), unlimited, epilogue, target))
        prepared = False
    dense = [plan.product for plan in plans if isinstance(plan, GemmPlan)]
    prepared = prepared and len(dense) == len(plans)
    if prepared:
        packed = [plan_gemm(params, unlimited, Epilogue(), target, packing=True) for params in dense]
        plans = [plan_gemm(params, options, epilogue, target, panels, op="convolution")
                 for params, panels in zip(dense, packed, strict=True)]
    return HostConvPlan(call, options, epilogue, target, tuple(plans), None, residual, transforms, prepared=prepared)
