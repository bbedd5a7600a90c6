"""Compiled plan search: exact branch and bound over the splits of one candidate.

The cost model is in conv_costs.pxi (phases and sums), conv_cycles.pxi (on-tile vertices) and
reduce_cycles.pxi (popops); the records are in conv_records.pxi. The search and the itemised report call the
same functions, so they cannot differ.
"""

from libc.stdlib cimport free
from libc.string cimport memset

include "planner/conv_records.pxi"
include "planner/reduce_cycles.pxi"
include "planner/conv_cycles.pxi"
include "planner/conv_costs.pxi"
include "planner/walk.pxi"
include "planner/solver_order.pxi"

_fill_stages()

MINIMIZE_CYCLES, MINIMIZE_COST_DIFF, MINIMIZE_TEMP, MINIMIZE_TILES = CYCLES, COST_DIFF, TEMP, TILES
NO_LIMIT = UNLIMITED

_METHODS = {"AMP": AMP, "SLIC": SLIC, "HMAC": HMAC, "VMAC": VMAC, "OUTER_PRODUCT": OUTER_PRODUCT}


cdef class Model:
    """One candidate: its passes, the bounds of its splits, and the search over them.

    Parameters
    ----------
    passes : list of dict
        One pass, or forward, backward and weight update of a joint plan; see `_fill_pass` for the keys.
    bounds : dict
        ``"axes"``: (extent in grains, least split, most split, required tile size or 0) for batch, groups,
        each kernel and each field dimension; ``"out"`` and ``"in"``: (extent, least and most parallel,
        least and most serial split, required tile size or 0); ``"broadcast"``: -1 for free, else 0 or 1.
    """

    cdef Problem problem
    cdef list _kept

    def __cinit__(self):
        memset(&self.problem, 0, sizeof(Problem))

    def __init__(self, list passes, dict bounds):
        cdef int i
        self._kept = []
        self.problem.pass_count = len(passes)
        for i in range(len(passes)):
            self._fill_pass(&self.problem.passes[i], passes[i])
        self._fill_bounds(bounds)

    def __dealloc__(self):
        release(&self.problem)

    cdef _fill_machine(self, Machine* m, dict f):
        m.tiles = f["tiles"]
        m.workers = f["workers"]
        m.exchange_rate = f["exchange_rate"]
        m.exchange_bytes = f["exchange_bytes"]
        m.tiles_per_bus = f["tiles_per_bus"]
        m.data_path_bits = f["data_path_bits"]
        m.memcpy_bytes = f["memcpy_bytes"]
        m.coeff_load_bytes = f["coeff_load_bytes"]
        m.repeat_count_max = f["repeat_count_max"]
        m.memory_element = f["memory_element"]
        m.tile_bytes = f["tile_bytes"]
        m.bus_sharing = f["bus_sharing"]

    cdef _fill_dim(self, Dim* d, dict f):
        cdef const int64_t[::1] ends
        d.grain = f["grain"]
        d.out = f["out"]
        d.whole_input = f["whole_input"]
        d.kernel = f["kernel"]
        d.stride = f["stride"]
        d.dilation = f["dilation"]
        d.kernel_dilation = f["kernel_dilation"]
        d.padding = f["padding"]
        d.compute_dilation = f["compute_dilation"]
        d.compute_stride = f["compute_stride"]
        d.moved = f["moved"]
        d.expanded_on_tile = f["expanded_on_tile"]
        d.cast_end = NULL
        if f["cast_end"] is not None:
            ends = f["cast_end"]
            if ends.shape[0] <= d.out:
                raise ValueError("cast_end: too short")
            self._kept.append(ends)
            d.cast_end = <int64_t*>&ends[0]

    cdef _fill_pass(self, Pass* p, dict f):
        cdef int d
        self._fill_machine(&p.machine, f["machine"])
        p.ndim = len(f["dims"])
        if not 1 <= p.ndim <= MAX_DIMS:
            raise ValueError("dims: too many")
        for d in range(p.ndim):
            self._fill_dim(&p.dims[d], f["dims"][d])
            p.kernel0[d] = f["kernel0"][d]
        p.group_grain, p.in_grain, p.out_grain = f["grains"]
        p.group_size, p.in_size, p.out_size = f["sizes"]
        p.method = _METHODS[f["method"]]
        p.conv_units, p.chains, p.window = f["conv_units"], f["chains"], f["window"]
        p.unit_weights, p.loaded_weights = f["unit_weights"], f["loaded_weights"]
        p.tile_pad_multiple = f["tile_pad_multiple"]
        p.acts, p.input, p.partial = f["acts"], f["input"], f["partial"]
        p.tile_result, p.result, p.output = f["tile_result"], f["result"], f["output"]
        p.casts_inputs, p.plain_1x1 = f["casts_inputs"], f["plain_1x1"]
        p.fast_reduce, p.multi_stage = f["fast_reduce"], f["multi_stage"]
        p.standard_order = f["standard_order"]
        p.macs_over_rate = f["macs_over_rate"]
        p.inputs_total, p.weights_total = f["inputs_total"], f["weights_total"]
        p.rearrange_input, p.rearrange_weights, p.rearrange_output = f["rearrange"]
        p.regroup_weights, p.regroup_output = f["regroup"]
        p.regressed = f["regressed"]
        p.transform_inputs, p.transform_weights, p.transform_outputs = f["transform_elements"]
        p.in_factor[0], p.in_factor[1] = f["in_factor"]
        p.regroup_factor[0], p.regroup_factor[1] = f["regroup_factor"]
        p.out_factor[0], p.out_factor[1] = f["out_factor"]
        p.view_in_chans, p.view_out_chans, p.view_group_atom = f["view"]
        p.slices_rearranged = f["slices_rearranged"]
        p.absent = f["absent"]
        p.corrected = f["corrected"]

    cdef _fill_bounds(self, dict bounds):
        cdef Problem* q = &self.problem
        cdef int i
        q.ndim = q.passes[0].ndim
        q.tiles = q.passes[0].machine.tiles
        q.axis_count = 2 * q.ndim + 2
        q.broadcast = bounds["broadcast"]
        for i, (extent, least, most, required) in enumerate(bounds["axes"]):
            set_axis(&q.axes[i], extent, least, most, 1, 1, required)
        for i, side in ((q.axis_count, "out"), (q.axis_count + 1, "in")):
            extent, least, most, serial_least, serial_most, required = bounds[side]
            set_axis(&q.axes[i], extent, least, most, serial_least, serial_most, required)
        q.axis_count += 2
        if prepare(q) != 0:
            raise MemoryError

    # ------------------------------------------------------------------------------------------------

    @property
    def least_work(self):
        """Lower bound of tiles x cycles."""
        return self.problem.work

    def search(self, dict goal, best):
        """Find the points that cost least, if any is better than `best`.

        Parameters
        ----------
        goal : dict
            ``"objective"``, ``"cycles_limit"``, ``"temp_limit"``, ``"tiles_secondary"``, ``"reference"``
            (None, or a list of costs per pass for the cost-difference objective).
        best : tuple of int
            Cost of the best candidate so far, by the objective's two keys.

        Returns
        -------
        tuple or None
            ``(keys, splits, equals)``: the cost, the splits that reach it (the first that PopLibs' solver would
            find), and how many splits reach it.
        """
        cdef Problem* q = &self.problem
        cdef Hunt hunt
        cdef int i, equals
        memset(&hunt, 0, sizeof(Hunt))
        self._set_goal(&hunt.goal, goal)
        hunt.start[0], hunt.start[1] = best
        hunt.best[0], hunt.best[1] = best
        with nogil:
            walk(q, &hunt)
            equals = hunt.found
            if equals > 1:
                order_as_solver(q, &hunt)
        points = [_point_dict(&hunt.ties[i], q.ndim) for i in range(hunt.found)]
        free(hunt.ties)
        if not points:
            return None
        return (hunt.best[0], hunt.best[1]), points[0], equals

    cdef _set_goal(self, Goal* g, dict goal):
        cdef int i
        g.objective = goal["objective"]
        g.cycles_limit = goal["cycles_limit"]
        g.temp_limit = goal["temp_limit"]
        g.tiles_secondary = goal["tiles_secondary"]
        if goal["reference"] is not None:
            for i in range(self.problem.pass_count):
                for j, name in enumerate(_STEPS):
                    g.reference[i][j] = goal["reference"][i][name]

    def costs(self, dict splits):
        """Itemised costs of one point, a dict per pass; None if it is infeasible."""
        cdef Problem* q = &self.problem
        cdef Point at[3]
        cdef Costs c[3]
        cdef int i
        _read_splits(&at[0].splits, splits, q.ndim)
        if place(q, &at[0]) == NEVER:
            return None
        derive_points(q, at)
        for i in range(q.pass_count):
            if q.passes[i].absent:
                memset(&c[i], 0, sizeof(Costs))
                continue
            if phases(&q.passes[i], &at[i], UNLIMITED, UNLIMITED, &c[i]) == NEVER:
                return None
            totals(&q.passes[i], &at[i], at[0].splits.broadcast, &c[i])
        return [_costs_dict(&c[i]) for i in range(q.pass_count)]


