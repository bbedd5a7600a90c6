"""Sequences that are built of calls which are described: where their numbers lie, and for how long."""

from __future__ import annotations

import numpy as np

from poplibs_py import popops
from poplibs_py.popops.sequence import SequenceBuilder


def doubled(builder, x):
    """Room for twice an array, which is made in two parts."""
    made = builder.room(x.shape)
    builder.call(popops.add, x, x, out=made)
    return made


def test_room_that_was_given_away_is_taken_again():
    x, y = np.arange(32, dtype=np.float32), np.zeros(32, np.float32)
    builder = SequenceBuilder(x, y)
    read, result = builder.operands
    total = builder.room(x.shape)
    builder.copy(read, total)
    for _ in range(3):
        with builder.passing():
            kept = doubled(builder, total)
            builder.call(popops.add, kept, total, out=total)
    builder.copy(total, result)
    sequence = builder.made()
    assert sequence.workspace_bytes == 2 * x.nbytes
    sequence(x, y)
    np.testing.assert_array_equal(y, 27 * x)


def test_room_that_is_kept_lies_apart():
    x, y = np.arange(32, dtype=np.float32), np.zeros(32, np.float32)
    builder = SequenceBuilder(x, y)
    read, result = builder.operands
    first = doubled(builder, read)
    with builder.passing():
        doubled(builder, first)
    second = doubled(builder, first)
    builder.call(popops.add, first, second, out=result)
    sequence = builder.made()
    assert sequence.workspace_bytes == 2 * x.nbytes
    sequence(x, y)
    np.testing.assert_array_equal(y, 6 * x)


def test_views_of_room_and_arrays_that_are_always_the_same_are_told_apart():
    x, ones, y = np.zeros((4, 8), np.float32), np.ones(8, np.float32), np.empty((8, 4), np.float32)
    builder = SequenceBuilder(x, y)
    read, result = builder.operands
    made = builder.room(x.shape)
    builder.copy(read[::-1], made)
    builder.call(popops.add, made[2], ones, out=made[2])
    builder.copy(made.T, result)
    builder.made()(np.arange(32, dtype=np.float32).reshape(4, 8), y)
    due = np.arange(32, dtype=np.float32).reshape(4, 8)[::-1].copy()
    due[2] += 1
    np.testing.assert_array_equal(y, due.T)
