"""The ops for PyTorch: registered, differentiable, compiled by ``torch.compile``, on the CPU without copies.

The functions take and return tensors of float32, float16, bfloat16 and torch's four FP8 types. Each calls the op of its
name in this library, whose numerics contract is its own; its gradients are ops of this library too. What
``torch.ops.poplibs_py`` holds is for graphs, which have tensors and numbers alone.
"""

from ..errors import MissingPackageError

try:
    import torch as _torch
except ModuleNotFoundError as error:
    if error.name != "torch":
        raise
    raise MissingPackageError("torch", "torch", error) from None

from .casts import cast, round_to
from .dense import matmul
from .linear import BlockSparseLinear
from .products import dense_sparse_matmul, sampled_matmul, sparse_dense_matmul
from .softmax import bs_softmax
from .tensors import BlockSparseTensor

__all__ = ["BlockSparseLinear", "BlockSparseTensor", "bs_softmax", "cast", "dense_sparse_matmul", "matmul", "round_to",
           "sampled_matmul", "sparse_dense_matmul"]

del _torch
