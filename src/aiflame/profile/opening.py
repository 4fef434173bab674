"""The only way from a path to a readable profile: seals it if its recorder did not, adds derived tables, aligns the clocks of hosts.

Rooms above this one derive tables (`resolve`) and align clocks (`analyze`); they pass both functions in.
"""

from __future__ import annotations

import contextlib
import dataclasses
import weakref
from collections.abc import Callable, Sequence
from pathlib import Path

import polars as pl

from aiflame.errors import AiflameError
from aiflame.profile.folder.door import Folder, refuse_foreign_entries
from aiflame.profile.folder.meta import FILE_NAME as META_FILE
from aiflame.profile.folder.meta import Meta
from aiflame.profile.ranks.job import FOLDER as RANKS
from aiflame.profile.ranks.job import Job, is_ranked, rank_folders
from aiflame.profile.ranks.rank_numbers import named_ranks, parse_ranks
from aiflame.profile.ranks.ranked import Part, Ranked
from aiflame.profile.ranks.shifts import Shift, since_1970
from aiflame.profile.sealing.aside import fresh_place, is_ours, place_for, remove_place
from aiflame.profile.sealing.going_on import SEALED, still_recorded
from aiflame.profile.sealing.seal import is_sealed, seal, seal_aside, seal_growing
from aiflame.profile.spool.living import SPOOL
from aiflame.profile.tables.index import Index
from aiflame.profile.tables.store import Profile, SealedTables

SUFFIX = ".aiflame"

Progress = Callable[[float], None]
"""Called with the share done while a profile is sealed, 0 to 1."""
Derive = Callable[[Profile], None]
"""Adds missing derived tables to the profile of one recorder."""
Align = Callable[[Ranked], Ranked]
"""Aligns the clocks of several hosts, more closely than by the time of day."""

Import = Callable[[Path, "Progress | None"], Folder]
"""The profile of a file that another tool wrote."""

Ranged = Callable[[Path], Folder | None]
"""The profile of a range of a store; None: the path names none."""


def _as_sealed(profile: Profile) -> None:
    pass


def _by_the_time_of_day(profile: Ranked) -> Ranked:
    return profile


def _no_import(path: Path, progress: Progress | None) -> Folder:
    raise AiflameError(f"{path} is not a profile: a profile is a folder made by `aiflame record`")


def _no_range(path: Path) -> Folder | None:
    return None


def open_profile(
    path: str | Path,
    progress: Progress | None = None,
    *,
    derive: Derive = _as_sealed,
    align: Align = _by_the_time_of_day,
    imported: Import = _no_import,
    ranged: Ranged = _no_range,
) -> Profile | Ranked:
    """Opens a profile, of one recorder or of many ranks. Without `derive` it has the tables that were recorded, and those derived before.
    A file of another tool is `imported`; a path that does not exist may name a range of a store.

    A profile that is still being recorded has the tables so far. Tables of another user's profile are written to a folder of ours."""
    folder = _folder_at(Path(path), lambda file: imported(file, progress), ranged)
    if is_ours(folder):
        refuse_foreign_entries(folder)
    if is_ranked(folder):
        return align(_open_ranks(folder, progress).each(derive))
    return _derived(_open_one(folder, progress), derive)


def open_rank(whole: Folder, name: str, *, derive: Derive = _as_sealed) -> Profile:
    """The profile of a single rank, a folder of `whole`, with times on the clock of its own host."""
    return _derived(_open_one(whole.folder(RANKS, name), None), derive)


def newest(folder: str | Path, allowed: Callable[[Path], bool] | None = None) -> Path:
    """The profile in a folder that was recorded last, among those for which `allowed` is true."""
    profiles: dict[Path, Folder] = {}
    for path in filter(allowed, Path(folder).glob(f"*{SUFFIX}")):
        with contextlib.suppress(AiflameError, OSError):
            if looks_like_profile(profile := Folder.open(path)):
                profiles[path] = profile
    if not profiles:
        raise AiflameError(f"no profile (*{SUFFIX}) in {Path(folder).resolve()}: record one with `aiflame record -- COMMAND`, or name one")
    return max(profiles, key=lambda path: _recorded(profiles[path]))


def _recorded(profile: Folder) -> float:
    with contextlib.suppress(AiflameError, OSError):
        profile = next(iter(rank_folders(profile).values()), profile)
        if started := Meta.read(profile).started.realtime_ns:
            return started / 1e9
    return profile.status().st_mtime


def _folder_at(path: Path, imported: Callable[[Path], Folder], ranged: Ranged) -> Folder:
    try:
        profile = Folder.open(path)
        if not profile.entries():
            raise AiflameError(f"{path} is empty: not a profile")
        if looks_like_profile(profile):
            return profile
        return imported(path)
    except FileNotFoundError:
        if (range_profile := ranged(path)) is not None:
            return range_profile
        raise AiflameError(f"{path} does not exist: name a profile, a folder NAME{SUFFIX} made by `aiflame record`") from None
    except NotADirectoryError:
        return imported(path)
    except OSError as error:
        raise AiflameError(f"cannot read {path}: {error.strerror or error}") from None
    except ValueError:
        raise AiflameError(f"{str(path)!r} is no path: name a profile, a folder NAME{SUFFIX}") from None


