"""Joint plans of a fully connected layer: one split that serves forward, backward and weight update."""

from __future__ import annotations

import dataclasses

from ...errors import PlanError
from ...target import Target
from .axis import Axis
from .model import PassSetup, conv_types
from .options import ConvOptions
from .params import ConvParams
from .plan import ConvPlan, Partition, Split
from .transforms import TransformedParams
from .vertices import Method, VertexType, vertex_candidates


def pass_params(params: ConvParams, from_pass: str, to_pass: str) -> ConvParams:
    """Params of one pass of a fully connected layer from those of another.

    A layer has a batch, inputs and outputs. Forward multiplies batch x inputs by inputs x outputs;
    backward swaps inputs and outputs, the weight update inputs and batch.
    """
    batch, inputs, outputs = params.batch, params.in_channels, params.out_channels
    for pass_ in (from_pass, to_pass):  # each swap undoes itself
        if pass_ == "FC_TRAINING_BWD":
            inputs, outputs = outputs, inputs
        elif pass_ == "FC_TRAINING_WU":
            inputs, batch = batch, inputs
    return params.derived(batch=batch, in_channels=inputs, out_channels=outputs, axes=(Axis(1, 1),))


def joint_setups(target: Target, params: ConvParams, forward: PassSetup) -> list[PassSetup | None]:
    """Forward, backward and weight update of a candidate; None where a pass has nothing to do."""
    return [forward, _backward_setup(target, params, forward), _update_setup(target, params, forward)]


def _backward_setup(target: Target, params: ConvParams, f: PassSetup) -> PassSetup | None:
    if params.in_channels == 0 or params.out_channels == 0:
        return None
    in_grain, out_grain = f.field_grain[-1], f.grains[2]
    vertex = backward_vertex(target, f.vertex.method, in_grain, out_grain, params, f.options)
    options = f.options.for_gradient()
    stages = TransformedParams(*(_with_field_and_inputs_swapped(s) for s in _stages(f)))
    return f._replace(stages=stages, vertex=vertex, types=conv_types(vertex.partial_type, params.output_type, options),
                      options=options, field_grain=(*f.field_grain[:-1], f.vertex.in_chans),
                      grains=(f.grains[0], in_grain, out_grain), derived=True)


def _update_setup(target: Target, params: ConvParams, f: PassSetup) -> PassSetup | None:
    if f.stages.padded.in_channels == 0 or f.stages.padded.axes[-1].field == 0:
        return None
    vertex = weight_update_vertex(target, f.vertex.method, f.vertex.partial_chans, f.vertex.in_chans, params, f.options)
    options = f.options.for_weight_update()
    swapped = (s.derived(in_channels=s.out_channels, out_channels=s.in_channels) for s in _stages(f))
    return f._replace(stages=TransformedParams(*swapped), vertex=vertex,
                      types=conv_types(vertex.partial_type, params.output_type, options), options=options,
                      grains=(f.grains[0], f.grains[2], f.grains[1]), derived=True)


def _stages(f: PassSetup) -> tuple[ConvParams, ConvParams, ConvParams]:
    return f.stages.view, f.stages.unpadded, f.stages.padded


def _with_field_and_inputs_swapped(p: ConvParams) -> ConvParams:
    last = p.axes[-1]
    return p.derived(in_channels=last.field, axes=(*p.axes[:-1], last._replace(field=p.in_channels)))


# Vertices of the derived passes --------------------------------------------------------------------


def backward_vertex(target: Target, forward: Method, in_chans: int, out_chans: int, params: ConvParams,
                    options: ConvOptions) -> VertexType:
    """What the backward pass computes with: as forward, or HMAC for an outer product."""
    swapped = params.gradient().swapped()
    options = options.for_gradient()
    method = forward if forward.type != "OUTER_PRODUCT" else Method("HMAC", limited=True)
    grouped = forward.type == "AMP"
    return _derived_vertex(target, method, swapped, options, in_chans, out_chans, grouped)


