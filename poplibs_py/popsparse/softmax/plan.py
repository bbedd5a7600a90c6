"""How a softmax runs: decided once from its parameters."""

from __future__ import annotations

from dataclasses import dataclass

from ...memo import remembered
from ...planner import Explanation, Memory
from ...program import whole_lines
from ...target import Target
from ..plans import KernelPlan
from .model import lanes_of, selected, threads_of
from .params import SoftmaxParams, checked_params


@dataclass(frozen=True)
class SoftmaxPlan(KernelPlan):
    """How a softmax over stored blocks, or the gradient of one, runs.

    Attributes
    ----------
    params, memory, target, threads, selection
        As `KernelPlan` has them; there is no limit on memory.
    lanes : int
        Sums of a row that are made side by side.
    scratch_bytes : int
        Temporary bytes of a thread: sums, and blocks of a row that the result cannot hold.
    """

    params: SoftmaxParams
    lanes: int
    scratch_bytes: int

    __hash__ = KernelPlan.__hash__

    @property
    def compute_format(self) -> str:
        """Nothing: there is no product."""
        return ""

    @property
    def temporary_bytes(self) -> int:
        """Bytes that a run takes beside its operands."""
        return int(self.threads) * self.scratch_bytes

    def again(self) -> SoftmaxPlan:
        """Plan the plan's own problem, or raise where it is none."""
        return plan_softmax(checked_params(self.params), self.target)

    def explain(self) -> Explanation:
        """Return what was decided, and the kernels that were considered."""
        p, (high, wide) = self.params, self.params.block_shape
        formats = " to ".join(dict.fromkeys(fmt.name for fmt, _ in p.formats))
        groups = f"{len(p.masks)} x " * (len(p.masks) > 1)
        name = "bs_softmax" if p.op == "softmax" else "bs_softmax_grad"
        problem = f"{name} {groups}[{p.shape[0]}, {p.shape[1]}]: up to {p.blocks} blocks of {high} x {wide}, {formats}"
        return self._explained(problem, "", {
            "masks": ", ".join(dict.fromkeys(p.masks)),
            "rows": f"up to {p.row_blocks} blocks kept in float32" if p.row_blocks else "kept in the result",
            "sums": f"{self.lanes} side by side"}, self.scratch_bytes, 0)


@remembered()
def plan_softmax(params: SoftmaxParams, target: Target) -> SoftmaxPlan:
    """Return the plan: there is one way, and what it takes does not depend on how many blocks there are in all."""
    area = params.block_shape[0] * params.block_shape[1]
    lanes = lanes_of(area)
    scratch = 2 * whole_lines(4 * lanes) + whole_lines(4 * params.row_blocks * area)
    return SoftmaxPlan(params, Memory(), target, threads_of(params, target), selected(params), lanes, scratch)
