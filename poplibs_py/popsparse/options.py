"""Options of sparse products: the limit on temporary memory, by keyword and in PopLibs' spelling."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..errors import bad_argument, bad_option, bad_type
from ..planner import Memory

__all__ = ["memory_of"]

_KNOWN = (
    "availableMemoryProportion", "doGradAPass", "doGradWPass", "enablePreprocessing", "enableStructuredRearrangements",
    "metaInfoBucketOversizeProportion", "nSplit", "numBands", "partialsType", "partitioner.forceBucketSpills",
    "partitioner.optimiseForSpeed", "partitioner.useActualWorkerSplitCosts", "planConstraints", "sharedBuckets",
    "verboseLogging",
)  # fmt: skip

_NO_LIMIT = Memory()


def memory_of(proportion: Any, strict: Any, options: Mapping[str, Any] | None) -> Memory:
    """Return what a call's arguments say of temporary memory, PopLibs' options first, or raise.

    The other options of PopLibs' sparse products steer a modelled machine: they are known and change nothing here, save
    that partial sums are FP32.
    """
    if options is None and proportion is None and strict is False:
        return _NO_LIMIT
    if options is not None:
        if not isinstance(options, Mapping):
            raise bad_type("options", options, "a mapping of option names to values")
        for key, value in options.items():
            if key not in _KNOWN:
                raise bad_option(key, _KNOWN)
            if key == "partialsType" and value not in ("float", "float32"):
                raise bad_argument(key, value, "'float': sums are FP32")
            if key == "availableMemoryProportion":
                proportion = _number(key, value) if isinstance(value, str) else value
    return Memory(proportion, strict)


def _number(key: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise bad_argument(key, text, "a number") from None
