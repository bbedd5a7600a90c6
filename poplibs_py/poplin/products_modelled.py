"""A dense product on a modelled machine as steps of an operation that is composed of several."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from ..memo import remembered
from ..planner.facts import facts_of
from ..planner.ladder import Temporaries
from ..planner.tile_plan import Step, TileWork
from ..target import Target
from .product.modelled import count_modelled
from .product.options import conv_options
from .product.params import stated
from .tile_conv.api import planned_quietly
from .tile_conv.plan import ConvPlan
from .tile_conv.problem import ConvProblem


class ProductSteps(NamedTuple):
    """The steps of a product, and its temporaries where they are more than it may take."""

    steps: tuple[Step, ...]
    over_limit: Temporaries | None


@remembered(weight=2)
def product_steps(target: Target, data_type: str, a_shape: Sequence[int], b_shape: Sequence[int], *,
                  name: str = "product", fully_connected_pass: str = "NONE", partials_type: str = "float",
                  proportion: float | None = None) -> ProductSteps:
    """Return the steps of ``a @ b`` as PopLibs' planner plans it.

    Parameters
    ----------
    target : Target
    data_type : str
        PopLibs' type of the operands and of the result.
    a_shape, b_shape : tuple of int
    name : str, optional
        What its phases are called, but for the exchange.
    fully_connected_pass, partials_type
        As `plan_matmul` takes them.
    proportion : float, optional
        The share of a tile's memory that it may take; by default PopLibs'.

    Examples
    --------
    >>> from poplibs_py.poplin.products_modelled import product_steps
    >>> from poplibs_py.target import Target
    >>> sum(step.compute_cycles for step in product_steps(Target.gc200(), "half", (32, 128), (128, 256)).steps)
    659
    """
    options = conv_options({"fullyConnectedPass": fully_connected_pass, "partialsType": partials_type},
                           {"available_memory_proportion": proportion})
    plan = planned_quietly(ConvProblem(target, stated(a_shape, b_shape, data_type, None).canonical(), options))
    return ProductSteps(tuple(_steps(plan, name)), None if plan.fits else plan.temporaries)


def _steps(plan: ConvPlan, name: str) -> Iterator[Step]:
    """The phases of a plan: the bytes that its tiles receive belong to the exchange."""
    facts, counted = facts_of(plan), count_modelled(plan)
    tiles = int((counted.tile_macs > 0).sum())
    each, more = divmod(counted.exchanged_bytes, max(1, tiles))
    for phase in facts.phases:
        if phase.name == "exchange":
            shares = (more, each + 1), (tiles - more, each)
            work = tuple(TileWork(n, 0, (), 0, received) for n, received in shares if n)
            yield Step(name, work, phase.bytes, phase.times, phase.cycles)
        else:
            yield Step(name, (TileWork(tiles, 0, (), phase.cycles),), phase.bytes, phase.times)
