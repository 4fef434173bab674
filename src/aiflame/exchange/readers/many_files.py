"""Imports files, each into a folder of its own: those of a folder several at once, in processes here or on a Dask cluster."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import NamedTuple

from aiflame import fan_out
from aiflame.errors import AiflameError
from aiflame.exchange.readers.format import Format, Progress
from aiflame.exchange.readers.formats import FOLDERS, format_of
from aiflame.exchange.readers.making import Making
from aiflame.exchange.readers.source import Source
from aiflame.exchange.readers.sources import each_source, files_of
from aiflame.profile.folder.door import Folder
from aiflame.profile.folder.meta import Meta
from aiflame.version import VERSION

MEMORY = 2 << 30
"""Bytes that all processes together may take unless the user allows more."""
_AT_LEAST = 220 << 20
"""Memory of a process with its libraries."""
_UNPACKED = 20
"""Bytes of a trace for each byte of a packed one; 10 to 60 were seen, and a trace takes about as much memory as it has bytes."""
WORTH = 64 << 20
"""Bytes: fewer are imported sooner than processes start."""


class Where(NamedTuple):
    """Where files are imported."""

    memory: int = MEMORY
    dask: str = ""
    """The address of a Dask scheduler; empty: here."""


HERE = Where()


class Trace(NamedTuple):
    """A file that was imported."""

    folder: str
    name: str
    meta: Meta


class _File(NamedTuple):
    path: Path
    into: Path
    number: int


def each_trace(path: Path, new: Folder, progress: Progress, where: Where) -> Iterator[Trace]:
    """Imports the file, or the files of the folder or archive, into folders of `new`. Files of other formats are passed over."""
    if not path.is_dir():
        for number, source in enumerate(each_source(path)):
            trace = _import(source, format_of(source.head), new, str(number), progress, alone=source.path == path)
            if trace is not None:
                yield trace
        return
    for whole in FOLDERS:
        if whole.is_one(path):
            making = Making(new.new_folder("0"))
            whole.read(path, making, progress)
            making.finish(whole.name, (path.name,), VERSION)
            yield Trace("0", path.name, Meta.read(new.folder("0")))
            return
    files = [_File(file, new.path, number) for number, file in enumerate(files_of(path))]
    yield from sorted(filter(None, _all_of(files, progress, where)), key=lambda trace: int(trace.folder))


def _all_of(files: list[_File], progress: Progress, where: Where) -> Iterator[Trace | None]:
    """In the order in which they end."""
    sizes = [file.path.stat().st_size * (_UNPACKED if file.path.suffix in (".gz", ".zst") else 1) for file in files]
    try:
        if where.dask:
            results: Iterator[Trace | fan_out.Failure | None] = fan_out.on_dask(_import_file, files, where.dask)
        else:
            results = fan_out.in_processes(_import_file, files, at_once(sizes, where.memory))
        for many, result in enumerate(results, 1):
            if isinstance(result, fan_out.Failure):
                raise AiflameError(f"{files[result.item].path} could not be imported on the cluster: {result.message}")
            progress(many / len(files))
            yield result
    except BrokenProcessPool:
        why = "a process that imported a file was ended, most likely for want of memory: ask for less with --memory"
        raise AiflameError(why) from None


def at_once(sizes: Sequence[int], memory: int) -> int:
    """How many files of these sizes are imported at the same time, assuming that all are as large as the largest."""
    if sum(sizes) < WORTH:
        return 1
    return max(1, min(fan_out.cpus(), len(sizes), memory // (_AT_LEAST + max(sizes))))


def _import_file(file: _File) -> Trace | None:
    """Called in a process of its own."""
    source = Source.open(file.path)
    return _import(source, format_of(source.head), Folder.open(file.into), str(file.number), lambda share: None, alone=False)


def _import(source: Source, format: Format | None, new: Folder, name: str, progress: Progress, *, alone: bool) -> Trace | None:
    """None where the format is unknown, or where the file may only look like it and is not the one that the user named."""
    if format is None or not (format.marked or alone):
        return None
    making = Making(new.new_folder(name))
    format.read(source, making, progress)
    making.finish(format.name, (source.name,), VERSION)
    return Trace(name, source.name, Meta.read(new.folder(name)))
