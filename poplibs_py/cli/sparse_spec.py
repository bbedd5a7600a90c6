"""The golden syntax of sparse planning problems: one line of ``key=value`` words per problem.

Static products: ``m k n b`` sizes and the blocks' side, ``d`` the density of a drawn pattern and ``pat`` how it is
drawn (``rand`` by default, ``mod``, ``diag``), ``nSplit``, ``numBands``, ``pre=0`` without preprocessing. All have
``type``, ``partials``, ``amp``, ``target``, ``tiles`` and ``o:OPTION``.

Layers whose pattern may change: ``batch in out groups`` sizes, ``b`` the blocks' side, ``nz`` stored elements over all.

Patterns put into buckets: ``dims=X,Y,Z grains=x,y,z``, where parts begin in ``x y z``, ``rows`` the block columns of
each block row (``-`` where there are none) with semicolons between them, ``nz``, ``meta`` and ``metaA`` the values and
words that a bucket holds, ``b``, ``type`` and the flags ``speed force actual gradA gradW shared``.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..checks import one_of, real, whole
from ..errors import bad_argument
from ..formats import Array
from ..popsparse import BlockPattern
from ..popsparse.fully_connected import FullyConnectedParams
from ..popsparse.partitioner import BucketLayout
from ..target import Target
from ..target.types import data_type
from .spec import flag, integers, machine, read_words, required, whole_word

_COMMON = frozenset({"type", "partials", "amp", "target", "tiles"})
_STATIC = _COMMON | {"m", "k", "n", "b", "d", "pat", "nSplit", "numBands", "pre"}
_DYNAMIC = _COMMON | {"b", "nz", "batch", "in", "out", "groups"}
_PARTITION = frozenset({"dims", "grains", "x", "y", "z", "rows", "nz", "meta", "metaA", "b", "type", "speed", "force",
                        "actual", "gradA", "gradW", "shared"})
_PATTERNS = ("rand", "mod", "diag")
_OPTIONS = {"amp": "availableMemoryProportion", "partials": "partialsType", "nSplit": "nSplit", "numBands": "numBands"}
_MOST_DRAWN = 1 << 28  # blocks of a matrix


def static_problem(text: str) -> tuple[BlockPattern, int, str, Target, dict[str, Any]]:
    """Read the spec of a static product: pattern, columns, type, machine, options.

    Examples
    --------
    >>> pattern, n, kind, target, options = static_problem("m=64 k=64 n=8 b=16 d=0.5 pat=mod type=half tiles=4")
    >>> pattern.n_blocks, n, kind, target.tiles
    (8, 8, 'half', 4)
    """
    words, options = _words(text, _STATIC)
    m, k, n = (required(words, key) for key in "mkn")
    side = required(words, "b", "1")
    for key, extent in (("m", m), ("k", k)):
        if side < 1 or extent < 1 or extent % side:
            raise bad_argument(key, extent, f"a multiple of b, {side}")
    density = real("d", number("d", words.get("d", "1")), "a number from 0 to 1", 0, 1)
    pattern = drawn_pattern((m, k), side, density, words.get("pat", "rand"))
    if not flag(words, "pre", "1"):
        options.setdefault("enablePreprocessing", "false")
    return pattern, n, type_of_words(words), machine(words), options


def dynamic_problem(text: str) -> tuple[FullyConnectedParams, Target, dict[str, Any]]:
    """Read the spec of a layer whose pattern may change: sizes, machine, options.

    Examples
    --------
    >>> params, target, options = dynamic_problem("type=half b=16 nz=0.1 batch=64 in=1024 out=512 amp=0.2")
    >>> params.blocks, target.name, options
    (205, 'gc200', {'availableMemoryProportion': '0.2'})
    """
    words, options = _words(text, _DYNAMIC)
    params = FullyConnectedParams(
        required(words, "out"), required(words, "in"), required(words, "batch"), number("nz", words.get("nz", "1")),
        required(words, "b", "1"), type_of_words(words), required(words, "groups", "1"))
    return params, machine(words), options


def partition_problem(text: str) -> tuple[BucketLayout, BlockPattern]:
    """Read the spec of a pattern that is put into buckets.

    Examples
    --------
    >>> layout, pattern = partition_problem("dims=4,4,4 grains=1,1,4 x=0,2 y=0 z=0 rows=0,1;-;3;- nz=4 meta=60")
    >>> layout.buckets, pattern.n_blocks
    (2, 3)
    """
    words, options = read_words(text, _PARTITION)
    if options:
        raise bad_argument("spec", next(iter(options)), "no options: buckets have flags")
    x, y, z = integers(words, "dims", 3)
    side = required(words, "b", "1")
    grains = integers(words, "grains", 3)
    if grains[:2] != (side, side):
        raise bad_argument("grains", grains, f"the blocks' side, {side}, for x and y")
    layout = BucketLayout(
        (x, y, z), integers(words, "x"), integers(words, "y"), integers(words, "z"), required(words, "nz"),
        required(words, "meta"), required(words, "metaA", "0"), side, grains[2],
        data_type("type", words.get("type", "half"), ("half", "float")), flag(words, "gradA"),
        flag(words, "gradW"), flag(words, "shared", "1"), flag(words, "speed", "1"),
        flag(words, "force"), flag(words, "actual"))
    rows = [() if row == "-" else tuple(whole_word("rows", word) for word in row.split(","))
            for row in words.get("rows", "").split(";")]
    if len(rows) != x // side:
        raise bad_argument("rows", f"{len(rows)} rows", f"{x // side} of them")
    numbers = np.repeat(np.arange(len(rows)), [len(row) for row in rows])
    columns = np.array([column for row in rows for column in row], np.int64)
    return layout, BlockPattern.from_pairs((x, y), side, numbers, columns)[0]


def _words(text: str, known: frozenset[str]) -> tuple[dict[str, str], dict[str, Any]]:
    """The words of a product, and its options, those that have a word of their own too."""
    words, options = read_words(text, known)
    for key in filter(words.__contains__, _OPTIONS):
        options.setdefault(_OPTIONS[key], words[key])
    return words, options


def drawn_pattern(shape: tuple[int, int], side: int, density: float, kind: str) -> BlockPattern:
    """Return a pattern as the golden data's specs draw it.

    Parameters
    ----------
    shape : (int, int)
        In elements, multiples of `side`.
    side : int
        Of the square blocks.
    density : float
        From 0 to 1.
    kind : str
        ``"mod"``: where row and column add up to a multiple of 1 / density; ``"diag"``: beside the diagonal;
        ``"rand"``: a linear congruential generator's numbers, row by row, below the density.
    """
    one_of("pat", kind, _PATTERNS)
    rows, columns = (extent // side for extent in shape)
    whole("m x k", rows * columns, 1, _MOST_DRAWN, " of blocks")
    if kind == "rand":
        at = np.flatnonzero(_drawn(rows * columns) < _rounded(density * 1e6))
    else:
        r, c = np.arange(rows)[:, None], np.arange(columns)
        step = _rounded(1 / density) if density else rows + columns
        held = ((r + c) % max(1, step) == 0 if kind == "mod" else
                (c + columns - r * columns // rows) % columns < _rounded(density * columns))
        at = np.flatnonzero(held)
    return BlockPattern.from_pairs(shape, side, at // columns, at % columns)[0]


def _drawn(count: int) -> Array:
    """The first numbers below a million of the generator: its state times 6364136223846793005, plus
    1442695040888963407, from 1, without the lowest 33 bits."""
    with np.errstate(over="ignore"):
        powers: Array = np.cumprod(np.full(count, 6364136223846793005, np.uint64))
        sums = np.cumsum(np.concatenate([np.ones(1, np.uint64), powers[:-1]]))
        states: Array = powers + np.uint64(1442695040888963407) * sums
    drawn: Array = (states >> np.uint64(33)) % np.uint64(1_000_000)
    return drawn


def _rounded(value: float) -> int:
    return math.floor(value + 0.5)


# Words that all have -------------------------------------------------------------------------------


def number(key: str, word: str) -> float:
    """The number that a word holds."""
    try:
        return float(word)
    except ValueError:
        raise bad_argument(key, word, "a number") from None


def type_of_words(words: dict[str, str]) -> str:
    """The data type of a spec, float by default."""
    return data_type("type", words.get("type", "float"), ("half", "float"))
