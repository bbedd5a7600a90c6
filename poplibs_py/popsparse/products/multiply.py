"""Sparse times dense: from shapes and strides to a program that serves every pattern of these shapes."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from ...kernels.registry import select
from ...program import Executable
from .items import MULTIPLY

__all__ = ["Product", "program"]

_STREAM_BYTES = 1 << 20
_ALIGNMENT = 64


@dataclass(frozen=True)
class Product:
    """Everything about ``Y = op(W) X`` that its program depends on.

    Attributes
    ----------
    shape : (int, int)
        Rows and columns of op(W), in elements.
    block_shape : (int, int)
        Rows and columns of a block of W as it is stored.
    groups : int
        Products side by side.
    transposed : bool
        Whether op(W) is the transpose of what is stored.
    columns : int
        Columns of X and Y.
    x_format : str
        Name of X's format.
    x_strides, y_strides : (int, int)
        Bytes from group to group and from row to row.
    threads : int
        Threads to run on.
    """

    shape: tuple[int, int]
    block_shape: tuple[int, int]
    groups: int
    transposed: bool
    columns: int
    x_format: str
    x_strides: tuple[int, int]
    y_strides: tuple[int, int]
    threads: int


@lru_cache(maxsize=256)
def program(product: Product) -> Executable:
    """Return the executable of a product; it takes (row offsets, column indices, values, X, Y[, order]).

    For a transposed product the offsets and indices are the transpose's, and `order` says which stored block each is.
    """
    kernel = select("sparse", "multiply", f"float32,{product.x_format}->float32").kernel
    items = _items(product)
    tiles = np.arange(len(items)) * product.threads // max(1, len(items))
    compute_sets = [[(kernel.address, items, tiles)]]
    return Executable(compute_sets, 6 if product.transposed else 5, product.threads, 0, 0, product.threads)


def _items(p: Product) -> np.ndarray:
    parts = 1 if p.groups >= p.threads else p.threads
    block_rows, block_depth = p.block_shape[::-1] if p.transposed else p.block_shape
    n_rows = -(-p.shape[0] // block_rows)
    items = np.zeros((p.groups, parts), MULTIPLY)
    items["offsets"], items["inner"], items["values"], items["x"], items["y"] = range(5)
    items["order"] = 5 if p.transposed else -1
    groups = np.arange(p.groups)[:, None]
    items["origin"], items["n_rows"] = groups * n_rows, n_rows
    items["part"], items["parts"] = np.arange(parts), parts
    items["rows"], items["depth"] = p.shape
    items["columns"] = p.columns
    items["block_rows"], items["block_depth"] = block_rows, block_depth
    along = p.block_shape[1] * 4
    items["value_block"] = p.block_shape[0] * along
    items["value_row"], items["value_depth"] = (4, along) if p.transposed else (along, 4)
    items["x_offset"], items["y_offset"] = groups * p.x_strides[0], groups * p.y_strides[0]
    items["x_row"], items["y_row"] = p.x_strides[1], p.y_strides[1]
    items["strip"] = max(1, p.columns)
    items["stream"] = 4 * p.shape[0] * p.columns > _STREAM_BYTES and p.y_strides[1] % _ALIGNMENT == 0
    return items.T.reshape(-1) if p.groups < p.threads else items.reshape(-1)
