"""Reports: what ran and what it cost."""

from ..lazy import submodules_on_demand

__getattr__, __dir__ = submodules_on_demand(__name__)
