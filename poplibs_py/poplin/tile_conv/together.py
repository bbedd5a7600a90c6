"""Programs that run at once, each on tiles of its own, as one program."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...program import ComputeSet, Exchange, Loop, Segment

Step = ComputeSet | Exchange | Loop


def beside(tiles: Sequence[int], programs: Sequence[tuple[Step, ...]]) -> tuple[tuple[Step, ...], int]:
    """Return programs on tiles of their own as one, and its tiles: steps that several of them come to at once are one.

    A program's steps keep their order. Of those that they come to, what is first in `_ORDER` runs first.

    Parameters
    ----------
    tiles : sequence of int
        Of each program.
    programs : sequence of tuple
        Their steps.
    """
    firsts = [sum(tiles[:i]) for i in range(len(tiles))]
    queues = [[_moved(step, first) for step in steps] for first, steps in zip(firsts, programs, strict=True)]
    steps: list[Step] = []
    while any(queues):
        kind = min((_kind(queue[0]) for queue in queues if queue), key=lambda kind: (_ORDER.index(kind[0]), kind))
        steps.append(_merged([queue.pop(0) for queue in queues if queue and _kind(queue[0]) == kind]))
    return tuple(steps), sum(tiles)


_ORDER = ("compute", "exchange operands", "loop", "exchange partial sums", "round", "reduce", "bias", "activation",
          "cast output", "update")


def _kind(step: Step) -> tuple[str, str, int]:
    """What steps have in common that can be one."""
    if isinstance(step, Loop):
        return "loop", "", step.turns
    return step.phase, type(step).__name__, 1


def _moved(step: Any, first: int) -> Any:
    """A step on other tiles."""
    if isinstance(step, Loop):
        return Loop(step.turns, tuple(_moved(inner, first) for inner in step.body))
    if isinstance(step, Exchange):
        return step
    return ComputeSet(step.phase, tuple(Segment(s.vertex, s.items, s.tiles + first, s.turns) for s in step.segments))


def _merged(steps: list[Any]) -> Any:
    head = steps[0]
    if isinstance(head, Loop):
        body: Any = beside([0] * len(steps), [step.body for step in steps])[0]
        return Loop(head.turns, body)
    if isinstance(head, Exchange):
        return Exchange(head.phase, sum(step.bytes for step in steps))
    return ComputeSet(head.phase, tuple(segment for step in steps for segment in step.segments))
