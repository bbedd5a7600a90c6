"""The cost model of convolutions: one candidate's search space, and what its points cost.

The costs are in costs.pxi (phases and sums), cycles.pxi (on-tile vertices) and reduce.pxi (popops), and the least that
open axes cost in bounds.pxi. The search and the itemised report call the same functions, so they cannot differ.
"""

from libc.stdint cimport int64_t
from libc.string cimport memset

from poplibs_py.planner._search cimport CYCLES, DIFFERENCE, MEASURES, NEVER, TEMP, TILES, UNLIMITED, Point, Search
from poplibs_py.exchange cimport cycles_to_receive  # no-cython-lint
from poplibs_py.reduction cimport grouped_reduce_cycles  # no-cython-lint
from poplibs_py.whole cimport cdiv, gcd, imax, imin  # no-cython-lint

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
        self._weigh()
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

    cdef int64_t most_turns(self, int level, int axis) noexcept nogil:
        return most_turns_of(&self.problem, self, level, axis)

    cdef void cost(self) noexcept nogil:
        """Offer the current point with and without the input broadcast before the loop."""
        cdef const Problem* q = &self.problem
        cdef Part at[3]
        cdef Costs raw[3]
        cdef Costs c
        cdef int64_t measures[MEASURES]
        cdef int64_t left = self.allowed[CYCLES]
        cdef int i, b, last
        read_point(q, &self.point, at)
        if serial_in_both(q, &self.point):
            return
        derive_parts(q, at)
        last = 1 if at[0].splits.out_serial > 1 else 0
        for i in range(q.pass_count):
            if not q.passes[i].absent:
                if phases(&q.passes[i], &at[i], left, self.allowed[TEMP], &raw[i]) == NEVER:
                    return
                if i + 1 < q.pass_count:    # with the input before the loop, where there is one, a pass takes least
                    c = raw[i]
                    totals(&q.passes[i], &at[i], last, &c)
                    left -= c.cycles
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

    cdef void _weigh(self) noexcept nogil:
        """Set what any point takes at least."""
        self.work, self.beside = least_work(&self.problem, self.axes), least_beside(&self.problem)

    cdef void _set_grain(self, const Pass* whole, const Axis* axis, int64_t grain, int64_t work) noexcept nogil:
        """Take input channels by another grain than the 1 that `whole` and `axis` have."""
        cdef Problem* q = &self.problem
        cdef Pass* p = &q.passes[0]
        cdef int64_t chans = axis.extent, padded = cdiv(chans, grain) * grain
        p[0] = whole[0]
        p.in_grain = p.in_size = grain
        p.macs_over_rate = work
        p.inputs_total, p.weights_total = whole.inputs_total // chans * padded, whole.weights_total // chans * padded
        p.transform_inputs = whole.transform_inputs // chans * padded
        p.transform_weights = whole.transform_weights // chans * padded
        p.rearrange_input = whole.rearrange_input or padded != chans
        p.rearrange_weights = whole.rearrange_weights or padded != chans
        self.resize(q.in_axis, padded // grain, imin(axis.serial_most, imax(1, cdiv(p.view_in_chans, grain))))
        self._weigh()
        self.prepare()

    @property
    def least(self):
        """The least cycles and bytes of any point."""
        cdef int64_t measures[MEASURES]
        memset(measures, 0, sizeof(measures))
        self.bound(-1, measures)
        return measures[CYCLES], measures[TEMP]

    def least_of_grains(self, list grains, list works):
        """The least cycles and bytes of any point, for models that differ from this one in the grain of input channels.

        Parameters
        ----------
        grains : list of int
            Of each; this model's is 1, and it has one pass.
        works : list of int
            Multiply-accumulates over the vertex' peak rate, with the input channels rounded up to the grain.
        """
        cdef Pass whole = self.problem.passes[0]
        cdef Axis axis = self.axes[self.problem.in_axis]
        found = []
        for grain, work in zip(grains, works):
            self._set_grain(&whole, &axis, grain, work)
            found.append(self.least)
        self._set_grain(&whole, &axis, 1, whole.macs_over_rate)
        return found

    def search_grains(self, list grains, list works, list places, tuple keys, tuple limits, tuple best, int place,
                      double deadline=0):
        """Find which of the models that `least_of_grains` bounds costs least, if any is better than `best`.

        Parameters
        ----------
        grains, works : list of int
            As for `least_of_grains`.
        places : list of int
            Each model's place among all that there are: of equals the first wins.
        keys, limits, deadline
            As for `search`.
        best : tuple of int
            What the best measures so far.
        place : int
            Its place.

        Returns
        -------
        tuple
            What the best measures, its place, and its splits, as `search` has them, or None if it is none of these.
        """
        cdef Pass whole = self.problem.passes[0]
        cdef Axis axis = self.axes[self.problem.in_axis]
        splits = None
        for grain, work, at in zip(grains, works, places):
            self._set_grain(&whole, &axis, grain, work)
            found = self.search(keys, limits, (best[0], best[1] + 1) if at < place else best, deadline)
            if found is not None:
                (best, splits, _), place = found, at
        self._set_grain(&whole, &axis, 1, whole.macs_over_rate)
        return best, place, splits

    @property
    def least_of_others(self):
        """The least cycles of the passes after the first, however they are split."""
        cdef const Problem* q = &self.problem
        cdef int64_t least = 0
        cdef int i
        for i in range(1, q.pass_count):
            if not q.passes[i].absent:
                least += least_moved(&q.passes[i], q.tiles) + q.passes[i].work // q.tiles
        return least

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
    cdef int64_t stages[3]
    cdef int i
    return [stages[i] for i in range(reduce_stages(depth, multi_stage, stages))]
