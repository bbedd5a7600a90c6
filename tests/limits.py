"""Limits on memory that are as many bytes on every CPU, whatever the size of its caches."""

from poplibs_py.target import Target


def of_a_mebibyte(share: float) -> float:
    """Return the proportion of a tile of this CPU that is as many bytes as a share of 1 MiB, or all of it."""
    return min(1.0, share * (1 << 20) / Target.host(1).bytes_per_tile)
