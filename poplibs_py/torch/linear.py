"""A linear layer with a block-sparse weight that trains, compiles, and keeps its pattern in its state."""

from __future__ import annotations

import math
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor

from ..checks import check_shape, flag, whole
from ..errors import InvalidArgumentError, bad_argument, bad_type
from ..ops import seed_of
from ..popsparse.pattern import BlockPattern
from ..popsparse.patterns import random_pattern
from ..popsparse.pruning import pruned_pattern, regrown_pattern
from ._library import array_of, check_tensor, torch_dtype
from ._patterns import KeptPattern
from .products import DENSE_SPARSE
from .tensors import BlockSparseTensor, density_of, index_tensors, side_of

_PARTS = ("blocks", "row_offsets", "column_indices")


class BlockSparseLinear(torch.nn.Module):
    """``Y = X W' + b`` with a block-sparse W of (outputs, inputs): `torch.nn.Linear` with most of its weight left out.

    The stored blocks are the parameter; their gradient is block-sparse too. The pattern is in the state beside them,
    and ``load_state_dict`` takes one with another number of blocks.

    Parameters
    ----------
    in_features, out_features : int
        Blocks need not divide them.
    block_shape : int or (int, int), optional
        Rows (of outputs) and columns (of inputs) of a block (default 16).
    density : float, optional
        Share of the blocks that is stored (default 1/4), at places drawn with equal chance.
    bias : bool, optional
        Whether there is a bias (default True).
    pattern : BlockPattern, optional
        Where the blocks are, of shape (outputs, inputs), in place of `block_shape` and `density`.
    seed : int or (int, int), optional
        For the places of the blocks; by default drawn from torch's generator.
    device, dtype : optional
        As for `torch.nn.Linear`; float32, bfloat16 or float16.

    Attributes
    ----------
    blocks : torch.nn.Parameter, shape (n_blocks, block rows, block columns)
    bias : torch.nn.Parameter, shape (outputs,), or None
    row_offsets, column_indices : torch.Tensor
        The pattern: see `BlockSparseTensor`.

    Notes
    -----
    It is `popsparse.static.dense_sparse_matmul` with W transposed, whose contract it has; PopLibs' layer is
    ``popsparse::dynamic::fullyConnectedFwd`` with its GradA and GradW. Weights begin as those of `torch.nn.Linear` do,
    for as many inputs as an output has on the average.

    Examples
    --------
    >>> import torch
    >>> from poplibs_py.torch import BlockSparseLinear
    >>> layer = BlockSparseLinear(64, 32, block_shape=8, density=1 / 4)
    >>> layer
    BlockSparseLinear(in_features=64, out_features=32, block_shape=(8, 8), n_blocks=8, bias=True)
    >>> layer(torch.zeros(5, 64)).shape, sorted(layer.state_dict())
    (torch.Size([5, 32]), ['bias', 'blocks', 'column_indices', 'row_offsets'])
    """

    blocks: torch.nn.Parameter
    bias: torch.nn.Parameter | None
    row_offsets: Tensor
    column_indices: Tensor

    def __init__(self, in_features: int, out_features: int, block_shape: int | tuple[int, int] = 16,
                 density: float = 0.25, *, bias: bool = True, pattern: BlockPattern | None = None, seed: object = None,
                 device: Any = None, dtype: torch.dtype | None = None) -> None:
        super().__init__()
        self.in_features = whole("in_features", in_features, 1, 2**31 - 1)
        self.out_features = whole("out_features", out_features, 1, 2**31 - 1)
        shape = self.out_features, self.in_features
        if pattern is None:
            sides, share = side_of(block_shape), density_of("density", density)
            pattern = random_pattern(*shape, sides, share, _drawn_seed() if seed is None else seed_of(seed))
        elif not isinstance(pattern, BlockPattern):
            raise bad_type("pattern", type(pattern).__name__, "a BlockPattern")
        elif pattern.shape != shape or pattern.groups > 1:
            raise bad_argument("pattern", pattern, f"one of shape {shape}, (out_features, in_features), in one group")
        dtype = torch.get_default_dtype() if dtype is None else dtype
        if torch_dtype(dtype).itemsize == 1:
            raise bad_type("dtype", dtype, "float32, bfloat16 or float16")
        made = {"device": device, "dtype": dtype}
        blocks = torch.empty(pattern.n_blocks, *pattern.block_shape, **made)
        self.blocks = torch.nn.Parameter(blocks)
        offsets, columns = index_tensors(pattern)
        self.register_buffer("row_offsets", offsets.to(device))
        self.register_buffer("column_indices", columns.to(device))
        self.bias = torch.nn.Parameter(torch.empty(self.out_features, **made)) if flag("bias", bias) else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw weights and biases anew, uniform within ``1 / sqrt(inputs of an output)``; the pattern stays."""
        high, wide = self.block_shape
        everywhere = -(-self.out_features // high) * -(-self.in_features // wide)
        inputs = self.in_features * self.blocks.shape[0] / everywhere
        limit = 1 / math.sqrt(max(1.0, inputs))
        with torch.no_grad():
            self.blocks.uniform_(-limit, limit)
            if self.bias is not None:
                self.bias.uniform_(-limit, limit)

    @classmethod
    def from_linear(cls, linear: torch.nn.Linear, block_shape: int | tuple[int, int] = 16, *,
                    density: float | None = None, mask: Any = None) -> Self:
        """Prune a dense layer.

        Parameters
        ----------
        linear : torch.nn.Linear
            Its values are copied.
        block_shape : int or (int, int), optional
            Default 16.
        density, mask
            Which blocks to keep, as for `BlockSparseMatrix.from_dense`: those of greatest norm, or those of a mask; by
            default every block with a non-zero element.
        """
        if not isinstance(linear, torch.nn.Linear):
            raise bad_type("linear", type(linear).__name__, "a torch.nn.Linear")
        weight = linear.weight.detach()
        check_tensor("linear", weight)
        if density is not None:
            density = density_of("density", density)
        w = BlockSparseTensor.from_dense(weight, block_shape, density=density, mask=mask)
        return cls.from_tensor(w, None if linear.bias is None else linear.bias.detach())

    @classmethod
    def from_tensor(cls, w: BlockSparseTensor, bias: Tensor | None = None) -> Self:
        """Make a layer with the values, copied, of a `BlockSparseTensor` of (outputs, inputs), and of a bias.

        ``from_tensor(BlockSparseTensor.from_sparse(tensor))`` takes BSR, CSR and COO tensors.
        """
        if not isinstance(w, BlockSparseTensor):
            raise bad_type("w", type(w).__name__, "a BlockSparseTensor")
        layer = cls(w.columns, w.rows, bias=bias is not None, pattern=w.pattern, dtype=w.blocks.dtype)
        with torch.no_grad():
            layer.blocks.copy_(w.blocks)
            if layer.bias is not None and bias is not None:
                check_shape("bias", bias, bias.shape == layer.bias.shape, f"shape {tuple(layer.bias.shape)}")
                layer.bias.copy_(bias)
        return layer

    @property
    def block_shape(self) -> tuple[int, int]:
        """Rows and columns of a block."""
        return self.blocks.shape[1], self.blocks.shape[2]

    @property
    def weight(self) -> BlockSparseTensor:
        """W, which shares the parameter: the gradient of what is made of it flows back."""
        return BlockSparseTensor(self.blocks, self.row_offsets, self.column_indices, self.out_features,
                                 self.in_features)

    @property
    def pattern(self) -> BlockPattern:
        """Where the blocks are."""
        return self.weight.pattern

    @property
    def density(self) -> float:
        """Stored blocks divided by all blocks."""
        return self.pattern.density

    def forward(self, x: Tensor) -> Tensor:
        """Return ``X W' + b`` for an `x` of shape (..., inputs)."""
        made: Tensor = DENSE_SPARSE(x, self.blocks, self.row_offsets, self.column_indices, self.out_features,
                                    self.in_features, True, self.bias)
        return made

    def to_dense(self) -> Tensor:
        """Return W as a dense tensor of shape (outputs, inputs); differentiable."""
        return self.weight.to_dense()

    def to_linear(self) -> torch.nn.Linear:
        """Return a dense layer of the same weights."""
        linear = torch.nn.Linear(self.in_features, self.out_features, self.bias is not None, dtype=self.blocks.dtype)
        with torch.no_grad():
            linear.weight.copy_(self.to_dense())
            if self.bias is not None:
                linear.bias.copy_(self.bias)
        return linear

    def prune(self, density: float, *, optimizer: torch.optim.Optimizer | None = None) -> None:
        """Keep the blocks of greatest norm.

        Parameters
        ----------
        density : float
            Share of all blocks to keep, at most the layer's. Where norms are equal the first block wins.
        optimizer : torch.optim.Optimizer, optional
            What it keeps for each block, such as momentum, is kept for the blocks that stay. Name it here where one
            holds the layer: the parameter stays the same object, but changes its shape.

        Notes
        -----
        torch refuses the next gradient while a result of the layer from before is still alive with its graph: detach
        what is kept.
        """
        norms = array_of("blocks", self.blocks.detach().float().square().sum((1, 2)))
        thinner, kept = pruned_pattern(self.pattern, norms, density_of("density", density))
        self._move(thinner, torch.from_numpy(kept), torch.arange(kept.size), optimizer)

    def regrow(self, density: float, *, scores: Tensor | None = None, seed: object = None,
               optimizer: torch.optim.Optimizer | None = None) -> None:
        """Add blocks of zeros, which then learn.

        Parameters
        ----------
        density : float
            Share of all blocks that there will be, at least the layer's.
        scores : torch.Tensor, shape (block rows, block columns), optional
            The places of greatest score among those without a block are taken, the first where scores are equal, for
            example the norms of the dense weight's gradient in each block. By default they are drawn with equal chance.
        seed : int or (int, int), optional
            For the draw; by default from torch's generator.
        optimizer : torch.optim.Optimizer, optional
            What it keeps for each block begins with zeros for new ones.
        """
        pattern, share = self.pattern, density_of("density", density)
        places = pattern.block_rows, pattern.block_columns
        wanted: Any
        if scores is None:
            wanted = np.random.default_rng(_drawn_seed() if seed is None else seed_of(seed)).random(places)
        else:
            if not isinstance(scores, Tensor) or tuple(scores.shape) != places:
                raise bad_argument("scores", tuple(getattr(scores, "shape", ())), f"a tensor of shape {places}")
            wanted = scores.detach().double().numpy().copy()
        thicker, at = regrown_pattern(pattern, wanted, share)
        self._move(thicker, torch.arange(pattern.n_blocks), torch.from_numpy(at), optimizer)

    def extra_repr(self) -> str:
        """What `repr` tells of the layer."""
        return (f"in_features={self.in_features}, out_features={self.out_features}, block_shape={self.block_shape}, "
                f"n_blocks={self.blocks.shape[0]}, bias={self.bias is not None}")

    def _move(self, pattern: BlockPattern, source: Tensor, to: Tensor, optimizer: Any) -> None:
        """Take another pattern: the blocks at `source` go to `to`, and zeros everywhere else."""
        before, shape = self.blocks.shape, (pattern.n_blocks, *pattern.block_shape)

        def moved(values: Tensor) -> Tensor:
            return values.new_zeros(shape).index_copy_(0, to, values[source])

        with torch.no_grad():
            state = {} if optimizer is None else optimizer.state.get(self.blocks, {})
            for name, kept in state.items():
                if isinstance(kept, Tensor) and kept.shape == before:
                    state[name] = moved(kept)
            self.blocks.data = moved(self.blocks.data)
            self.blocks.grad = None
        self.row_offsets, self.column_indices = index_tensors(pattern)

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, local_metadata: Any, strict: bool,
                              missing_keys: list[str], unexpected_keys: list[str], error_msgs: list[str]) -> None:
        # torch copies into tensors of one shape: make room for the blocks that come, once they are known to fit.
        parts: list[Any] = [state_dict.get(prefix + name) for name in _PARTS]
        if all(isinstance(part, Tensor) and part.layout is torch.strided for part in parts):
            blocks, offsets, columns = parts
            try:
                check_shape("blocks", blocks, tuple(blocks.shape[1:]) == self.block_shape,
                            f"blocks of {self.block_shape}")
                if not offsets.is_meta:
                    KeptPattern(offsets, columns, (self.out_features, self.in_features), self.block_shape)
                if len(columns) != len(blocks):
                    raise bad_argument("blocks", f"{len(blocks)} blocks", f"{len(columns)}, as the pattern has")
            except (InvalidArgumentError, TypeError) as error:
                error_msgs.append(f"{prefix}{error}")
                return
            if blocks.shape != self.blocks.shape:
                self.blocks.data = self.blocks.data.new_empty(blocks.shape)
                self.blocks.grad = None
                self.column_indices = self.column_indices.new_empty(columns.shape)
        super()._load_from_state_dict(state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys,
                                      error_msgs)


def _drawn_seed() -> int:
    """A seed from torch's generator, so that `torch.manual_seed` decides."""
    return int(torch.randint(2**62, ()).item())
