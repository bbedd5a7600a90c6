"""What a user asks of an embedding's plan."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ....checks import whole
from ....errors import bad_argument, bad_type
from ....formats import Format
from ....ops import check_mapping, host_target
from ....target import MOST_TILES, Target, modelled_machine, resolve_target
from ....target.types import INTEGER_WORDS, data_type
from ...making.made import element_of
from .lower import HostEmbeddingPlan, plan_host
from .options import EmbeddingOptions
from .params import TYPES, EmbeddingParams
from .plan import EmbeddingPlan, planned

_UPDATED = ("float", "half", "int", "unsigned int")


def plan_embedding(entries: int, width: int, lookups: int | Sequence[int] = (), *, dtype: object = "float16",
                   groups: int = 1, options: Mapping[str, Any] | None = None, target: Target | str = "gc200",
                   **more: Any) -> EmbeddingPlan | HostEmbeddingPlan:
    """Plan reading and updating the rows of a table by index: for a modelled machine as PopLibs does, or for this CPU.

    Corresponds to PopLibs' ``popops::embedding::plan``: the same partition, first tile, cycles and bytes.

    Parameters
    ----------
    entries, width : int
        Rows of the table, and elements of a row.
    lookups : int or sequence of int, optional
        How many rows are read or updated by a call, or by each of several; by default one.
    dtype : Format, dtype or str, optional
        The table's: float32, float16, or a type in PopLibs' words, such as ``"unsigned int"``; on this CPU any format
        that has a dtype, integers and truth values.
    groups : int, optional
        Tables side by side.
    options : mapping, optional
        PopLibs' options, in its spelling: ``availableMemoryProportion`` (0.6; none on this CPU), ``usedForSlice``,
        ``usedForUpdate`` (True), ``operationForUpdate`` (``"add"``, ``"mul"``, ``"max"``, ``"none"``), ``partialType``,
        ``indicesDistribution`` (``"uniform"``, ``"onePoint"``), ``indicesAreSorted``, ``validateIndices`` (False) and
        ``planConstraints``.
    target : Target or str, optional
        The machine; ``"host"`` is this CPU.
    **more
        Options by keyword, such as ``available_memory_proportion=0.2``, and ``strict_memory``.

    Returns
    -------
    EmbeddingPlan or HostEmbeddingPlan
        Its `explain` tells partition, cycles and bytes; on this CPU kernels, threads, and how many updates are sorted
        at a time. `compile_multi_slice` and `compile_multi_update` make it into functions.

    Raises
    ------
    InvalidTypeError, InvalidArgumentError, InvalidOptionError
        If an argument or an option is of the wrong kind or value.
    PlanError
        If no plan meets ``planConstraints``.
    MemoryLimitError
        If none keeps to the memory limit and ``strict_memory=True``.
    UnsupportedError
        If the machine has more than 4,096 tiles.

    Warns
    -----
    MemoryLimitWarning
        If none keeps to the memory limit: the fastest of all is returned, as by PopLibs; on this CPU the one that
        takes least.

    Notes
    -----
    The cost counts reading once and updating once. PopLibs' costs are sums of its estimates of vertices and exchange.
    On this CPU updates of formats other than float32 are sorted, as many at a time as the limit has room for. Options
    that say what indices are like change nothing there.

    Examples
    --------
    >>> from poplibs_py import popops
    >>> plan = popops.plan_embedding(250000, 100, 256, dtype="float32")
    >>> plan.partition.sliced, plan.partition.unsliced, plan.cycles
    (29, 50, 12500)
    """
    check_mapping(options)
    if isinstance(lookups, (str, bytes)) or not isinstance(lookups, (int, Sequence)):
        raise bad_type("lookups", lookups, "an integer or a sequence of integers")
    counts = (lookups,) if isinstance(lookups, int) else tuple(lookups)
    host = resolve_target(target).kind == "host"
    kind = _element(dtype) if host else data_type("dtype", dtype, TYPES)
    params = EmbeddingParams(kind, entries, width, counts, whole("groups", groups, 1))
    checked = EmbeddingOptions.parse(options, more)
    if host:
        return plan_host(params, checked, host_target(None if target == "host" else target, "plan_embedding"))
    machine = modelled_machine(target, MOST_TILES)
    _check_types(params.data_type, checked)
    return planned(params, checked, machine).checked("plan_embedding")


def _check_types(kind: str, options: EmbeddingOptions) -> None:
    """Refuse updates that PopLibs has no vertices for."""
    if options.partial_type == "half" and kind == "float":
        raise bad_argument("partial_type", "half", "'float' for a table of floats")
    if options.used_for_update and options.operation_for_update != "none" and kind not in _UPDATED:
        raise bad_argument("operation_for_update", options.operation_for_update,
                           f"'none', or used_for_update=False, where the table is not of {', '.join(_UPDATED)}")


def _element(dtype: Any) -> str:
    """The name of what a table is of on this CPU."""
    found = element_of(INTEGER_WORDS.get(dtype, dtype) if isinstance(dtype, str) else dtype, None, None)
    if isinstance(found, Format) and found.dtype is None:
        raise bad_type("dtype", dtype, "a format that has a dtype")
    return str(found.name)
