"""Products whose sums are exact, and the answer that every way of asking for one must give."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from hypothesis import strategies as st

from poplibs_py.formats import FORMATS, FP32, Format
from poplibs_py.testing import check_exact, exact_operands
from poplibs_py.testing.strategies import extents, layouts, relaid

EXTENTS = extents("dot", most=100)
SEEDS = st.integers(0, 2**20)


@dataclass(frozen=True)
class Product:
    """A call of `poplin.matmul` on matrices.

    Attributes
    ----------
    a, b : numpy.ndarray
        The operands.
    out_format : Format
        The result's.
    keywords : dict
        Those of the call beside ``out_dtype``: alpha, bias, activation.
    """

    a: Any
    b: Any
    out_format: Format
    keywords: dict[str, Any] = field(default_factory=dict)

    @property
    def shape(self) -> tuple[int, int]:
        """The result's shape."""
        return self.a.shape[0], self.b.shape[1]

    @property
    def dtypes(self) -> dict[str, Any]:
        """The formats as `plan_matmul` takes them."""
        return {"dtype": self.a.dtype, "b_dtype": self.b.dtype, "out_dtype": self.out_format}

    def answer(self) -> Any:
        """The exact result, rounded once: what a plain call gave, checked."""
        return check_exact("matmul", self.a, self.b, out_dtype=self.out_format, **self.keywords)


@st.composite
def exact_products(draw: st.DrawFn, *, plain_bias: bool = False) -> Product:
    """Products of any formats, extents and layouts, with epilogues that round nothing before the end.

    Parameters
    ----------
    plain_bias : bool, optional
        Draw a bias of one axis alone.
    """
    m, k, n = (draw(EXTENTS) for _ in range(3))
    a_format, b_format, out_format = (draw(st.sampled_from(FORMATS)) for _ in range(3))
    seed = draw(SEEDS)
    made = exact_operands((m, k), (k, n), a_format, b_format, seed=seed)
    a, b = (relaid(x.T, draw(layouts())).T if draw(st.booleans()) else relaid(x, draw(layouts()))
            for x in (made.a, made.b))
    keywords: dict[str, Any] = {}
    if draw(st.booleans()):
        shapes = [(n,)] if plain_bias else [(n,), (1, n), (m, 1)]
        keywords["bias"] = relaid(made.addend(draw(st.sampled_from(shapes)), FP32, seed), draw(layouts()))
    if draw(st.booleans()):
        keywords["activation"] = "relu"
    if draw(st.booleans()):
        keywords["alpha"] = -1.0
    return Product(a, b, out_format, keywords)
