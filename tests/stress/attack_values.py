"""What an attack calls with: values that make sense by the parameter's name, objects that have methods, nonsense."""

from __future__ import annotations

import array
import fractions
import io
import os
import pathlib
import tempfile
from collections.abc import Callable
from random import Random
from typing import Any

import ml_dtypes
import numpy as np
import scipy.sparse
from cases import matrix, operand
from hostile import DTYPES, SCALARS, Raises, Subclass

from poplibs_py import Profile, planner, poplin, popops, poprand, popsparse
from poplibs_py.errors import PoplibsWarning
from poplibs_py.formats import FORMATS, FP16, Format, QuarterArray, bounds
from poplibs_py.kernels import kernels
from poplibs_py.poplin.tile_conv import (
    Axis,
    ConvConstraints,
    ConvOptions,
    ConvProblem,
    FieldTransform,
    OutputTransform,
    conv_cache,
    matmul_params,
    plan_convolution,
)
from poplibs_py.popsparse import BlockSparseMatrix, dynamic, static
from poplibs_py.report import chart, page, sparsity
from poplibs_py.target import Target, linear_mapping
from poplibs_py.testing import exact_operands

FOLDER = pathlib.Path(tempfile.gettempdir()) / f"poplibs-attack-{os.getpid()}"


class Lies:
    """Says of itself what is not so."""

    shape, ndim, dtype, nbytes, size = (2, 2), 2, np.dtype(np.float32), 16, 4

    def __len__(self) -> int:
        return 2**62

    def __index__(self) -> int:
        return 2**80

    def __float__(self) -> float:
        return float("nan")

    def __array__(self, dtype: object = None, copy: object = None) -> Any:
        return np.zeros(3, "U4")

    def __getitem__(self, index: object) -> object:
        raise KeyError(index)


class Text(str):
    """Text of somebody else's."""


class Whole(int):
    """A number of somebody else's."""


def own_arrays(r: Random) -> Any:
    """Arrays of every layout and dtype, most of them small, some that no memory holds."""
    shape = r.choice([(), (0,), (1,), (4,), (4, 4), (0, 4), (4, 0), (16, 24), (24, 5), (5, 16), (2, 3, 4), (1,) * 32,
                      (2, 0, 3), (7, 13)])
    dtype = r.choice([*DTYPES, *(f.dtype for f in FORMATS), ml_dtypes.int4, ml_dtypes.float8_e8m0fnu, np.float32])
    made = np.zeros(shape, dtype)
    kind = r.randrange(9)
    if kind == 0 and made.ndim:
        return np.broadcast_to(np.zeros((1,) * made.ndim, dtype), [r.choice([1, 2**20, 2**28]) for _ in shape[:2]] +
                               [1] * (made.ndim - 2))
    if kind == 1 and made.ndim:
        return made[..., ::-1]
    if kind == 2:
        raw = np.zeros(made.nbytes + 1, np.uint8)[1:]
        return raw.view(dtype).reshape(shape) if made.size and made.dtype.kind != "O" else made
    if kind == 3:
        made.flags.writeable = False
        return made
    if kind == 4:
        return r.choice([made.view(Subclass), np.ma.masked_array(made), np.asfortranarray(made), made.T])
    if kind == 5 and made.dtype.kind == "f":
        return np.full(shape, r.choice([np.nan, np.inf, -np.inf, 1e38, -0.0, 1e-45]), dtype)
    if kind == 6:
        return np.lib.stride_tricks.as_strided(np.zeros(64, np.float32), (4, 4), (4, 4))  # overlaps itself
    return made


def own_sparse(r: Random, damaged: bool = False) -> Any:
    """SciPy's matrices, also with indices that point nowhere: SciPy itself crashes where it iterates over those."""
    made = scipy.sparse.random_array((16, 24), density=0.2, rng=r.randrange(9)).asformat(
        r.choice(["csr", "csc", "bsr", "coo", "dia", "lil", "dok"]))
    if damaged and hasattr(made, "indices") and r.random() < 0.5:
        made.indices = made.indices + r.choice([100, -50, 2**30])
    return made


