"""What a user asks of a pooling's plan."""

from __future__ import annotations

from collections.abc import Sequence

from ...errors import UnsupportedError, bad_argument, bad_type, one_of, whole
from ...ops import machine_to_plan
from ...popops.model import vector_of
from ...target import Target
from ...target.types import data_type
from .params import PoolParams
from .plan import PoolPlan, planned

__all__ = ["plan_pooling"]


def plan_pooling(op: str, shape: Sequence[int], kernel: int | Sequence[int], *,
                 stride: int | Sequence[int] | None = None, padding: int | Sequence[int] = 0, direction: str = "fwd",
                 dtype: object = "float16", channel_grouping: int | Sequence[int] = 1,
                 target: Target | str = "gc200") -> PoolPlan:
    """Plan a pooling on a modelled machine.

    Corresponds to the planner of PopLibs' ``popnn::pooling``: the same split over tiles, and the same cycles.

    Parameters
    ----------
    op : {"max", "sum", "avg"}
        What becomes of a window.
    shape : sequence of int
        Of the input: batch, channels and the field's extents.
    kernel : int or sequence of int
        Extents of a window, for all field dimensions or for each.
    stride : int or sequence of int, optional
        Elements from a window to the next; by default windows lie side by side.
    padding : int or sequence of int, optional
        Elements around the field, on both sides; negative numbers truncate it, as in PopLibs.
    direction : {"fwd", "bwd", "scale"}, optional
        The pooling, its gradient, or for ``"max"`` the counts by which PopLibs scales a gradient.
    dtype : Format, dtype or str, optional
        float32 or float16.
    channel_grouping : int or pair of int, optional
        How many channels lie together in the operand: as it is, and where PopLibs regroups it.
    target : Target or str, optional
        The machine.

    Returns
    -------
    PoolPlan
        Its `explain` tells the split and the cycles.

    Raises
    ------
    InvalidTypeError, InvalidArgumentError
        If an argument is of the wrong kind or value.
    UnsupportedError
        If there are fewer channels than a tile loads at once, or the machine is this CPU or has more than 4,096 tiles.

    Notes
    -----
    A pooling whose window is the whole field is a reduction in PopLibs, which is not planned.

    Examples
    --------
    >>> from poplibs_py import popnn
    >>> plan = popnn.plan_pooling("max", (4, 64, 13, 13), 3, stride=1, channel_grouping=2, target="gc200")
    >>> plan.cycles, plan.partition.field, plan.partition.per_group
    (2203, (2, 11), 4)
    """
    one_of("op", op, ("max", "sum", "avg"))
    one_of("direction", direction, ("fwd", "bwd", "scale") if op == "max" else ("fwd", "bwd"))
    if isinstance(shape, (str, bytes)) or not isinstance(shape, Sequence) or len(shape) < 3:
        raise bad_type("shape", shape, "a sequence of integers: batch, channels and field")
    batch, channels, *field = shape
    fields = len(field)
    window = _extents("kernel", kernel, fields)
    steps = window if stride is None else _extents("stride", stride, fields)
    around = _extents("padding", padding, fields)
    detected, regrouped = (whole("channel_grouping", n, 1, 1 << 31)
                           for n in _extents("channel_grouping", channel_grouping, 2))
    kind = data_type("dtype", dtype, ("float", "half"))
    params = PoolParams(op, direction, tuple(field), window, steps, around, around, channels, batch, kind)
    machine = machine_to_plan(target)
    least, every = vector_of(machine, kind), params.channels * (params.batch if direction == "fwd" else 1)
    if every < least:  # PopLibs moves some of the field into them, in a way that is not known
        raise UnsupportedError(f"shape: got {every} channels; allowed: {least} or more on {machine.name}")
    return planned(params, machine, (detected, regrouped))


def _extents(name: str, value: int | Sequence[int], count: int) -> tuple[int, ...]:
    """A number for each of so many dimensions."""
    if not isinstance(value, (list, tuple)):
        return (whole(name, value),) * count
    if len(value) != count:
        raise bad_argument(name, value, f"one number, or {count}")
    return tuple(whole(name, n) for n in value)
