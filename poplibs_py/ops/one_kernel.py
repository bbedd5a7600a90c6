"""What an op that one kernel serves runs: units shared by threads, and what of it is told to a reader."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ..formats import FP32, Array, Format
from ..kernels import Kernel, Selection, select
from ..kernels.records import format_facts, infinite_overflow, kernel_format, numbers_of
from ..planner import Explanation, Temporaries
from ..planner.explain import PlanDefaults, considered_kernels
from ..program import ComputeSet, Executable, Segment, shares_of, spread

_NEAREST = numbers_of("rounding")["nearest-even"]


@dataclass(frozen=True, eq=False)
class OneKernel(PlanDefaults):
    """What runs, ready, and for a reader its kernel.

    Attributes
    ----------
    params : object
        What is computed; as text it says so.
    executable : Executable
    selection : Selection
    again : (callable, tuple)
        What returns it again, and its arguments.
    decided : mapping of str to str
        What was decided besides the kernel and the threads.
    way : str
        What tells functions of the same params apart.
    temporaries : Temporaries or None
        What a run needs beside its operands, and may take, where a limit is planned for.
    """

    params: Any
    executable: Executable
    selection: Selection
    again: tuple[Callable[..., Any], tuple[Any, ...]]
    decided: Mapping[str, str] = field(default_factory=dict)
    way: str = ""
    temporaries: Temporaries | None = None

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return _again, (self.again, self.temporaries)

    @property
    def kernel(self) -> str:
        """The kernel, for a reader."""
        return self.selection.kernel.label

    @property
    def threads(self) -> int:
        """How many threads share the work."""
        return self.executable.threads

    def told(self) -> tuple[str, str, OneKernel]:
        """Return what tells of it."""
        return str(self.params), self.kernel, self

    def explain(self) -> Explanation:
        """Return what was decided."""
        decided = {"kernel": self.kernel, **self.decided, "threads": str(self.threads)}
        decided |= {} if self.temporaries is None else {"memory": str(self.temporaries)}
        return Explanation(f"{self.way} {self.params}".lstrip(), decided, considered_kernels(self.selection))


def _again(made: tuple[Callable[..., OneKernel], tuple[Any, ...]], temporaries: Temporaries | None) -> OneKernel:
    """Make it again, in another process."""
    make, arguments = made
    return replace(make(*arguments), temporaries=temporaries)


def from_to(read: Iterable[Format | None], made: Iterable[Format | None]) -> str:
    """Return formats that are read and made, each once, in words; None is that of what is no number.

    Examples
    --------
    >>> from poplibs_py.formats import FP16, FP32
    >>> from poplibs_py.ops.one_kernel import from_to
    >>> from_to([FP16, FP32, FP32], [FP16, None])
    'float16, float32 to float16'
    """
    return " to ".join(", ".join(dict.fromkeys(str(x) for x in formats if x)) for formats in (read, made))


def fill_cast(slot: Any, dtype: Format, exponent: int, written: bool, cast: str = "cast", codec: str = "codec") -> None:
    """Describe how numbers of a format, at a scale, are cast to or from float32, and by what kernel, in a record's
    fields of these names."""
    own, wide, name = format_facts(dtype, exponent), format_facts(FP32), kernel_format(dtype)
    slot[cast]["from"], slot[cast]["to"] = (wide, own) if written else (own, wide)
    slot[cast]["rounding"], slot[cast]["overflow"] = _NEAREST, infinite_overflow(dtype)
    kind, formats = ("encode", f"float32->{name}") if written else ("decode", f"{name}->float32")
    slot[codec] = select("cast", kind, formats).kernel.address


def shared(kernel: Kernel, item: np.dtype[Any], spec: Array, units: int, threads: int) -> ComputeSet:
    """Return a vertex on each of so many threads, with a run of the units each, as equal as may be.

    Parameters
    ----------
    kernel : Kernel
    item : numpy.dtype
        Of a record of work: its `spec`, its `first` unit and their `count`; perhaps its `share`, the thread's number.
    spec : numpy.ndarray
        What all have in common.
    units, threads : int
    """
    items = np.zeros(threads, item)
    items["spec"] = spec.ctypes.data
    items["first"], items["count"] = shares_of(units, threads)
    if "share" in (item.names or ()):
        items["share"] = np.arange(threads)
    return ComputeSet("", (Segment(kernel.address, items, spread(threads, threads)),))
