"""The cases of the sweep: which problems, and their operands.

The axes, the seed, the number of blocks and the values are those of the PopSparse paper's harness (arXiv 2303.16999 and
its published benchmark code): ``ceil(density * blocks)`` blocks drawn with equal chance, weights uniform within
``sqrt(3 / (density * k))`` of zero and inputs within ``sqrt(3)``, so that results have unit variance.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from ...checks import all_of, instance, one_of, real, whole
from ...errors import PoplibsError, bad_argument, described
from ...formats import BF16, F143, FP16, FP32, Array, Format, format_of
from ...ops import Seed, seed_of
from ...popsparse import BlockPattern, BlockSparseMatrix, random_matrix, random_pattern
from ..chart import reciprocal

TYPES: dict[str, Format] = {"FP32": FP32, "BF16": BF16, "FP16": FP16, "FP8": F143}
"""Number types as the paper's file spells them, and their formats."""


@dataclass(frozen=True, eq=False)
class PatternFile:
    """Where the stored elements of a matrix in a file are.

    Attributes
    ----------
    name : str
        The file's name.
    matrix : scipy.sparse.csr_array
        The matrix; its stored elements are the pattern.
    """

    name: str
    matrix: Any

    @classmethod
    def read(cls, path: str | Path) -> PatternFile:
        """Read a ``.smtx`` or ``.mtx`` file, or a ``.npz`` that SciPy or this library wrote.

        Raises
        ------
        InvalidArgumentError
            If there is no such file, it is of another kind, it is damaged, or it holds no non-zero.
        """
        named = described(path)
        try:
            matrix = BlockSparseMatrix.load(path).to_scipy("csr")
        except OSError as error:
            raise bad_argument("matrix", named, f"a file that can be read ({error.strerror or error})") from error
        except PoplibsError as error:
            raise bad_argument("matrix", f"{named} ({error})", "a .smtx, .mtx or .npz file that is whole") from error
        if not matrix.nnz:
            raise bad_argument("matrix", described(path), "a matrix with at least one stored element")
        return cls(Path(path).name, matrix)

    def pattern(self, side: int) -> BlockPattern:
        """Return the pattern of the square blocks that hold any stored element."""
        return BlockSparseMatrix.from_scipy(self.matrix, side).pattern


@dataclass(frozen=True)
class Case:
    """One problem: ``Y = W @ X`` with a block-sparse W.

    Parameters
    ----------
    m, k, n : int
        Rows of W, its columns, columns of X.
    density : float
        Share of the blocks that is stored.
    block : int
        Side of the square blocks.
    seed : int or (int, int), optional
        Seed of the pattern and the values; the paper's harness uses 123.
    source : PatternFile, optional
        Take the pattern from a file; m, k and density must be the file's.
    """

    m: int
    k: int
    n: int
    density: float
    block: int
    seed: int = 123
    source: PatternFile | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        for name in ("m", "k", "n", "block"):
            value = getattr(self, name)
            if not isinstance(value, int) or not 1 <= value <= 1 << 20:
                raise bad_argument(name, value, "a whole number from 1 to 1048576")
        if not 0 < real("density", self.density, "more than 0 and at most 1") <= 1:
            raise bad_argument("density", self.density, "more than 0 and at most 1")
        object.__setattr__(self, "seed", seed_of(self.seed))
        if self.source is not None:
            instance("source", self.source, PatternFile, "a PatternFile or None")
        if self.source is None and (self.m % self.block or self.k % self.block):
            raise bad_argument("block", self.block, f"a divisor of m={self.m} and k={self.k}")

    @classmethod
    def from_file(cls, source: PatternFile, n: int, block: int, seed: Seed = 123) -> Case:
        """Return the case of a file's pattern, in blocks that hold all of its non-zeros."""
        instance("source", source, PatternFile, "a PatternFile")
        pattern = source.pattern(block)
        return cls(*pattern.shape, n, pattern.density, block, seed_of(seed), source)

    def __str__(self) -> str:
        name = f"{self.source.name} " if self.source else ""
        return f"{name}{self.m}x{self.k}x{self.n} block {self.block} density {reciprocal(self.density)}"

    @property
    def shape(self) -> tuple[int, int, int]:
        """The m, k and n of the product."""
        return self.m, self.k, self.n

    @property
    def flops(self) -> float:
        """Floating-point operations on stored values: ``2 m k n`` times the density."""
        return 2.0 * self.m * self.k * self.n * self.density

    def pattern(self, turn: int = 0) -> BlockPattern:
        """Return the pattern; another `turn` gives another one with as many blocks."""
        turn = whole("turn", turn, 0, 2**31)
        if turn not in self._patterns:
            if self.source is None:
                made = random_pattern(self.m, self.k, self.block, self.density, self.seed + turn)
            else:
                first = self.source.pattern(self.block)
                columns = (first.column_indices.astype(np.int64) + turn) % first.block_columns
                made = BlockPattern.from_pairs(first.shape, first.block_shape, first.row_indices, columns)[0]
            self._patterns[turn] = made
        return self._patterns[turn]

    @cached_property
    def _patterns(self) -> dict[int, BlockPattern]:
        return {}

    def weights(self, type_name: str, turn: int = 0) -> BlockSparseMatrix:
        """Return W in one of `TYPES`, with a power-of-two scale where the type is FP8."""
        one_of("type_name", type_name, tuple(TYPES))
        kind = TYPES[type_name]
        return random_matrix(self.pattern(turn), kind, self.seed, self.scale(kind))

    def scale(self, kind: Format) -> int:
        """Return the exponent s for which the weights over ``2**s`` fill an 8-bit format; 0 for a wider one."""
        kind = format_of(kind, "kind")
        return math.ceil(math.log2(math.sqrt(3 / (self.density * self.k)) / kind.max)) if kind.bits == 8 else 0

    @cached_property
    def inputs(self) -> Array:
        """X in float32, k x n, before it is rounded to a type."""
        return self._uniform(2, (self.k, self.n), math.sqrt(3))

    @cached_property
    def gradients(self) -> Array:
        """The gradient of Y in float32, m x n, before it is rounded to a type."""
        return self._uniform(3, (self.m, self.n), math.sqrt(3))

    @cached_property
    def dense_weights(self) -> Array:
        """A dense W of unit-variance results in float32, for the dense method; m, k and the seed make it."""
        return self._uniform(4, (self.m, self.k), math.sqrt(3 / self.k))

    def _uniform(self, stream: int, shape: tuple[int, int], reach: float) -> Array:
        values: Array = np.random.default_rng([self.seed, stream]).random(shape, np.float32)
        values *= np.float32(2 * reach)
        values -= np.float32(reach)
        return values


