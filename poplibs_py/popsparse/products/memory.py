"""How many temporary bytes a sparse product may take, and the plan that keeps to them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache

from ...errors import MemoryBoundError, MemoryBoundWarning, bad_argument, bad_option, bad_type, flag, warn
from ...target import Target, memory_bound
from .multiply import TILE_COLUMNS, Product

__all__ = ["UNBOUNDED", "Memory", "fits", "memory_of", "temporary_bytes", "within"]

_KNOWN = (
    "availableMemoryProportion", "doGradAPass", "doGradWPass", "enablePreprocessing", "enableStructuredRearrangements",
    "metaInfoBucketOversizeProportion", "nSplit", "numBands", "partialsType", "partitioner.forceBucketSpills",
    "partitioner.optimiseForSpeed", "partitioner.useActualWorkerSplitCosts", "planConstraints", "sharedBuckets",
    "verboseLogging",
)  # fmt: skip
_STRIPS = (512, 256, 128, 96, TILE_COLUMNS, 48, 32)
_LEAST_STRIP = 16
_LINE = 64


@dataclass(frozen=True)
class Memory:
    """What a call says about temporary memory; see `popsparse.static.sparse_dense_matmul`."""

    proportion: float = 0
    strict: bool = False

    @property
    def bound(self) -> int | None:
        """Temporary bytes of a thread, or None."""
        return None if not self.proportion else memory_bound(host(), self.proportion)


UNBOUNDED = Memory()


def memory_of(proportion: object, strict: object, options: object) -> Memory:
    """Return what a call's arguments say, PopLibs' options first, or raise.

    The other options of PopLibs' sparse products steer a modelled machine: they are known and change nothing here, save
    that partial sums are FP32.
    """
    if options is None and strict is False and type(proportion) is int and proportion == 0:
        return UNBOUNDED
    if options is not None:
        if not isinstance(options, Mapping):
            raise bad_type("options", options, "a mapping of option names to values")
        for key, value in options.items():
            if key not in _KNOWN:
                raise bad_option(key, _KNOWN)
            if key == "partialsType" and value not in ("float", "float32"):
                raise bad_argument(key, value, "'float': sums are FP32")
            if key == "availableMemoryProportion":
                proportion = _number(key, value) if isinstance(value, str) else value
    memory_bound(host(), proportion)  # type: ignore[arg-type]  # complains
    return Memory(float(proportion), flag("strict_memory", strict))  # type: ignore[arg-type]


def _number(key: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise bad_argument(key, text, "a number") from None


@lru_cache(maxsize=1)
def host() -> Target:
    """Return this CPU, whose second-level caches are the memory that is shared out."""
    return Target.host()


def temporary_bytes(p: Product) -> int:
    """Return the bytes that a run takes beside its operands, each part from a cache line on."""
    return _scratch(p) + _lines(p.workspace_bytes) + _lines(p.gathered_bytes)


def _scratch(p: Product) -> int:
    return p.threads * _lines(p.scratch_bytes)


def _lines(size: int) -> int:
    return -(-size // _LINE) * _LINE


def fits(p: Product, memory: Memory) -> bool:
    """Whether a run keeps to the bound."""
    bound = memory.bound
    return bound is None or temporary_bytes(p) <= bound * p.threads


def within(p: Product, memory: Memory, widest: Callable[[], int]) -> Product:
    """Return the product planned to keep to a bound, or complain and return it with the bound raised.

    Parameters
    ----------
    p : Product
        As it is fastest.
    memory : Memory
    widest : callable
        Returns the stored blocks of the longest block row, which W cannot be decoded in less than. Called only where
        all of W decoded does not fit.
    """
    bound = memory.bound
    if bound is None or not p.columns or not p.shape[0] or fits(p, memory):
        return p
    most = widest() if p.workspace_bytes else 0
    found = _fitted(p, bound, most)
    if found is not None:
        return found
    least = temporary_bytes(list(_choices(p, 0, most))[-1])
    text = (f"sparse_dense_matmul: available_memory_proportion={memory.proportion} leaves {bound * p.threads:,} bytes; "
            f"the least that any plan takes is {least:,}")
    if memory.strict:
        raise MemoryBoundError(text)
    warn(text + "; the bound was raised", MemoryBoundWarning)
    while found is None and bound < 2 * host().bytes_per_tile:
        bound = max(1, bound) * 2
        found = _fitted(p, bound, most)
    return found or p


@lru_cache(maxsize=256)
def _fitted(p: Product, bound: int, widest: int) -> Product | None:
    return next((q for q in _choices(p, bound, widest) if temporary_bytes(q) <= bound * p.threads), None)


def _choices(p: Product, bound: int, widest: int) -> Iterator[Product]:
    """Yield plans, faster ones first, the last one the least that there is.

    Every strip reads W again, and X is packed again for some block rows of W decoded at a time: so rather narrow strips
    than many of these, but the narrowest last. Measured: 32 columns cost up to 1.4 times the time of 64; X as it lies,
    where panels were asked for by speed alone, 0.5 to 3 times.
    """
    panels = (True, False) if p.panels else (False,)
    for widths in ((0, *_STRIPS), (_LEAST_STRIP,)):
        shapes = [replace(p, panels=copied, most_strip=width) for copied in panels for width in widths]
        yield from shapes
        if p.decodes:  # at least as much room for W's blocks as for the rest: few slices
            yield from (_sliced(q, bound, widest) for q in shapes if bound * p.threads >= 2 * _scratch(q))
    if p.decodes:
        yield _sliced(shapes[-1], bound, widest)


def _sliced(p: Product, bound: int, widest: int) -> Product:
    room = bound * p.threads - _scratch(p) - 2 * _LINE
    blocks = min(room // (p.block_bytes + p.stored_bytes), p.w.capacity)
    return replace(p, slice_blocks=max(1, widest, blocks))
