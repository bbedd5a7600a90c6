"""The `Target` record, its presets and its JSON form."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from typing import Any

from ..checks import one_of, real, whole
from ..config import settings
from ..errors import InvalidTypeError, UnsupportedError, bad_argument, bad_type, check_keys
from . import host_machine

#: Bytes of one element of each data type a modelled machine stores.
TYPE_SIZES = {"float": 4, "half": 2, "quarter": 1}

ConvUnits = tuple[tuple[str, str, int], ...]

_IPU2_UNITS: ConvUnits = (("float", "float", 16), ("half", "float", 8), ("half", "half", 16))
_RATE = "a finite positive number below 2**62"
_MOST = {"tiles": 2**20, "bytes_per_tile": 2**62 - 1, "workers": 256, "tiles_per_exchange_bus": 2**31 - 1,
         "data_path_bits": 2**12, "memcpy_bytes_per_cycle": 2**31 - 1, "conv_pipeline_depth": 256,
         "conv_coeff_load_bytes": 2**31 - 1, "repeat_count_max": 2**62 - 1, "atomic_store_bytes": 2**31 - 1,
         "memory_element_bytes": 2**62 - 1}
"""The most that a field may be: plans go through workers and stages one by one, profiles through tiles."""

_MOST_UNITS = 4096

MOST_TILES = 4096
"""Whose partitions a planner looks at one by one."""


@dataclasses.dataclass(frozen=True)
class Target:
    """A tile array: how many tiles, how much memory each, what each does per cycle.

    Corresponds to the queries PopLibs makes of ``poplar::Target``. Where Graphcore has not published a
    value it is inferred from PopLibs' own assertions and from peak arithmetic rates. Every field can be
    overridden: ``Target.gc200(tiles=4)``, ``target.replace(bytes_per_tile=1 << 20)``.

    Parameters
    ----------
    name : str
        Preset or user name; only for people.
    tiles : int
        Number of tiles (threads on the host).
    bytes_per_tile : int
        Memory of one tile, bytes.
    conv_units : tuple of (str, str, int)
        Matrix units for each (input type, partials type); an absent pair means none.
    kind : str
        ``"ipu"`` for a modelled machine, ``"host"`` for this CPU.
    workers : int
        Hardware threads of one tile, issued round-robin: one worker cycle is `workers` tile cycles.
    tiles_per_exchange_bus : int
        Tiles that share a bus and may receive the same data at once.
    exchange_bus_sharing : bool
        Whether such a pair receives shared data at double rate.
    exchange_bytes_per_cycle : float
        Bytes a tile receives per cycle.
    data_path_bits : int
        Width of a load; a vector of type t has ``data_path_bits / bits(t)`` elements.
    memcpy_bytes_per_cycle, conv_pipeline_depth, conv_coeff_load_bytes : int
        On-tile copy rate; depth of a matrix unit; bytes of weights loaded per cycle.
    conv_load_elements : tuple of (str, int)
        Input elements a matrix unit takes per cycle, by type.
    repeat_count_max, atomic_store_bytes, memory_element_bytes : int
        Repeat-counter limit; smallest store; bytes of one memory element.
    clock_hz : float
        Tile clock, Hz; turns cycles into seconds.
    grain : (int, int, int)
        Rows, columns and depth of the host's microkernel; (1, 1, 1) elsewhere.

    Examples
    --------
    >>> from poplibs_py.target import Target
    >>> t = Target.gc200()
    >>> t.tiles, t.bytes_per_tile, t.units("half", "float")
    (1472, 638976, 8)
    >>> Target.from_json(t.to_json()) == t
    True
    """

    name: str
    tiles: int
    bytes_per_tile: int
    conv_units: ConvUnits = ()
    kind: str = "ipu"
    workers: int = 6
    tiles_per_exchange_bus: int = 2
    exchange_bus_sharing: bool = True
    exchange_bytes_per_cycle: float = 4.0
    data_path_bits: int = 64
    memcpy_bytes_per_cycle: int = 8
    conv_pipeline_depth: int = 4
    conv_coeff_load_bytes: int = 16
    conv_load_elements: tuple[tuple[str, int], ...] = (("float", 2), ("half", 4), ("quarter", 8))
    repeat_count_max: int = 4095
    atomic_store_bytes: int = 4
    memory_element_bytes: int = 16384
    clock_hz: float = 1.33e9
    grain: tuple[int, int, int] = (1, 1, 1)

    def __post_init__(self) -> None:
        for field, most in _MOST.items():
            object.__setattr__(self, field, whole(field, getattr(self, field), 1, most))
        for field in ("exchange_bytes_per_cycle", "clock_hz"):
            rate = real(field, getattr(self, field), _RATE, 0, 2**62)
            if not rate:
                raise bad_argument(field, rate, _RATE)
            object.__setattr__(self, field, rate)
        if self.data_path_bits % 32:
            raise bad_argument("data_path_bits", self.data_path_bits, "a multiple of 32")
        if self.kind not in ("ipu", "host"):
            raise bad_argument("kind", self.kind, "'ipu' or 'host'")
        _check_rows("conv_units", self.conv_units, 3, "(type, type, count)")
        _check_rows("conv_load_elements", self.conv_load_elements, 2, "(type, count)")
        for given, partial, units in self.conv_units:
            if given not in TYPE_SIZES or partial not in TYPE_SIZES:
                raise bad_argument("conv_units", (given, partial, units), "(type, type, count)")
            whole("conv_units", units, 1, _MOST_UNITS)
        for given, elements in self.conv_load_elements:
            if given not in TYPE_SIZES:
                raise bad_argument("conv_load_elements", (given, elements), "(type, count)")
            whole("conv_load_elements", elements, 1, _MOST["conv_pipeline_depth"])

    # Queries -------------------------------------------------------------------------------------

    def units(self, input_type: str, partials_type: str) -> int:
        """Matrix units for an (input, partials) pair of types; 0 if there are none."""
        one_of("input_type", input_type, tuple(TYPE_SIZES))
        one_of("partials_type", partials_type, tuple(TYPE_SIZES))
        for given, partial, count in self.conv_units:
            if given == input_type and partial == partials_type:
                return count
        return 0

    def load_elements(self, data_type: str) -> int:
        """Input elements a matrix unit takes per cycle."""
        elements = dict(self.conv_load_elements)
        one_of("data_type", data_type, tuple(elements))
        return elements[data_type]

    def weights_per_unit(self, data_type: str) -> int:
        """Weights one matrix unit holds: pipeline depth times elements per load."""
        return self.conv_pipeline_depth * self.load_elements(data_type)

    def vector_width(self, data_type: str) -> int:
        """Elements of `data_type` in one load."""
        one_of("data_type", data_type, tuple(TYPE_SIZES))
        return self.elements_of_a_load(TYPE_SIZES[data_type])

    def elements_of_a_load(self, itemsize: int) -> int:
        """Elements of so many bytes in one load; at least one."""
        return max(1, self.data_path_bits // (8 * whole("itemsize", itemsize, 1, 1 << 20)))

    # Changing and writing ------------------------------------------------------------------------

    def replace(self, **fields: Any) -> Target:
        """Return a copy with some fields changed; an unknown field raises `InvalidTypeError`."""
        check_keys("replace()", fields, [f.name for f in dataclasses.fields(self)], keywords=True)
        return dataclasses.replace(self, **fields) if fields else self

    def to_json(self) -> str:
        """Return the target as a JSON object, fields by name."""
        return json.dumps(dataclasses.asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Target:
        """Read what `to_json` wrote."""
        try:
            fields = json.loads(text)
        except (ValueError, TypeError, RecursionError) as error:
            raise bad_argument("text", text, "a JSON object") from error
        if not isinstance(fields, dict):
            raise bad_argument("text", text, "a JSON object")
        check_keys("text", fields, [f.name for f in dataclasses.fields(cls)])
        try:
            for key in ("conv_units", "conv_load_elements"):
                if key in fields:
                    fields[key] = tuple(tuple(row) for row in fields[key])
            if "grain" in fields:
                fields["grain"] = tuple(fields["grain"])
            return cls(**fields)
        except TypeError as error:
            raise InvalidTypeError(f"text: {error}") from error

    # Presets -------------------------------------------------------------------------------------

    @classmethod
    def gc2(cls, **fields: Any) -> Target:
        """Colossus Mk1: 1,216 tiles of 256 KiB, 8 matrix units a tile, 1.6 GHz."""
        units = (("float", "float", 8), ("half", "float", 8), ("half", "half", 8))
        return cls("gc2", 1216, 262144, units, clock_hz=1.6e9).replace(**fields)

    @classmethod
    def gc200(cls, **fields: Any) -> Target:
        """Colossus Mk2: 1,472 tiles of 624 KiB, 1.33 GHz; half peaks at 250 TFLOP/s."""
        return cls("gc200", 1472, 638976, _IPU2_UNITS).replace(**fields)

    @classmethod
    def bow(cls, **fields: Any) -> Target:
        """Bow: the Mk2 tile array clocked at 1.85 GHz."""
        return cls("bow", 1472, 638976, _IPU2_UNITS, clock_hz=1.85e9).replace(**fields)

    @classmethod
    def c600(cls, **fields: Any) -> Target:
        """C600: the Mk2 tile array with FP8 matrix units (quarter in, half partials), 1.5 GHz."""
        units = (*_IPU2_UNITS, ("quarter", "half", 16))
        return cls("c600", 1472, 638976, units, clock_hz=1.5e9).replace(**fields)

    @classmethod
    def small(cls, tiles: int, **fields: Any) -> Target:
        """A GC200 cut down to `tiles` tiles: for tests and for reading plans by eye."""
        return cls.gc200(tiles=tiles).replace(name=f"small({tiles})", **fields)

    @classmethod
    def host(cls, threads: int | None = None, **fields: Any) -> Target:
        """This CPU: tiles are threads, by default those of the settings; tile memory is a core's second-level cache.

        `exchange_bytes_per_cycle` and `memcpy_bytes_per_cycle` are tabulated packing rates.
        """
        return cls(**host_machine.describe(settings.num_threads if threads is None else threads)).replace(**fields)


TargetLike = Target | str | None
"""What a call may say of where it runs: a machine, the name of a preset, or nothing."""

PRESETS: dict[str, Callable[[], Target]] = {"gc2": Target.gc2, "gc200": Target.gc200, "bow": Target.bow,
                                            "c600": Target.c600, "host": Target.host}


MODELLED = "a modelled machine: gc2, gc200, bow or c600"
"""What is allowed where this CPU is not."""


def modelled_machine(target: Target | str, most_tiles: int = 0) -> Target:
    """Return the modelled machine that is named, or raise.

    Parameters
    ----------
    target : Target or str
    most_tiles : int
        Of a planner that looks at partitions one by one; without, any number of tiles.

    Raises
    ------
    InvalidTypeError, InvalidArgumentError
        If there is no such machine, or it is this CPU.
    UnsupportedError
        If `most_tiles` is given, and it is this CPU or has more.
    """
    whole("most_tiles", most_tiles, 0)
    machine = resolve_target(target)
    is_host = machine.kind == "host"
    if most_tiles and (is_host or machine.tiles > most_tiles):
        got = machine.name if is_host else f"{machine.tiles} tiles"
        raise UnsupportedError(f"target: got {got}; allowed: a modelled machine of at most {most_tiles} tiles")
    if is_host:
        raise bad_argument("target", machine.name, MODELLED)
    return machine


def resolve_target(target: Target | str) -> Target:
    """Return `target` itself, or the preset of that name.

    Examples
    --------
    >>> from poplibs_py.target import resolve_target
    >>> resolve_target("bow").clock_hz
    1850000000.0
    """
    if isinstance(target, Target):
        return target
    if isinstance(target, str):
        if target in PRESETS:
            return PRESETS[target]()
        raise bad_argument("target", target, "a Target or one of " + ", ".join(map(repr, PRESETS)))
    raise bad_type("target", target, "a Target or the name of a preset")


def _check_rows(name: str, rows: object, columns: int, allowed: str) -> None:
    """Refuse a table whose rows are no tuples of so many."""
    if not isinstance(rows, (tuple, list)):
        raise bad_type(name, rows, f"a tuple of {allowed}")
    for row in rows:
        if not isinstance(row, (tuple, list)) or len(row) != columns:
            raise bad_argument(name, row, allowed)
