"""The environment is read once, and what it may not hold is named."""

import pytest

from poplibs_py.config import LEVELS, read_settings, settings, thread_limit
from poplibs_py.errors import InvalidArgumentError, InvalidTypeError


@pytest.mark.parametrize("level", LEVELS)
def test_every_level_can_be_the_highest(level):
    assert read_settings({"POPLIBS_MAX_ISA": level.upper()}).max_isa == level


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("POPLIBS_MAX_ISA", "sse9"),
        ("POPLIBS_NUM_THREADS", "0"),
        ("POPLIBS_NUM_THREADS", "-1"),
        ("POPLIBS_NUM_THREADS", "two"),
        ("POPLIBS_NUM_THREADS", "257"),
        ("POPLIBS_LOG_LEVEL", "LOUD"),
        ("POPLIBS_RESULT_POOL", "-1"),
        ("POPLIBS_RESULT_POOL", "64M"),
        ("POPLIBS_RESULT_POOL", str((1 << 62) + 1)),
        ("POPLIBS_RESULT_POOL", "9" * 30),
    ],
)
def test_a_bad_value_is_named_with_what_is_allowed(name, value):
    with pytest.raises(InvalidArgumentError, match=f"{name}: got '?{value}'?; allowed: "):
        read_settings({name: value})


@pytest.mark.parametrize("limit", [0, 1, 1 << 62])
def test_the_pool_of_results_takes_any_number_of_bytes(limit):
    assert read_settings({"POPLIBS_RESULT_POOL": str(limit)}).result_pool == limit


def test_an_empty_variable_means_the_default():
    assert read_settings({"POPLIBS_MAX_ISA": "", "POPLIBS_LOG_DEST": ""}) == read_settings({})


def test_thread_limit_holds_within_its_block():
    before = settings.num_threads
    with thread_limit(3):
        assert settings.num_threads == 3
        with thread_limit(1):
            assert settings.num_threads == 1
        assert settings.num_threads == 3
    assert settings.num_threads == before


@pytest.mark.parametrize("count", [0, -1, 257, 1.0, True, "2"])
def test_thread_limit_refuses(count):
    before = settings.num_threads
    error = InvalidArgumentError if type(count) is int else InvalidTypeError
    with pytest.raises(error, match=r"^count: got"), thread_limit(count):
        pass
    assert settings.num_threads == before
