"""``poplibs-py info``: the CPU, its levels, threads, caches, the pool of results, the targets, every op of the
catalogue with the kernels of small calls, which kernel multiplies each format and why, and which level serves what else
kernels do.
"""

from __future__ import annotations

import argparse
import re
import textwrap
from typing import Any

from .. import poplin
from ..config import settings
from ..formats import FORMATS, FP16, FP32, Format
from ..kernels import FAMILIES, Kernel, _cpu, kernels, level_statuses, select
from ..ops import Op, catalogue
from ..popsparse.spmm.model import compute_format_of, kernel_of
from ..program import result_pool
from ..report.profile import profile
from ..target import PRESETS, resolve_target
from ..testing.cases import cases

_WIDTH = 100
_SIDE = 512
"""Rows, columns and depth of the dense product that stands for all: some shapes take other kernels."""

_BLOCKS = (1, 4, 16)
_RUN_KERNELS = re.compile(r"(\w+) \((\w+)\)")
"""What a `Run` names: kernels, each with its level."""


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to the parser of the command line."""
    parser = subparsers.add_parser("info", help="show the CPU, its levels, the targets, and which kernel serves what")
    parser.add_argument("--why", action="store_true", help="name every kernel, and those not taken with the reason")
    parser.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    print(describe(why=arguments.why))
    return 0


def describe(*, why: bool = False) -> str:
    """Return the report that ``poplibs-py info`` prints.

    Parameters
    ----------
    why : bool
        Give each op and format of every family a line with its kernel, and below it the kernels that lost and why. By
        default an op's formats share a line for each level that serves them.
    """
    lines = [f"CPU       {_cpu.brand() or 'unknown'}", f"threads   {settings.num_threads}"]
    caches = ", ".join(f"L{level} {_cpu.cache_bytes(level) // 1024} KiB" for level in (1, 2, 3))
    pool = result_pool()
    kept = f"keeps up to {pool.limit / 2**20:g} MiB" if pool.limit else "off"
    lines += [f"caches    {caches}", f"results   pool {kept}", "levels"]
    lines += [f"  {status.name:<12} {status.reason}" for status in level_statuses()]
    lines += ["targets"]
    for name in PRESETS:
        target = resolve_target(name)
        lines.append(f"  {name:<12} tiles {target.tiles:<5} of {target.bytes_per_tile // 1024:>4} KiB, "
                     f"workers {target.workers}, {target.clock_hz / 1e9:.2f} GHz")
    shapes = f"dense: {_SIDE} x {_SIDE} x {_SIDE}; sparse: by block"
    lines.append("ops: name, PopLibs' name, and the kernels of small calls")
    lines += [line for record in catalogue.values() for line in _kernels_of_op(record)]
    lines.append(f"products: format, operation, kernel, level, why ({shapes})")
    lines += [line for fmt in FORMATS for line in _products(fmt)]
    for family in FAMILIES:
        lines.append(f"{family} kernels" + ("" if why else ": the highest usable level that has one"))
        lines += _every_kernel(family) if why else _levels_of_ops(family)
    return "\n".join(lines)


def _kernels_of_op(record: Op) -> list[str]:
    """An op, and below it the kernels of its small calls, as their runs record them."""
    calls = cases(record.name)
    with profile() as report:
        for case in calls:
            record.face(*case.operands, **case.keywords)
    named = [found for run in report.runs for found in _RUN_KERNELS.findall(run.kernel)]
    labels = ", ".join(dict.fromkeys(f"{name}\xa0[{level}]" for name, level in named))  # not apart at a line's end
    return [f"  {record.name}{f' ({record.poplibs})' if record.poplibs else ''}",
            textwrap.fill(labels, _WIDTH, initial_indent=" " * 6, subsequent_indent=" " * 6).replace("\xa0", " ")]


def _products(fmt: Format) -> list[str]:
    """The kernels of dense and block-sparse products of a format with itself; blocks of one kernel share a line."""
    plan: Any = poplin.plan_matmul((_SIDE, _SIDE), (_SIDE, _SIDE), dtype=fmt)
    rows = {("dense", plan.kernel, _why(fmt, plan.compute_format.name, plan.kernel)): [""]}
    for side in _BLOCKS:
        blocks = (side, side)
        kernel = kernel_of(fmt.name, fmt.name, blocks)
        reason = _why(fmt, compute_format_of(fmt.name, fmt.name, blocks), kernel)
        rows.setdefault(("sparse", kernel, reason), []).append(str(side))
    names = [fmt.name] + [""] * len(rows)
    return [
        f"  {name:<9} {f'{op} ' + ', '.join(sides):<16} {kernel.name:<20} {kernel.level:<12} {reason}"
        for name, ((op, kernel, reason), sides) in zip(names, rows.items(), strict=False)
    ]


def _why(fmt: Format, compute_format: str, kernel: Kernel) -> str:
    """Why numbers of a format are multiplied as those of a compute format, in a few words."""
    tiles = " on tiles" if kernel.level.startswith("amx") else ""
    if compute_format == "float32":
        if fmt == FP32:
            return "fused multiply-adds"
        return "widened to FP32" + (", exactly" if fmt == FP16 else ": no BF16 units")
    if fmt == FP16:
        return f"as two BF16 each{tiles}"
    decoded = "" if fmt.name == compute_format else "decoded to BF16, "
    return f"{decoded}exact{tiles or ' products'}"


def _levels_of_ops(family: str) -> list[str]:
    served: dict[tuple[str, str], list[str]] = {}
    for op, formats in _served(family):
        served.setdefault((op, select(family, op, formats).kernel.level), []).append(formats)
    return [
        textwrap.fill("  ".join(formats), _WIDTH, initial_indent=f"  {op:<14} {level:<12} ", subsequent_indent=" " * 30)
        for (op, level), formats in served.items()
    ]


def _every_kernel(family: str) -> list[str]:
    lines = []
    for op, formats in _served(family):
        selection = select(family, op, formats)
        lines.append(f"  {op:<14} {formats:<36} {_label(selection.kernel)}")
        lines += [f"      not {_label(r.kernel)}: {r.reason}" for r in selection.rejected]
    return lines


def _served(family: str) -> list[tuple[str, str]]:
    return list(dict.fromkeys((kernel.op, formats) for kernel in kernels(family) for formats in kernel.served))


def _label(kernel: Kernel) -> str:
    return f"{kernel.name} [{kernel.level}]"
