"""Samples of program counters whose code object lies beside the trace: then the profile has the tables that a recording has, and lines and
instructions come from the code object itself.

The trace says where a code object was loaded from. Only its file's name counts, in the folder of the trace: the path may come from a
stranger.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path

import polars as pl

from aiflame.errors import AiflameError
from aiflame.exchange.readers.making import FIRST_NS, Making
from aiflame.exchange.readers.source import plain
from aiflame.resolve.device.hsaco import Function, Hsaco
from aiflame.resolve.device.stall_reasons import HOST_TRAP, SELECTED, short
from aiflame.values import dataclass

LARGEST = 256 << 20
_MOST_FILES = 1000
_NAMES = re.compile(r"[^.]+|.+\.(?:out|hsaco|co|so|so\.[\d.]+)")
"""A program or library that has device code in it, or a code object by itself."""
_PART = re.compile(r"#.*?offset=(?P<offset>\w+).*?size=(?P<size>\w+)")
_OF_WINDOW = ["pid", "dispatch", "correlation"]
_PLACE = ["pid", "code_object", "offset"]


@dataclass(frozen=True, slots=True)
class CodeObject:
    code: Hsaco
    to_elf: int
    """Added to an offset of a sample: the address in the file."""

    @property
    def crc(self) -> int:
        return int.from_bytes(hashlib.sha256(self.code.content).digest()[:8], "little")


def candidates(folder: Path) -> tuple[Path, ...]:
    """The files of a folder that `beside` may read."""
    with suppress(OSError):
        names = sorted(entry.name for entry in os.scandir(folder) if entry.is_file(follow_symlinks=False))
        return tuple(folder / name for name in names if _NAMES.fullmatch(name))[:_MOST_FILES]
    return ()


def beside(folder: Path, names: Iterable[str], uri: str) -> Hsaco | None:
    """The first of these files in the folder that is a code object; the part of it that `uri` states, or all of it."""
    part = _PART.search(uri)
    here = {path.name: path for path in candidates(folder)}
    for name in (*names, uri.partition("#")[0]):
        path = here.get(name.rpartition("/")[2])
        if path is None:
            continue
        with suppress(OSError, ValueError, AiflameError), plain(path) as file:
            content = file.read(LARGEST + 1)
            if len(content) > LARGEST:
                continue
            if part is not None:
                begin, size = (int(part[of], 0) for of in ("offset", "size"))
                inner = Hsaco.of_bytes(content[begin : begin + size]) if size else None
                if inner is not None:
                    return inner
            if (whole := Hsaco.of_bytes(content)) is not None:
                return whole
    return None


def add_tables(
    making: Making,
    objects: Mapping[tuple[int, int], CodeObject],
    samples: pl.DataFrame,
    kernels: pl.DataFrame,
    process: Mapping[int, int],
) -> None:
    """`objects`: by process and number; `samples`: `pc_samples.SAMPLES`; `kernels`: pid, dispatch, device, begin and end on the profile's
    clock; `process`: a process's number in the profile by its pid."""
    at_hand = pl.DataFrame(list(objects), schema={"pid": pl.Int64, "code_object": pl.Int64}, orient="row")
    samples = samples.join(at_hand, on=["pid", "code_object"], how="semi").filter(pl.col("offset").is_not_null())
    if samples.is_empty():
        return
    samples = samples.with_columns(
        pl.col("pid").replace_strict(dict(process), default=0, return_dtype=pl.Int64).alias("process"),
        pl.col("dispatch", "correlation").fill_null(0),
    )
    kinds = samples.select("issued", "reason").unique(maintain_order=True)
    kinds = kinds.with_columns(pl.Series("why", [_reason(*kind) for kind in kinds.iter_rows()], dtype=pl.String))
    samples = samples.join(kinds, on=["issued", "reason"], nulls_equal=True, maintain_order="left")
    for content in {code.crc: code.code.content for code in objects.values()}.items():
        making.keep_code(*content)
    crcs = {code.crc: len(code.code.content) for code in objects.values()}
    first = samples["process"].min()
    cubins = pl.DataFrame({"crc": list(crcs), "bytes": list(crcs.values())}, schema_overrides={"crc": pl.UInt64})
    making.add("cubins", cubins.with_columns(process=first))
    placed = samples.join(_functions(making, samples, objects), on=_PLACE, maintain_order="left")
    windows = _windows(making, placed, kernels)
    reasons = making.numbered("stall_reasons", placed.select("process", name="why").unique(maintain_order=True))
    making.add("stall_reasons", reasons)
    rows = placed.join(windows.select(*_OF_WINDOW, window="id"), on=_OF_WINDOW).join(
        reasons.select("process", why="name", reason_row="id"), on=["process", "why"]
    )
    counted = rows.group_by("process", "window", "function", "inside", "reason_row", maintain_order=True).len()
    making.add("gpu_samples", counted.select("process", "window", "function", offset="inside", reason="reason_row", count="len"))


def _reason(issued: int | None, reason: str | None) -> str:
    if issued is None:
        return HOST_TRAP
    return SELECTED if issued else short(reason or "none")


def _functions(making: Making, samples: pl.DataFrame, objects: Mapping[tuple[int, int], CodeObject]) -> pl.DataFrame:
    """For each place its row of `gpu_functions`, and the offset in the function: `inside`. Code outside of all functions has no name."""
    places = samples.select("process", *_PLACE).unique(maintain_order=True)
    rows = []
    for _, pid, number, offset in places.iter_rows():
        one = objects[pid, number]
        address = offset + one.to_elf
        function = one.code.at(address) or Function("", 0, 0)
        rows.append((one.crc, function.name, (address - function.start) & 0xFFFFFFFF))
    schema = {"cubin": pl.UInt64, "name": pl.String, "inside": pl.Int64}
    placed = pl.concat([places, pl.DataFrame(rows, schema=schema, orient="row")], how="horizontal")
    functions = making.numbered("gpu_functions", placed.select("process", "cubin", "name").unique(maintain_order=True))
    making.add("gpu_functions", functions)
    numbers = functions.select("process", "cubin", "name", function="id")
    return placed.join(numbers, on=["process", "cubin", "name"]).select(*_PLACE, "inside", "function")


def _windows(making: Making, samples: pl.DataFrame, kernels: pl.DataFrame) -> pl.DataFrame:
    """A window for each dispatch, as in a recording."""
    dispatches = kernels.unique(["pid", "dispatch"], keep="first").select("pid", "dispatch", "device", "begin", "end")
    windows = (
        samples.group_by("process", *_OF_WINDOW, maintain_order=True)
        .agg(samples=pl.len())
        .join(dispatches, on=["pid", "dispatch"], how="left", maintain_order="left")
        .with_columns(
            begin_ns=pl.col("begin").fill_null(FIRST_NS),
            end_ns=pl.col("end").fill_null(FIRST_NS + 1),
            device=pl.col("device").fill_null("GPU"),
            launched_by=pl.col("correlation").clip(0),
        )
    )
    windows = making.numbered("gpu_windows", windows)
    making.add("gpu_windows", windows)
    return windows
