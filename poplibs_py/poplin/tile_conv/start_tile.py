"""Where a plan starts on the tile array: tile 0, or a tile picked by hashing the layer's shape."""

from __future__ import annotations

from math import prod

from ...planner.hashing import hashed
from ...target import Target
from .options import ConvOptions
from .params import ConvParams

_FULLY_CONNECTED_TRAINING = ("FC_TRAINING_FWD", "FC_TRAINING_BWD", "FC_TRAINING_WU")


def start_tile(target: Target, params: ConvParams, options: ConvOptions) -> tuple[int, str]:
    """First tile and direction of a plan.

    With ``enableConvDithering`` both come from a hash of the forward pass' shape, so that forward,
    backward and weight update of one layer agree and different layers spread over the array.
    """
    if not options.enable_conv_dithering:
        return 0, "ASCENDING"
    values = [params.groups]
    batch, channels = params.batch, (params.out_channels, params.in_channels)
    if options.pass_ in _FULLY_CONNECTED_TRAINING:
        values += [batch, prod(params.field_shape) * prod(channels)]
    else:
        values += params.output_shape if options.pass_ == "TRAINING_BWD" else params.field_shape
        if options.pass_ in ("INFERENCE_FWD", "FC_INFERENCE_FWD"):
            values += [batch, *channels]
        else:
            values.append(batch * prod(channels))
    seed = hashed(values)
    pairs = -(-target.tiles // target.tiles_per_exchange_bus)
    start = (seed >> 1) % pairs * target.tiles_per_exchange_bus
    return start, ("ASCENDING", "DESCENDING")[seed % 2]

