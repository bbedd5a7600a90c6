import numpy as np

CLEAR: np.dtype[np.void]
REDUCE: np.dtype[np.void]
ROUND: np.dtype[np.void]
FINISH: np.dtype[np.void]
CLEAR_VERTEX: int
REDUCE_VERTEX: int
ROUND_VERTEX: int
FINISH_VERTEX: int
