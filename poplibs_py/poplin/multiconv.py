"""Several convolutions in one call, as PopLibs' ``poplin::multiconv`` has them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from inspect import signature
from typing import Any

from ..errors import PoplibsError, bad_type, check_keys
from ..ops import Operand, Request, op
from ..program import arrays_in
from ..target import TargetLike
from .conv import api
from .conv.request import Pass, deltas_pass, forward_pass, update_pass
from .conv.several import several_request
from .product.api import keywords_of

__all__ = ["calculate_weight_deltas", "convolution", "convolution_weight_update"]


def _request_by(face: Any, describe: Callable[..., Pass], out_of: Callable[[Any], Any]) -> Callable[..., Request]:
    """Return what describes several calls of a face, of each of which `describe` makes a pass."""
    def request(_: str, /, calls: Any, multi_options: Mapping[str, Any] | None, **of_all: Any) -> Request:
        passes = passes_of(face, describe, calls, of_all)
        for one, begins in zip(passes, _begins(calls, face, of_all), strict=True):
            for operand in (*one.reads, one.receiver):
                _place(operand, begins)
        return several_request(calls, passes, multi_options, out_of)

    return request


def passes_of(face: Any, describe: Callable[..., Pass], calls: Any, of_all: Mapping[str, Any]) -> list[Pass]:
    """Return the passes of several calls of a face, with the arguments of all; errors say which call they are of."""
    passes = []
    for number, call in enumerate(calls_of(face, calls, of_all)):
        try:
            passes.append(describe(**call, **of_all))
        except PoplibsError as error:
            if str(error).partition(":")[0] in of_all:
                raise
            raise type(error)(f"calls[{number}], {error}") from None
    return passes


def _place(operand: Operand | None, begins: Mapping[str, int]) -> None:
    """Say which of the arrays in `calls` an operand is, of which it is told which argument's it is."""
    if operand is None:
        return
    _place(operand.scales, begins)
    if operand.place is not None:
        name, part = operand.place
        operand.place = ("calls", begins[name] + part)


def _begins(calls: Any, face: Any, of_all: Mapping[str, Any]) -> Iterator[dict[str, int]]:
    """Of each call, which number the first array of each argument has among all in `calls`, in the order of the key."""
    number, names = 0, _operands(face, of_all)
    for call in calls:
        begins = {}
        named = call[len(names)] if len(call) > len(names) else {}
        for name, value in (*zip(names, call, strict=False), *named.items()):
            begins[name] = number
            number += arrays_in(value)
        yield begins


@op("poplin::multiconv::convolution", bound="poplin.multiconv_bound",
    draws="testing.conv_calls:several_convolution_calls", written=None, values=("seed",),
    by=_request_by(api.convolution, forward_pass, lambda call: call[2]["out"]))
def convolution(calls: Sequence[Any], *, target: TargetLike = None, seed: Any = None,
                multi_options: Mapping[str, Any] | None = None) -> Any:
    """Convolve several arrays of images, each with weights of its own, in one program.

    Corresponds to PopLibs' ``poplin::multiconv::convolution``. Results are those of `poplibs_py.poplin.convolution`,
    call by call on this CPU, plan by plan on a modelled machine.

    Parameters
    ----------
    calls : sequence
        Of each convolution ``(x, weights)`` or ``(x, weights, keywords)``, a mapping of the keywords of `convolution`,
        but for those below.
    target, seed : optional
        As for `convolution`, of all.
    multi_options : mapping, optional
        On a modelled machine, as for `poplibs_py.poplin.plan_convolutions`.

    Returns
    -------
    list of numpy.ndarray or QuarterArray
        A result for each.

    Notes
    -----
    On this CPU threads share the work of all, so that several small convolutions, each too small for more than one
    thread, run side by side. On a modelled machine they are planned together, each on tiles of its own, or in turn
    where that fails.

    Examples
    --------
    >>> import numpy as np
    >>> from poplibs_py.poplin import multiconv
    >>> x, w = np.ones((1, 1, 3), np.float32), np.ones((1, 1, 2), np.float32)
    >>> multiconv.convolution([(x, w), (x, w, {"padding": 1})])
    [array([[[2., 2.]]], dtype=float32), array([[[1., 2., 2., 1.]]], dtype=float32)]
    """


