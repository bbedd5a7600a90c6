from typing import Any

import numpy as np

BLOCKS: np.dtype[Any]
BLOCKS_VERTEX: int
