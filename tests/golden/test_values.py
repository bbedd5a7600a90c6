"""Results of PopLibs' own host models of its ops. ``POPLIBS_OP_GOLDEN`` names the folder of cases.

Golden numbers are computed in float64 from operands that FP16 holds, so each case is run in FP32 and in FP16. A result
may lie from the golden number as far as the op's own bound says, which takes in float64's error; where a case says that
it is exact, it is the golden number, rounded once.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from poplibs_py import testing
from poplibs_py.formats import FP16, FP32, format_of
from poplibs_py.formats.bounds import Ball
from poplibs_py.poplin.tile_conv import ConvParams, FieldTransform, OutputTransform
from poplibs_py.popops.elementwise.table import ELEMENTWISE
from poplibs_py.testing import as_format, assert_same_bits, assert_within_bound

from .families import Arrays, Run, parameters
from .recurrent import gru, lstm, rnn

FORMATS = (FP32, FP16)
INTEGERS = {"int": np.int32, "unsigned": np.uint32, "unsigned int": np.uint32, "long long": np.int64,
            "unsigned long long": np.uint64, "short": np.int16, "unsigned short": np.uint16, "bool": bool}


def agree(case: Arrays, name: str, op: str, *operands: Any, lost: Any = 0.0, **keywords: Any) -> None:
    """Fail unless a call gives the golden array of this name, as exactly as the op and the case promise.

    `lost` is what the golden numbers' own computation takes away.
    """
    golden = case[name]
    ball = testing.bound(op, *operands, **keywords)
    got = testing.find_op(op).face(*operands, **keywords)
    assert_within_bound(got, ball, dtype=keywords.get("out_dtype"))
    assert_within_bound(got, Ball(golden, ball.radius + lost))
    if case.exact:
        assert_same_bits(got, as_format(golden, format_of(got)))


def matmul(case: Arrays) -> None:
    """Grouped products with alpha, and with beta onto what is there."""
    params = case.params
    for fmt in FORMATS:
        a, b, c = (as_format(case[name], fmt) for name in "abc")
        a = a.swapaxes(1, 2) if params["transposeA"] else a
        b = b.swapaxes(1, 2) if params["transposeB"] else b
        if params["beta"]:
            agree(case, "out", "matmul_grouped_acc", c, a, b, alpha=params["alpha"], beta=params["beta"])
        else:
            agree(case, "out", "matmul_grouped", a, b, alpha=params["alpha"])
            agree(case, "out", "matmul_grouped", a, b, alpha=params["alpha"], out_dtype="float32")


def fully_connected(case: Arrays) -> None:
    """A layer's three passes as grouped products; gradients of biases are reductions."""
    rate = case.params["learningRate"]
    for fmt in FORMATS:
        x, weights, grad, biases = (as_format(case[name], fmt) for name in ("x", "weights", "out_grad", "biases"))
        bias = biases.astype(np.float32).reshape(weights.shape[0], 1, -1)
        agree(case, "out", "matmul_grouped", x, weights, bias=bias)
        agree(case, "in_grad", "matmul_grouped", grad, weights.swapaxes(1, 2))
        agree(case, "weight_deltas", "matmul_grouped", x.swapaxes(1, 2), grad)
        agree(case, "weights_after", "matmul_grouped_acc", weights, x.swapaxes(1, 2), grad, alpha=-rate)


def conv_params(given: dict[str, Any]) -> ConvParams:
    """Params of a convolution in PopLibs' words."""

    def transforms(name: str, kind: Any, **words: str) -> list[Any]:
        columns = (given[name][word] for word in words.values())
        return [kind(**dict(zip(words, row, strict=True))) for row in zip(*columns, strict=True)]

    field = {"truncation_lower": "truncationLower", "truncation_upper": "truncationUpper", "dilation": "dilation",
             "padding_lower": "paddingLower", "padding_upper": "paddingUpper", "flip": "flip"}
    output = {name: word for name, word in field.items() if name not in ("dilation", "flip")} | {"stride": "stride"}
    return ConvParams.create(
        batch=given["batchSize"], field=given["inputFieldShape"], kernel=given["kernelShape"],
        in_channels=given["inputChannelsPerConvGroup"], out_channels=given["outputChannelsPerConvGroup"],
        groups=given["numConvGroups"], input_transform=transforms("inputTransform", FieldTransform, **field),
        kernel_transform=transforms("kernelTransform", FieldTransform, **field),
        output_transform=transforms("outputTransform", OutputTransform, **output),
    )  # fmt: skip


