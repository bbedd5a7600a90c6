"""What the planning functions of PopNN take and refuse."""

from __future__ import annotations

import re

import numpy as np
import pytest

from poplibs_py import popnn, profile
from poplibs_py.errors import InvalidArgumentError, InvalidTypeError, MemoryLimitError, UnsupportedError
from poplibs_py.popnn.pooling.params import PoolParams
from poplibs_py.popnn.pooling.plan import planned
from poplibs_py.target import Target


def test_a_pooling_in_short_is_that_in_full():
    short = popnn.plan_pooling("avg", [2, 8, 9, 9], 3, dtype=np.float32, padding=(1, 0), channel_grouping=(2, 8))
    full = PoolParams("avg", "fwd", (9, 9), (3, 3), (3, 3), (1, 0), (1, 0), 8, 2, "float")
    assert short == planned(full, Target.gc200(), (2, 8))
    assert popnn.plan_pooling("max", (1, 8, 16), 2).params.stride == (2,)


def test_ctc_keeps_to_a_limit_or_says_what_it_takes():
    plan = popnn.plan_ctc_loss(16, 45, 16, 64, available_memory_proportion=0.02)
    assert plan.temp_bytes <= 0.02 * plan.target.bytes_per_tile
    with pytest.raises(MemoryLimitError, match=r"leaves 63 bytes of a tile; the least that any plan takes is [\d,]+"):
        popnn.plan_ctc_loss(16, 45, 16, 64, available_memory_proportion=1e-4)
    assert popnn.plan_ctc_loss(16, 45, 16, 64, available_memory_proportion=0).cycles <= plan.cycles


POOL = {"op": "max", "shape": (1, 8, 6, 6), "kernel": 2}
LOSS = {"batch": 2, "time": 8, "labels": 3, "classes": 5}
SEARCH = {"batch": 2, "classes": 5, "beams": 3}


@pytest.mark.parametrize(("name", "arguments", "error", "message"), [
    ("plan_pooling", POOL | {"op": "min"}, InvalidArgumentError, "op: got min"),
    ("plan_pooling", POOL | {"shape": (1, 8)}, InvalidTypeError, "shape: got"),
    ("plan_pooling", POOL | {"kernel": 9}, InvalidArgumentError, "kernel: got (9, 9)"),
    ("plan_pooling", POOL | {"kernel": (2, 2, 2)}, InvalidArgumentError, "kernel: got (2, 2, 2)"),
    ("plan_pooling", POOL | {"stride": 0}, InvalidArgumentError, "stride: got 0"),
    ("plan_pooling", POOL | {"op": "sum", "direction": "scale"}, InvalidArgumentError, "direction: got scale"),
    ("plan_pooling", POOL | {"dtype": "int"}, InvalidArgumentError, "dtype: got int"),
    ("plan_pooling", POOL | {"shape": (1, 3, 6, 6)}, UnsupportedError, "shape: got 3 channels"),
    ("plan_pooling", POOL | {"shape": (1, 8, 1 << 30, 1 << 30)}, InvalidArgumentError, "field: got"),
    ("plan_pooling", POOL | {"channel_grouping": 0}, InvalidArgumentError, "channel_grouping: got 0"),
    ("plan_ctc_loss", LOSS | {"batch": 0}, InvalidArgumentError, "batch: got 0"),
    ("plan_ctc_loss", LOSS | {"partials_type": "int"}, InvalidArgumentError, "partials_type: got int"),
    ("plan_ctc_loss", LOSS | {"reduced_classes": 2}, InvalidTypeError, "reduced_classes: got 2"),
    ("plan_ctc_loss", LOSS | {"time": 1 << 30, "batch": 1 << 20}, InvalidArgumentError, "batch: got 1048576"),
    ("plan_ctc_inference", SEARCH | {"beams": "x"}, InvalidTypeError, "beams: got x"),
    ("plan_ctc_inference", SEARCH | {"target": "host"}, UnsupportedError, "target: got host"),
    ("plan_ctc_loss", LOSS | {"target": Target.gc200(tiles=5000)}, UnsupportedError, "target: got 5000 tiles"),
])  # fmt: skip
def test_what_cannot_be_planned_is_refused_by_name(name, arguments, error, message):
    with pytest.raises(error, match=re.escape(message)):
        getattr(popnn, name)(**arguments)


@pytest.mark.parametrize(("run", "formats"), [
    (lambda x: popnn.softmax(x), "float16 to float16"),
    (lambda x: popnn.softmax(x, out_dtype="float32"), "float16 to float32"),
    (lambda x: popnn.batch_norm(x, np.ones(4, np.float32)), "float16, float32 to float32"),
    (lambda x: popnn.pool(x, 2), "float16 to float16"),
    (lambda x: popnn.max_pool_with_indices(x, 2), "float16 to float16"),
    (lambda x: popnn.scaled_dot_product_attention(x, x, x, np.ones((6, 6), bool), return_lse=True),
     "float16 to float16, float32"),
    (lambda x: popnn.roi_align(x, np.float32([[0, 0, 4, 4]]), np.int32([0]), 2, 2), "float16 to float16"),
], ids=["softmax", "softmax to float32", "batch norm", "pool", "maxima", "attention", "regions"])  # fmt: skip
def test_what_a_run_is_of_names_formats_so_that_reports_match_like_with_like(run, formats):
    with profile() as report:
        run(np.ones((2, 4, 6, 6), np.float16))
    assert report.runs[0].what.endswith(f", {formats}")