_STEPS = ("rearrangeBeforeSliceCycles", "dynamicSliceCycles", "totalTransformCopyCycles",
          "totalTransformExchangeCycles", "totalExchangeCycles", "tileLevelTransformCycles", "partialCalcCycles",
          "reduceCycles", "dynamicUpdateCycles", "addInPlaceCycles", "outputCastCycles")


cdef dict _point_dict(const Point* at, int ndim):
    cdef const Splits* s = &at.splits
    cdef int d
    return {
        "field": [s.field[d] for d in range(ndim)], "kernel": [s.kernel[d] for d in range(ndim)],
        "batch": s.batch, "group": s.group, "out_parallel": s.out_parallel, "out_serial": s.out_serial,
        "in_parallel": s.in_parallel, "in_serial": s.in_serial, "broadcast": s.broadcast,
    }


cdef _read_splits(Splits* s, dict f, int ndim):
    cdef int d
    if len(f["field"]) != ndim or len(f["kernel"]) != ndim:
        raise ValueError("splits: wrong number of dimensions")
    for d in range(ndim):
        s.field[d] = f["field"][d]
        s.kernel[d] = f["kernel"][d]
    s.batch, s.group = f["batch"], f["group"]
    s.out_parallel, s.out_serial = f["out_parallel"], f["out_serial"]
    s.in_parallel, s.in_serial = f["in_parallel"], f["in_serial"]
    s.broadcast = f["broadcast"]


