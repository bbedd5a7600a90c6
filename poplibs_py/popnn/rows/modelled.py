"""Softmax, norms and losses on modelled machines: the operations that PopNN composes each of, planned one by one.

What runs is this CPU's function, in one pass, with its numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from ...formats import Format
from ...memo import remembered
from ...ops import Operand, Placed, Receiver, place_of
from ...planner.tile_plan import Step, TilePlan, Vertex, work_of
from ...poplin.norms_modelled import add_gradients, add_param_gradients, add_statistics, add_whitening
from ...popops.reductions.compose import StepsBuilder, kept_shape, type_of_all
from ...popops.reductions.modelled import plan_argmax
from ...popops.vertices.scaled import scaled_vertices
from ...target import Target, TargetLike, linear_mapping
from ...target.types import TYPE_BYTES

Shape = tuple[int, ...]


def place_of_softmax(op: str, target: TargetLike, operands: Sequence[Operand], receiver: Receiver, axes: Shape, *,
                     plain: bool) -> Placed[TilePlan]:
    """Return where a softmax, its logarithm or a gradient runs.

    Parameters
    ----------
    op : str
        Its name in `poplibs_py.popnn`.
    target : Target or str or None
    operands : sequence of Operand
        Numbers.
    receiver : Receiver
    axes : tuple of int
    plain : bool
        Whether there is no mask and no scale.
    """
    shape = operands[0].shape

    def plan_on(machine: Target) -> TilePlan | str:
        assert isinstance(receiver.format, Format)
        word, lacking = type_of_all(operands, receiver.format, shape)
        if lacking or receiver.scale:
            return lacking or "to numbers with a scale"
        return _softmax(op, shape, axes, word, machine) if plain else "with a mask or a scale"

    return place_of(f"popnn.{op}", target, plan_on)


def _softmax(op: str, shape: Shape, axes: Shape, word: str, target: Target) -> TilePlan:
    made, elements = StepsBuilder(target, word), prod(shape)
    made.take(softmax_steps(op, shape, axes, word, target))
    return made.plan(f"{op} {shape} over {axes}, {word}", writes=elements,
                     reads=elements * (2 if op.endswith("_grad") else 1))


@remembered(weight=2)
def softmax_steps(op: str, shape: Shape, axes: Shape, word: str, target: Target) -> tuple[Step, ...]:
    """Return what PopNN composes a softmax, its logarithm or a gradient of.

    Parameters
    ----------
    op : str
        Its name in `poplibs_py.popnn`.
    shape, axes : tuple of int
    word : str
        PopLibs' type.
    target : Target
    """
    made, rows, elements = StepsBuilder(target, word), kept_shape(shape, axes), prod(shape)
    if op.endswith("_grad"):
        if op == "softmax_grad":
            made.broadcast("product", "MULTIPLY", shape, shape)
        made.reduce("sum", "ADD", shape, axes)
        if op == "log_softmax_grad":
            made.elementwise("exponential", "EXPONENT", elements)
        made.broadcast("share", "MULTIPLY", shape, rows)
        made.broadcast("difference", "SUBTRACT", shape, shape, in_place=True)
        return tuple(made.steps)
    made.reduce("maximum", "MAX", shape, axes)
    made.broadcast("difference", "SUBTRACT", shape, rows)
    if op == "scaled_softmax_stable":
        made.elementwise("scale", "ADD", elements, operands=2, number=True, in_place=True)
    made.elementwise("exponential", "EXPONENT", elements, in_place=op != "log_softmax")
    made.reduce("sum", "ADD", shape, axes)
    if op == "log_softmax":
        made.elementwise("logarithm", "LOGARITHM", prod(rows))
        made.broadcast("difference", "SUBTRACT", shape, rows, in_place=True)
    else:
        made.elementwise("inverse", "INVERSE", prod(rows), in_place=True)
        made.broadcast("share", "MULTIPLY", shape, rows, in_place=True)
    return tuple(made.steps)


def place_of_norm(op: str, target: TargetLike, operands: Sequence[Operand], made: Format, shape: Shape, axes: Shape,
                  params: Shape, *, stable: bool = False, machines: bool = False) -> Placed[TilePlan]:
    """Return where a norm, its gradients or batch norm's statistics are made.

    Parameters
    ----------
    op : str
        Its name in `poplibs_py.popnn`.
    target : Target or str or None
    operands : sequence of Operand
        Activations and gradients, and the scale and shift that there are.
    made : Format
        Of the results.
    shape, axes : tuple of int
        Of the activations as statistics are taken of them, and along which.
    params : tuple of int
        Of scale and shift, which broadcasts to `shape`.
    stable : bool, optional
        Whether variances are means of ``(x - mean)^2``: PopLibs' default takes no second pass.
    machines : bool, optional
        Whether statistics are those of several machines.
    """

    def plan_on(machine: Target) -> TilePlan | str:
        if op.startswith("rms_norm"):
            return "in PopLibs"
        word, lacking = ("", "over several machines") if machines else type_of_all(operands, made, shape)
        return lacking or _norm(op, shape, axes, params, word, stable, machine)

    return place_of(f"popnn.{op}", target, plan_on)


@remembered(weight=2)
def _norm(op: str, shape: Shape, axes: Shape, params: Shape, word: str, stable: bool, target: Target) -> TilePlan:
    made, elements = StepsBuilder(target, word), prod(shape)
    problem = f"{op} {shape} over {axes}, {word}"
    add_statistics(made, shape, axes, stable=stable)
    if op.endswith("_statistics"):
        return made.plan(problem, reads=elements, writes=2 * prod(params))
    add_whitening(made, shape, axes)
    if not op.endswith("_grad"):
        made.broadcast("scale", "MULTIPLY", shape, params)
        made.broadcast("scale", "ADD", shape, params, in_place=True)
        running = 2 * op.endswith("_training")  # statistics, which PopLibs' callers move
        for _ in range(running):
            made.vertices("running", prod(params), lambda n: scaled_vertices(
                target, "aXPlusbY", ("float", "float", "float"), (n,)), "float")
        return made.plan(problem, reads=elements + (2 + running) * prod(params),
                         writes=elements + 2 * running * prod(params))
    over = tuple(d for d, n in enumerate(params) if n == 1)
    add_param_gradients(made, "parameters", shape, over)
    made.broadcast("scale", "MULTIPLY", shape, params)
    add_gradients(made, shape, axes)
    return made.plan(problem, reads=2 * elements + prod(params), writes=elements + 2 * prod(params))


def loss_cycles(data_type: str, elements: int, *, cross_entropy: bool) -> int:
    """Cycles of a worker for its share of a loss (``LossSumSquaredTransform``, ``LossCrossEntropyTransform``)."""
    each = 9 if cross_entropy else 4
    if data_type == "float":
        return 19 + cross_entropy + each * elements
    left = 3 + ((11 if cross_entropy else 6) if elements % 2 else 0)
    return 19 + cross_entropy + each * (elements // 2) + left


def place_of_loss(op: str, target: TargetLike, operands: Sequence[Operand], made: Format, shape: Shape, *,
                  cross_entropy: bool, labels: bool) -> Placed[TilePlan]:
    """Return where a loss of probabilities runs.

    Parameters
    ----------
    op : str
        Its name in `poplibs_py.popnn`.
    target : Target or str or None
    operands : sequence of Operand
        Numbers.
    made : Format
        Of the results.
    shape : tuple of int
        Rows and classes.
    cross_entropy : bool
    labels : bool
        Whether rows have labels, which are encoded first.
    """

    def plan_on(machine: Target) -> TilePlan | str:
        word, lacking = type_of_all(operands, made, shape)
        return lacking or _loss(shape, word, cross_entropy, labels, machine)

    return place_of(f"popnn.{op}", target, plan_on)


@remembered(weight=2)
def _loss(shape: Shape, word: str, cross_entropy: bool, labels: bool, target: Target) -> TilePlan:
    made, elements = StepsBuilder(target, word), prod(shape)
    if labels:
        made.copy("labels", elements)
    name = "LossCrossEntropyTransform" if cross_entropy else "LossSumSquaredTransform"

    def vertices(count: int) -> tuple[Vertex, ...]:
        shares = [count * (w + 1) // target.workers - count * w // target.workers for w in range(target.workers)]
        return tuple(Vertex(name, (word,), ((n, 1),), loss_cycles(word, n, cross_entropy=cross_entropy), "worker")
                     for n in shares if n)

    made.add(Step("transform", work_of(target, linear_mapping(target, elements, TYPE_BYTES[word]).classes, vertices)))
    made.reduce("sum", "ADD", shape, (1,))
    what = f"{'cross-entropy' if cross_entropy else 'squares'} of {shape}, {word}"
    return made.plan(what, reads=2 * elements, writes=elements + shape[0])


def place_of_accuracy(target: TargetLike, x: Operand) -> Placed[TilePlan]:
    """Return where an accuracy runs, given numbers of rows and classes."""
    def plan_on(machine: Target) -> TilePlan | str:
        assert isinstance(x.format, Format)
        word, lacking = type_of_all([x], x.format, x.shape)
        return lacking or _accuracy(x.shape, word, machine)

    return place_of("popnn.calc_accuracy", target, plan_on)


@remembered(weight=2)
def _accuracy(shape: Shape, word: str, target: Target) -> TilePlan:
    """Places of the greatest numbers, which a worker of one tile compares with labels."""
    made, rows, size = StepsBuilder(target, word, "unsigned int"), shape[0], TYPE_BYTES["unsigned int"]
    made.take(plan_argmax("argmax", shape, (1,), word, target).steps)
    vertex = Vertex("CalcAccuracy", ("unsigned int",), ((rows, 1),), 14 + 4 * rows, "worker")
    work = work_of(target, [(rows, 1)], lambda _: (vertex,), lambda n: 2 * n * size)
    made.add(Step("compare", work, 2 * rows * size))
    return made.plan(f"accuracy of {shape}, {word}", reads=prod(shape) + rows, writes=1)