def nonsense(r: Random) -> Any:
    """A value that few arguments are."""
    kind = r.randrange(12)
    if kind < 5:
        return r.choice([value for value in SCALARS if value is not len])  # what a caller's function raises is its own
    if kind < 8:
        return own_arrays(r)
    around: list[object] = []
    around.append(around)
    if kind == 8:
        return r.choice([Raises(), Lies(), Text("float16"), Whole(3), around, {"a": around}, fractions.Fraction(1, 3),
                         array.array("f", [1, 2]), memoryview(b"abcd"), bytearray(4), io.StringIO("1"), Raises, Lies])
    if kind == 9:
        return own_sparse(r)
    if kind == 10:
        return thing(r)
    return r.choice([2**31 - 1, 2**31, 2**32, 2**40, 2**62, -(2**31), 10**400, 1e-320, np.float16(65504), "a" * 10**5,
                     ["a"] * 1000, tuple(range(70)), [[1], [2, 3]], {1: 2}, np.str_("half"), "\0", "\ud800", 3.0])


def _size(r: Random) -> int:
    return r.choice([1, 2, 3, 4, 5, 8, 16, 17, 24, 64])


def _shape(r: Random) -> Any:
    return tuple(_size(r) for _ in range(r.choice([1, 2, 2, 3])))


def _array(r: Random) -> Any:
    shape = r.choice([(16, 24), (24, 5), (5, 16), (24, 16), (16, 5), (5, 24), (4, 4), (6, 10), (10, 5), (16,),
                      (24,), (5,)])
    return operand(shape, r.randrange(5), r.choice(["float32", "float32", "float16", "bfloat16", "f143", "f152"]))


def _matrix(r: Random) -> BlockSparseMatrix:
    made = matrix(r.randrange(4), r.choice(["float32", "float16", "bfloat16", "f143"]))
    return made.T if r.random() < 0.2 else made


def _dtype(r: Random) -> Any:
    return r.choice([*FORMATS, "half", "float", "float32", "float16", "bfloat16", "f143", "e5m2", np.float32, np.uint16,
                     Format("mine", 4, 3, 7), "quarter", np.float64])


def _words(*words: Any) -> Callable[[Random], Any]:
    return lambda r: r.choice(words)


_SMALL = Target.small(16)
_FIXED: dict[str, Callable[[], Any]] = {
    "PlanMatmul": lambda: poplin.plan_matmul((6, 10), (10, 5)),
    "PlanModelled": lambda: poplin.plan_matmul((64, 32), (32, 48), dtype="float16", target=_SMALL),
    "PlanConv": lambda: plan_convolution(_conv(), target=_SMALL),
    "PlanSparse": lambda: static.plan_sparse_dense_matmul(matrix(1), 5),
    "PlanGrad": lambda: static.plan_sparse_grad_w(matrix(1), 5),
    "PlanSoftmax": lambda: popsparse.plan_bs_softmax(matrix(1)),
    "PlanElementwise": lambda: popops.plan_elementwise("exp", (64,), target=_SMALL),
    "Problem": lambda: ConvProblem(_SMALL, matmul_params(1, 64, 64, 64, "half"), ConvOptions()),
}
PLANS = [name for name in _FIXED if name.startswith("Plan")]
_KEPT: dict[str, Any] = {}


def kept(name: str) -> Any:
    """An object that takes a while to make, once."""
    if name not in _KEPT:
        _KEPT[name] = _FIXED[name]()
    return _KEPT[name]


def _conv() -> poplin.ConvParams:
    return poplin.ConvParams.create(field=(8, 8), kernel=(3, 3), in_channels=8, out_channels=16, batch=2)


