"""What PopLibs' vertices of popops cost on a tile of a modelled machine, and what such a tile does, step by step."""

from ...lazy import submodules_on_demand

__getattr__, __dir__ = submodules_on_demand(__name__)
