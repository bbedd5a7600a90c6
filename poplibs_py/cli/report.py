"""``poplibs-py report``: reports that were saved as JSON, shown, made into pages and traces, compared."""

from __future__ import annotations

import argparse

from ..report.profile import Profile


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to the parser of the command line."""
    tasks = subparsers.add_parser("report", help="show and compare reports of what ran").add_subparsers(
        dest="task", required=True)
    show = tasks.add_parser("show", help="show a report", description="Show a report that was saved as .json.")
    show.add_argument("file", metavar="FILE")
    show.add_argument("--details", action="store_true", help="each operation's phases, decisions and reasons too")
    show.add_argument("--html", metavar="FILE", help="write a page that needs nothing else")
    show.add_argument("--trace", metavar="FILE", help="write a trace for Perfetto, named *.perfetto.json")
    show.set_defaults(run=_show)
    compare = tasks.add_parser("compare", help="compare two reports",
                               description="Compare two reports that were saved as .json: A came first.")
    compare.add_argument("before", metavar="A")
    compare.add_argument("after", metavar="B")
    compare.add_argument("--html", metavar="FILE", help="write the page of B beside A")
    compare.set_defaults(run=_compare)


def _show(arguments: argparse.Namespace) -> int:
    report = Profile.load(arguments.file)
    print(report.summary(details=arguments.details))
    for path in filter(None, (arguments.html, arguments.trace)):
        report.save(path)
    return 0


def _compare(arguments: argparse.Namespace) -> int:
    before, after = Profile.load(arguments.before), Profile.load(arguments.after)
    print(after.compare(before).summary())
    if arguments.html:
        after.save(arguments.html, against=before)
    return 0
