"""Number formats as data: presets, user-defined formats, and which format an array is in."""

from .format import BF16, E4M3, E5M2, F143, F152, FORMATS, FP16, FP32, Format, format_of

__all__ = ["BF16", "E4M3", "E5M2", "F143", "F152", "FORMATS", "FP16", "FP32", "Format", "format_of"]