def conv(case: Arrays) -> None:
    """The three passes of a convolution, and its bias."""
    params, rate = conv_params(case.params["convParams"]), case.params["learningRate"]
    for fmt in FORMATS:
        x, weights, deltas, biases = (as_format(case[name], fmt) for name in ("x", "weights", "out_grad", "biases"))
        agree(case, "out", "convolution", x, weights, params=params, bias=biases)
        agree(case, "in_grad", "convolution_input_gradient", deltas, weights, params=params)
        agree(case, "biases_after", "convolution_bias_update", deltas, biases, -rate)
        agree(case, "bias_deltas", "convolution_bias_update", deltas, np.zeros_like(biases), 1.0)
        if "weight_deltas" in case.spec["outputs"]:
            agree(case, "weight_deltas", "calculate_weight_deltas", deltas, x, params=params,
                  out=np.empty_like(weights))
            agree(case, "weights_after", "convolution_weight_update", deltas, weights, x, -rate, params=params)


def agree_rounded(due: Any, op: str, *operands: Any, part: int | None = None, **keywords: Any) -> None:
    """For golden operands that FP32 does not hold: the reference gives the golden numbers, the op what it promises.

    `part` is which of several results is golden.
    """
    ball = testing.bound(op, *operands, out_dtype="float32", **keywords)
    assert_within_bound(due, ball if part is None else ball[part])
    for fmt in FORMATS:
        rounded = [as_format(x, fmt) if isinstance(x, np.ndarray) else x for x in operands]
        testing.check(op, *rounded, **keywords)


def linalg(case: Arrays) -> None:
    """Cholesky factors, and triangular systems with junk in what is not read; here and on a modelled machine."""
    params = case.params
    how = {"lower": params["lower"]}
    if case.spec["op"] != "cholesky":
        how |= {"left_side": params["leftSide"], "unit_diagonal": params["unitDiagonal"]}
    operands = [case[name] for name in case.spec["inputs"]]
    agree_rounded(case["out"], case.spec["op"], *operands, **how)
    for fmt in (FP32, FP16):
        testing.check(case.spec["op"], *(as_format(x, fmt) for x in operands), target="gc200", **how)


def elementwise(case: Arrays) -> None:
    """Operations by the names of their vertices; those of integers and truth values give the golden ones themselves."""
    [name] = [name for name, row in ELEMENTWISE.items() if row.vertex_op == case.params["op"]]
    operands = [case[operand] for operand in case.spec["inputs"]]
    kind = INTEGERS.get(case.params["dtype"])
    if kind is not None:
        got = testing.check(f"popops.{name}", *(x.astype(kind) for x in operands))
        np.testing.assert_array_equal(got, case["out"])
        return
    for fmt in FORMATS:
        given = [as_format(x, fmt) for x in operands]
        if ELEMENTWISE[name].tells:
            np.testing.assert_array_equal(testing.check(f"popops.{name}", *given), case["out"])
        else:
            agree(case, "out", f"popops.{name}", *given)


def embedding(case: Arrays) -> None:
    """Rows by index, read and updated, of groups too; PopLibs drops bad updates, or takes them to the first row."""
    params, indices = case.params, case["indices"]
    grouped = "grouped_" * (case["table"].ndim == 3)
    policy = "poplibs" if params.get("remapOutOfBoundIndices") else "zero" if "paddingIndexUsed" in params else "skip"
    policy = policy if "out of range" in case.spec["function"] else "raise"
    for fmt in FORMATS:
        table = as_format(case["table"], fmt)
        if case.spec["op"] == "multi_slice":
            agree(case, "out", "gather", table, indices, index_policy=policy)
            testing.check(f"popops.{grouped}multi_slice", table, indices, index_policy=policy)
            continue
        name = f"popops.{grouped}multi_update" + (f"_{params['operation'].lower()}" if params["operation"] else "")
        how = {} if params["scale"] is None else {"scale": params["scale"]}
        agree(case, "table_after", name, table, as_format(case["updates"], fmt), indices, index_policy=policy, **how)


