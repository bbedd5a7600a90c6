"""Sparse and numerics kernels for Python: PopLibs' operations on this CPU and on modelled tile arrays."""

from importlib import import_module
from types import ModuleType

from .popops import cast
from .report.profile import Profile, profile

__version__ = "0.1.0"

_ROOMS = ("errors", "formats", "planner", "poplin", "popops", "poprand", "popsparse", "target", "testing")

__all__ = ["Profile", "cast", "profile"]


def __getattr__(name: str) -> ModuleType:
    """Import a subpackage when it is first asked for, so that ``import poplibs_py`` stays short."""
    if name in _ROOMS:
        return import_module(f".{name}", __name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_ROOMS})
