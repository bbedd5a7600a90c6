"""How a convolution on this CPU is to be done: the options of products, in PopLibs' spelling for convolutions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ...ops import parsed
from ..gemm.options import GemmOptions
from ..tile_conv.options import ConvOptions

OF_EVERY_MACHINE = {"available_memory_proportion", "partials_type", "strict_memory"}
"""Options that this CPU knows as a modelled machine does."""
_KEYS = {key: name if name in OF_EVERY_MACHINE else None for key, name in ConvOptions.spellings().items()}


def parse_options(options: Mapping[str, Any] | None, base: GemmOptions) -> GemmOptions:
    """Apply PopLibs' convolution options to what keywords say: see `poplibs_py.ops.parsed`.

    Keys that only steer a modelled tile array (for example ``enableFastReduce``) are known and change nothing here.
    """
    if options is None:
        return base
    said = {name: value for name, value in base.said().items() if name in OF_EVERY_MACHINE}
    return replace(base, **parsed(options, _KEYS, ConvOptions.checked, said))
