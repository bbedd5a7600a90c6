"""An attack on the public surface: drawn calls with odd arguments, in a process of their own that may crash or hang.

Run by itself it makes as many calls as it is asked for and prints what they led to::

    python tests/stress/attack.py --calls 100000 --seed 1

A call is told by its seed and number, and made again by ``--only``.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import json
import mmap
import os
import re
import resource
import shutil
import struct
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

SECONDS = 10  # of CPU and, where others take the CPU, six times as long
MEMORY = 4 << 30
_SIGNATURE = re.compile(r"(missing|takes|unexpected keyword|got multiple values|required positional|positional-only|"
                        r"at (most|least) \w+ arguments?|unsupported operand|no (default )?__reduce__)", re.IGNORECASE)
_CLEAR = re.compile(r"\S+: got .*; allowed: .*\S|^\w+\(\): .*argument", re.DOTALL)
_WORKER = struct.Struct("qdd")  # the call under way, when it began by the clock, and by the CPU


# Drawing a call ------------------------------------------------------------------------------------


def drawn(door: Any, r: Random) -> tuple[list[Any], dict[str, Any]]:
    """Arguments for a public callable: each makes sense or is nonsense, and now and then one is missing or too many."""
    from attack_values import GOOD, nonsense

    bad = r.choice([0.0, 0.2, 0.2, 0.5, 1.0])
    positional: list[Any] = []
    named: dict[str, Any] = {}

    def value(name: str) -> Any:
        make = GOOD.get(name)
        return make(r) if make is not None and r.random() >= bad else nonsense(r)

    for parameter in door.parameters.values():
        needed = parameter.default is parameter.empty
        if parameter.kind is parameter.VAR_POSITIONAL:
            positional += [value(parameter.name) for _ in range(r.randrange(3))]
        elif parameter.kind is not parameter.VAR_KEYWORD and (needed or r.random() < 0.25):
            if parameter.kind is parameter.POSITIONAL_ONLY:
                positional.append(value(parameter.name))
            else:
                named[parameter.name] = value(parameter.name)
    if named and r.random() < 0.01:
        named.pop(r.choice(sorted(named)))
    return positional, named


_OPERATORS = ("__getitem__", "__matmul__", "__rmatmul__", "__add__", "__radd__", "__sub__", "__mul__", "__rmul__",
              "__truediv__", "__pow__", "__eq__", "__ne__", "__contains__", "__array__", "__setattr__",
              "__setitem__")  # fmt: skip


def _own(owner: Any, name: str) -> bool:
    """Whether an object's class, not one of Python's that it derives from, answers to an operator."""
    return any(name in vars(kind) for kind in type(owner).__mro__ if kind.__module__.startswith("poplibs_py"))


def changed_plan(r: Random) -> tuple[str, Any, list[Any], dict[str, Any]]:
    """What is done with a plan of which a field was replaced by nonsense."""
    import dataclasses

    from attack_values import PLANS, kept, nonsense

    plan = kept(r.choice(PLANS))
    field = r.choice([f.name for f in dataclasses.fields(plan) if f.init])
    value = nonsense(r)
    use = r.choice([str, lambda p: p.explain(), lambda p: p.to_json(), lambda p: p.summary, compiled, hash,
                    lambda p: p.compare(p), lambda p: p.fits])

    def replaced_plan(**fields: Any) -> Any:
        made = dataclasses.replace(plan, **fields)
        return use(made) if use in (str, hash, compiled) or hasattr(made, use.__code__.co_names[0]) else None

    return f"{type(plan).__name__} replaced", replaced_plan, [], {field: value}


def compiled(plan: Any) -> Any:
    """A plan compiled for the op that it might be of."""
    from poplibs_py import poplin, popsparse
    from poplibs_py.popsparse import static

    makers = {"SparsePlan": static.compile_sparse_dense_matmul, "SddmmPlan": static.compile_sparse_grad_w,
              "SoftmaxPlan": popsparse.compile_bs_softmax}
    return makers.get(type(plan).__name__, poplin.compile_matmul)(plan)


def calls(seed: int) -> Any:
    """A function from a call's number to what is called: its name, and a function of nothing."""
    from attack_values import GOOD, OWNERS, nonsense
    from cases import OPS, OWN
    from surface import doors

    def owner_of(door: Any, r: Random) -> Any:
        for name in (door.name.rpartition(".")[0], door.owner.__name__):
            owner = OWNERS[name](r) if name in OWNERS else None
            if isinstance(owner, door.owner):
                return owner
        return None

    every = sorted((d for d in doors() if d.owner is None or owner_of(d, Random(1)) is not None), key=lambda d: d.name)
    answering = [name for name in sorted(OWNERS) if any(_own(OWNERS[name](Random(1)), o) for o in _OPERATORS)]

    def call(number: int) -> tuple[str, Any, list[Any], dict[str, Any]]:
        r = Random(seed * 1_000_003 + number)
        kind = r.random()
        if kind < 0.35:
            case = r.choice(r.choice([OPS, OWN]))
            named = case.make()
            for name in r.sample(sorted(named), min(len(named), r.choice([1, 1, 2, 3]))):
                if name != "owner":
                    named[name] = GOOD[name](r) if name in GOOD and r.random() < 0.3 else nonsense(r)
            return f"case {case}", case.function, [], named
        if kind < 0.42:
            owner = OWNERS[r.choice(answering)](r)
            name = r.choice([name for name in _OPERATORS if _own(owner, name)])
            arguments = [r.choice(["shape", "x", "blocks"]), nonsense(r)] if name == "__setattr__" else [nonsense(r)]
            if name == "__setitem__":
                arguments.append(nonsense(r))
            return f"{type(owner).__name__}.{name}", getattr(owner, name), arguments[:0
                                                                                     if name == "__array__" else 2], {}
        if kind < 0.46:
            return changed_plan(r)
        door = every[number % len(every)] if kind < 0.8 else r.choice(every)
        positional, named = drawn(door, r)
        if door.owner is None:
            return door.name, door.function, positional, named
        return door.name, door.function, [owner_of(door, r), *positional], named

    return call


