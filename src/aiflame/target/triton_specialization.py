"""A specialization of a Triton kernel as a word: `vadd_bs256_w8_s2`.

The word has the function's name, its constexprs in the order of its parameters, its warps and stages; usual values are left out:

- a name of one word is kept up to six letters; a name of several words is reduced to initials: `HEAD_DIM=64` → `hd64`,
  `BLOCK_M=128` → `bm128`. `BLOCK` alone counts as a block size: `BLOCK=256` and `BLOCK_SIZE=256` → `bs256`. Where two parameters of a
  function, or one and `w` or `s`, would have the same abbreviation, all of these get more letters.
- `True` is the name itself (`IS_CAUSAL` → `causal`); `False`, `None` and "" are left out.
- a type, a function or a text is written as its value: `ACTIVATION="relu"` → `relu`, `OUT_DTYPE=fp16` → `outfp16`.
- tuples of numbers are `bs64x32`; long values and values without a name become a hash.
- `_c2` for two blocks a cluster, `_r128` for a limit of 128 registers.

Only letters, digits and `_`, and never more than `LONGEST`: constexprs beyond that length become one hash.
The same specialization has the same word in every process and release: it does not depend on other kernels.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

LONGEST = 80
_LONGEST_FUNCTION = 48
_ROOM_FOR_SUFFIX = 14
_LONGEST_VALUE = 24
_WHOLE = 6
"""Letters up to which a name of one word is kept."""
_RESERVED = frozenset("wscr")
_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_FORBIDDEN = re.compile(r"[^A-Za-z0-9_]+")
_KINDS = frozenset({"dtype", "type", "ty"})
_SETTINGS = ("num_warps", "num_stages", "num_ctas", "maxnreg")
_OPTIONS = (*_SETTINGS, "enable_fp_fusion", "launch_cooperative_grid", "launch_pdl", "instrumentation_mode")


@dataclass(frozen=True, slots=True)
class Specialization:
    function: str
    constexprs: tuple[tuple[str, Any], ...]
    """Constexprs that the function declares, in the order of its parameters."""
    hidden: tuple[tuple[str, Any], ...]
    """Arguments that Triton made constants without a declaration: 1 and None."""
    signature: Mapping[str, str]
    attributes: str
    """Attributes of arguments: divisibility by 16."""
    options: Mapping[str, Any]


def specialization(source: Any, settings: Any) -> Specialization | None:
    """The specialization of Triton's `ASTSource`, with its options or the metadata of the compiled kernel; None for other sources."""
    function: Any = getattr(source, "fn", None)
    if not hasattr(function, "params"):
        return None
    parameters = function.params
    constants = {_parameter_of(key, parameters): plain(value) for key, value in dict(source.constants or {}).items()}
    declared = [one.name for one in parameters if one.is_constexpr]
    attributes = source.attrs
    return Specialization(
        function=str(function.__name__),
        constexprs=tuple((name, constants[name]) for name in declared if name in constants),
        hidden=tuple(sorted((name, value) for name, value in constants.items() if name not in declared)),
        signature={str(name): str(kind) for name, kind in source.signature.items()},
        attributes=str(attributes if isinstance(attributes, dict) else attributes.hash() if hasattr(attributes, "hash") else ""),
        options={name: getattr(settings, name) for name in _OPTIONS if hasattr(settings, name)},
    )


def readable(one: Specialization) -> str:
    tail = "".join(_settings(one.options))
    function = clean(one.function) or "kernel"
    if len(function) > _LONGEST_FUNCTION:
        function = f"{function[: _LONGEST_FUNCTION - 7]}_{_digest(function)}"
    room = LONGEST - _ROOM_FOR_SUFFIX - len(function) - len(tail)
    parts = list(_constexprs(one.constexprs))
    words = "".join(f"_{part}" for part in parts)
    if len(words) > room:
        kept = 0
        room -= len("_h123456")
        while len("".join(f"_{part}" for part in parts[: kept + 1])) <= room:
            kept += 1
        words = "".join(f"_{part}" for part in [*parts[:kept], "h" + _digest(parts[kept:])])
    return function + words + tail


def suffixes(one: Specialization) -> list[str]:
    """Suffixes that distinguish specializations of one readable name, the most readable first; the last is always distinct."""
    kinds = dict.fromkeys(kind for text in one.signature.values() for kind in re.findall(r"\*k?(\w+)", text))
    types = "_".join(kinds)
    return [*([types] if types and len(types) < _ROOM_FOR_SUFFIX else []), identity(one)]


