"""The plan of a convolution on this CPU: the products that it is made of, and how each runs."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from ...kernels import Kernel
from ...planner.explain import Explanation
from ...target import Target
from ..gemm.options import GemmOptions
from ..gemm.plan import Epilogue, GemmPlan
from ..gemm.search import plan_gemm
from .model import products
from .overlap import Overlap, plan_overlap
from .params import ConvCall

__all__ = ["HostConvPlan", "plan_call"]


@dataclass(frozen=True)
class HostConvPlan:
    """How a convolution runs on this CPU.

    Attributes
    ----------
    call : ConvCall
        The convolution of arrays.
    options, epilogue, target
        How it is wanted, and on which machine.
    products : tuple of GemmPlan
        The products that it is made of: one, or one for each phase of a dilated input.
    overlap : Overlap or None
        How the product's results are added, where it is of elements and all taps.
    residual : bool
        Whether an operand of its own is added to the result.
    layout : str
        Order of the axes of the arrays that it was planned for.
    """

    call: ConvCall
    options: GemmOptions
    epilogue: Epilogue
    target: Target
    products: tuple[GemmPlan, ...]
    overlap: Overlap | None = None
    residual: bool = False
    layout: str = "NCHW"

    def __hash__(self) -> int:
        return hash(self.call)

    @property
    def kernel(self) -> Kernel:
        """The kernel that multiplies most."""
        return max(self.products, key=lambda plan: plan.params.flops).kernel

    @property
    def threads(self) -> int:
        """Threads that share the work."""
        if self.overlap:
            return min(self.target.tiles, self.call.params.batch * self.call.params.groups * self.overlap.bands)
        return max((plan.threads for plan in self.products), default=1)

    @property
    def scratch_bytes(self) -> int:
        """Bytes that each thread takes."""
        if self.overlap:
            return self.overlap.scratch_bytes
        return max((plan.scratch_bytes for plan in self.products), default=0)

    @property
    def temporary_bytes(self) -> int:
        """Bytes that a run takes beside its operands."""
        return self.threads * self.scratch_bytes

    @property
    def fits(self) -> bool:
        """Whether a run keeps to the limit."""
        return all(plan.fits for plan in self.products)

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
        largest = max(self.products, key=lambda plan: plan.params.flops)
        inner = largest.explain()
        sides = ("images", largest.product.a), ("weights", largest.product.b)
        gathered = " and ".join(name for name, x in sides if x.field)
        packed = f", {gathered} gathered while they are packed" if gathered else ""
        phases = ", a phase of the dilated input each" * (len(self.products) > 1)
        decisions = {"method": "a product of matrices" + packed, "products": f"{len(self.products)}{phases}"}
        if self.overlap:
            decisions = {"method": "products of elements with all taps, added where results overlap",
                         "products": f"of {self.overlap.chunk} elements at once"}
        decisions |= inner.decisions
        return Explanation(self.problem, decisions, inner.considered)

    def __str__(self) -> str:
        return self.explain().words()


@lru_cache(maxsize=1024)
def plan_call(call: ConvCall, options: GemmOptions, epilogue: Epilogue, target: Target,
              residual: bool = False) -> HostConvPlan:
    """Plan a convolution of arrays on this CPU; a residual is what beta multiplies in place of the old result."""
    overlap = None if residual else plan_overlap(call, options, epilogue, target)
    if overlap:
        return HostConvPlan(call, options, epilogue, target, (overlap.product,), overlap)
    plans = tuple(plan_gemm(params, options, epilogue, target) for params in products(call))
    return HostConvPlan(call, options, epilogue, target, plans, residual=residual)
