"""How an op is registered with torch, and how tensors and arrays become one another without a copy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.autograd import forward_ad

from ..errors import InvalidTypeError, UnsupportedError, bad_type
from ..formats import BF16, FORMATS, Array, Format, format_of
from ..memo import tabled
from ..ops import result_format
from ._dlpack import Bridge

NAMESPACE = "poplibs_py"
_LIBRARY = torch.library.Library(NAMESPACE, "DEF")
_AFTER_AUTOGRAD = torch._C._after_autograd_keyset
_BELOW = torch._C._after_ADInplaceOrView_keyset.raw_repr()
_PLAIN_CPU = torch._C.DispatchKeySet(torch._C.DispatchKey.CPU).raw_repr()

Gradient = torch.autograd.function._SingleLevelFunction
"""What gradients derive from: `torch.autograd.Function` without its look for nested transforms, which come first."""

REGISTERED: dict[str, str] = {}
"""The ops of ``torch.ops.poplibs_py``, and the op of the catalogue that each calls."""

_DTYPES: dict[torch.dtype, Format] = {getattr(torch, np.dtype(f.dtype).name): f for f in FORMATS}
_TORCH = {f: dtype for dtype, f in _DTYPES.items()}

# Of FP8, which older DLPack lacks, it carries the codes.
_CODES = {dtype: f.dtype for dtype, f in _DTYPES.items() if f.itemsize == 1}
_BACK = {seen: dtype for dtype, seen in _CODES.items()}
_BYTES = np.dtype(np.uint8)
_BRIDGE = Bridge({np.dtype(np.float32): (2, 32), np.dtype(np.float16): (2, 16), np.dtype(BF16.dtype): (4, 16),
                  _BYTES: (1, 8)})
_to_capsule, _of_capsule = torch._C._to_dlpack, torch._C._from_dlpack
_read, _lend = _BRIDGE.array, _BRIDGE.capsule

ALLOWED = "a tensor of " + ", ".join(str(dtype).removeprefix("torch.") for dtype in _DTYPES)


def _refused(name: str, tensor: Any) -> InvalidTypeError:
    if not isinstance(tensor, Tensor):
        return bad_type(name, type(tensor).__name__, ALLOWED)
    if tensor.layout is not torch.strided:
        return bad_type(name, f"a tensor of layout {tensor.layout}", f"{ALLOWED}: see BlockSparseTensor.from_sparse")
    hint = '; see its to(torch.float32)' if tensor.dtype == torch.float64 else ""
    return bad_type(name, f"a tensor of {str(tensor.dtype).removeprefix('torch.')}", ALLOWED + hint)


def check_tensor(name: str, tensor: Any) -> None:
    """Raise unless this is a strided tensor of a format that torch has."""
    if not isinstance(tensor, Tensor) or tensor.layout is not torch.strided or tensor.dtype not in _DTYPES:
        raise _refused(name, tensor)


def dtype_format(name: str, dtype: torch.dtype) -> Format:
    """Return the format of torch's dtype, or raise."""
    found = _DTYPES.get(dtype)
    if found is None:
        raise bad_type(name, str(dtype).removeprefix("torch."), ALLOWED)
    return found


def array_of(name: str, tensor: Tensor) -> Array:
    """Return a tensor as an array that shares its memory, or raise.

    The array holds the tensor for as long as it lives, unless the tensor requires a gradient.
    """
    if tensor.requires_grad:
        tensor = tensor.detach()
    if tensor.is_neg():  # a view whose numbers are those in memory with the other sign
        tensor = tensor.resolve_neg()
    dtype = tensor.dtype
    if dtype in _CODES:
        return _read(_to_capsule(tensor.view(torch.uint8))).view(_CODES[dtype])
    if dtype not in _DTYPES:
        raise _refused(name, tensor)
    return _read(_to_capsule(tensor))


def tensor_of(array: Array) -> Tensor:
    """Return an array as a tensor that shares its memory."""
    codes = _BACK.get(array.dtype)
    made: Tensor = _of_capsule(_lend(array if codes is None else array.view(_BYTES)))
    return made if codes is None else made.view(codes)


def told_of(bias: Tensor | None, out_dtype: torch.dtype | None) -> dict[str, Any]:
    """Return what a product is told beside its operands."""
    told: dict[str, Any] = {} if bias is None else {"bias": array_of("bias", bias)}
    if out_dtype is not None:
        told["out_dtype"] = dtype_format("out_dtype", out_dtype)
    return told


