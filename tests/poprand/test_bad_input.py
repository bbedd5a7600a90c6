"""Bad input is refused in words of poprand's own, and odd input is served: numbers, arrays, other libraries' objects.

What every op refuses alike is tried in `tests/stress`, on calls of the catalogue.
"""

from __future__ import annotations

import decimal
import fractions
import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from poplibs_py import cast, poprand
from poplibs_py.errors import InvalidArgumentError, InvalidTypeError, PoplibsError
from poplibs_py.formats import F143, FORMATS, FP16, Format
from poplibs_py.target import Target

single = np.float32
X = np.arange(1, 41).astype(single)
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
OF_A_DTYPE = [op for op in SHAPED if op not in ("bits", "categorical")]


def on_ipu(**how: Any) -> Any:
    return poprand.uniform(4, seed=1, stream="ipu", **how)


VALUES: dict[str, list[Callable[[], Any]]] = {
    "low: got .*; allowed: at most high, which is ": [
        lambda: poprand.uniform(4, 2, 1, seed=1), lambda: poprand.uniform(4, 5, 4, dtype="int32", seed=1)],
    "high: got .*; allowed: limits whose difference is a finite float32": [
        lambda: poprand.uniform(4, -3e38, 3e38, seed=1)],
    "low: got .*; allowed: limits with a float16 number between them": [
        lambda: poprand.uniform(4, 1.0001, 1.0002, dtype="float16", seed=1)],
    "high: got .*; allowed: a finite number from -65504 to 65504": [
        lambda: poprand.uniform(4, 0, 1e5, dtype="float16", seed=1)],
    "high: got .*; allowed: a whole number from -2147483648 to 2147483647": [
        lambda: poprand.uniform(4, 0, 1 << 31, dtype="int32", seed=1)],
    r"low: got .*; allowed: at least 1\.17549e-38": [lambda: poprand.log_uniform(4, 0, 1, seed=1)],
    "low: got .*; allowed: at least 1$": [
        lambda: poprand.log_uniform(4, 0, 5, dtype="int32", seed=1),
        lambda: poprand.log_uniform(4, 0.5, 2, seed=1, stream="ipu")],
    "high: got .*; allowed: more than low, which is 2": [lambda: poprand.log_uniform(4, 2, 2, seed=1)],
    "high: got .*; allowed: at most 65504, the largest float16": [
        lambda: poprand.log_uniform(4, 1, 1e6, dtype="float16", seed=1)],
    "base: got .*; allowed: a positive number": [
        lambda: poprand.log_uniform(4, 1, 2, 1.0, seed=1), lambda: poprand.log_uniform(4, 1, 2, -2.0, seed=1)],
    "std: got -1.0; allowed: a finite number from 0 ": [lambda: poprand.normal(4, 0, -1.0, seed=1)],
    "(alpha|scale): got .*; allowed: a positive number": [
        call for b in (0.0, -1.0) for call in (
            lambda b=b: poprand.truncated_normal(4, alpha=b, seed=1), lambda b=b: poprand.exponential(4, b, seed=1),
            lambda b=b: poprand.gumbel(4, 0, b, seed=1))],
    "(keep_)?prob: got .*; allowed: a finite number from 0 to 1": [
        call for b in (-0.1, 1.1) for call in (
            lambda b=b: poprand.bernoulli(4, b, seed=1), lambda b=b: poprand.dropout(X, b, seed=1),
            lambda b=b: poprand.shaped_dropout(X, 40, b, seed=1))],
    r"mask_shape: got .*; allowed: a shape that broadcasts to \(40,\)": [
        lambda: poprand.shaped_dropout(X, (3,), 0.5, seed=1), lambda: poprand.shaped_dropout(X, (2, 40), 0.5, seed=1)],
    "seed: got None; allowed: the seed that the forward pass was given": [
        lambda: poprand.dropout_gradient(X, 0.5, seed=None),
        lambda: poprand.shaped_dropout_gradient(X, 40, 0.5, seed=None)],
    "weights: got .*; allowed: finite weights, none negative, not all zero": [
        lambda w=w: poprand.categorical(4, w, seed=1) for w in ([0, 0], [-1, 2], [math.nan], [math.inf])],
    "weights: got .*; allowed: one dimension, at least one class": [
        lambda w=w: poprand.categorical(4, w, seed=1) for w in ([], [[1, 2]], 3)],
    "x: got .*; allowed: a whole number from 0": [lambda: poprand.permutation(-1, seed=1)],
    "axis: got 2; allowed: a whole number from -2 to 1": [
        lambda: poprand.permutation(np.ones((2, 3)), axis=2, seed=1)],
    "x: got .*; allowed: at least one dimension": [lambda: poprand.permutation(np.array(3), seed=1)],
    "offset: got 3; allowed: 0 for stream='ipu'": [lambda: on_ipu(offset=3)],
    "target: got host; allowed: a modelled IPU": [lambda: on_ipu(target=Target.host())],
    "tile_mapping: got .*; allowed: every element on one tile": [
        lambda: on_ipu(tile_mapping=[[(0, 3)]]), lambda: on_ipu(tile_mapping=[[(0, 4)], [(3, 4)]])],
    "tile_mapping: got .*; allowed: 0 <= begin <= end <= 4": [
        lambda: on_ipu(tile_mapping=[[(0, 5)]]), lambda: on_ipu(tile_mapping=[[(3, 1), (0, 4)]])],
    "seed: got -1": [lambda: poprand.set_seed(-1)],
    "seeds: got .*; allowed: states that are not all zero": [
        lambda: poprand.set_hw_seeds(np.zeros((1472, 6, 4), np.uint32))],
    r"seeds: got .*; allowed: one of shape \(1472, 6, 4\)": [
        lambda: poprand.set_hw_seeds(np.ones((1, 6, 4), np.uint32))],
    "stream: got philox": [lambda op=op: SHAPED[op](4, seed=1, stream="philox") for op in SHAPED if op != "bits"],
    "shape: got .*; allowed: a shape, or None together with out": [
        lambda op=op: SHAPED[op](None, seed=1) for op in SHAPED],
    "out: got a result of shape .*; allowed: what fits in memory": [
        lambda op=op: SHAPED[op](1 << 56, seed=1) for op in SHAPED],
}
TYPES: dict[str, list[Callable[[], Any]]] = {
    "low: got 0.5; allowed: a whole number": [lambda: poprand.uniform(4, 0.5, 3, dtype="int32", seed=1)],
    "x: got .*; allowed: an array of float32, float16": [
        lambda: poprand.dropout(["1"], 0.5, seed=1), lambda: poprand.dropout(np.ones(4), 0.5, seed=1),
        lambda: poprand.dropout(X.astype(">f4"), 0.5, seed=1)],
    "weights: got .*; allowed: a one-dimensional array of numbers": [
        lambda w=w: poprand.categorical(4, w, seed=1) for w in (["a"], [None, 1], [1j, 1], [[1, 2], [3]])],
    "x: got 2.5; allowed: a whole number": [lambda: poprand.permutation(2.5, seed=1)],
    "dtype: got .*; allowed: an integer dtype in the machine's byte order": [
        lambda: poprand.bits(4, dtype=single, seed=1), lambda: poprand.bits(4, dtype=">u4", seed=1)],
    "seed: got None": [lambda: poprand.set_seed(None, stream="ipu")],
    "seeds: got .*; allowed: an array of uint32": [lambda: poprand.set_hw_seeds([1, 2])],
    "target: got 5": [lambda: on_ipu(target=5)],
    "tile_mapping: got .*; allowed: intervals .* of whole numbers": [
        lambda: on_ipu(tile_mapping=[[3]]), lambda: on_ipu(tile_mapping=[[(0.0, 4)]])],
    "tile_mapping: got 5; allowed: a list of intervals for each of at most 1472 tiles": [
        lambda: on_ipu(tile_mapping=5)],
    "dtype: got .*; allowed: one of float32, .*, e5m2(, int32)?(, bool)?$": [
        lambda op=op, dtype=dtype: SHAPED[op](4, seed=1, dtype=dtype) for op in OF_A_DTYPE for dtype in (
            np.float64, np.complex64, "nonsense", np.int64, object, [1], None, "e2m1", np.int8, ">f4",
            Format("e3m2", 3, 2, 3), Format("mine", 4, 11, 7, dtype=np.dtype(np.float16)))],
}


