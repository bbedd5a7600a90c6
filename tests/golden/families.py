"""Golden cases on disk: folders of files, each with the cases of a family, and who runs the families that are built."""

from __future__ import annotations

import json
import os
import zipfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]
Run = Callable[[Any], None]


@dataclass(frozen=True)
class Line:
    """A case on a line of its own in a ``.jsonl`` file.

    Attributes
    ----------
    family : str
        The file's name without its ending.
    number : int
        The line's, from 1.
    text : str
        What it holds.
    """

    family: str
    number: int
    text: str

    @property
    def fields(self) -> dict[str, Any]:
        """The line read as JSON."""
        return dict(json.loads(self.text))

    def __str__(self) -> str:
        try:
            fields = self.fields
        except ValueError:
            return f"{self.number}"
        return f"{self.number} {fields.get('spec') or fields.get('vertex') or ''}".strip()


@dataclass(frozen=True)
class Arrays:
    """A case of an ``.npz`` file: what it is, and arrays that are read when they are asked for.

    Attributes
    ----------
    path : Path
        The file.
    number : int
        The case's, from 0, as its arrays' names have it.
    spec : dict
        ``op``, ``function``, ``params``, ``inputs``, ``outputs`` and more.
    """

    path: Path
    number: int
    spec: dict[str, Any]

    @property
    def params(self) -> dict[str, Any]:
        """The op's parameters."""
        return dict(self.spec.get("params", {}))

    @property
    def exact(self) -> bool:
        """Whether every order of sums gives the golden numbers."""
        return bool(self.spec.get("exact"))

    def __getitem__(self, name: str) -> Any:
        return opened(self.path)[f"{self.number}.{name}"]

    def __str__(self) -> str:
        return f"{self.number} {self.spec.get('op', '')}".strip()


@lru_cache(1)
def opened(path: Path) -> Any:
    """A file of cases, which has thousands of entries to list; its family's cases follow one another."""
    return np.load(path, allow_pickle=False)  # it stays open: cases are read one by one


def folder(variable: str, name: str) -> Path:
    """The folder that a variable names, else the one of this name in the data beside the repository."""
    return Path(os.environ.get(variable) or ROOT.parent / "shared" / "data" / name)


def parameters(variable: str, name: str, ending: str, built: Mapping[str, Run]) -> list[Any]:
    """The ``(run, case)`` of every case of the families that are built; for each other family one that is skipped.

    Parameters
    ----------
    variable, name : str
        As for `folder`.
    ending : str
        ``".jsonl"`` or ``".npz"``.
    built : mapping
        From a family to what runs a case of it. A file is of the family of its name, or of the beginning of its name
        up to an underscore.
    """
    where = folder(variable, name)
    files = sorted(where.glob(f"*{ending}")) if where.is_dir() else []
    if not files:
        return [_skipped(name, f"no {name} cases: {variable} names their folder, by default {where}")]
    found = [case for file in files for case in _of_file(file, built)]
    present = {_family(file.stem, built) for file in files}
    return found + [_skipped(family, f"{family}: no cases here") for family in sorted(built.keys() - present)]


def _of_file(file: Path, built: Mapping[str, Run]) -> Iterator[Any]:
    family = _family(file.stem, built)
    try:
        cases = list(_cases(file))
    except (OSError, ValueError, KeyError, zipfile.BadZipFile) as error:
        yield pytest.param(_unreadable, f"{file}: {error}", id=f"{file.stem}-unreadable")
        return
    if family not in built:
        yield _skipped(file.stem, f"{file.stem}: not built yet ({len(cases)} cases)")
        return
    yield from (pytest.param(built[family], case, id=f"{file.stem}-{case}") for case in cases)


def _family(stem: str, built: Mapping[str, Run]) -> str:
    """The longest family that the name is or begins with; the name itself where there is none."""
    fitting = [family for family in built if stem == family or stem.startswith(f"{family}_")]
    return max(fitting, key=len, default=stem)


def _cases(file: Path) -> Iterator[Line | Arrays]:
    if file.suffix == ".npz":
        with np.load(file, allow_pickle=False) as arrays:
            specs = [json.loads(str(text)) for text in arrays["spec"]]
        yield from (Arrays(file, number, spec) for number, spec in enumerate(specs))
    else:
        lines = enumerate(file.read_text().splitlines(), 1)
        yield from (Line(file.stem, number, text) for number, text in lines if text.strip())


def _skipped(name: str, reason: str) -> Any:
    return pytest.param(None, None, marks=pytest.mark.skip(reason=reason), id=name)


def _unreadable(message: str) -> None:
    pytest.fail(message)
