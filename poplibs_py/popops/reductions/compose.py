"""Plans of operations that PopLibs composes of others, on a modelled machine: one after another."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np

from ...formats import Format
from ...ops import Operand
from ...planner.ladder import Temporaries
from ...planner.tile_plan import Step, TilePlan, Vertex, memory_of, work_of
from ...target import Target, linear_mapping
from ...target.types import TYPE_BYTES, type_of
from ..elementwise.broadcast_modelled import planned_broadcast
from ..vertices.operands import elementwise_vertices
from .modelled import plan_reduction


def type_of_all(operands: Sequence[Operand], made: Format, shape: tuple[int, ...]) -> tuple[str, str]:
    """Return PopLibs' type of all operands and results, and what has no vertex in words: of other types, of nothing."""
    word = type_of(made)
    if word not in ("float", "half") or any(x.format != made or x.scale for x in operands):
        return "", f"of {', '.join(dict.fromkeys(str(x.format) for x in operands))} to {made}"
    return word, "" if prod(shape) else "of nothing"


def kept_shape(shape: tuple[int, ...], axes: tuple[int, ...]) -> tuple[int, ...]:
    """Return the shape of what is reduced along axes, which stay with an extent of 1."""
    return tuple(1 if d in axes else n for d, n in enumerate(shape))


class StepsBuilder:
    """Steps that are added one after another.

    Parameters
    ----------
    target : Target
    data_type : str
        PopLibs' type of what is computed.
    result_type : str, optional
        That of the results; by default the same.

    Examples
    --------
    >>> from poplibs_py.popops.reductions.compose import StepsBuilder
    >>> from poplibs_py.target import Target
    >>> made = StepsBuilder(Target.gc200(), "half")
    >>> made.elementwise("scale", "MULTIPLY", 4096, operands=2)
    >>> made.copy("rearrange", 4096)
    >>> made.plan("an example", reads=8192, writes=4096).phases
    {'exchange': 32, 'scale': 221}
    """

    def __init__(self, target: Target, data_type: str, result_type: str | None = None) -> None:
        self.target, self.data_type, self.result_type = target, data_type, result_type or data_type
        self.times = 1
        self.steps: list[Step] = []
        self._over_limit: list[Temporaries] = []

    def elementwise(self, name: str, op: str, elements: int, data_type: str | None = None, *, operands: int = 1,
                    number: bool = False, in_place: bool = False, received: int = 0) -> None:
        """Add an operation on arrays that lie as its result does, the last of them perhaps one number.

        A tile receives so many bytes an element of them.
        """
        numbers, word = (False,) * (operands - number) + (True,) * number, data_type or self.data_type
        self.vertices(name, elements, lambda n: elementwise_vertices(
            self.target, op, word, n, in_place=in_place, numbers=numbers), word, received=received)

    def vertices(self, name: str, elements: int, of_tile: Callable[[int], tuple[Vertex, ...]],
                 data_type: str | None = None, *, received: int = 0) -> None:
        """Add vertices of so many elements that lie linearly, given those of a tile."""
        shares = linear_mapping(self.target, elements, TYPE_BYTES[data_type or self.data_type]).classes
        work = work_of(self.target, shares, of_tile, lambda n: n * received)
        self.add(Step(name, work, max((w.received for w in work), default=0)))

    def broadcast(self, name: str, op: str, shape: tuple[int, ...], *beside: tuple[int, ...],
                  in_place: bool = False) -> None:
        """Add an operation on an array and on others of smaller shapes, which broadcast to its own."""
        order = tuple(range(len(shape)))
        self.take(planned_broadcast(name, op, shape, (shape, *beside), order, self.data_type, self.data_type, in_place,
                                    self.target).steps, name)

    def reduce(self, name: str, op: str, shape: tuple[int, ...], axes: tuple[int, ...],
               result_type: str | None = None, *, scaled: bool = False) -> None:
        """Add a reduction of an array."""
        types = self.data_type, result_type or self.data_type
        self.take(plan_reduction(name, op, shape, axes, types, self.target, scaled=scaled).steps, name)

    def copy(self, name: str, elements: int, data_type: str | None = None) -> None:
        """Add the exchange of so many elements that lie elsewhere."""
        size = TYPE_BYTES[data_type or self.data_type]
        shares = linear_mapping(self.target, elements, size).classes
        work = work_of(self.target, shares, lambda _: (), lambda n: n * size)
        self.add(Step(name, work, max((w.received for w in work), default=0)))

    def take(self, steps: Iterable[Step], name: str | None = None) -> None:
        """Add steps that another planner made, perhaps as phases of another name."""
        for step in steps:
            self.add(step if name is None else replace(step, name=name))

    def take_product(self, product: Any) -> None:
        """Add the steps of a product, as `product_steps` of poplin returns them."""
        self.take(product.steps)
        self._over_limit += [] if product.over_limit is None else [product.over_limit]

    def add(self, step: Step) -> None:
        """Add a step, as often as what is being composed is repeated."""
        if step.work:
            self.steps.append(replace(step, times=step.times * self.times))

    def plan(self, problem: str, *, reads: int, writes: int, decisions: tuple[tuple[str, str], ...] = ()) -> TilePlan:
        """Return the plan of what was added.

        Parameters
        ----------
        problem, decisions
            As `TilePlan` has them.
        reads, writes : int
            Elements of all operands and of all results, which lie linearly.
        """
        sizes = TYPE_BYTES[self.data_type], TYPE_BYTES[self.result_type]
        held = [np.diff(linear_mapping(self.target, n, size).edges()) * size
                for n, size in zip((reads, writes), sizes, strict=True)]
        memory = memory_of(self.target, held[0], held[1], self.steps)
        return TilePlan(problem, self.target, tuple(self.steps), memory, decisions,
                        over_limit=Temporaries.worst(self._over_limit))
