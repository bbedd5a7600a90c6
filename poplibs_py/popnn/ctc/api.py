"""What a user asks of the plans of CTC."""

from __future__ import annotations

from ...ops import machine_to_plan
from ...planner import POPLIBS_PROPORTION, Memory
from ...target import Target
from ...target.types import data_type
from .params import InferenceParams, LossParams
from .plan import InferencePlan, LossPlan, planned_inference, planned_loss

__all__ = ["plan_ctc_inference", "plan_ctc_loss"]

_TYPES = ("float", "half")


def plan_ctc_loss(batch: int, time: int, labels: int, classes: int, *, dtype: object = "float16",
                  partials_type: str = "float", reduced_classes: bool = False,
                  available_memory_proportion: float | None = None, target: Target | str = "gc200") -> LossPlan:
    """Plan a CTC loss with its gradient on a modelled machine.

    Corresponds to PopLibs' ``popnn::ctc::plan``: the same split over tiles, the same cycles and bytes.

    Parameters
    ----------
    batch : int
        Sequences.
    time, labels : int
        Steps of the longest sequence, and labels of the longest one.
    classes : int
        Labels that there are, and the blank.
    dtype : Format, dtype or str, optional
        Of the probabilities: float32 or float16.
    partials_type : str, optional
        Of the sums of paths: ``"float"`` or ``"half"``.
    reduced_classes : bool, optional
        PopLibs' ``enableReducedClassesInLabel``: gradients are kept for the classes of a sequence's labels only.
    available_memory_proportion : float, optional
        The share of each tile's memory that temporaries may take; PopLibs' 0.6 by default.
    target : Target or str, optional
        The machine.

    Returns
    -------
    LossPlan
        Its `explain` tells the split, cycles and bytes.

    Raises
    ------
    InvalidTypeError, InvalidArgumentError
        If an argument is of the wrong kind or value.
    MemoryLimitError
        If no plan keeps to the limit: PopLibs has no plan then.
    UnsupportedError
        If the machine is this CPU or has more than 4,096 tiles.

    Examples
    --------
    >>> from poplibs_py import popnn
    >>> plan = popnn.plan_ctc_loss(16, 45, 16, 64, partials_type="half", available_memory_proportion=0.02)
    >>> plan.cycles, plan.tiles_used
    (26496, 544)
    """
    types = data_type("dtype", dtype, _TYPES), data_type("partials_type", partials_type, _TYPES)
    proportion = POPLIBS_PROPORTION if available_memory_proportion is None else available_memory_proportion
    params = LossParams(batch, time, labels, classes, *types, reduced_classes)
    return planned_loss(params, machine_to_plan(target), Memory(proportion))


def plan_ctc_inference(batch: int, classes: int, beams: int, *, target: Target | str = "gc200") -> InferencePlan:
    """Plan the search for the likeliest labels by beams on a modelled machine.

    Corresponds to PopLibs' ``popnn::ctc_infer::plan``: the same split over tiles.

    Parameters
    ----------
    batch : int
        Sequences.
    classes : int
        Labels that there are, and the blank.
    beams : int
        Sequences of labels that are kept at each step.
    target : Target or str, optional
        The machine.

    Returns
    -------
    InferencePlan

    Raises
    ------
    InvalidTypeError, InvalidArgumentError
        If an argument is of the wrong kind or value.
    UnsupportedError
        If the machine is this CPU or has more than 4,096 tiles.

    Examples
    --------
    >>> from poplibs_py import popnn
    >>> popnn.plan_ctc_inference(8, 100, 2).tiles_used
    792
    """
    return planned_inference(InferenceParams(batch, classes, beams), machine_to_plan(target))
