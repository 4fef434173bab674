"""The formats that can be imported, recognized by their content. The module of a format is imported when it is asked."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

from aiflame.exchange.readers.format import FolderFormat, Format, Progress
from aiflame.exchange.readers.making import Making
from aiflame.exchange.readers.source import Source


def _module(name: str) -> Any:
    return importlib.import_module(f"aiflame.exchange.readers.{name}")


def _format(name: str, module: str, *, marked: bool = True) -> Format:
    """A module with `is_one(head)` and `read(source, making, progress)`."""

    def is_one(head: bytes) -> bool:
        return bool(_module(module).is_one(head))

    def read(source: Source, making: Making, progress: Progress) -> None:
        _module(module).read(source, making, progress)

    return Format(name, is_one, read, marked)


def _folder(name: str, module: str) -> FolderFormat:
    """A module with `is_folder(folder)` and `read_folder(folder, making, progress)`."""

    def is_one(folder: Path) -> bool:
        return bool(_module(module).is_folder(folder))

    def read(folder: Path, making: Making, progress: Progress) -> None:
        _module(module).read_folder(folder, making, progress)

    return FolderFormat(name, is_one, read)


FORMATS = (
    _format("torch.profiler or Chrome JSON", "chrome.kineto"),
    _format("JSON lines of nsys", "nsys.json_lines"),
    _format("nsys Arrow", "nsys.arrow_stream"),
    _format("torch memory snapshot", "memory.snapshot"),
    _format("torch memory timeline", "memory.timeline"),
    _format("memray", "memory.memray"),
    _format("speedscope", "sampled.speedscope"),
    _format(".cpuprofile", "sampled.cpuprofile"),
    _format("Firefox", "sampled.gecko"),
    _format("pyinstrument", "sampled.pyinstrument"),
    _format("rocprofv3 JSON", "rocm.results_json"),
    _format("rocprofv3 CSV", "rocm.csv_files"),
    _format("SQLite of nsys, rocprofv3 or RPD", "databases"),
    _format("Proton", "proton"),
    _format("XPlane of JAX, XLA or TensorFlow", "xla.xplane"),
    _format("Perfetto", "perfetto.trace"),
    _format("pprof", "sampled.pprof"),
    _format("perf.data", "sampled.perf_data"),
    _format("perf script", "sampled.perf_script"),
    _format("austin", "sampled.austin"),
    _format("collapsed stacks", "sampled.collapsed", marked=False),
)
FOLDERS = (
    _folder("nsys Parquet or Arrow", "nsys.report"),
    _folder("rocprofv3 CSV", "rocm.csv_files"),
)


def format_of(head: bytes) -> Format | None:
    return next((one for one in FORMATS if one.is_one(head)), None)


def sisters(path: Path) -> tuple[Path, ...]:
    """Other files that are read together with a file."""
    if "results.json" in path.name:
        return tuple(_module("rocm.code_objects").candidates(path.parent))
    if ".csv" not in path.name:
        return ()
    return tuple(one for one in _module("rocm.csv_files").sisters(path) if one.name != path.name)
