"""Every number that a public function takes, as each of NumPy's scalars and beyond every bound: served or refused."""

import resource
from inspect import signature
from pathlib import Path

import numpy as np
import pytest
from cases import CASES
from hostile import NO_NUMBERS, attempt

KINDS = [np.float16, np.float32, np.float64, np.int8, np.uint8, np.int32, np.int64, np.uint64]
BEYOND = [2**31, 2**64, 10**400, -(10**400), 1e308, *(kind(x) for kind in KINDS[:3] for x in ("nan", "inf", "-inf")),
          np.finfo(np.float16).max, np.finfo(np.float32).max, np.float64(1e308), np.uint64(2**64 - 1), np.int8(-128)]
FRACTION = 0.5


@pytest.fixture(autouse=True)
def _little_memory(_end_of_memory):
    """A number of elements may be any number: few are there, and soon found to be too many."""
    if resource.getrlimit(resource.RLIMIT_AS)[0] == resource.RLIM_INFINITY:
        return
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + (256 << 20), resource.getrlimit(resource.RLIMIT_AS)[1]))


def is_number(value):
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _numbers():
    """Each number that a function takes once: of a good call, of its options, or by default, and what it usually is."""
    met = set()
    for case in CASES:
        usual = {(name,): value for name, value in {**_defaults(case.function), **case.make()}.items()}
        usual |= {(*path, key): inner for path, value in usual.items() if isinstance(value, dict)
                  for key, inner in value.items()}
        for path, value in usual.items():
            if is_number(value) and (case.function, path) not in met:
                met.add((case.function, path))
                yield pytest.param(case, path, value, id="-".join([case.name, *path]))


def _defaults(function):
    return {name: FRACTION if name == "available_memory_proportion" else p.default
            for name, p in signature(function).parameters.items()}


NUMBERS = list(_numbers())


def put(arguments, path, value):
    """The arguments with another value at a path of one name or two."""
    if len(path) == 2:
        value = {**arguments[path[0]], path[1]: value}
    return {**arguments, path[0]: value}


@pytest.mark.parametrize(("case", "path", "usual"), NUMBERS)
def test_a_number_may_be_any_scalar(case, path, usual):
    arguments = case.make()
    with np.errstate(all="ignore"):
        converted = [np.array(usual).astype(kind)[()] for kind in KINDS]
    scalars = [x for x in converted if float(x) == usual]
    served = {type(x) for x in scalars if attempt(case.function, put(arguments, path, x))}
    due = {type(x) for x in scalars if isinstance(x, np.floating) == isinstance(usual, float)}
    operand = case.name.endswith(": a number")  # which no type holds where it is uint64 and others are signed
    assert served >= due - ({np.uint64} if operand else set())


@pytest.mark.parametrize(("case", "path", "usual"), NUMBERS)
def test_what_is_no_number_is_refused_where_one_stands(case, path, usual):
    arguments = case.make()
    assert not [type(value) for value in NO_NUMBERS if attempt(case.function, put(arguments, path, value))]


@pytest.mark.parametrize(("case", "path", "usual"), NUMBERS)
def test_a_number_beyond_every_bound_is_served_or_refused_clearly(case, path, usual):
    arguments = case.make()
    for value in BEYOND:
        attempt(case.function, put(arguments, path, value))