cdef dict _costs_dict(const Costs* c):
    """Costs by the names the original gives them; ``tr_`` is the transform of the whole problem."""
    return {
        "totalTiles": c.tiles,
        "totalCycles": c.cycles,
        "totalTempBytes": c.temp_bytes,
        "broadcastInputBeforeLoopCopyCycles": c.broadcast_copy,
        "broadcastInputBeforeLoopExchangeCycles": c.broadcast_exchange,
        "rearrangeBeforeSliceCycles": c.rearrange_before_slice,
        "dynamicSliceCycles": c.dynamic_slice,
        "totalTransformCopyCycles": c.transform_copy,
        "totalTransformExchangeCycles": c.transform_exchange,
        "totalExchangeCycles": c.exchange,
        "inputExchangeCycles": c.input_exchange,
        "weightExchangeCycles": c.weight_exchange,
        "reduceFirstStageExchangeCycles": c.first_stage_exchange,
        "reduceRemainingStagesExchangeCycles": c.later_stages_exchange,
        "tr_inputsCopyCycles": c.inputs_copy,
        "tr_inputsExchangeCycles": c.inputs_exchange,
        "tr_inputsTempBytes": c.inputs_temp,
        "tr_weightsCopyCycles": c.weights_copy,
        "tr_weightsExchangeCycles": c.weights_exchange,
        "tr_weightsTempBytes": c.weights_temp,
        "tr_outputCopyCycles": c.output_copy,
        "tr_outputExchangeCycles": c.output_exchange,
        "tr_outputTempBytes": c.output_temp,
        "tileLevelTransformCycles": c.tile_transform,
        "inputsCastCycles": c.inputs_cast,
        "partialCalcCycles": c.partial_calc,
        "reduceCycles": c.reduce,
        "dynamicUpdateCycles": c.dynamic_update,
        "addInPlaceCycles": c.add_in_place,
        "outputCastCycles": c.output_cast,
        "broadcastInputBeforeLoopTempBytes": c.broadcast_temp,
        "rearrangeBeforeSliceTempBytes": c.rearrange_before_slice_temp,
        "rearrangeBeforeSliceTempDuringRearrangeBytes": c.rearrange_before_slice_during,
        "totalTransformTempBytes": c.transform_temp,
        "tileLevelTransformTempBytes": c.tile_transform_temp,
        "convTempBytes": c.conv_temp,
        "reduceTempBytes": c.reduce_temp,
        "addInPlaceTempBytes": c.add_in_place_temp,
    }


def reduction_stages(int64_t depth, bint multi_stage=True):
    """Partials that each stage of a reduction adds to one, first stage first; none where there is one partial."""
    cdef int64_t stages[2]
    cdef int64_t left = depth, this_depth
    cdef int i, count = reduce_stages(depth, multi_stage, stages)
    found = []
    for i in range(count):
        this_depth = cdiv(left, stages[i])
        left = cdiv(left, this_depth)
        found.append(this_depth)
    if left > 1:
        found.append(left)
    return found
