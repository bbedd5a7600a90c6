import numpy as np

ADD: np.dtype[np.void]
CLEAR: np.dtype[np.void]
REDUCE: np.dtype[np.void]
ROUND: np.dtype[np.void]
FINISH: np.dtype[np.void]
ADD_VERTEX: int
CLEAR_VERTEX: int
REDUCE_VERTEX: int
ROUND_VERTEX: int
FINISH_VERTEX: int
