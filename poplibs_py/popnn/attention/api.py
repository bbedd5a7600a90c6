"""Scaled dot-product attention, and its gradient."""

from __future__ import annotations

from typing import Any, NamedTuple

from ...checks import flag
from ...formats import FP32
from ...ops import one_scale_operand, op, receive, result_format
from ...ops.parts import Part, part_format, results
from ...planner import Memory
from ...target import TargetLike
from . import request as _request
from .request import checked_how, heads_of, logarithms, taken_mask, tokens_operand


class Attention(NamedTuple):
    """What attention returns with ``return_lse``: its result, and the logarithms of sums of exponentials."""

    y: Any
    lse: Any


class AttentionGradients(NamedTuple):
    """What the gradient of attention returns: with respect to queries, keys and values."""

    q_grad: Any
    k_grad: Any
    v_grad: Any


@op(bound="popnn.attention.bound", draws="testing.attention_calls")
def scaled_dot_product_attention(q: Any, k: Any, v: Any, mask: Any = None, *, scale: float | None = None,
                                 causal: bool = False, query_offset: int = 0, pattern: Any = None,
                                 return_lse: bool = False, out: Any = None, out_dtype: object = None,
                                 available_memory_proportion: float | None = None, strict_memory: bool = False,
                                 target: TargetLike = None) -> Any:
    """Scaled dot-product attention: softmax(scale q k' + mask) v, without a matrix of scores.

    Parameters
    ----------
    q : array_like or QuarterArray [..., heads, queries, elements]
        Queries: float32, float16, bfloat16 or FP8, of any strides; copied where a token's elements are apart. Two axes
        are one head.
    k : array_like or QuarterArray [..., heads of keys, keys, elements]
        Keys. There may be fewer heads of keys than of queries, by a divisor: neighbouring query heads share them then.
    v : array_like or QuarterArray [..., heads of keys, keys, value elements]
        Values.
    mask : array_like, optional
        What broadcasts to [..., heads, queries, keys]: truth values, False where a key does not count, or float32,
        float16 or bfloat16 numbers that are added to scores.
    scale : float, optional
        What scores are multiplied by; by default one over the root of a query's elements.
    causal : bool, optional
        Whether keys after a query do not count for it.
    query_offset : int, optional
        With `causal`, the first query's place among the keys: by default 0, as in torch; the number of earlier tokens
        where keys come from a cache.
    pattern : BlockPattern, optional
        Of queries by keys: only scores in its blocks count and are computed. It has one group for all heads, or one for
        each query head, or for each of each batch.
    return_lse : bool, optional
        Whether to return the logarithms of the sums of exponentials too, which the gradient takes.
    out : array or QuarterArray, optional
        Where the result goes, of any strides; it may overlap operands. With `return_lse` a pair of arrays.
    out_dtype : Format, dtype or str, optional
        The result's format; by default that of `out`, or by the rule of all ops.
    available_memory_proportion : float, optional
        The share of a tile's memory that temporaries may take: with less than all keys and values of a head take packed
        every strip of queries packs them again. None, the default, and 0 set no limit; on a modelled machine None is
        PopLibs' 0.6.

    Returns
    -------
    numpy.ndarray [..., heads, queries, value elements], or Attention
        A query for which no key counts gives 0, and minus infinity as its logarithm.

    Notes
    -----
    Scores are sums in FP32, in ascending order of elements, or in 16 lanes where there are one or two bfloat16 queries;
    scale and mask are FP32, rounded each. Keys come 256 at a time, or the blocks of a pattern up to 512: exponentials
    of what a score is below the greatest one so far, as
    powers of 2 within 1 ulp. Their sum is FP32, and where a greater score comes, what was summed is scaled by an
    exponential. Where all of q, k and v are bfloat16 and this CPU multiplies that, exponentials are within 2^-18, and
    rounded to bfloat16 before they meet the values, and subnormal products may count as 0; else products are FP32. The
    result is divided by the sum, and rounded once more to its format. The bits are the same for any number of threads;
    those of FP32 products are the same at every level too. Scores may be as large as FP32 is: -1e30, or the least
    number, in a mask is as False beside others, and where all of a query's are so its keys count alike. PopLibs has no
    such function.

    Examples
    --------
    >>> q, k = np.zeros((2, 1), np.float32), np.ones((2, 1), np.float32)
    >>> popnn.scaled_dot_product_attention(q, k, np.array([[1.0], [3.0]], np.float32), causal=True)
    array([[1.],
           [2.]], dtype=float32)
    """
    reads = {"q": tokens_operand("q", q), "k": tokens_operand("k", k), "v": tokens_operand("v", v)}
    h = heads_of(*reads.values())
    memory = Memory(available_memory_proportion, strict_memory)
    how = checked_how(h, scale, causal, query_offset, pattern, memory, target)
    masked = None if mask is None else taken_mask(mask, h)
    default, shape = result_format(*reads.values()), h.shape(h.value_width)
    if flag("return_lse", return_lse):
        form = part_format(out_dtype, *reads.values())
        makes = [("y", shape, form, 0), ("lse", h.shape(), FP32, 0)]
        made = results(out, [Part(shape, fmt) for _, shape, fmt, _ in makes], Attention)
        return _request.request("scaled_dot_product_attention", h, how, reads, masked, makes, made)
    receiver = receive("out", out, shape, out_dtype, default, contiguous=True)
    makes = [("y", shape, receiver.format, receiver.scale)]
    return _request.request("scaled_dot_product_attention", h, how, reads, masked, makes, receiver)


