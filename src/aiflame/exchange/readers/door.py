"""From files of another tool to a profile: kept in the user's cache by their content, or written where the user says.

A folder or an archive with several traces is a parallel job, and each trace a rank of it.
"""

from __future__ import annotations

import atexit
import contextlib
import hashlib
import os
from pathlib import Path

from aiflame.errors import AiflameError
from aiflame.exchange.readers.format import Progress
from aiflame.exchange.readers.formats import FORMATS, format_of, sisters
from aiflame.exchange.readers.many_files import HERE, Trace, Where, each_trace
from aiflame.exchange.readers.own_sources import state_of_sources
from aiflame.exchange.readers.source import Source, plain
from aiflame.exchange.readers.sources import LeftOut, folders_of, is_archive
from aiflame.exchange.readers.xla.run_folder import newest_run
from aiflame.profile.folder.door import Folder
from aiflame.profile.folder.meta import FILE_NAME as META_FILE
from aiflame.profile.folder.meta import JobRank
from aiflame.profile.opening import looks_like_profile
from aiflame.profile.ranks.job import FILE_NAME as JOB_FILE
from aiflame.profile.ranks.job import FOLDER as RANKS
from aiflame.profile.ranks.job import IMPORT, Job, rank_name
from aiflame.profile.sealing.aside import fresh_place, place_of_import, remove_place
from aiflame.values import replace
from aiflame.version import VERSION

_BLOCK = 4 << 20
_MOST_NAMED = 8
"""Of the files that are left out."""
_NEW, _LOCK = "importing", "import.lock"


def _no_progress(share: float) -> None:
    pass


def imported(path: Path, progress: Progress | None = None) -> Folder:
    """The profile of a file, imported once for each content into the user's cache. Messages call it by the file's name."""
    return _kept(path, progress or _no_progress).called(path)


def as_profile(path: Path, where: Where = HERE) -> Path:
    """The path of a profile: of one that is there, else that of the one that a file was imported to."""
    try:
        if looks_like_profile(Folder.open(path)):
            return path
    except OSError:
        if not path.is_file():
            return path
    return _kept(path, _no_progress, where).path


def _kept(path: Path, progress: Progress, where: Where = HERE) -> Folder:
    path = newest_run(path)
    if not path.is_dir() and not is_archive(source := Source.open(path)) and format_of(source.head) is None:
        raise AiflameError(f"{path} is neither a profile nor {_wanted(path)}")  # before all of it is read
    place = place_of_import(_digest(path), f"{path.name}.aiflame")
    if place is None:
        place = fresh_place()
        atexit.register(remove_place, place)
        _write(path, place, progress, where)
    elif not _is_done(place):
        with place.locked(_LOCK):
            if not _is_done(place):
                for name in set(place.names()) - {_LOCK}:  # somebody was killed here
                    place.remove_tree(name)
                _write(path, place, progress, where)
    return place


def import_to(path: Path, target: Path, progress: Progress | None = None, where: Where = HERE) -> None:
    """Writes the profile of a file into the new folder `target`."""
    with contextlib.suppress(OSError):
        if looks_like_profile(Folder.open(path)):
            raise AiflameError(f"{path} is a profile already: aiflame open {path}")
    path = newest_run(path)
    try:
        folder = Folder.new(target)
    except FileExistsError:
        raise AiflameError(f"{target} exists: name another with -o, or remove it") from None
    except OSError as error:
        raise AiflameError(f"cannot make {target}: {error.strerror or error}") from None
    try:
        _write(path, folder, progress or _no_progress, where)
    except BaseException:
        with contextlib.suppress(OSError, AiflameError):
            Folder.open(target.parent).remove_tree(target.name)
        raise


def _is_done(place: Folder) -> bool:
    return place.has_file(META_FILE) or place.has_file(RANKS, JOB_FILE)


