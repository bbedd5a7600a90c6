"""Attention on modelled machines: its products as they are planned, and PopNN's softmax between them.

PopLibs has no attention of its own. What runs is this CPU's call, with its numbers, which keeps no matrix of scores;
the machine's program has one.
"""

from __future__ import annotations

from math import prod

from ...memo import remembered
from ...ops import Placed, place_of
from ...planner import Memory
from ...planner.tile_plan import TilePlan
from ...poplin.products_modelled import product_steps
from ...popops.reductions.compose import StepsBuilder
from ...target import Target, TargetLike
from ...target.types import type_of
from ..rows.modelled import softmax_steps
from .params import AttentionParams


def place_of_attention(op: str, target: TargetLike, p: AttentionParams, memory: Memory) -> Placed[TilePlan]:
    """Return where a call runs.

    Parameters
    ----------
    op : str
        Its name in `poplibs_py.popnn`.
    target : Target or str or None
    p : AttentionParams
    memory : Memory
        What its products are planned within.
    """

    def plan_on(machine: Target) -> TilePlan | str:
        lies = dict(p.operands)
        numbers = [lies[name] for name in ("q", "k", "v")]
        word = type_of(numbers[0].format)
        if word not in ("float", "half") or any(x.format != numbers[0].format or x.exponent for x in numbers):
            return f"of {', '.join(dict.fromkeys(str(x.format) for x in numbers))}"
        if p.block_shape is not None:
            return "of a pattern of blocks"
        if not (p.batch and p.heads and p.queries and p.keys and numbers[0].width and numbers[2].width):
            return "of nothing"
        sizes = p.batch * p.heads * p.shares, p.queries, p.keys, numbers[0].width, numbers[2].width
        masked = p.causal or "mask" in lies
        return _planned(op, p.backward, masked, sizes, word, memory.proportion, machine).checked(f"popnn.{op}", memory)

    return place_of(f"popnn.{op}", target, plan_on)


@remembered(weight=4)
def _planned(op: str, backward: bool, masked: bool, sizes: tuple[int, int, int, int, int], word: str,
             proportion: float | None, target: Target) -> TilePlan:
    groups, queries, keys, width, values = sizes
    made, scores = StepsBuilder(target, word), (groups * queries, keys)

    def product(rows: int, depth: int, columns: int) -> None:
        made.take_product(product_steps(target, word, (groups, rows, depth), (groups, depth, columns),
                                        proportion=proportion))

    product(queries, width, keys)
    made.elementwise("scale", "MULTIPLY", prod(scores), operands=2, number=True, in_place=True)
    if masked:
        made.broadcast("mask", "ADD", (groups, queries, keys), (queries, keys), in_place=True)
    made.take(softmax_steps("softmax", scores, (1,), word, target))
    if backward:
        product(queries, values, keys)
        made.take(softmax_steps("softmax_grad", scores, (1,), word, target))
        made.elementwise("scale", "MULTIPLY", prod(scores), operands=2, number=True, in_place=True)
        product(queries, keys, width)
        product(keys, queries, width)
        product(keys, queries, values)
    else:
        product(queries, keys, values)
    of_queries, of_keys = groups * queries * (width + values), groups * keys * (width + values)
    problem = f"{op} of {groups} x {queries} queries, {keys} keys of {width}, {word}"
    return made.plan(problem, reads=of_queries + of_keys, writes=of_queries if not backward else of_queries + of_keys)
