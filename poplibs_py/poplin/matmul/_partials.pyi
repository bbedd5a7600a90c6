import numpy as np

REDUCE: np.dtype[np.void]
FINISH: np.dtype[np.void]
REDUCE_VERTEX: int
FINISH_VERTEX: int
