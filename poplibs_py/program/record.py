"""The record of what ran: operations tell it; `poplibs_py.profile` listens, and the log where it is on."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .. import log


@dataclass(frozen=True)
class Run:
    """One run of one operation.

    Attributes
    ----------
    op : str
        Its public name, for example ``"poplin.matmul"``.
    what : str
        Shapes and formats, for a reader.
    kernel : str
        The compiled kernel that did the work, and its instruction-set level.
    seconds : float
        Wall time of the run, without planning.
    plan : object
        The plan that it followed, None where an operation has none.
    phases : dict of str to float
        Wall seconds of each phase, where there is more than one.
    began, ended : float
        When, by `time.perf_counter`.
    thread : str
        Name of the thread that called.
    threads : int
        That might share the work.
    temporary_bytes : int or None
        That the program took beside its arrays, of all threads; None where it is not one of compute sets and vertices.
    read_bytes, written_bytes : int
        Of operands, each once, and of the result, as they lie in this machine's memory.
    flops : int or None
        Multiplications and additions of products, on what is stored; None where they are not counted.
    loads : dict of str to Load
        How evenly work is dealt out (`poplibs_py.planner.facts.Load`), by what it is, such as the stored blocks of a
        block row.
    tile_bytes, tile_macs : numpy.ndarray of int or None
        For each tile of a modelled machine: bytes of operands and results (of a product as they are laid out here, in
        FP32; of an elementwise operation in their own types), and multiply-accumulates of a product.
    exchanged_bytes : int or None
        Bytes that its tiles receive in all: operands in every turn, and partial sums.
    lacking : str
        What the modelled machine that a profile names lacks, so that the operation ran on this CPU.
    """

    op: str
    what: str
    kernel: str
    seconds: float
    plan: Any = None
    phases: dict[str, float] = field(default_factory=dict)
    began: float = 0.0
    ended: float = 0.0
    thread: str = ""
    threads: int = 1
    temporary_bytes: int | None = None
    read_bytes: int = 0
    written_bytes: int = 0
    flops: int | None = None
    loads: dict[str, Any] = field(default_factory=dict)
    tile_bytes: np.ndarray[Any, Any] | None = None
    tile_macs: np.ndarray[Any, Any] | None = None
    exchanged_bytes: int | None = None
    lacking: str = ""


@dataclass(frozen=True)
class Listener:
    """Who wants to know: a function of each `Run`, and the target to use where a call names none."""

    take: Callable[[Run], None]
    target: Any = None


listeners: list[Listener] = []
"""Who listens now: empty nearly always, and then the cheapest thing to ask is whether it is."""

_lock = threading.Lock()


def listening() -> bool:
    """Whether anybody wants to know."""
    return bool(listeners)


def asked_target() -> Any:
    """The target of the innermost listener that has one, or None."""
    return next((x.target for x in reversed(listeners) if x.target is not None), None)


def record(run: Run) -> None:
    """Tell every listener."""
    for listener in tuple(listeners):
        listener.take(run)


def start(listener: Listener) -> None:
    """Listen from now on, to every thread's runs."""
    with _lock:
        listeners.append(listener)


def stop(listener: Listener) -> None:
    """Listen no more."""
    with _lock:
        listeners.remove(listener)


def _log(run: Run) -> None:
    log.get(run.op.partition(".")[0]).info("%s %s: %s, %.3f ms", run.op, run.what, run.kernel, run.seconds * 1e3)


if log.is_on(logging.INFO):
    start(Listener(_log))
