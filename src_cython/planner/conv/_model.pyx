"""The cost model of convolutions: one candidate's search space, and what its points cost.

The costs are in costs.pxi (phases and sums), cycles.pxi (on-tile vertices) and reduce.pxi (popops), and the least that
open axes cost in bounds.pxi. The search and the itemised report call the same functions, so they cannot differ.
"""

from libc.stdint cimport int64_t
from libc.string cimport memset

from poplibs_py.planner._search cimport (
    CYCLES, DIFFERENCE, MEASURES, NEVER, TEMP, TILES, UNLIMITED, Point, Search, cdiv, imax, imin,
)

include "planner/conv/records.pxi"
include "planner/conv/reduce.pxi"
include "planner/conv/cycles.pxi"
include "planner/conv/costs.pxi"
include "planner/conv/bounds.pxi"
include "planner/conv/fill.pxi"

_fill_stages()

STEPS = ("rearrangeBeforeSliceCycles", "dynamicSliceCycles", "totalTransformCopyCycles",
         "totalTransformExchangeCycles", "totalExchangeCycles", "tileLevelTransformCycles", "partialCalcCycles",
         "reduceCycles", "dynamicUpdateCycles", "addInPlaceCycles", "outputCastCycles")


cdef class Model(Search):
    """One candidate: its passes, the bounds of its splits, and the search over them.

    Parameters
    ----------
    passes : list of dict
        One pass, or forward, backward and weight update of a joint plan; see `fill_pass` for the keys.
    bounds : dict
        ``"axes"``: (extent in grains, least split, most split, required tile size or 0) for batch, groups,
        each kernel and each field dimension; ``"out"`` and ``"in"``: (extent, least and most parallel,
        least and most serial split, required tile size or 0); ``"broadcast"``: -1 for free, else 0 or 1.
    reference : list of dict, optional
        Costs per pass, from which a plan's difference is told.
    """

    cdef Problem problem
    cdef list _kept

    def __cinit__(self, *args):
        memset(&self.problem, 0, sizeof(Problem))

    def __init__(self, list passes, dict bounds, list reference=None):
        cdef Problem* q = &self.problem
        cdef int i, j
        self._kept = []
        q.pass_count = len(passes)
        for i in range(q.pass_count):
            fill_pass(&q.passes[i], passes[i], self._kept)
            for j, name in enumerate(STEPS if reference is not None else ()):
                q.reference[i][j] = reference[i][name]
        self._fill_space(bounds)

    cdef _fill_space(self, dict bounds):
        cdef Problem* q = &self.problem
        cdef int d, n = q.passes[0].ndim
        q.ndim = n
        q.tiles = self.tiles = q.passes[0].machine.tiles
        q.broadcast = bounds["broadcast"]
        for extent, least, most, required in bounds["axes"]:
            self.add_axis(extent, least, most, 1, 1, required, False)
        q.out_axis = self._add_channels(bounds["out"])
        q.in_axis = self._add_channels(bounds["in"])
        q.inputs_cover = covers(&q.passes[0])
        q.outputs = least_outputs(q, self.axes)
        self.work = least_work(q, self.axes)
        for d in range(n):
            self.add_split(2 + n + d, False, 0)
            if d < n - 1:
                self.add_split(2 + d, False, 0)
        for axis, serial in ((0, False), (1, False), (q.out_axis, False), (q.in_axis, True), (q.out_axis, True),
                             (q.in_axis, False)):
            self.add_split(axis, serial, 0)
        self.prepare()

    cdef int _add_channels(self, tuple bounds) except -1:
        extent, least, most, serial_least, serial_most, required = bounds
        return self.add_axis(extent, least, most, serial_least, serial_most, required, True)   # they decide the loop

    cdef int bound(self, int level, int64_t* least) noexcept nogil:
        if serial_in_both(&self.problem, &self.point):
            return NEVER
        least_measures(&self.problem, self, level, least)
        return 0

    cdef void cost(self) noexcept nogil:
        """Offer the current point with and without the input broadcast before the loop."""
        cdef const Problem* q = &self.problem
        cdef Part at[3]
        cdef Costs raw[3]
        cdef Costs c
        cdef int64_t measures[MEASURES]
        cdef int i, b, last
        read_point(q, &self.point, at)
        if serial_in_both(q, &self.point):
            return
        derive_parts(q, at)
        for i in range(q.pass_count):
            if not q.passes[i].absent:
                if phases(&q.passes[i], &at[i], self.allowed[CYCLES], self.allowed[TEMP], &raw[i]) == NEVER:
                    return
        last = 1 if at[0].splits.out_serial > 1 else 0
        for b in range(last + 1):
            if q.broadcast >= 0 and b != q.broadcast:
                continue
            memset(measures, 0, sizeof(measures))
            measures[TILES] = self.point.tiles
            for i in range(q.pass_count):
                if q.passes[i].absent:
                    continue
                c = raw[i]
                totals(&q.passes[i], &at[i], b, &c)
                measures[CYCLES] += c.cycles
                measures[TEMP] = imax(measures[TEMP], c.temp_bytes)
                measures[DIFFERENCE] += step_difference(q.reference[i], &c)
            self.offer(b, measures)

    @property
    def least_work(self):
        """Lower bound of tiles x cycles."""
        return self.work

    def least(self, list grains, list works):
        """The least cycles and bytes of any point, for models that differ from this one in the grain of input channels.

        Parameters
        ----------
        grains : list of int
            Of each; this model's is 1, and it has one pass.
        works : list of int
            Multiply-accumulates over the vertex' peak rate, with the input channels rounded up to the grain.
        """
        cdef Problem* q = &self.problem
        cdef Pass whole = q.passes[0]
        cdef Pass* p = &q.passes[0]
        cdef int64_t chans = self.axes[q.in_axis].extent, serial_most = self.axes[q.in_axis].serial_most, padded
        cdef int64_t measures[MEASURES]
        found = []
        for grain, work in zip(grains, works):
            p.in_grain = p.in_size = grain
            p.macs_over_rate = work
            padded = cdiv(chans, p.in_grain) * p.in_grain
            p.inputs_total, p.weights_total = whole.inputs_total // chans * padded, whole.weights_total // chans * padded
            p.transform_inputs = whole.transform_inputs // chans * padded
            p.transform_weights = whole.transform_weights // chans * padded
            p.rearrange_input = whole.rearrange_input or padded != chans
            p.rearrange_weights = whole.rearrange_weights or padded != chans
            self.resize(q.in_axis, padded // p.in_grain, imin(serial_most, imax(1, cdiv(p.view_in_chans, p.in_grain))))
            self.work = least_work(q, self.axes)
            self.prepare()
            memset(measures, 0, sizeof(measures))
            self.bound(-1, measures)
            found.append((measures[CYCLES], measures[TEMP]))
        p[0] = whole
        self.resize(q.in_axis, chans, serial_most)
        self.work = least_work(q, self.axes)
        self.prepare()
        return found

    @property
    def beside(self):
        """The least cycles of the passes after the first, however they are split."""
        cdef const Problem* q = &self.problem
        cdef int64_t work = 0, moved = 0
        cdef Part wide
        cdef Costs c
        wide.tiles, wide.splits.in_serial, wide.splits.out_serial = q.tiles, 1, 1
        for i in range(1, q.pass_count):
            if not q.passes[i].absent and not q.passes[i].regressed:
                transform_phase(&q.passes[i], &wide, &c)
                moved += (c.inputs_copy + c.inputs_exchange + c.weights_copy + c.weights_exchange + c.output_copy
                          + c.output_exchange)
                work += q.passes[i].work
        return moved + work // q.tiles

    def costs(self, tuple splits):
        """Itemised costs of one point, as `search` returns it, a dict per pass; None if it is infeasible."""
        cdef const Problem* q = &self.problem
        cdef Point point
        cdef Part at[3]
        cdef Costs c[3]
        cdef int i
        if len(splits) != self.axis_count + 1:
            raise ValueError("splits: wrong number")
        for i in range(self.axis_count):
            point.at[i].parallel, point.at[i].serial = splits[i]
        point.variant = splits[self.axis_count]
        if self.place(&point) == NEVER or serial_in_both(q, &point):
            return None
        read_point(q, &point, at)
        if point.variant and at[0].splits.out_serial == 1:
            return None
        derive_parts(q, at)
        for i in range(q.pass_count):
            if q.passes[i].absent:
                memset(&c[i], 0, sizeof(Costs))
                continue
            if phases(&q.passes[i], &at[i], UNLIMITED, UNLIMITED, &c[i]) == NEVER:
                return None
            totals(&q.passes[i], &at[i], point.variant, &c[i])
        return [costs_dict(&c[i]) for i in range(q.pass_count)]


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
