"""Many profiles as one: the ranks of a parallel job, each recorded into a folder of its own (`NAME.aiflame/ranks/00003`).

Tables are concatenated when they are asked for: process numbers continue from rank to rank, times are converted to the clock of the first
rank, and tables keyed by code have each row once. A rank that cannot be read is left out with a note. A selection of ranks is a `Ranked`,
too.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path

import polars as pl

from aiflame.errors import AiflameError
from aiflame.profile.folder.door import Folder
from aiflame.profile.folder.meta import Clocks, Meta
from aiflame.profile.ranks.job import rank_name
from aiflame.profile.ranks.rank_numbers import named_ranks
from aiflame.profile.ranks.rank_of import NONE, ranks_of
from aiflame.profile.ranks.shifts import MOMENTS, SAME, Shift
from aiflame.profile.tables.interface import answer, collected, without_rows
from aiflame.profile.tables.store import Profile
from aiflame.values import dataclass

_OF_CODE = {
    "kernel_names": ("name",),
    "kernel_binaries": ("cubin",),
    "gpu_instructions": ("cubin", "function"),
    "gpu_lines": ("cubin", "function"),
    "sources": ("path",),
}
"""Derived tables keyed by code, not by process. Where several ranks have the same key, the first rank's rows are used."""
_SERIES = "telemetry_series"


@dataclass(frozen=True, slots=True)
class Part:
    """One of the profiles in a `Ranked`."""

    store: Profile
    rank: int
    """rank of its recorder, which is the number of its folder; -1: none"""
    count: int
    """number of processes"""
    chosen: tuple[int, ...] | None = None
    """the selected processes, by their numbers in this profile; None: all"""
    first: int = 0
    """the number of its first selected process in the `Ranked`"""
    shift: Shift = SAME

    @property
    def host(self) -> str:
        """The host whose clock its times are on."""
        host = self.store.meta.host
        return host.boot_id or host.name

    @property
    def shown(self) -> int:
        return self.count if self.chosen is None else len(self.chosen)


