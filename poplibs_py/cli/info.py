"""``poplibs-py info``: the CPU, its levels, threads, caches and targets, and which kernel each format takes and why."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from ..config import settings
from ..kernels import FAMILIES, Kernel, _cpu, kernels, level_statuses, select

if TYPE_CHECKING:
    from argparse import _SubParsersAction

__all__ = ["add_parser", "describe"]


def add_parser(subparsers: _SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to the parser of the command line."""
    parser = subparsers.add_parser("info", help="show the CPU, its levels, and which kernels serve which formats")
    parser.add_argument("--why", action="store_true", help="list the kernels that were not taken, with the reason")
    parser.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    print(describe(why=arguments.why))
    return 0


def describe(*, why: bool = False) -> str:
    """Return the report that ``poplibs-py info`` prints."""
    lines = [f"CPU       {_cpu.brand() or 'unknown'}", f"threads   {settings.num_threads}"]
    caches = ", ".join(f"L{level} {_cpu.cache_bytes(level) // 1024} KiB" for level in (1, 2, 3))
    lines += [f"caches    {caches}", "levels"]
    lines += [f"  {status.name:<12} {status.reason}" for status in level_statuses()]
    for family in FAMILIES:
        lines.append(f"{family} kernels")
        for op, formats in dict.fromkeys((k.op, k.formats) for k in kernels(family)):
            lines.append(_kernel_line(family, op, formats, why=why))
    return "\n".join(lines)


def _kernel_line(family: str, op: str, formats: str, *, why: bool) -> str:
    selection = select(family, op, formats)
    line = f"  {op:<12} {formats:<36} {_label(selection.kernel)}"
    if why:
        line += "".join(f"\n      not {_label(r.kernel)}: {r.reason}" for r in selection.rejected)
    return line


def _label(kernel: Kernel) -> str:
    return f"{kernel.name} [{kernel.level}]"
