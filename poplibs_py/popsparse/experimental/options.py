"""PopLibs' options of experimental block-sparse products, checked."""

from __future__ import annotations

import dataclasses

from ...ops.planner_options import PlannerOptions, at_least_zero, count, option, positive, type_option, word


@dataclasses.dataclass(frozen=True)
class BsMatmulOptions(PlannerOptions):
    """PopLibs' options of ``bsMatMul``. On this CPU all but the first are checked and change nothing.

    Parameters
    ----------
    available_memory_proportion : float
        On this CPU the limit on temporary bytes, as of other sparse products; 0, the default, for none. PopLibs has no
        such option here, and it changes nothing on modelled machines.
    number_of_pass : int
        Parts of the dense operand's rows, made one after the other (default 1; with groups 1 alone).
    memory_cycle_ratio : float
        Taken and kept: it weighs memory in hypergraph partitions, of which there are none here (default 0.2, as
        PopLibs' code has it; its documentation says 1).
    partition_method : {"strip", "block-naive"}
        How blocks are dealt to tiles: ``"strip"``, the default, whole columns of blocks, balanced; ``"block-naive"``
        equal runs of blocks. PopLibs' partitions by hypergraphs are refused.
    partials_type : {"float", "half"}
        Of partial sums (default float), never smaller than the data type: in PopLibs one of ``BSMatMulParams``.

    Examples
    --------
    >>> from poplibs_py.popsparse.experimental import BsMatmulOptions
    >>> BsMatmulOptions.parse({"partitionMethod": "block-naive"}).number_of_pass
    1
    """

    available_memory_proportion: float = option(0.0, at_least_zero)
    number_of_pass: int = option(1, count(2**31 - 1, 1))
    memory_cycle_ratio: float = option(0.2, positive)
    partition_method: str = option("strip", word("strip", "block-naive"))
    partials_type: str = option("float", type_option)
