"""What `Target.host` needs to know of this CPU: threads and cache sizes, read from the system."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ..checks import whole

_CACHES = Path("/sys/devices/system/cpu/cpu0/cache")
_UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


def describe(threads: int) -> dict[str, Any]:
    """Fields of the host `Target` for `threads` threads."""
    threads = whole("threads", threads, 1, 2**31 - 1)
    return {"name": "host", "kind": "host", "tiles": threads, "bytes_per_tile": _second_level_cache(), "workers": 1,
            "tiles_per_exchange_bus": 1, "exchange_bus_sharing": False, "exchange_bytes_per_cycle": 8.0,
            "data_path_bits": 256, "memcpy_bytes_per_cycle": 16, "clock_hz": 3e9, "grain": (6, 16, 1)}


def _second_level_cache() -> int:
    """Bytes of second-level cache that a core can call its own; 1 MiB where the system does not say."""
    for index in sorted(_CACHES.glob("index*")):
        try:
            level = int((index / "level").read_text())
            kind = (index / "type").read_text().strip()
            text = (index / "size").read_text().strip()
            sharers = _count_cpus((index / "shared_cpu_list").read_text())
        except (OSError, ValueError):
            continue
        if level == 2 and kind != "Instruction":
            return int(text[:-1]) * _UNITS.get(text[-1], 1) // sharers
    return 1 << 20


def _count_cpus(listing: str) -> int:
    """Number of CPUs in a list such as ``0-3,8``."""
    count = 0
    for part in listing.strip().split(","):
        first, _, last = part.partition("-")
        count += int(last or first) - int(first) + 1
    return count
