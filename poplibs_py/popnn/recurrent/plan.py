"""The plan of a pass of a recurrent layer on this CPU: how many steps it takes at once within a limit on memory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from ...planner import Explanation, Memory, first_within
from ...planner.explain import Explained
from ...target import Target
from .lower import Pass


@dataclass(frozen=True)
class Stretches(Explained):
    """How many steps a pass takes at once.

    Attributes
    ----------
    layer : Pass
        What runs, for a reader.
    at_once : int
    fits : bool
        Whether it keeps to the limit that the call names.
    """

    layer: Pass
    at_once: int
    fits: bool

    @property
    def threads(self) -> int:
        """Threads of the loop."""
        return self.layer.threads

    @property
    def flops(self) -> int:
        """Operations of the products."""
        return self.layer.flops

    def told(self) -> tuple[str, str, Stretches]:
        """Return what tells of a pass."""
        return str(self.layer.params), self.layer.loops.selection.kernel.label, self

    def explain(self) -> Explanation:
        """Return what was decided."""
        made = self.layer.explain()
        return replace(made, decisions=made.decisions | {"steps at once": str(self.at_once)})


def stretches(op: str, layer: Pass, memory: Memory, bytes_of: Callable[[int], int], target: Target,
              plan: object) -> Stretches:
    """Return how many steps a pass takes at once: all, or within the limit as many as there is room for.

    Parameters
    ----------
    op : str
    layer : Pass
    memory : Memory
    bytes_of : callable
        Temporary bytes of so many steps at once.
    target : Target
        This CPU.
    plan : object
        Of a modelled machine, whose memory the limit is one on; else None.
    """
    limit = memory if plan is None else Memory()
    return Stretches(layer, *first_within(op, shorter(layer.params.steps), bytes_of, limit, target, layer.threads))


def shorter(steps: int) -> list[int]:
    """Return how many steps there may be at once, the most first."""
    made = [max(1, steps)]
    while made[-1] > 1:
        made.append(-(-made[-1] // 2))
    return made
