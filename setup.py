"""The build: one table of extension modules, and one module per kernel family and instruction-set level.

Environment: ``POPLIBS_BUILD_DEBUG=1`` turns on bounds checks, ``POPLIBS_BUILD_SANITIZE=address,undefined`` builds with
those sanitizers, ``POPLIBS_BUILD_EMULATED_AMX=1`` adds the AMX kernels on software tiles and
``POPLIBS_BUILD_EMULATED_AVX512=1`` builds those of AVX-512 with loops in place of its instructions (for tests on
machines without them), ``POPLIBS_BUILD_SMALL_CACHES=1`` has small arrays take the ways of those that pass the caches
(for tests), ``POPLIBS_BUILD_ONLY='dot_*,cast_avx2,_records'`` builds the modules of these names alone (the
last parts of their names, each a pattern), ``POPLIBS_BUILD_WERROR=1`` takes the compiler's warnings for errors.
"""

from __future__ import annotations

import hashlib
import json
import keyword
import multiprocessing
import os
import platform
import re
import runpy
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from pathlib import Path

import Cython
import numpy
from Cython.Build import cythonize
from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

SOURCES = Path("src_cython")
GENERATED = Path("build") / "generated"
TRANSLATED = Path("build") / "cython"

DEBUG = os.environ.get("POPLIBS_BUILD_DEBUG") == "1"
SANITIZE = os.environ.get("POPLIBS_BUILD_SANITIZE", "")
CORES = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
COMMON_FLAGS = [
    "-g1" if (DEBUG or SANITIZE) else "-g0",
    "-std=gnu11",
    "-fno-math-errno",
    "-fno-trapping-math",
    "-ffp-contract=off",
    "-fvisibility=hidden",
    "-Wall",
    "-Wno-unused-function",
    "-Wno-psabi",
]
if os.environ.get("POPLIBS_BUILD_WERROR") == "1":
    COMMON_FLAGS.append("-Werror")
if os.environ.get("POPLIBS_BUILD_SMALL_CACHES") == "1":
    COMMON_FLAGS.append("-DPOP_SMALL_CACHES")
LINK_FLAGS: list[str] = []
if SANITIZE:
    COMMON_FLAGS += [f"-fsanitize={SANITIZE}", "-fno-omit-frame-pointer"]
    LINK_FLAGS += [f"-fsanitize={SANITIZE}"]
    if "undefined" in SANITIZE:
        COMMON_FLAGS += ["-fno-sanitize-recover=undefined"]


def refusal(flags: Sequence[str]) -> str:
    """Return what the compiler says against flags, or nothing where it takes them."""
    if not flags:
        return ""
    with tempfile.TemporaryDirectory() as folder:
        probe = Path(folder) / "probe.c"
        probe.write_text("#include <immintrin.h>\nint main(void) { return 0; }\n")
        compiler = shlex.split(os.environ.get("CC", "cc"))
        command = [*compiler, *flags, "-c", str(probe), "-o", str(probe.with_suffix(".o"))]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode == 0:
        return ""
    return next(iter(done.stderr.strip().splitlines()), f"{compiler[0]} failed")


# Records of some hundred bytes are cleared by vectors: rep stos, which GCC takes by itself, begins after thirty cycles.
CLEARING = ["-mmemset-strategy=vector_loop:2048:noalign,libcall:-1:noalign"]
COMMON_FLAGS += [] if refusal(CLEARING) else CLEARING


@dataclass(frozen=True)
class Level:
    """One instruction-set level: its number, and the compiler flags that allow it."""

    name: str
    number: int
    flags: tuple[str, ...] = ()
    macros: tuple[tuple[str, str], ...] = ()
    suffix: str = ""
    """What its modules' names have behind the level's."""
    quickly: bool = False
    """Compiled for tests alone."""


LEVEL_LINES = re.findall(r'^ +X\((\w+), "(\w+)", "([^"]*)",', (SOURCES / "cpu" / "levels.def").read_text(), re.M)
LEVEL_NUMBERS = tuple((f"POP_LEVEL_{constant}", str(number)) for number, (constant, *_) in enumerate(LEVEL_LINES))


