"""The golden syntax of planning problems: one line of ``key=value`` words per problem.

``mm=G,M,K,N`` is a matrix multiplication; a convolution has ``batch field kernel ci co g pad stride dil`` (pad on both
sides, dil dilates the kernel). ``type``, ``out`` and ``partials`` are data types, ``amp`` the available memory
proportion, ``tiles`` cuts the GC200 down, ``pass`` is the pass, ``grad=1`` and ``wu=1`` derive the backward and
weight-update problems first, ``fp8=1`` gives the tiles FP8 units, ``o:KEY=VALUE`` is any other option.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TextIO

from ..errors import bad_argument
from ..poplin.convolution import (
    ConvOptions,
    ConvParams,
    ConvProblem,
    FieldTransform,
    OutputTransform,
    matmul_params,
)
from ..target import Target

__all__ = ["parse_spec", "spec_lines"]

_KEYS = frozenset(
    {"mm", "batch", "field", "kernel", "ci", "co", "g", "pad", "stride", "dil", "type", "out", "partials", "amp"}
    | {"tiles", "pass", "grad", "wu", "fp8"}
)


def spec_lines(file: TextIO) -> Iterator[str]:
    """Yield the specs of a file: comment lines (``#``) and blank ones are skipped."""
    for line in file:
        text = line.strip()
        if text and not text.startswith("#"):
            yield text


def parse_spec(text: str) -> ConvProblem:
    """Read one spec.

    Examples
    --------
    >>> from poplibs_py.cli.spec import parse_spec
    >>> problem = parse_spec("mm=1,64,32,16 type=half tiles=16")
    >>> problem.target.tiles, problem.params.out_channels, problem.options.pass_
    (16, 16, 'NONE_MATMUL')
    """
    words, options = _words(text)
    is_matmul = "mm" in words
    params = _matmul(words) if is_matmul else _convolution(words)
    if words.get("grad") == "1":
        params = params.gradient()
    if words.get("wu") == "1":
        params = params.weight_update()
    target = Target.gc200()
    if words.get("fp8") == "1":
        target = target.replace(conv_units=Target.c600().conv_units)
    if "tiles" in words:
        target = target.replace(tiles=_integer("tiles", words["tiles"]))
    given = {
        "availableMemoryProportion": words.get("amp", "0.6"),
        "partialsType": words.get("partials", "float"),
        "pass": words.get("pass", "NONE_MATMUL" if is_matmul else "NONE"),
    }
    return ConvProblem(target, params.canonical(), ConvOptions.parse({**given, **options}))


def _words(text: str) -> tuple[dict[str, str], dict[str, Any]]:
    words: dict[str, str] = {}
    options: dict[str, Any] = {}
    for word in text.split():
        key, equals, value = word.partition("=")
        if key.startswith("o:") and equals:
            options[key[2:]] = value
        elif key in _KEYS and equals:
            words[key] = value
        else:
            raise bad_argument("spec", word, "key=value with a key of " + ", ".join(sorted(_KEYS)) + " or o:OPTION")
    return words, options


def _integer(key: str, value: str) -> int:
    try:
        return int(value)
    except ValueError as error:
        raise bad_argument(key, value, "an integer") from error


def _integers(words: dict[str, str], key: str, default: list[int] | None = None) -> list[int]:
    if key not in words:
        if default is None:
            raise bad_argument("spec", " ".join(words), f"a spec with {key}=")
        return default
    numbers = [_integer(key, part) for part in words[key].split(",")]
    if default is not None and len(numbers) != len(default):
        raise bad_argument(key, words[key], f"{len(default)} integers, one per dimension")
    return numbers


def _types(words: dict[str, str]) -> tuple[str, str]:
    given = words.get("type", "float")
    return given, words.get("out", given)


def _matmul(words: dict[str, str]) -> ConvParams:
    sizes = _integers(words, "mm")
    if len(sizes) != 4:
        raise bad_argument("mm", words["mm"], "four integers G,M,K,N")
    groups, rows, inner, columns = sizes
    return matmul_params(groups, rows, inner, columns, *_types(words))


def _convolution(words: dict[str, str]) -> ConvParams:
    field = _integers(words, "field")
    ones, zeros = [1] * len(field), [0] * len(field)
    given, made = _types(words)
    return ConvParams.create(
        input_type=given,
        output_type=made,
        batch=_integer("batch", words.get("batch", "1")),
        field=field,
        kernel=_integers(words, "kernel"),
        in_channels=_integers(words, "ci")[0],
        out_channels=_integers(words, "co")[0],
        groups=_integer("g", words.get("g", "1")),
        input_transform=[
            FieldTransform(padding_lower=n, padding_upper=n) for n in _integers(words, "pad", zeros)
        ],
        kernel_transform=[FieldTransform(dilation=n) for n in _integers(words, "dil", ones)],
        output_transform=[OutputTransform(stride=n) for n in _integers(words, "stride", ones)],
    )