@pytest.mark.parametrize("message", [*VALUES, *TYPES])
def test_bad_input_is_refused_in_these_words(message: str) -> None:
    for call in VALUES.get(message) or TYPES[message]:
        with pytest.raises(InvalidArgumentError if message in VALUES else InvalidTypeError, match=f"^{message}"):
            call()


NUMBERS: dict[str, Any] = {
    "uniform low": lambda v: poprand.uniform(4, v, 2, seed=1),
    "uniform high": lambda v: poprand.uniform(4, 0, v, seed=1),
    "uniform int": lambda v: poprand.uniform(4, v, 5, dtype="int32", seed=1),
    "normal mean": lambda v: poprand.normal(4, v, seed=1),
    "normal std": lambda v: poprand.normal(4, 0, v, seed=1),
    "alpha": lambda v: poprand.truncated_normal(4, 0, 1, v, seed=1),
    "prob": lambda v: poprand.bernoulli(4, v, seed=1),
    "keep_prob": lambda v: poprand.dropout(X, v, seed=1),
    "scale": lambda v: poprand.dropout(X, 0.5, v, seed=1),
    "shaped keep_prob": lambda v: poprand.shaped_dropout(X, 40, v, seed=1),
    "exponential": lambda v: poprand.exponential(4, v, seed=1),
    "gumbel loc": lambda v: poprand.gumbel(4, v, seed=1),
    "gumbel scale": lambda v: poprand.gumbel(4, 0, v, seed=1),
    "log_uniform low": lambda v: poprand.log_uniform(4, v, 3, seed=1),
    "log_uniform high": lambda v: poprand.log_uniform(4, 0.1, v, seed=1),
    "log_uniform base": lambda v: poprand.log_uniform(4, 1, 2, v, seed=1),
    "ipu uniform": lambda v: poprand.uniform(4, 0, v, seed=1, stream="ipu"),
    "ipu normal": lambda v: poprand.normal(4, 0, v, dtype="float16", seed=1, stream="ipu"),
    "ipu alpha": lambda v: poprand.truncated_normal(4, 0, 1, v, seed=1, stream="ipu"),
    "ipu prob": lambda v: poprand.bernoulli(4, v, seed=1, stream="ipu"),
    "ipu high": lambda v: poprand.log_uniform(4, 1, v, seed=1, stream="ipu"),
}


