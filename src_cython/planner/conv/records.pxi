# The records of the convolution cost model: one pass of one candidate, a tile's part of it at one point of the
# search space, and the itemised costs of that point.
#
# Names: a "grain" is the least amount of an axis that a tile may hold; level 0 is the whole problem, the
# tile level is what one tile holds. Sizes are in grains unless they say otherwise. P is the problem after
# its transforms, channels rounded up to grains.

from poplibs_py.planner._search cimport Axis, Option


cdef enum:
    MAX_DIMS = 8        # two axes each, beside batch, groups and two of channels: see MAX_AXES
    AMP = 0
    SLIC = 1
    HMAC = 2
    VMAC = 3
    OUTER_PRODUCT = 4
    QUARTER = 1         # types are named by their bytes
    HALF = 2
    FLOAT = 4

cdef int64_t U32 = 0xffffffff


cdef struct Machine:
    int64_t tiles
    int64_t workers
    int64_t exchange_rate           # sixteenths of a byte per cycle
    int64_t exchange_bytes          # whole bytes per cycle, as the transform costs round it
    int64_t tiles_per_bus
    int64_t data_path_bits
    int64_t memcpy_bytes
    int64_t coeff_load_bytes        # halved unless 128-bit loads are on
    int64_t repeat_count_max
    int64_t memory_element
    int64_t tile_bytes
    bint bus_sharing


cdef struct Dim:
    int64_t grain                   # elements of output per field grain
    int64_t out                     # P: output size
    int64_t whole_input             # P: inputs read for the whole output
    int64_t kernel                  # P: kernel size
    int64_t stride
    int64_t dilation                # of the input
    int64_t kernel_dilation
    int64_t padding                 # of the input, both ends
    int64_t compute_dilation        # as the vertex sees them: 1 where the dimension was transformed
    int64_t compute_stride
    bint moved                      # expanded or flattened before the split
    bint expanded_on_tile


cdef struct Pass:
    Machine machine
    int ndim
    Dim dims[MAX_DIMS]
    # level 0, in grains (kernel: elements)
    int64_t kernel0[MAX_DIMS]
    int64_t* cast_ends[MAX_DIMS]    # last input + 1 that the first n outputs read, or NULL
    # grains of the exchange and groupings of the vertex; equal but in some derived passes
    int64_t group_grain, in_grain, out_grain
    int64_t group_size, in_size, out_size
    # the vertex
    int method
    int64_t conv_units, chains, window
    int64_t unit_weights            # weights one unit holds, for the vertex' inputs
    int64_t loaded_weights          # pipeline depth x elements per load: filter height x input grouping
    int64_t tile_pad_multiple       # what AMP or SLIC pads a kernel dimension to
    int acts                        # type the vertex computes with
    int input, partial, tile_result, result, output
    bint casts_inputs
    bint plain_1x1                  # the parts of the 1x1 vertex' conditions that do not depend on the split
    bint fast_reduce, multi_stage
    bint standard_order
    # whole-problem figures
    int64_t macs_over_rate          # lower bound of tiles x cycles x serial splits that PopLibs states
    int64_t work                    # the best lower bound that is known
    int64_t inputs_total, weights_total
    # transforms: what is rearranged or regrouped, in elements of the whole problem
    bint rearrange_input, rearrange_weights, rearrange_output, regroup_weights, regroup_output
    bint regressed                  # experimental.convTransformsEstimates
    int64_t transform_inputs, transform_weights, transform_outputs
    int64_t in_factor[2]
    int64_t regroup_factor[2]
    int64_t out_factor[2]
    int64_t view_in_chans, view_out_chans, view_group_atom
    bint slices_rearranged          # fully connected, not joint: weights rearranged before slicing
    bint absent                     # a pass that does no work costs nothing
    # corrections of plain defects, off by default
    bint corrected


cdef struct Splits:
    int64_t field[MAX_DIMS]
    int64_t kernel[MAX_DIMS]
    int64_t batch, group
    int64_t out_parallel, out_serial, in_parallel, in_serial


cdef struct Part:
    Splits splits
    # what one tile holds, in grains (kernel: elements)
    int64_t field[MAX_DIMS]
    int64_t kernel[MAX_DIMS]
    int64_t batch, groups, outs, ins
    int64_t tiles                   # product of the parallel splits


cdef struct Costs:
    int64_t tiles, cycles, temp_bytes
    int64_t broadcast_copy, broadcast_exchange, broadcast_temp
    int64_t rearrange_before_slice, rearrange_before_slice_temp, rearrange_before_slice_during
    int64_t dynamic_slice, dynamic_update, add_in_place, add_in_place_temp, output_cast
    int64_t transform_copy, transform_exchange, transform_temp
    int64_t inputs_copy, inputs_exchange, inputs_temp
    int64_t weights_copy, weights_exchange, weights_temp
    int64_t output_copy, output_exchange, output_temp
    int64_t exchange, input_exchange, weight_exchange, first_stage_exchange, later_stages_exchange
    int64_t tile_transform, tile_transform_temp
    int64_t inputs_cast, partial_calc, reduce, reduce_temp
    int64_t conv_temp
    # not reported: parts of the sums above
    int64_t input_bytes, weight_bytes, partial_bytes


cdef inline int64_t vector_width(const Machine* m, int size) noexcept nogil:
    """Elements of `size` bytes in one load."""
    return m.data_path_bits // (8 * size)
