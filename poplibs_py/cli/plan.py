"""``poplibs-py plan``: plan a product or a convolution for a modelled machine, and show what it costs."""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
import warnings
from typing import Any

from ..errors import MemoryLimitWarning, PlanError, PoplibsError, bad_argument
from ..planner import Sweep, sweep
from ..planner.explain import BEST
from ..poplin.tile_conv import (
    ConvOptions,
    ConvParams,
    ConvPlan,
    ConvProblem,
    FieldTransform,
    OutputTransform,
    matmul_params,
)
from ..poplin.tile_conv.api import NoPlanError, planned_quietly, run_planner
from ..report import text
from ..report.chart import Axis, LineChart, Series
from . import plan_sparse
from .many import add_specs
from .spec import cut_down, named_as_typed, parse_spec, spec_names

PROPORTIONS = (0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to the parser of the command line."""
    parser = subparsers.add_parser("plan", help="plan a product or a convolution for a modelled machine")
    kinds = parser.add_subparsers(dest="kind", required=True)
    add_specs(kinds, "specs", "plan every line of a file of specs, products and convolutions",
              "mm=1,64,32,16 type=half amp=0.2", _fields_of, _table_of)
    plan_sparse.add_parsers(kinds)
    matmul = kinds.add_parser("matmul", help="plan [G, M, K] x [G, K, N]")
    for name, meaning in (("M", "rows"), ("K", "terms of each sum"), ("N", "columns")):
        matmul.add_argument(name, type=int, help=meaning)
    matmul.add_argument("--groups", type=int, default=1, help="independent products (default: 1)")
    _add_common(matmul, "NONE_MATMUL")
    matmul.set_defaults(run=_run_matmul)
    conv = kinds.add_parser("conv", help="plan a convolution")
    conv.add_argument("--batch", type=int, default=1, help="how many images (default: 1)")
    conv.add_argument("--field", type=_sizes, required=True, help="input field, such as 56,56")
    conv.add_argument("--kernel", type=_sizes, required=True, help="kernel, one number or one per dimension")
    conv.add_argument("--ci", type=int, required=True, help="input channels per group")
    conv.add_argument("--co", type=int, required=True, help="output channels per group")
    conv.add_argument("--groups", type=int, default=1, help="groups of channels (default: 1)")
    derived = conv.add_mutually_exclusive_group()
    derived.add_argument("--grad", action="store_true", help="plan the convolution that makes the input's gradient")
    derived.add_argument("--wu", action="store_true", help="plan the convolution that makes the weights' gradient")
    for name, meaning in (("pad", "zeros on both sides (default: 0)"), ("stride", "of the output (default: 1)"),
                          ("dilation", "of the kernel (default: 1)")):
        conv.add_argument(f"--{name}", type=_sizes, default=None, help=f"{meaning}, one number or one per dimension")
    _add_common(conv, "NONE")
    conv.set_defaults(run=_run_conv)


def _add_common(parser: argparse.ArgumentParser, pass_: str) -> None:
    parser.add_argument("--dtype", default="half",
                        help="input type: float (float32), half (float16) or quarter (default: half)")
    parser.add_argument("--out-dtype", default=None, help="output type (default: the input's; half for quarter)")
    parser.add_argument("--partials", help="type of partial sums: float (float32) or half (float16)")
    parser.add_argument("--target", default="gc200", help="gc2, gc200, bow or c600 (default: gc200)")
    parser.add_argument("--tiles", type=int, default=None, help="how many tiles it has (default: the target's own)")
    parser.add_argument("--fp8", action="store_true", help="give the target's tiles the FP8 units of a C600")
    parser.add_argument("--amp", type=float,
                        help="available memory proportion (default: 0.6); above 1 is allowed, as in PopLibs, 0 sets "
                             "no limit")
    parser.set_defaults(usual_pass=pass_)
    parser.add_argument("--pass", dest="pass_", help="what it is for, such as INFERENCE_FWD")
    parser.add_argument("--option", action="append", default=[], metavar="KEY=VALUE", help="any other option")
    parser.add_argument("--explain", action="store_true",
                        help=f"also list the {BEST} best candidates and why each lost")
    parser.add_argument("--all", action="store_true", help="with --explain: list every candidate")
    parser.add_argument("--against", metavar="NAMES",
                        help="compare with the plans of other machines, such as bow,c600, or of this one at other "
                             "proportions, such as 0.1,0.3")
    parser.add_argument("--sweep", nargs="?", const="", metavar="PROPORTIONS",
                        help="show cycles against the available memory proportion: several, or those that are named, "
                             "such as 0.1,0.2,0.4; and that of --amp")
    parser.add_argument("--json", action="store_true",
                        help="print the plan, with --explain its candidates too, or the sweep, as JSON")


def _sizes(word: str) -> list[int]:
    try:
        return [int(part) for part in word.split(",")]
    except ValueError:
        raise argparse.ArgumentTypeError(f"got {word}; allowed: whole numbers with commas between them") from None


# Many problems -------------------------------------------------------------------------------------


def plan_spec(spec: str) -> str:
    """Plan one spec and return its JSON line."""
    try:
        return _fields_of(spec)
    except PoplibsError as error:
        return json.dumps({"spec": spec, "error": str(error)}, separators=(",", ":"))


def _plan(spec: str) -> ConvPlan:
    with spec_names(spec):
        return run_planner(parse_spec(spec))


def _fields_of(spec: str) -> str:
    """Plan one spec: its JSON line, or PopLibs' own error."""
    try:
        plan = _plan(spec)
    except NoPlanError as error:
        raise PlanError(error.ORIGINAL) from None
    fields: dict[str, Any] = {"spec": spec, **plan.golden(), "limit": plan.limit or 0}
    fields["additional"] = [other.golden() for other in plan.additional]
    return json.dumps(fields, separators=(",", ":"))


def _table_of(spec: str) -> str:
    """Plan one spec: its table."""
    return str(_plan(spec))


# One problem ---------------------------------------------------------------------------------------


_TYPED = {
    "input_type": "--dtype", "output_type": "--out-dtype", "partialsType": "--partials", "pass": "--pass",
    "availableMemoryProportion": "--amp", "target": "--target", "tiles": "--tiles", "groups": "--groups",
    "rows": "M", "inner": "K", "columns": "N",
    "in_channels": "M x K", "kernel": "K x N", "out_channels": "M x N", "field": "M x K x N",
}  # fmt: skip
"""The planner's arguments as this command spells them."""

_OF_CONVOLUTIONS = {"batch": "--batch", "field": "--field", "kernel": "--kernel", "in_channels": "--ci",
                    "out_channels": "--co", "input_transform": "--pad", "kernel_transform": "--dilation",
                    "output_transform": "--stride"}


@named_as_typed(_TYPED, "--option ")
def _run_matmul(a: argparse.Namespace) -> int:
    return _show(a, matmul_params(a.groups, a.M, a.K, a.N, a.dtype, _out_type(a)))


@named_as_typed(_TYPED | _OF_CONVOLUTIONS, "--option ")
def _run_conv(a: argparse.Namespace) -> int:
    ndim = len(a.field)
    params = ConvParams.create(
        input_type=a.dtype, output_type=_out_type(a), batch=a.batch, field=a.field,
        kernel=_per_dim("--kernel", a.kernel, ndim, 1), in_channels=a.ci, out_channels=a.co, groups=a.groups,
        input_transform=[FieldTransform(padding_lower=n, padding_upper=n) for n in _per_dim("--pad", a.pad, ndim, 0)],
        kernel_transform=[FieldTransform(dilation=n) for n in _per_dim("--dilation", a.dilation, ndim, 1)],
        output_transform=[OutputTransform(stride=n) for n in _per_dim("--stride", a.stride, ndim, 1)])
    return _show(a, params.gradient() if a.grad else params.weight_update() if a.wu else params)


def _out_type(a: argparse.Namespace) -> str:
    given: str = a.out_dtype or ("half" if a.dtype == "quarter" else a.dtype)
    return given


def _per_dim(name: str, values: list[int] | None, ndim: int, default: int) -> list[int]:
    if values is None:
        return [default] * ndim
    if len(values) == 1:
        return values * ndim
    if len(values) != ndim:
        raise bad_argument(name, values, f"one number, or one for each dimension of --field, {ndim}")
    return values


def _show(a: argparse.Namespace, params: ConvParams) -> int:
    target = cut_down(a.target, tiles=a.tiles, fp8=a.fp8)
    given: dict[str, Any] = {}
    for word in a.option:
        key, equals, value = word.partition("=")
        if not equals:
            raise bad_argument("--option", word, "KEY=VALUE")
        given[key] = value
    if a.pass_ is None and not given.keys() & {"pass", "pass_"}:
        given["pass"] = a.usual_pass
    named = {"availableMemoryProportion": a.amp, "partialsType": a.partials, "pass": a.pass_}
    options = ConvOptions.parse(given, **{key: value for key, value in named.items() if value is not None})
    problem = ConvProblem(target, params.canonical(), options)
    if a.sweep is not None and a.against is not None:
        raise bad_argument("--against", "--sweep too", "one of the two")
    if a.sweep is not None and a.explain:
        raise bad_argument("--explain", "--sweep too", "one of the two: a sweep has no list of candidates")
    if a.all and not a.explain:
        raise bad_argument("--all", "no --explain", "--explain --all")
    if a.sweep is not None:
        swept = _swept(problem, _proportions(a.sweep), options.available_memory_proportion)
        print(swept.to_json() if a.json else f"{swept}\n\n{text.draw(_chart(swept))}")
        return 0
    plan = planned_quietly(problem)
    if a.against is not None:
        return _compare(plan, problem, a)
    if a.json:
        print(_json_of(plan, a.explain, a.all))
    else:
        print(plan)
        if a.explain:
            print(f"\n{_explained(plan, a.all)}")
    if not plan.fits:
        print(f"no plan keeps to the memory limit; this one takes {plan.temporaries}", file=sys.stderr)
    return 0


def _compare(plan: ConvPlan, problem: ConvProblem, a: argparse.Namespace) -> int:
    """Show a plan beside those of other machines or proportions."""
    if a.explain:
        raise bad_argument("--against", "--explain too", "one of the two")
    others = [planned_quietly(_other(problem, word)) for word in a.against.split(",")]
    if a.json:
        print(json.dumps([each.summary.to_dict() for each in (plan, *others)]))
    else:
        print(plan.compare(*others))
    return 0


def _other(problem: ConvProblem, word: str) -> ConvProblem:
    """The same problem on another machine, or within another proportion."""
    try:
        options = dataclasses.replace(problem.options, available_memory_proportion=float(word))
        return dataclasses.replace(problem, options=options)
    except ValueError:
        pass  # no number, or none that is allowed
    try:
        return dataclasses.replace(problem, target=cut_down(word))
    except PoplibsError:
        raise bad_argument("--against", word, "gc2, gc200, bow or c600, or a proportion, 0 or more") from None


def _json_of(plan: ConvPlan, explained: bool, every: bool) -> str:
    if not explained:
        return plan.to_json()
    candidates = plan.explain() if every else plan.explain().best(BEST)
    return json.dumps(json.loads(plan.to_json()) | {"candidates": [dataclasses.asdict(c) for c in candidates]})


def _explained(plan: ConvPlan, every: bool) -> str:
    explanation = plan.explain()
    if every or len(explanation) <= BEST:
        return "\n".join(explanation.table())
    return "\n".join([*explanation.best(BEST).table(), f"  and {len(explanation) - BEST} others: see --all"])


def _proportions(words: str) -> tuple[float, ...]:
    try:
        return tuple(float(word) for word in words.split(",")) if words else PROPORTIONS
    except ValueError:
        raise bad_argument("--sweep", words, "proportions with commas between them") from None


def _swept(problem: ConvProblem, proportions: tuple[float, ...], asked: float) -> Sweep:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", MemoryLimitWarning)
        return sweep(problem, sorted({*proportions, asked} - {0.0}))


def _chart(swept: Sweep) -> LineChart:
    marked = [(label, [p for p in swept.points if p.fits == fits])
              for label, fits in (("fits", True), ("does not fit", False))]
    return LineChart("Cycles against available memory proportion", Axis("proportion", scale="log10"), Axis("cycles"),
                     [Series(label, [p.proportion for p in points], [p.cycles for p in points])
                      for label, points in marked if points])
