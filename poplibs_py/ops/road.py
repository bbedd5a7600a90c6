"""The road: what every call of every op goes through, once it is described.

A face's function returns a `Request`: the program, where its operands come from, what receives the result. `travel`
runs it, records it, and keeps it as a bound call for the next call of its kind, which then runs in compiled code alone
(`src_cython/program/calls.pxi`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter
from typing import Any, Literal

import numpy as np

from ..program import BoundCall, Executable, Face, Key, value_words
from ..program.record import Run, listening, record
from .operands import Array, Operand, Receiver

__all__ = ["RESULT", "VALUES", "Request", "travel"]

RESULT: Literal[-1] = -1
"""In a request's operands: what receives the result."""

VALUES: Literal[-2] = -2
"""In a request's operands: the block of words that each call has of its own, such as a seed."""

Told = tuple[str, str, Any]


@dataclass(frozen=True, eq=False, slots=True)
class Request:
    """A call as its face describes it.

    Attributes
    ----------
    program : Executable, callable or None
        What runs on the operands' arrays, in order; None where there is nothing to do. Only an `Executable` is kept for
        the next call.
    operands : tuple
        Each an `Operand` of the call, an array that is the same in every such call, `RESULT` or `VALUES`.
    receiver : Receiver
        What receives the result.
    tell : callable
        Returns what ran, for a reader, its kernel and its plan: called where somebody listens.
    values : tuple of int
        The words of `VALUES`, as the face's `values` parameters give them.
    ready : int
        Address of what makes those words ready; see `BoundCall`.
    wrap : callable, optional
        Makes a new array into what is returned, given it and the call's first argument.
    first : object, optional
        That argument.
    like : Operand, optional
        What the result is shaped like, where calls that differ in that are of one kind.
    """

    program: Callable[..., Any] | None
    operands: tuple[Operand | Array | int | None, ...]
    receiver: Receiver
    tell: Callable[[], Told]
    values: tuple[int, ...] = ()
    ready: int = 0
    wrap: Callable[[Array, Any], Any] | None = None
    first: Any = None
    like: Operand | None = None


def travel(face: Face, request: Request, key: Key | None) -> Any:
    """Run what a face described, tell whoever listens, and keep it for the next call with this key."""
    receiver = request.receiver
    began = perf_counter()
    phases = None
    if request.program is not None and receiver.array.size:
        words = value_words(request.ready, request.values) if VALUES in _kinds(request) else None
        phases = request.program(*(_array_of(x, receiver, words) for x in request.operands))
    if listening():
        what, kernel, plan = request.tell()
        more = phases if isinstance(phases, dict) else {}
        record(Run(face.op.name, what, kernel, perf_counter() - began, plan, **more))
    elif key is not None:
        bound = _bound(request, key)
        if bound is not None:
            face.keep(key, bound)
    return receiver.finish(request.wrap, request.first)


def _kinds(request: Request) -> list[int]:
    return [x for x in request.operands if isinstance(x, int)]


def _array_of(operand: Operand | Array | int | None, receiver: Receiver, words: Array | None) -> Array:
    if isinstance(operand, Operand):
        return operand.array
    if isinstance(operand, np.ndarray):
        return operand
    array = receiver.array if operand == RESULT else words
    assert array is not None
    return array


def _bound(request: Request, key: Key) -> BoundCall | None:
    """Return the bound call of a request whose arrays are all the call's own, or None."""
    receiver, program = request.receiver, request.program
    if not (program is None or isinstance(program, Executable)) or not receiver.keeps:
        return None
    sources: list[int | Array] = []
    size = receiver.array.nbytes
    for operand in request.operands:
        if isinstance(operand, Operand):
            if operand.place is None:
                return None
            name, part = operand.place
            sources.append(key.places[name] + part)
            size += operand.array.nbytes
        else:
            assert operand is not None
            sources.append(operand)
    like = -1
    if request.like is not None:
        if request.like.place is None:
            return None
        name, part = request.like.place
        like = key.places[name] + part
    array = receiver.array
    strides = None if array.flags.c_contiguous else array.strides
    program = program if array.size else None
    return BoundCall(program, sources if program else [], array.shape, array.dtype, strides, receiver.wrapping(request.wrap),
                     request.ready, size, like)
