"""What the plans of this package have in common, and how one that a caller hands back is checked."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Any, TypeVar

from ..checks import instance
from ..errors import bad_argument, bad_type
from ..kernels.registry import Kernel, Selection
from ..ops import check_fields, unchanged
from ..planner import Explanation, Memory, Temporaries
from ..planner.explain import Explained, NoFlops, considered_kernels
from ..planner.ladder import HostLimited
from ..target import Target

Plan = TypeVar("Plan", bound="KernelPlan")


@dataclass(frozen=True)
class KernelPlan(HostLimited, NoFlops, Explained, ABC):
    """How an op runs by one kernel on this CPU's threads.

    Attributes
    ----------
    params : dataclass
        What was planned.
    memory : Memory
        The limit on temporary bytes.
    target : Target
        This CPU.
    threads : int
    selection : Selection
        The kernel, with the reasons against the others.
    op : str
        The op that it was planned for by name; empty in a call's own plan.
    raised : int or None
        To how many bytes of a thread the limit was raised, as `temporaries` has it of all threads.
    """

    params: Any
    memory: Memory
    target: Target
    threads: int
    selection: Selection
    op: str = field(default="", compare=False, kw_only=True)
    raised: int | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        check_fields(self)

    def __hash__(self) -> int:  # plans of one problem are few, and every first call of a kind looks for its program
        return hash(self.params)

    @property
    def kernel(self) -> Kernel:
        """The kernel."""
        return self.selection.kernel

    @property
    @abstractmethod
    def temporary_bytes(self) -> int:
        """Bytes that a run takes beside its operands."""

    @property
    def temporaries(self) -> Temporaries:
        """The same, and how many it may take."""
        return Temporaries.of_threads(self.temporary_bytes, self.memory.limit(self.target), self.raised, self.threads)

    @abstractmethod
    def again(self) -> KernelPlan:
        """Plan the plan's own problem, which a caller handed back, or raise where it is none."""

    @abstractmethod
    def explain(self) -> Explanation:
        """Return what was decided, and the kernels that were considered."""

    def _explained(self, problem: str, kernel: str, ways: dict[str, str], scratch: int, workspace: int) -> Explanation:
        """Return an explanation: `kernel` is what there is to add of that, `ways` what is this op's alone."""
        return Explanation(problem, {
            "kernel": self.kernel.label + kernel,
            **ways,
            "threads": f"{self.threads}, shares of equal stored blocks",
            "scratch": f"{scratch:,} bytes a thread, {workspace:,} of all",
            "memory": str(self.temporaries),
        }, considered_kernels(self.selection))


def checked_plan(plan: Any, kind: type[Plan], op: str) -> Plan:
    """Return a plan if it is one that the planner makes here of an op, or raise."""
    if not isinstance(plan, kind):
        raise bad_type("plan", type(plan).__name__, f"a plan from plan_{op}")
    if plan.op != op:
        raise bad_argument("plan", f"a plan of {plan.op or 'no op'}", f"one from plan_{op}")
    instance("plan.memory", plan.memory, Memory, "of type Memory")
    instance("plan.target", plan.target, Target, "of type Target")
    if plan.target.kind != "host":
        raise bad_argument("plan.target", plan.target.name, "this CPU")
    return unchanged(plan, plan.again)  # type: ignore[arg-type]
