"""Imports files, each into a profile of its own: those of a folder several at once, in processes here or on a Dask cluster."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import NamedTuple

from aiflame import fan_out
from aiflame.errors import AiflameError
from aiflame.exchange.readers.format import FolderFormat, Format, Progress
from aiflame.exchange.readers.formats import FOLDERS, format_of
from aiflame.exchange.readers.making import Making
from aiflame.exchange.readers.source import Source
from aiflame.exchange.readers.sources import LeftOut, each_source, files_of, folders_of
from aiflame.profile.folder.door import Folder
from aiflame.profile.folder.meta import Meta
from aiflame.version import VERSION

_AT_LEAST = 220 << 20
"""Memory of a process with its libraries."""
_UNPACKED = 20
"""Bytes of a trace for each byte of a packed one; 10 to 60 were seen, and a trace takes about as much memory as it has bytes."""
WORTH = 64 << 20
"""Bytes: fewer are imported sooner than processes start."""


class Where(NamedTuple):
    """Where files are imported."""

    memory: int = 0
    """Bytes that all processes together may take; 0: no process is started, and files are imported one after another. New processes of
    Python run the main module again: only our own commands are sure to allow that."""
    dask: str = ""
    """The address of a Dask scheduler; empty: here."""


HERE = Where()


class Trace(NamedTuple):
    """A file that was imported."""

    folder: str
    name: str
    meta: Meta


class _Part(NamedTuple):
    """A file, or a folder whose files are one trace together."""

    path: Path
    into: Path
    number: int


def each_trace(path: Path, new: Folder, progress: Progress, where: Where) -> Iterator[Trace | LeftOut]:
    """Imports the file, or all traces of the folder or archive, into folders of `new`. Files of other formats are passed over."""
    if not path.is_dir():
        for number, source in enumerate(each_source(path)):
            if isinstance(source, LeftOut):
                yield source
                continue
            alone = source.path == path
            try:
                trace = _import(source, format_of(source.head), new, str(number), progress, alone=alone)
            except AiflameError as error:
                if alone:
                    raise
                yield LeftOut.of(source.name, source.path, error)
                continue
            if trace is not None:
                yield trace
        return
    paths = [part for folder in folders_of(path) for part in ([folder] if _whole(folder) else files_of(folder))]
    parts = [_Part(part, new.path, number) for number, part in enumerate(paths)]
    if len(parts) == 1:
        traces: Iterator[Trace | LeftOut | None] = iter([_import_part(parts[0], progress)])
    else:
        traces = _all_of(parts, progress, where)
    results = [one for one in traces if one is not None]
    yield from sorted((one for one in results if isinstance(one, LeftOut)), key=lambda left: left.name)
    yield from sorted((one for one in results if isinstance(one, Trace)), key=lambda trace: int(trace.folder))


def _whole(folder: Path) -> FolderFormat | None:
    """The format of a folder whose files are one trace together."""
    return next((whole for whole in FOLDERS if whole.is_one(folder)), None)


def _all_of(parts: list[_Part], progress: Progress, where: Where) -> Iterator[Trace | LeftOut | None]:
    """In the order in which they end."""
    try:
        if where.dask:
            results: Iterator[Trace | LeftOut | fan_out.Failure | None] = fan_out.on_dask(_import_one_of_many, parts, where.dask)
        else:
            results = fan_out.in_processes(_import_one_of_many, parts, at_once([_size(part.path) for part in parts], where.memory))
        for many, result in enumerate(results, 1):
            if isinstance(result, fan_out.Failure):
                raise AiflameError(f"{parts[result.item].path} could not be imported on the cluster: {result.message}")
            progress(many / len(parts))
            yield result
    except BrokenProcessPool:
        why = "a process that imported a file was ended, most likely for want of memory: ask for less with --memory"
        raise AiflameError(why) from None


def _size(path: Path) -> int:
    """The bytes of a file, or of the files of a folder. A packed file counts as many times its size as traces usually unpack to."""
    if path.is_dir():
        return sum(map(_size, files_of(path)))
    return path.stat().st_size * (_UNPACKED if path.suffix in (".gz", ".zst") else 1)


def at_once(sizes: Sequence[int], memory: int) -> int:
    """How many files of these sizes are imported at the same time, assuming that all are as large as the largest."""
    if sum(sizes) < WORTH:
        return 1
    return max(1, min(fan_out.cpus(), len(sizes), memory // (_AT_LEAST + max(sizes))))


def _no_progress(share: float) -> None:
    pass


def _import_one_of_many(part: _Part) -> Trace | LeftOut | None:
    """One damaged file does not keep the others from being read."""
    try:
        return _import_part(part)
    except AiflameError as error:
        return LeftOut.of(part.path.name, part.path, error)


def _import_part(part: _Part, progress: Progress = _no_progress) -> Trace | None:
    """Called in a process of its own, if there are several."""
    new, name = Folder.open(part.into), str(part.number)
    if not part.path.is_dir():
        source = Source.open(part.path)
        return _import(source, format_of(source.head), new, name, progress, alone=False)
    whole = _whole(part.path)
    if whole is None:
        return None
    making = Making(new.new_folder(name))
    whole.read(part.path, making, progress)
    making.finish(whole.name, (part.path.name,), VERSION)
    return Trace(name, part.path.name, Meta.read(new.folder(name)))


def _import(source: Source, format: Format | None, new: Folder, name: str, progress: Progress, *, alone: bool) -> Trace | None:
    """None where the format is unknown, or where the file may only look like it and is not the one that the user named."""
    if format is None or not (format.marked or alone):
        return None
    making = Making(new.new_folder(name))
    format.read(source, making, progress)
    making.finish(format.name, (source.name,), VERSION)
    return Trace(name, source.name, Meta.read(new.folder(name)))
