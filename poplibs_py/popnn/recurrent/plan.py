"""Plans of recurrent layers on this CPU: how many steps a pass or a weight update takes at once within a limit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

from ...planner import Explanation, Memory, first_within
from ...planner.explain import Considered, Explained
from ...planner.ladder import raised_words
from ...program import Sequence as Program
from ...target import Target
from .forward import Pass
from .update_lower import UpdateSizes, product_of

T = TypeVar("T")


@dataclass(frozen=True)
class Limited(Explained, Generic[T]):
    """How much of a call is done at once within a limit, and what that takes.

    Attributes
    ----------
    at_once : T
        Of a pass steps; of a weight update steps, and planes of the gates' gradients, that a product takes.
    fits : bool
        Whether it keeps to the limit that the call names.
    raised : int or None
        To how many bytes that was raised, where it does not; None where it was dropped.
    limit : int or None
        Temporary bytes that all threads may take.
    threads : int
    temporary_bytes : int
        Of a run, beside operands and results.
    """

    at_once: T
    fits: bool
    raised: int | None
    limit: int | None
    threads: int
    temporary_bytes: int

    @property
    def memory_words(self) -> str:
        """What it takes, and may take, in words."""
        limit = "no limit" if self.limit is None else f"limit {self.limit:,}"
        return f"{self.temporary_bytes:,} ({limit}{'' if self.fits else f', {raised_words(self.raised)}'})"


@dataclass(frozen=True)
class Stretches(Limited[int]):
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
        own = {"steps at once": str(self.at_once), "bytes": self.memory_words}
        return replace(made, decisions=made.decisions | own)


@dataclass(frozen=True)
class Update(Limited[tuple[int, int]]):
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
        decisions = {"kernel": kernel, "way": way, "bytes": self.memory_words}
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
                  target: Target) -> tuple[Program, tuple[T, bool, int | None, int | None, int, int]]:
    """Return the program of the first choice that keeps to the limit, and the fields of `Limited`."""
    each, made = memory.limit(target), program(choices[0])
    threads = made.threads
    found, fits, raised = first_within(op, choices, lambda one: program(one, True).temporary_bytes, memory, target,
                                       threads)
    made = made if found == choices[0] else program(found)
    return made, (found, fits, raised, None if each is None else each * threads, made.threads, made.temporary_bytes)


def shorter(steps: int) -> list[int]:
    """Return how many steps there may be at once, the most first."""
    made = [max(1, steps)]
    while made[-1] > 1:
        made.append(-(-made[-1] // 2))
    return made
