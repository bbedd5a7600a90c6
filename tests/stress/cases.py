"""Good calls, of which bad ones are made: those of ops come from the catalogue, those of other functions stand here."""

import copy
from dataclasses import dataclass
from functools import partial
from inspect import signature
from typing import Any

import numpy as np
import scipy.sparse

from poplibs_py import poplin, popsparse
from poplibs_py.config import thread_limit
from poplibs_py.formats import FORMATS, Format, QuarterArray, auto_scale
from poplibs_py.ops import catalogue
from poplibs_py.popsparse import BlockPattern, BlockSparseMatrix, dynamic, static
from poplibs_py.popsparse.static import prepare_dense
from poplibs_py.testing import random_operand
from poplibs_py.testing.cases import cases


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
        Makes fresh keywords; `owner` is the object that a method belongs to.
    written : str or None
        The argument that the result is written to.
    """

    name: str
    function: Any
    make: Any
    written: str | None = "out"

    def __str__(self) -> str:
        return self.name


def operand(shape, seed, fmt="float32"):
    return random_operand(shape, fmt, seed)


def matrix(seed=1, fmt="float32", rows=16, columns=24, block=4, density=0.4):
    dense = np.random.default_rng(seed).standard_normal((rows, columns)).astype(np.float32)
    return BlockSparseMatrix.from_dense(dense, block, density=density, dtype=fmt)


def raw_parts():
    w = matrix()
    return {"blocks": w.blocks.copy(), "shape": (16, 24), "column_indices": w.column_indices.astype(np.int64),
            "row_offsets": w.row_offsets.copy()}


def by_rows():
    w = matrix()
    return {"blocks": w.blocks.copy(), "shape": (16, 24), "column_indices": w.column_indices.copy(),
            "row_indices": w.pattern.row_indices.copy(), "groups": 1, "block_shape": (4, 4), "dtype": "float16",
            "scale": 0, "copy": True}


def grouped():
    mask = np.random.default_rng(1).random((2, 4, 6)) < 0.5
    return BlockSparseMatrix.from_dense(operand((2, 16, 24), 1), 4, mask=mask)


def limited(count):
    with thread_limit(count):
        pass


def convolution():
    return {"input_type": "half", "output_type": "half", "batch": 2, "field": (8, 8), "kernel": (3, 3),
            "in_channels": 4, "out_channels": 8, "groups": 1,
            "input_transform": [poplin.FieldTransform(padding_lower=1)] * 2}


def host_case():
    return {"nz_values": operand((12,), 1), "column_indices": np.array([0, 2, 2]),
            "row_indices": np.array([0, 4, 8, 12]), "num_rows": 6, "num_columns": 4, "block_dimensions": (2, 2)}


OWN = [
    Case("BlockPattern", BlockPattern,
         lambda: {"shape": (6, 9), "block_shape": 3, "row_offsets": np.array([0, 2, 3]),
                  "column_indices": np.array([0, 2, 1], np.int32), "groups": 1}),
    Case("BlockPattern.from_pairs", BlockPattern.from_pairs,
         lambda: {"shape": (6, 9), "block_shape": 3, "row_indices": np.array([1, 0, 0]),
                  "column_indices": np.array([0, 2, 1])}),
    Case("from_blocks", BlockSparseMatrix.from_blocks, raw_parts),
    Case("from_blocks by rows", BlockSparseMatrix.from_blocks, by_rows),
    Case("from_dense", BlockSparseMatrix.from_dense,
         lambda: {"dense": operand((8, 12), 1), "block_shape": (2, 3), "density": 0.5}),
    Case("from_dense by mask", BlockSparseMatrix.from_dense,
         lambda: {"dense": operand((8, 12), 1), "block_shape": 4, "mask": np.eye(2, 3, dtype=bool)}),
    Case("from_mask", BlockSparseMatrix.from_mask,
         lambda: {"mask": np.eye(3, dtype=bool), "block_shape": 4, "shape": (11, 12), "dtype": "float16"}),
    Case("from_scipy", BlockSparseMatrix.from_scipy,
         lambda: {"matrix": scipy.sparse.random_array((12, 12), density=0.3, rng=1), "block_shape": 4}),
    Case("random_pattern", popsparse.random_pattern,
         lambda: {"rows": 32, "columns": 48, "block_shape": 8, "density": 0.25, "seed": 1}),
    Case("balanced_pattern", popsparse.balanced_pattern,
         lambda: {"rows": 32, "columns": 48, "block_shape": 8, "density": 0.25, "seed": 1}),
    Case("banded_pattern", popsparse.banded_pattern,
         lambda: {"rows": 32, "columns": 48, "block_shape": 8, "below": 1, "above": 2}),
    Case("BlockSparseMatrix.update", lambda owner, values: owner.update(values),
         lambda: {"owner": matrix(), "values": matrix().blocks + 1}),
    Case("BlockSparseMatrix.astype", lambda owner, **to: owner.astype(**to),
         lambda: {"owner": matrix(), "dtype": "f143", "scale": -2}),
    Case("plan_matmul", poplin.plan_matmul, lambda: {"a_shape": (64, 32), "b_shape": (32, 48)}),
    Case("prepare", poplin.prepare, lambda: {"w": operand((10, 5), 1), "side": "right", "a_dtype": "float16"}),
    Case("prepare left", poplin.prepare, lambda: {"w": operand((10, 5), 1), "side": "left", "b_dtype": "f143"}),
    Case("QuarterArray", QuarterArray,
         lambda: {"codes": np.arange(12, dtype=np.uint8).reshape(3, 4), "dtype": "f143",
                  "scale": np.zeros((3, 1), np.int8), "block_shape": (1, -1)}),
    Case("QuarterArray.from_array", QuarterArray.from_array,
         lambda: {"values": operand((3, 4), 1), "dtype": "f152", "scale": "auto", "block_shape": (1, 2),
                  "rounding": "toward-zero", "overflow": "nan"}),
    Case("Format", Format,
         lambda: {"name": "mine", "exponent_bits": 4, "mantissa_bits": 3, "bias": 7, "specials": "ieee",
                  "subnormals": True}),
    Case("plan_sparse_dense_matmul", static.plan_sparse_dense_matmul,
         lambda: {"w": matrix(), "n": 5, "dtype": "float16", "out_dtype": "float16", "has_bias": True,
                  "activation": "relu"}),
    Case("compiled sparse product", lambda owner, w, x, out, bias: owner(w, x, out=out, bias=bias),
         lambda: {"owner": static.compile_dense_sparse_matmul(
                      static.plan_dense_sparse_matmul(matrix(), 5, has_bias=True)),
                  "w": matrix(), "x": operand((5, 16), 1), "out": np.zeros((5, 24), np.float32),
                  "bias": operand((24,), 1)}),
    Case("prepare_dense", prepare_dense,
         lambda: {"x": operand((24, 5), 1), "w_dtype": "float16", "side": "left"}),
    Case("product of a prepared operand", lambda owner, **rest: static.sparse_dense_matmul(x=owner, **rest),
         lambda: {"owner": prepare_dense(operand((24, 5), 1)), "w": matrix(), "bias": operand((16,), 1),
                  "out": np.zeros((16, 5), np.float32), "activation": None, "out_dtype": None}),
    Case("prepare", static.prepare, lambda: {"w": matrix(1, "f152"), "side": "left", "x_dtype": "float16"}),
    Case("product of a prepared matrix", lambda owner, **rest: static.sparse_dense_matmul(owner, **rest),
         lambda: {"owner": static.prepare(matrix(1, "float16")), "x": operand((24, 5), 1, "float16"),
                  "out": np.zeros((16, 5), np.float32), "activation": None}),
    Case("Capacity", dynamic.Capacity, lambda: {"n_blocks": 5}),
    Case("Capacity.with_nz_ratio", dynamic.Capacity.with_nz_ratio,
         lambda: {"shape": (16, 24), "block_shape": 4, "nz_ratio": 0.25, "groups": 2, "oversize": 0.3}),
    Case("advise", popsparse.advise,
         lambda: {"w": matrix(), "n": 4, "x_dtype": "float32", "calls_per_pattern": 3}),
    Case("random_matrix", popsparse.random_matrix,
         lambda: {"pattern": matrix().pattern, "dtype": "f143", "seed": 1, "scale": 3}),
    Case("BlockSparseMatrix", BlockSparseMatrix,
         lambda: {"pattern": matrix().pattern, "blocks": matrix(1, "f143").blocks.copy(), "dtype": "f143",
                  "scale": np.zeros(matrix().n_blocks, np.int8)}),
    Case("from_host", lambda **parts: BlockSparseMatrix.from_host(popsparse.CSRMatrix(**parts)), host_case),
    Case("BlockSparseMatrix.group", lambda owner, index: owner.group(index),
         lambda: {"owner": grouped(), "index": 1}),
    Case("BlockSparseMatrix.to_dense", lambda owner, dtype: owner.to_dense(dtype),
         lambda: {"owner": matrix().T, "dtype": np.float64}),
    Case("BlockSparseMatrix.to_scipy", lambda owner, kind: owner.to_scipy(kind),
         lambda: {"owner": matrix().T, "kind": "csc"}),
    Case("BlockSparseMatrix.to_host", lambda owner, kind: owner.to_host(kind),
         lambda: {"owner": matrix().T, "kind": "csc"}),
    Case("rows of a matrix", lambda owner, start, stop, step: owner[start:stop:step],
         lambda: {"owner": grouped(), "start": 4, "stop": 12, "step": 1}),
    Case("index of a matrix", lambda owner, rows: owner[rows], lambda: {"owner": matrix(), "rows": slice(8)}),
    Case("w @ x", lambda owner, x: owner @ x, lambda: {"owner": matrix(), "x": operand((24, 3), 1)}),
    Case("index of a QuarterArray", lambda owner, index: owner[index],
         lambda: {"owner": QuarterArray.from_array(operand((6, 8), 1), "f143", "auto", (2, 4)),
                  "index": (slice(1, 5), 3)}),
    Case("QuarterArray.to_array", lambda owner, dtype: owner.to_array(dtype),
         lambda: {"owner": QuarterArray.from_array(operand((6, 8), 1), "f143"), "dtype": np.float32}),
    Case("CompiledMatmul", lambda owner, a, b, out, bias: owner(a, b, out=out, bias=bias),
         lambda: {"owner": poplin.compile_matmul(poplin.plan_matmul((6, 4), (4, 5), bias_dtype="float32")),
                  "a": operand((6, 4), 1), "b": operand((4, 5), 1), "out": np.zeros((6, 5), np.float32),
                  "bias": operand((5,), 1)}),
    Case("plan_matmul with all", poplin.plan_matmul,
         lambda: {"a_shape": (6, 4), "b_shape": (4, 5), "dtype": "float16", "b_dtype": "f143", "alpha": 2.0,
                  "out_dtype": "float32", "beta": 1.0, "bias_dtype": "float32", "activation": "gelu",
                  "target": None, "options": {"partialsType": "half"}, "available_memory_proportion": 0.5}),
    Case("plan_convolution", poplin.plan_convolution,
         lambda: {"params": poplin.ConvParams.create(**convolution()), "target": "gc200",
                  "options": {"availableMemoryProportion": 0.3}, "partials_type": "half"}),
    Case("ConvParams.create", poplin.ConvParams.create, convolution),
    Case("ConvOptions.parse", poplin.ConvOptions.parse,
         lambda: {"options": {"pass": "INFERENCE_FWD"}, "available_memory_proportion": 0.5}),
    Case("auto_scale", auto_scale,
         lambda: {"values": operand((4, 6), 1), "dtype": FORMATS[3], "block_shape": (2, 3)}),
    Case("thread_limit", limited, lambda: {"count": 1}),
]


def by_name(face, operands, keywords):
    """A call of an op as a function and its keywords; those of ``*names`` are ``names[0]`` and on."""
    parameters = signature(face).parameters.values()
    places = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    rest = next((p.name for p in parameters if p.kind is p.VAR_POSITIONAL), None)
    places += [f"{rest}[{i}]" for i in range(len(operands) - len(places))] if rest else []
    arguments = dict(zip(places, operands, strict=False)) | keywords
    return (lambda **how: face(*[how.pop(place) for place in places], **how)) if rest else face, arguments


def small_calls():
    """The small calls of every op of the catalogue."""
    for name, record in catalogue.items():
        for case in cases(name):
            function, keywords = by_name(record.face, case.operands, case.keywords)
            yield Case(f"{name}: {case.what}", function, partial(copy.deepcopy, keywords), record.written)


OPS = list(small_calls())
CASES = [*OWN, *OPS]
