import numpy as np

ITEM: np.dtype[np.void]
FINISH: np.dtype[np.void]
CHAIN_VERTEX: int
FINISH_VERTEX: int
SETTLE_VERTEX: int
