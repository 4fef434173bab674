"""The rank of each process in a profile."""

from __future__ import annotations

import numpy as np
import polars as pl
from numpy.typing import NDArray

NONE = -1

Ints = NDArray[np.int64]


def ranks_of(processes: pl.DataFrame, ranks: pl.DataFrame) -> Ints:
    """The rank for each row of `processes` (sorted by process), `NONE` if it has none.

    Torch's ranks take precedence over those of MPI or of a launcher of nodes: under `srun … torchrun …` both have set their variables. A
    process without a rank of its own gets that of its nearest ancestor (workers of a data loader), otherwise that of its descendants if all
    of them have the same (a shell in between). The rank of a job with a single rank does not count.
    """
    processes, of_processes = processes.sort("process"), np.full(len(processes), NONE, np.int64)
    rows = ranks.filter(pl.col("size") != 1)
    if rows.is_empty() or processes.is_empty():
        return of_processes
    inner = pl.col("launcher").str.starts_with("torch")
    rows = rows.filter(inner) if rows.select(inner.any()).item() else rows
    own = dict(rows.sort("process", "id").select("process", "rank").rows())
    number = processes["process"].to_list()
    rank_at = [own.get(process, NONE) for process in number]
    above = _parents(processes)
    for row in range(len(number)):
        rank_at[row] = rank_at[row] if rank_at[row] != NONE else _nearest(row, rank_at, above)
    _from_below(rank_at, above)
    return np.array(rank_at, np.int64)


def _parents(processes: pl.DataFrame) -> list[int]:
    """The row of each process's parent, -1: not recorded. The kernel reuses process ids, so the parent is the latest process with its id
    that began before the child. Ranks on other hosts have process ids of their own; the column `recorder`, if there is one,
    distinguishes them."""
    if "recorder" not in processes.columns:
        processes = processes.with_columns(recorder=pl.lit(0))
    rows = processes.with_row_index("row").select("row", "recorder", "pid", "ppid", "start_ns").rows()
    begun: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for row, recorder, pid, _, start in rows:
        begun.setdefault((recorder, pid), []).append((start, row))
    parents = []
    for row, recorder, _, ppid, start in rows:
        before = [one for one in begun.get((recorder, ppid), ()) if one <= (start, row) and one[1] != row]
        parents.append(max(before)[1] if before else -1)
    return parents


def _nearest(row: int, rank_at: list[int], above: list[int]) -> int:
    at = above[row]
    for _ in range(len(above)):
        if at < 0 or rank_at[at] != NONE:
            break
        at = above[at]
    return rank_at[at] if at >= 0 else NONE


def _from_below(rank_at: list[int], above: list[int]) -> None:
    """Gives a process without a rank its descendants', if all of them have the same."""
    below: list[set[int]] = [set() for _ in rank_at]
    for row, rank in enumerate(rank_at):
        at = above[row] if rank != NONE else -1
        for _ in range(len(above)):
            if at < 0 or rank_at[at] != NONE or rank in below[at]:
                break
            below[at].add(rank)
            at = above[at]
    for row, ranks in enumerate(below):
        if len(ranks) == 1:
            rank_at[row] = ranks.pop()
