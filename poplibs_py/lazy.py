"""Submodules imported when they are first asked for, so that ``import poplibs_py`` stays short."""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from pkgutil import iter_modules
from types import ModuleType

__all__ = ["submodules_on_demand"]


def submodules_on_demand(package: str) -> tuple[Callable[[str], ModuleType], Callable[[], list[str]]]:
    """Return a package's ``__getattr__`` and ``__dir__`` (PEP 562) that offer every public module in its folder.

    What the package itself imports or defines goes first: ``popsparse.advise`` stays the function of that name.

    Examples
    --------
    >>> from poplibs_py import popsparse
    >>> popsparse.static.sparse_dense_matmul.__name__
    'sparse_dense_matmul'
    """

    def getattr_of_package(name: str) -> ModuleType:
        if name.startswith("_") or find_spec(f"{package}.{name}") is None:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return import_module(f"{package}.{name}")

    def dir_of_package() -> list[str]:
        module = sys.modules[package]
        inside = {found.name for found in iter_modules(module.__path__) if not found.name.startswith("_")}
        return sorted({*vars(module), *inside})

    return getattr_of_package, dir_of_package
