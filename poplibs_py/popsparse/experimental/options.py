"""PopLibs' options of experimental block-sparse products, checked."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, ClassVar

from ...errors import InvalidOptionError, described
from ..plan_options import PlannerOptions, at_least_zero, count, positive, type_option

__all__ = ["BsMatmulOptions"]

_METHODS = ("strip", "block-naive")


def _method(key: str, value: object) -> str:
    if not isinstance(value, str) or value not in _METHODS:
        raise InvalidOptionError(f"{key}: got {described(value)}; allowed: {', '.join(map(repr, _METHODS))}")
    return value


def _passes(key: str, value: object) -> int:
    found: int = count(2**31 - 1)(key, value)
    if not found:
        raise InvalidOptionError(f"{key}: got 0; allowed: a whole number, 1 or more")
    return found


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

    available_memory_proportion: float = 0.0
    number_of_pass: int = 1
    memory_cycle_ratio: float = 0.2
    partition_method: str = "strip"
    partials_type: str = "float"

    spellings: ClassVar[Mapping[str, str]] = {
        "availableMemoryProportion": "available_memory_proportion",
        "numberOfPass": "number_of_pass",
        "memoryCycleRatio": "memory_cycle_ratio",
        "partitionMethod": "partition_method",
        "partialsType": "partials_type",
    }
    checks: ClassVar[Mapping[str, Any]] = {
        "available_memory_proportion": at_least_zero,
        "number_of_pass": _passes,
        "memory_cycle_ratio": positive,
        "partition_method": _method,
        "partials_type": type_option,
    }
