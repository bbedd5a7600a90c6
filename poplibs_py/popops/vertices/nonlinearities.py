"""What non-linearities cost on a tile of a modelled machine: the cycles of PopNN's vertices.

TANH, SIGMOID, RELU and GELU_ERF are popops' unary operations; their gradients are vertices here.
"""

from __future__ import annotations

from ...planner.tile_plan import Vertex
from ...target import Target
from ...target.types import vector_of

_Cost = tuple[int, int]
"""Cycles of one element, and of a load of them."""

_EACH: dict[tuple[str, str], _Cost] = {
    ("RELU", "float"): (1, 1), ("RELU", "half"): (1, 1),
    ("SIGMOID", "float"): (5, 10), ("SIGMOID", "half"): (2, 4),
    ("TANH", "float"): (5, 10), ("TANH", "half"): (1, 2),
    ("GELU", "float"): (10, 10), ("GELU", "half"): (5, 5),
    ("GELU_ERF", "float"): (30, 30), ("GELU_ERF", "half"): (15, 15),
    ("SWISH", "float"): (6, 11), ("SWISH", "half"): (3, 5),
}  # fmt: skip

_GRADIENT: dict[tuple[str, str], _Cost] = _EACH | {
    ("RELU", "float"): (3, 3), ("RELU", "half"): (3, 3),
    ("SIGMOID", "float"): (3, 3), ("SIGMOID", "half"): (3, 3),
    ("TANH", "float"): (3, 3), ("TANH", "half"): (3, 3),
    ("SWISH", "float"): (10, 15), ("SWISH", "half"): (7, 9),
}  # fmt: skip


def _core(cost: _Cost, loads: int) -> int:
    one, load = cost
    return 3 + 2 * one + (loads - 1) * load if loads else 0


def _left(half: bool, one: int, rest: int) -> int:
    """Cycles of what is left beside whole loads."""
    if not half:
        return 2 + (2 + one) * (rest % 2)
    return 4 + (2 + one) * (rest >= 2) + (3 + one) * (rest % 2)


def nonlinearity_1d_cycles(target: Target, op: str, data_type: str, elements: int, *, in_place: bool = False) -> int:
    """Cycles of a tile whose workers share one region (``NonLinearity1D``).

    Examples
    --------
    >>> from poplibs_py.popops.vertices.nonlinearities import nonlinearity_1d_cycles
    >>> from poplibs_py.target import Target
    >>> nonlinearity_1d_cycles(Target.gc200(), "SWISH", "half", 925)
    1383
    """
    cost, half, workers = _EACH[op, data_type], data_type == "half", target.workers
    loads, rest = divmod(elements, vector_of(target, data_type))
    left = _left(half, cost[0], rest) + (not half)
    return 9 + workers * (20 + (op == "SWISH" and in_place) + _core(cost, -(-loads // workers)) + left)


def _gradient_core(cost: _Cost, loads: int) -> int:
    return 5 + (loads - 1) * cost[1] if loads else 0


def gradient_1d_cycles(target: Target, op: str, data_type: str, elements: int) -> int:
    """Cycles of a tile whose workers share one region of a gradient (``NonLinearityGrad1D``)."""
    cost, workers = _GRADIENT[op, data_type], target.workers
    loads, rest = divmod(elements, vector_of(target, data_type))
    one = cost[0]
    left = 6 + (one + 2) * (rest >= 2) + (one + 4) * (rest % 2) if data_type == "half" else 4 + (one + 1) * (rest % 2)
    return 9 + workers * (20 + _gradient_core(cost, -(-loads // workers)) + left)


def nonlinearity_op(op: str) -> tuple[str, bool] | None:
    """PopNN's name of an operation that its own vertices compute, and whether it is a gradient; None for others."""
    name, gradient = op.removesuffix("_GRAD"), op.endswith("_GRAD")
    known = name in ("TANH", "SIGMOID", "RELU", "GELU_ERF") if gradient else False
    return (name, gradient) if known or name in ("GELU", "SWISH") else None


def nonlinearity_vertices(target: Target, op: str, data_type: str, elements: int, *,
                          in_place: bool = False) -> tuple[Vertex, ...]:
    """Return the vertices of a tile with one region of so many elements.

    Parameters
    ----------
    target : Target
    op : str
        PopNN's operation, with ``_GRAD`` behind it for its gradient: `nonlinearity_op` knows it.
    data_type : {"float", "half"}
    elements : int
    in_place : bool, optional
        Whether the result takes the operand's place; a gradient's never does.

    Examples
    --------
    >>> from poplibs_py.target import Target
    >>> [str(v) for v in nonlinearity_vertices(Target.gc200(), "TANH_GRAD", "half", 96)]
    ['NonLinearityGrad1D<half,TANH>']
    """
    found = nonlinearity_op(op)
    assert found is not None
    name, gradient = found
    if gradient:
        cycles, kind = gradient_1d_cycles(target, name, data_type, elements), "NonLinearityGrad1D"
    else:
        cycles = nonlinearity_1d_cycles(target, name, data_type, elements, in_place=in_place)
        kind = "NonLinearity1D" + "InPlace" * in_place
    return (Vertex(kind, (data_type, name), ((elements, 1),), cycles, "tile"),)
