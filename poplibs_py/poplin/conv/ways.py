"""The ways in which a convolution runs on this CPU, seen from its plan: one face for all of them.

A way is `Phases`, which are products or sums of one phase each, or one of `Overlap` and `Winograd`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import singledispatch
from typing import Any, Protocol

from ...formats import Format
from ...kernels import Kernel
from ...planner.explain import Explanation
from ..gemm.plan import GemmPlan
from .params import ConvCall


class Phase(Protocol):
    """What one phase of a convolution is: `GemmPlan`, `FewPlan` or `WindowPlan`."""

    @property
    def kernel(self) -> Kernel:
        """The kernel that multiplies."""

    @property
    def compute_format(self) -> Format:
        """What operands are decoded to and multiplied in."""

    @property
    def flops(self) -> int:
        """Multiplications and additions."""

    @property
    def threads(self) -> int:
        """Threads that share the work."""

    @property
    def scratch_bytes(self) -> int:
        """Bytes that each thread takes."""

    @property
    def memory_limit(self) -> int | None:
        """Bytes that each thread may take, or None."""

    @property
    def raised(self) -> int | None:
        """What that limit was raised to, as `Temporaries` has it."""

    @property
    def fits(self) -> bool:
        """Whether a run keeps to the limit."""

    def explain(self) -> Explanation:
        """Return what was decided, and the kernels that were considered."""


class Way(Protocol):
    """How all of a convolution runs."""

    @property
    def products(self) -> tuple[Phase, ...]:
        """What multiplies."""

    @property
    def method(self) -> str:
        """What it is, in words."""

    @property
    def threads(self) -> int:
        """Threads that share the work."""

    @property
    def scratch_bytes(self) -> int:
        """Bytes that each thread takes."""

    @property
    def workspace_bytes(self) -> int:
        """Bytes that all threads see, where weights come as they are."""

    @property
    def memory_limit(self) -> int | None:
        """Temporary bytes for each thread, or None."""

    def decisions(self, call: ConvCall, prepared: bool, inner: Mapping[str, str]) -> dict[str, str]:
        """Return what was decided, given what was for the product that multiplies most."""


@dataclass(frozen=True)
class Phases:
    """Each phase of the dilated input on its own; one where there is no dilation.

    Attributes
    ----------
    products : tuple of Phase
    """

    products: tuple[Phase, ...]

    @property
    def method(self) -> str:
        """What the largest is, in words."""
        return method_of(largest(self))

    @property
    def threads(self) -> int:
        """Threads that share the work."""
        return max(phase.threads for phase in self.products)

    @property
    def scratch_bytes(self) -> int:
        """Bytes that each thread takes."""
        return max(phase.scratch_bytes for phase in self.products)

    @property
    def workspace_bytes(self) -> int:
        """None: threads share nothing but operands."""
        return 0

    @property
    def memory_limit(self) -> int | None:
        """Temporary bytes for each thread, or None."""
        return largest(self).memory_limit

    def decisions(self, _: ConvCall, __: bool, inner: Mapping[str, str]) -> dict[str, str]:
        """Return what was decided."""
        count = len(self.products)
        return {"products": f"{count}" + ", a phase of the dilated input each" * (count > 1), **inner}


def largest(way: Way) -> Phase:
    """Return what multiplies most."""
    return max(way.products, key=lambda phase: phase.flops)


@singledispatch
def method_of(phase: Any) -> str:
    """Return what a phase is, in words."""
    return str(phase.method)


@method_of.register
def _(plan: GemmPlan) -> str:
    if plan.by_taps:
        reads = "decoded once for all" if plan.window_bytes else "read where they lie"
        reads += ", zeros around them" * plan.even
        return f"a product of matrices for each kernel element, images {reads}"
    sides = ("images", plan.product.a), ("weights", plan.product.b)
    gathered = " and ".join(name for name, x in sides if x.field)
    return "a product of matrices" + (f", {gathered} gathered while they are packed" if gathered else "")


@singledispatch
def dense_of(phase: Any) -> tuple[GemmPlan, ...]:
    """Return the product of matrices that a phase is, if it is one."""
    return ()


@dense_of.register
def _(plan: GemmPlan) -> tuple[GemmPlan, ...]:
    return (plan,)
