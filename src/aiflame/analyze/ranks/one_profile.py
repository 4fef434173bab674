"""The ranks in one opened profile, whose times are already on one clock, for its report."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from aiflame.analyze.ranks.clocks import Clocks, residuals_of
from aiflame.analyze.ranks.comparison import Ranks, ranks
from aiflame.analyze.ranks.facts import Partial, of_rank
from aiflame.analyze.ranks.sources import OfProcesses, job_size, or_note
from aiflame.profile.folder.meta import Meta
from aiflame.profile.ranks.rank_of import NONE, ranks_of
from aiflame.profile.ranks.ranked import Ranked
from aiflame.profile.tables.interface import OpenedProfile, Tables


def rank_numbers(profile: Tables) -> list[int]:
    """The ranks of the profile's processes."""
    if not profile.has("ranks"):
        return []
    ranks = ranks_of(profile.table("processes").sort("process"), profile.table("ranks"))
    return sorted({*ranks.tolist()} - {NONE})


def facts_of_ranks(profile: OpenedProfile) -> Partial:
    """The facts of all ranks. Reads one rank after the other, to hold only one in memory; a rank that cannot be read becomes a note."""
    partial, size = Partial(), job_size(profile)
    for rank, tables, meta in _each(profile):
        name = f"rank {rank}"
        partial = partial.merged(
            or_note(name, name, lambda rank=rank, tables=tables, meta=meta: [of_rank(tables, meta, rank, size)])  # type: ignore[misc]
        )
    return partial


def answer(partial: Partial) -> Ranks:
    """The comparison of the facts from `facts_of_ranks`."""
    return ranks(partial, Clocks(residual_ns=residuals_of(partial.facts)))


def _each(profile: OpenedProfile) -> Iterator[tuple[int, Tables, Meta]]:
    """Each rank's number, tables and metadata. A rank with a folder of its own is read only from that folder."""
    for part in _parts(profile):
        meta = part.parts[0].store.meta if isinstance(part, Ranked) else part.meta
        numbers = ranks_of(part.table("processes").sort("process"), part.table("ranks")).tolist()
        for rank in sorted({*numbers} - {NONE}):
            yield rank, OfProcesses(part, tuple(at for at, number in enumerate(numbers) if number == rank)), meta


def _parts(profile: OpenedProfile) -> Sequence[OpenedProfile]:
    """The folders of a profile, one by one, with the times of the whole profile and the process numbers of their folder."""
    if not isinstance(profile, Ranked):
        return [profile]
    return [Ranked(profile.folder, [part]) for part in profile.parts]
