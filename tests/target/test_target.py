"""Targets: published constants, JSON, and refusals."""

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from poplibs_py.config import thread_limit
from poplibs_py.errors import InvalidArgumentError, InvalidOptionError, InvalidTypeError, UnsupportedError
from poplibs_py.target import Target, cast_cycles, exchange_cycles, memory_limit, modelled_machine, resolve_target

PRESETS = ["gc2", "gc200", "bow", "c600", "host"]


@pytest.mark.parametrize("name", PRESETS)
def test_preset_round_trips_and_hashes(name: str) -> None:
    target = resolve_target(name)
    again = Target.from_json(target.to_json())
    assert again == target
    assert hash(again) == hash(target)
    assert target.name == name


@pytest.mark.parametrize(
    ("target", "types", "tflops"),
    [
        (Target.gc200(clock_hz=1.325e9), ("half", "half"), 250),
        (Target.gc200(clock_hz=1.325e9), ("half", "float"), 125),
        (Target.gc200(clock_hz=1.325e9), ("float", "float"), 62.5),
        (Target.bow(), ("half", "half"), 349),
    ],
)
def test_peak_rates_are_the_published_ones(target: Target, types: tuple[str, str], tflops: float) -> None:
    given_type, partial = types
    weights = target.weights_per_unit(given_type)
    # the inner loop takes 4 cycles for half inputs, 8 for float
    cycles = 8 if given_type == "float" else 4
    macs_per_cycle = target.units(given_type, partial) * weights // cycles
    rate = target.tiles * macs_per_cycle * 2 * target.clock_hz / 1e12
    assert round(rate / tflops, 1) == 1.0


def test_fp8_units_only_on_c600() -> None:
    assert Target.c600().units("quarter", "half") == 16
    assert Target.gc200().units("quarter", "half") == 0


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"tiles": 0}, InvalidArgumentError),
        ({"tiles": 1.5}, InvalidTypeError),
        ({"tiles": True}, InvalidTypeError),
        ({"exchange_bytes_per_cycle": float("nan")}, InvalidArgumentError),
        ({"bytes_per_tile": -1}, InvalidArgumentError),
        ({"kind": "gpu"}, InvalidArgumentError),
        ({"data_path_bits": 8}, InvalidArgumentError),
        ({"conv_units": (("half", "double", 4),)}, InvalidArgumentError),
        ({"conv_units": (("half", "half", 10**6),)}, InvalidArgumentError),
        ({"conv_load_elements": (("half", 10**6),)}, InvalidArgumentError),
        ({"workers": 10**6}, InvalidArgumentError),
        ({"conv_pipeline_depth": 10**6}, InvalidArgumentError),
        ({"tiles": 2**20 + 1}, InvalidArgumentError),
        ({"tile": 3}, InvalidTypeError),
    ],
)
def test_bad_fields_are_refused(fields: dict[str, object], error: type[Exception]) -> None:
    with pytest.raises(error, match=next(iter(fields))):
        Target.gc200(**fields)


@pytest.mark.parametrize("text", ["", "[]", '{"tile": 3}', '{"name": "x"}'])
def test_bad_json_is_refused(text: str) -> None:
    with pytest.raises((InvalidArgumentError, InvalidOptionError, InvalidTypeError)):
        Target.from_json(text)


@pytest.mark.parametrize("name", ["gc300", ""])
def test_unknown_name_is_refused(name: str) -> None:
    with pytest.raises(InvalidArgumentError, match="target"):
        resolve_target(name)
    with pytest.raises(InvalidTypeError):
        resolve_target(3)  # type: ignore[arg-type]


@given(st.floats(allow_nan=True, allow_infinity=True))
def test_bound_is_the_truncated_product(proportion: float) -> None:
    target = Target.gc200()
    if not 0 <= proportion <= 2**32:
        with pytest.raises(InvalidArgumentError):
            memory_limit(target, proportion)
        return
    bound = memory_limit(target, proportion)
    product = target.bytes_per_tile * proportion
    assert bound is None if product == 0 else bound == int(product)


@given(st.integers(0, 10**6), st.sampled_from(["float", "half", "quarter"]))
def test_sharing_a_bus_halves_the_cycles(elements: int, data_type: str) -> None:
    target = Target.gc200()
    alone = exchange_cycles(target, elements, data_type)
    shared = exchange_cycles(target, elements, data_type, shared=True)
    size = elements * {"float": 4, "half": 2, "quarter": 1}[data_type]
    assert (alone, shared) == (-(-size // 4), -(-size // 8))
    unshared = target.replace(exchange_bus_sharing=False)
    assert exchange_cycles(unshared, elements, data_type, shared=True) == alone


@given(st.integers(0, 10**6))
def test_cast_is_monotonic(elements: int) -> None:
    target = Target.gc200()
    assert cast_cycles(target, elements, "float", "half") <= cast_cycles(target, elements + 1, "float", "half")


def test_host_threads() -> None:
    assert Target.host(threads=3).tiles == 3
    for bad in (0, -1):
        with pytest.raises(InvalidArgumentError):
            Target.host(threads=bad)
    assert dataclasses.is_dataclass(Target.host())


@pytest.mark.parametrize(("arguments", "error", "words"), [
    ((3,), InvalidTypeError, "target: got 3"),
    (("gc3",), InvalidArgumentError, "target: got gc3"),
    (("host",), InvalidArgumentError, "target: got .*host"),
    (("gc200", "many"), InvalidTypeError, "most_tiles: got .*many"),
    (("gc200", True), InvalidTypeError, "most_tiles: got True"),
    (("gc200", -1), InvalidArgumentError, "most_tiles: got -1"),
    (("gc200", 12), UnsupportedError, "target: got 1472 tiles"),
])  # fmt: skip
def test_what_is_no_modelled_machine_is_refused_by_name(arguments, error, words) -> None:
    with pytest.raises(error, match=words):
        modelled_machine(*arguments)
    assert modelled_machine("gc200", 1472).tiles == 1472


def test_this_cpu_by_name_has_the_threads_of_the_settings():
    with thread_limit(3):
        assert Target.host().tiles == resolve_target("host").tiles == 3
    with thread_limit(1):
        assert resolve_target("host").tiles == 1