@dataclass(frozen=True)
class Axes:
    """The values that a sweep runs over.

    Parameters
    ----------
    sizes : sequence of (int, int)
        Pairs of m and k.
    n : sequence of int
        Columns of X.
    densities : sequence of float
        Densities of the pattern.
    blocks : sequence of int
        Sides of the blocks.
    """

    sizes: Sequence[tuple[int, int]]
    n: Sequence[int]
    densities: Sequence[float]
    blocks: Sequence[int]

    def cases(self, seed: Seed = 123) -> Iterator[Case]:
        """Return every case, the smallest problems first; those whose blocks do not divide m and k are left out."""
        for (m, k), n in itertools.product(self.sizes, self.n):
            for block, density in itertools.product(self.blocks, self.densities):
                if m % block == 0 and k % block == 0:
                    yield Case(m, k, n, density, block, seed_of(seed))

    def __str__(self) -> str:
        parts = {"sizes": [f"{m}x{k}" for m, k in self.sizes], "n": self.n, "blocks": self.blocks,
                 "densities": [reciprocal(density) for density in self.densities]}
        return "; ".join(f"{name} {', '.join(map(str, values))}" for name, values in parts.items())

    def meet(self, case: Case) -> bool:
        """Whether every value of the case is on its axis."""
        instance("case", case, Case, "a Case")
        return ((case.m, case.k) in self.sizes and case.n in self.n and case.density in self.densities
                and case.block in self.blocks)

    def file_cases(self, source: PatternFile, seed: Seed = 123) -> Iterator[Case]:
        """Return the cases of a file's pattern over the axes `n` and `blocks`."""
        instance("source", source, PatternFile, "a PatternFile")
        for n, block in itertools.product(self.n, self.blocks):
            yield Case.from_file(source, n, block, seed)


def axes_of(cases: Sequence[Case]) -> Axes:
    """Return the values of some cases, each once.

    Examples
    --------
    >>> axes_of(quick_cases()).blocks
    [1, 4, 16]
    """
    cases = all_of("cases", cases, Case, "cases")
    return Axes(sizes=list(dict.fromkeys((case.m, case.k) for case in cases)),
                n=list(dict.fromkeys(case.n for case in cases)),
                densities=list(dict.fromkeys(case.density for case in cases)),
                blocks=list(dict.fromkeys(case.block for case in cases)))


def paper_axes() -> Axes:
    """Return the axes of the paper's figures.

    Examples
    --------
    >>> sum(1 for case in paper_axes().cases())
    600
    """
    return Axes(sizes=[(size, size) for size in (256, 512, 1024, 2048, 4096, 8192)], n=(4, 16, 64, 256, 1024),
                densities=(1 / 4, 1 / 8, 1 / 16, 1 / 32, 1 / 64), blocks=(1, 4, 8, 16))


def quick_cases(seed: Seed = 123) -> list[Case]:
    """Return a star of cases that shows each axis in about a minute: all densities and blocks at one size, all n at one
    density and block.

    Examples
    --------
    >>> len(quick_cases())
    14
    """
    centre = Case(2048, 2048, 256, 1 / 16, 16, seed_of(seed))
    grid = itertools.product((1, 4, 16), (1 / 2, 1 / 4, 1 / 16, 1 / 64))
    cases = [replace(centre, block=block, density=density) for block, density in grid]
    return cases + [replace(centre, n=n) for n in (16, 1024)]


def quick_file_cases(source: PatternFile, seed: int = 123) -> list[Case]:
    """Return a star of cases of a file's pattern: three block sizes at one n, three n for single elements.

    Parameters
    ----------
    source : PatternFile
        The pattern.
    seed : int, optional
        Seed of the values.
    """
    cells = [(256, 1), (256, 4), (256, 16), (16, 1), (1024, 1)]
    return [Case.from_file(source, n, block, seed) for n, block in cells]
