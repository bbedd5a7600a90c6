from typing import Any

import numpy as np

def transpose(
    row_offsets: np.ndarray[Any, Any], column_indices: np.ndarray[Any, Any], groups: int, block_columns: int
) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any], np.ndarray[Any, Any]]: ...
