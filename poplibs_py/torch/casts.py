"""Casts between all formats, and rounding to a format within another."""

from __future__ import annotations

import json
from typing import Any, get_args

import numpy as np
import torch
from torch import Tensor

from ..checks import one_of, whole
from ..errors import bad_argument
from ..formats import FORMATS, Format, QuarterArray, format_of
from ..formats.format import LAYOUT
from ..formats.reference import Overflow, Rounding
from ..memo import tabled
from ..ops import seed_of
from ..popops import cast as popops_cast
from ._library import Gradient, array_of, check_tensor, define, dtype_format, tensor_of, torch_dtype

_AUTO = "auto"
_ROUNDING = "str rounding='nearest-even', str? overflow=None, int? seed=None, int random_bits=31"
_ROUNDING_DEFAULTS = ("nearest-even", None, None, 31)


def _keywords(rounding: str, overflow: str | None, seed: int | None, random_bits: int) -> dict[str, Any]:
    told: dict[str, Any] = {"rounding": rounding}
    if overflow is not None:
        told["overflow"] = overflow
    if seed is not None:
        told["seed"], told["random_bits"] = seed % 2**64, random_bits
    return told


def _in_c_order(x: Tensor) -> Any:
    return array_of("x", x if x.is_contiguous() else x.contiguous())


# To a format that torch has ------------------------------------------------------------------------

def _cast(x: Tensor, dtype: torch.dtype, scale: int = 0, x_scale: int = 0, rounding: str = "nearest-even",
          overflow: str | None = None, seed: int | None = None, random_bits: int = 31) -> Tensor:
    to, values = dtype_format("dtype", dtype), _in_c_order(x)
    told = _keywords(rounding, overflow, seed, random_bits)
    if x_scale:
        values = QuarterArray(values, dtype_format("x", x.dtype), x_scale)
    if scale:
        codes: Any = popops_cast(values, to, scale=scale, **told).codes
        return tensor_of(codes.view(to.dtype))
    return tensor_of(popops_cast(values, to, **told))


def _cast_fake(x: Tensor, dtype: torch.dtype, *_: Any) -> Tensor:
    dtype_format("x", x.dtype)
    dtype_format("dtype", dtype)
    return x.new_empty(x.shape, dtype=dtype)


class _Cast(Gradient):
    """The gradient of a cast is cast back: what rounding does has none."""

    @staticmethod
    def forward(ctx: Any, run: Any, x: Tensor, dtype: torch.dtype, scale: int, x_scale: int, *how: Any) -> Tensor:
        ctx.dtype, ctx.exponent = x.dtype, x_scale - scale
        made: Tensor = run(x, dtype, scale, x_scale, *how)
        return made

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        if ctx.exponent:
            grad = grad.to(torch.float32) * 2.0**ctx.exponent
        return None, grad.to(ctx.dtype), None, None, None, None, None, None, None


# To any format, within x's own ---------------------------------------------------------------------

def _round_to(x: Tensor, dtype: str, scale: int = 0, auto_scale: bool = False, rounding: str = "nearest-even",
              overflow: str | None = None, seed: int | None = None, random_bits: int = 31) -> Tensor:
    values = _in_c_order(x)
    told = _keywords(rounding, overflow, seed, random_bits)
    if auto_scale or scale:
        told["scale"] = _AUTO if auto_scale else scale
    rounded = popops_cast(values, _format_of_text(dtype), **told)
    return tensor_of(np.asarray(popops_cast(rounded, dtype_format("x", x.dtype))))


def _round_to_fake(x: Tensor, dtype: str, *_: Any) -> Tensor:
    dtype_format("x", x.dtype)
    return x.new_empty(x.shape)


class _RoundTo(Gradient):
    """The gradient passes as it is (straight through)."""

    @staticmethod
    def forward(ctx: Any, run: Any, x: Tensor, *how: Any) -> Tensor:
        made: Tensor = run(x, *how)
        return made

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        return None, grad, None, None, None, None, None, None, None


CAST = define("cast", f"(Tensor x, ScalarType dtype, int scale=0, int x_scale=0, {_ROUNDING}) -> Tensor", "popops.cast",
              _cast, _cast_fake, _Cast, (0, 0, *_ROUNDING_DEFAULTS))
ROUND_TO = define("round_to", f"(Tensor x, str dtype, int scale=0, bool auto_scale=False, {_ROUNDING}) -> Tensor",
                  "popops.cast", _round_to, _round_to_fake, _RoundTo, (0, False, *_ROUNDING_DEFAULTS))