def _file(r: Random) -> Any:
    """A file that was saved and damaged, one that is whole, or a path to nothing."""
    FOLDER.mkdir(exist_ok=True)
    suffix = r.choice([".npz", ".smtx", ".mtx", ".quarter", ".txt", ""])
    path = FOLDER / f"w{suffix}"
    if r.random() < 0.1:
        return r.choice([FOLDER / "nowhere" / "w.npz", FOLDER, "", "\0.npz", str(FOLDER), "/dev/null",
                         "/proc/1/mem.npz"])
    if suffix in (".quarter", ".txt"):
        QuarterArray.from_array(operand((6, 8), 1), "f143", "auto", (2, 4)).save(path)
    else:
        source = path if suffix else path.with_suffix(".npz")
        matrix(1, block=1 if suffix in (".smtx", ".mtx") else 4).save(source)
        if source != path:
            source.replace(path)
    body = bytearray(path.read_bytes())
    for _ in range(r.choice([0, 0, 1, 1, 2, 8])):
        body[r.randrange(len(body))] = r.choice([r.randrange(256), *b"0129-. \n"])
    cut = len(body) if r.random() < 0.7 else r.randrange(len(body))
    path.write_bytes(bytes(body[:cut]) + r.choice([b"", b"", b"", b"\n", b"\0" * 9, b"1 1 1\n", bytes(body)]))
    return r.choice([str(path), path])


def _json(r: Random) -> str:
    """The text of a plan or a machine, damaged as text."""
    text = r.choice([kept("PlanModelled").to_json(), kept("PlanConv").to_json(), Target.gc200().to_json(),
                     '{"method": {"type": "AMP"}}', '{"0": {"partition": {"batchSplit": 2}}}'])
    for _ in range(r.choice([0, 0, 1, 1, 3])):
        at = r.randrange(len(text))
        new = r.choice(["9" * 30, "-", "null", "[", "}", '"', "1.5", "NaN", "true", "", "\0", "1e999", "[" * 2000])
        text = text[:at] + new + text[at + r.choice([0, 1, 1, 5]):]
    return text


def thing(r: Random) -> Any:
    """An object of the package's own."""
    return r.choice([_matrix, _quarter, lambda _: _SMALL, lambda _: matrix(1).pattern, lambda _: kept("PlanMatmul"),
                     lambda _: kept("PlanModelled"), lambda _: kept("PlanSparse"), lambda _: kept("Problem"),
                     lambda _: bounds.Ball.exact(np.ones(3)), lambda _: FP16, lambda _: dynamic.Capacity(30)])(r)


def _quarter(r: Random) -> QuarterArray:
    return QuarterArray.from_array(operand((6, 8), r.randrange(4)), r.choice(["f143", "f152"]), *r.choice(
        [(), (1,), ("auto",), ("auto", (2, 4))]))


def _callable(r: Random) -> Any:
    return r.choice([lambda *a, **k: 1, lambda *a, **k: None])