@pytest.mark.parametrize("name", NUMBERS)
def test_a_number_is_finite_and_no_text(name: str) -> None:
    for value in (math.nan, math.inf, -math.inf, 1e39, "0.5", b"1", 1j, True, [1, 2], object()):
        with pytest.raises(PoplibsError, match=r": got .*; allowed: (a .*number|(at most|more than) )"):
            NUMBERS[name](value)


@pytest.mark.parametrize("value", [decimal.Decimal("0.5"), fractions.Fraction(1, 2), np.float16(0.5), single(0.5),
                                   np.array(0.5), np.longdouble(0.5)], ids=lambda v: type(v).__name__)
def test_every_kind_of_number(value: Any) -> None:
    assert (poprand.normal(9, value, value, seed=1) == poprand.normal(9, 0.5, 0.5, seed=1)).all()
    assert (poprand.bernoulli(9, value, seed=1) == poprand.bernoulli(9, 0.5, seed=1)).all()


@pytest.mark.parametrize("op", [op for op in SHAPED if op not in TWO_WAYS and op != "bits"])
def test_what_an_ipu_does_not_draw(op: str) -> None:
    with pytest.raises(PoplibsError, match=r"^stream: got 'ipu'; allowed for"):
        SHAPED[op](4, seed=1, stream="ipu")


@pytest.mark.parametrize("dtype", ["bfloat16", "f143"])
def test_dtypes_that_an_ipu_lacks(dtype: str) -> None:
    with pytest.raises(PoplibsError, match=r"^dtype: got .*; allowed for stream='ipu': float32, float16, int32"):
        on_ipu(dtype=dtype)


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


def test_what_was_remembered_of_a_number_is_not_taken_for_another() -> None:
    one = poprand.uniform(9, 0, 1, seed=1)
    for other in (True, np.True_, np.complex64(1), 1 + 0j):
        with pytest.raises(InvalidTypeError, match="high"):
            poprand.uniform(9, 0, other, seed=1)
    limit = np.array(1.0)
    assert (poprand.uniform(9, 0, limit, seed=1) == one).all()
    limit[...] = 2.0
    assert (poprand.uniform(9, 0, limit, seed=1) == poprand.uniform(9, 0, 2, seed=1)).all()
    assert not np.signbit(poprand.normal(9, -0.0, 0.0, seed=1)).any()
    for k in range(1, 600):  # more than are remembered
        assert 0 <= poprand.uniform(1, 0, k, seed=k) < k


def test_contents_of_long_arguments_are_not_in_messages() -> None:
    long = [1.0] * 10_000 + [-1.0]
    for bad in (lambda: poprand.categorical(3, long), lambda: poprand.categorical(3, np.array(long)),
                lambda: poprand.dropout(np.array(long), 0.5), lambda: poprand.dropout(X, long),
                lambda: poprand.uniform(long), lambda: poprand.uniform(3, seed=long)):
        with pytest.raises(PoplibsError) as caught:
            bad()
        assert len(str(caught.value)) < 330
        assert "\n" not in str(caught.value)


