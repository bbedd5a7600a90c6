"""The golden syntax of planning problems: one line of ``key=value`` words per problem.

``mm=G,M,K,N`` is a matrix multiplication; a convolution has ``batch field kernel ci co g pad stride dil`` (pad on both
sides, dil dilates the kernel). ``type``, ``out`` and ``partials`` are data types, ``amp`` the available memory
proportion, ``target`` the machine, a GC200 by default, which ``tiles`` cuts down, ``pass`` is the pass, ``grad=1`` and
``wu=1`` derive the backward and weight-update problems first, ``fp8=1`` gives the tiles FP8 units, ``o:KEY=VALUE`` is
any other option.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterator, Mapping
from contextlib import AbstractContextManager
from typing import Any, TextIO

from ..errors import PoplibsError, bad_argument
from ..poplin.tile_conv import (
    ConvOptions,
    ConvParams,
    ConvProblem,
    FieldTransform,
    OutputTransform,
    matmul_params,
)
from ..target import MODELLED, PRESETS, Target, modelled_machine

_KEYS = frozenset(
    {"mm", "batch", "field", "kernel", "ci", "co", "g", "pad", "stride", "dil", "type", "out", "partials", "amp"}
    | {"target", "tiles", "pass", "grad", "wu", "fp8"}
)
_ONLY_CONVOLUTIONS = frozenset({"batch", "field", "kernel", "ci", "co", "g", "pad", "stride", "dil"})
_NAMES = {
    "input_type": "type", "output_type": "out", "partialsType": "partials", "availableMemoryProportion": "amp",
    "in_channels": "ci", "out_channels": "co", "input_transform": "pad", "kernel_transform": "dil",
    "output_transform": "stride", "pass": "pass",
}  # fmt: skip
"""The planner's arguments as a spec spells them."""
_PRODUCT = {"groups": "mm (G)", "rows": "mm (M)", "inner": "mm (K)", "columns": "mm (N)"}
_CONVOLUTION = {"groups": "g"}


@contextlib.contextmanager
def named_as_typed(names: Mapping[str, str], option: str) -> Iterator[None]:
    """Raise an error about an argument under the name that the user typed.

    Parameters
    ----------
    names : mapping
        From the planner's name, or its part before a dot, to the user's.
    option : str
        What stands before an option's key where one has no name of its own.
    """
    try:
        yield
    except PoplibsError as error:
        name, colon, rest = str(error).partition(":")
        head = name.partition(".")[0]
        if name in names:
            typed = names[name]
        elif name in ConvOptions.spellings() or head == "planConstraints":
            typed = option + name
        elif head in names:
            typed = names[head]
        elif name == "options":
            typed = option.rstrip(": ")
        else:
            raise
        raise type(error)(f"{typed}{colon}{rest}") from None


def spec_names(text: str) -> AbstractContextManager[None]:
    """Raise the planner's errors about a spec under the spec's own keys."""
    of_kind = _PRODUCT if "mm=" in text else _CONVOLUTION
    return named_as_typed(_NAMES | of_kind, "o:")


def spec_lines(file: TextIO) -> Iterator[tuple[int, str]]:
    """Yield the number and the text of each spec of a file: comment lines (``#``) and blank ones are skipped."""
    for number, line in enumerate(file, 1):
        text = line.strip()
        if text and not text.startswith("#"):
            yield number, text


def parse_spec(text: str) -> ConvProblem:
    """Read one spec.

    Examples
    --------
    >>> problem = parse_spec("mm=1,64,32,16 type=half tiles=16")
    >>> problem.target.tiles, problem.params.out_channels, problem.options.pass_
    (16, 16, 'NONE_MATMUL')
    """
    words, options = _words(text)
    with spec_names(text):
        return _problem(words, options)


def cut_down(name: str, *, tiles: int | None = None, fp8: bool = False) -> Target:
    """Return a modelled machine with so many tiles, and with FP8 units if asked for.

    Examples
    --------
    >>> cut_down("bow", tiles=16).tiles
    16
    """
    if name not in PRESETS:
        raise bad_argument("target", name, MODELLED)
    target = modelled_machine(name)
    if tiles is not None:
        target = target.replace(tiles=tiles)
    return target.replace(conv_units=Target.c600().conv_units) if fp8 else target


