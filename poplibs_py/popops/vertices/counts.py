"""What histograms and looking for NaN and infinities cost on a tile of a modelled machine: vertices' cycles."""

from __future__ import annotations

from ...target import Target
from ...target.types import TYPE_BYTES, vector_of


def _rest(half: bool, elements: int, absolute: bool) -> int:
    """Cycles of what is left beside whole loads."""
    if not half:
        return (2 + absolute) * (elements % 2)
    return (3 + absolute) * (elements % 2 + (elements % 4 >= 2))


def histogram_1d_cycles(target: Target, data_type: str, elements: int, levels: int, *, absolute: bool,
                        by_limits: bool) -> int:
    """Cycles of a tile to count one region's elements between limits (``Histogram1D``).

    Parameters
    ----------
    target, data_type
    elements, levels : int
        Of the region; what is counted, one more than limits.
    absolute : bool
        Whether signs are dropped.
    by_limits : bool
        Whether workers share the limits, else the data.
    """
    half, workers, each = data_type == "half", target.workers, 3 + absolute
    loads, limits = elements // vector_of(target, data_type), levels - 1
    if by_limits:
        once = (17 if half else 11) + _rest(half, elements, absolute) + each * loads
        return workers * (30 + once * -(-limits // workers) + 2 * limits)
    left = elements % 2 + (half and elements % 4 >= 2)
    once = (19 if half else 17) + each * (left + -(-loads // workers))
    return workers * ((28 if half else 27) + once * limits + 10)


def _nan(data_type: str, elements: int, both: bool) -> int:
    """Cycles of a worker to look through one region for NaN, or for infinities too."""
    if not elements:
        return 0
    if data_type == "half" and both:
        return 12 + 2 * (elements // 8) + 2 * (elements % 8).bit_count()
    each = 3 if data_type == "half" else 2 + both
    return (12 if data_type == "half" else 10) + each * (elements // 4) + 2 * (elements % 4 >= 2) + elements % 2


def _leave(data_type: str, both: bool) -> int:
    return both + (7 if data_type == "float" else 11)


def nan_1d_cycles(target: Target, data_type: str, loads: int, more: bool, rest: int, *, both: bool) -> int:
    """Cycles of a tile to look through one region (``HasNaNOrInf1D``).

    Parameters
    ----------
    target, data_type
    loads : int
        Whole loads of 8 bytes for each worker.
    more : bool
        Whether some workers have one more.
    rest : int
        Elements left.
    both : bool
        Whether infinities count too.
    """
    elements = (loads + more) * (8 // TYPE_BYTES[data_type]) + rest
    return target.workers * (17 + _nan(data_type, elements, both) + _leave(data_type, both)) + 24