# Making a call -------------------------------------------------------------------------------------


def outcome(name: str, function: Any, positional: list[Any], named: dict[str, Any]) -> tuple[str, str]:
    """Make a call; return what came of it in a word, and what there is to say if it is no good word."""
    from hostile import snapshot

    held = {str(i): value for i, value in enumerate(positional)} | named
    try:
        before = snapshot(held)
    except Exception:  # of an object that raises whatever it is asked
        held, before = {}, []
    try:
        made = function(*positional, **named)
        if isinstance(made, Iterator):
            for _ in zip(range(3), made, strict=False):
                pass
        return "served", ""
    except BaseException as error:
        word, told = judged(name, error)
    if word != "unnamed" and held and not re.search("in_place|update|__set", name) and snapshot(held) != before:
        return "changed", f"{name}: refused, and an operand changed: {told}"
    return word, told


def judged(name: str, error: BaseException) -> tuple[str, str]:
    """What an error is: a refusal that is clear, a wrong signature, no memory, or one that names nothing."""
    from poplibs_py.errors import InvalidArgumentError, InvalidTypeError, PoplibsError

    text = str(error)
    if isinstance(error, PoplibsError):
        vague = isinstance(error, (InvalidArgumentError, InvalidTypeError)) and not _CLEAR.search(text)
        return ("unnamed", f"vague: {type(error).__name__}: {text[:200]}") if vague else ("refused", text[:200])
    if isinstance(error, MemoryError):
        return "no memory", f"{name}: {text[:200]}"
    frames = traceback.extract_tb(error.__traceback__)
    inside = [f for f in frames if "poplibs_py" in f.filename or f.filename.endswith((".pyx", ".pxi"))]
    own = [f for f in inside if not f.filename.endswith("calls.pxi")]  # where a face reads its arguments
    if isinstance(error, TypeError) and _SIGNATURE.search(text) and len(own) <= 1:
        return "wrong call", text[:100]
    if isinstance(error, AssertionError) and ".assert_" in name:
        return "assertion", ""
    if isinstance(error, OSError) and error.filename is not None:
        return "file", text[:100]
    if isinstance(error, (AttributeError, TypeError)) and ("__" in name) and not inside:
        return "wrong call", text[:100]
    where = f"{os.path.basename(inside[-1].filename)}:{inside[-1].lineno}" if inside else "outside"
    return "unnamed", f"{type(error).__name__}: {text[:150]} at {where}"


