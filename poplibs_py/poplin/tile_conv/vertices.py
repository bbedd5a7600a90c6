"""Which on-tile vertices could compute a convolution, most promising first."""

from __future__ import annotations

from collections.abc import Iterable
from math import lcm
from typing import Any, NamedTuple

from ...errors import PlanError
from ...program import rounded
from ...target import TYPE_SIZES, Target
from .options import ConvOptions
from .params import ConvParams

_SIMPLEST_LOAD = {"float": 2, "half": 4, "quarter": 8}
_SLIC_WINDOW = 4  # kernel elements; the unit could also take 3, PopLibs has no vertex for it
METHODS = ("HMAC", "VMAC", "AMP", "SLIC", "OUTER_PRODUCT")  # PopLibs' order of the variants


class Method(NamedTuple):
    """How a tile computes its part.

    ``AMP`` feeds matrix units channel groups, ``SLIC`` slides a window of 4 kernel elements along rows,
    ``HMAC`` takes dot products over input channels, ``VMAC`` works down groups of one channel each, and
    ``OUTER_PRODUCT`` multiplies a column by a row.
    """

    type: str
    conv_units: int = 0
    input_load_elems: int = 0
    chains: int = 0
    window_width: int = 0
    limited: bool = False

    def to_dict(self) -> dict[str, str]:
        """As PopLibs writes it to JSON: every value is a string."""
        return {key: str(value).lower() if key != "type" else self.type for key, value in self.constraints().items()}

    def constraints(self) -> dict[str, Any]:
        """As PopLibs' plan constraints have it."""
        own: dict[str, dict[str, Any]] = {
            "AMP": {"convUnits": self.conv_units, "convInputLoadElems": self.input_load_elems},
               "SLIC": {"convUnitChainsRequired": self.chains, "windowWidth": self.window_width},
               "HMAC": {"useLimitedVersion": self.limited}}
        return {"type": self.type, **own.get(self.type, {})}

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> Method:
        """Read what `to_dict` wrote."""
        return cls(fields["type"], int(fields.get("convUnits", 0)), int(fields.get("convInputLoadElems", 0)),
                   int(fields.get("convUnitChainsRequired", 0)), int(fields.get("windowWidth", 0)),
                   fields.get("useLimitedVersion") in (True, "true"))

    def __str__(self) -> str:
        if self.type == "AMP":
            return f"AMP, {self.conv_units} units loading {self.input_load_elems} elements"
        if self.type == "SLIC":
            return f"SLIC, {self.chains} chains, window {self.window_width}"
        return self.type


class VertexType(NamedTuple):
    """A method with its types and groupings."""

    method: Method
    input_type: str
    partial_type: str
    conv_groups: int
    in_chans: int
    partial_chans: int


def max_macs_per_cycle(target: Target, vertex: VertexType) -> int:
    """Multiply-accumulates a tile can do per cycle with this vertex."""
    method = vertex.method
    if method.type == "AMP":
        return method.conv_units * method.input_load_elems
    width = target.vector_width(vertex.input_type)
    if method.type == "SLIC":
        return min(width, vertex.in_chans) * method.window_width * 2
    return width


def vertex_candidates(target: Target, params: ConvParams, options: ConvOptions, *, joint: bool = False,
                      tile_expand: bool = False) -> list[tuple[float, VertexType]]:
    """Vertices that fit `params` (already transformed), most promising first, each behind its useful rate.

    The rate is that of multiply-accumulates per cycle which are not of padding. Corresponds to PopLibs'
    ``getConvVertexTypeCandidates``; ties keep PopLibs' order.
    """
    found: list[VertexType] = []
    for method in sorted(_methods(options, tile_expand), key=METHODS.index):
        # equal ones once, in the order of the structure's fields, before the stable sort by promise
        found += sorted(set(_FINDERS[method](target, params, options, joint)))
    rates: dict[tuple[Method, str, int], int] = {}
    promise = []
    ins, outs = params.in_channels, params.out_channels
    for v in found:
        kind = (v.method, v.input_type, v.in_chans if v.method.type == "SLIC" else 0)
        if kind not in rates:
            rates[kind] = max_macs_per_cycle(target, v)
        padded = rounded(ins, v.in_chans) * rounded(outs, v.partial_chans)
        waste = (padded - ins * outs) / padded if padded else 0.0
        promise.append((-(rates[kind] * (1 - waste)), waste, TYPE_SIZES[v.partial_type]))
    return [(-promise[i][0], found[i]) for i in sorted(range(len(found)), key=promise.__getitem__)]


