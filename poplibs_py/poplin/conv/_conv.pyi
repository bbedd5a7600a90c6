from typing import Any

import numpy as np

ITEM: np.dtype[Any]
SPEC: np.dtype[Any]
BOX: np.dtype[Any]
WINDOW_ITEM: np.dtype[Any]
WINDOW_SPEC: np.dtype[Any]
WINDOW_BOX: np.dtype[Any]
VERTEX: int
AT_ONCE: int
WINDOW_VERTEX: int
WINOGRAD_VERTEX: int
WINOGRAD_KERNELS_VERTEX: int
BESIDE_VERTEX: int
MOST_OPERANDS: int
