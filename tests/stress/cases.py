"""One good call of every public function: what bad input is made from, and what threads call at once."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse

from poplibs_py import poplin, popops, poprand, popsparse
from poplibs_py.formats import Format, QuarterArray
from poplibs_py.popsparse import BlockPattern, BlockSparseMatrix, static
from poplibs_py.testing import random_operand


@dataclass(frozen=True)
class Case:
    """A function with keywords that it serves.

    Attributes
    ----------
    name : str
        What to call it.
    function : callable
        The function.
    make : callable
        Seed to fresh keywords; `owner` is the object that a method belongs to.
    """

    name: str
    function: Any
    make: Any

    def __str__(self) -> str:
        return self.name


def operand(shape, seed, fmt="float32"):
    return random_operand(shape, fmt, seed)


def matrix(seed, fmt="float32", rows=16, columns=24, block=4, density=0.4):
    dense = np.random.default_rng(seed).standard_normal((rows, columns)).astype(np.float32)
    return BlockSparseMatrix.from_dense(dense, block, density=density, format=fmt)


def raw_parts(seed):
    w = matrix(seed)
    return {"blocks": w.blocks.copy(), "shape": (16, 24), "column_indices": w.column_indices.astype(np.int64),
            "row_offsets": w.row_offsets.copy()}


def random_case(name, **keywords):
    """A distribution with all its keywords."""
    return Case(name, getattr(poprand, name),
                lambda seed: {"shape": (3, 5), **keywords, "dtype": np.float16, "seed": seed, "seed_modifier": 1,
                              "stream": "counter", "offset": 2, "out": np.zeros((3, 5), np.float16)})


def by_rows(seed):
    w = matrix(seed)
    return {"blocks": w.blocks.copy(), "shape": (16, 24), "column_indices": w.column_indices.copy(),
            "row_indices": w.pattern.row_indices.copy(), "groups": 1, "block_shape": (4, 4), "format": "float16",
            "scale": 0, "copy": True}


CASES = [
    Case("BlockPattern", BlockPattern,
         lambda seed: {"shape": (6, 9), "block_shape": 3, "row_offsets": np.array([0, 2, 3]),
                       "column_indices": np.array([0, 2, 1], np.int32), "groups": 1}),
    Case("BlockPattern.from_pairs", BlockPattern.from_pairs,
         lambda seed: {"shape": (6, 9), "block_shape": 3, "row_indices": np.array([1, 0, 0]),
                       "column_indices": np.array([0, 2, 1])}),
    Case("from_blocks", BlockSparseMatrix.from_blocks, raw_parts),
    Case("from_blocks by rows", BlockSparseMatrix.from_blocks, by_rows),
    Case("from_dense", BlockSparseMatrix.from_dense,
         lambda seed: {"dense": operand((8, 12), seed), "block_shape": (2, 3), "density": 0.5}),
    Case("from_dense by mask", BlockSparseMatrix.from_dense,
         lambda seed: {"dense": operand((8, 12), seed), "block_shape": 4, "mask": np.eye(2, 3, dtype=bool)}),
    Case("from_mask", BlockSparseMatrix.from_mask,
         lambda seed: {"mask": np.eye(3, dtype=bool), "block_shape": 4, "shape": (11, 12), "format": "float16"}),
    Case("from_scipy", BlockSparseMatrix.from_scipy,
         lambda seed: {"matrix": scipy.sparse.random_array((12, 12), density=0.3, rng=seed), "block_shape": 4}),
    Case("random_pattern", popsparse.random_pattern,
         lambda seed: {"rows": 32, "columns": 48, "block": 8, "density": 0.25, "seed": seed}),
    Case("balanced_pattern", popsparse.balanced_pattern,
         lambda seed: {"rows": 32, "columns": 48, "block": 8, "density": 0.25, "seed": seed}),
    Case("banded_pattern", popsparse.banded_pattern,
         lambda seed: {"rows": 32, "columns": 48, "block": 8, "below": 1, "above": 2}),
    Case("BlockSparseMatrix.update", lambda owner, values: owner.update(values),
         lambda seed: {"owner": matrix(seed), "values": matrix(seed).blocks + 1}),
    Case("BlockSparseMatrix.astype", lambda owner, **to: owner.astype(**to),
         lambda seed: {"owner": matrix(seed), "format": "f143", "scale": -2}),
    Case("sparse_dense_matmul", static.sparse_dense_matmul,
         lambda seed: {"w": matrix(seed, "float16"), "x": operand((24, 5), seed + 1, "bfloat16"),
                       "out": np.zeros((16, 5), np.float32), "out_dtype": "float32", "bias": operand((16,), seed),
                       "activation": "gelu"}),
    Case("dense_sparse_matmul", static.dense_sparse_matmul,
         lambda seed: {"x": operand((5, 16), seed + 1, "f143"), "w": matrix(seed, "f152"),
                       "out": np.zeros((5, 24), np.float16), "out_dtype": "float16", "bias": operand((24,), seed),
                       "activation": "relu"}),
    Case("matmul", poplin.matmul,
         lambda seed: {"a": operand((6, 10), seed), "b": operand((10, 5), seed + 1, "float16"),
                       "out": np.zeros((6, 5), np.float32), "out_dtype": "float32", "alpha": 0.5,
                       "bias": operand((5,), seed), "activation": "silu", "partials_type": "float",
                       "available_memory_proportion": 0.6, "reproducible": False, "strict_memory": False,
                       "half_passes": 4, "target": None, "options": {"availableMemoryProportion": 0.3}}),
    Case("matmul of batches", poplin.matmul,
         lambda seed: {"a": operand((3, 1, 6, 10), seed, "f143"), "b": operand((2, 10, 5), seed + 1, "f152")}),
    Case("matmul_acc", poplin.matmul_acc,
         lambda seed: {"c": operand((6, 5), seed), "a": operand((6, 10), seed), "b": operand((10, 5), seed + 1),
                       "alpha": 2.0, "beta": 0.25, "bias": operand((6, 1), seed), "partials_type": "half"}),
    Case("matmul_grouped", poplin.matmul_grouped,
         lambda seed: {"a": operand((2, 6, 10), seed), "b": operand((2, 10, 5), seed + 1)}),
    Case("matmul_grouped_acc", poplin.matmul_grouped_acc,
         lambda seed: {"c": operand((2, 6, 5), seed), "a": operand((2, 6, 10), seed), "b": operand((2, 10, 5), seed)}),
    Case("plan_matmul", poplin.plan_matmul, lambda seed: {"a_shape": (64, 32), "b_shape": (32, 48)}),
    Case("prepare", poplin.prepare, lambda seed: {"w": operand((10, 5), seed)}),
    Case("cast", popops.cast,
         lambda seed: {"x": operand((5, 7), seed), "format": "f143", "scale": 2, "block_shape": (1, -1),
                       "rounding": "stochastic", "overflow": "saturate", "seed": seed, "random_bits": 9}),
    Case("cast into", popops.cast,
         lambda seed: {"x": operand((5, 7), seed), "format": "float16", "out": np.zeros((5, 7), np.float16)}),
    Case("QuarterArray", QuarterArray,
         lambda seed: {"codes": np.arange(12, dtype=np.uint8).reshape(3, 4), "format": "f143",
                       "scale": np.zeros((3, 1), np.int8), "block_shape": (1, -1)}),
    Case("QuarterArray.from_array", QuarterArray.from_array,
         lambda seed: {"values": operand((3, 4), seed), "format": "f152", "scale": "auto", "block_shape": (1, 2),
                       "rounding": "toward-zero", "overflow": "nan"}),
    Case("Format", Format,
         lambda seed: {"name": "mine", "exponent_bits": 4, "mantissa_bits": 3, "bias": 7, "specials": "ieee",
                       "subnormals": True}),
    *(random_case(name, **keywords) for name, keywords in {
        "uniform": {"low": -1.0, "high": 2.0},
        "normal": {"mean": 1.0, "std": 2.0},
        "truncated_normal": {"mean": 1.0, "std": 2.0, "alpha": 2.5},
        "bernoulli": {"prob": 0.3},
        "log_uniform": {"low": 1.0, "high": 9.0, "base": 2.0},
        "exponential": {"scale": 2.0},
        "gumbel": {"loc": 1.0, "scale": 2.0},
    }.items()),
    Case("bits", poprand.bits, lambda seed: {"shape": (3, 5), "dtype": np.uint16, "seed": seed, "offset": 3}),
    Case("dropout", poprand.dropout,
         lambda seed: {"x": operand((4, 6), seed), "keep_prob": 0.5, "scale": 3.0, "seed": seed}),
    Case("shaped_dropout", poprand.shaped_dropout,
         lambda seed: {"x": operand((4, 6), seed), "mask_shape": (1, 6), "keep_prob": 0.5, "seed": seed}),
    Case("categorical", poprand.categorical,
         lambda seed: {"shape": (4, 6), "weights": np.array([1.0, 2.0, 3.0]), "seed": seed}),
    Case("permutation", poprand.permutation, lambda seed: {"x": operand((4, 6), seed), "axis": 1, "seed": seed}),
]
