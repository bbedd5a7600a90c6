"""What adding one thing touches: the places that docs/explanation/architecture.md counts are all that a tree needs.

Each kind of thing is added to a temporary copy of the tree, the modules that hold it are built there, and the tests
that follow from its lines run there: nightly, for a compiler takes its time. That the table is true of this tree shows
at once.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

import poplibs_py
from poplibs_py.kernels import available_levels

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "explanation" / "architecture.md"
COPIED = ("bench", "conftest.py", "docs", "pyproject.toml", "README.md", "setup.py", "src_cython", "tests")


@dataclass(frozen=True)
class Place:
    """Lines that go into a file, after the one line of it that has the anchor in it, or before."""

    file: str
    anchor: str
    text: str
    before: bool = False

    def written_to(self, root: Path) -> None:
        """Insert the lines."""
        path = root / self.file
        lines = path.read_text().splitlines(keepends=True)
        at = self.found_in(lines)
        lines[at + (not self.before):at + (not self.before)] = [self.text]
        path.write_text("".join(lines))

    def found_in(self, lines: list[str]) -> int:
        """Return the number of the line with the anchor, the only one."""
        [at] = [i for i, line in enumerate(lines) if self.anchor in line]
        return at


@dataclass(frozen=True)
class Kind:
    """A kind of thing, and one of it.

    Attributes
    ----------
    adding : str
        The first cell of its row in the table.
    places : tuple of Place
        All that has to be written.
    modules : str
        What is built: POPLIBS_BUILD_ONLY.
    level : str
        The highest level that tests of it use: what is above was not built again.
    told : tuple of str
        A command of Python, and what it then prints, as a regular expression.
    tests : tuple of str
        Where the tests that follow from it are.
    word : str
        What their names have in them.
    least : int
        So many of them run and pass.
    others : tuple of str
        Tests that name no such thing, and pass with one more of them: all of each.
    """

    adding: str
    places: tuple[Place, ...]
    modules: str
    level: str
    told: tuple[str, ...]
    tests: tuple[str, ...]
    word: str
    least: int
    others: tuple[str, ...]


INFO = ("-m", "poplibs_py", "info", "--why")

KINDS = [
    Kind(
        "a kernel, or a tile shape of one",
        (Place("src_cython/kernels/dot/fma256.h", '"fma256_2x32"', '''\
    {"multiply", "float32", "fma256_4x16", POP_FUNCTION(pop_multiply_fma256), {1, 8, 1}, {4, 16, 1}, POP_CONSISTENT},
'''),),
        "dot_avx2", "avx2", (*INFO, r"not fma256_4x16 \[avx2\]: another of its level"),
        ("tests/kernels",), "fma256_4x16", 1, ("tests/kernels/test_registry.py", "tests/cli/test_info.py"),
    ),
    Kind(
        "an elementwise op",
        (
            Place("src_cython/kernels/elementwise/unary.h", "X(sqrt, ", '''\
    X(halve, x * 0.5f) \\
'''),
            Place("poplibs_py/popops/elementwise/unary.py", '@elementwise("popops::exp"', '''\
@elementwise("popops::halve", "HALVE", lambda x: x / 2, ulp=0.5)
def halve(x: object, *, out: Any = None, out_dtype: object = None, target: TargetLike = None) -> Any:
    """Half of x, correctly rounded to FP32 (``popops::halve``).

    -0 for -0.

    Examples
    --------
    >>> popops.halve([-1.5, 2.0])
    array([-0.75,  1.  ], dtype=float32)
    """


''', before=True),
        ),
        "elementwise_*", "amx", (*INFO, r"popops\.halve \(popops::halve\)\n +halve_f32 \["),
        ("tests/kernels/test_elementwise_kernels.py", "tests/popops", "tests/testing", "tests/ops",
         "tests/stress/test_hostile_ops.py", "poplibs_py/popops/elementwise/unary.py", "bench/bench_classes.py",
         "bench/bench_calls.py"),
        "halve", 30, ("tests/bench/test_calls.py", "tests/cli/test_info.py", "tests/test_names.py",
                         "docs/reference/popops.md"),
    ),
    Kind(
        "a number format",
        (
            Place("src_cython/formats/formats.def", "X(1, E5M2,", '''\
    X(1, E4M3B11, e4m3b11, "e4m3b11", 4, 3, 11, POP_NEGATIVE_ZERO, 1) \\
'''),
            Place("poplibs_py/formats/format.py", "E5M2 = ", '''\
E4M3B11 = _preset("e4m3b11", (4, 3, 11), "negative_zero", ml_dtypes.float8_e4m3b11fnuz)
'''),
        ),
        "_records,cast_portable,dot_portable,random_portable,softmax_portable,sparse_portable", "portable",
        (*INFO, r"decode +e4m3b11->float32 +pop_decode_e4m3b11 \[portable\]"),
        ("tests/formats", "tests/records", "tests/kernels", "tests/popops", "tests/poplin/product", "tests/popsparse",
         "tests/poprand"),
        "e4m3b11", 100, ("tests/formats", "tests/records", "tests/kernels/test_registry.py", "tests/cli/test_info.py",
                         "tests/test_names.py", "docs/reference/formats.md"),
    ),
    Kind(
        "an instruction-set level",
        (
            Place("src_cython/cpu/levels.def", "X(AVX2,", '''\
    X(SSE42, "sse42", "-march=x86-64-v2", \\
      [POP_1_ECX] = bit_SSE3 | bit_SSSE3 | bit_CMPXCHG16B | bit_SSE4_1 | bit_SSE4_2 | bit_POPCNT, \\
      [POP_EXTENDED_ECX] = bit_LAHF_LM) \\
''', before=True),
            Place("poplibs_py/config.py", '    "avx2",', '''\
    "sse42",
''', before=True),
        ),
        "_cpu,dot_sse42,peak_sse42", "sse42", (*INFO, r"sse42 +usable"), ("tests/kernels", "tests/config"), "sse42", 20,
        ("tests/kernels/test_levels.py", "tests/kernels/test_registry.py", "tests/cli/test_info.py"),
    ),
    Kind(
        "a field of a work record",
        (Place("src_cython/records/softmax.def", "FIELD(int64_t, lanes)", '''\
    FIELD(int32_t, hint) /* which no kernel reads yet */
'''),),
        "_records,softmax_portable", "portable",
        ("-c", "from poplibs_py.kernels.records import RECORDS; print(RECORDS['pop_softmax_item']['hint'])", "^int32$"),
        ("tests/records", "tests/popsparse/test_softmax.py"), "softmax", 10, ("tests/records",),
    ),
]


@dataclass(frozen=True)
class Row:
    """A row of the table."""

    adding: str
    places: int
    which: str

    @property
    def files(self) -> list[str]:
        """The files that it names, patterns and all."""
        return re.findall(r"`([\w./*]+/[\w.*]+)`", self.which)


def rows() -> list[Row]:
    """The table of docs/explanation/architecture.md."""
    section = PAGE.read_text().partition("## What adding a thing touches\n")[2].partition("\n## ")[0]
    lines = [line.strip("|").split("|") for line in section.splitlines() if line.startswith("|")]
    cells = [[cell.strip() for cell in line] for line in lines]
    return [Row(adding, int(places), which) for adding, places, which in cells[2:]]


each = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.adding)


def test_the_table_has_the_kinds_of_things_that_are_tried() -> None:
    assert [row.adding for row in rows()] == [kind.adding for kind in KINDS]


@each
def test_the_table_counts_and_names_the_places(kind: Kind) -> None:
    [row] = [row for row in rows() if row.adding == kind.adding]
    assert row.places == len(kind.places)
    assert len(row.files) == len(kind.places)
    for pattern, place in zip(row.files, kind.places, strict=True):
        assert Path(place.file) in {path.relative_to(ROOT) for path in ROOT.glob(pattern)}, pattern


@each
def test_a_place_is_found_in_this_tree(kind: Kind) -> None:
    for place in kind.places:
        place.found_in((ROOT / place.file).read_text().splitlines())


def copy_of_tree(to: Path) -> None:
    """Copy what a build and the tests need, and the package with the modules that are built already."""
    leave = shutil.ignore_patterns("__pycache__", "_build", "generated", ".*cache")
    for name in COPIED:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, to / name, ignore=leave)
        else:
            shutil.copy2(ROOT / name, to)
    shutil.copytree(Path(poplibs_py.__file__).parent, to / "poplibs_py", ignore=leave)


def run_in(tree: Path, *words: str, **variables: str) -> str:
    """Run Python in the copy and return what it prints; what fails fails the test with all of that."""
    changed = {"PYTHONPATH": str(tree), "HYPOTHESIS_PROFILE": "level", **variables}
    done = subprocess.run([sys.executable, *words], cwd=tree, env=os.environ | changed, capture_output=True, text=True,
                          check=False)
    assert done.returncode == 0, f"{' '.join(words)}\n{done.stdout[-8000:]}\n{done.stderr[-4000:]}"
    return done.stdout


@pytest.mark.nightly
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.adding)
def test_a_thing_is_there_once_its_places_are_written(kind: Kind, tmp_path: Path) -> None:
    pytest.importorskip("Cython", reason="builds modules: pip install Cython")
    if kind.level in ("sse42", "avx2") and "avx2" not in available_levels():
        pytest.skip("this machine has no level above the portable one")
    copy_of_tree(tmp_path)
    for place in kind.places:
        place.written_to(tmp_path)
    run_in(tmp_path, "setup.py", "-q", "build_ext", "--inplace", "--force", POPLIBS_BUILD_ONLY=kind.modules)
    capped = {"POPLIBS_MAX_ISA": kind.level}
    *words, told = kind.told
    assert re.search(told, run_in(tmp_path, *words, **capped))
    tests = ["-m", "pytest", "-q", "-n0", "-p", "no:cacheprovider"]
    printed = run_in(tmp_path, *tests, "-rA", *kind.tests, "-k", kind.word, **capped)
    passed = {line for line in printed.splitlines() if line.startswith("PASSED") and kind.word in line}
    assert len(passed) >= kind.least
    run_in(tmp_path, *tests, *kind.others, **capped)
