"""Categorical draws and permutations, which PopLibs lacks."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ..checks import as_shape, whole
from ..config import settings
from ..errors import bad_argument, bad_type
from ..formats import FORMATS, Array
from ..memo import remembered
from ..ops import RESULT, VALUES, Operand, Request, argument, new_result
from ..popops.ordering.lower import OrderParams, lower
from ..program import Executable, Room, Segment, Sequence, host_program, shares_of, threads_for, value_words
from ._stream import LOOK_UP
from .arguments import Seed, Shape, Stream, TargetLike, result
from .law import ELEMENTS_PER_THREAD, Place
from .uniform import bits_law
from .where import PLACE, counter_only, random_op


@random_op(lacks="in any form")
def categorical(shape: Shape | None, weights: ArrayLike, *, seed: Seed = None, seed_modifier: int = 0,
                stream: Stream = "counter", offset: int = 0, out: Any = None, target: TargetLike = None) -> Any:
    """Draw class numbers with given weights.

    Parameters
    ----------
    shape, seed, seed_modifier, offset, out
        As in `uniform`.
    weights : array-like [classes]
        Not negative, finite, not all zero; class k has probability ``weights[k] / sum(weights)``.
    stream : "counter"
        PopLibs has no such distribution.

    Returns
    -------
    ndarray of int64

    Notes
    -----
    The element's 64-bit word is looked up among the cumulative weights, scaled to 2**64 in float64. A class of
    weight zero is never drawn.

    Examples
    --------
    >>> sorted(set(poprand.categorical(1000, [1, 0, 3], seed=5).tolist()))
    [0, 2]
    """
    counter_only("categorical", stream)
    masses = argument("weights", weights, "a one-dimensional array of numbers")
    given, table = masses.place is not None, _cumulative(masses.array)
    receiver, law = result(shape, np.dtype(np.int64), out), bits_law(np.uint64)
    place, size = Place.of(seed, seed_modifier, offset), receiver.array.size
    late, room = given and seed is None, Room(operands=3)
    drawn = room.take(8 * size)
    program = Sequence([(law.program(size), (drawn, 2)), (_looking_up(size, settings.num_threads), (0, drawn, 1))], 3,
                       room.bytes)

    def of_array(now: Array, classes: Array, words: Array) -> None:
        bounds = _cumulative(now)
        if late:  # weights that are wrong take no numbers of the default stream
            words = value_words(place.ready, tuple(words.view(np.uint64).tolist()))
        program(bounds, classes, words)

    run, source = (of_array, masses) if given else (program, table)
    return Request(run, (source, RESULT, VALUES), receiver, lambda: law.told(receiver), law.words(size, place),
                   0 if late else place.ready)


@remembered()
def _looking_up(size: int, threads: int) -> Executable:
    """What writes the classes of so many words, given how many bounds there are and these, and the words."""
    threads = threads_for(size, ELEMENTS_PER_THREAD, threads)
    items = np.zeros(threads, [("first", np.int64), ("count", np.int64)])
    items["first"], items["count"] = shares_of(size, threads)
    return host_program((Segment(LOOK_UP, items, np.arange(threads)),), operands=3, threads=threads)


def _cumulative(weights: Array) -> Array:
    """How many cumulative weights there are, without the last class that can be drawn, and these in units of 2**-64."""
    if weights.dtype.kind not in "fiub" and not any(weights.dtype == f.dtype for f in FORMATS):
        raise bad_type("weights", weights, "a one-dimensional array of numbers")
    masses = weights.astype(np.float64)
    if masses.ndim != 1 or not masses.size:
        raise bad_argument("weights", f"an array of shape {masses.shape}", "one dimension, at least one class")
    largest = masses.max()
    if not (masses.min() >= 0 and 0 < largest < np.inf):  # nor are NaNs
        raise bad_argument("weights", weights, "finite weights, none negative, not all zero")
    last = int(masses.nonzero()[0][-1])
    cumulative = (masses[: last + 1] / largest).cumsum()
    scaled = np.minimum(cumulative[:-1] / cumulative[-1] * 2.0**64, np.nextafter(2.0**64, 0.0))
    return np.concatenate([np.array([last], np.uint64), scaled.astype(np.uint64)])


@random_op(written=None, values=PLACE[:2], lacks="in any form")
def permutation(x: int | Array, *, axis: int = 0, seed: Seed = None, seed_modifier: int = 0,
                stream: Stream = "counter", target: TargetLike = None) -> Any:
    """Return a random permutation of the first whole numbers, or of an array along an axis.

    Parameters
    ----------
    x : int or ndarray
        How many numbers, or the array, of which a permuted copy is returned.
    axis : int, optional
        Axis of the array, the first by default.
    seed, seed_modifier
        As in `uniform`.
    stream : "counter"
        PopLibs has no permutations.

    Returns
    -------
    ndarray
        int64 numbers, or like `x`.

    Notes
    -----
    Each place draws a 64-bit word, and the places are sorted by their words; equal words keep their order. Among n
    words two are equal with a probability below ``n**2 / 2**65``. Where none are, every permutation is equally likely.

    Examples
    --------
    >>> sorted(poprand.permutation(5, seed=1).tolist())
    [0, 1, 2, 3, 4]
    """
    counter_only("permutation", stream)
    sources: tuple[Operand, ...] = ()
    if isinstance(x, np.ndarray):
        source = argument("x", x, "a whole number or a numpy.ndarray")
        rows = source.array
        if not rows.ndim:
            raise bad_argument("x", "an array of no dimensions", "at least one dimension")
        along = whole("axis", axis, -rows.ndim, rows.ndim - 1)
        count, receiver = rows.shape[along], new_result(rows.shape, rows.dtype)
        sources = (source,)
    else:
        along, count = whole("axis", axis, 0, 0), whole("x", x, 0, 1 << 40)
        receiver = new_result(as_shape("x", count), np.dtype(np.int64))
    law, place = bits_law(np.uint64), Place.of(seed, seed_modifier, 0)
    room = Room(operands=2)
    drawn = room.take(8 * count)
    order = OrderParams("order", np.dtype(np.uint64), (count,), (8,), 0, count, descending=False, indices=1)
    program: Any = Sequence([(law.program(count), (drawn, 1)),
                             (lower(order, settings.num_threads).executable, (drawn, 0))], 2, room.bytes)
    if sources:
        places = program

        def program(given: Array, permuted: Array, words: Array) -> None:
            order = np.empty(count, np.int64)
            places(order, words)
            given.take(order, axis=along, out=permuted)

    return Request(program, (*sources, RESULT, VALUES), receiver, lambda: law.told(receiver), law.words(count, place),
                   place.ready)