class Ranked:
    """Several profiles as one (`interface.OpenedProfile`). Derived tables are written into the profiles of single ranks, never here."""

    def __init__(self, folder: Folder, parts: Sequence[Part], notes: Iterable[str] = (), *, complete: bool = True) -> None:
        self.parts = tuple(_numbered(parts))
        self._notes, self._complete = tuple(notes), complete
        self.folder = folder
        self.meta = _meta(self.parts, self._notes, complete=complete)
        self._hosts = _host_names(self.parts)

    @property
    def path(self) -> Path:
        """The profile's name. Never open it, nor a path below it."""
        return self.folder.path

    def has(self, name: str) -> bool:
        return any(part.store.has(name) for part in self.parts) or (name == "ranks" and any(part.rank >= 0 for part in self.parts))

    def names(self) -> list[str]:
        tables = dict.fromkeys(name for part in self.parts for name in part.store.names())
        return [*tables, *(["ranks"] if "ranks" not in tables and self.has("ranks") else [])]

    def table(self, name: str) -> pl.DataFrame:
        return collected(self, name)

    def sql(self, query: str) -> pl.DataFrame:
        """Runs SQL (Polars' dialect) over all tables, including tables of the schema without rows."""
        return answer(self, query)

    def scan(self, name: str) -> pl.LazyFrame:
        having = [part for part in self.parts if part.store.has(name) or name == "ranks"]
        frames = [rows for part in having if (rows := self._scan(part, name)) is not None]
        if not frames:
            return without_rows(self, name).lazy()
        whole = pl.concat(frames, how="diagonal") if len(frames) > 1 else frames[0]
        return _rows_of_first_part(whole, _OF_CODE[name]) if name in _OF_CODE else whole.drop("part", strict=False)

    def notes(self) -> list[str]:
        """The notes of all ranks, each line once, with the ranks that have it."""
        said = [(part.rank, text) for part in self.parts for text in part.store.table("notes")["text"].to_list()]
        return list(dict.fromkeys([*self.meta.degraded, *_grouped(said, self.parts)]))

    def unfinished(self) -> list[str]:
        growing = [part for part in self.parts if part.store.unfinished()]
        if len(growing) == 1 and growing[0].rank < 0:
            return growing[0].store.unfinished()
        return [f"{named_ranks([part.rank for part in growing])}: {growing[0].store.unfinished()[0]}"] if growing else []

    def kept_size(self, file: str) -> int | None:
        part, name = self._keeper(file)
        return part.store.kept_size(name) if part is not None else None

    def read_kept(self, file: str, most: int) -> bytes:
        part, name = self._keeper(file)
        return part.store.read_kept(name, most) if part is not None else b""

    def _keeper(self, file: str) -> tuple[Part | None, str]:
        """The part that has this file, and the file's name in it."""
        folder, _, name = file.partition("/")
        for part in self.parts:
            if part.rank < 0:
                return part, file
            if folder == _folder(part):
                return part, name
        return None, file

    def each(self, do: Callable[[Profile], None]) -> Ranked:
        """Applies `do` to each rank's profile; returns the profile of the ranks for which it succeeded, raises if it failed for all."""
        failed = {part.rank: error for part in self.parts if (error := _failure(do, part.store)) is not None}
        if len(failed) == len(self.parts):
            raise next(iter(failed.values()))
        if not failed:
            return Ranked(self.folder, self.parts, self._notes, complete=self._complete)
        notes = [f"{named_ranks([rank])} cannot be read, and is left out: {error}" for rank, error in failed.items()]
        return Ranked(self.folder, [part for part in self.parts if part.rank not in failed], [*self._notes, *notes], complete=False)

    def moved(self, further: Mapping[str, Shift]) -> Ranked:
        """The same parts, with the clocks of some hosts (`Part.host`) shifted further."""
        parts = [dataclasses.replace(part, shift=part.shift.then(further.get(part.host, SAME))) for part in self.parts]
        return Ranked(self.folder, parts, self._notes, complete=self._complete)

    def noted(self, *notes: str) -> Ranked:
        return Ranked(self.folder, self.parts, [*self._notes, *notes], complete=self._complete)

    def _scan(self, part: Part, name: str) -> pl.LazyFrame | None:
        """A part's rows of a table. A damaged table of one part among several is left out, with a note."""
        try:
            return self._of_whole(part, name, _ranks(part) if name == "ranks" else part.store.scan(name))
        except AiflameError as error:
            if len(self.parts) == 1:
                raise
            self.meta = self.meta.with_notes(f"{named_ranks([part.rank])}: its table {name!r} is left out: {error}")
            return None

    def _of_whole(self, part: Part, name: str, rows: pl.LazyFrame) -> pl.LazyFrame:
        """A part's rows of a table, with the process numbers and times of the whole profile."""
        columns = rows.collect_schema().names()
        change: list[pl.Expr] = [] if part.shift.none else [part.shift.of(column) for column in columns if column in MOMENTS]
        if "process" in columns:
            if part.chosen is not None:
                rows = rows.filter(pl.col("process").is_in(part.chosen))
                new = range(part.first, part.first + len(part.chosen))
                change.append(pl.col("process").replace_strict(list(part.chosen), list(new), return_dtype=pl.UInt32))
            elif part.first:
                change.append(pl.col("process") + pl.lit(part.first, pl.UInt32))
        if "device" in columns and len(self._hosts) > 1:
            change.append(pl.format("{}: {}", pl.lit(self._hosts[part.host]), "device").alias("device"))
        if "series" in columns and (before := self._series_before(part)):
            change.append(pl.col("series") + pl.lit(before, pl.UInt32))
        if part.rank >= 0 and name == "processes":
            change.append(pl.lit(part.rank, pl.UInt32).alias("recorder"))
        if part.rank >= 0 and name == "kept_files":
            change.append(pl.format("{}/{}", pl.lit(_folder(part)), "file").alias("file"))
        if name in _OF_CODE:
            change.append(pl.lit(part.rank, pl.Int64).alias("part"))
        return rows.with_columns(change) if change else rows

    def _series_before(self, part: Part) -> int:
        before = 0
        for other in self.parts:
            if other is part:
                break
            if other.store.has(_SERIES):
                before += int(other.store.scan(_SERIES).select(pl.col("series").max()).collect().item() or 0) + 1
        return before


def some_ranks(profile: Profile | Ranked, wanted: Collection[int]) -> Ranked:
    """A profile of only the processes of these ranks."""
    ranks = ranks_of(profile.table("processes"), profile.table("ranks")).tolist()
    there = {rank for rank in ranks if rank != NONE}
    if not there:
        raise AiflameError(f"{profile.path} has no ranks: no launcher started the program")
    if lacking := set(wanted) - there:
        raise AiflameError(f"{profile.path} has no {named_ranks(lacking)}, only {named_ranks(there)}")
    if not isinstance(profile, Ranked):
        chosen = tuple(process for process, rank in enumerate(ranks) if rank in wanted)
        return Ranked(profile.folder, [Part(profile, -1, len(ranks), chosen)], complete=profile.meta.complete)
    parts = []
    for part in profile.parts:
        own = range(part.count) if part.chosen is None else part.chosen
        chosen = tuple(process for place, process in enumerate(own) if ranks[part.first + place] in wanted)
        if chosen:
            parts.append(dataclasses.replace(part, chosen=None if len(chosen) == part.count else chosen))
    return Ranked(profile.folder, parts, complete=profile.meta.complete)


