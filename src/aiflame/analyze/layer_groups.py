"""Groups layers that are built alike: their paths differ only in indices."""

from __future__ import annotations

import re
from collections.abc import Sequence

import polars as pl

from aiflame.profile.tables.interface import Tables

_INDEX = r"(^|\.)\d+(\.|$)"


def collapsed(path: pl.Expr) -> pl.Expr:
    """`layers.3.attn` → `layers.*.attn`."""
    return path.str.replace_all(_INDEX, "${1}*${2}").str.replace_all(_INDEX, "${1}*${2}")


def around(path: str) -> list[str]:
    """`layers.3.attn` → `layers`, `layers.3`, `layers.3.attn`."""
    names = path.split(".")
    return [".".join(names[: depth + 1]) for depth in range(len(names))]


def within(path: str, layers: Sequence[str]) -> bool:
    """True if the path is one of these layers, or inside of one."""
    return any(f"{path}.".startswith(f"{layer}.") for layer in layers)


def layer_classes(profile: Tables, layers: pl.Series) -> dict[str, str]:
    """The class of each layer and of the layers around it, where known. If several models run, a path begins with its model."""
    of_paths: dict[str, str] = dict(profile.table("layer_names").select("path", "type").rows())
    paths = {path for layer in layers.unique() if layer for path in around(layer)}
    return {path: of_paths.get(path, of_paths.get(path.partition(".")[2], "")) for path in paths}


def search(group: str) -> str:
    """A regular expression that finds the frames of a group's innermost layers: for `layers.*.attn` the frames named `attn`, for `layers.*`
    and `layers.3` those named `layers.3`."""
    names = group.split(".")
    last = ".".join(names[-2:]) if names[-1] == "*" or names[-1].isdecimal() else names[-1]
    return f"^{escaped(last).replace(escaped('*'), '[0-9]+')}$"


def escaped(text: str) -> str:
    """A regular expression, for Python and JavaScript, that matches exactly this text."""
    return re.sub(r"([\\^$.|?*+()\[\]{}])", r"\\\1", text)
