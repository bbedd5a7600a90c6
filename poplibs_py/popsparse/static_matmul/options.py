"""How a product of PopLibs' ``popsparse::static_`` is planned: its options, checked."""

from __future__ import annotations

import dataclasses

from ...ops.planner_options import PlannerOptions, count, option, type_option

MOST_BANDS = 4096
"""Column bands that can be asked for."""


def _partials(key: str, value: object) -> str | None:
    return None if value is None else type_option(key, value)


@dataclasses.dataclass(frozen=True)
class StaticOptions(PlannerOptions):
    """PopLibs' options of static sparse products; every field has PopLibs' default.

    `StaticOptions.parse` takes PopLibs' spelling (``numBands``) as well as Python's (``num_bands``).

    Parameters
    ----------
    available_memory_proportion : float
        Share of tile memory that temporary data may use: 0 or more, default 0.6, above 1 allowed. There is no ladder:
        where no plan fits, planning fails, as in PopLibs.
    num_bands, n_split : int
        Column bands, and parts of N; 0, the default, leaves the choice to the planner.
    partials_type : str, optional
        Type of partial sums, ``"float"`` or ``"half"``; by default the data type. PopLibs has no option for it, its
        planner has.
    enable_preprocessing : bool
        Leave rows and columns that are nearly empty out of the estimate, and put them last (default True).
    verbose_logging : bool
        Taken and kept; changes nothing.

    Examples
    --------
    >>> from poplibs_py.popsparse.static_matmul import StaticOptions
    >>> StaticOptions.parse({"availableMemoryProportion": "0.3"}, n_split=4)
    StaticOptions(available_memory_proportion=0.3, num_bands=0, n_split=4, partials_type=None, \
enable_preprocessing=True, verbose_logging=False)
    """

    num_bands: int = option(0, count(MOST_BANDS))
    n_split: int = option(0, count(2**31 - 1))
    partials_type: str | None = option(None, _partials)
    enable_preprocessing: bool = option(True)
    verbose_logging: bool = option(False)
