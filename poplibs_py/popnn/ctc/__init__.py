"""Connectionist temporal classification as a planned op: how PopLibs cuts its loss and its search over tiles."""

from ...lazy import submodules_on_demand

__getattr__, __dir__ = submodules_on_demand(__name__)
