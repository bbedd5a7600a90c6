"""Dense times dense at a sparse pattern: the gradient of the stored values, without a dense intermediate."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from ...errors import UnsupportedError, bad_argument
from ...formats import format_of
from ...kernels.registry import select
from ...program import Executable
from ..matrix import BlockSparseMatrix
from .forward import threads_for
from .items import FORMAT_NUMBERS, OVERFLOW_INFINITY, OVERFLOW_NAN, PANEL, SAMPLE
from .multiply import Dense, domain_of, itemsize_of
from .operands import check_out, check_rows, dense_operand, describe, empty, result_format

__all__ = ["sample", "sampled_domain"]

Array = np.ndarray[Any, Any]

_SAMPLE_CHUNK = 4096


@dataclass(frozen=True)
class Sampling:
    """Everything about sampled ``dY X'`` that its program depends on."""

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

    def lies_well(self, operand: Dense) -> bool:
        """Whether the kernel can read an operand where it is."""
        unit = operand.strides[2] == itemsize_of(operand.format)
        return operand.format == self.domain and not operand.scale and unit and operand.aligned


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
    as_they_are = s.lies_well(s.y) and s.lies_well(s.x)
    domain = s.domain if as_they_are or s.domain != "float16" else "float32"
    size = itemsize_of(domain)
    row_bytes = -(-s.columns * size // 64) * 64
    first_set, workspace, lies = [], 0, {}
    for number, operand, rows in ((2, s.y, s.shape[0]), (3, s.x, s.shape[1])):
        if operand.format == domain and s.lies_well(operand):
            lies[number] = (number, operand.strides[0], operand.strides[1], 0)
            continue
        lies[number] = (5, rows * row_bytes, row_bytes, workspace)
        first_set.append(_panels(s, domain, number, operand, rows, row_bytes, workspace))
        workspace += s.groups * rows * row_bytes
    kernel = select("sparse", "sample", f"{domain},{domain}->any").kernel
    shares = 1 if s.groups >= s.threads else s.threads
    items = np.zeros((shares, s.groups), SAMPLE)
    groups = np.arange(s.groups)
    items["inner"], items["to"] = 1, 4
    items["n_rows"] = -(-s.shape[0] // s.block_shape[0])
    items["origin"] = groups * items["n_rows"]
    items["part"], items["parts"] = np.arange(shares)[:, None], shares
    items["rows"], items["depth"] = s.shape
    items["columns"] = s.columns
    items["block_rows"], items["block_depth"] = s.block_shape
    for name, number in (("y", 2), ("x", 3)):
        items[name], step, items[f"{name}_row"], start = lies[number]
        items[f"{name}_offset"] = start + groups * step
    items["to_format"], items["to_scale"] = FORMAT_NUMBERS[s.to_format], s.to_scale
    items["overflow"] = OVERFLOW_INFINITY if format_of(s.to_format).has_infinity else OVERFLOW_NAN
    flat = items.reshape(-1)
    tiles = np.arange(flat.size) * s.threads // max(1, flat.size)
    compute_sets = [first_set] * bool(first_set) + [[(kernel.address, flat, tiles)]]
    return Executable(compute_sets, 5, s.threads, 4 * max(_SAMPLE_CHUNK, s.block_shape[1]), workspace, s.threads)


def _panels(s: Sampling, domain: str, number: int, operand: Dense, rows: int, row_bytes: int,
            start: int) -> tuple[int, Array, Array]:
    items = np.zeros((s.threads, s.groups), PANEL)
    groups = np.arange(s.groups)
    items["from"], items["to"] = number, 5
    items["from_offset"] = groups * operand.strides[0]
    items["to_offset"] = start + groups * rows * row_bytes
    items["row"], items["column"], items["to_row"] = *operand.strides[1:], row_bytes
    items["rows"], items["columns"] = rows, s.columns
    items["part"], items["parts"] = np.arange(s.threads)[:, None], s.threads
    items["format"], items["scale"] = FORMAT_NUMBERS[operand.format], operand.scale
    address = select("sparse", "panel", f"any->{domain}").kernel.address
    flat = items.reshape(-1)
    return address, flat, np.arange(flat.size) // s.groups


def sample(w: BlockSparseMatrix, dy: object, x: object, *, out: object | None = None, out_dtype: object = None,
           x_name: str = "acts") -> Array:
    """Return the stored values of ``dY X'`` at the pattern of a matrix that is known to be one."""
    left, right = dense_operand("grads", dy), dense_operand(x_name, x)
    check_rows("grads", left.array, w.shape[0], w.groups)
    check_rows(x_name, right.array, w.shape[1], w.groups)
    columns = left.array.shape[-1]
    if right.array.shape[-1] != columns or right.array.ndim != left.array.ndim:
        raise bad_argument(x_name, f"shape {right.array.shape}", f"as many columns as grads, {columns}")
    if w.is_transposed:
        left, right = right, left
    wanted = result_format(out_dtype, out)
    if out is None:
        values = empty(w.blocks.shape, wanted.dtype)
    else:
        values = check_out(out, w.blocks.shape, wanted.dtype, left.array, right.array)
    target = values if values.flags.c_contiguous and values.flags.aligned else np.empty(values.shape, values.dtype)
    if values.size:
        domain = sampled_domain(left.format.name, right.format.name)
        sampling = Sampling(w.pattern.shape, w.pattern.block_shape, w.groups, columns, threads_for(w.nnz * columns),
                            domain, describe(left.array, left.format, left.scale),
                            describe(right.array, right.format, right.scale), wanted.name, 0)
        program(sampling)(w.row_offsets, w.column_indices, left.array, right.array, target)
    if target is not values:
        values[...] = target
    return values

