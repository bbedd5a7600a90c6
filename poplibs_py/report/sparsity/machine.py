"""Rows of a modelled machine beside those of this CPU: one table for a terminal and a page."""

from __future__ import annotations

from collections.abc import Sequence

from ...checks import all_of
from ..chart import reciprocal
from .record import Record

ON_MACHINE = "IPU"
"""The column ``device`` of a modelled machine's rows."""


def measured_here(records: Sequence[Record]) -> list[Record]:
    """Return the rows that were measured on this CPU."""
    return [r for r in all_of("records", records, Record, "records") if r.device != ON_MACHINE]


def run_on_machine(records: Sequence[Record]) -> list[Record]:
    """Return the rows of a modelled machine."""
    return [r for r in all_of("records", records, Record, "records") if r.device == ON_MACHINE]


def machine_heads(records: Sequence[Record]) -> list[str]:
    """Return the heads of `machine_rows`."""
    name = next((r.isa for r in run_on_machine(records)), "machine")
    return ["file", "type", "block", "density", "n", *(f"{where} {what}" for where in ("CPU", name)
                                                      for what in ("dense", "static", "dynamic"))]


def machine_rows(records: Sequence[Record]) -> list[list[str]]:
    """Return a row for each case and type: the dense product's time and how many times faster others are, on each.

    A product that has no plan says so.
    """
    found: dict[tuple[int, str], dict[tuple[str, str], Record]] = {}
    sparse: dict[int, Record] = {}
    for r in all_of("records", records, Record, "records"):
        if r.library == "poplibs_py" and r.task == "forward":
            found.setdefault((r.case, r.type), {})[r.device, r.method] = r
            if r.block_size:
                sparse[r.case] = r
    rows = []
    for (case, kind), by_method in found.items():
        if case not in sparse or not any(device == ON_MACHINE for device, _ in by_method):
            continue
        about = sparse[case]
        cells = [_told(by_method.get((device, method)), method) for device in ("CPU", ON_MACHINE)
                 for method in ("dense", "static_sparse", "dynamic_sparse")]
        rows.append([about.source, kind, str(about.block_size), reciprocal(about.density), str(about.n), *cells])
    return rows


def _told(record: Record | None, method: str) -> str:
    if record is None:
        return ""
    if not record.time_s > 0:
        return "no plan"
    if not record.valid:
        return "INVALID"
    if method == "dense" or record.x_dense is None:
        return f"{record.time_s * 1e6:,.1f} us"
    return f"{record.x_dense:.2f}x"
