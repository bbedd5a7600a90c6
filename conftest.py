"""Runs the examples of the documentation's pages as tests, and says how many processes share the tests.

The ```` ```python ```` blocks of ``README.md`` and ``docs/**/*.md`` are run in order, all blocks of a page in one
namespace and in an empty folder, as doctests of modules are. A block with ``>>>`` prompts is a doctest; one without is
code that must run. In a ```` ```console ```` block each ``$ poplibs-py plan`` is run, unless it has a pipe or reads a
file, and must print the lines that follow, if any.
"""

from __future__ import annotations

import contextlib
import doctest
import io
import os
import re
import shlex
import tempfile
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

collect_ignore = ["setup.py", "docs/conf.py"]
collect_ignore_glob = ["**/conftest.py"]  # no doctests there, and Python takes modules of one name for one module
collect_ignore_glob += [place for package, place in (("torch", "poplibs_py/torch/*"), ("dask", "poplibs_py/dask.py"))
                        if find_spec(package) is None]

_FENCE = re.compile(r"^```(python|console)\n(.*?)^```", re.DOTALL | re.MULTILINE)
_COMMAND = re.compile(r"^\$ (poplibs-py plan (?!specs)[^|\n]*)\n((?:[^$].*\n|\n)*)", re.MULTILINE)
_OPTIONAL = re.compile(r"^(?:>>> )?(?:import|from) (torch|dask|distributed)\b", re.MULTILINE)
_FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


MOST_WORKERS = 8  # each takes the memory of a whole suite, and runs products on every CPU


@pytest.hookimpl(optionalhook=True)  # a run without workers has no such hook
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """What ``-n auto`` means: a worker for each CPU; none where times are taken, output is shown or tests are named."""
    alone = config.getoption("benchmark_enable") or config.getoption("capture") == "no"
    if alone or all("::" in argument for argument in config.args):
        return 0
    cpus = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(cpus, MOST_WORKERS)


@pytest.fixture(autouse=True)
def _doctests_write_elsewhere(request: pytest.FixtureRequest) -> Iterator[None]:
    """What an example writes without naming a folder does not stay."""
    if not isinstance(request.node, pytest.DoctestItem):
        yield
        return
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        yield


def pytest_collect_file(parent: pytest.Collector, file_path: Path) -> pytest.Collector | None:
    """Take Markdown pages."""
    return MarkdownPage.from_parent(parent, path=file_path) if file_path.suffix == ".md" else None


class MarkdownPage(pytest.File):
    """A page of the documentation."""

    def collect(self) -> Iterator[pytest.Item]:
        """One test for a page that has examples, since later ones use the names of earlier ones."""
        text = self.path.read_text()
        if any(block[1] == "python" or _COMMAND.search(block[2]) for block in _FENCE.finditer(text)):
            yield PageExamples.from_parent(self, name="examples")


class PageExamples(pytest.Item):
    """The examples of one page."""

    def runtest(self) -> None:
        """Run the blocks in order."""
        text = self.path.read_text()
        for package in sorted(set(_OPTIONAL.findall(text))):
            pytest.importorskip(package)
        with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
            self.run_blocks(text)

    def run_blocks(self, text: str) -> None:
        """Run what is between the fences."""
        names: dict[str, object] = {"__name__": "__main__"}
        for block in _FENCE.finditer(text):
            line = text.count("\n", 0, block.start(2))
            if block[1] == "console":
                run_commands(block[2])
            elif ">>>" in block[2]:
                run_prompts(block[2], names, self.path, line)
            else:
                exec(compile("\n" * line + block[2], str(self.path), "exec"), names)

    def reportinfo(self) -> tuple[Path, int, str]:
        """Where the page is."""
        return self.path, 0, f"examples of {self.path.name}"


def run_prompts(source: str, names: dict[str, object], path: Path, line: int) -> None:
    """Run one block with prompts; fail with the doctest report of what differs."""
    name = f"{path.name}:{line + 1}"  # of this block alone, for it is how tracebacks find their lines
    test = doctest.DocTestParser().get_doctest(source, names, name, str(path), line)
    report: list[str] = []
    runner = doctest.DocTestRunner(optionflags=_FLAGS, verbose=False)
    failed, _ = runner.run(test, out=report.append, clear_globs=False)
    names.update(test.globs)
    if failed:
        pytest.fail("".join(report), pytrace=False)


def run_commands(source: str) -> None:
    """Run the planner's commands of a block; fail where one fails, or prints something else than the page shows."""
    from poplibs_py.cli import main

    for command in _COMMAND.finditer(source):
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            status = main(shlex.split(command[1], comments=True)[1:])
        assert status == 0, command[1]
        example = doctest.Example(command[1], command[2])
        checker = doctest.OutputChecker()
        if command[2].strip() and not checker.check_output(example.want, printed.getvalue(), _FLAGS):
            difference = checker.output_difference(example, printed.getvalue(), _FLAGS)
            pytest.fail(f"{command[1]}\n{difference}", pytrace=False)
