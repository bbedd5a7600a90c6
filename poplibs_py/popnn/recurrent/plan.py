"""Plans of recurrent layers on this CPU: how many steps a pass or a weight update takes at once within a limit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

from ...planner import Explanation, Memory, Temporaries, first_within
from ...planner.explain import Considered, Explained
from ...planner.ladder import HostLimited
from ...program import Sequence as Program
from ...target import Target
from .forward import Pass
from .update_lower import UpdateSizes, product_of

T = TypeVar("T")


@dataclass(frozen=True)
class AtOnce(HostLimited, Explained, Generic[T]):
    """How much of a call is done at once within a limit, and what that takes.

    Attributes
    ----------
    at_once : T
        Of a pass steps; of a weight update steps, and planes of the gates' gradients, that a product takes.
    threads : int
    temporaries : Temporaries
        What a run needs beside operands and results, and may take.
    """

    at_once: T
    threads: int
    temporaries: Temporaries

    @property
    def temporary_bytes(self) -> int:
        """Bytes that a run takes beside operands and results."""
        return self.temporaries.needed

    @property
    def compute_format(self) -> str:
        """Nothing: its products say."""
        return ""


@dataclass(frozen=True)
class Stretches(AtOnce[int]):
    """How many steps a pass takes at once, and what that takes.

    Attributes
    ----------
    layer : Pass
        What runs, for a reader.
    """

    layer: Pass

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
        own = {"steps at once": str(self.at_once), "memory": str(self.temporaries)}
        return replace(made, decisions=made.decisions | own)


@dataclass(frozen=True)
class Update(AtOnce[tuple[int, int]]):
    """How a weight update is done, and what that takes.

    Attributes
    ----------
    what : str
    sizes : UpdateSizes
    machine : Target
    """

    what: str
    sizes: UpdateSizes
    machine: Target

    @property
    def flops(self) -> int:
        """Operations of the products with inputs and states."""
        s = self.sizes
        return 2 * s.planes * s.outputs * (s.inputs + s.states) * s.steps * s.batch

    @property
    def _kernel(self) -> str:
        steps, planes = self.at_once
        return product_of(self.sizes, self.machine, self.sizes.states, self.sizes.state, steps, planes,
                          0.0).plan.kernel.label

    def told(self) -> tuple[str, str, Update]:
        """Return what tells of it: with the kernel of the product with the states."""
        return self.what, self._kernel, self

    def explain(self) -> Explanation:
        """Return what was decided."""
        kernel = self._kernel
        steps, planes = self.at_once
        way = f"products of {steps} steps and {planes} planes for each kind of weights"
        decisions = {"kernel": kernel, "way": way, "memory": str(self.temporaries)}
        return Explanation(self.what, decisions, (Considered(kernel, None, None, "chosen", True),))


def stretches(op: str, layer: Pass, memory: Memory, target: Target,
              program: Callable[..., Program]) -> tuple[Stretches, Program]:
    """Return how many steps a pass takes at once, all or as many as the limit has room for, and its program.

    Parameters
    ----------
    op : str
    layer : Pass
    memory : Memory
    target : Target
        This CPU.
    program : callable
        Returns what takes so many steps at once; see `programs`.
    """
    made, taken = chosen_within(op, shorter(layer.params.steps), program, memory, target)
    return Stretches(*taken, layer), made


def chosen_within(op: str, choices: list[T], program: Callable[..., Program], memory: Memory,
                  target: Target) -> tuple[Program, tuple[T, int, Temporaries]]:
    """Return the program of the first choice that keeps to the limit, and the fields of `AtOnce`."""
    made = program(choices[0])
    threads = made.threads
    found, raised = first_within(op, choices, lambda one: program(one, True).temporary_bytes, memory, target, threads)
    made = made if found == choices[0] else program(found)
    taken = Temporaries.of_threads(made.temporary_bytes, memory.limit(target), raised, threads)
    return made, (found, made.threads, taken)


def shorter(steps: int) -> list[int]:
    """Return how many steps there may be at once, the most first."""
    made = [max(1, steps)]
    while made[-1] > 1:
        made.append(-(-made[-1] // 2))
    return made
