"""Which vertices PopLibs gives a tile for an elementwise operation, by its operands: arrays, or numbers beside them."""

from __future__ import annotations

from ...planner.tile_plan import Vertex
from ...target import Target
from .binary import binary_entry, binary_vertices, scalar_entry, scalar_vertices
from .nonlinearities import nonlinearity_op, nonlinearity_vertices
from .ternary import ternary_vertices
from .unary import NO_LIMIT, element_limit, unary_entry, unary_vertices

COMMUTATIVE = {"ADD", "MULTIPLY", "MAXIMUM", "MINIMUM", "EQUAL", "NOT_EQUAL", "BITWISE_AND", "BITWISE_OR",
               "BITWISE_XOR", "BITWISE_XNOR", "LOGICAL_AND", "LOGICAL_OR"}  # fmt: skip
"""Operations whose operands may change places."""

_TERNARY = {"SELECT": ("float", "half", "int", "unsigned int", "bool"), "CLAMP": ("float", "half", "int")}
_ONE = (False,)


def operand_types(op: str, data_type: str, count: int) -> tuple[str, ...]:
    """The types of an operation's operands."""
    return (data_type, data_type, "bool") if op == "SELECT" else (data_type,) * count


def vertex_limit(target: Target, op: str, data_type: str) -> int:
    """Elements that one vertex takes in one region, or `NO_LIMIT`."""
    return NO_LIMIT if nonlinearity_op(op) else element_limit(target, op, data_type)


def vertices_lack(op: str, data_type: str, in_place: bool, numbers: tuple[bool, ...]) -> bool:
    """Whether PopLibs has no vertex for an operation; `numbers` says which operands are one number."""
    if nonlinearity_op(op):
        return data_type not in ("float", "half") or any(numbers) or (in_place and len(numbers) > 1)
    if len(numbers) == 1:
        return unary_entry(op, data_type, in_place) is None
    if len(numbers) == 3:
        return data_type not in _TERNARY.get(op, ())
    return not _with_number(op, data_type, in_place, numbers) and binary_entry(op, data_type, in_place) is None


def elementwise_vertices(target: Target, op: str, data_type: str, elements: int, *, in_place: bool = False,
                         numbers: tuple[bool, ...] = _ONE) -> tuple[Vertex, ...]:
    """Return the vertices of a tile with one region of so many elements.

    Parameters
    ----------
    target : Target
    op, data_type : str
        In PopLibs' words.
    elements : int
    in_place : bool, optional
        Whether the result takes the first operand's place.
    numbers : tuple of bool, optional
        Which operands are one number beside arrays. Where no vertex takes it as one, it is spread by the exchange.

    Examples
    --------
    >>> from poplibs_py.target import Target
    >>> [str(v) for v in elementwise_vertices(Target.gc200(), "ADD", "half", 96, numbers=(False, True))]
    ['BroadcastScalar1D<ADD,half>']
    """
    sizes = (elements,)
    if nonlinearity_op(op):
        return nonlinearity_vertices(target, op, data_type, elements, in_place=in_place)
    if len(numbers) == 1:
        return unary_vertices(target, op, data_type, sizes, in_place=in_place)
    if len(numbers) == 2:
        chosen = scalar_vertices if _with_number(op, data_type, in_place, numbers) else binary_vertices
        return chosen(target, op, data_type, sizes, in_place=in_place)
    name = {"SELECT": "Select", "CLAMP": "Clamp"}[op]
    if op == "SELECT" and numbers[2] and not numbers[0] and not numbers[1]:
        name = "BroadcastSelectorSelect"
    elif (op == "SELECT" and numbers == (True, True, False)) or (op == "CLAMP" and numbers == (False, True, True)):
        name = f"Broadcast{name}"
    return ternary_vertices(target, name, data_type, sizes, in_place=in_place)


def _with_number(op: str, data_type: str, in_place: bool, numbers: tuple[bool, ...]) -> bool:
    """Whether the vertices of two operands take one of them as a number."""
    second = numbers[1] or (numbers[0] and op in COMMUTATIVE and not in_place)
    return second and scalar_entry(op, data_type, in_place) is not None
