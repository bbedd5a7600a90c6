"""PopOps: elementwise operations, casts, expressions, reductions, slices, orders, counts, and arrays that are made."""

from typing import TYPE_CHECKING

from ..lazy import submodules_on_demand
from .counts.api import bincount, histogram
from .elementwise import binary as _of_two
from .elementwise import bits as _of_bits
from .elementwise import gradients as _of_gradients
from .elementwise import nonlinearities as _of_networks
from .elementwise import ternary as _of_three
from .elementwise import unary as _of_one
from .elementwise.binary import *  # noqa: F403
from .elementwise.bits import *  # noqa: F403
from .elementwise.cast import cast
from .elementwise.gradients import *  # noqa: F403
from .elementwise.nonlinearities import *  # noqa: F403
from .elementwise.table import plan_elementwise
from .elementwise.ternary import *  # noqa: F403
from .elementwise.unary import *  # noqa: F403
from .making.encoding import encode_one_hot, fill, iota
from .making.padding import pad
from .making.rearrange import transpose
from .making.splines import SplineBasis, normalise_image, spline_basis, spline_weighting
from .maps import gradients as _of_gradients_of_two
from .maps.api import compile_map, map
from .maps.gradients import *  # noqa: F403
from .maps.scaled_add import scaled_add, scaled_subtract, x_minus_ax_plus_by
from .ordering import api as _of_order
from .ordering.api import *  # noqa: F403
from .reductions import named as _of_axes
from .reductions.api import plan_reduce, reduce, reduce_many
from .reductions.extremes import max_with_indices, min_with_indices
from .reductions.named import *  # noqa: F403
from .reductions.scans import cumulative_max, cumulative_min, cumulative_prod, cumulative_sum
from .slices import api as _of_slices
from .slices import gathers as _of_vectors
from .slices import lookups as _of_lookups
from .slices import rows as _of_rows
from .slices import updates as _of_slice_updates
from .slices.api import *  # noqa: F403
from .slices.circular import CircBuf
from .slices.gathers import *  # noqa: F403
from .slices.lookups import *  # noqa: F403
from .slices.rows import *  # noqa: F403
from .slices.updates import *  # noqa: F403

if TYPE_CHECKING:
    from .slices.embedding.api import plan_embedding
    from .slices.prepared import compile_multi_slice, compile_multi_update

__all__ = ["CircBuf", "SplineBasis", "bincount", "cast", "compile_map", "compile_multi_slice", "compile_multi_update",
           "cumulative_max", "cumulative_min", "cumulative_prod", "cumulative_sum", "encode_one_hot", "fill",
           "histogram", "iota", "map", "max_with_indices", "min_with_indices", "normalise_image", "pad",
           "plan_elementwise", "plan_embedding", "plan_reduce", "reduce", "reduce_many", "scaled_add",
           "scaled_subtract", "spline_basis", "spline_weighting", "transpose", "x_minus_ax_plus_by",
           *_of_one.__all__, *_of_two.__all__, *_of_three.__all__, *_of_bits.__all__,
           *_of_gradients.__all__, *_of_gradients_of_two.__all__, *_of_axes.__all__, *_of_vectors.__all__,
           *_of_slices.__all__, *_of_slice_updates.__all__, *_of_order.__all__, *_of_networks.__all__,
           *_of_lookups.__all__, *_of_rows.__all__]

__getattr__, __dir__ = submodules_on_demand(__name__, {
    "compile_multi_slice": "slices.prepared", "compile_multi_update": "slices.prepared",
    "plan_embedding": "slices.embedding.api"})