def _problem(words: dict[str, str], options: dict[str, Any]) -> ConvProblem:
    is_matmul = "mm" in words
    params = _matmul(words) if is_matmul else _convolution(words)
    if flag(words, "grad"):
        params = params.gradient()
    if flag(words, "wu"):
        params = params.weight_update()
    given = {"availableMemoryProportion": words.get("amp", "0.6"), "partialsType": words.get("partials", "float"),
             "pass": words.get("pass", "NONE_MATMUL" if is_matmul else "NONE")}
    return ConvProblem(machine(words), params.canonical(), ConvOptions.parse({**given, **options}))


def _words(text: str) -> tuple[dict[str, str], dict[str, Any]]:
    words, options = read_words(text, _KEYS)
    if "mm" in words and not _ONLY_CONVOLUTIONS.isdisjoint(words):
        key = min(_ONLY_CONVOLUTIONS.intersection(words))
        raise bad_argument(key, words[key], "a convolution's key only without mm=")
    return words, options


def read_words(text: str, known: Collection[str]) -> tuple[dict[str, str], dict[str, Any]]:
    """Return the words of a spec by key, and the options that follow ``o:``.

    Examples
    --------
    >>> read_words("m=64 amp=0.2 o:nSplit=2", ("m", "amp"))
    ({'m': '64', 'amp': '0.2'}, {'nSplit': '2'})
    """
    words: dict[str, str] = {}
    options: dict[str, Any] = {}
    for word in text.split():
        key, equals, value = word.partition("=")
        if key.startswith("o:") and equals:
            options[key[2:]] = value
        elif key in words:
            raise bad_argument(key, word, "one value: the key was given before")
        elif key in known and equals:
            words[key] = value
        else:
            raise bad_argument("spec", word, "key=value with a key of " + ", ".join(sorted(known)) + " or o:OPTION")
    return words, options


def flag(words: dict[str, str], key: str, usual: str = "0") -> bool:
    """Return whether a key is 1, not 0."""
    value = words.get(key, usual)
    if value not in ("0", "1"):
        raise bad_argument(key, value, "0 or 1")
    return value == "1"


def whole_word(key: str, value: str) -> int:
    """Return the whole number that a word of a spec holds."""
    try:
        return int(value)
    except ValueError as error:
        raise bad_argument(key, value, "an integer") from error


def required(words: dict[str, str], key: str, usual: str = "") -> int:
    """Return the whole number of a key, which need not be there if it has a usual one."""
    return whole_word(key, words.get(key, usual) or _word(words, key))


def integers(words: dict[str, str], key: str, count: int | None = None,
             what: str = "whole numbers") -> tuple[int, ...]:
    """Return the whole numbers of a key, commas between them."""
    found = tuple(whole_word(key, word) for word in _word(words, key).split(","))
    if count not in (None, len(found)):
        raise bad_argument(key, words[key], f"{count} {what}")
    return found


def _word(words: dict[str, str], key: str) -> str:
    if key not in words:
        raise bad_argument("spec", " ".join(f"{k}={v}" for k, v in words.items())[:100], f"a spec with {key}=")
    return words[key]


def machine(words: dict[str, str]) -> Target:
    """Return the machine of a spec, a GC200 by default, cut down to its tiles."""
    tiles = required(words, "tiles") if "tiles" in words else None
    return cut_down(words.get("target", "gc200"), tiles=tiles, fp8=flag(words, "fp8"))


def _types(words: dict[str, str]) -> tuple[str, str]:
    given = words.get("type", "float")
    return given, words.get("out", given)


def _matmul(words: dict[str, str]) -> ConvParams:
    groups, rows, inner, columns = integers(words, "mm", 4, "integers G,M,K,N")
    return matmul_params(groups, rows, inner, columns, *_types(words))


def _convolution(words: dict[str, str]) -> ConvParams:
    field, (given, made) = integers(words, "field"), _types(words)

    def each(key: str, usual: int) -> tuple[int, ...]:
        ndim = len(field)
        return integers(words, key, ndim, "integers, one per dimension") if key in words else (usual,) * ndim

    return ConvParams.create(
        input_type=given, output_type=made, batch=required(words, "batch", "1"), field=field,
        kernel=integers(words, "kernel"), in_channels=required(words, "ci"), out_channels=required(words, "co"),
        groups=required(words, "g", "1"),
        input_transform=[FieldTransform(padding_lower=n, padding_upper=n) for n in each("pad", 0)],
        kernel_transform=[FieldTransform(dilation=n) for n in each("dil", 1)],
        output_transform=[OutputTransform(stride=n) for n in each("stride", 1)])
