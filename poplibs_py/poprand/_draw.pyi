from collections.abc import Callable
from typing import Any

import numpy as np

from ..kernels.registry import Kernel

def whole(name: str, value: object, low: int | None = None, high: int | None = None) -> int: ...
def finite(name: str, value: object, low: float = ..., high: float = ...) -> float: ...
def is_ipu(stream: object, target: object = None, tile_mapping: object = None) -> bool: ...
def shape_of(shape: object) -> tuple[int, ...]: ...
def output(shape: object, dtype: np.dtype[Any], out: object) -> np.ndarray[Any, Any]: ...
def seed_of(seed: object) -> int: ...
def modifier_of(seed_modifier: object) -> int: ...
def seed_default(seed: int | None, modifier: int) -> None: ...

ELEMENTS_PER_THREAD: int

class Draw:
    dtype: np.dtype[Any]
    def __init__(
        self,
        kernel: Kernel,
        dtype: np.dtype[Any],
        *,
        scale: float = 1,
        shift: float = 0,
        low: float = 0,
        high: float = 0,
        slope: float = 1,
        intercept: float = 0,
        bound: int = 0,
        one: int = 0,
        range: int = 1,
        threshold: int = 0,
        offset: int = 0,
    ) -> None: ...
    def fill(
        self,
        shape: object,
        out: object,
        seed: object,
        seed_modifier: object,
        offset: object,
        source: np.ndarray[Any, Any] | None = None,
        threads: int | None = None,
    ) -> np.ndarray[Any, Any]: ...

class Remembered:
    def __init__(self, function: Callable[..., Draw]) -> None: ...
    def __call__(self, *arguments: object) -> Draw: ...
