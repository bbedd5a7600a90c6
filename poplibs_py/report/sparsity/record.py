"""One row of the results, and the file of them."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from typing import TextIO

from ...checks import all_of

OURS = "poplibs_py"
"""The name of this library in the column ``library``."""

LEAST_ROUNDS = 7
"""Rounds behind every median; a row with fewer says how many."""

PAPER_COLUMNS = ("m", "k", "n", "density", "block_size", "type", "device", "method", "valid", "flop_count", "flop_rate")
"""The columns of the PopSparse paper's data, in its order."""


@dataclass
class Record:
    """What one method or peer did in one case.

    The first eleven fields are the paper's; `block_size` is None for dense methods, `valid` says whether the answer was
    within its bound, and FLOPs are counted on stored values (a dense row counts all).

    Attributes
    ----------
    library : str
        Whose code ran: ``"poplibs_py"`` or a peer.
    source : str
        Name of the file that the pattern came from, if it did.
    case : int
        Number of the case; rows of one case took turns.
    time_s : float
        Median seconds of one call; NaN where nothing ran.
    rounds : int
        How many turns the median is over.
    err, err_over_bound : float
        Largest absolute error in the rows that were checked, and largest share of its bound.
    kernel, isa, plan : str
        The kernel that ran, its instruction-set level, the plan in short.
    bytes : int
        Bytes of the operands and the result.
    x_dense, x_numpy, x_scipy, x_mkl, x_torch : float or None
        The other's time over this one's: our dense product of the same type; the fastest route of each peer.
    of_ideal : float or None
        `x_dense` as a share of the ideal speed-up of a block-sparse product, which is one over its density.
    peak_flop_rate, of_peak : float or None
        The measured peak for the type, and `flop_rate` as a share of it.
    """

    m: int
    k: int
    n: int
    density: float
    block_size: int | None
    type: str
    device: str
    method: str
    valid: bool
    flop_count: float
    flop_rate: float
    library: str = OURS
    source: str = ""
    case: int = 0
    time_s: float = math.nan
    rounds: int = 0
    threads: int = 1
    seed: int = 0
    err: float = math.nan
    err_over_bound: float = math.nan
    kernel: str = ""
    isa: str = ""
    plan: str = ""
    bytes: int = 0
    x_dense: float | None = None
    x_numpy: float | None = None
    x_scipy: float | None = None
    x_mkl: float | None = None
    x_torch: float | None = None
    of_ideal: float | None = None
    peak_flop_rate: float | None = None
    of_peak: float | None = None

    @property
    def shape(self) -> tuple[int, int, int]:
        """The m, k and n of the product."""
        return self.m, self.k, self.n

    @property
    def task(self) -> str:
        """Which product it computes: ``"forward"``, ``"grad_a"`` or ``"grad_w"``."""
        return task_of(self.method)

    @property
    def few_rounds(self) -> str:
        """How many rounds the time is the median of where they are fewer than `LEAST_ROUNDS`, else an empty text."""
        return "" if self.rounds >= LEAST_ROUNDS else f"{self.rounds} round{'s' * (self.rounds != 1)}"

    def cells(self) -> list[str]:
        """Return the row's cells as text, in the order of `COLUMNS`."""
        return [_cell(getattr(self, name)) for name in COLUMNS]


COLUMNS = tuple(field.name for field in fields(Record))
"""All columns: the paper's, then ours."""


def _cell(value: object) -> str:
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def product_name(m: int, k: int, n: int | None = None) -> str:
    """Write the shape of a product.

    Examples
    --------
    >>> product_name(128, 128, 64), product_name(128, 256)
    ('m = k = 128, n = 64', 'm = 128, k = 256')
    """
    sides = f"m = k = {m}" if m == k else f"m = {m}, k = {k}"
    return sides if n is None else f"{sides}, n = {n}"


def task_of(method: str) -> str:
    """Return which product a method computes.

    Examples
    --------
    >>> task_of("static_sparse"), task_of("csr_sparse_grad_a")
    ('forward', 'grad_a')
    """
    return method[-6:] if method.endswith(("grad_a", "grad_w")) else "forward"


def fastest_route(records: Iterable[Record], library: str, task: str) -> Record | None:
    """Return the fastest right row of a library among those of one case, if it has any."""
    rows = [r for r in records if r.library == library and r.task == task and r.valid]
    return min(rows, key=lambda r: r.time_s, default=None)


def write_header(stream: TextIO) -> None:
    """Write the line of column names."""
    csv.writer(stream, lineterminator="\n").writerow(COLUMNS)


def write_rows(stream: TextIO, records: Iterable[Record]) -> None:
    """Append records and hand them to the system, so that nothing is lost if the run is cut short."""
    csv.writer(stream, lineterminator="\n").writerows(record.cells() for record in records)
    stream.flush()


def csv_text(records: Sequence[Record]) -> str:
    """Return the whole file as text.

    Examples
    --------
    >>> csv_text([]).startswith(",".join(PAPER_COLUMNS))
    True
    """
    records = all_of("records", records, Record, "records")
    stream = io.StringIO()
    write_header(stream)
    write_rows(stream, records)
    return stream.getvalue()
