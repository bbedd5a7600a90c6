from typing import Any

import numpy as np

ITEM: np.dtype[Any]
SPEC: np.dtype[Any]
VERTEX: int
PREPARE_VERTEX: int

class Mode:
    DIRECT: int
    LINES: int
    TURNED: int
    PREPARED: int
    ALONG: int

class Sums:
    IN_PLACE: int
    TILE: int
    BLOCK: int
