"""Orders of rows: sorted, the places that sort them, the greatest or least of them."""

from ...lazy import submodules_on_demand

__getattr__, __dir__ = submodules_on_demand(__name__)
