from typing import Any

import numpy as np

def read_numbers(text: bytes, start: int, numbers: np.ndarray[Any, Any]) -> int: ...
