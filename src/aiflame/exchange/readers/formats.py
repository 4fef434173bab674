"""The formats that can be imported, recognized by their content."""

from __future__ import annotations

import importlib
import re
from typing import Any

from aiflame.exchange.readers.device_formats import DEVICE_FOLDERS, DEVICE_FORMATS
from aiflame.exchange.readers.format import FolderFormat, Format, Progress
from aiflame.exchange.readers.making import Making
from aiflame.exchange.readers.source import Source


def _is_chrome(head: bytes) -> bool:
    begin = head.lstrip(b"\xef\xbb\xbf \t\r\n")
    if begin.startswith(b"{"):
        return b'"traceEvents"' in head or b'"schemaVersion"' in head[:4096]
    return begin.startswith(b"[") and bool(re.match(rb'\[\s*\{[^{}]*"(ph|ts|pid)"\s*:', begin))


def _read_chrome(source: Source, making: Making, progress: Progress) -> None:
    from aiflame.exchange.readers.chrome import kineto

    kineto.read(source, making, progress)


def _lazily(name: str, module: str, *, marked: bool = True) -> Format:
    """A format whose module is imported when a file is there."""

    def own() -> Any:
        return importlib.import_module(f"aiflame.exchange.readers.{module}")

    def is_one(head: bytes) -> bool:
        return bool(own().is_one(head))

    def read(source: Source, making: Making, progress: Progress) -> None:
        own().read(source, making, progress)

    return Format(name, is_one, read, marked)


FORMATS = (
    Format("torch.profiler or Chrome JSON", _is_chrome, _read_chrome),
    _lazily("speedscope", "speedscope"),
    _lazily(".cpuprofile", "cpuprofile"),
    _lazily("Firefox", "gecko"),
    _lazily("pyinstrument", "pyinstrument"),
    *DEVICE_FORMATS,
    _lazily("pprof", "pprof"),
    _lazily("perf script", "perf_script"),
    _lazily("austin", "austin"),
    _lazily("collapsed stacks", "collapsed", marked=False),
)


FOLDERS: tuple[FolderFormat, ...] = DEVICE_FOLDERS


def format_of(head: bytes) -> Format | None:
    return next((one for one in FORMATS if one.is_one(head)), None)
