"""PopRand: random numbers from xoroshiro128aox, the generator of Graphcore's IPU.

Two ways to draw: ``stream="counter"``, where an element depends on seed, modifier and index alone, and
``stream="ipu"``, the numbers that a modelled IPU gives. `Xoroshiro128aox` is the generator itself, for
`numpy.random.Generator`.
"""

from ._generator import Xoroshiro128aox
from .bernoulli import bernoulli, dropout, dropout_gradient, shaped_dropout, shaped_dropout_gradient
from .categorical import categorical, permutation
from .hardware import get_hw_seeds, set_hw_seeds
from .quantile import exponential, gumbel, normal, truncated_normal
from .uniform import bits, log_uniform, uniform
from .where import set_seed

__all__ = ["Xoroshiro128aox", "bernoulli", "bits", "categorical", "dropout", "dropout_gradient", "exponential",
           "get_hw_seeds", "gumbel", "log_uniform", "normal", "permutation", "set_hw_seeds", "set_seed",
           "shaped_dropout", "shaped_dropout_gradient", "truncated_normal", "uniform"]
