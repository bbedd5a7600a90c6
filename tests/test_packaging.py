"""What is handed on: a source archive that builds, a package without sources, and a word where nothing was built."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

import poplibs_py

ROOT = Path(__file__).parents[1]
SOURCES = {".pyx", ".pxi", ".pxd", ".h", ".def", ".c"}
LEFT_BEHIND = shutil.ignore_patterns("build", "dist", "_build", "generated", "__pycache__", "*.egg-info", ".?*", "*.so",
                                     "left_out.json")

# Cython is not among the tests' packages, and an archive of sources needs no translation.
SDIST = """
import sys, types
sys.modules["Cython"] = cython = types.ModuleType("Cython")
sys.modules["Cython.Build"] = build = types.ModuleType("Cython.Build")
cython.__version__, build.cythonize = "none", lambda modules, **how: modules
sys.argv = ["setup.py", "-q", "sdist", "-d", sys.argv[1]]
exec(compile(open("setup.py").read(), "setup.py", "exec"), {"__name__": "__main__", "__file__": "setup.py"})
"""


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A source archive of this checkout."""
    pytest.importorskip("setuptools")
    folder = tmp_path_factory.mktemp("sdist")
    shutil.copytree(ROOT, folder / "clone", ignore=LEFT_BEHIND)
    (folder / "clone" / "build" / "cython").mkdir(parents=True)
    subprocess.run([sys.executable, "-c", SDIST, str(folder)], cwd=folder / "clone", capture_output=True, check=True)
    [made] = folder.glob("*.tar.gz")
    return made


def sources_of(folder: Path) -> set[str]:
    return {str(file.relative_to(ROOT)) for file in folder.rglob("*") if file.suffix in SOURCES - {".c"}}


def test_a_source_archive_holds_all_that_is_compiled(archive: Path) -> None:
    with tarfile.open(archive) as tar:
        names = {name.partition("/")[2] for name in tar.getnames()}
    wanted = sources_of(ROOT / "src_cython")
    assert len(wanted) > 80
    assert wanted <= names
    python = {str(file.relative_to(ROOT)) for file in (ROOT / "poplibs_py").rglob("*.py*") if file.suffix != ".pyc"}
    assert python <= names
    assert {"setup.py", "pyproject.toml", "README.md", "LICENSE", "conftest.py", "tests/test_packaging.py"} <= names
    built = [name for name in names if Path(name).suffix in (".c", ".so", ".pyc")]
    assert built == ["tests/simd/worst_errors.c"]  # written by hand


def test_the_package_has_no_sources_in_its_folder() -> None:
    assert not sources_of(ROOT / "poplibs_py")


@pytest.mark.nightly
@pytest.mark.timeout(1800)
def test_a_wheel_is_built_from_the_archive_and_holds_no_sources(archive: Path, tmp_path: Path) -> None:
    """Of one family of kernels, for speed; pip makes the environment for it."""
    fewer = {**os.environ, "POPLIBS_BUILD_ONLY": "peak_*,_*"}
    subprocess.run([sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", str(tmp_path), str(archive)],
                   env=fewer, capture_output=True, check=True)
    [wheel] = tmp_path.glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    assert any(Path(name).name.startswith("_executor.") for name in names)
    assert any(Path(name).name.startswith("peak_portable.") for name in names)
    suffixes = {Path(name).suffix for name in names if name.startswith("poplibs_py/")}
    assert suffixes <= {".py", ".pyi", ".typed", ".so", ".json"}


def importing(folder: Path) -> str:
    """What Python says when it is started in a folder and imports the package."""
    ran = subprocess.run([sys.executable, "-c", "import poplibs_py"], cwd=folder, capture_output=True, text=True,
                         env={name: value for name, value in os.environ.items() if name != "PYTHONPATH"}, check=False)
    assert ran.returncode == 1
    return ran.stderr.strip().splitlines()[-1]


def test_a_source_folder_that_was_not_built_says_what_to_do(tmp_path: Path) -> None:
    package = Path(poplibs_py.__file__).parent
    shutil.copytree(package, tmp_path / "poplibs_py", ignore=LEFT_BEHIND)
    alone = importing(tmp_path)
    beginning = f"poplibs_py.errors.NotBuiltError: {tmp_path}/poplibs_py has no compiled modules for this Python ("
    assert alone.startswith(beginning)
    assert re.fullmatch(r"poplibs_py\.\S+ is missing\)\. The installation is not complete: install poplibs_py again\.",
                        alone.removeprefix(beginning))
    (tmp_path / "setup.py").write_text("")
    beside = importing(tmp_path)
    assert f": python -m pip install -e {tmp_path}; to use" in beside
    assert beside.endswith("to use an installed package, start Python in another folder.")


def test_what_else_is_missing_is_named_as_it_is(tmp_path: Path) -> None:
    shutil.copytree(Path(poplibs_py.__file__).parent, tmp_path / "poplibs_py", ignore=LEFT_BEHIND)
    (tmp_path / "poplibs_py" / "lazy.py").write_text("import nothing_of_this_name\n")
    assert importing(tmp_path) == "ModuleNotFoundError: No module named 'nothing_of_this_name'"
