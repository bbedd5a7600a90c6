"""PopOps: elementwise operations, casts, reductions, and plans of embeddings."""

from typing import TYPE_CHECKING

from ..lazy import submodules_on_demand
from . import binary as _of_two
from . import binary_gradients as _of_gradients_of_two
from . import bits as _of_bits
from . import elementwise as _of_one
from . import gathers as _of_vectors
from . import gradients as _of_gradients
from . import lookups as _of_lookups
from . import nonlinearities as _of_networks
from . import ordering as _of_order
from . import reductions as _of_axes
from . import rows as _of_rows
from . import slice_updates as _of_slice_updates
from . import slices as _of_slices
from . import ternary as _of_three
from ._elementwise import plan_elementwise
from .binary import *  # noqa: F403
from .binary_gradients import *  # noqa: F403
from .bits import *  # noqa: F403
from .cast import cast
from .circular import CircBuf
from .counts import bincount, histogram
from .elementwise import *  # noqa: F403
from .encoding import encode_one_hot, fill, iota
from .gathers import *  # noqa: F403
from .gradients import *  # noqa: F403
from .lookups import *  # noqa: F403
from .map import compile_map, map
from .nonlinearities import *  # noqa: F403
from .ordering import *  # noqa: F403
from .padding import pad
from .poplibs_reduce import plan_reduce, reduce, reduce_many
from .rearrange import transpose
from .reductions import *  # noqa: F403
from .reductions import max_with_indices, min_with_indices
from .rows import *  # noqa: F403
from .scaled_add import scaled_add, scaled_subtract, x_minus_ax_plus_by
from .scans import cumulative_max, cumulative_min, cumulative_prod, cumulative_sum
from .slice_updates import *  # noqa: F403
from .slices import *  # noqa: F403
from .splines import SplineBasis, normalise_image, spline_basis, spline_weighting
from .ternary import *  # noqa: F403

if TYPE_CHECKING:
    from .embedding.api import plan_embedding
    from .slice_plans import compile_multi_slice, compile_multi_update

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
    "compile_multi_slice": "slice_plans", "compile_multi_update": "slice_plans", "plan_embedding": "embedding.api"})
