"""PopOps: elementwise operations and casts."""

from ..lazy import submodules_on_demand
from . import elementwise as _elementwise_functions
from ._elementwise import plan_elementwise
from .cast import cast
from .elementwise import *  # noqa: F403

__all__ = ["cast", "plan_elementwise", *_elementwise_functions.__all__]

__getattr__, __dir__ = submodules_on_demand(__name__)