def levels_of_machine() -> list[Level]:
    """Return the levels of levels.def that this kind of CPU can have, in test builds emulated ones too."""
    found: list[Level] = []
    for number, (_, name, flags) in enumerate(LEVEL_LINES):
        found.append(Level(name, number, (*(found[-1].flags if found else ()), *flags.split())))
    if platform.machine() not in ("x86_64", "AMD64"):
        return found[:1]
    avx2, amx = (next(level.number for level in found if level.name == name) for name in ("avx2", "amx"))
    if os.environ.get("POPLIBS_BUILD_EMULATED_AVX512") == "1":
        loops = {"flags": (*found[avx2].flags, f"-I{SOURCES / 'emulated'}"), "quickly": True,
                 "macros": (("POP_EMULATE_AVX512", "1"),), "suffix": "_in_loops"}
        found[avx2 + 1:] = [replace(level, **loops) for level in found[avx2 + 1:amx]]
    if os.environ.get("POPLIBS_BUILD_EMULATED_AMX") == "1":
        below = found[amx - 1]
        macros = (("POP_EMULATE_AMX", "1"), *below.macros)
        found.append(Level("amx_emulated", amx, below.flags, macros, below.suffix, below.quickly))
    return found


LEVELS = levels_of_machine()


@dataclass(frozen=True)
class Family:
    """A kernel family: the folder ``src_cython/kernels/<name>`` and the levels it has bodies for.

    Its header registers its kernels in ``POP_<NAME>_KERNELS``; one with bodies in Cython has a ``<name>.pxi`` besides.
    A driver that is C stands in ``src_cython/drivers`` and is built as a family is, at the portable level.
    """

    name: str
    levels: tuple[str, ...] = field(default_factory=lambda: tuple(level.name for level in LEVELS))
    header: str = ""

    @property
    def source(self) -> str:
        """The text of its module."""
        own = f"kernels/{self.name}/{self.name}.pxi"
        if (SOURCES / own).exists():
            return f'include "{own}"\n'
        return KERNELS.format(header=self.header or f"kernels/{self.name}/{self.name}.h",
                              table=f"POP_{self.name.upper()}_KERNELS")


KERNELS = '''\
from kernels.abi cimport pop_kernel, pop_kernel_row

cdef extern from "{header}" nogil:
    const pop_kernel TABLE "{table}" []
    size_t COUNT "(sizeof {table} / sizeof *{table})"


def kernels():
    """The registry's rows of this module."""
    return [pop_kernel_row(&TABLE[i]) for i in range(COUNT)]
'''


FAMILIES: list[Family] = [
    Family("attention", ("portable", "avx2", "avx512", "avx512_bf16")),
    Family("cast", ("portable", "avx2", "avx512", "avx512_bf16"), "kernels/cast/kernels.h"),
    Family("cells", ("portable", "avx2", "avx512")),
    Family("conv", ("portable", "avx2", "avx512", "avx512_bf16")),
    Family("ctc", ("portable", "avx2", "avx512")),
    Family("dot"),
    Family("elementwise", ("portable", "avx2", "avx512")),
    Family("factor", ("portable", "avx2", "avx512")),
    Family("peak"),
    Family("pool", ("portable", "avx2", "avx512")),
    Family("random", ("portable", "avx2", "avx512")),
    Family("rearrange", ("portable", "avx2", "avx512")),
    Family("reduce", ("portable", "avx2", "avx512")),
    Family("slices", ("portable", "avx2", "avx512")),
    Family("sort", ("portable", "avx2", "avx512")),
    Family("rows", ("portable", "avx2", "avx512", "avx512_bf16")),
    Family("softmax", ("portable", "avx2", "avx512")),
    Family("sparse"),
    Family("strided", ("portable",), "drivers/strided_walk.h"),
]

# Modules without an instruction-set level: source below src_cython -> module.
PLAIN = {
    "cpu/_cpu.pyx": "poplibs_py.kernels._cpu",
    "planner/_search.pyx": "poplibs_py.planner._search",
    "planner/conv/_model.pyx": "poplibs_py.poplin.tile_conv._model",
    "planner/fully_connected/_model.pyx": "poplibs_py.popsparse.fully_connected._model",
    "drivers/_chains.pyx": "poplibs_py.popops._chains",
    "drivers/_conv.pyx": "poplibs_py.poplin.conv._conv",
    "drivers/_gemm.pyx": "poplibs_py.poplin.gemm._gemm",
    "drivers/_overlap.pyx": "poplibs_py.poplin.conv._overlap",
    "drivers/_partials.pyx": "poplibs_py.poplin.tile_conv._partials",
    "drivers/_tiles.pyx": "poplibs_py.popsparse._tiles",
    "program/_executor.pyx": "poplibs_py.program._executor",
    "random/_generator.pyx": "poplibs_py.poprand._generator",
    "random/_stream.pyx": "poplibs_py.poprand._stream",
    "random/_workers.pyx": "poplibs_py.poprand._workers",
    "records/_records.pyx": "poplibs_py.kernels._records",
    "popsparse/_pattern.pyx": "poplibs_py.popsparse._pattern",
    "popsparse/_partitioner.pyx": "poplibs_py.popsparse.partitioner._buckets",
    "popsparse/_static_search.pyx": "poplibs_py.popsparse.static_matmul._search",
    "popsparse/_text.pyx": "poplibs_py.popsparse._text",
    "popsparse/_transpose.pyx": "poplibs_py.popsparse._transpose",
    "torch/_dlpack.pyx": "poplibs_py.torch._dlpack",
}


