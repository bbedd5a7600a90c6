from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.random import BitGenerator

class Xoroshiro128aox(BitGenerator):
    state: Any
    def __init__(self, seed: Any = None, *, state: Sequence[int] | np.ndarray[Any, Any] | None = None) -> None: ...
    def advance(self, delta: int) -> Xoroshiro128aox: ...
    def jumped(self, jumps: int = 1, *, exponent: int = 64) -> Xoroshiro128aox: ...
