"""How PopLibs' dynamic sparse layers are planned and their patterns partitioned: the options, checked."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, ClassVar

from ...ops.planner_options import PlannerOptions, at_least_zero, option, type_option
from ...planner.constraints import PlanConstraints, boolean, unsigned


class FullyConnectedConstraints(PlanConstraints):
    """What must hold of a layer's plan: PopLibs' ``planConstraints`` option.

    The schema is PopLibs'::

        {"partition": {"x": 64, "y": 11, "z": 2}, "exchange": {"gradWExchangeBuckets": true}, "useDense": false}

    Examples
    --------
    >>> from poplibs_py.popsparse.fully_connected import FullyConnectedConstraints
    >>> FullyConnectedConstraints.parse({"partition": {"x": 4}}).get("partition.x")
    4
    """

    schema: ClassVar[Mapping[str, Any]] = {"partition": {"x": unsigned, "y": unsigned, "z": unsigned},
                                           "exchange": {"gradWExchangeBuckets": boolean}, "useDense": boolean}


UNCONSTRAINED = FullyConnectedConstraints()


@dataclasses.dataclass(frozen=True)
class FullyConnectedOptions(PlannerOptions):
    """PopLibs' options of dynamic sparse layers; every field has PopLibs' default.

    `FullyConnectedOptions.parse` takes PopLibs' spelling (``doGradAPass``) as well as Python's (``do_grad_a_pass``).

    Parameters
    ----------
    available_memory_proportion : float
        Share of tile memory that temporary data may use: 0 or more, default 0.6, above 1 allowed. Where no plan fits,
        the limit doubles until it has passed twice the tile's memory, and is then dropped. With 0 PopLibs makes no plan
        at all; here that is refused.
    meta_info_bucket_oversize_proportion : float
        How much more a bucket holds than an even share of a uniform pattern, in proportion (default 0.3).
    do_grad_a_pass, do_grad_w_pass : bool
        Plan the gradient of the activations, of the weights, too (default False).
    partials_type : str
        Type of partial sums, ``"float"`` (default) or ``"half"``; float for single elements, whatever is asked for, and
        never smaller than the data type.
    shared_buckets : bool
        Use the forward pass' buckets for the gradient of the activations too (default True).
    enable_structured_rearrangements : bool
        Taken and kept; plans do not depend on it.
    optimise_for_speed, force_bucket_spills, use_actual_worker_split_costs : bool
        How patterns are put into buckets: see `poplibs_py.popsparse.partitioner`. PopLibs spells them
        ``partitioner.optimiseForSpeed`` (default True), ``partitioner.forceBucketSpills`` and
        ``partitioner.useActualWorkerSplitCosts`` (default False).
    plan_constraints : FullyConnectedConstraints
        What the plan must be. PopLibs leaves them out of the key of its plan cache; here they are part of it.
    strict_memory : bool
        Raise `MemoryLimitError` where no plan keeps to the limit, instead of warning (default False).
    """

    meta_info_bucket_oversize_proportion: float = option(0.3, at_least_zero)
    do_grad_a_pass: bool = option(False)
    do_grad_w_pass: bool = option(False)
    partials_type: str = option("float", type_option)
    shared_buckets: bool = option(True)
    enable_structured_rearrangements: bool = option(True)
    optimise_for_speed: bool = option(True, spelling="partitioner.optimiseForSpeed")
    force_bucket_spills: bool = option(False, spelling="partitioner.forceBucketSpills")
    use_actual_worker_split_costs: bool = option(False, spelling="partitioner.useActualWorkerSplitCosts")
    plan_constraints: FullyConnectedConstraints = option(UNCONSTRAINED, lambda key, it: UNCONSTRAINED.parse(it, key))
    strict_memory: bool = option(False)
