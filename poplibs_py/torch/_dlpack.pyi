from collections.abc import Mapping
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

class Bridge:
    def __init__(self, kinds: Mapping[np.dtype[Any], tuple[int, int]]) -> None: ...
    def array(self, capsule: object) -> Array: ...
    def capsule(self, array: Array) -> object: ...