def cast(x: Tensor, dtype: object, *, scale: int = 0, x_scale: int = 0, rounding: str = "nearest-even",
         overflow: str | None = None, seed: object = None, random_bits: int = 31) -> Tensor:
    """Cast a tensor to another number format.

    Parameters
    ----------
    x : torch.Tensor
    dtype : torch.dtype, Format, dtype or str
        One that torch has: float32, float16, bfloat16 or one of four FP8 formats.
    scale : int, optional
        Exponent s of an FP8 result, whose codes stand for their value times ``2**s`` (default 0).
    x_scale : int, optional
        That of an FP8 `x` (default 0).
    rounding, overflow, seed, random_bits
        As for `popops.cast`. The seed is one number.

    Returns
    -------
    torch.Tensor
        In C order.

    Notes
    -----
    It is `popops.cast`, whose contract it has, and PopLibs' ``popops::cast``. The gradient is cast back to the dtype of
    `x` and multiplied by what the scales amount to. torch has each gradient in the dtype of its tensor, so what flows
    back to an FP8 tensor has been rounded to FP8: see `round_to`.

    Examples
    --------
    >>> import torch
    >>> from poplibs_py.torch import cast
    >>> x = cast(torch.tensor([300.0, -0.1]), torch.float8_e4m3fn, scale=2)
    >>> x.float().tolist(), cast(x, torch.float32, x_scale=2).tolist()
    ([72.0, -0.025390625], [288.0, -0.1015625])
    """
    check_tensor("x", x)
    told = _checked(rounding, overflow, seed, random_bits)
    exponents = []
    for name, number in (("scale", scale), ("x_scale", x_scale)):
        exponents.append(whole(name, number))
    made: Tensor = CAST(x, dtype if isinstance(dtype, torch.dtype) else torch_dtype(dtype), *exponents, *told)
    return made


def round_to(x: Tensor, dtype: object, *, scale: int | str = 0, rounding: str = "nearest-even",
             overflow: str | None = None, seed: object = None, random_bits: int = 31) -> Tensor:
    """Round a tensor to the values of a format, in its own dtype: what training in that format would see.

    Parameters
    ----------
    x : torch.Tensor
    dtype : Format, torch.dtype, dtype or str
        Any format of at most 16 bits, users' own ones too; or float32.
    scale : int or "auto", optional
        Exponent s: the values are those of the format times ``2**s``. ``"auto"`` takes the least for which nothing
        overflows (default 0).
    rounding, overflow, seed, random_bits
        As for `popops.cast`. The seed is one number.

    Returns
    -------
    torch.Tensor
        Of the dtype of `x`, which rounds once more what it cannot hold; in C order.

    Notes
    -----
    It is `popops.cast` twice. The gradient passes straight through, in the dtype of `x`, where a number overflows too.

    Examples
    --------
    >>> import torch
    >>> from poplibs_py.torch import round_to
    >>> x = torch.tensor([1.3, 1000.0], requires_grad=True)
    >>> y = round_to(x, "e4m3", scale="auto")
    >>> y.tolist(), torch.autograd.grad(y.sum(), x)[0]
    ([1.25, 1024.0], tensor([1., 1.]))
    """
    check_tensor("x", x)
    told = _checked(rounding, overflow, seed, random_bits)
    auto = isinstance(scale, str) and scale == _AUTO
    exponent = 0 if auto else whole("scale", scale, what=" number, or 'auto'")
    made: Tensor = ROUND_TO(x, _text_of(format_of(dtype)), exponent, auto, *told)
    return made


def _checked(rounding: object, overflow: object, seed: object, random_bits: int) -> tuple[Any, ...]:
    one_of("rounding", rounding, get_args(Rounding))
    one_of("overflow", overflow, (*get_args(Overflow), None))
    if (seed is None) != (rounding != "stochastic"):
        raise bad_argument("seed", seed, "one for stochastic rounding, which needs it, and for nothing else")
    if seed is None:
        return rounding, overflow, None, 31
    number = seed_of(seed)
    return rounding, overflow, number - 2**64 * (number >= 2**63), whole("random_bits", random_bits, 1, 31)


def _text_of(dtype: Format) -> str:
    """A format as torch's graphs hold one: the name of a preset, or what it is made of."""
    return dtype.name if dtype in FORMATS else json.dumps({key: getattr(dtype, key) for key in LAYOUT})


@tabled(256)
def _format_of_text(text: str) -> Format:
    return Format(**json.loads(text)) if text.startswith("{") else format_of(text)
