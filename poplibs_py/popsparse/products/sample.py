"""Dense times dense at a sparse pattern: the gradient of the stored values, without a dense intermediate."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from time import perf_counter
from typing import Any

import numpy as np

from ...errors import MemoryBoundError, MemoryBoundWarning, UnsupportedError, bad_argument, warn
from ...formats import format_of
from ...kernels.registry import Kernel, select
from ...log import tell
from ...program import Executable, result_array
from ...program.record import Run, listening, record
from ..matrix import BlockSparseMatrix
from .forward import threads_for
from .items import FORMAT_NUMBERS, PANEL, SAMPLE, infinite_overflow
from .memory import Memory
from .multiply import Dense, domain_of, itemsize_of
from .operands import check_rows, dense_operand, describe, receiver, result_operand

__all__ = ["Layout", "Sampling", "lay_out", "program", "sample", "sampled_domain"]

Array = np.ndarray[Any, Any]

_SAMPLE_CHUNK = 4096
_ELEMENTS = 8
_LEAST_COLUMNS = 32


@dataclass(frozen=True)
class Sampling:
    """Everything about sampled ``dY X'`` that its program depends on.

    `bound` is the temporary bytes that a thread may take, or None.
    """

    shape: tuple[int, int]
    block_shape: tuple[int, int]
    groups: int
    columns: int
    threads: int
    domain: str
    y: Dense
    x: Dense
    to_format: str
    to_scale: int
    bound: int | None = None

    def lies_well(self, operand: Dense) -> bool:
        """Whether the kernel can read an operand where it is."""
        unit = operand.strides[2] == itemsize_of(operand.format)
        return operand.format == self.domain and not operand.scale and unit and operand.aligned

    @property
    def met_in(self) -> str:
        """What both operands are read as: FP16 only where both can be read where they are."""
        as_they_are = self.lies_well(self.y) and self.lies_well(self.x)
        return self.domain if as_they_are or self.domain != "float16" else "float32"

    @property
    def kernel(self) -> Kernel:
        """What multiplies."""
        return select("sparse", "sample", f"{self.met_in},{self.met_in}->{self.to_format}").kernel

    def decodes(self, operand: Dense) -> bool:
        """Whether rows of an operand must be decoded."""
        return not (operand.format == self.met_in and self.lies_well(operand))


@dataclass(frozen=True)
class Layout:
    """Where a sampled product decodes its operands.

    Attributes
    ----------
    y_pack, x_pack : bool
        Whether rows of dY, of X are decoded to panels in each thread's scratch, block by block.
    workspace : int
        Bytes of the whole of X decoded once, or 0.
    chunk : int
        Columns of a panel in scratch.
    scratch : int
        Temporary bytes of a thread.
    """

    y_pack: bool
    x_pack: bool
    workspace: int
    chunk: int
    scratch: int


def lay_out(s: Sampling) -> Layout:
    """Return the fastest layout within the bound, or, where none is, the one that takes the least.

    All of X decoded once comes first, then rows of X decoded for each block that meets them, in as many columns at a
    time as there is room for. Columns at a time are the order of the sums, so that one thread's room decides for any
    number of threads.
    """
    size = itemsize_of(s.met_in)
    y_pack, x_away = s.decodes(s.y), s.decodes(s.x)
    sums = 4 * max(_SAMPLE_CHUNK, s.block_shape[1]) * (1 + (y_pack or x_away))
    y_line = _panel_rows(s) * size * y_pack
    whole = Layout(y_pack, False, s.groups * s.shape[1] * _line(s, size) * x_away, s.columns, sums + y_line * s.columns)
    if s.bound is None or whole.workspace + whole.scratch <= s.bound:
        return whole
    line = y_line + max(s.block_shape[1], _ELEMENTS if s.block_shape == (1, 1) else 1) * size * x_away
    fit = (s.bound - sums) // max(1, line) // _LEAST_COLUMNS * _LEAST_COLUMNS
    chunk = min(s.columns, max(_LEAST_COLUMNS, fit)) if line else s.columns
    return Layout(y_pack, x_away, 0, chunk, sums + line * chunk)


def _panel_rows(s: Sampling) -> int:
    return min(s.block_shape[0], max(1, _SAMPLE_CHUNK // s.block_shape[1]))


def _line(s: Sampling, size: int) -> int:
    return -(-s.columns * size // 64) * 64


@lru_cache
def sampled_domain(y_format: str, x_format: str) -> str:
    """Return what both operands of a gradient of the weights are read as, where they lie well."""
    if y_format == x_format == "float16":
        try:
            select("sparse", "sample", "float16,float16->any")
        except UnsupportedError:
            return "float32"
        return "float16"
    return domain_of(y_format, x_format)


@lru_cache(maxsize=128)
def program(s: Sampling) -> Executable:
    """Return the executable; its operands are row offsets, column indices, dY, X, values."""
    layout, domain = lay_out(s), s.met_in
    tell("popsparse", f"sparse_grad_w of {s.shape} at blocks of {s.block_shape}, {s.columns} columns: "
                      f"{s.kernel.name} ({s.kernel.level}), {s.threads} threads, {layout}")
    shares = 1 if s.groups >= s.threads else s.threads
    items = np.zeros((shares, s.groups), SAMPLE)
    groups = np.arange(s.groups)
    items["inner"], items["y"], items["x"], items["to"] = range(1, 5)
    items["n_rows"] = -(-s.shape[0] // s.block_shape[0])
    items["origin"] = groups * items["n_rows"]
    items["part"], items["parts"] = np.arange(shares)[:, None], shares
    items["rows"], items["depth"] = s.shape
    items["columns"], items["chunk"] = s.columns, max(1, layout.chunk)
    items["block_rows"], items["block_depth"] = s.block_shape
    items["panel_rows"] = _panel_rows(s)
    items["y_pack"], items["x_pack"] = layout.y_pack, layout.x_pack
    for name, operand in (("y", s.y), ("x", s.x)):
        items[f"{name}_offset"] = groups * operand.strides[0]
        items[f"{name}_row"], items[f"{name}_column"] = operand.strides[1:]
        items[f"{name}_format"], items[f"{name}_scale"] = FORMAT_NUMBERS[operand.format], operand.scale
    first_set = []
    if layout.workspace:
        row_bytes = _line(s, itemsize_of(domain))
        first_set.append(_panels(s, domain, row_bytes))
        items["x"], items["x_offset"] = 5, groups * s.shape[1] * row_bytes
        items["x_row"], items["x_column"] = row_bytes, itemsize_of(domain)
    items["to_format"], items["to_scale"] = FORMAT_NUMBERS[s.to_format], s.to_scale
    items["overflow"] = infinite_overflow(format_of(s.to_format))
    flat = items.reshape(-1)
    tiles = np.arange(flat.size) * s.threads // max(1, flat.size)
    compute_sets = [first_set] * bool(first_set) + [[(s.kernel.address, flat, tiles)]]
    return Executable(compute_sets, 5, s.threads, layout.scratch, layout.workspace, s.threads)


def _panels(s: Sampling, domain: str, row_bytes: int) -> tuple[int, Array, Array]:
    # All of X, decoded.
    operand, rows = s.x, s.shape[1]
    items = np.zeros((s.threads, s.groups), PANEL)
    groups = np.arange(s.groups)
    items["from"], items["to"] = 3, 5
    items["from_offset"] = groups * operand.strides[0]
    items["to_offset"] = groups * rows * row_bytes
    items["row"], items["column"], items["to_row"] = *operand.strides[1:], row_bytes
    items["rows"], items["columns"] = rows, s.columns
    items["part"], items["parts"] = np.arange(s.threads)[:, None], s.threads
    items["format"], items["scale"] = FORMAT_NUMBERS[operand.format], operand.scale
    address = select("sparse", "panel", f"{operand.format}->{domain}").kernel.address
    flat = items.reshape(-1)
    return address, flat, np.arange(flat.size) // s.groups


def _bounded(s: Sampling, memory: Memory) -> None:
    # Complain where no layout keeps to the bound.
    layout = lay_out(s)
    taken, allowed = layout.workspace + s.threads * layout.scratch, (s.bound or 0) * s.threads
    if s.bound is None or taken <= allowed:
        return
    text = (f"sparse_grad_w: available_memory_proportion={memory.proportion} leaves {allowed} bytes; the least that "
            f"any plan takes is {taken}")
    if memory.strict:
        raise MemoryBoundError(text)
    warn(text + "; the bound was raised", MemoryBoundWarning)


def sample(w: BlockSparseMatrix, dy: object, x: object, *, out: object | None = None, out_dtype: object = None,
           memory: Memory, x_name: str = "acts") -> Any:
    """Return the stored values of ``dY X'`` at the pattern of a matrix that is known to be one."""
    left, right = dense_operand("grads", dy), dense_operand(x_name, x)
    check_rows("grads", left.array, w.shape[0], w.groups)
    check_rows(x_name, right.array, w.shape[1], w.groups)
    columns = left.array.shape[-1]
    if right.array.shape[-1] != columns or right.array.ndim != left.array.ndim:
        raise bad_argument(x_name, f"shape {right.array.shape}", f"as many columns as grads, {columns}")
    if w.is_transposed:
        left, right = right, left
    made = result_operand(w.blocks.shape, receiver(out), out_dtype, left.given, right.given)
    values = made.array
    target = values if values.flags.c_contiguous and values.flags.aligned else result_array(values.shape, values.dtype)
    if values.size:
        domain = sampled_domain(left.format.name, right.format.name)
        sampling = Sampling(w.pattern.shape, w.pattern.block_shape, w.groups, columns, threads_for(w.nnz * columns),
                            domain, describe(left), describe(right), made.format.name, made.scale, memory.bound)
        _bounded(sampling, memory)
        run, began = program(sampling), perf_counter()
        run(w.row_offsets, w.column_indices, left.array, right.array, target)
        if listening():
            record(_run_of(sampling, w, perf_counter() - began))
    if target is not values:
        values[...] = target
    return values if out is None else out


def _run_of(s: Sampling, w: BlockSparseMatrix, seconds: float) -> Run:
    what = f"[{s.shape[0]}, {s.columns}] {s.y.format} x [{s.columns}, {s.shape[1]}] {s.x.format}"
    return Run("popsparse.sparse_grad_w", f"{what} at {w.n_blocks} blocks {w.block_shape}",
               f"{s.kernel.name} ({s.kernel.level})", seconds, s)