def extension(module: str, source: Path, level: Level, macros: tuple[tuple[str, str], ...] = (),
              headers: tuple[str, ...] = ("**/*.h",), optimize: str = "-O3") -> Extension:
    """Describe one extension module of a level with the flags that all of them share.

    Below -O3 GCC does not see that what is used in one branch was set in the same one before.
    """
    flags = ["-O1" if SANITIZE else optimize, *([] if optimize == "-O3" else ["-Wno-maybe-uninitialized"])]
    return Extension(
        module,
        [str(source)],
        include_dirs=[str(SOURCES), str(GENERATED), numpy.get_include()],
        define_macros=[("NPY_NO_DEPRECATED_API", "NPY_2_0_API_VERSION"), *LEVEL_NUMBERS,
                       ("POP_LEVEL", str(level.number)), *level.macros, *macros],
        extra_compile_args=[*COMMON_FLAGS, *level.flags, *flags],
        extra_link_args=LINK_FLAGS,
        libraries=["m", "pthread"],
        depends=[str(header) for root in (SOURCES, GENERATED) for pattern in (*headers, "**/*.def", "*.h")
                 for header in root.glob(pattern)],
    )


TILE_HEADERS = ("kernels/**/*.h", "drivers/*.h", "simd/*.h", "emulated/*.h", "formats/*.h", "records/*.h")

RECORD_LINES = re.compile(r"^ *#include \"(records/\w+\.def)\"|\b(RECORD|FIELD|ARRAY|POINTER|VALUE)\(([^)]*)\)", re.M)


def record_declarations(path: Path) -> list[str]:
    """Cython's declarations of a list of records or choices, from the list's own lines: see records/structs.h."""
    found: list[str] = []
    for included, kind, inside in RECORD_LINES.findall(path.read_text()):
        if included:
            found += record_declarations(SOURCES / included)
            continue
        first, name, count = [*(word.strip() for word in inside.split(",")), "", ""][:3]
        python_name = f'{name}_ "{name}"' if keyword.iskeyword(name) else name
        if kind == "RECORD":
            found.append(f"    ctypedef struct {first}:")
        elif kind == "VALUE":
            found.append(f"    int {first}")
        elif kind == "POINTER" and not first.endswith("*"):  # to a function: who calls it casts it
            found.append(f"        void *{python_name}")
        else:
            found.append(f"        {first} {python_name}" + (f"[{count}]" if count else ""))
    return found


def declare_records() -> None:
    """Write `pop_records.pxd`. It names no header: who cimports a record includes the one that expands its list."""
    lines = ["from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t", "", "cdef extern from * nogil:"]
    for name in ("enums", "all"):
        lines += record_declarations(SOURCES / "records" / f"{name}.def")
    write_if_changed(GENERATED / "pop_records.pxd", "\n".join(lines) + "\n")


