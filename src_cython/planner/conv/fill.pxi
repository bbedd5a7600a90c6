# From the dicts that Python makes to the records of the cost model, and back.

_METHODS = {"AMP": AMP, "SLIC": SLIC, "HMAC": HMAC, "VMAC": VMAC, "OUTER_PRODUCT": OUTER_PRODUCT}


cdef fill_pass(Pass* p, dict f, list kept):
    cdef const int64_t[::1] ends
    cdef int d
    p.machine = <dict?>f["machine"]
    p.ndim = len(f["dims"])
    if not 1 <= p.ndim <= MAX_DIMS:
        raise ValueError("dims: too many")
    for d in range(p.ndim):
        p.dims[d] = <dict?>f["dims"][d]
        p.kernel0[d], p.cast_ends[d], ends = f["kernel0"][d], NULL, f["dims"][d]["cast_end"]
        if ends is not None:
            if ends.shape[0] <= p.dims[d].out:
                raise ValueError("cast_end: too short")
            kept.append(ends)
            p.cast_ends[d] = <int64_t*>&ends[0]
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


cdef dict costs_dict(const Costs* c):
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
