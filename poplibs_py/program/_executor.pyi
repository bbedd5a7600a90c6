from collections.abc import Callable
from collections.abc import Sequence as SequenceOf
from typing import Any, TypeVar

import numpy as np

Array = np.ndarray[Any, Any]
T = TypeVar("T")

copied_to: int
copied_alike: int
copy_of: int
first_part: int
most_operands: int
max_threads: int
least_bytes: int
sanitized: bool
handler: object  # the capsule of NumPy's C interface, "mem_handler"

def memory_in_use() -> int: ...
def memory_peak(reset: bool = False) -> int: ...
def in_c_order(array: Array) -> Array: ...
def temporary(shape: tuple[int, ...], dtype: np.dtype[Any] | type = ...) -> Array: ...
def guard_arenas(on: bool) -> None: ...

class Executable:
    program: Any
    phases: tuple[str, ...]
    threads: int
    scratch_bytes: int
    workspace_bytes: int
    def __init__(self, program: Any, threads: int) -> None: ...
    @property
    def operands(self) -> int: ...
    @property
    def temporary_bytes(self) -> int: ...
    def __call__(self, *arrays: Array) -> None: ...
    def timed(self, *arrays: Array) -> Array: ...

class OnArrays:
    operands: int
    def __init__(self, function: Callable[..., Any], like: SequenceOf[Array]) -> None: ...

class Sequence:
    programs: tuple[Any, ...]
    known: tuple[Any, ...]
    phases: tuple[str, ...]
    threads: int
    workspace_bytes: int
    refuse: Callable[..., Exception] | None
    def __init__(
        self,
        parts: SequenceOf[tuple[Executable | OnArrays, SequenceOf[int | tuple[int, int] | Array]]],
        operands: int,
        room: int = 0,
        status: SequenceOf[tuple[int, int, int]] = (),
        refuse: Callable[..., Exception] | None = None,
    ) -> None: ...
    @property
    def operands(self) -> int: ...
    @property
    def temporary_bytes(self) -> int: ...
    def within(
        self, places: tuple[tuple[int, int], ...]
    ) -> list[tuple[Executable | OnArrays, list[tuple[int, int] | Array]]]: ...
    def __call__(self, *arrays: Array) -> None: ...
    def timed(self, *arrays: Array) -> Array: ...

# Formats without a dtype are refused before a result is made: None raises TypeError.
def result_array(shape: tuple[int, ...], dtype: np.dtype[Any] | None) -> Array: ...
def result_array_like(array: Array, dtype: np.dtype[Any]) -> Array: ...
def pool_state() -> tuple[int, int, int, int, int]: ...
def set_pool_limit(bytes: int) -> None: ...
def arrays_in(value: object) -> int: ...
def number_word(value: object) -> tuple[int, int] | None: ...
def share_memory(a: np.ndarray[Any, Any], b: np.ndarray[Any, Any]) -> bool: ...
def value_words(ready: int, values: tuple[int, ...]) -> Array: ...
def forget_calls() -> None: ...
def key_by_identity(*kinds: type) -> None: ...
def key_by_parts(kind: type, written: int = 0) -> None: ...

class BoundCall:
    def __init__(
        self,
        program: Callable[..., Any] | None,
        sources: SequenceOf[int | Array],
        shape: tuple[int, ...],
        dtype: np.dtype[Any],
        strides: tuple[int, ...] | None = None,
        wrap: Callable[[Array, Any], Any] | None = None,
        values: int = 0,
        bytes: int = 0,
        own: int = 0,
        words: tuple[int, ...] = (),
        like: int = -1,
        given: int = -1,
        beside: Views | None = None,
        apart: tuple[int, ...] = (),
    ) -> None: ...

class Remake:
    def __init__(self, kind: type, same: tuple[str, ...], changed: tuple[str, ...]) -> None: ...
    def __call__(self, source: T, *values: Any) -> T: ...

class Wrapper:
    def __init__(
        self,
        kind: type,
        slot: str,
        same: tuple[str, ...],
        settled: dict[str, Any],
        before: tuple[Any, ...],
        after: tuple[Any, ...] = (),
    ) -> None: ...
    def __call__(self, array: Array, first: Any) -> Any: ...

class Views:
    def __init__(self, kind: type, parts: tuple[tuple[Any, ...] | Views | int | None, ...]) -> None: ...
    def __call__(self, array: Array, first: Any = None) -> Any: ...
    def beside(self, array: Array, result: Any) -> Any: ...
    def part(self, array: Array, number: int) -> Array: ...

class Key:
    places: dict[str, int]
    plain: set[int]
    values: int
    def holds(self, number: int, array: Array) -> bool: ...

class Face:
    function: Callable[..., Any]
    op: Any
    values: tuple[str, ...]
    def __init__(
        self,
        function: Callable[..., Any],
        road: Callable[[Face, Any, Key | None], Any],
        op: Any = None,
        written: str | None = "out",
        values: tuple[str, ...] = (),
        numbers: tuple[str, ...] = (),
    ) -> None: ...
    def __call__(self, *args: Any, **keywords: Any) -> Any: ...
    def keep(self, key: Key, bound: BoundCall) -> None: ...
    @property
    def kept(self) -> int: ...
