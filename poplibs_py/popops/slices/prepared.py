"""Functions made of an embedding's plan: rows read and updated as planned."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...errors import bad_argument, bad_type
from ...ops import Request, catalogue, check_fields, compiled, unchanged
from .api import row_slice, row_update
from .embedding.lower import UPDATES, HostEmbeddingPlan, plan_host
from .embedding.plan import EmbeddingPlan, planned


def compile_multi_slice(plan: EmbeddingPlan | HostEmbeddingPlan) -> Callable[..., Any]:
    """Make a plan into a function that reads rows, to use many times, from any number of threads.

    Parameters
    ----------
    plan : EmbeddingPlan or HostEmbeddingPlan
        As `plan_embedding` returned it, with ``used_for_slice``.

    Returns
    -------
    callable
        ``run(x, indices, *, index_policy="raise", out=None)``: `multi_slice` of a table of the planned shape and dtype,
        or `grouped_multi_slice` where there are groups, at no more indices than planned for. Its attribute ``plan`` is
        the plan.

    Raises
    ------
    InvalidTypeError, InvalidArgumentError
        If the plan is none that the planner makes, or is not for reading.

    Examples
    --------
    >>> from poplibs_py import popops
    >>> run = popops.compile_multi_slice(popops.plan_embedding(3, 1, 2, dtype="float32", target="host"))
    >>> run([[1.0], [2.0], [4.0]], [2, 0]).ravel()
    array([4., 1.], dtype=float32)
    """
    checked = _checked_plan(plan)
    if not checked.options.used_for_slice:
        raise bad_argument("plan", "used_for_slice=False", "a plan for reading")
    grouped = checked.params.groups > 1
    name = "grouped_" * grouped + "multi_slice"

    def run(x: Any, indices: Any, *, index_policy: str = "raise", out: Any = None) -> Request:
        return row_slice(name, x, indices, int(grouped), index_policy, out, checked.target, plan=checked)

    return _compiled(checked, name, run)


def compile_multi_update(plan: EmbeddingPlan | HostEmbeddingPlan) -> Callable[..., Any]:
    """Make a plan into a function that updates rows, to use many times, from any number of threads.

    Parameters
    ----------
    plan : EmbeddingPlan or HostEmbeddingPlan
        As `plan_embedding` returned it, with ``used_for_update``.

    Returns
    -------
    callable
        ``run(x, updates, indices, *, index_policy="raise", out=None)``: what the plan's ``operation_for_update`` says,
        `multi_update_add`, `multi_update_mul`, `multi_update_max` or `multi_update` (``"none"``), or the grouped one
        where there are groups; sums have a parameter ``scale`` behind ``indices``. For tables of the planned shape and
        dtype and no more indices than planned for. Its attribute ``plan`` is the plan.

    Raises
    ------
    InvalidTypeError, InvalidArgumentError
        If the plan is none that the planner makes, or is not for updates.

    Examples
    --------
    >>> from poplibs_py import popops
    >>> run = popops.compile_multi_update(popops.plan_embedding(3, 1, 2, dtype="float32", target="host"))
    >>> run([[1.0], [2.0], [4.0]], [[8.0], [8.0]], [2, 0], 0.5).ravel()
    array([5., 2., 8.], dtype=float32)
    """
    checked = _checked_plan(plan)
    if not checked.options.used_for_update:
        raise bad_argument("plan", "used_for_update=False", "a plan for updates")
    update = UPDATES[checked.options.operation_for_update]
    grouped = checked.params.groups > 1
    name = "grouped_" * grouped + "multi_update" + f"_{update}" * (update != "set")

    def request(x: Any, updates: Any, indices: Any, scale: Any, policy: Any, out: Any) -> Request:
        return row_update(name, x, updates, indices, int(grouped), policy, out, checked.target, scale, plan=checked)

    def add(x: Any, updates: Any, indices: Any, scale: float = 1.0, *, index_policy: str = "raise",
            out: Any = None) -> Request:
        return request(x, updates, indices, scale, index_policy, out)

    def run(x: Any, updates: Any, indices: Any, *, index_policy: str = "raise", out: Any = None) -> Request:
        return request(x, updates, indices, 1.0, index_policy, out)

    return _compiled(checked, name, add if update == "add" else run)


def _compiled(plan: EmbeddingPlan | HostEmbeddingPlan, name: str, run: Callable[..., Request]) -> Callable[..., Any]:
    return compiled(plan, catalogue[f"popops.{name}"], run, plan.explain().problem)


def _checked_plan(plan: Any) -> EmbeddingPlan | HostEmbeddingPlan:
    """Return a plan that the planner makes of its own problem, or raise."""
    if not isinstance(plan, EmbeddingPlan | HostEmbeddingPlan):
        raise bad_type("plan", plan, "a plan of plan_embedding")
    check_fields(plan)
    plans = planned if isinstance(plan, EmbeddingPlan) else plan_host
    checked: EmbeddingPlan | HostEmbeddingPlan = unchanged(plan, lambda: plans(plan.params, plan.options, plan.target))
    return checked
