"""PopNN, of which this version has nothing yet: the package is the place for its operations.

Of what PopNN has, `poplibs_py.popops` holds the non-linearities relu, sigmoid, tanh and GELU, products take them as
``activation=``, and `poplibs_py.popsparse` holds the softmax of block-sparse matrices.
"""