def identity(one: Specialization) -> str:
    """Six letters: a hash of the whole specialization."""
    options = sorted((name, stable(value)) for name, value in one.options.items())
    constants = [(name, stable(value)) for name, value in (*one.constexprs, *one.hidden)]
    return _digest([one.function, constants, sorted(one.signature.items()), one.attributes, options])


def stable(value: Any) -> Any:
    """A value for JSON, the same in every process."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, list | tuple):
        return [stable(each) for each in value]
    if name := getattr(value, "__name__", None):
        return str(name)
    text = str(value)
    return type(value).__name__ if " at 0x" in text else text


def plain(value: Any) -> Any:
    """The value without Triton's wrapper around constants."""
    return plain(value.value) if type(value).__name__ == "constexpr" and hasattr(value, "value") else value


def clean(text: str) -> str:
    return _FORBIDDEN.sub("_", text).strip("_") if not text.isidentifier() or not text.isascii() else text


def _parameter_of(key: Any, parameters: Any) -> str:
    """The name of a constant. Releases identify it by its parameter, the parameter's place, or a path that begins with it."""
    place, inner = (key[0], key[1:]) if isinstance(key, tuple) else (key, ())
    name = parameters[place].name if isinstance(place, int) else str(place)
    return name + "".join(f".{each}" for each in inner)


def _settings(options: Mapping[str, Any]) -> Iterator[str]:
    for name, letter in zip(_SETTINGS, "wscr", strict=True):
        value = options.get(name)
        if isinstance(value, int) and (name, value) != ("num_ctas", 1):
            yield f"_{letter}{value}"


def _constexprs(constexprs: Iterable[tuple[str, Any]]) -> Iterator[str]:
    constexprs = list(constexprs)
    abbreviations = _abbreviations([name for name, _ in constexprs])
    for name, value in constexprs:
        if word := _constexpr(name, abbreviations[name], value):
            yield word


def _constexpr(name: str, short: str, value: Any) -> str:
    if value is None or value is False or value == "":
        return ""
    if value is True:
        words = [word for word in _words(name) if word != "is"]
        return "".join(words)[:_LONGEST_VALUE] or short
    if isinstance(value, int):
        digits = f"{'m' if value < 0 else ''}{abs(value)}"
        return _joined(short, digits if len(digits) <= _LONGEST_VALUE else _digest(digits))
    if isinstance(value, float):
        return _joined(short, repr(value).replace("-", "m").replace(".", "p").replace("+", ""))
    if isinstance(value, list | tuple):
        text = "x".join(str(int(each)) for each in value) if value and all(isinstance(each, int) and each >= 0 for each in value) else ""
        return _joined(short, text if text and len(text) <= _LONGEST_VALUE else "h" + _digest(stable(value)))
    text = clean(str(stable(value)))
    text = text if text and len(text) <= _LONGEST_VALUE else "h" + _digest(stable(value))
    if isinstance(value, str) or hasattr(value, "__name__"):
        return text
    return "".join(word for word in _words(name) if word not in _KINDS)[:_WHOLE] + text


def _joined(short: str, value: str) -> str:
    return f"{short}_{value}" if short[-1:].isdigit() else short + value


def _abbreviations(names: list[str]) -> dict[str, str]:
    """Abbreviations of all constexprs of a function: equal ones get more letters."""
    result: dict[str, str] = {}
    open_names, letters = list(names), 1
    while open_names:
        short = {name: _abbreviation(name, letters) for name in open_names}
        in_use = [*result.values(), *short.values()]
        settled = [name for name in open_names if (in_use.count(short[name]) == 1 and short[name] not in _RESERVED) or letters > len(name)]
        result |= {name: short[name] for name in settled}
        open_names, letters = [name for name in open_names if name not in settled], letters + 1
    return result


def _abbreviation(name: str, letters: int) -> str:
    words = _words(name)
    if words == ["block"]:
        words = ["block", "size"]
    if len(words) == 1 and letters == 1:
        return words[0] if len(words[0]) <= _WHOLE else words[0][:4]
    return "".join(word if word.isdigit() else word[:letters] for word in words) or clean(name) or "x"


def _words(name: str) -> list[str]:
    return [word.lower() for word in _WORDS.findall(name)]


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value).encode()).hexdigest()[:6]
