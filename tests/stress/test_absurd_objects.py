"""What any public function of the planner, the reports and the testing tools says of objects that make no sense."""

from __future__ import annotations

import importlib
import inspect
import random
import warnings
from typing import get_origin

import numpy as np
import pytest
from surface import OF_REPORTS, REPORTS

from poplibs_py.errors import PoplibsError
from poplibs_py.report.peers import installed

_PACKAGES = ("planner", "testing", "testing.strategies", "testing.calls", "target", "formats", "poplin.tile_conv",
             "checkpoints", *REPORTS)  # fmt: skip
_CALLS = 60


def _absurd():
    """Objects that no argument is; functions among them accept anything, so that what fails is not theirs."""
    around: list[object] = []
    around.append(around)
    mapped: dict[str, object] = {}
    mapped["itself"] = mapped
    return [
        None, object(), "nonsense", "", "float16", b"x", 10**400, 2**63, -1, 0, 3, True, 1j, -0.5, float("nan"),
        float("inf"), np.float64("nan"), np.array([]), np.zeros((2, 2)), np.zeros((2, 2), object), np.zeros(3, complex),
        np.zeros((3, 3), "U3"), np.array("2020", "M8[s]"), np.zeros((2, 2), np.float32), around, mapped, [], (), {},
        [1, "a"], {1, 2}, iter(()), slice(None), ..., lambda *a, **k: None, type("Odd", (), {}),
    ]  # fmt: skip


def _public():
    """Every public function and class of these packages, with its name."""
    for package in _PACKAGES:
        module = importlib.import_module(f"poplibs_py.{package}")
        for name in getattr(module, "__all__", ()):
            made = getattr(module, name)
            alias = get_origin(made) is not None
            error = isinstance(made, type) and issubclass(made, BaseException)
            if callable(made) and name not in OF_REPORTS and not alias and not error:
                yield pytest.param(made, id=f"{package}.{name}")


def _arguments(signature, pick):
    """Absurd arguments that fit a signature: all that it needs, and some of what it takes."""
    positional, named, optional = [], {}, True
    for parameter in signature.parameters.values():
        if parameter.kind is parameter.VAR_POSITIONAL:
            positional += [pick() for _ in range(random.randrange(3))]
        elif parameter.kind is parameter.KEYWORD_ONLY:
            if parameter.default is parameter.empty or random.random() < 0.3:
                named[parameter.name] = pick()
        elif parameter.kind is not parameter.VAR_KEYWORD and optional:
            optional = parameter.default is parameter.empty or random.random() < 0.5
            if optional:
                positional.append(pick())
    return positional, named


@pytest.mark.parametrize("function", list(_public()))
def test_absurd_objects_are_refused_or_served(function):
    installed()  # peers are imported once, before anything may be refused
    signature = inspect.signature(function)
    for seed in range(_CALLS):
        random.seed(seed)
        objects = _absurd()
        positional, named = _arguments(signature, lambda objects=objects: random.choice(objects))
        with warnings.catch_warnings(action="ignore"):
            try:
                function(*positional, **named)
            except (PoplibsError, MemoryError):
                pass
            except AssertionError:
                assert function.__name__.startswith("assert_")  # what these are for