def _failure(do: Callable[[Profile], None], store: Profile) -> AiflameError | None:
    try:
        do(store)
    except AiflameError as error:
        return error
    return None


def _numbered(parts: Iterable[Part]) -> Iterable[Part]:
    first = 0
    for part in parts:
        yield dataclasses.replace(part, first=first)
        first += part.shown


def _meta(parts: Sequence[Part], notes: Iterable[str], *, complete: bool) -> Meta:
    """The metadata of the whole profile; fields that all ranks share come from the first."""
    metas = [part.store.meta for part in parts]
    first = metas[0]
    host = first.host
    names = list(dict.fromkeys(meta.host.name for meta in metas))
    if len(names) > 1:
        host = dataclasses.replace(host, name=f"{names[0]} and {len(names) - 1} other host{'s' if len(names) > 2 else ''}")
    ended = [part.shift.moment(meta.ended.monotonic_ns) for part, meta in zip(parts, metas, strict=True) if meta.ended is not None]
    begun = [at for part, meta in zip(parts, metas, strict=True) if (at := part.shift.moment(meta.started.monotonic_ns))]
    statuses = [meta.exit_status for meta in metas]
    said = _grouped([(part.rank, text) for part, meta in zip(parts, metas, strict=True) for text in meta.degraded], parts)
    return dataclasses.replace(
        first,
        host=host,
        started=_at(min(begun, default=0), first.started),
        ended=_at(max(ended), first.started) if len(ended) == len(metas) else None,
        exit_status=None if None in statuses else next((status for status in statuses if status), 0),
        degraded=tuple(dict.fromkeys([*notes, *said])),
        complete=complete and all(meta.complete for meta in metas),
        job_rank=None,
    )


def _at(monotonic_ns: int, reference: Clocks) -> Clocks:
    later = monotonic_ns - reference.monotonic_ns
    return Clocks(monotonic_ns, reference.raw_ns and reference.raw_ns + later, reference.realtime_ns and reference.realtime_ns + later)


def _host_names(parts: Sequence[Part]) -> dict[str, str]:
    """The name of each host, with a part of its id if several have the same name."""
    names = {part.host: part.store.meta.host.name for part in parts}
    shared = [name for name in names.values() if list(names.values()).count(name) > 1]
    return {host: f"{name}-{host[:4]}" if name in shared else name for host, name in names.items()}


def _ranks(part: Part) -> pl.LazyFrame:
    """Rows of `ranks`; a process without a row gets its recorder's rank."""
    recorded, of = part.store.scan("ranks"), part.store.meta.job_rank
    if of is None:
        return recorded
    missing = (
        part.store.scan("processes")
        .select("process")
        .join(recorded.select("process"), on="process", how="anti")
        .with_columns(
            id=pl.lit(1),
            rank=pl.lit(of.rank),
            size=pl.lit(of.size),
            local_rank=pl.lit(of.local_rank if of.local_rank >= 0 else 0xFFFFFFFF),
            launcher=pl.lit(of.launcher),
            job=pl.lit(of.job),
        )
    )
    schema = recorded.collect_schema()
    return pl.concat([recorded, missing.select(pl.col(name).cast(kind) for name, kind in schema.items())])


def _rows_of_first_part(rows: pl.LazyFrame, keys: tuple[str, ...]) -> pl.LazyFrame:
    return rows.filter(pl.col("part") == pl.col("part").min().over(keys)).drop("part")


def _grouped(said: Iterable[tuple[int, str]], parts: Sequence[Part]) -> list[str]:
    """Each text once, with the ranks that have it unless all have it."""
    by: dict[str, set[int]] = {}
    for rank, text in said:
        by.setdefault(text, set()).add(rank)
    everyone = {part.rank for part in parts}
    return [text if ranks >= everyone else f"{named_ranks(ranks)}: {text}" for text, ranks in by.items()]


def _folder(part: Part) -> str:
    return rank_name(part.rank)
