"""One good call of every public function: what bad input is made from, and what threads call at once."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse

from poplibs_py import poplin, popops, poprand, popsparse
from poplibs_py.config import thread_limit
from poplibs_py.formats import FORMATS, Format, QuarterArray, auto_scale
from poplibs_py.popsparse import BlockPattern, BlockSparseMatrix, dynamic, static
from poplibs_py.popsparse.static import prepare_dense
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
    return BlockSparseMatrix.from_dense(dense, block, density=density, dtype=fmt)


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
            "row_indices": w.pattern.row_indices.copy(), "groups": 1, "block_shape": (4, 4), "dtype": "float16",
            "scale": 0, "copy": True}


def grouped(seed):
    mask = np.random.default_rng(seed).random((2, 4, 6)) < 0.5
    return BlockSparseMatrix.from_dense(operand((2, 16, 24), seed), 4, mask=mask)


def limited(count):
    with thread_limit(count):
        pass


def convolution(seed):
    return {"input_type": "half", "output_type": "half", "batch": 2, "field": (8, 8), "kernel": (3, 3),
            "in_channels": 4, "out_channels": 8, "groups": 1,
            "input_transform": [poplin.FieldTransform(padding_lower=1)] * 2}


def softmax_case(seed):
    x = matrix(seed, "float16")
    return {"x": x, "mask": "zero_upper_triangle", "out_dtype": "f143", "scale": -7}


def softmax_grad_case(seed):
    y = matrix(seed)
    return {"y": y, "grad": BlockSparseMatrix(y.pattern, y.blocks * 2), "out": y.copy()}


def host_case(seed):
    return {"nz_values": operand((12,), seed), "column_indices": np.array([0, 2, 2]),
            "row_indices": np.array([0, 4, 8, 12]), "num_rows": 6, "num_columns": 4, "block_dimensions": (2, 2)}


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
         lambda seed: {"mask": np.eye(3, dtype=bool), "block_shape": 4, "shape": (11, 12), "dtype": "float16"}),
    Case("from_scipy", BlockSparseMatrix.from_scipy,
         lambda seed: {"matrix": scipy.sparse.random_array((12, 12), density=0.3, rng=seed), "block_shape": 4}),
    Case("random_pattern", popsparse.random_pattern,
         lambda seed: {"rows": 32, "columns": 48, "block_shape": 8, "density": 0.25, "seed": seed}),
    Case("balanced_pattern", popsparse.balanced_pattern,
         lambda seed: {"rows": 32, "columns": 48, "block_shape": 8, "density": 0.25, "seed": seed}),
    Case("banded_pattern", popsparse.banded_pattern,
         lambda seed: {"rows": 32, "columns": 48, "block_shape": 8, "below": 1, "above": 2}),
    Case("BlockSparseMatrix.update", lambda owner, values: owner.update(values),
         lambda seed: {"owner": matrix(seed), "values": matrix(seed).blocks + 1}),
    Case("BlockSparseMatrix.astype", lambda owner, **to: owner.astype(**to),
         lambda seed: {"owner": matrix(seed), "dtype": "f143", "scale": -2}),
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
                       "half_passes": 4, "target": None, "options": {"availableMemoryProportion": 0.6}}),
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
    Case("prepare", poplin.prepare, lambda seed: {"w": operand((10, 5), seed), "side": "right", "a_dtype": "float16"}),
    Case("prepare left", poplin.prepare, lambda seed: {"w": operand((10, 5), seed), "side": "left", "b_dtype": "f143"}),
    Case("cast", popops.cast,
         lambda seed: {"x": operand((5, 7), seed), "dtype": "f143", "scale": 2, "block_shape": (1, -1),
                       "rounding": "stochastic", "overflow": "saturate", "seed": seed, "random_bits": 9}),
    Case("cast into", popops.cast,
         lambda seed: {"x": operand((5, 7), seed), "dtype": "float16", "out": np.zeros((5, 7), np.float16)}),
    Case("QuarterArray", QuarterArray,
         lambda seed: {"codes": np.arange(12, dtype=np.uint8).reshape(3, 4), "dtype": "f143",
                       "scale": np.zeros((3, 1), np.int8), "block_shape": (1, -1)}),
    Case("QuarterArray.from_array", QuarterArray.from_array,
         lambda seed: {"values": operand((3, 4), seed), "dtype": "f152", "scale": "auto", "block_shape": (1, 2),
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
    Case("dynamic.sparse_dense_matmul", dynamic.sparse_dense_matmul,
         lambda seed: {"w": matrix(seed, "bfloat16"), "x": operand((5, 16), seed, "bfloat16"), "transpose_lhs": True,
                       "transpose_rhs": True, "capacity": dynamic.Capacity(30), "out": np.zeros((24, 5), np.float16),
                       "out_dtype": "float16", "bias": operand((24,), seed), "activation": "silu"}),
    Case("dynamic.dense_sparse_matmul", dynamic.dense_sparse_matmul,
         lambda seed: {"x": operand((16, 5), seed, "bfloat16"), "w": matrix(seed, "bfloat16"), "transpose_lhs": True,
                       "capacity": dynamic.Capacity(30), "out": np.zeros((5, 24), np.float16), "activation": "silu"}),
    Case("fully_connected_fwd", dynamic.fully_connected_fwd,
         lambda seed: {"w": grouped(seed), "acts": operand((5, 48), seed), "capacity": dynamic.Capacity(99),
                       "out": np.zeros((5, 32), np.float32), "bias": operand((2, 16), seed), "activation": "relu"}),
    Case("fully_connected_grad_a", dynamic.fully_connected_grad_a,
         lambda seed: {"w": grouped(seed), "grads": operand((5, 32), seed, "float16"),
                       "out": np.zeros((5, 48), np.float32), "out_dtype": "float32"}),
    Case("fully_connected_sparse_grad_w", dynamic.fully_connected_sparse_grad_w,
         lambda seed: {"w": grouped(seed), "grads": operand((5, 32), seed), "acts": operand((5, 48), seed),
                       "out": np.zeros_like(grouped(seed).blocks), "out_dtype": "float32"}),
    Case("sparse_grad_w", static.sparse_grad_w,
         lambda seed: {"w": matrix(seed, "f143"), "grads": operand((16, 5), seed, "float16"),
                       "x": operand((24, 5), seed, "float16"), "out": np.zeros_like(matrix(seed).blocks)}),
    Case("sparse_grad_w of the transpose", static.sparse_grad_w,
         lambda seed: {"w": matrix(seed).T, "grads": operand((24, 5), seed, "bfloat16"),
                       "x": operand((16, 5), seed), "out_dtype": "f152"}),
    Case("plan_sparse_dense_matmul", static.plan_sparse_dense_matmul,
         lambda seed: {"w": matrix(seed), "n": 5, "dtype": "float16", "out_dtype": "float16", "has_bias": True,
                       "activation": "relu"}),
    Case("compiled sparse product", lambda owner, w, x, out, bias: owner(w, x, out=out, bias=bias),
         lambda seed: {"owner": static.compile_dense_sparse_matmul(
                           static.plan_dense_sparse_matmul(matrix(seed), 5, has_bias=True)),
                       "w": matrix(seed), "x": operand((5, 16), seed), "out": np.zeros((5, 24), np.float32),
                       "bias": operand((24,), seed)}),
    Case("prepare_dense", prepare_dense,
         lambda seed: {"x": operand((24, 5), seed), "w_dtype": "float16", "side": "left"}),
    Case("product of a prepared operand", lambda owner, **rest: static.sparse_dense_matmul(x=owner, **rest),
         lambda seed: {"owner": prepare_dense(operand((24, 5), seed)), "w": matrix(seed), "bias": operand((16,), seed),
                       "out": np.zeros((16, 5), np.float32), "activation": None, "out_dtype": None}),
    Case("prepare", static.prepare, lambda seed: {"w": matrix(seed, "f152"), "side": "left", "x_dtype": "float16"}),
    Case("product of a prepared matrix", lambda owner, **rest: static.sparse_dense_matmul(owner, **rest),
         lambda seed: {"owner": static.prepare(matrix(seed, "float16")), "x": operand((24, 5), seed, "float16"),
                       "out": np.zeros((16, 5), np.float32), "activation": None}),
    Case("Capacity", dynamic.Capacity, lambda seed: {"n_blocks": 5}),
    Case("Capacity.with_nz_ratio", dynamic.Capacity.with_nz_ratio,
         lambda seed: {"shape": (16, 24), "block_shape": 4, "nz_ratio": 0.25, "groups": 2, "oversize": 0.3}),
    Case("bs_softmax", popsparse.bs_softmax, softmax_case),
    Case("bs_softmax into", popsparse.bs_softmax,
         lambda seed: {"x": matrix(seed), "mask": ["none"], "out": matrix(seed)}),
    Case("bs_softmax_in_place", popsparse.bs_softmax_in_place, lambda seed: {"x": matrix(seed), "mask": "none"}),
    Case("bs_softmax_grad", popsparse.bs_softmax_grad, softmax_grad_case),
    Case("advise", popsparse.advise,
         lambda seed: {"w": matrix(seed), "n": 4, "x_dtype": "float32", "calls_per_pattern": 3}),
    Case("random_matrix", popsparse.random_matrix,
         lambda seed: {"pattern": matrix(seed).pattern, "dtype": "f143", "seed": seed, "scale": 3}),
    Case("BlockSparseMatrix", BlockSparseMatrix,
         lambda seed: {"pattern": matrix(seed).pattern, "blocks": matrix(seed, "f143").blocks.copy(), "dtype": "f143",
                       "scale": np.zeros(matrix(seed).n_blocks, np.int8)}),
    Case("from_host", lambda **parts: BlockSparseMatrix.from_host(popsparse.CSRMatrix(**parts)), host_case),
    Case("BlockSparseMatrix.group", lambda owner, index: owner.group(index),
         lambda seed: {"owner": grouped(seed), "index": 1}),
    Case("BlockSparseMatrix.to_dense", lambda owner, dtype: owner.to_dense(dtype),
         lambda seed: {"owner": matrix(seed).T, "dtype": np.float64}),
    Case("BlockSparseMatrix.to_scipy", lambda owner, kind: owner.to_scipy(kind),
         lambda seed: {"owner": matrix(seed).T, "kind": "csc"}),
    Case("BlockSparseMatrix.to_host", lambda owner, kind: owner.to_host(kind),
         lambda seed: {"owner": matrix(seed).T, "kind": "csc"}),
    Case("rows of a matrix", lambda owner, start, stop, step: owner[start:stop:step],
         lambda seed: {"owner": grouped(seed), "start": 4, "stop": 12, "step": 1}),
    Case("index of a matrix", lambda owner, rows: owner[rows], lambda seed: {"owner": matrix(seed), "rows": slice(8)}),
    Case("w @ x", lambda owner, x: owner @ x, lambda seed: {"owner": matrix(seed), "x": operand((24, 3), seed)}),
    Case("index of a QuarterArray", lambda owner, index: owner[index],
         lambda seed: {"owner": QuarterArray.from_array(operand((6, 8), seed), "f143", "auto", (2, 4)),
                       "index": (slice(1, 5), 3)}),
    Case("QuarterArray.to_array", lambda owner, dtype: owner.to_array(dtype),
         lambda seed: {"owner": QuarterArray.from_array(operand((6, 8), seed), "f143"), "dtype": np.float32}),
    Case("CompiledMatmul", lambda owner, a, b, out, bias: owner(a, b, out=out, bias=bias),
         lambda seed: {"owner": poplin.compile_matmul(poplin.plan_matmul((6, 4), (4, 5), bias_dtype="float32")),
                       "a": operand((6, 4), seed), "b": operand((4, 5), seed), "out": np.zeros((6, 5), np.float32),
                       "bias": operand((5,), seed)}),
    Case("plan_matmul with all", poplin.plan_matmul,
         lambda seed: {"a_shape": (6, 4), "b_shape": (4, 5), "dtype": "float16", "b_dtype": "f143", "alpha": 2.0,
                       "out_dtype": "float32", "beta": 1.0, "bias_dtype": "float32", "activation": "gelu",
                       "target": None, "options": {"partialsType": "half"}, "available_memory_proportion": 0.5}),
    Case("modelled matmul", poplin.matmul,
         lambda seed: {"a": operand((6, 10), seed, "float16"), "b": operand((10, 5), seed, "float16"),
                       "target": "gc200", "seed": 3, "partials_type": "half"}),
    Case("plan_convolution", poplin.plan_convolution,
         lambda seed: {"params": poplin.ConvParams.create(**convolution(seed)), "target": "gc200",
                       "options": {"availableMemoryProportion": 0.3}, "partials_type": "half"}),
    Case("ConvParams.create", poplin.ConvParams.create, convolution),
    Case("ConvOptions.parse", poplin.ConvOptions.parse,
         lambda seed: {"options": {"pass": "INFERENCE_FWD"}, "available_memory_proportion": 0.5}),
    Case("auto_scale", auto_scale,
         lambda seed: {"values": operand((4, 6), seed), "dtype": FORMATS[3], "block_shape": (2, 3)}),
    Case("thread_limit", limited, lambda seed: {"count": 1}),
]
