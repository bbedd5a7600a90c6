"""Bad input raises before anything is drawn, naming the argument."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from poplibs_py import poprand
from poplibs_py.errors import InvalidArgumentError, InvalidTypeError, PoplibsError
from poplibs_py.formats import Format
from poplibs_py.target import Target

ONES = np.ones(4, np.float32)
SHAPED: dict[str, Callable[..., Any]] = {
    "bits": poprand.bits,
    "uniform": poprand.uniform,
    "log_uniform": lambda shape, **k: poprand.log_uniform(shape, 1, 2, **k),
    "normal": poprand.normal,
    "truncated_normal": poprand.truncated_normal,
    "bernoulli": poprand.bernoulli,
    "exponential": poprand.exponential,
    "gumbel": poprand.gumbel,
    "categorical": lambda shape, **k: poprand.categorical(shape, [1, 2], **k),
}
TWO_WAYS = ["uniform", "log_uniform", "normal", "truncated_normal", "bernoulli"]

SHAPES = [-1, (2, -3), (1 << 40, 1 << 40), 1 << 63, (1,) * 65]
SHAPES_OF_WRONG_TYPE = [1.5, "4", (2, 2.0), True, ({},)]


@pytest.mark.parametrize("op", SHAPED)
@pytest.mark.parametrize("shape", [*SHAPES, None], ids=str)
def test_shapes(op: str, shape: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="shape"):
        SHAPED[op](shape, seed=1)


@pytest.mark.parametrize("op", SHAPED)
@pytest.mark.parametrize("shape", SHAPES_OF_WRONG_TYPE, ids=str)
def test_shapes_of_wrong_type(op: str, shape: Any) -> None:
    with pytest.raises(InvalidTypeError, match="shape"):
        SHAPED[op](shape, seed=1)


@pytest.mark.parametrize("op", SHAPED)
def test_more_memory_than_there_is(op: str) -> None:
    with pytest.raises(InvalidArgumentError, match="fits in memory"):
        SHAPED[op](1 << 56, seed=1)


@pytest.mark.parametrize("op", SHAPED)
@pytest.mark.parametrize("arguments", [
    {"seed": -1}, {"seed": 1 << 64}, {"seed": (1, 1 << 32)}, {"seed": (1, -1)}, {"seed": (1,)}, {"seed": (1, 2, 3)},
    {"seed": 1, "seed_modifier": -1}, {"seed": 1, "seed_modifier": 1 << 32}, {"seed": 1, "offset": -1},
    {"seed": 1, "offset": 1 << 63}, {"offset": 5}, {"seed_modifier": 5},
], ids=str)
def test_places(op: str, arguments: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgumentError, match=r"^(seed|seed_modifier|offset):"):
        SHAPED[op](4, **arguments)


@pytest.mark.parametrize("op", SHAPED)
@pytest.mark.parametrize("arguments", [
    {"seed": 1.5}, {"seed": "1"}, {"seed": (1.0, 2)}, {"seed": True}, {"seed": 1, "seed_modifier": 0.5},
    {"seed": 1, "offset": "3"}, {"seed": 1, "out": [1.0, 2.0]},
], ids=str)
def test_places_of_wrong_type(op: str, arguments: dict[str, Any]) -> None:
    with pytest.raises(InvalidTypeError, match=r"^(seed|seed_modifier|offset|out):"):
        SHAPED[op](4, **arguments)


@pytest.mark.parametrize("op", [op for op in SHAPED if op != "bits"])
def test_streams(op: str) -> None:
    with pytest.raises(InvalidArgumentError, match="stream"):
        SHAPED[op](4, seed=1, stream="philox")
    if op not in TWO_WAYS:
        with pytest.raises(PoplibsError, match="stream"):
            SHAPED[op](4, seed=1, stream="ipu")


@pytest.mark.parametrize("op", [op for op in SHAPED if op not in ("bits", "categorical")])
@pytest.mark.parametrize("dtype", [np.float64, np.complex64, "nonsense", np.int64, object, [1], None], ids=str)
def test_dtypes(op: str, dtype: Any) -> None:
    with pytest.raises(InvalidTypeError, match="dtype"):
        SHAPED[op](4, seed=1, dtype=dtype)


@pytest.mark.parametrize("op", [op for op in SHAPED if op not in ("bits", "categorical")])
def test_outputs(op: str) -> None:
    readonly = np.zeros(4, np.float32)
    readonly.flags.writeable = False
    for out in (np.zeros(5, np.float32), np.zeros((4, 1), np.float32), readonly):
        before = out.copy()
        with pytest.raises(InvalidArgumentError, match="out"):
            SHAPED[op](4, seed=1, out=out)
        assert (out == before).all()
    with pytest.raises(InvalidTypeError, match="out"):
        SHAPED[op](4, seed=1, out=np.zeros(4, np.float64))


NOT_FINITE = [math.nan, math.inf, -math.inf]


@pytest.mark.parametrize("call", [
    *[lambda b=b: poprand.uniform(4, b, 1.0, seed=1) for b in NOT_FINITE],
    *[lambda b=b: poprand.uniform(4, 0.0, b, seed=1) for b in NOT_FINITE],
    lambda: poprand.uniform(4, 2, 1, seed=1),
    lambda: poprand.uniform(4, 0, 1e39, seed=1),
    lambda: poprand.uniform(4, -3e38, 3e38, seed=1),
    lambda: poprand.uniform(4, 0, 1e5, dtype=np.float16, seed=1),
    lambda: poprand.uniform(4, 1.0001, 1.0002, dtype=np.float16, seed=1),
    lambda: poprand.uniform(4, 0, 1 << 31, dtype=np.int32, seed=1),
    lambda: poprand.uniform(4, 5, 4, dtype=np.int32, seed=1),
    lambda: poprand.log_uniform(4, 0, 1, seed=1),
    lambda: poprand.log_uniform(4, 2, 2, seed=1),
    lambda: poprand.log_uniform(4, 1, math.inf, seed=1),
    lambda: poprand.log_uniform(4, 1, 2, 1.0, seed=1),
    lambda: poprand.log_uniform(4, 1, 2, -2.0, seed=1),
    lambda: poprand.log_uniform(4, 0.5, 2, seed=1, stream="ipu"),
    lambda: poprand.log_uniform(4, 1, 1e6, dtype=np.float16, seed=1),
    lambda: poprand.log_uniform(4, 0, 5, dtype=np.int32, seed=1),
    *[lambda b=b: poprand.normal(4, b, seed=1) for b in [*NOT_FINITE, 1e39]],
    *[lambda b=b: poprand.normal(4, 0, b, seed=1) for b in [*NOT_FINITE, -1.0]],
    *[lambda b=b: poprand.truncated_normal(4, alpha=b, seed=1) for b in [*NOT_FINITE, 0.0, -1.0]],
    *[lambda b=b: poprand.bernoulli(4, b, seed=1) for b in [*NOT_FINITE, -0.1, 1.1]],
    *[lambda b=b: poprand.dropout(ONES, b, seed=1) for b in [*NOT_FINITE, -0.1, 1.1]],
    *[lambda b=b: poprand.dropout(ONES, 0.5, b, seed=1) for b in NOT_FINITE],
    *[lambda b=b: poprand.shaped_dropout(ONES, 4, b, seed=1) for b in [*NOT_FINITE, -0.1, 1.1]],
    lambda: poprand.shaped_dropout(ONES, (3,), 0.5, seed=1),
    lambda: poprand.shaped_dropout(ONES, (2, 4), 0.5, seed=1),
    lambda: poprand.dropout_gradient(ONES, 0.5, seed=None),
    lambda: poprand.shaped_dropout_gradient(ONES, 4, 0.5, seed=None),
    *[lambda b=b: poprand.exponential(4, b, seed=1) for b in [*NOT_FINITE, 0.0, -1.0]],
    *[lambda b=b: poprand.gumbel(4, 0, b, seed=1) for b in [*NOT_FINITE, 0.0, -1.0]],
    *[lambda w=w: poprand.categorical(4, w, seed=1)
      for w in ([], [0, 0], [-1, 2], [math.nan], [math.inf], [[1, 2]], 3)],
    lambda: poprand.permutation(-1, seed=1),
    lambda: poprand.permutation(np.ones((2, 3)), axis=2, seed=1),
    lambda: poprand.permutation(np.array(3), seed=1),
    lambda: poprand.uniform(4, seed=1, stream="ipu", offset=3),
    lambda: poprand.uniform(4, seed=1, stream="ipu", target=Target.host()),
    lambda: poprand.uniform(4, seed=1, stream="ipu", tile_mapping=[[(0, 3)]]),
    lambda: poprand.uniform(4, seed=1, stream="ipu", tile_mapping=[[(0, 4)], [(3, 4)]]),
    lambda: poprand.uniform(4, seed=1, stream="ipu", tile_mapping=[[(0, 5)]]),
    lambda: poprand.uniform(4, seed=1, stream="ipu", tile_mapping=[[(3, 1), (0, 4)]]),
    lambda: poprand.set_seed(-1),
    lambda: poprand.set_hw_seeds(np.zeros((1472, 6, 4), np.uint32)),
    lambda: poprand.set_hw_seeds(np.ones((1, 6, 4), np.uint32)),
])
def test_values(call: Callable[[], Any]) -> None:
    with pytest.raises(InvalidArgumentError, match="allowed"):
        call()


@pytest.mark.parametrize("call", [
    lambda: poprand.uniform(4, "0", 1, seed=1),
    lambda: poprand.uniform(4, 0.5, 3, dtype=np.int32, seed=1),
    lambda: poprand.normal(4, None, seed=1),
    lambda: poprand.bernoulli(4, True, seed=1),
    lambda: poprand.dropout(["1"], 0.5, seed=1),
    lambda: poprand.dropout(np.ones(4), 0.5, seed=1),
    lambda: poprand.categorical(4, ["a"], seed=1),
    lambda: poprand.permutation(2.5, seed=1),
    lambda: poprand.bits(4, dtype=np.float32, seed=1),
    lambda: poprand.set_seed(None, stream="ipu"),
    lambda: poprand.set_hw_seeds([1, 2]),
    lambda: poprand.uniform(4, seed=1, stream="ipu", target=5),
    lambda: poprand.uniform(4, seed=1, stream="ipu", tile_mapping=[[3]]),
    lambda: poprand.uniform(4, seed=1, stream="ipu", tile_mapping=[[(0.0, 4)]]),
    lambda: poprand.uniform(4, seed=1, stream="ipu", tile_mapping=5),
])
def test_types(call: Callable[[], Any]) -> None:
    with pytest.raises(InvalidTypeError, match="allowed"):
        call()


@pytest.mark.parametrize("dtype", ["bfloat16", "f143"])
def test_dtypes_that_an_ipu_lacks(dtype: str) -> None:
    with pytest.raises(PoplibsError, match="dtype"):
        poprand.uniform(4, dtype=dtype, seed=1, stream="ipu")


@pytest.mark.parametrize("call", [
    partial(poprand.categorical, 4, [1, 2]),
    *(partial(op, 4) for op in (poprand.bits, poprand.exponential, poprand.gumbel, poprand.permutation))])
def test_what_no_machine_draws_is_refused_or_drawn_here(call: Callable[..., Any], refused_or_here: Any) -> None:
    refused_or_here(call, "in any form")


def test_a_refused_call_does_not_move_the_default_stream() -> None:
    poprand.set_seed(5)
    expected = poprand.uniform(8)
    poprand.set_seed(5)
    for bad in (lambda: poprand.uniform(8, 2, 1), lambda: poprand.normal(8, std=-1), lambda: poprand.bernoulli(8, 2)):
        with pytest.raises(InvalidArgumentError):
            bad()
    assert (poprand.uniform(8) == expected).all()


@given(st.sampled_from(sorted(SHAPED)), st.sampled_from([(), 0, (0, 3), (3, 0)]))
def test_empty_and_scalar_shapes(op: str, shape: Any) -> None:
    assert SHAPED[op](shape, seed=1).shape == (shape if isinstance(shape, tuple) else (shape,))
    if op in TWO_WAYS:
        assert SHAPED[op](shape, seed=1, stream="ipu").shape == (shape if isinstance(shape, tuple) else (shape,))


def test_a_format_without_a_dtype_is_refused_by_its_name() -> None:
    with pytest.raises(InvalidTypeError, match=r"^dtype: got e3m2;"):
        poprand.uniform((3,), seed=1, dtype=Format("e3m2", exponent_bits=3, mantissa_bits=2, bias=3))


@pytest.mark.parametrize("dtype", ["e2m1", "int8", np.int8, "word"])
def test_another_dtype_is_refused_with_those_that_there_are(dtype: object) -> None:
    with pytest.raises(InvalidTypeError, match=r"^dtype: got .*; allowed: one of float32, .*, e5m2, int32$"):
        poprand.uniform((3,), seed=1, dtype=dtype)
