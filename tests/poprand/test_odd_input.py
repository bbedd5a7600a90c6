"""Odd input is served as it should be, or refused by name: odd numbers, odd arrays, other libraries' objects."""

from __future__ import annotations

import decimal
import fractions
import math
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


class Evil:
    """Fails however it is asked."""

    def __index__(self) -> int:
        raise RuntimeError

    def __float__(self) -> float:
        raise RuntimeError

    def __repr__(self) -> str:
        raise RuntimeError


NUMBERS: dict[str, Any] = {
    "uniform low": lambda v: poprand.uniform(4, v, 2, seed=1),
    "uniform high": lambda v: poprand.uniform(4, 0, v, seed=1),
    "uniform int": lambda v: poprand.uniform(4, v, 5, dtype="int32", seed=1),
    "normal mean": lambda v: poprand.normal(4, v, seed=1),
    "normal std": lambda v: poprand.normal(4, 0, v, seed=1),
    "alpha": lambda v: poprand.truncated_normal(4, 0, 1, v, seed=1),
    "prob": lambda v: poprand.bernoulli(4, v, seed=1),
    "keep_prob": lambda v: poprand.dropout(X, v, seed=1),
    "scale": lambda v: poprand.dropout(X, 0.5, v if v is not None else math.nan, seed=1),
    "shaped keep_prob": lambda v: poprand.shaped_dropout(X, 40, v, seed=1),
    "exponential": lambda v: poprand.exponential(4, v, seed=1),
    "gumbel loc": lambda v: poprand.gumbel(4, v, seed=1),
    "gumbel scale": lambda v: poprand.gumbel(4, 0, v, seed=1),
    "log_uniform low": lambda v: poprand.log_uniform(4, v, 3, seed=1),
    "log_uniform high": lambda v: poprand.log_uniform(4, 0.1, v, seed=1),
    "log_uniform base": lambda v: poprand.log_uniform(4, 1, 2, v, seed=1),
    "weights": lambda v: poprand.categorical(4, v, seed=1),
    "weight": lambda v: poprand.categorical(4, [v, 1], seed=1),
    "permutation": lambda v: poprand.permutation(v, seed=1),
    "ipu uniform": lambda v: poprand.uniform(4, 0, v, seed=1, stream="ipu"),
    "ipu normal": lambda v: poprand.normal(4, 0, v, dtype="float16", seed=1, stream="ipu"),
    "ipu alpha": lambda v: poprand.truncated_normal(4, 0, 1, v, seed=1, stream="ipu"),
    "ipu prob": lambda v: poprand.bernoulli(4, v, seed=1, stream="ipu"),
    "ipu high": lambda v: poprand.log_uniform(4, 1, v, seed=1, stream="ipu"),
    "seed": lambda v: poprand.uniform(4, seed=v if v is not None else "None"),
    "seed_modifier": lambda v: poprand.uniform(4, seed=1, seed_modifier=v),
    "offset": lambda v: poprand.uniform(4, seed=1, offset=v),
    "shape": lambda v: poprand.uniform((v, 2), seed=1),
    "generator state": lambda v: poprand.Xoroshiro128aox(state=(v, 1)),
    "generator steps": lambda v: poprand.Xoroshiro128aox(1).advance(v),
    "generator jumps": lambda v: poprand.Xoroshiro128aox(1).jumped(v),
    "generator exponent": lambda v: poprand.Xoroshiro128aox(1).jumped(exponent=v),
}
NO_NUMBERS = [None, "0.5", b"1", 1j, np.complex64(0.5), Evil(), {}, [], object(), np.datetime64(1, "s"),
              np.ma.masked, math.nan, math.inf, -math.inf, ["a"], [[1, 2], [3]], slice(2)]


@pytest.mark.parametrize("call", NUMBERS)
@pytest.mark.parametrize("value", NO_NUMBERS, ids=lambda v: type(v).__name__)
def test_what_is_no_number(call: str, value: Any) -> None:
    with pytest.raises(PoplibsError, match="allowed") as caught:
        NUMBERS[call](value)
    assert len(str(caught.value)) < 330


@pytest.mark.parametrize("value", [decimal.Decimal("0.5"), fractions.Fraction(1, 2), np.float16(0.5), single(0.5),
                                   np.array(0.5), np.longdouble(0.5)], ids=lambda v: type(v).__name__)
def test_every_kind_of_number(value: Any) -> None:
    assert (poprand.normal(9, value, value, seed=1) == poprand.normal(9, 0.5, 0.5, seed=1)).all()
    assert (poprand.bernoulli(9, value, seed=1) == poprand.bernoulli(9, 0.5, seed=1)).all()


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


def test_byte_orders() -> None:
    for bad in (lambda: poprand.bits(4, dtype=">u4", seed=1), lambda: poprand.uniform(4, dtype=">f4", seed=1),
                lambda: poprand.dropout(X.astype(">f4"), 0.5, seed=1),
                lambda: poprand.uniform(40, seed=1, out=X.astype(">f4"))):
        with pytest.raises(InvalidTypeError, match="allowed"):
            bad()


def test_formats_of_users() -> None:
    """There are kernels for the presets alone: another format is refused, even where it has a dtype."""
    for form in (Format("e3m2", 3, 2, 3), Format("mine", 4, 11, 7, dtype=np.dtype(np.float16))):
        with pytest.raises(InvalidTypeError, match="dtype"):
            poprand.uniform(4, dtype=form, seed=1)


def test_a_machine_without_its_stream() -> None:
    for argument in ({"target": Target.gc200()}, {"tile_mapping": [[(0, 4)]]}):
        for op in (poprand.uniform, poprand.normal, poprand.truncated_normal, poprand.bernoulli):
            with pytest.raises(InvalidArgumentError, match=next(iter(argument))):
                op(4, seed=1, **argument)
        with pytest.raises(InvalidArgumentError, match=next(iter(argument))):
            poprand.dropout(X, 0.5, seed=1, **argument)


def test_shapes_that_numpy_cannot_count() -> None:
    for shape in ((0, 1 << 62), (1 << 31, 1 << 31, 1 << 31), (1 << 62, 4)):
        with pytest.raises(InvalidArgumentError, match="shape"):
            poprand.uniform(shape, seed=1)


@pytest.mark.parametrize("seed", [-1, [1, -2], 0.5, "1", {}, Evil(), np.array(0.5)], ids=lambda v: type(v).__name__)
def test_seeds_of_a_generator(seed: Any) -> None:
    with pytest.raises(PoplibsError, match="seed"):
        poprand.Xoroshiro128aox(seed)


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