@op("poplin::multiconv::calculateWeightDeltas", bound="poplin.multiconv_bound",
    draws="testing.conv_calls:several_calculate_weight_deltas_calls", written=None, values=("seed",),
    by=_request_by(api.calculate_weight_deltas, deltas_pass, lambda call: call[2]["out"]))
def calculate_weight_deltas(calls: Sequence[Any], *, target: TargetLike = None, seed: Any = None,
                            multi_options: Mapping[str, Any] | None = None) -> Any:
    """Return the gradients of several convolutions' weights, in one program.

    Corresponds to PopLibs' ``poplin::multiconv::calculateWeightDeltas``.

    Parameters
    ----------
    calls : sequence
        Of each convolution ``(deltas, x)`` or ``(deltas, x, keywords)``, a mapping of the keywords of
        `poplibs_py.poplin.calculate_weight_deltas`, but for those below.
    target, seed, multi_options : optional
        As for `convolution`.

    Returns
    -------
    list of numpy.ndarray or QuarterArray

    Examples
    --------
    >>> import numpy as np
    >>> from poplibs_py.poplin import multiconv
    >>> x = np.arange(5, dtype=np.float32).reshape(1, 1, 5)
    >>> multiconv.calculate_weight_deltas([(np.ones((1, 1, 3), np.float32), x)])
    [array([[[3., 6., 9.]]], dtype=float32)]
    """


@op("poplin::multiconv::convolutionWeightUpdate", bound="poplin.multiconv_bound",
    draws="testing.conv_calls:several_convolution_weight_update_calls", written=None,
    by=_request_by(api.convolution_weight_update, update_pass, lambda call: call[1]))
def convolution_weight_update(calls: Sequence[Any], *, target: TargetLike = None,
                              multi_options: Mapping[str, Any] | None = None) -> Any:
    """Update the weights of several convolutions in place by their gradients, in one program.

    Corresponds to PopLibs' ``poplin::multiconv::convolutionWeightUpdate``. Results are those of
    `poplibs_py.poplin.convolution_weight_update`, call by call on this CPU, plan by plan on a modelled machine.

    Parameters
    ----------
    calls : sequence
        Of each convolution ``(deltas, weights, x, scale)`` or ``(deltas, weights, x, scale, keywords)``, a mapping of
        the keywords of `poplibs_py.poplin.convolution_weight_update`, but for those below. No call's weights may share
        memory with another call's arrays.
    target, multi_options : optional
        As for `convolution`.

    Returns
    -------
    list of numpy.ndarray or QuarterArray
        The weights of each.

    Examples
    --------
    >>> import numpy as np
    >>> from poplibs_py.poplin import multiconv
    >>> x, w = np.arange(5, dtype=np.float32).reshape(1, 1, 5), np.zeros((1, 1, 3), np.float32)
    >>> multiconv.convolution_weight_update([(np.ones((1, 1, 3), np.float32), w, x, -0.5)])
    [array([[[-1.5, -3. , -4.5]]], dtype=float32)]
    """


def calls_of(face: Any, calls: Any, of_all: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Check calls, and return all arguments of the face, but for those of all calls."""
    operands = _operands(face, of_all)
    known = {name: default for name, default in keywords_of(face).items() if name not in of_all}
    names, count, found = ", ".join(operands), len(operands), []
    if not isinstance(calls, (list, tuple)):
        raise bad_type("calls", calls, f"a list of ({names}) or ({names}, keywords)")
    for number, call in enumerate(calls):
        if not isinstance(call, (list, tuple)) or len(call) not in (count, count + 1):
            raise bad_type(f"calls[{number}]", call, f"({names}) or ({names}, keywords)")
        keywords = call[count] if len(call) > count else {}
        if not isinstance(keywords, Mapping):
            raise bad_type(f"calls[{number}]", keywords, "a mapping of keywords after the operands")
        check_keys(f"calls[{number}]", keywords, known, keywords=True)
        found.append(dict(zip(operands, call, strict=False)) | known | dict(keywords))
    return found


def _operands(face: Any, of_all: Mapping[str, Any]) -> list[str]:
    """What of a face is no keyword."""
    keywords = keywords_of(face)
    return [name for name in signature(face).parameters if name not in keywords and name not in of_all]