def _write(path: Path, place: Folder, progress: Progress, where: Where = HERE) -> None:
    """Imports into a folder in the place; once the profile is whole, moves its files up into the place itself."""
    new = place.new_folder(_NEW)
    try:
        parts = list(each_trace(path, new, progress, where))
        traces, left_out = [one for one in parts if isinstance(one, Trace)], [one for one in parts if isinstance(one, LeftOut)]
        if not traces:
            raise AiflameError(left_out[0].why if left_out else f"{path} is neither a profile nor {_wanted(path)}")
        traces = [trace._replace(meta=trace.meta.with_notes(*_said(left_out))) for trace in traces]
        if len(traces) == 1:
            traces[0].meta.write(new.folder(traces[0].folder))
            move_into(new.folder(traces[0].folder), place)
        else:
            _as_job(path, traces, new, place)
    except MemoryError:
        raise AiflameError(f"not enough memory to import {path}") from None
    except OSError as error:
        raise AiflameError(f"cannot import {path}: {error.strerror or error}") from None
    finally:
        place.remove_tree(_NEW)


def move_into(profile: Folder, place: Folder) -> None:
    """`meta.json` comes last: where it is, the profile is whole."""
    for entry in sorted(profile.entries(), key=lambda entry: entry.name == META_FILE):
        profile.move(entry.name, place, entry.name)


def _as_job(path: Path, traces: list[Trace], new: Folder, place: Folder) -> None:
    """The traces as ranks, by the numbers that they have themselves, else in the order of their names."""
    ranks_given = [trace.meta.job_rank for trace in traces]
    size = max((rank.size for rank in ranks_given if rank is not None), default=0)
    numbers = [rank.rank for rank in ranks_given if rank is not None]
    if len(numbers) != len(traces):
        numbers = list(range(len(traces)))
    elif (why := _differ(traces)) is not None:
        raise AiflameError(f"{path} has traces of different jobs: {why}; put each job into a folder of its own, or name one file")
    ranks = place.make_folder(RANKS)
    for number, trace in zip(numbers, traces, strict=True):
        # Each trace has a clock of its own; readers align them as they do those of several hosts.
        clock = replace(trace.meta.host, boot_id=trace.meta.host.boot_id or f"rank {number}")
        replace(trace.meta, host=clock, job_rank=JobRank(number, size, job="")).write(new.folder(trace.folder))
        new.move(trace.folder, ranks, rank_name(number))
    Job(name="", launcher=IMPORT, size=max(size, max(numbers) + 1)).replace(place)


def _differ(traces: list[Trace]) -> str | None:
    """Why these do not belong to one job; each knows its rank."""
    first: dict[int, Trace] = {}
    for trace in traces:
        rank = trace.meta.job_rank
        if rank is None:
            continue
        other = first.setdefault(rank.rank, trace)
        if other is not trace:
            return f"{other.name} and {trace.name} are both of rank {rank.rank}"
        size = traces[0].meta.job_rank.size if traces[0].meta.job_rank is not None else rank.size
        if size != rank.size:
            return f"{traces[0].name} knows {size:,} ranks in its job, and {trace.name} {rank.size:,}"
    return None


def _said(left_out: list[LeftOut]) -> list[str]:
    """Notes on files that could not be read."""
    notes = [f"{one.name} is left out: {one.why}" for one in left_out[:_MOST_NAMED]]
    more = len(left_out) - len(notes)
    return [*notes, f"{more:,} more files are left out, which cannot be read either"] if more else notes


def _wanted(path: Path) -> str:
    names = ", ".join(one.name for one in FORMATS)
    return f"{'a folder with files' if path.is_dir() else 'a file'} of a format that can be imported: {names}"


def _digest(path: Path) -> str:
    """Of the content; of a folder, of its files' names, sizes and times. Other readers may make another profile of it."""
    digest = hashlib.blake2b(VERSION.encode() + state_of_sources(), digest_size=16)
    try:
        if path.is_dir():
            for entry in sorted((one for folder in folders_of(path) for one in os.scandir(folder)), key=lambda entry: entry.path):
                status = entry.stat(follow_symlinks=False)
                name = str(Path(entry.path).relative_to(path))
                digest.update(repr((name, status.st_size, status.st_mtime_ns, status.st_ino)).encode())
        else:
            with plain(path) as file:
                while block := file.read(_BLOCK):
                    digest.update(block)
            for sister in sisters(path):
                status = sister.stat()
                digest.update(repr((sister.name, status.st_size, status.st_mtime_ns)).encode())
    except OSError as error:
        raise AiflameError(f"cannot read {path}: {error.strerror or error}") from None
    return digest.hexdigest()