def _methods(options: ConvOptions, tile_expand: bool) -> list[str]:
    constraints = options.plan_constraints
    if constraints.get("method") is not None:
        wanted = constraints.get("method.type")
        if wanted is None:
            raise PlanError("planConstraints.method: got no type; allowed: a method with a type")
        return [wanted]
    if tile_expand:
        return ["AMP"]
    return [m for m in _FINDERS if not (m == "SLIC" and options.fully_connected)]


def _constrained(options: ConvOptions, path: str) -> int | None:
    value = options.plan_constraints.get(path)
    return None if value is None else int(value)


def _allowed(options: ConvOptions, path: str, values: Iterable[int]) -> list[int]:
    wanted = _constrained(options, path)
    return [value for value in values if wanted is None or value == wanted]


def unit_input_type(target: Target, input_type: str, partials_type: str) -> str:
    """FP8 is cast to half where the units do not take it."""
    if input_type == "quarter" and not target.units("quarter", partials_type):
        return "half"
    return input_type


# AMP -----------------------------------------------------------------------------------------------


def _amp(target: Target, params: ConvParams, options: ConvOptions, joint: bool) -> list[VertexType]:
    found: list[VertexType] = []
    wpc = target.weights_per_unit(params.input_type)
    partials, output = options.partials_type, params.output_type
    one_element = all(a.kernel == 1 for a in params.axes)
    if TYPE_SIZES[output] < TYPE_SIZES[partials] and params.in_channels <= wpc and one_element:
        # nothing is left to reduce, so the vertex may write the output type at once
        narrow = _amp_of_type(target, params.input_type, output, options, joint)
        found = [v for v in narrow if rounded(params.in_channels, v.in_chans) == wpc]
    return found + _amp_of_type(target, params.input_type, partials, options, joint)


def _amp_of_type(target: Target, input_type: str, partials: str, options: ConvOptions, joint: bool) -> list[VertexType]:
    if input_type == "float":
        partials = "float"
    vertex_in = unit_input_type(target, input_type, partials)
    if TYPE_SIZES[vertex_in] > TYPE_SIZES[partials] or (vertex_in == "quarter" and partials != "half"):
        return []
    available = target.units(vertex_in, partials)
    if not available:
        return []
    load = target.load_elements(vertex_in)
    loads = [load]
    if load % _SIMPLEST_LOAD[vertex_in]:
        loads.append(_SIMPLEST_LOAD[vertex_in])
    units_list = [available] + ([8] if vertex_in != "quarter" and available > 8 else [])
    found = []
    for load in _allowed(options, "method.convInputLoadElems", loads):
        wpc = target.conv_pipeline_depth * load
        groupings = [available] + ([wpc] if wpc > available else []) + ([8] if available > 8 else [])
        inputs_list = _allowed(options, "inChansPerGroup", range(wpc, 0, -1))
        for units in _allowed(options, "method.convUnits", units_list):
            method = Method("AMP", conv_units=units, input_load_elems=load)
            found += [VertexType(method, vertex_in, partials, 1, inputs, chans) for inputs in inputs_list
                      for chans in _allowed(options, "partialChansPerGroup", groupings)
                      if _amp_fits(inputs, chans, units, load, wpc, available, vertex_in, options, joint)]
    return found


def _amp_fits(inputs: int, chans: int, units: int, load: int, wpc: int, available: int, vertex_in: str,
              options: ConvOptions, joint: bool) -> bool:
    """PopLibs' rules for one AMP grouping, in its order."""
    if (chans > units and units < available) or chans not in (units, wpc):
        return False
    if wpc % inputs or chans % units or inputs % load:
        return False
    if vertex_in == "quarter" and chans != units:
        return False
    if options.pass_ == "FC_INFERENCE_FWD" and chans != units:
        return False
    return not (joint and options.pass_ == "FC_TRAINING_FWD" and inputs % units)


# The other methods ---------------------------------------------------------------------------------