def write_if_changed(path: Path, text: str) -> None:
    """Write a generated file, unless it says so already: what includes it is then not built again."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists() or path.read_text() != text:
        path.write_text(text)


def tile_extensions(levels: list[Level]) -> list[Extension]:
    """One module per family and level, all from the family's one source.

    The portable level of a kind of CPU that has others serves those of before 2013, and tests: it is compiled with less
    optimization, in half the time.
    """
    found = []
    for level in levels:
        for family in FAMILIES:
            if level.name not in family.levels:
                continue
            name = f"{family.name}_{level.name}{level.suffix}"
            stub = GENERATED / f"{name}.pyx"
            write_if_changed(stub, family.source)
            others = set(family.levels) & {other.name for other in LEVELS[1:]}
            quickly = level.quickly or (level is LEVELS[0] and others)
            found.append(extension(f"poplibs_py.kernels._tiles.{name}", stub, level, headers=TILE_HEADERS,
                                   optimize="-O1" if quickly else "-O3"))
    return found


def wanted(extensions: list[Extension]) -> list[Extension]:
    """Return the modules that POPLIBS_BUILD_ONLY names, or all."""
    patterns = os.environ.get("POPLIBS_BUILD_ONLY", "*").split(",")
    return [e for e in extensions if any(fnmatchcase(e.name.rpartition(".")[2], pattern) for pattern in patterns)]


def translate(extensions: list[Extension]) -> list[Extension]:
    """Translate the modules to C, unless that was done before and nothing has changed since.

    Cython compares times, NumPy's files with ours: they are new in each environment that pip makes for a build.
    """
    facts = [Cython.__version__, numpy.__version__, DIRECTIVES, COMMON_FLAGS, LINK_FLAGS, os.environ.get("CC")]
    sources = hashlib.sha256()
    for file in sorted(f for root in (SOURCES, GENERATED) for f in root.rglob("*")
                       if f.suffix in (".pyx", ".pxi", ".pxd", ".def")):
        sources.update(f"{file} ".encode() + file.read_bytes())
    done = {"facts": json.loads(json.dumps(facts)), "sources": sources.hexdigest()}
    stamp = TRANSLATED / "done.json"
    before = json.loads(stamp.read_text()) if stamp.exists() else {}
    modules = [[TRANSLATED / Path(source).with_suffix(".c") for source in e.sources] for e in extensions]
    if before == done and all(c.exists() for files in modules for c in files):
        for e, files in zip(extensions, modules, strict=True):
            e.sources = [str(c) for c in files]
        return extensions
    made: list[Extension] = cythonize(
        extensions, include_path=[str(SOURCES), str(GENERATED)], compiler_directives=DIRECTIVES, quiet=True,
        build_dir=str(TRANSLATED), force=bool(before) and before["facts"] != done["facts"],
        nthreads=CORES if multiprocessing.get_start_method() == "fork" else 0,  # else each would run this file
    )  # fmt: skip
    if "POPLIBS_BUILD_ONLY" not in os.environ:  # other modules may be as they were before
        stamp.write_text(json.dumps(done))
    return made


class Build(build_ext):
    """Build as many modules at a time as there are cores, and leave word of the levels that were left out.

    pip shows nothing of a build that succeeds; ``poplibs-py info`` reads `LEFT_OUT`. What is built in place stays in
    ``build`` too, where setuptools would take a folder of the moment, so that the next time only what changed is built.
    """

    def finalize_options(self) -> None:
        super().finalize_options()
        if self.editable_mode:
            kind = f"in_place-{self.plat_name}-{sys.implementation.cache_tag}"
            self.build_lib, self.build_temp = (str(Path("build") / f"{part}.{kind}") for part in ("lib", "temp"))
        if self.parallel is None:
            self.parallel = CORES

    def run(self) -> None:
        super().run()
        folder = Path(self.get_ext_fullpath("poplibs_py.kernels._tiles.any")).parent
        (folder / LEFT_OUT).write_text(json.dumps(REFUSALS, indent=1) + "\n")


LEFT_OUT = "left_out.json"
REFUSALS = {level.name: said for level in LEVELS if (said := refusal(level.flags))}
for name, said in REFUSALS.items():
    print(f"poplibs_py: the compiler cannot build level {name}; it is left out: {said}", file=sys.stderr)

DIRECTIVES = {
    "language_level": "3",
    "boundscheck": DEBUG,
    "wraparound": False,
    "initializedcheck": DEBUG,
    "cdivision": True,
    "freethreading_compatible": True,
}

# NumPy's memory handlers (NEP 49) are no part of the interface that it shows by default.
PLAIN_MACROS = (("NPY_TARGET_VERSION", "NPY_2_0_API_VERSION"),)

declare_records()
write_if_changed(GENERATED / "aox_powers.h", runpy.run_path(str(SOURCES / "kernels/random/make_powers.py"))["powers"]())
setup(
    ext_modules=translate(wanted(
        [extension(module, SOURCES / source, LEVELS[0], PLAIN_MACROS,
                   optimize="-O3" if source.startswith("drivers/") else "-O2") for source, module in PLAIN.items()]
        + tile_extensions([level for level in LEVELS if level.name not in REFUSALS])
    )),
    cmdclass={"build_ext": Build},
)
