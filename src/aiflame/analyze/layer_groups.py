"""Layers that are built alike: paths that differ in their indices alone."""

from __future__ import annotations

import re
from collections.abc import Sequence

import polars as pl

_INDEX = r"(^|\.)\d+(\.|$)"


def collapsed(path: pl.Expr) -> pl.Expr:
    """`layers.3.attn` → `layers.*.attn`."""
    return path.str.replace_all(_INDEX, "${1}*${2}").str.replace_all(_INDEX, "${1}*${2}")


def around(path: str) -> list[str]:
    """`layers.3.attn` → `layers`, `layers.3`, `layers.3.attn`."""
    names = path.split(".")
    return [".".join(names[: depth + 1]) for depth in range(len(names))]


def within(path: str, layers: Sequence[str]) -> bool:
    """Whether it is one of these layers, or inside of one."""
    return any(f"{path}.".startswith(f"{layer}.") for layer in layers)


def search(group: str) -> str:
    """A regular expression that finds the frames of a group's innermost layers: of `layers.*.attn` frames are named `attn`, of `layers.*`
    and of `layers.3` they are `layers.3`."""
    names = group.split(".")
    last = ".".join(names[-2:]) if names[-1] == "*" or names[-1].isdecimal() else names[-1]
    return f"^{escaped(last).replace(escaped('*'), '[0-9]+')}$"


def escaped(text: str) -> str:
    """A regular expression, for Python and JavaScript, that matches exactly this text."""
    return re.sub(r"([\\^$.|?*+()\[\]{}])", r"\\\1", text)