def weight_update_vertex(target: Target, forward: Method, in_chans: int, out_chans: int, params: ConvParams,
                         options: ConvOptions) -> VertexType:
    """What the weight update computes with; its groupings are forward's, swapped."""
    swapped = params.weight_update().swapped()
    options = options.for_weight_update()
    if swapped.in_channels == 1 and in_chans == 1:
        method = Method("OUTER_PRODUCT")
    elif out_chans != 1:
        method = Method("AMP")
    else:
        method = forward if forward.type != "OUTER_PRODUCT" else Method("HMAC", limited=True)
    grouped = (forward.type == "AMP" and method.type == "AMP") or method.type == "OUTER_PRODUCT"
    return _derived_vertex(target, method, swapped, options, in_chans, out_chans, grouped)


def _derived_vertex(target: Target, method: Method, params: ConvParams, options: ConvOptions, in_chans: int,
                    out_chans: int, grouped: bool) -> VertexType:
    if method.type in ("HMAC", "VMAC"):
        return VertexType(method, params.input_type, options.partials_type, 1, in_chans, out_chans)
    constraints = options.plan_constraints.merged({"method.type": method.type})
    if grouped:
        constraints = constraints.merged({"inChansPerGroup": in_chans, "partialChansPerGroup": out_chans})
    options = dataclasses.replace(options, plan_constraints=constraints)
    found = vertex_candidates(target, params, options, joint=True)
    if not found:
        raise PlanError(f"no {method.type} vertex serves the {options.pass_} pass of a joint plan")
    return found[0][1]


# Plans of the derived passes -----------------------------------------------------------------------


def backward_plan(target: Target, params: ConvParams, options: ConvOptions, plan: ConvPlan) -> ConvPlan:
    """The backward pass' plan from a joint forward plan."""
    p = plan.partition
    partition = dataclasses.replace(p, field_split=(*p.field_split[:-1], p.in_chan_split.parallel),
                                    in_chan_split=Split(p.in_chan_split.serial, p.field_split[-1]),
                                    field_grain=(*p.field_grain[:-1], p.in_chan_grain), in_chan_grain=p.field_grain[-1])
    vertex = backward_vertex(target, plan.method, partition.in_chan_grain, plan.partial_chans_per_group, params,
                             options)
    return dataclasses.replace(
        _derived_plan(plan, partition, vertex, params, options.for_gradient(), plan.backward_costs),
        in_chans_per_group=partition.in_chan_grain, order="FC_BWD_AS_CONV")


def weight_update_plan(target: Target, params: ConvParams, options: ConvOptions, plan: ConvPlan) -> ConvPlan:
    """The weight update's plan from a joint forward plan."""
    p = plan.partition
    vertex = weight_update_vertex(target, plan.method, plan.partial_chans_per_group, plan.in_chans_per_group, params,
                                  options)
    partition = dataclasses.replace(p, in_chan_split=p.out_chan_split, out_chan_split=p.in_chan_split,
                                    in_chan_grain=vertex.in_chans, out_chan_grain=vertex.partial_chans)
    derived = _derived_plan(plan, partition, vertex, params, options.for_weight_update(), plan.weight_update_costs)
    return dataclasses.replace(
        derived, conv_groups_per_group=1 if vertex.method.type == "OUTER_PRODUCT" else plan.conv_groups_per_group,
        in_chans_per_group=vertex.in_chans, partial_chans_per_group=vertex.partial_chans, order="FC_WU")


def _derived_plan(plan: ConvPlan, partition: Partition, vertex: VertexType, params: ConvParams, options: ConvOptions,
                  costs: dict[str, int] | None) -> ConvPlan:
    return dataclasses.replace(plan, method=vertex.method, partitions=(partition,),
                               types=conv_types(vertex.partial_type, params.output_type, options), costs=costs or {},
                               backward_costs=None, weight_update_costs=None)