def looks_like_profile(profile: Folder) -> bool:
    """Whether a folder is one that a recorder or an import made."""
    return any(profile.entry(part) is not None for part in (META_FILE, SPOOL, SEALED, RANKS))


def _derived(profile: Profile, derive: Derive) -> Profile:
    derive(profile)
    return profile


def _open_one(folder: Folder, progress: Progress | None) -> Profile:
    """The profile of one recorder."""
    if not is_sealed(folder) and (note := still_recorded(folder)) is not None:
        return _as_it_is_now(folder, note, progress)
    if not is_ours(folder):
        return _of_another_user(folder, progress)
    if not is_sealed(folder):
        seal(folder, progress)
    meta = Meta.read(folder)
    return Profile(folder, meta, [_sealed_tables(folder)], folder)


def _as_it_is_now(folder: Folder, note: str, progress: Progress | None) -> Profile:
    """The records so far of a profile that is still growing. Its tables are in a folder that is removed together with the returned
    object."""
    place = fresh_place()
    note = f"{folder.name} {note}"
    seal_growing(folder, place, note, progress)
    profile = Profile(folder, Meta.read(place), [_sealed_tables(place)], place, note)
    weakref.finalize(profile, remove_place, place)
    return profile


def _of_another_user(folder: Folder, progress: Progress | None) -> Profile:
    """A profile of another user, or one that we cannot write to."""
    place = place_for(folder)
    if is_sealed(folder):
        if place is None:
            return Profile(folder, Meta.read(folder), [_sealed_tables(folder)], None)
        derived = place.make_folder(SEALED).held()
        meta = Meta.read(place) if place.has_file(META_FILE) else Meta.read(folder)
        return Profile(folder, meta, [SealedTables(derived, Index.read(derived) or Index({})), _sealed_tables(folder)], place)
    if place is None:
        raise AiflameError(
            f"{folder.path} is not sealed, and not yours to write to: set XDG_CACHE_HOME to a folder of your own that nobody else may"
            " write to, where its tables can be made; or copy the profile with `cp -r` and open the copy"
        )
    seal_aside(folder, place, progress)
    return Profile(folder, Meta.read(place), [_sealed_tables(place)], place)


def _sealed_tables(folder: Folder) -> SealedTables:
    index = Index.read(folder.folder(SEALED))
    if index is None:
        raise AiflameError(f"{folder.path / SEALED} is damaged (its index is missing or wrong): record again or restore it from a copy")
    return SealedTables(folder.folder(SEALED).held(), index)


def _open_ranks(whole: Folder, progress: Progress | None) -> Ranked:
    """A folder with `ranks/`; seals each rank whose recorder did not. Error if no rank can be read."""
    job, folders = Job.read(whole), rank_folders(whole)
    tell = progress or (lambda share: None)
    parts: list[Part] = []
    why: dict[str, list[int]] = {}
    for place, (rank, folder) in enumerate(folders.items()):
        try:
            if not _is_of(folder, job):
                continue
            store = _open_one(folder, lambda share, place=place: tell((place + share) / len(folders)))  # type: ignore[misc]
            store.refuse_cut_short()
            last = store.scan("processes").select(pl.col("process").max()).collect().item()
        except AiflameError as error:
            why.setdefault(f"cannot be read, and is left out: {error}", []).append(rank)
            continue
        if last is None:
            why.setdefault("recorded nothing", []).append(rank)
        parts.append(Part(store, rank, 0 if last is None else int(last) + 1))
    there = {part.rank for part in parts} | {rank for ranks in why.values() for rank in ranks}
    if gone := [rank for rank in _expected(job) if rank not in there]:
        why["left nothing behind"] = gone
    notes = [f"{named_ranks(ranks)} {reason}" for reason, ranks in why.items()]
    if not parts:
        raise AiflameError(f"{whole.path}: no rank of it can be read: {'; '.join(notes) or 'it has none'}")
    aligned, unknown = _on_one_clock(parts)
    if unknown:
        notes.append(f"no clock readings relate {named_ranks(unknown)} to rank {parts[0].rank}: their times do not fit together")
    return Ranked(whole, aligned, notes, complete=not why)


def _is_of(folder: Folder, job: Job | None) -> bool:
    """False if another run of the same name left the folder behind."""
    rank = Meta.read(folder).job_rank
    return job is None or rank is None or rank.job == job.name


def _expected(job: Job | None) -> list[int]:
    if job is None:
        return []
    try:
        chosen = parse_ranks(job.ranks) if job.ranks else range(job.size)
    except AiflameError:
        return []
    return sorted(rank for rank in chosen if not job.size or rank < job.size)


def _on_one_clock(parts: Sequence[Part]) -> tuple[list[Part], list[int]]:
    """The parts, with their clocks moved to the first part's by the time of day; and the ranks that lack readings of both clocks."""
    ahead: dict[str, int | None] = {}
    for part in parts:
        if ahead.get(part.host) is None:
            ahead[part.host] = since_1970(part.store.meta, part.store.table("clocks"))
    here = ahead[parts[0].host]
    moved, unknown = [], []
    for part in parts:
        there = ahead[part.host]
        if part.host == parts[0].host:
            moved.append(part)
        elif here is None or there is None:
            moved.append(part)
            unknown.append(part.rank)
        else:
            moved.append(dataclasses.replace(part, shift=Shift(there - here)))
    return moved, unknown
