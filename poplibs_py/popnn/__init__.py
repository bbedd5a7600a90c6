"""PopNN, of whose operations this version has nothing yet: what is here says what its vertices and plans cost.

Of what PopNN has, `poplibs_py.popops` holds the non-linearities relu, sigmoid, tanh and GELU, products take them as
``activation=``, and `poplibs_py.popsparse` holds the softmax of block-sparse matrices.
"""

from ..lazy import submodules_on_demand

__getattr__, __dir__ = submodules_on_demand(__name__)