@op(bound="popnn.attention.bound", draws="testing.attention_calls")
def scaled_dot_product_attention_grad(grad: Any, q: Any, k: Any, v: Any, y: Any, lse: Any, mask: Any = None, *,
                                      scale: float | None = None, causal: bool = False, query_offset: int = 0,
                                      pattern: Any = None, out: Any = None, out_dtype: object = None,
                                      available_memory_proportion: float | None = None, strict_memory: bool = False,
                                      target: TargetLike = None) -> Any:
    """Gradients of `scaled_dot_product_attention` with respect to queries, keys and values.

    Parameters
    ----------
    grad : array_like or QuarterArray [..., heads, queries, value elements]
        The gradient of the result.
    q, k, v, mask, scale, causal, query_offset, pattern
        As `scaled_dot_product_attention` had them.
    y : array_like or QuarterArray
        What that returned, with ``return_lse``.
    lse : array_like of float32 [..., heads, queries]
        And its logarithms.
    out : tuple of three arrays, optional
        Where the results go.
    out_dtype : Format, dtype or str, optional
        The results' format; by default each has that of its operand, or float16 where that is FP8.
    available_memory_proportion : float, optional
        As there. Sums for all keys and values of a head are taken in any case.
    strict_memory : bool, optional
        As there.

    Returns
    -------
    AttentionGradients
        ``q_grad``, ``k_grad``, ``v_grad``: each of its operand's shape. Query heads that share keys add to the same.

    Notes
    -----
    Scores come again, as there, tile by tile. A weight is the exponential of a score less its query's `lse`, as
    there; its gradient is the product of `grad` and the value; that of the score is the weight times what this is above
    the sum of ``grad * y``. All of that is FP32, and so are all sums. Where grad, q, k and v are all bfloat16 and this
    CPU multiplies that, weights and gradients of scores are rounded to bfloat16 before they are multiplied. What heads
    share is summed by one thread: the bits are the same for any number of threads, and those of FP32 products at every
    level. Since `lse` is an FP32 number, weights are within ``2**-24 * abs(lse)`` of themselves beside the rest: of
    scores about 1e4 within 6e-4, and from about 1e9 on a greatest one has the weight 1, however many are like it.

    Examples
    --------
    >>> q, k = np.zeros((1, 1), np.float32), np.ones((2, 1), np.float32)
    >>> v = np.array([[1.0], [3.0]], np.float32)
    >>> y, lse = popnn.scaled_dot_product_attention(q, k, v, return_lse=True)
    >>> popnn.scaled_dot_product_attention_grad(np.ones_like(y), q, k, v, y, lse).v_grad
    array([[0.5],
           [0.5]], dtype=float32)
    """
    reads = {"q": tokens_operand("q", q), "k": tokens_operand("k", k), "v": tokens_operand("v", v)}
    h = heads_of(*reads.values())
    memory = Memory(available_memory_proportion, strict_memory)
    how = checked_how(h, scale, causal, query_offset, pattern, memory, target)
    shape = h.shape(h.value_width)
    masked = None if mask is None else taken_mask(mask, h)
    makes = [(f"{name}_grad", x.shape, part_format(out_dtype, x), 0) for name, x in reads.items()]
    reads |= {"grad": one_scale_operand("grad", grad, shape), "y": one_scale_operand("y", y, shape),
              "lse": logarithms(lse, h.shape())}
    made = results(out, [Part(shape, fmt) for _, shape, fmt, _ in makes], AttentionGradients)
    return _request.request("scaled_dot_product_attention_grad", h, how, reads, masked, makes, made)