def slicing(case: Arrays) -> None:
    """Windows, gather and scatter in PopLibs' words."""
    op, params = case.spec["op"], case.params
    for fmt in FORMATS:
        x = as_format(case["operand" if op == "scatter" else "x"], fmt)
        axes = tuple(range(x.ndim))
        if op == "dynamic_slice":
            agree(case, "out", op, x, np.array(params["offsets"]), axes, params["sizes"])
        elif op == "dynamic_update":
            agree(case, "out", op, x, as_format(case["slice"], fmt), np.array(params["offsets"]), axes)
        elif op == "gather_axis":
            agree(case, "out", "gather", x, case["indices"], params["axis"], index_policy="poplibs")
        elif op == "gather":
            agree(case, "out", "gather", x, case["indices"], index_vector_dim=params["indexVectorDim"],
                  offset_dims=params["offsetDims"], slice_sizes=params["sliceSizes"], index_policy="poplibs",
                  collapsed_slice_dims=params["collapsedSliceDims"], start_index_map=params["startIndexMap"])
        else:
            # some of these literals FP16 does not hold: the golden numbers are then those that it rounds them to
            due = as_format(case["out"], fmt)
            got = testing.check("scatter", x, case["indices"], as_format(case["updates"], fmt),
                                index_vector_dim=params["indexVectorDim"],
                                update_window_dims=params["updateWindowDims"],
                                inserted_window_dims=params["insertWindowDims"],
                                scatter_dims_to_operand_dims=params["scatterDimsToOperandDims"])
            np.testing.assert_array_equal(got, due)


def loss(case: Arrays) -> None:
    """Losses of probabilities, which the case's type holds, and deltas."""
    params = case.params
    fmt = FP32 if params["dtype"] == "float" else FP16
    how = {word: params[name] for word, name in (("deltas_scale", "deltasScale"),
                                                 ("model_output_scaling", "modelOutputScaling")) if params[name]}
    operands = as_format(case["probs"], fmt), case["labels"], params["lossType"]
    balls, got = testing.bound("calc_loss", *operands, **how), testing.check("calc_loss", *operands, **how)
    for name, ball, part in zip(("loss", "deltas"), balls, got, strict=True):
        assert_within_bound(part, Ball(case[name], ball.radius))


NONLINEARITIES = {"SIGMOID": "sigmoid", "HARD_SIGMOID": "hard_sigmoid", "RELU": "relu", "TANH": "tanh",
                  "GELU": "gelu_tanh", "GELU_ERF": "gelu_erf", "SWISH": "silu"}


def nonlinearity(case: Arrays) -> None:
    """Non-linearities and their gradients; GELU's is that of PopLibs' host model."""
    kind = case.params.get("type", "")
    if kind not in NONLINEARITIES:
        softmax(case, kind)
        return
    name = NONLINEARITIES[kind]
    how: dict[str, Any] = {"poplibs_exact": True} if kind == "GELU" else {}
    if case.params["gradientTakes"] == "output":  # 1 less a result that float64 has rounded
        how["lost"] = np.abs(case["out_grad"]) * 2.0**-51
    for fmt in FORMATS:
        x, grad = (as_format(case[part], fmt) for part in ("x", "out_grad"))
        agree(case, "out", f"popops.{name}", x)
        agree(case, "in_grad", f"popops.{name}_grad", grad, x, **how)


def softmax(case: Arrays, kind: str) -> None:
    """Softmax, perhaps scaled, and its logarithm; gradients take results that no format holds."""
    for fmt in FORMATS:
        x = as_format(case["x"], fmt)
        if not kind:
            agree(case, "out", "popnn.log_softmax", x)
        elif kind == "SOFTMAX_SCALED":
            agree(case, "out", "popnn.scaled_softmax_stable", x)
        else:
            agree(case, "out", "popnn.softmax", x)
    if kind:
        agree_rounded(case["in_grad"], "popnn.softmax_grad", case["out_grad"], case["out"] / case.params["scale"])


