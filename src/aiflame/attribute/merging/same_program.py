"""Compares the programs of two recordings: their commands, the code that both recorded, and the devices on which they ran."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterator, Mapping

import polars as pl

from aiflame.attribute.analysis import Analysis
from aiflame.attribute.meaning.specializations import variants
from aiflame.attribute.merging.places import model, used_devices
from aiflame.profile.tables.interface import OpenedProfile, Tables

_LONGEST = 60
_NAMED = 2
"""Files of code that a message names."""


def differences(one: OpenedProfile, other: OpenedProfile) -> list[str]:
    """A clause for each kind of difference; none if the recordings show no difference between their programs."""
    clauses = []
    if one.meta.command != other.meta.command:
        clauses.append(f"their commands differ ({_short(one.meta.command)}; {_short(other.meta.command)})")
    if changed := sorted(set(_changed_code(one, other))):
        more = f" and {len(changed) - _NAMED} more" if len(changed) > _NAMED else ""
        clauses.append(f"their code differs ({', '.join(changed[:_NAMED])}{more})")
    here, there = (_devices(Analysis(profile)) for profile in (one, other))
    if here != there:
        clauses.append(f"their devices differ ({_named(here)}; {_named(there)})")
    return clauses


def _changed_code(one: Tables, other: Tables) -> Iterator[str]:
    """Files and kernels whose code both have recorded, and whose code differs."""
    for code in (_modules, _sources, _functions, _kernels):
        here, there = code(one), code(other)
        yield from (name for name, content in here.items() if name in there and content.isdisjoint(there[name]))


def _modules(profile: Tables) -> Mapping[str, set[object]]:
    """By path the build ids of executables and libraries."""
    return _contents(profile.table("modules").filter(pl.col("build_id").bin.size() > 0), "path", "build_id")


def _sources(profile: Tables) -> Mapping[str, set[object]]:
    """By path the texts of source files that were kept, as hashes."""
    if not profile.has("sources"):
        return {}
    return _contents(profile.table("sources").with_columns(text=pl.col("text").hash(seed=7)), "path", "text")


def _functions(profile: Tables) -> Mapping[str, set[object]]:
    """By file the Python functions that only one code object of each profile has, where both have them: a line that was added before a
    function moves it."""
    codes = profile.table("codes").filter(~pl.col("filename").str.starts_with("<"), ~pl.col("qualname").str.contains("<", literal=True))
    each = codes.select(
        name=pl.format("{}: {}", "filename", "qualname"), code=pl.struct("first_line", pl.col("linetable").hash(seed=7), "python")
    ).unique()
    return _contents(each.filter(pl.len().over("name") == 1), "name", "code")


def _kernels(profile: Tables) -> Mapping[str, set[object]]:
    """By name the binaries that Triton compiled it to."""
    return _contents(variants(profile).filter(pl.col("binary") != ""), "name", "binary")


def _contents(rows: pl.DataFrame, name: str, content: str) -> dict[str, set[object]]:
    contents: dict[str, set[object]] = {}
    for key, value in rows.select(name, content).unique().rows():
        contents.setdefault(str(key), set()).add(tuple(value.values()) if isinstance(value, dict) else value)
    return contents


def _devices(profile: Analysis) -> Mapping[str, int]:
    return Counter(model(device) for device in used_devices(profile))


def _named(devices: Mapping[str, int]) -> str:
    return ", ".join(f"{count} × {name}" if count > 1 else name for name, count in sorted(devices.items())) or "none"


def _short(command: tuple[str, ...]) -> str:
    text = shlex.join(command)
    return (text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…") or "unknown"
