"""Which rank each process of a profile is, or works for."""

from __future__ import annotations

import numpy as np
import polars as pl
from numpy.typing import NDArray

NONE = -1

Ints = NDArray[np.int64]


def ranks_of(processes: pl.DataFrame, ranks: pl.DataFrame) -> Ints:
    """For each row of `processes` (sorted by process) its rank, `NONE` where it has none.

    What torch says goes before what a launcher of nodes or of MPI says: under `srun … torchrun …` both have set their variables. A process
    without a rank of its own works for that of its nearest ancestor (workers of a data loader), else for the only one that it has started
    (a shell in between). Jobs of one rank are none.
    """
    processes, of_processes = processes.sort("process"), np.full(len(processes), NONE, np.int64)
    told = ranks.filter(pl.col("size") != 1)
    if told.is_empty() or processes.is_empty():
        return of_processes
    inner = pl.col("launcher").str.starts_with("torch")
    told = told.filter(inner) if told.select(inner.any()).item() else told
    own = dict(told.sort("process", "id").select("process", "rank").rows())
    number = processes["process"].to_list()
    known = [own.get(process, NONE) for process in number]
    above = _parents(processes)
    for row in range(len(number)):
        known[row] = known[row] if known[row] != NONE else _nearest(row, known, above)
    _from_below(known, above)
    return np.array(known, np.int64)


def _parents(processes: pl.DataFrame) -> list[int]:
    """The row of each one's parent, -1: not recorded. Process ids come again: the latest before it counts. Ranks of other hosts have ids of
    their own, which `recorder` tells apart where it is there."""
    if "recorder" not in processes.columns:
        processes = processes.with_columns(recorder=pl.lit(0))
    rows = processes.with_row_index("row").select("row", "recorder", "pid", "ppid", "start_ns").rows()
    begun: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for row, recorder, pid, _, start in rows:
        begun.setdefault((recorder, pid), []).append((start, row))
    found = []
    for row, recorder, _, ppid, start in rows:
        before = [one for one in begun.get((recorder, ppid), ()) if one <= (start, row) and one[1] != row]
        found.append(max(before)[1] if before else -1)
    return found


def _nearest(row: int, known: list[int], above: list[int]) -> int:
    at = above[row]
    for _ in range(len(above)):
        if at < 0 or known[at] != NONE:
            break
        at = above[at]
    return known[at] if at >= 0 else NONE


def _from_below(known: list[int], above: list[int]) -> None:
    """Those without a rank get that of all ranks below them, if it is one."""
    below: list[set[int]] = [set() for _ in known]
    for row, rank in enumerate(known):
        at = above[row] if rank != NONE else -1
        for _ in range(len(above)):
            if at < 0 or known[at] != NONE or rank in below[at]:
                break
            below[at].add(rank)
            at = above[at]
    for row, ranks in enumerate(below):
        if len(ranks) == 1:
            known[row] = ranks.pop()
