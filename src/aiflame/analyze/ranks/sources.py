"""Finds where ranks are recorded: a folder for each in one profile, profiles of their own, or processes of one profile."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import polars as pl

from aiflame.analyze.ranks.facts import Partial, RankFacts, of_rank
from aiflame.errors import AiflameError
from aiflame.profile.folder.door import Folder, refuse_foreign_entries
from aiflame.profile.opening import open_profile, open_rank
from aiflame.profile.ranks.job import FOLDER as RANKS
from aiflame.profile.ranks.job import IMPORT, MOST_RANKS, Job, is_ranked, rank_folders
from aiflame.profile.ranks.rank_numbers import named_ranks
from aiflame.profile.ranks.rank_of import NONE, ranks_of
from aiflame.profile.sealing.aside import is_ours
from aiflame.profile.sealing.going_on import SEALED
from aiflame.profile.tables.index import Index
from aiflame.profile.tables.interface import OpenedProfile, Tables
from aiflame.resolve.complete import complete
from aiflame.values import dataclass

BYTES_A_ROW = 600
"""Memory for each row of a rank's profile while its facts are computed; 400 to 550 were measured."""
AT_LEAST = 220 << 20
"""Memory of a process that reads a profile, with its libraries."""


@dataclass(frozen=True, slots=True)
class Source:
    path: str
    """The path of the profile, or of a rank's folder in it."""
    rank: int
    """The rank, if the profile's own rows have none."""
    only: int | None = None
    """The only rank of the profile to read; None: all of its ranks."""
    whole: str = ""
    """The path of the profile that contains a rank's folder."""

    @property
    def name(self) -> str:
        return self.path if self.only is None else f"{self.path} (rank {self.only})"


@dataclass(frozen=True)
class OfProcesses:
    """The tables of some processes of a profile. Process numbers and the table of processes stay the same."""

    whole: Tables
    processes: tuple[int, ...]

    def has(self, name: str) -> bool:
        return self.whole.has(name)

    def table(self, name: str) -> pl.DataFrame:
        return self.scan(name).collect()

    def scan(self, name: str) -> pl.LazyFrame:
        rows = self.whole.scan(name)
        if name == "processes" or "process" not in rows.collect_schema().names():
            return rows
        return rows.filter(pl.col("process").is_in(self.processes))


def sources(paths: Sequence[Path]) -> tuple[list[Source], list[str]]:
    """The sources in profiles, and notes on those that cannot be read."""
    readable: list[Source] = []
    notes = []
    for place, path in enumerate(paths):
        try:
            if (whole := _ranked(path)) is not None:
                folders = rank_folders(whole)
                readable += [Source(str(folder.path), rank, whole=str(path)) for rank, folder in folders.items()]
                notes += _gone(whole, set(folders))
                continue
            numbers = sorted(set(_ranks(open_profile(path)).values()))
        except AiflameError as error:
            if len(paths) == 1:
                raise
            notes.append(str(error))
            continue
        readable += [Source(str(path), rank, rank if len(numbers) > 1 else None) for rank in numbers] or [Source(str(path), place)]
    return readable, notes


def _ranked(path: Path) -> Folder | None:
    """A profile of several ranks. None: it is another kind of profile, or none."""
    try:
        whole = Folder.open(path)
    except OSError:
        return None
    if not is_ranked(whole):
        return None
    if is_ours(whole):
        refuse_foreign_entries(whole)
    return whole


def _gone(whole: Folder, there: set[int]) -> list[str]:
    """A note if ranks are missing that the job had, and that were to be recorded."""
    job = Job.read(whole)
    if job is None or job.ranks or job.size <= len(there):
        return []
    if job.launcher == IMPORT:
        return [f"no trace of {named_ranks(set(range(min(job.size, MOST_RANKS))) - there)} was read; the job has {job.size:,} ranks"]
    return [f"{whole.path}: {job.size - len(there):,} of {job.size:,} ranks left no recording"]


def facts_of(source: Source) -> Partial:
    """The facts of a source. Never fails: a source that cannot be read becomes a note."""
    return or_note(source.name, source.path, lambda: _facts(source))


def or_note(name: str, path: str, facts: Callable[[], list[RankFacts]]) -> Partial:
    """The facts, or a note on why there are none. `path`: the name in errors."""
    try:
        return Partial(tuple(facts()))
    except AiflameError as error:
        return Partial(notes=(str(error) if path in str(error) else f"{name}: {error}",))
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, ArithmeticError, LookupError, TypeError, ValueError, OSError) as error:
        # A profile may be damaged in unforeseen ways, which must not end the analysis of all others.
        return Partial(notes=(f"{name} cannot be analysed: {type(error).__name__}: {str(error).partition(chr(10))[0]}",))


def _facts(source: Source) -> list[RankFacts]:
    profile = _open(source)
    if profile.table("processes").is_empty():
        raise AiflameError(f"{source.path} recorded nothing")
    of_process = _ranks(profile)
    numbers = sorted(set(of_process.values())) if source.only is None else [source.only]
    size = job_size(profile)
    if len(numbers) <= 1 and source.only is None:
        return [of_rank(profile, profile.meta, numbers[0] if numbers else source.rank, size, source.path)]
    facts = []
    for number in numbers:
        own = OfProcesses(profile, tuple(process for process, rank in of_process.items() if rank == number))
        facts.append(of_rank(own, profile.meta, number, size, source.path))
    return facts


def job_size(profile: Tables) -> int:
    """The number of ranks of the job, of which the profile may have some; 0: unknown."""
    return int(profile.table("ranks")["size"].max() or 0) if profile.has("ranks") else 0  # type: ignore[arg-type]


def _open(source: Source) -> OpenedProfile:
    if source.whole:
        return open_rank(Folder.open(source.whole), Path(source.path).name, derive=complete)
    return open_profile(source.path, derive=complete)


def _ranks(profile: Tables) -> dict[int, int]:
    """The rank of each process that has one."""
    if not profile.has("ranks"):
        return {}
    processes = profile.table("processes").sort("process")
    ranks = ranks_of(processes, profile.table("ranks"))
    return {process: rank for process, rank in zip(processes["process"].to_list(), ranks.tolist(), strict=True) if rank != NONE}


def needed(source: Source) -> int:
    """Bytes of memory needed to compute its facts; 0 for a source that cannot be read."""
    try:
        folder = Folder.open(source.whole).folder(RANKS, Path(source.path).name) if source.whole else Folder.open(source.path)
        index = Index.read(folder.folder(SEALED))
    except (AiflameError, OSError):
        index = None
    rows = sum(part.rows for name, parts in (index.tables if index else {}).items() if name in _LARGE for part in parts)
    return AT_LEAST + BYTES_A_ROW * rows


_LARGE = ("kernels", "launches", "copies", "cpu_samples", "calls", "stacks", "layer_calls", "regions")