def work(seed: int, first: int, last: int, state: Path, told: Path) -> None:
    """Make the calls from `first` on, and write after each what it led to; what is under way stands in `state`."""
    import poplibs_py.report.peers as peers

    peers.installed()
    call = calls(seed)
    for warm in range(1, 60):  # packages that calls import are there before memory has an end
        with contextlib.suppress(Exception):
            outcome(*call(-warm))
    warnings.simplefilter("ignore")
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    with open(state, "r+b") as file, open(told, "a") as out:
        shared = mmap.mmap(file.fileno(), _WORKER.size)
        for number in range(first, last):
            try:
                name, function, positional, named = call(number)
            except Exception as error:  # NumPy's or SciPy's own, of what it will not even describe
                out.write(json.dumps([number, "", "not drawn", repr(error)[:200], 0.0]) + "\n")
                continue
            began = time.process_time()
            shared[:] = _WORKER.pack(number, time.time(), began)
            word, said = outcome(name, function, positional, named)
            took = round(time.process_time() - began, 3)
            out.write(json.dumps([number, name, word, said, took]) + "\n")
            out.flush()


# Watching the worker -------------------------------------------------------------------------------


@dataclass
class Result:
    """What an attack led to."""

    words: collections.Counter[str] = field(default_factory=collections.Counter)
    bad: list[str] = field(default_factory=list)
    slow: list[tuple[float, str]] = field(default_factory=list)

    def take(self, number: int, name: str, word: str, said: str, took: float) -> None:
        """Count one call."""
        self.words[word] += 1
        if word in ("unnamed", "changed", "crash", "hang"):
            self.bad.append(f"{number} {name}: {word} {said}")
        if took > 2:
            self.slow.append((took, f"{number} {name}: {word}"))

    def __str__(self) -> str:
        counts = ", ".join(f"{word} {count:,}" for word, count in self.words.most_common())
        lines = [f"{sum(self.words.values()):,} calls: {counts}"]
        lines += [f"{took:.1f} s  {name}" for took, name in sorted(self.slow, reverse=True)[:20]]
        return "\n".join([*lines, *self.bad])


def attack(seed: int, count: int, first: int = 0, told: Path | None = None) -> Result:
    """Make `count` calls in processes that are begun again after each crash and each hang."""
    folder = Path(tempfile.mkdtemp(prefix="poplibs-attack-"))
    state, told = folder / "state", told or folder / "told"
    result, at, last, place = Result(), first, first + count, 0
    told.write_text("")
    try:
        while at < last:
            state.write_bytes(_WORKER.pack(-1, time.time(), 0.0))
            with open(folder / "errors", "wb") as errors:
                worker = subprocess.Popen(
                    [sys.executable, __file__, "--work", str(seed), str(at), str(last), str(state), str(told)],
                    stdout=subprocess.DEVNULL, stderr=errors, cwd=folder,
                    env=os.environ | {"POPLIBS_NUM_THREADS": "2", "MPLBACKEND": "agg"})  # fmt: skip
                hung = watched(worker, state)
            with open(told) as file:
                file.seek(place)
                for line in file:
                    number, *rest = json.loads(line)
                    result.take(number, *rest)
                    at = number + 1
                place = file.tell()
            if at < last:
                if _WORKER.unpack(state.read_bytes())[0] < 0:
                    raise RuntimeError((folder / "errors").read_text(errors="replace")[-2000:])
                why = "hang" if hung else "crash"
                said = "" if hung else f"{worker.returncode} {(folder / 'errors').read_text(errors='replace')[-300:]}"
                result.take(at, "", why, said, 0.0)
                at += 1
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return result


def watched(worker: subprocess.Popen[bytes], state: Path) -> bool:
    """Wait for a worker; end it, and say so, where one call takes too long."""
    while True:
        try:
            worker.wait(0.5)
            return False
        except subprocess.TimeoutExpired:
            number, began, cpu = _WORKER.unpack(state.read_bytes())
            used = _cpu_of(worker.pid) - cpu
            if number >= 0 and (used > SECONDS or time.time() - began > 6 * SECONDS):
                worker.kill()
                worker.wait()
                return True


def _cpu_of(pid: int) -> float:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calls", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--only", type=int, help="make this call alone, here, and show it")
    parser.add_argument("--told", type=Path, help="keep one line of JSON for each call here")
    parser.add_argument("--work", nargs=5, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.work:
        seed, first, last, state, told = given.work
        work(int(seed), int(first), int(last), Path(state), Path(told))
    elif given.only is not None:
        name, function, positional, named = calls(given.seed)(given.only)
        print(name, positional, named)
        function(*positional, **named)
    else:
        print(attack(given.seed, given.calls, given.first, given.told))


if __name__ == "__main__":
    main()
