"""Softmax, norms and losses as functions of rows: how rows lie, the kernel that takes them, and its program.

A row is the elements along the reduced axes, in C order. What is repeated along axes has strides of zero there, and
what there is one of for each row is `single`.
"""

from ...lazy import submodules_on_demand

__getattr__, __dir__ = submodules_on_demand(__name__)
