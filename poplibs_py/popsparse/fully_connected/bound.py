"""How wrong a dynamic product of a modelled machine may be: see `poplibs_py.popsparse.modelled_bound`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...formats.bounds import Ball
from ...target import Target
from ...target.types import type_of
from ..matrix import BlockSparseMatrix
from ..modelled_bound import modelled_ball, sampled_ball
from .api import partials_in_use
from .options import FullyConnectedOptions
from .params import FullyConnectedParams


def dynamic_ball(w: BlockSparseMatrix, x: Any, options: Mapping[str, Any] | None) -> Ball:
    """Return exact results and radii of ``W X`` on a modelled machine, for every plan of it.

    Parameters
    ----------
    w, x : BlockSparseMatrix, array_like
    options : mapping, optional
        As the dynamic product takes them.
    """
    params = FullyConnectedParams(*w.shape, 1, 1, w.block_shape[0], type_of(w.format))
    return modelled_ball(w, x, partials_in_use(params, FullyConnectedOptions.parse(options)), params.block)


def gradient_ball(w: BlockSparseMatrix, grads: Any, acts: Any, target: Target,
                  options: Mapping[str, Any] | None) -> Ball:
    """Return exact results and radii of ``dY X'`` on a modelled machine, for every plan of it.

    Parameters
    ----------
    w : BlockSparseMatrix
    grads, acts : array_like, shape (groups, m, n), (groups, k, n)
    target : Target
    options : mapping, optional
        As the layer takes them.
    """
    params = FullyConnectedParams(*w.shape, 1, 1, w.block_shape[0], type_of(w.format))
    partials = partials_in_use(params, FullyConnectedOptions.parse(options))
    return sampled_ball(grads, acts, partials, min(grads.shape[-1], target.tiles), w.format)