def _slic(target: Target, params: ConvParams, options: ConvOptions, joint: bool) -> list[VertexType]:
    if params.input_type == "float":
        return []
    partials = options.partials_type
    vertex_in = unit_input_type(target, params.input_type, partials)
    given = _constrained(options, "inChansPerGroup")
    made = _constrained(options, "partialChansPerGroup")
    if given is not None and made is not None and given != made:
        raise PlanError("planConstraints: SLIC needs equal inChansPerGroup and partialChansPerGroup")
    units = target.units(vertex_in, partials)
    chains = [2]
    if partials == "half":
        chains = ([4] if units == 16 else []) + ([2] if vertex_in == "half" else [])
    if target.conv_pipeline_depth != 4 or target.load_elements(vertex_in) < _SIMPLEST_LOAD[vertex_in]:
        raise PlanError(
            f"target: got pipeline depth {target.conv_pipeline_depth} and {target.load_elements(vertex_in)} "
            f"elements per load; allowed for SLIC: depth 4, at least {_SIMPLEST_LOAD[vertex_in]} elements"
        )
    if joint:
        return []
    if not _allowed(options, "method.windowWidth", [_SLIC_WINDOW]):
        raise PlanError(f"planConstraints.method.windowWidth: got another width; allowed: {_SLIC_WINDOW}")
    if vertex_in == "quarter":
        groupings = [(1, 8)]
    else:
        groupings = [(1, 4), (2, 2), (4, 1)]
        if partials == "half" and units == 16:
            groupings += [(8, 1), (16, 1)]
    taken = _groups_together(options, [groups for groups, _ in groupings])
    sizes = _allowed(options, "inChansPerGroup" if made is None else "partialChansPerGroup", [n for _, n in groupings])
    methods = [Method("SLIC", chains=count, window_width=_SLIC_WINDOW) for count in chains]
    return [VertexType(method, vertex_in, partials, groups, chans, chans) for method in methods
            for groups, chans in groupings if groups in taken and chans in sizes]


def _groups_together(options: ConvOptions, groupings: list[int]) -> list[int]:
    """Those of some numbers of groups that a vertex may take at once."""
    allowed = _allowed(options, "convGroupsPerGroup", groupings)
    return [groups for groups in allowed if groups == 16 or not options.experimental_slic_vmac_16]


def _hmac(target: Target, params: ConvParams, options: ConvOptions, joint: bool) -> list[VertexType]:
    vertex_in = "half" if params.input_type == "quarter" else params.input_type
    units = target.units(vertex_in, options.partials_type)
    limited = options.plan_constraints.get("method.useLimitedVersion")
    method = Method("HMAC", limited=True if limited is None else limited)
    grain = 1 if params.input_type == "float" else 2
    most = rounded(params.in_channels, grain)
    chans = 1 if options.partials_type == "float" else 2
    if not _allowed(options, "convGroupsPerGroup", [1]) or not _allowed(options, "partialChansPerGroup", [chans]):
        return []
    wanted = _constrained(options, "inChansPerGroup")
    if wanted is not None and (wanted > most or wanted % grain or wanted < 1):
        return []
    if wanted is not None:
        sizes = [wanted]
    elif joint and options.pass_ == "FC_TRAINING_FWD":
        # inputs become the weight update's output channels: one, or a multiple of the units
        step = lcm(units, grain) if units else most + 1
        sizes = ([1] if grain == 1 else []) + _group_sizes(most, step)
    else:
        sizes = _group_sizes(most, grain)
    found, groups = [], 0
    for inputs in sizes:
        if -(-most // inputs) != groups:  # a larger group must save one
            groups = -(-most // inputs)
            found.append(VertexType(method, vertex_in, options.partials_type, 1, inputs, chans))
    return found


def _group_sizes(channels: int, grain: int) -> list[int]:
    """Multiples of `grain` that each make fewer groups of `channels` than the last."""
    sizes, size = [], grain
    while size <= channels:
        sizes.append(size)
        groups = -(-channels // size)
        if groups == 1:
            break
        least = -(-channels // (groups - 1))
        size = rounded(least, grain)
    return sizes


def _vmac(target: Target, params: ConvParams, options: ConvOptions, joint: bool) -> list[VertexType]:
    vertex_in = "half" if params.input_type == "quarter" else params.input_type
    if vertex_in == "float":
        return []
    width = target.vector_width(vertex_in)
    groupings = [width]
    while width > 4:
        width //= 2
        groupings.append(width)
    if options.partials_type == "half":
        groupings += [8, 16]
    return [VertexType(Method("VMAC"), vertex_in, options.partials_type, groups, 1, 1)
            for groups in _groups_together(options, groupings)]


def _outer_product(target: Target, params: ConvParams, options: ConvOptions, joint: bool) -> list[VertexType]:
    given = params.input_type
    if given == "quarter" or not _allowed(options, "inChansPerGroup", [1]):
        return []
    chans = _constrained(options, "partialChansPerGroup")
    chans = target.vector_width(given) if chans is None else chans
    single = params.in_channels == 1 and all(a.kernel == 1 for a in params.axes)
    if chans < 1 or (TYPE_SIZES[given] < TYPE_SIZES[options.partials_type] and not single):
        return []
    return [VertexType(Method("OUTER_PRODUCT"), given, given, 1, 1, chans)]


_FINDERS = {"AMP": _amp, "SLIC": _slic, "HMAC": _hmac, "VMAC": _vmac, "OUTER_PRODUCT": _outer_product}
