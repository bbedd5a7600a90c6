"""Several convolutions in one call, as PopLibs' ``poplin::multiconv`` has them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from inspect import signature
from typing import Any

from ..errors import bad_type
from ..ops import check_keywords
from ..target import TargetLike
from .conv import api
from .conv.request import Pass, deltas_pass, forward_pass, update_pass
from .conv.several import run_passes
from .product.api import keywords_of

__all__ = ["calculate_weight_deltas", "convolution", "convolution_weight_update"]


def convolution(calls: Sequence[Any], *, target: TargetLike = None, seed: Any = None,
                multi_options: Mapping[str, Any] | None = None) -> list[Any]:
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
    return _run(api.convolution, forward_pass, calls, multi_options, target=target, seed=seed)


def calculate_weight_deltas(calls: Sequence[Any], *, target: TargetLike = None, seed: Any = None,
                            multi_options: Mapping[str, Any] | None = None) -> list[Any]:
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
    return _run(api.calculate_weight_deltas, deltas_pass, calls, multi_options, target=target, seed=seed)


def convolution_weight_update(calls: Sequence[Any], *, target: TargetLike = None,
                              multi_options: Mapping[str, Any] | None = None) -> list[Any]:
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
    return _run(api.convolution_weight_update, update_pass, calls, multi_options, target=target)


def _run(face: Any, describe: Callable[..., Pass], calls: Any, multi_options: Mapping[str, Any] | None,
         **of_all: Any) -> list[Any]:
    """Run calls of a face, of each of which `describe` makes a pass."""
    passes = [describe(**call, **of_all) for call in _calls(calls, face, of_all)]
    return run_passes(f"poplin.multiconv.{face.__name__}", passes, multi_options)


def _calls(calls: Any, face: Any, of_all: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Check calls, and return all arguments of the face, but for those of all calls."""
    known = {name: default for name, default in keywords_of(face).items() if name not in of_all}
    operands = [name for name in signature(face).parameters if name not in known and name not in of_all]
    names, count, found = ", ".join(operands), len(operands), []
    if not isinstance(calls, (list, tuple)):
        raise bad_type("calls", calls, f"a list of ({names}) or ({names}, keywords)")
    for number, call in enumerate(calls):
        if not isinstance(call, (list, tuple)) or len(call) not in (count, count + 1):
            raise bad_type(f"calls[{number}]", call, f"({names}) or ({names}, keywords)")
        keywords = call[count] if len(call) > count else {}
        if not isinstance(keywords, Mapping):
            raise bad_type(f"calls[{number}]", keywords, "a mapping of keywords after the operands")
        check_keywords(f"calls[{number}]", keywords, known)
        found.append(dict(zip(operands, call, strict=False)) | known | dict(keywords))
    return found
