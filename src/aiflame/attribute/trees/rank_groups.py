"""Grouping by rank: `rank 3` in place of its process, with the processes that it started under it."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import polars as pl
from numpy.typing import NDArray

from aiflame.attribute.forest import Forest
from aiflame.attribute.groupings import RANK
from aiflame.attribute.stacks.process_frames import process_frames, with_ranks
from aiflame.attribute.tree import Frame, Tree, assemble, frame_table
from aiflame.errors import AiflameError
from aiflame.profile.ranks.rank_of import NONE
from aiflame.profile.schema.kinds import Kind
from aiflame.profile.tables.interface import Tables
from aiflame.values import dataclass


def has_ranks(profile: Tables) -> bool:
    return bool((with_ranks(profile.table("processes"), profile.table("ranks"))["rank"] != NONE).any())


def ranks_by_name(profile: Tables) -> dict[str, int]:
    """The rank of each process that has one, by the name of its frame in trees that are not grouped by rank."""
    processes = _RankedProcesses.of(profile)
    return {name: rank for name, rank in zip(processes.names, processes.rank, strict=True) if rank != NONE}


def by_rank(tree: Tree, profile: Tables) -> Tree:
    """A tree whose processes are the outermost frames, by rank."""
    processes = _RankedProcesses.of(profile)
    if not processes.ranks:
        raise AiflameError("this profile has no ranks: no launcher (mpirun, srun, torchrun) started the program")
    of_name = dict(zip(processes.names, range(len(processes.names)), strict=True))
    outer = np.flatnonzero((tree.parent == 0) & (tree.kinds() == Kind.PROCESS))
    process = [of_name.get(str(name), -1) for name in tree.frames["name"].gather(tree.frame[outer])]
    frames = pl.concat(
        [tree.frames, frame_table([Frame(name, Kind.PROCESS) for name in (*map(_called, processes.ranks), *processes.plain)])[1:]]
    )

    first = 1 + len(processes.ranks)
    parent = np.where(tree.parent > 0, tree.parent + first - 1, 0)
    parent[0] = -1
    frame = tree.frame.copy()
    for node, at in zip(outer.tolist(), process, strict=True):
        if at >= 0 and processes.rank[at] != NONE:
            rank = processes.ranks.index(processes.rank[at])
            parent[node] = 0 if processes.main[at] else 1 + rank
            frame[node] = len(tree.frames) + (rank if processes.main[at] else len(processes.ranks) + at)
    return assemble(
        frames,
        np.concatenate([[-1], np.zeros(len(processes.ranks)), parent[1:]]).astype(np.int32),
        np.concatenate([[0], len(tree.frames) + np.arange(len(processes.ranks)), frame[1:]]).astype(np.uint32),
        {name: np.concatenate([value[:1], np.zeros(len(processes.ranks), np.int64), value[1:]]) for name, value in tree.values.items()},
        tree.metrics,
    )


def rank_forest(profile: Tables) -> tuple[Forest, NDArray[np.int64]]:
    """The frames of `by_rank` as a forest, and the node of each process."""
    processes = _RankedProcesses.of(profile)
    frames, parent = [Frame(_called(rank), Kind.PROCESS) for rank in processes.ranks], [-1] * len(processes.ranks)
    place = []
    for process, rank in enumerate(processes.rank):
        if rank != NONE and processes.main[process]:
            place.append(processes.ranks.index(rank))
            continue
        place.append(len(frames))
        frames.append(Frame(processes.plain[process], Kind.PROCESS))
        parent.append(processes.ranks.index(rank) if rank != NONE else -1)
    forest, node = Forest.of_chains(np.array(parent, dtype=np.int64), frame_table(frames)[1:])
    return forest, node[np.array(place, dtype=np.int64)]


def grouped_by_rank(profile: Tables, forests: Mapping[str, Forest], sites: pl.DataFrame) -> tuple[Mapping[str, Forest], pl.DataFrame]:
    """Adds the segment `rank`: for each site its node, from its node of `process`. If there are no ranks, nothing is added."""
    if not has_ranks(profile):
        return forests, sites
    forest, node = rank_forest(profile)
    process = sites["process"].to_numpy() - 1
    return {**forests, RANK: forest}, sites.with_columns(pl.Series(RANK, np.append(node, 0)[np.minimum(process, len(node))]))


@dataclass(frozen=True, slots=True)
class _RankedProcesses:
    """The rank of each process, in the order of processes."""

    names: list[str]
    """names of processes, as in trees without this grouping"""
    plain: list[str]
    """names without the rank"""
    rank: list[int]
    main: list[bool]
    """True for the first process of a rank, which the rank's frame stands for."""
    ranks: list[int]
    """all ranks, sorted"""

    @staticmethod
    def of(profile: Tables) -> _RankedProcesses:
        processes = with_ranks(profile.table("processes"), profile.table("ranks"))
        rank = processes["rank"].to_list()
        begun = processes.with_row_index("row").filter(pl.col("rank") != NONE).sort("start_ns", "row")
        first = set(begun.unique("rank", keep="first", maintain_order=True)["row"].to_list())
        names, plain = ([frame.name for frame in process_frames(each)] for each in (processes, processes.drop("rank")))
        return _RankedProcesses(names, plain, rank, [row in first for row in range(len(rank))], sorted(set(rank) - {NONE}))


def _called(rank: int) -> str:
    return f"rank {rank}"
