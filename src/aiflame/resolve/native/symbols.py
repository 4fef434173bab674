"""Turns native frame words into rows of `symbols` and `instructions`: each file is read once, for all processes together."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import polars as pl

from aiflame.profile.folder.door import Folder
from aiflame.profile.schema.kinds import Kind
from aiflame.resolve.files.code_files import VDSO, Code, Module, find_code, is_missing, why_missing
from aiflame.resolve.files.outside import Outside
from aiflame.resolve.names.readable import Name, clean, readable, readable_cpp
from aiflame.resolve.native.instructions import instructions_at
from aiflame.resolve.native.lookup import Found, look_up
from aiflame.values import dataclass

_PLACES = {
    "code": pl.UInt32,
    "lookup": pl.UInt64,
    "depth": pl.UInt16,
    "name": pl.String,
    "full_name": pl.String,
    "kind": pl.UInt8,
    "module": pl.String,
    "file": pl.String,
    "line": pl.UInt32,
}
_INSTRUCTIONS = {"code": pl.UInt32, "lookup": pl.UInt64, "text": pl.String, "function_offset": pl.UInt64}
_IDENTITY = ("path", "build_id", "inode", "device")


@dataclass(frozen=True, slots=True)
class Native:
    symbols: pl.DataFrame
    instructions: pl.DataFrame
    notes: tuple[str, ...]
    """reasons for missing names, one line each"""


def native_symbols(
    frames: pl.DataFrame,
    modules: pl.DataFrame,
    seconds: Callable[[int], float],
    profile: Folder,
    progress: Callable[[float], None],
    outside: Outside,
) -> Native:
    """`frames` has process, frame, id (of the module), offset, exact and approximate; `seconds` turns `seen_ns` into a time of day."""
    codes = modules.group_by(_IDENTITY).agg(pl.col("seen_ns").min()).sort(_IDENTITY).with_row_index("code")
    modules = modules.join(codes.select("code", *_IDENTITY), on=_IDENTITY, nulls_equal=True).select("process", "id", "code")
    # A return address is looked up at its call.
    lookup = pl.when("exact").then(pl.col("offset")).otherwise(pl.col("offset") - pl.min_horizontal(pl.col("offset"), pl.lit(1, pl.UInt64)))
    frames = frames.join(modules, on=["process", "id"], how="left").with_columns(lookup=lookup)
    wanted = frames.filter(pl.col("code").is_not_null()).group_by("code", "lookup").agg(pl.col("exact").any()).sort("code", "lookup")
    names = _Names()
    places: list[tuple[object, ...]] = []
    instructions: list[tuple[object, ...]] = []
    notes: list[str] = []
    not_looked_for: list[str] = []
    groups = wanted.partition_by("code", maintain_order=True)
    for number, group in enumerate(groups):
        progress(number / len(groups))
        row = codes.row(group["code"][0], named=True)
        module = Module(row["path"] or "", row["build_id"] or b"", row["inode"], row["device"], seconds(row["seen_ns"]))
        with find_code(module, profile, outside) as code:
            if is_missing(module, code):
                (notes if outside.allowed else not_looked_for).append(why_missing(module) if outside.allowed else clean(module.name))
            addresses = group["lookup"].to_numpy().astype(np.uint64)
            looked_up, note = look_up(module.name, code, addresses)
            notes += [note] if note else []
            for address, result in zip(addresses.tolist(), looked_up, strict=True):
                places += _rows(row["code"], address, result, module.name, names)
            instructions += _instructions(row["code"], code, group, looked_up)
    if not_looked_for:
        notes.append(_not_looked_for(not_looked_for))
    return Native(_symbols(frames, places), _join_instructions(frames, instructions), tuple(notes))


def _not_looked_for(names: Sequence[str]) -> str:
    more = f" and {len(names) - 1} more" if len(names) > 1 else ""
    return (
        f"functions of {names[0]}{more} have no names: files beside a profile are read only where, and by whom, it was recorded "
        "(once, when it is opened first)"
    )


class _Names:
    """Readable names by raw names: names are few beside addresses."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, bool], Name] = {}

    def of(self, raw: str, cplusplus: bool) -> Name:
        """`cplusplus`: DWARF says that the function, which has no symbol, is C++."""
        key = raw, cplusplus
        name = self._known.get(key)
        if name is None:
            name = self._known[key] = readable_cpp(raw) if cplusplus and not raw.startswith("_Z") else readable(raw)
        return name


def _rows(code: int, address: int, result: Found, module: str, names: _Names) -> list[tuple[object, ...]]:
    if not result.chain:
        at = f"+0x{address if result.start < 0 else result.start:x}"
        name = f"{module}{at}" if module == VDSO else f"[unknown] {clean(module)}{at}"
        return [(code, address, 0, name, "", int(Kind.C), clean(module), "", 0)]
    rows: list[tuple[object, ...]] = []
    for depth, place in enumerate(result.chain):
        name_ = names.of(place.name, place.cplusplus and depth > 0)
        full = "" if name_.full == name_.short else name_.full
        rows.append((code, address, depth, name_.short, full, int(name_.kind), clean(module), clean(place.file), place.line))
    return rows


def _instructions(code: int, files: Code, group: pl.DataFrame, looked_up: Sequence[Found]) -> list[tuple[object, ...]]:
    exact = [
        (address, result.start) for address, is_exact, result in zip(group["lookup"], group["exact"], looked_up, strict=True) if is_exact
    ]
    if files.binary is None or not exact:
        return []
    texts = instructions_at(files.binary, [address for address, _ in exact])
    return [(code, address, text, address - max(start, 0)) for (address, start), text in zip(exact, texts, strict=True) if text]


def _symbols(frames: pl.DataFrame, places: list[tuple[object, ...]]) -> pl.DataFrame:
    named = frames.join(pl.DataFrame(places, schema=_PLACES, orient="row"), on=["code", "lookup"], how="left")
    lost = pl.format("[unknown] module {}+0x{}", pl.col("id"), pl.col("offset").map_elements(lambda at: f"{at:x}", pl.String))
    missing = named.filter(pl.col("name").is_null()).with_columns(
        name=lost, full_name=pl.lit(""), kind=pl.lit(int(Kind.C), pl.UInt8), module=pl.lit(""), file=pl.lit(""),
        line=pl.lit(0, pl.UInt32), depth=pl.lit(0, pl.UInt16),
    )  # fmt: skip
    return pl.concat([named.filter(pl.col("name").is_not_null()), missing])


def _join_instructions(frames: pl.DataFrame, rows: list[tuple[object, ...]]) -> pl.DataFrame:
    texts = pl.DataFrame(rows, schema=_INSTRUCTIONS, orient="row")
    exact = frames.filter("exact").join(texts, on=["code", "lookup"])
    return exact.select("process", "frame", "text", "function_offset").sort("process", "frame")
