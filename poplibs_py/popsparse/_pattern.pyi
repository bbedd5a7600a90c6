from typing import Any

import numpy as np

def check(
    row_offsets: np.ndarray[Any, Any], column_indices: np.ndarray[Any, Any], block_columns: int
) -> tuple[str, int]: ...