GOOD: dict[str, Callable[[Random], Any]] = {
    **dict.fromkeys(("x", "a", "b", "c", "y", "acts", "grads", "values", "value", "dense", "got", "want", "array",
                     "out",
                     "like", "exact", "centre", "radius", "magnitude", "products", "carried", "blocks", "bias",
                     "column", "weights"), _array),
    **dict.fromkeys(("w", "grad"), _matrix), "matrix": lambda r: own_sparse(r, damaged=True),
    **dict.fromkeys(("dtype", "out_dtype", "x_dtype", "w_dtype", "a_dtype", "b_dtype", "bias_dtype", "data_type",
                     "source",
                     "result", "input_type", "output_type", "partials"), _dtype),
    **dict.fromkeys(("shape", "a_shape", "b_shape", "mask_shape", "field", "kernel"), _shape),
    **dict.fromkeys(("rows", "columns", "inner", "batch", "groups", "in_channels", "out_channels", "n", "m", "k",
                     "below", "above", "count", "tiles", "elements", "block", "size", "extent", "split", "terms",
                     "threads", "offset", "index", "start", "stop", "rank", "seconds", "width",
                     "total", "room", "cycles"), _size),
    "block_shape": lambda r: r.choice([1, 2, 4, (2, 3), (1, -1), (4, 4), None]),
    "seed": lambda r: r.choice([0, 1, 7, 2**64 - 1, (1, 2), None]),
    "scale": lambda r: r.choice([0, 1, -3, "auto", None, 0.5, np.zeros(3, np.int8)]),
    "rounding": _words("nearest-even", "toward-zero", "stochastic", "unbiased", None),
    "overflow": _words("saturate", "nan", "inf", None),
    "activation": _words("relu", "gelu", "silu", None),
    "partials_type": _words("half", "float", "float32"),
    "side": _words("left", "right"),
    "target": lambda r: r.choice(["gc200", "bow", _SMALL, None, Target.host(), Target.c600(tiles=4)]),
    "options": lambda r: r.choice([{"availableMemoryProportion": 0.3}, {"partialsType": "half"}, {}, None,
                                   {"planConstraintsOutputFilename": "/nowhere/x"},
                                   {"planConstraints": '{"method": {"type": "AMP"}}'}]),
    "available_memory_proportion": _words(0.1, 0.6, 1, 0, 0.001, None),
    "density": _words(0.1, 0.5, 1.0, 0.0), "nz_ratio": _words(0.1, 1.0), "proportion": _words(0.1, 0.6),
    "proportions": _words([0.1, 0.6], (0.3,), [0.01]),
    "memory": _words(1 << 16, 1 << 20, 0), "tile_bytes": _words(1 << 19, 1),
    "params": lambda r: r.choice([_conv(), matmul_params(1, 8, 16, 8, "half")]),
    "problem": lambda r: kept("Problem"), "problems": lambda r: [kept("Problem")] * r.choice([1, 2]),
    "plan": lambda r: kept(r.choice([name for name in _FIXED if name.startswith("Plan")])),
    "other": lambda r: r.choice([kept("PlanConv"), kept("PlanModelled"), kept("PlanMatmul"), matrix(1).pattern]),
    "pattern": lambda r: matrix(r.randrange(3)).pattern,
    "mask": lambda r: r.choice([np.eye(4, 6, dtype=bool), "none", "zero-lower-triangular", ["none"]]),
    "row_offsets": lambda r: matrix(1).row_offsets, "column_indices": lambda r: matrix(1).column_indices,
    "row_indices": lambda r: np.array([1, 0, 0]),
    "capacity": lambda r: r.choice([dynamic.Capacity(30), None]),
    "storage": lambda r: matrix(1).to_host("csr"), "kind": _words("csr", "csc", "coo", "bsr", "ipu", "dense"),
    "path": _file, "text": _json, "constraints": _json,
    "directory": lambda r: r.choice([str(FOLDER), None, "/proc/x", "\0"]),
    "cache": lambda r: conv_cache(None), "stream": _words("counter", "ipu", "workers"),
    "prob": _words(0.3, 0.0, 1.0), "keep_prob": _words(0.5, 1.0), "low": _words(-1.0, 0, 3), "high": _words(2.0, 9),
    "alpha": _words(0.5, 1.0, 2.5), "beta": _words(0.0, 1.0), "axis": _words(0, 1, -1, None),
    "codes": lambda r: np.arange(12, dtype=np.uint8).reshape(3, 4),
    "op": _words("poplin.matmul", "cast", "static.sparse_dense_matmul", "exp"),
    "name": _words("poplin.matmul", "mine", "exp", "cast"), "ball": lambda r: bounds.Ball.exact(np.ones(3)),
    "family": _words("dot", "sparse", "cast", "elementwise", "peak"),
    "formats": _words("float32", "float32->float16", "float32,float32->float32"),
    "function": _callable, "plan_once": _callable, "calls": lambda r: [_callable(r)], "write": _callable,
    "read": _callable, "cost": _callable, "key": _words("a", (1, 2), 3), "metadata": lambda r: r.randrange(256),
    "input_transform": lambda r: [FieldTransform(padding_lower=1)],
    "output_transform": lambda r: [OutputTransform(stride=2)],
    "kernel_transform": lambda r: [FieldTransform(dilation=2)],
    "pass_": _words("NONE", "TRAINING_FWD", "FC_TRAINING_FWD"),
    "case": lambda r: _case(), "cases": lambda r: [_case()], "records": lambda r: [], "chart": lambda r: _line_chart(),
    "environment": lambda r: {"POPLIBS_NUM_THREADS": "2"}, "level": _words("portable", "avx2"),
    "category": lambda r: PoplibsWarning,
    "words": lambda r: np.zeros((4, 4), np.uint32), "seeds": lambda r: poprand.get_hw_seeds(_SMALL),
    "time_limit": _words(None, 1.0, 5), "type_name": _words("float32", "fp16"),
}  # fmt: skip
"""Values that make sense, by the name of the parameter."""


