from collections.abc import Sequence
from typing import Any

import numpy as np

max_threads: int

def memory_in_use() -> int: ...
def memory_peak(reset: bool = False) -> int: ...
def temporary(shape: tuple[int, ...], dtype: np.dtype[Any] | type = ...) -> np.ndarray[Any, Any]: ...
def guard_arenas(on: bool) -> None: ...

class Executable:
    threads: int
    scratch_bytes: int
    workspace_bytes: int
    def __init__(
        self,
        compute_sets: Sequence[Sequence[tuple[int, np.ndarray[Any, Any], np.ndarray[Any, Any]]]],
        n_operands: int,
        n_tiles: int,
        scratch_bytes: int,
        workspace_bytes: int,
        threads: int,
        tables: Sequence[np.ndarray[Any, Any]] = (),
    ) -> None: ...
    @property
    def temporary_bytes(self) -> int: ...
    def __call__(self, *arrays: np.ndarray[Any, Any]) -> None: ...

class Bound:
    def __init__(self, executable: Executable, *arrays: np.ndarray[Any, Any] | None) -> None: ...
    def __call__(self, *arrays: np.ndarray[Any, Any]) -> bool: ...

class Hold:
    def __init__(self, *arrays: np.ndarray[Any, Any] | None) -> None: ...