def torch_dtype(dtype: Any, name: str = "dtype") -> torch.dtype:
    """Return torch's dtype of a format, a dtype or a name, or raise."""
    found = _TORCH.get(format_of(dtype, name))
    if found is None:
        raise bad_type(name, dtype, ", ".join(f.name for f in _TORCH))
    return found


def asked_dtype(out_dtype: Any) -> torch.dtype | None:
    """Return the dtype that a caller asks for, if any, or raise."""
    if out_dtype is None or (isinstance(out_dtype, torch.dtype) and out_dtype in _DTYPES):
        return out_dtype
    return torch_dtype(out_dtype, "out_dtype")


@tabled(256)
def result_dtype(asked: torch.dtype | None, *dtypes: torch.dtype) -> torch.dtype:
    """Return the dtype of a result: the one asked for, or else by the rule of all ops."""
    if asked is not None:
        return _TORCH[dtype_format("out_dtype", asked)]
    return _TORCH[result_format(*(_DTYPES[dtype] for dtype in dtypes))]


def sum_to(grad: Tensor, shape: torch.Size, dtype: torch.dtype) -> Tensor:
    """Return a gradient summed, in FP32, over the axes along which what it belongs to was repeated."""
    return (grad.float().sum_to_size(shape) if grad.shape != shape else grad).to(dtype)


def define(name: str, signature: str, op: str, kernel: Callable[..., Tensor], fake: Callable[..., Tensor],
           gradient: Any = None, defaults: tuple[Any, ...] = ()) -> Any:
    """Register an op with torch, and return what calls it.

    Parameters
    ----------
    name : str
    signature : str
        Its arguments and results in torch's schema language. None is taken by keyword alone.
    op : str
        The op of the catalogue that it calls.
    kernel : callable
        What it does on the CPU.
    fake : callable
        What its result looks like, for tensors without memory.
    gradient : type, optional
        Its ``forward`` takes the context, then what runs the op, then the op's arguments; its ``backward`` returns None
        for what runs it.
    defaults : tuple, optional
        Of the last arguments, which torch leaves out where they are so.
    """
    _LIBRARY.define(name + signature, tags=(torch.Tag.pt2_compliant_tag,))
    _LIBRARY.impl(name, kernel, "CPU")
    torch.library.register_fake(f"{NAMESPACE}::{name}", fake, lib=_LIBRARY)
    registered = getattr(getattr(torch.ops, NAMESPACE), name).default
    REGISTERED[name] = op
    if gradient is not None:
        _LIBRARY.impl(name, _above(registered, kernel, gradient, defaults), "Autograd", with_keyset=True)
    return registered


def _above(op: Any, kernel: Callable[..., Tensor], gradient: Any, defaults: tuple[Any, ...]) -> Callable[..., Tensor]:
    """Return what torch calls above an op's kernel: it puts the gradient in place where one is asked for.

    To have torch look for the kernel again takes as long as all the rest. So plain tensors of this CPU, which nothing
    watches on their way, go to it at once.
    """
    tensors = tuple(i for i, argument in enumerate(op._schema.arguments) if "Tensor" in str(argument.type))
    required = len(op._schema.arguments) - len(defaults)
    grad_mode, redispatch = torch.is_grad_enabled, op.redispatch
    transformed = torch._C._are_functorch_transforms_active

    def entry(keyset: Any, *args: Any) -> Tensor:
        run: Any = kernel
        if forward_ad._current_level >= 0:
            _refuse_tangents(op, args)
        if keyset.raw_repr() & _BELOW != _PLAIN_CPU:
            below = keyset & _AFTER_AUTOGRAD

            def run(*given: Any) -> Tensor:
                made: Tensor = redispatch(below, *given)
                return made

        if grad_mode():
            for i in tensors:
                if i < len(args) and args[i] is not None and args[i].requires_grad:
                    if transformed():
                        raise UnsupportedError(f"torch.ops.{op}: torch.func's transforms cannot follow its gradient; "
                                               "use torch.autograd")
                    args = (*args, *defaults[len(args) - required:])
                    made: Tensor = gradient.apply(run, *args)
                    return made
        result: Tensor = run(*args)
        return result

    return entry


def _refuse_tangents(op: Any, args: tuple[Any, ...]) -> None:
    """Raise where a tensor carries a tangent of forward mode: what is computed from it would be lost."""
    if any(isinstance(x, Tensor) and forward_ad.unpack_dual(x).tangent is not None for x in args):
        raise UnsupportedError(f"torch.ops.{op}: there is no derivative in forward mode; use backward()")
