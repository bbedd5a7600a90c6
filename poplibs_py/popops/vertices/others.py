"""What vertices of popops cost that serve one op each: their cycles on a tile of a modelled machine, or on a worker."""

from __future__ import annotations

from ...target import Target

TRANSPOSED = {"float": (2, 3), "half": (4, 4)}
"""Of types that are transposed by vertices: rows and columns of the least block, and cycles of a step."""

def normalise_image_cycles(target: Target, data_type: str, pixels: int) -> int:
    """Cycles of a tile to normalise pixels of three channels to four (``NormaliseImage``)."""
    enter, each = {"unsigned char": (29, 8), "half": (52, 11), "float": (52, 17)}[data_type]
    return target.workers * (enter + each * (pixels // 8 + (pixels % 8 > 1)))


def spline_basis_cycles(data_type: str, elements: int) -> int:
    """Cycles of a worker for so many elements of a B-spline's basis (``SplineBasis``)."""
    return 30 * elements * (2 if data_type == "float" else 1)


def spline_weighting_cycles(data_type: str, channels: int, splines: int, elements: int) -> int:
    """Cycles of a worker to weight `channels` inputs by so many splines (``SplineWeighting``)."""
    return 15 * channels * splines * elements * (2 if data_type == "float" else 1)


def transpose_cycles(target: Target, data_type: str, blocks: int, rows: int, columns: int) -> int:
    """Cycles of a tile to transpose blocks, of whole least blocks each (``Transpose``)."""
    (grain, step), each = TRANSPOSED[data_type], -(-blocks // target.workers)
    down, across = rows // grain, columns // grain
    if (down, across) == (1, 1):
        worker = 29 if each == 1 else 37 + (each - 2) * step
    elif across == 1:
        worker = 27 + each * (35 + step * (down - 2))
    else:
        worker = 29 + each * (18 + down * (12 + step * (across - 2)))
    return 7 + target.workers * worker
