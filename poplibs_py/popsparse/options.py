"""Options of sparse products: the limit on temporary memory, by keyword and in PopLibs' spelling."""

from __future__ import annotations

from typing import Any

from ..errors import bad_argument
from ..ops import parsed
from ..planner import Memory

_KNOWN = (
    "availableMemoryProportion", "doGradAPass", "doGradWPass", "enablePreprocessing", "enableStructuredRearrangements",
    "metaInfoBucketOversizeProportion", "nSplit", "numBands", "partialsType", "partitioner.forceBucketSpills",
    "partitioner.optimiseForSpeed", "partitioner.useActualWorkerSplitCosts", "planConstraints", "sharedBuckets",
    "verboseLogging",
)  # fmt: skip

_KEYS = dict.fromkeys(_KNOWN) | {"availableMemoryProportion": "available_memory_proportion",
                                "partialsType": "partials_type"}
_NO_LIMIT = Memory()


def memory_of(available_memory_proportion: Any = None, strict_memory: Any = False, options: Any = None) -> Memory:
    """Return what a call's arguments and PopLibs' options say of temporary memory, or raise: `poplibs_py.ops.parsed`.

    The other options of PopLibs' sparse products steer a modelled machine: they are known and change nothing here, save
    that partial sums are FP32.
    """
    if options is None and available_memory_proportion is None and strict_memory is False:
        return _NO_LIMIT
    share = Memory(available_memory_proportion, strict_memory).proportion
    said = parsed(options, _KEYS, _checked, {} if share is None else {"available_memory_proportion": share})
    return Memory(said.get("available_memory_proportion"), strict_memory)


def _checked(key: str, field: str, value: Any) -> Any:
    if field == "available_memory_proportion":
        return Memory(value).proportion
    if not (isinstance(value, str) and value in ("float", "float32")):
        raise bad_argument(key, value, "'float': sums are FP32")
    return "float"
