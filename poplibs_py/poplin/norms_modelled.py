"""What poplin composes norms of on modelled machines: statistics, whitening, gradients, each added to a `StepsBuilder`.

What runs is this CPU's function, with its numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from ..formats import Format
from ..memo import remembered
from ..ops import Operand, Placed, place_of
from ..planner.tile_plan import TilePlan, Vertex
from ..popops.reductions.compose import StepsBuilder, kept_shape, type_of_all
from ..popops.vertices.scaled import scaled_vertices
from ..target import Target, TargetLike
from ..target.mapping import split_between_workers
from ..target.types import vector_of

Shape = tuple[int, ...]


def add_statistics(made: StepsBuilder, shape: Shape, axes: Shape, *, stable: bool = False) -> None:
    """Add means and inverse standard deviations. Powers are float, as PopLibs' ``partialsType`` is by default."""
    made.reduce("statistics", "ADD", shape, axes, scaled=True)
    if stable:
        made.broadcast("statistics", "SUBTRACT", shape, kept_shape(shape, axes))
    made.reduce("statistics", "SQUARE_ADD", shape, axes, "float", scaled=True)
    word, target = made.data_type, made.target
    grain = vector_of(target, word)

    def vertices(elements: int) -> tuple[Vertex, ...]:
        return tuple(Vertex("InverseStdDeviation", (word, "float", word), runs, 6 + sum(
            (4 + 5 * -(-n // 2)) * count for n, count in runs), "worker")
            for runs in split_between_workers(target, [elements], grain))

    made.vertices("statistics", prod(kept_shape(shape, axes)), vertices)


def add_whitening(made: StepsBuilder, shape: Shape, axes: Shape) -> None:
    """Add what takes the mean away and divides by the standard deviation."""
    made.broadcast("whiten", "SUBTRACT", shape, kept_shape(shape, axes))
    made.broadcast("whiten", "MULTIPLY", shape, kept_shape(shape, axes), in_place=True)


def add_param_gradients(made: StepsBuilder, name: str, shape: Shape, axes: Shape, *, scaled: bool = False) -> None:
    """Add gradients with respect to scale and shift: one reduction of products and of gradients beside them."""
    made.broadcast(name, "MULTIPLY", shape, shape)
    made.reduce(name, "ADD", (2, *shape), tuple(d + 1 for d in axes), scaled=scaled)


def add_gradients(made: StepsBuilder, shape: Shape, axes: Shape) -> None:
    """Add gradients with respect to activations, of those with respect to what `add_whitening` makes."""
    add_param_gradients(made, "statistics", shape, axes, scaled=True)
    rows, word = kept_shape(shape, axes), made.data_type
    made.broadcast("gradient", "MULTIPLY", shape, rows)
    made.elementwise("gradient", "MULTIPLY", prod(rows), operands=2, number=True, in_place=True)
    made.broadcast("gradient", "ADD", shape, rows, in_place=True)
    made.vertices("gradient", prod(shape), lambda n: scaled_vertices(
        made.target, "ScaledAdd", (word, word, "float"), (n,)))
    made.broadcast("gradient", "MULTIPLY", shape, rows, in_place=True)


def place_of_norm(op: str, target: TargetLike, operands: Sequence[Operand], made: Format, *,
                  stable: bool = False) -> Placed[TilePlan]:
    """Return where a function of `poplin.norms` runs.

    Parameters
    ----------
    op : str
        Its name.
    target : Target or str or None
    operands : sequence of Operand
        Activations first.
    made : Format
        Of the results.
    stable : bool, optional
        Whether variances are means of ``(x - mean)^2``.
    """
    shape = operands[0].shape

    def plan_on(machine: Target) -> TilePlan | str:
        word, lacking = type_of_all(operands, made, shape)
        return lacking or _norm(op, shape, word, stable, machine)

    return place_of(f"poplin.{op}", target, plan_on)


@remembered(weight=2)
def _norm(op: str, shape: Shape, word: str, stable: bool, target: Target) -> TilePlan:
    made, elements, channels = StepsBuilder(target, word), prod(shape), shape[1]
    axes = tuple(d for d in range(len(shape)) if d != 1)
    rows = kept_shape(shape, axes)
    reads, writes = elements + 2 * channels, elements
    if op == "norm_statistics":
        add_statistics(made, shape, axes, stable=stable)
        reads, writes = elements, 2 * channels
    elif op == "norm_whiten":
        add_whitening(made, shape, axes)
    elif op == "normalise":
        made.broadcast("scale", "MULTIPLY", shape, rows)
        made.broadcast("scale", "ADD", shape, rows, in_place=True)
    elif op == "norm_gradients":
        made.broadcast("scale", "MULTIPLY", shape, rows)
        reads = elements + channels
    elif op == "norm_param_gradients":
        add_param_gradients(made, "parameters", shape, axes)
        reads, writes = 2 * elements, 2 * channels
    else:
        add_gradients(made, shape, axes)
        reads = 2 * elements + channels
    return made.plan(f"{op} {shape}, {word}", reads=reads, writes=writes)
