"""Submodules, and what they hold, imported when first asked for, so that ``import poplibs_py`` stays short."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from importlib.util import find_spec
from pkgutil import iter_modules
from typing import Any

_OPTIONAL = ("dask", "torch")  # modules named as the package that they need: where it is not there, nor are they


def submodules_on_demand(package: str,
                         held: Mapping[str, str] | None = None) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return a package's ``__getattr__`` and ``__dir__`` (PEP 562) that offer every public module in its folder.

    What the package itself imports or defines goes first: ``popsparse.advise`` stays the function of that name.

    Parameters
    ----------
    package : str
        Its name.
    held : mapping, optional
        Names that the package offers besides, and the module below it that has each.

    Examples
    --------
    >>> from poplibs_py import popsparse
    >>> popsparse.static.sparse_dense_matmul.__name__
    'sparse_dense_matmul'
    """

    elsewhere = held or {}

    def getattr_of_package(name: str) -> Any:
        if name in elsewhere:
            return getattr(import_module(f"{package}.{elsewhere[name]}"), name)
        if name.startswith("_") or find_spec(f"{package}.{name}") is None:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return import_module(f"{package}.{name}")

    def dir_of_package() -> list[str]:
        module = sys.modules[package]
        inside = {found.name for found in iter_modules(module.__path__) if not found.name.startswith("_")}
        own = {name for name in vars(module) if name.startswith("__")}.union(vars(module).get("__all__", ()))
        return sorted({*own, *inside, *elsewhere} - {name for name in _OPTIONAL if find_spec(name) is None})

    return getattr_of_package, dir_of_package