def _case() -> Any:
    return sparsity.Case(64, 64, 16, 0.25, 4)


def _line_chart() -> chart.LineChart:
    axis = chart.Axis("x")
    return chart.LineChart("a chart", axis, axis, [chart.Series("s", [1.0, 2.0], [2.0, 3.0])])


OWNERS: dict[str, Callable[[Random], Any]] = {
    "BlockSparseMatrix": _matrix, "BlockPattern": lambda r: matrix(r.randrange(3)).pattern, "QuarterArray": _quarter,
    "Format": lambda r: r.choice(FORMATS), "Target": lambda r: r.choice([_SMALL, Target.gc200(), Target.host()]),
    "Ball": lambda r: bounds.Ball(np.ones(3), np.ones(3) / 8), "ConvParams": lambda r: _conv(),
    "ConvOptions": lambda r: ConvOptions(), "ConvPlan": lambda r: kept(r.choice(["PlanConv", "PlanModelled"])),
    "ConvProblem": lambda r: kept("Problem"),
    "ConvConstraints": lambda r: ConvConstraints.parse('{"method": {"type": "AMP"}}'),
    "PlanConstraints": lambda r: planner.PlanConstraints("{}"), "Axis": lambda r: _axis(),
    "FieldTransform": lambda r: FieldTransform(padding_lower=1, dilation=2),
    "OutputTransform": lambda r: OutputTransform(stride=2), "Partition": lambda r: kept("PlanConv").partition,
    "Xoroshiro128aox": lambda r: poprand.Xoroshiro128aox(3), "SoftmaxPlan": lambda r: kept("PlanSoftmax"),
    "SparsePlan": lambda r: kept("PlanSparse"), "SddmmPlan": lambda r: kept("PlanGrad"),
    "Capacity": lambda r: dynamic.Capacity(30), "PreparedSparse": lambda r: static.prepare(matrix(1)),
    "PreparedDense": lambda r: static.prepare_dense(operand((24, 5), 1)),
    "PreparedMatrix": lambda r: poplin.prepare(operand((10, 5), 1)),
    "LinearMapping": lambda r: linear_mapping(_SMALL, 100, 4),
    "Kernel": lambda r: r.choice(kernels("dot")), "Selection": lambda r: kept("PlanSparse").selection,
    "Explanation": lambda r: kept("PlanConv").explain(), "Memory": lambda r: planner.Memory(),
    "Objective": lambda r: planner.Objective("cycles"), "PlanCache": lambda r: conv_cache(None),
    "PlanSummary": lambda r: kept("PlanConv").summary, "Sweep": lambda r: planner.sweep(kept("Problem"), [0.1, 0.6]),
    "Fit": lambda r: planner.fit([kept("Problem")], 1 << 20),
    "ExactOperands": lambda r: exact_operands((4, 4), (4, 4), "float32", "float32"),
    "Profile": lambda r: Profile(), "CSRMatrix": lambda r: matrix(1).to_host("csr"),
    "CSCMatrix": lambda r: matrix(1).to_host("csc"), "COOMatrix": lambda r: matrix(1).to_host("coo"),
    "LineChart": lambda r: _line_chart(), "report.chart.Axis": lambda r: chart.Axis("x"),
    "report.sparsity.Case": lambda r: _case(),
    "report.sparsity.Sweep": lambda r: sparsity.Sweep(types=("FP32",), peers=(), seconds=0.01),
    "PatternFile": lambda r: _pattern_file(), "Page": lambda r: page.Page("a title"),
    "Axes": lambda r: sparsity.axes_of([_case()]),
}  # fmt: skip
"""Objects whose methods are called, by class."""


def _pattern_file() -> sparsity.PatternFile:
    return sparsity.PatternFile("w.npz", scipy.sparse.csr_array(np.eye(16, dtype=np.float32)))


def _axis() -> Axis:
    return _conv().axes[0]