def norm(case: Arrays) -> None:
    """The steps of each kind of normalisation; those of groups have a channel for each group of each sample."""
    params, x = case.params, case["x"]
    batch, groups = params["type"] == "BATCH", case["mean"].shape[0] // x.shape[0]
    strided = params["groupNormStridedChannelGrouping"]

    def grouped(values: Any) -> Any:
        if batch:
            return values
        n, channels, *field = values.shape
        parts = values.reshape(n, channels // groups, groups, *field) if strided else None
        parts = np.swapaxes(parts, 1, 2) if strided else values.reshape(n, groups, channels // groups, *field)
        return parts.reshape(1, n * groups, -1)

    how = {"unbiased_var_estimate": params["unbiasedVarEstimate"]}
    acts, whitened, grad = grouped(x), grouped(case["whitened"]), case["out_grad"]
    inverse = case["inv_std_dev"]
    statistics = "norm_statistics", acts, params["eps"]
    for part, due in enumerate((case["mean"], case["inv_std_dev_kernel"].astype(float))):
        agree_rounded(due, *statistics, part=part, stable_algo=params["stableAlgo"], **how)
    agree_rounded(whitened, "norm_whiten", acts, case["mean"], inverse)
    agree_rounded(case["out"], "normalise", case["whitened"], case["gamma"], case["beta"])
    for part, name in enumerate(("gamma_grad", "beta_grad")):
        agree_rounded(case[name], "norm_param_gradients", grad, case["whitened"], part=part)
    scaled = grad * case["gamma"].reshape(1, -1, *(1,) * (x.ndim - 2))
    agree_rounded(scaled, "norm_gradients", grad, case["gamma"])
    agree_rounded(grouped(case["in_grad"]), "norm_statistics_gradients", grouped(scaled), whitened, inverse,
                  poplibs_exact=True, **how)
    if not params["unbiasedVarEstimate"]:  # where the reference adds epsilon as PopLibs' kernels do
        whole_norm(case, batch, groups, strided)


def whole_norm(case: Arrays, batch: bool, groups: int, strided: bool) -> None:
    """A norm by one op, and its gradients by another."""
    kind, between = ("popnn.batch_norm", ()) if batch else ("popnn.group_norm", (groups,))
    how = {"eps": case.params["eps"]} | ({} if batch else {"strided_channel_grouping": strided})
    agree_rounded(case["out"], kind, case["x"], *between, case["gamma"], case["beta"], **how)
    for part, name in enumerate(("in_grad", "gamma_grad", "beta_grad")):
        operands = case["out_grad"], case["x"], *between, case["gamma"]
        agree_rounded(case[name], f"{kind}_grad", *operands, part=part, **how)


def reduce(case: Arrays) -> None:
    """Reductions with a scale, and onto what is there."""
    params = case.params
    for fmt in FORMATS:
        how = {"scale": params["scale"]}
        if params["update"]:
            how |= {"update": True, "out": as_format(case["prev"], fmt)}
        agree(case, "out", "reduce", as_format(case["x"], fmt), tuple(params["dims"]), params["operation"], **how)


def pool(case: Arrays) -> None:
    """Poolings and their gradients; of maxima also those that ties share."""
    given = case.params["poolParams"]
    op, padding = given["poolingType"].lower(), tuple(zip(
        given["inputTruncationOrPaddingLower"], given["inputTruncationOrPaddingUpper"], strict=True))
    how = {"stride": tuple(given["stride"]), "padding": padding}
    kernel = tuple(given["kernelShape"])
    for fmt in FORMATS:
        x, grad, out = (as_format(case[name], fmt) for name in ("x", "out_grad", "out"))
        agree(case, "out", "popnn.pool", x, kernel, op, **how)
        if op != "max":
            agree(case, "in_grad", "pool_input_gradient", grad, x.shape, kernel, op, **how)
            continue
        for name, scaled in (("in_grad", False), ("in_grad_scaled", True)):
            agree(case, name, "pool_input_gradient", grad, x.shape, kernel, x=x, pooled_x=out,
                  use_scaled_gradient=scaled, **how)


def roi_align(case: Arrays) -> None:
    """Regions' samples and their gradients, which the model computes in FP32."""
    params, data, rois, index, grad = case.params, *(case[name] for name in ("data", "rois", "batch_index", "out_grad"))
    how = {"sampling_ratio": params["samplingRatio"], "aligned": params["aligned"],
           "spatial_scale": params["spatialScale"]}
    bins = params["alignedHeight"], params["alignedWidth"]
    for fmt in FORMATS:
        boxes = as_format(rois, FP32)
        for op, due, *operands in (("roi_align", case["out"], data, boxes, index, *bins),
                                   ("roi_align_input_gradient", case["in_grad"], grad, boxes, index, data.shape)):
            given = as_format(operands[0], fmt), *operands[1:]
            ball = testing.bound(op, *given, out_dtype="float32", **how)
            assert_within_bound(due.astype(np.float64), Ball(ball.centre, 2 * ball.radius))  # its own roundings
            testing.check(op, *given, **how)


def histogram(case: Arrays) -> None:
    """Counts between levels."""
    params = case.params
    for fmt in FORMATS:
        how: dict[str, Any] = {"absolute_of_input": params["absoluteOfInput"]}
        if params["updateOutput"]:
            how |= {"update": True, "out": case["init"].astype(np.uint32)}
        agree(case, "out", "histogram", as_format(case["x"], fmt), as_format(case["levels"], fmt), **how)


def scaled_add(case: Arrays) -> None:
    """Sums of scaled arrays: A + sB, A - sB, sA + sB, sA - sB; A - sA + sB has two scales of its own."""
    form, scale, scale_a = (case.params[name] for name in ("form", "scaleB", "scaleA"))
    for fmt in FORMATS:
        a, b = (as_format(case[name], fmt) for name in "ab")
        if form in ("A+sB", "sA+sB"):
            agree(case, "out", "scaled_add", a, b, scale, scale_a=scale_a)
        elif form in ("A-sB", "sA-sB"):
            agree(case, "out", "scaled_subtract", a, b, scale, scale_a=scale_a)
        else:
            agree(case, "out", "x_minus_ax_plus_by", a, b, scale_a, scale)


def topk(case: Arrays) -> None:
    """The best of rows, the first of equal ones first."""
    params = case.params
    how = {"largest": params["largest"], "sort_order": params["sortOrder"].lower()}
    if how["sort_order"] == "none":  # any order there; golden ones ascend
        how["sort_order"] = "ascending"
    for fmt in FORMATS:
        got = testing.check("top_k_with_permutation", as_format(case["x"], fmt), params["k"], **how)
        assert_same_bits(got.values, as_format(case["values"], fmt))
        np.testing.assert_array_equal(got.indices, case["indices"])


def normalise_image(case: Arrays) -> None:
    """Pixels of bytes."""
    agree(case, "out", "normalise_image", case["x"].astype(np.uint8), case["offsets"].astype(np.float32),
          case["scales"].astype(np.float32), case.params["inScale"])


def spline_basis(case: Arrays) -> None:
    """Values of splines, and whose weights they are for."""
    for fmt in FORMATS:
        operands = as_format(case["pseudo"], fmt), case["kernel_size"], case["is_open"], case.params["degree"]
        basis, places = testing.bound("spline_basis", *operands)
        got = testing.check("spline_basis", *operands)
        if fmt == FP32:  # the golden numbers are of FP32, step by step
            rounded = Ball(basis.centre, basis.radius + 32 * FP32.unit_roundoff)
            assert_within_bound(case["basis"], rounded)
        np.testing.assert_array_equal(got.weight_index, case["weight_index"])
        np.testing.assert_array_equal(places.centre, case["weight_index"])


def spline_weighting(case: Arrays) -> None:
    """Edges weighted by splines."""
    operands = [case[name] for name in ("input", "weight", "basis")]
    for fmt in FORMATS:
        agree(case, "out", "spline_weighting", *(as_format(x, fmt) for x in operands), case["weight_index"])


def encode_one_hot(case: Arrays) -> None:
    """Rows of a one, of every type that PopLibs has them of."""
    params = case.params
    for dtype in ("float32", "float16", "int32", "uint32"):
        agree(case, "out", "encode_one_hot", case["indices"], params["length"], on=params["on"], off=params["off"],
              dtype=dtype)


def ctc_loss(case: Arrays) -> None:
    """Losses and gradients; of impossible labels PopLibs' loss is about 65504, here it is infinite."""
    params = case.params
    logits = "Logits" in case.spec["function"]
    how = {"blank": params["blankClass"], "logits": logits, "zero_infinity": params["zeroInfinity"]}
    rest = case["labels"], case["data_lengths"], case["label_lengths"]
    for fmt in FORMATS:
        data = as_format(case["data"], fmt)
        loss, grad = testing.check("ctc_loss_and_gradient", data, *rest, **how)
        balls = testing.bound("ctc_loss_and_gradient", data.astype(np.float64).astype(np.float32), *rest, **how,
                              out_dtype=fmt)
        possible = np.isfinite(loss) & (case["loss"] < 0.9 * 65504)
        assert (~np.isfinite(loss) | (loss == 0))[~possible].all()
        due = Ball(case["loss"], balls[0].radius), Ball(case["grad"], balls[1].radius)
        if fmt == FP32 or logits:  # FP16 does not hold the logarithms
            assert_within_bound(loss[possible], due[0][possible])
            assert_within_bound(grad[:, possible], due[1][:, possible])
        testing.check("ctc_loss", data, *rest, **how)


def ctc_infer(case: Arrays) -> None:
    """Labels and log-probabilities of beams that are prefixes; PopLibs' logarithm of 0 is -65504."""
    params = case.params
    logits = "Logits" in case.spec["function"]
    how = {"blank": params["blankClass"], "logits": logits, "beams": params["beamwidth"],
           "top_paths": params["topPaths"]}
    for fmt in FORMATS:
        data = as_format(case["data"], fmt)
        log_probs, lengths, labels = testing.check("ctc_beam_search_decoder", data, case["data_lengths"], **how)
        if fmt == FP16 and not logits:  # it does not hold the logarithms
            continue
        ball = testing.bound("ctc_beam_search_decoder", data, case["data_lengths"], **how)[0]
        used = case["label_log_prob"] > -60000
        assert_within_bound(log_probs[used], Ball(case["label_log_prob"], ball.radius)[used])
        clear = used & np.isfinite(ball.radius)
        assert clear.any()
        np.testing.assert_array_equal(lengths[clear], case["label_lengths"][clear])
        np.testing.assert_array_equal(labels[clear], case["decoded_labels"].astype(np.int32)[clear])
        assert (log_probs[~used] == -np.inf).all()


def scalars_of_rows(case: Arrays) -> None:
    """One element of each row, read or changed."""
    for fmt in FORMATS:
        agree(case, "out", case.spec["op"], as_format(case["x"], fmt), case["indices"])


MISCELLANEOUS: dict[str, Run] = {"encode_one_hot": encode_one_hot, "histogram": histogram,
                                 "normalise_image": normalise_image, "scaled_add": scaled_add,
                                 "select_scalar_from_rows": scalars_of_rows, "spline_basis": spline_basis,
                                 "spline_weighting": spline_weighting, "update_scalar_in_rows": scalars_of_rows}
"""A line for each op of the family of odds and ends that is built."""


def popops_misc(case: Arrays) -> None:
    """One of many ops."""
    op = case.spec["op"]
    if op not in MISCELLANEOUS:
        pytest.skip(f"{op}: not built yet")
    MISCELLANEOUS[op](case)


FAMILIES: dict[str, Run] = {"conv": conv, "ctc_infer": ctc_infer, "ctc_loss": ctc_loss, "elementwise": elementwise,
                            "embedding": embedding, "fully_connected": fully_connected, "gru": gru, "linalg": linalg,
                            "loss": loss, "lstm": lstm, "matmul": matmul, "nonlinearity": nonlinearity, "norm": norm,
                            "pool": pool, "popops_misc": popops_misc, "reduce": reduce, "rnn": rnn,
                            "roi_align": roi_align, "slicing": slicing, "topk": topk}
"""A line for each family that is built: the file's name, and what runs one of its cases."""


@pytest.mark.parametrize(("run", "case"), parameters("POPLIBS_OP_GOLDEN", "op-golden", ".npz", FAMILIES))
def test_the_result_is_that_of_the_original(run: Run, case: Arrays) -> None:
    run(case)
