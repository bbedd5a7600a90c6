"""The plan of a convolution on this CPU: the way in which it runs, and what all ways have in common.

Each phase is a product of matrices that are gathered while they are packed (`GemmPlan`), or, with few channels in a
group, of lanes side by side (`FewPlan`), or, in a gradient of weights, of windows (`WindowPlan`). Or all taps are
multiplied first (`Overlap`), or there is a product at each point of Winograd's transforms (`Winograd`). Images whose
channels lie apart may be rearranged first (`Rearranged`).
"""

from __future__ import annotations

from dataclasses import dataclass

from ...formats import Format
from ...kernels import Kernel
from ...planner.explain import Explained, Explanation
from ...planner.ladder import HostLimited, Temporaries
from ...target import Target
from ..gemm.options import GemmOptions
from ..gemm.plan import Epilogue, GemmPlan
from .params import ConvCall
from .rearranged import Rearranged
from .ways import Phase, Way, dense_of, largest


@dataclass(frozen=True)
class HostConvPlan(HostLimited, Explained):
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
        return tuple(plan for phase in self.products for plan in dense_of(phase))

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
    def temporaries(self) -> Temporaries:
        """The same, and how many it may take: of phases that do not keep to the limit the least strict one counts."""
        each = self.options.memory.limit(self.target) if self.rearranged else self.way.memory_limit
        raised = [phase.raised for phase in self.products if not phase.fits]
        most = max((limit for limit in raised if limit is not None), default=None)
        return Temporaries.of_threads(self.temporary_bytes, each, None if None in raised else most, self.threads)

    @property
    def compute_format(self) -> Format:
        """What operands are decoded to and multiplied in."""
        return largest(self.way).compute_format

    @property
    def flops(self) -> int:
        """Multiplications and additions, without those with padding."""
        return self.call.params.flops()

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
        return Explanation(self.problem, decisions | {"memory": str(self.temporaries)}, inner.considered)
