"""Poolings' reference has a geometry of its own: it and the code's say the same windows. Kinds are records."""

from __future__ import annotations

import ast
from math import prod
from pathlib import Path

import numpy as np
import pytest
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from poplibs_py import popnn
from poplibs_py.errors import InvalidArgumentError
from poplibs_py.popnn.pooling.field import divisors, held
from poplibs_py.popnn.pooling.kinds import KINDS, PASSES
from poplibs_py.popnn.pooling.params import PoolParams
from poplibs_py.popnn.pooling.reference import Windows
from poplibs_py.popnn.pooling.request import windows_asked

PACKAGE = Path(popnn.__file__).parent / "pooling"


@st.composite
def windows_of_a_call(draw):
    """A field and what a call says of its windows."""
    field = tuple(draw(st.lists(st.integers(1, 9), min_size=1, max_size=3)))
    match draw(st.sampled_from(["kernel", "kernel", "size", "whole"])):
        case "size":
            return field, None, tuple(draw(st.one_of(st.none(), st.integers(1, n + 2))) for n in field), {}
        case "whole":
            return field, None, None, {}
    each = {name: tuple(draw(st.integers(1, 4)) for _ in field) for name in ("kernel", "stride", "dilation")}
    padding = tuple((draw(st.integers(-2, 3)), draw(st.integers(-2, 3))) for _ in field)
    for n, k, d, (low, high) in zip(field, each["kernel"], each["dilation"], padding, strict=True):
        if (k - 1) * d + 1 > n + low + high:
            return field, 1, None, {"ceil_mode": True}
    up = all(high >= 0 for _, high in padding) and draw(st.booleans())
    return field, each.pop("kernel"), None, each | {"padding": padding, "ceil_mode": up}


@settings(max_examples=examples(300))
@given(windows_of_a_call(), st.booleans())
def test_its_windows_are_those_of_the_code(call, include):
    field, kernel, size, how = call
    own = Windows(field, kernel, size, **how)
    default = {"stride": None, "padding": 0, "dilation": 1, "ceil_mode": False}
    asked = windows_asked(field, kernel, size, **default | how)
    assert own.outputs == tuple(w.outputs for w in asked)
    counts = np.ones(1)
    for window in asked:
        counts = (counts[:, None] * divisors(window, include)).reshape(-1)
    np.testing.assert_array_equal(own.counts(include), counts)
    sets = [[set()]]
    for window in asked:
        pairs = held(window)
        lines = [pairs.read[a:b] for a, b in zip(pairs.first[:-1], pairs.first[1:], strict=True)]
        sets.append([set(line.tolist()) for line in lines])
    due = np.zeros((prod(own.outputs), prod(field)), bool)
    for number, index in enumerate(np.ndindex(*own.outputs)):
        some = np.ix_(*(sorted(sets[d + 1][i]) for d, i in enumerate(index)))
        mask = np.zeros(field, bool)
        mask[some] = True
        due[number] = mask.reshape(-1)
    made = np.zeros_like(due)
    for number, (places, there) in enumerate(zip(own.places, own.there, strict=True)):
        assert len(set(places[there])) == there.sum()
        made[number, places[there]] = True
    np.testing.assert_array_equal(made, due)


def test_kinds_and_passes_are_known_by_name_in_their_table_alone():
    """But for functions that are of one kind, which say which."""
    names = {*KINDS, *PASSES} - {"pool", "gradient"}
    for path in PACKAGE.glob("*.py"):
        if path.stem in ("kinds", "api", "request"):
            continue
        tree = ast.parse(path.read_text())
        for found in ast.walk(tree):
            compared = isinstance(found, ast.Compare) and [found.left, *found.comparators]
            said = {node.value for node in compared or () if isinstance(node, ast.Constant)}
            assert not said & names, (path.name, found.lineno)


def test_a_kind_has_the_directions_of_its_record():
    plain = {"field": (4,), "kernel": (2,), "stride": (2,), "lower": (0,), "upper": (0,), "channels": 8, "batch": 1,
             "data_type": "half"}
    for name, kind in KINDS.items():
        for direction in kind.tiles:
            PoolParams(name, direction, **plain)
        if "scale" not in kind.tiles:
            with pytest.raises(InvalidArgumentError, match="direction: got scale"):
                PoolParams(name, "scale", **plain)
        assert kind.chooses == ("scale" in kind.tiles)
        assert kind.gradient in PASSES
