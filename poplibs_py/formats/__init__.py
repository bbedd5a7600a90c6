"""Number formats as data: presets, user-defined formats, arrays of codes with scales, and the reference codec."""

from ..lazy import submodules_on_demand
from . import format as _format
from .arrays import Array as Array
from .arrays import Floats as Floats
from .format import BF16, E4M3, E5M2, F143, F152, FORMATS, FP16, FP32, Format, format_of
from .metadata import pack_metadata, unpack_metadata
from .quarter import QuarterArray
from .scales import auto_scale

# A preset needs no word in the import above, which type checkers read: its constant is offered all the same.
_PRESETS = {name: value for name, value in vars(_format).items() if isinstance(value, Format)}
globals().update(_PRESETS)

__all__ = ["BF16", "E4M3", "E5M2", "F143", "F152", "FORMATS", "FP16", "FP32", "Format", "QuarterArray", "auto_scale",
           "format_of", "pack_metadata", "unpack_metadata"]

__all__ += sorted(_PRESETS.keys() - {*__all__})

__getattr__, __dir__ = submodules_on_demand(__name__)
