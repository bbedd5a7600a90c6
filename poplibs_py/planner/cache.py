"""Plans that were made before: in memory, and in a directory that processes may share."""

from __future__ import annotations

import contextlib
import hashlib
import os
import threading
from collections.abc import Callable, Hashable
from pathlib import Path
from typing import Generic, TypeVar

from ..checks import instance
from ..errors import bad_argument, bad_type
from ..files import replacing

P = TypeVar("P")

_FORMAT = "3"  # of the files; a change makes old files invisible


class PlanCache(Generic[P]):
    """Plans by problem. Safe for threads; with a directory, for processes too.

    Corresponds to PopLibs' ``PlanningCache``, which has no directory.

    Parameters
    ----------
    directory : path, optional
        Where plans are also kept, one file each: a checksum of problem and plan, then the plan. A file is
        written under another name and then renamed, so a reader sees a whole plan or none; two processes
        that plan the same problem write the same file. One that was damaged or edited is not believed: the
        problem is planned again. The checksum is no signature; keep the directory where only you can write.
    write, read : callable, optional
        Plan to text and back; needed with a directory.

    Examples
    --------
    >>> from poplibs_py.planner import PlanCache
    >>> cache = PlanCache()
    >>> cache.get_or_plan("problem", lambda: "plan"), len(cache)
    ('plan', 1)
    """

    def __init__(self, directory: str | os.PathLike[str] | None = None, *, write: Callable[[P], str] | None = None,
                 read: Callable[[str], P] | None = None) -> None:
        self._plans: dict[Hashable, P] = {}
        self._lock = threading.Lock()
        for name, function in (("write", write), ("read", read)):
            if not (function is None or callable(function)):
                raise bad_type(name, function, "a function or None")
        self._write, self._read = write, read
        if not (directory is None or isinstance(directory, (str, os.PathLike))):
            raise bad_type("directory", directory, "a path or None")
        self.directory = None if directory is None else Path(directory)
        if self.directory is not None:
            try:
                self.directory.mkdir(parents=True, exist_ok=True)
            except (OSError, ValueError) as error:  # a null byte
                raise bad_argument("directory", str(directory), f"a folder that can be made ({error})") from None

    def __len__(self) -> int:
        return len(self._plans)

    def clear(self) -> None:
        """Forget the plans in memory; files stay."""
        with self._lock:
            self._plans.clear()

    def get(self, key: Hashable) -> P | None:
        """The plan in memory, or None."""
        return self._plans.get(_hashable(key))

    def get_or_plan(self, key: Hashable, make: Callable[[], P], text_key: Callable[[], str] | None = None) -> P:
        """The plan of `key`: from memory, from the directory, or made by `make` and kept.

        Threads that ask at once may all plan; all get the one that was kept.
        """
        plan = self._plans.get(_hashable(key))
        if plan is not None:
            return plan
        if not callable(make):
            raise bad_type("make", make, "a function that makes the plan")
        text = _text_of(key, text_key)
        plan = self._load(text)
        if plan is None:
            plan = make()
            self._store(text, plan)
        with self._lock:
            return self._plans.setdefault(key, plan)

    def put(self, key: Hashable, plan: P, text_key: Callable[[], str] | None = None) -> P:
        """Keep a plan that was made elsewhere; returns the one that is kept."""
        self._store(_text_of(_hashable(key), text_key), plan)
        with self._lock:
            return self._plans.setdefault(key, plan)

    # Files -----------------------------------------------------------------------------------------

    def _path(self, problem: str) -> Path | None:
        return None if self.directory is None else self.directory / (_digest(problem) + ".plan")

    def _load(self, problem: str) -> P | None:
        path = self._path(problem)
        if path is None or self._read is None:
            return None
        try:
            checksum, _, text = path.read_text().partition("\n")
            return self._read(text) if checksum == _digest(problem, text) else None
        except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError):
            return None  # absent, or not a plan: plan again and overwrite it

    def _store(self, problem: str, plan: P) -> None:
        path = self._path(problem)
        if path is None or self._write is None:
            return
        text = self._write(plan)
        # a full or read-only directory costs speed, not the plan
        with contextlib.suppress(OSError), replacing(path) as file:
            file.write(f"{_digest(problem, text)}\n{text}".encode())


def _hashable(key: Hashable) -> Hashable:
    try:
        hash(key)
    except Exception:  # whatever an object of somebody else's raises
        raise bad_type("key", key, "what can be hashed") from None
    return key


def _text_of(key: Hashable, text_key: Callable[[], str] | None) -> str:
    if not (text_key is None or callable(text_key)):
        raise bad_type("text_key", text_key, "a function that returns a text, or None")
    text = repr(key) if text_key is None else text_key()
    instance("text_key", text, str, "a function that returns a text, or None")
    return text


def _digest(*texts: str) -> str:
    return hashlib.sha256("\0".join((_FORMAT, *texts)).encode()).hexdigest()