def at_odd_address(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    held = np.zeros(x.nbytes + 1, np.uint8)[1:].view(x.dtype)
    held[...] = x
    return held


@pytest.mark.parametrize("form", FORMATS, ids=str)
def test_arrays_at_odd_addresses(form: Any) -> None:
    x = cast(X, form)
    dropped = poprand.dropout(x, 0.5, seed=1)
    assert poprand.dropout(at_odd_address(x), 0.5, seed=1, out=at_odd_address(x)).tobytes() == dropped.tobytes()
    drawn = poprand.normal(40, dtype=form, seed=1)
    assert poprand.normal(None, dtype=form, seed=1, out=at_odd_address(x)).tobytes() == drawn.tobytes()


@given(st.integers(-30, 30), st.sampled_from([1, 2, -1, -2]), st.sampled_from([1, 2, -1, -2]))
def test_an_output_that_overlaps_the_input(shift: int, read_step: int, write_step: int) -> None:
    held = np.arange(1, 201).astype(single)
    x, out = held[80:120:2][::read_step], held[80 + shift:120 + shift:2][::write_step]
    n = min(x.size, out.size)
    expected = poprand.dropout(x[:n].copy(), 0.5, seed=3)
    assert (poprand.dropout(x[:n], 0.5, seed=3, out=out[:n]) == expected).all()
    held = np.arange(1, 201).astype(single)
    expected = poprand.dropout(held[80:120].copy(), 0.5, seed=3)
    assert (poprand.dropout(held[80:120], 0.5, seed=3, out=held[80 + shift:120 + shift]) == expected).all()


def test_outputs_whose_elements_share_memory() -> None:
    held = np.zeros(40, single)
    for out in (np.lib.stride_tricks.as_strided(held, (40,), (0,)), np.lib.stride_tricks.as_strided(held, (40,), (2,)),
                np.lib.stride_tricks.sliding_window_view(held, 5, writeable=True)):
        with pytest.raises(InvalidArgumentError, match="out"):
            poprand.uniform(None, seed=1, out=out)
        with pytest.raises(InvalidArgumentError, match="out"):
            cast(np.ones(out.shape, single), "float32", out=out)
    assert not held.any()


def test_masks_are_not_ignored() -> None:
    masked = np.ma.masked_array(X, mask=X > 3)
    for bad in (lambda: poprand.uniform(40, seed=1, out=masked), lambda: poprand.dropout(masked, 0.5, seed=1),
                lambda: poprand.shaped_dropout(masked, 40, 0.5, seed=1), lambda: poprand.categorical(3, masked)):
        with pytest.raises(InvalidTypeError):
            bad()
    assert poprand.dropout(X.view(np.recarray), 0.5, seed=1).tobytes() == poprand.dropout(X, 0.5, seed=1).tobytes()


def test_a_machine_without_its_stream() -> None:
    for argument in ({"target": Target.gc200()}, {"tile_mapping": [[(0, 4)]]}):
        for op in (poprand.uniform, poprand.normal, poprand.truncated_normal, poprand.bernoulli):
            with pytest.raises(InvalidArgumentError, match=next(iter(argument))):
                op(4, seed=1, **argument)
        with pytest.raises(InvalidArgumentError, match=next(iter(argument))):
            poprand.dropout(X, 0.5, seed=1, **argument)


def test_tensors() -> None:
    torch = pytest.importorskip("torch")
    dropped = poprand.dropout(X, 0.5, seed=1)
    assert (poprand.dropout(torch.from_numpy(X), 0.5, seed=1) == dropped).all()
    assert (poprand.shaped_dropout(torch.from_numpy(X), 40, 0.5, seed=1) == dropped).all()
    tensor = torch.tensor(0.5)
    half = poprand.bernoulli(99, tensor, seed=1)
    tensor.fill_(0.0)
    assert half.any()
    assert not poprand.bernoulli(99, tensor, seed=1).any()
    for bad in (torch.ones(3, requires_grad=True), torch.ones(3).to_sparse(), torch.ones(3, dtype=torch.float64)):
        with pytest.raises(InvalidTypeError, match="x"):
            poprand.dropout(bad, 0.5, seed=1)
    filled = torch.zeros(40)
    assert poprand.dropout(X, 0.5, seed=1, out=filled) is filled
    assert (filled.numpy() == dropped).all()
    with pytest.raises(InvalidTypeError, match="out"):
        poprand.uniform(3, seed=1, out=torch.ones(3, dtype=torch.float64))


def test_shaped_dropout_rounds_as_dropout_does() -> None:
    """What is too large becomes the largest number where there is no infinity, and infinity where there is."""
    for form in (F143, FP16):
        x = np.full(99, form.max, form.dtype)
        shaped = poprand.shaped_dropout(x, 99, 0.5, seed=4)
        assert shaped.tobytes() == poprand.dropout(x, 0.5, seed=4).tobytes()
        assert not np.isnan(shaped.astype(single)).any()
