"""One field dimension of a convolution: its sizes, its transforms, and exact index arithmetic.

A convolution's dimensions are independent, so everything that PopLibs' ConvParams and ConvUtil do "per
dim" is done here on one `Axis`. Axes are small hashable tuples; the expensive functions are cached.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from math import gcd
from typing import NamedTuple

import numpy as np

from ...checks import whole
from ...formats import Array
from ...memo import tabled

Range = tuple[int, int]


class FieldTransform(NamedTuple):
    """What is done to the input or the kernel along one dimension, in this order.

    Truncate (drop elements at both ends), dilate (spread elements `dilation` apart, zeros between), pad
    (zeros at both ends), flip.
    """

    truncation_lower: int = 0
    truncation_upper: int = 0
    dilation: int = 1
    padding_lower: int = 0
    padding_upper: int = 0
    flip: bool = False

    def truncated(self, size: int) -> int:
        """Elements of `size` left after truncation."""
        return whole("size", size) - self.truncation_lower - self.truncation_upper

    def transformed(self, size: int) -> int:
        """Elements of `size` after the whole transform."""
        left = self.truncated(size)
        dilated = 1 + (left - 1) * self.dilation if left else 0
        return self.padding_lower + dilated + self.padding_upper

    def apply(self, index: int, size: int) -> int | None:
        """Where element `index` goes, None if it is truncated."""
        index, size = whole("index", index), whole("size", size)
        if not self.truncation_lower <= index < size - self.truncation_upper:
            return None
        place = (index - self.truncation_lower) * self.dilation + self.padding_lower
        return self.transformed(size) - 1 - place if self.flip else place

    def undo(self, place: int, size: int) -> int | None:
        """Which element is at `place` of the transformed volume, None if a zero is."""
        length, place = self.transformed(size), whole("place", place)
        if self.flip:
            place = length - 1 - place
        if not self.padding_lower <= place < length - self.padding_upper:
            return None
        step, rest = divmod(place - self.padding_lower, self.dilation)
        return None if rest else step + self.truncation_lower


class OutputTransform(NamedTuple):
    """What is done to the output along one dimension: truncate, keep every `stride`-th, pad."""

    truncation_lower: int = 0
    truncation_upper: int = 0
    stride: int = 1
    padding_lower: int = 0
    padding_upper: int = 0

    def reversed(self) -> FieldTransform:
        """The same read backwards: from the final output to the raw one it is a field transform."""
        return FieldTransform(self.padding_lower, self.padding_upper, self.stride, self.truncation_lower,
                              self.truncation_upper)


class Axis(NamedTuple):
    """One field dimension: field and kernel size and the three transforms."""

    field: int
    kernel: int
    input: FieldTransform = FieldTransform()
    weights: FieldTransform = FieldTransform()
    output: OutputTransform = OutputTransform()

    @property
    def transformed_input(self) -> int:
        """Input size after its transform."""
        return self.input.transformed(self.field)

    @property
    def transformed_kernel(self) -> int:
        """Kernel size after its transform."""
        return self.weights.transformed(self.kernel)

    @property
    def raw_output(self) -> int:
        """Output size before its transform: every position where the kernel fits."""
        return self.transformed_input + 1 - self.transformed_kernel

    @property
    def out(self) -> int:
        """Output size."""
        o = self.output
        kept = self.raw_output - o.truncation_lower - o.truncation_upper
        return o.padding_lower + -(-kept // o.stride) + o.padding_upper

    # Which element meets which ---------------------------------------------------------------------

    def input_index(self, output: int, kernel_element: int) -> int | None:
        """Input element that meets `kernel_element` in `output`; None for a zero."""
        place = self.weights.apply(whole("kernel_element", kernel_element), self.kernel)
        output = whole("output", output)
        raw = self.output.reversed().apply(output, self.out)
        return None if place is None or raw is None else self.input.undo(place + raw, self.field)

    def kernel_index(self, output: int, input_element: int) -> int | None:
        """Kernel element that meets `input_element` in `output`; None for a zero."""
        place = self.input.apply(whole("input_element", input_element), self.field)
        output = whole("output", output)
        raw = self.output.reversed().apply(output, self.out)
        if place is None or raw is None or not 0 <= place - raw < self.transformed_kernel:
            return None
        return self.weights.undo(place - raw, self.kernel)

    def macs(self) -> int:
        """Multiply-accumulates along this dimension."""
        return _axis_macs(self)

    def canonical(self) -> Axis | None:
        """The unique axis that computes the same; None if every output is known to be zero."""
        return _canonical(self)

    def swapped(self) -> Axis:
        """Input and kernel swapped: the same products, the kernel now slid the other way."""
        extra = self.transformed_input - self.transformed_kernel
        grown = self.weights._replace(flip=not self.weights.flip, padding_lower=self.weights.padding_lower + extra,
                                      padding_upper=self.weights.padding_upper + extra)
        return Axis(self.kernel, self.field, grown, self.input._replace(flip=not self.input.flip), self.output)

    def expanded(self) -> Axis:
        """The kernel moved into the input channels: one input element per output, kernel size 1."""
        if self.out == 0:
            return Axis(0, 1, FieldTransform(padding_upper=1), output=OutputTransform(truncation_upper=1))
        return Axis(self.out, 1)


# Ranges ------------------------------------------------------------------------------------------
#
# A range carries two notes: whether its ends are exact, and whether it may have gaps. Cutting a range
# with gaps may leave an end in a gap, and then it is only a bound; callers scan to make it exact.


class _Span(NamedTuple):
    begin: int
    end: int
    exact: bool = True
    gaps: bool = False

    def cut(self, begin: int, end: int) -> _Span:
        """This span within [begin, end)."""
        span = self
        if begin > span.begin:
            span = _span(begin, span.end, span.exact and not span.gaps, span.gaps)
        if end < span.end:
            span = _span(span.begin, end, span.exact and not span.gaps, span.gaps)
        return span


_EMPTY = _Span(0, 0)


def _span(begin: int, end: int, exact: bool = True, gaps: bool = False) -> _Span:
    if begin >= end:
        return _EMPTY
    return _Span(begin, end, exact, gaps and end - begin > 2)


def _image(span: _Span, size: int, by: FieldTransform) -> _Span:
    """The span that `span` of a volume of `size` becomes under transform `by`."""
    span = span.cut(by.truncation_lower, size - by.truncation_upper)
    if span.begin == span.end:
        return span
    ends = sorted((_known(by.apply(span.begin, size)), _known(by.apply(span.end - 1, size))))
    wide = span.end - span.begin > 1
    return _span(ends[0], ends[1] + 1, span.exact, wide and (span.gaps or by.dilation > 1))


def _preimage(span: _Span, size: int, by: FieldTransform) -> _Span:
    """The span of a volume of `size` that transform `by` takes into `span`."""
    whole = _image(_span(0, size), size, by)
    span = span.cut(whole.begin, whole.end)
    if span.begin == span.end:
        return span
    if by.dilation > 1:
        first = whole.begin + -(-(span.begin - whole.begin) // by.dilation) * by.dilation
        span = span.cut(first, span.end)
        if span.begin == span.end:
            return span
        last = whole.begin + (span.end - 1 - whole.begin) // by.dilation * by.dilation
        span = span.cut(span.begin, last + 1)
        if span.begin == span.end:
            return span
    ends = sorted((_known(by.undo(span.begin, size)), _known(by.undo(span.end - 1, size))))
    wide = span.end - span.begin > 1
    return _span(ends[0], ends[1] + 1, span.exact, wide and span.gaps)


def _known(index: int | None) -> int:
    assert index is not None
    return index


def _output_bound(axis: Axis, inputs: Range, kernels: Range, within: Range) -> _Span:
    """Outputs that `inputs` and `kernels` may feed, perhaps too wide."""
    given = _image(_span(*inputs), axis.field, axis.input)
    weights = _image(_span(*kernels), axis.kernel, axis.weights)
    if given.begin == given.end or weights.begin == weights.end:
        return _EMPTY
    if weights.begin > given.end - 1 or weights.end - 1 + axis.raw_output <= given.begin:
        return _EMPTY
    gaps = given.gaps or weights.gaps
    fits = given.begin >= weights.end - 1
    begin = given.begin - (weights.end - 1) if fits else 0
    exact = given.exact and weights.exact and (fits or not gaps)
    raw = _span(begin, given.end - weights.begin, exact, gaps)
    return _preimage(raw, axis.out, axis.output.reversed()).cut(*within)


def _input_bound(axis: Axis, outputs: Range, kernels: Range, within: Range) -> _Span:
    """Inputs that `outputs` and `kernels` may read, perhaps too wide."""
    raw = _image(_span(*outputs), axis.out, axis.output.reversed())
    weights = _image(_span(*kernels), axis.kernel, axis.weights)
    if raw.begin == raw.end or weights.begin == weights.end:
        return _EMPTY
    given = _span(raw.begin + weights.begin, raw.end + weights.end - 1, raw.exact and weights.exact,
                  raw.gaps or weights.gaps)
    return _preimage(given, axis.field, axis.input).cut(*within)


def _kernel_bound(axis: Axis, outputs: Range, inputs: Range, within: Range) -> _Span:
    """Kernel elements that `outputs` and `inputs` may use, perhaps too wide."""
    raw = _image(_span(*outputs), axis.out, axis.output.reversed())
    given = _image(_span(*inputs), axis.field, axis.input)
    if raw.begin == raw.end or given.begin == given.end:
        return _EMPTY
    size = axis.transformed_kernel
    if given.end - 1 < raw.begin or given.begin >= raw.end - 1 + size:
        return _EMPTY
    gaps = raw.gaps or given.gaps
    exact = raw.exact and given.exact
    begin = given.begin - (raw.end - 1)
    if begin < 0:
        begin, exact = 0, exact and not gaps
    end = given.end - raw.begin
    if end > size:
        # PopLibs marks this end exact where it is only a bound; ranges must agree with it
        end, exact = size, exact or gaps
    return _preimage(_span(begin, end, exact, gaps), axis.kernel, axis.weights).cut(*within)


class _Meetings(NamedTuple):
    """For some elements of the kernel, or of the input, that are used: what they meet in a range of outputs."""

    first: Array  # output of each element
    last: Array
    met_first: Array  # element of the other that it meets there
    met_last: Array
    step: int  # between two outputs of an element


def _meetings(axis: Axis, outputs: Range, elements: Range, of_kernel: bool) -> Iterator[_Meetings]:
    """What elements of the kernel meet, or those of the input; a part of them at a time.

    In output o, element i of one meets the element j of the other for which place(j) = place(i) +- raw(o), each place
    being linear in its index: so the outputs of an element are those of a range that are congruent to one of them.
    """
    own, size, other, other_size = axis.weights, axis.kernel, axis.input, axis.field
    if not of_kernel:
        own, size, other, other_size = other, other_size, own, size
    o, count = axis.output, other.truncated(other_size)
    begin, end = max(outputs[0], o.padding_lower), min(outputs[1], axis.out - o.padding_upper)
    low, high = max(elements[0], own.truncation_lower), min(elements[1], size - own.truncation_upper)
    if begin >= end or count <= 0:
        return
    sign = 1 if of_kernel != other.flip else -1
    shared = gcd(o.stride, other.dilation)
    step = other.dilation // shared
    inverse = pow(o.stride // shared, -1, step)
    reach = (count - 1) * other.dilation
    for start in range(low, high, _CHUNK):
        place = (np.arange(start, min(start + _CHUNK, high)) - own.truncation_lower) * own.dilation + own.padding_lower
        if own.flip:
            place = own.transformed(size) - 1 - place
        if other.flip:
            place = other.transformed(other_size) - 1 - place
        # of output 0, from the first element that the other has
        place = place + sign * (o.truncation_lower - o.padding_lower * o.stride) - other.padding_lower
        place = place[place % shared == 0]
        least, most = (-place, reach - place) if sign == 1 else (place - reach, place)
        first, last = np.maximum(-(-least // o.stride), begin), np.minimum(most // o.stride, end - 1)
        one = -sign * (place // shared % step) * inverse
        first, last = first + (one - first) % step, last - (last - one) % step
        used = first <= last
        place, first, last = place[used], first[used], last[used]
        if place.size:
            met_first, met_last = (
                (place + sign * o.stride * at) // other.dilation + other.truncation_lower for at in (first, last))
            yield _Meetings(first, last, met_first, met_last, step)


_CHUNK = 1 << 18  # elements looked at together


def _nonzero_outputs(axis: Axis) -> Range:
    """Outputs that are not known to be zero."""
    bound = _output_bound(axis, (0, axis.field), (0, axis.kernel), (0, axis.out))
    if bound.exact:
        return bound[:2]
    return _hull((m.first, m.last) for m in _meetings(axis, bound[:2], (0, axis.kernel), True))


def _hull(ends: Iterable[tuple[Array, Array]]) -> Range:
    """The smallest range that holds all of some elements."""
    found = [(int(min(a.min(), b.min())), int(max(a.max(), b.max())) + 1) for a, b in ends]
    return (min(f[0] for f in found), max(f[1] for f in found)) if found else (0, 0)


@tabled(65536)
def input_range(axis: Axis, outputs: Range, kernels: Range | None = None) -> Range:
    """Inputs read to compute `outputs` with kernel elements `kernels` (default: all).

    Corresponds to PopLibs' ``getInputRange``.
    """
    kernels = (0, axis.kernel) if kernels is None else kernels
    bound = _input_bound(axis, outputs, kernels, (0, axis.field))
    if bound.exact:
        return bound[:2]
    used = _kernel_bound(axis, outputs, bound[:2], kernels)
    return _hull((m.met_first, m.met_last) for m in _meetings(axis, outputs, used[:2], True))


@tabled(65536)
def kernel_range(axis: Axis, outputs: Range, inputs: Range | None = None) -> Range:
    """Kernel elements used to compute `outputs` from `inputs` (default: all).

    Corresponds to PopLibs' ``getKernelRange``.
    """
    inputs = (0, axis.field) if inputs is None else inputs
    bound = _kernel_bound(axis, outputs, inputs, (0, axis.kernel))
    if bound.exact:
        return bound[:2]
    used = _input_bound(axis, outputs, bound[:2], inputs)
    return _hull((m.met_first, m.met_last) for m in _meetings(axis, outputs, used[:2], False))


@tabled(4096)
def _axis_macs(axis: Axis) -> int:
    of_kernel = axis.kernel <= axis.field  # each pair of elements that meet is counted once, from either side
    met = _meetings(axis, (0, axis.out), (0, axis.kernel if of_kernel else axis.field), of_kernel)
    return sum(int(((m.last - m.first) // m.step + 1).sum()) for m in met)


# Canonical form ----------------------------------------------------------------------------------


@tabled(16384)
def _canonical(axis: Axis) -> Axis | None:
    out = axis.out
    nonzero = _nonzero_outputs(axis)
    if nonzero[0] == nonzero[1]:
        return None
    axis = axis._replace(output=_trim_output(axis, nonzero, out))
    axis = axis._replace(input=_trim_field(axis.input, axis.field, input_range(axis, (0, out))))
    used = kernel_range(axis, (0, out), (0, axis.field))
    axis = axis._replace(weights=_trim_field(axis.weights, axis.kernel, used))
    axis = _cancel_padding(axis)
    return axis._replace(input=_simplify_single(axis.input, axis.field),
                         weights=_simplify_single(axis.weights, axis.kernel))


def _trim_output(axis: Axis, nonzero: Range, out: int) -> OutputTransform:
    """Turn known zeros into output padding, drop outputs that the stride skips at the end."""
    o = axis.output
    lower, upper = nonzero[0], out - nonzero[1]
    if lower > o.padding_lower:
        o = o._replace(truncation_lower=o.truncation_lower + (lower - o.padding_lower) * o.stride, padding_lower=lower)
    if upper > o.padding_upper:
        o = o._replace(truncation_upper=o.truncation_upper + (upper - o.padding_upper) * o.stride, padding_upper=upper)
    kept = axis.raw_output - o.truncation_lower - o.truncation_upper
    ignored = (kept - 1) % o.stride
    o = o._replace(truncation_upper=o.truncation_upper + ignored)
    return o._replace(stride=1) if kept - ignored == 1 else o


def _trim_field(t: FieldTransform, size: int, used: Range) -> FieldTransform:
    """Truncate the elements that are never used; zeros take their place."""
    lower, upper = used[0], size - used[1]
    if lower > t.truncation_lower:
        t = t._replace(padding_lower=t.padding_lower + (lower - t.truncation_lower) * t.dilation,
                       truncation_lower=lower)
    if upper > t.truncation_upper:
        t = t._replace(padding_upper=t.padding_upper + (upper - t.truncation_upper) * t.dilation,
                       truncation_upper=upper)
    return t


def _cancel_padding(axis: Axis) -> Axis:
    """Remove padding that meets padding, and input padding that meets output truncation."""
    field, kernel = list(_ends(axis.input)), list(_ends(axis.weights))
    cut = [axis.output.truncation_lower, axis.output.truncation_upper]
    size = axis.transformed_kernel
    for end in (0, 1):
        excess = min(field[end], kernel[end], size - 1)
        field[end] -= excess
        kernel[end] -= excess
        size -= excess
    axis = axis._replace(input=_with_ends(axis.input, field), weights=_with_ends(axis.weights, kernel))
    for end in (0, 1):
        excess = min(field[end], cut[end], axis.raw_output - 1)
        field[end] -= excess
        cut[end] -= excess
        axis = axis._replace(input=_with_ends(axis.input, field))
    output = axis.output._replace(truncation_lower=cut[0], truncation_upper=cut[1])
    return axis._replace(output=output)


def _ends(t: FieldTransform) -> Range:
    """Padding at the two ends as they lie after the flip."""
    return (t.padding_upper, t.padding_lower) if t.flip else (t.padding_lower, t.padding_upper)


def _with_ends(t: FieldTransform, ends: list[int]) -> FieldTransform:
    lower, upper = reversed(ends) if t.flip else ends
    return t._replace(padding_lower=lower, padding_upper=upper)


def _simplify_single(t: FieldTransform, size: int) -> FieldTransform:
    """One element (or none) needs neither dilation nor flip."""
    if size > t.truncation_lower + 1 + t.truncation_upper:
        return t
    if t.flip:
        t = t._replace(flip=False, padding_lower=t.padding_upper, padding_upper=t.padding_lower)
    return t._replace(dilation=1)
