"""Sparse and numerics kernels for Python: PopLibs' operations on this CPU and on modelled tile arrays."""

from .errors import not_built
from .lazy import submodules_on_demand

__version__ = "0.1.0"

try:
    from .popops import cast
    from .report.profile import Profile, profile
except ModuleNotFoundError as error:
    if not (error.name or "").startswith(f"{__name__}."):
        raise
    raise not_built(error.name) from None

__all__ = ["Profile", "cast", "profile"]

__getattr__, __dir__ = submodules_on_demand(__name__)
