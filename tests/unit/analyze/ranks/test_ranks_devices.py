"""Ranks with devices: collective kernels, their launches, the work that hides them, and why a rank's device was late."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from profiles import Row
from stories import MAIN, US, Story
from written_programs import OPTIMIZER_STEP, TRAIN

from aiflame.analyze.ranks.activity import Cause
from aiflame.analyze.ranks.collectives import Sort, sort_of
from aiflame.analyze.ranks.comparison import Ranks, ranks
from aiflame.analyze.ranks.fan_out import here
from aiflame.analyze.ranks.sources import sources
from aiflame.profile.schema.enums import CallBackend, CallKind

REDUCE = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
STEP = 1000.0
SLEEP = 30_000.0
"""Six sampling periods of CPU time: a thread without a sample in them did not run."""


def read_name(name: str) -> tuple[Sort, str]:
    return sort_of(name)


@pytest.mark.parametrize(
    ("name", "sort", "read"),
    [
        ("MPI_Allreduce", Sort.MEETS, "all-reduce"),
        ("MPI_Iallreduce", Sort.PAIR, "wait"),
        ("gloo:all_reduce", Sort.MEETS, "all-reduce"),
        (REDUCE, Sort.MEETS, "all-reduce"),
        ("MPI_Reduce_scatter_block", Sort.MEETS, "reduce-scatter"),
        ("nccl:_all_gather_base", Sort.MEETS, "all-gather"),
        ("MPI_Alltoallv", Sort.MEETS, "all-to-all"),
        ("MPI_Barrier", Sort.MEETS, "barrier"),
        ("MPI_Allreduce_init_c", Sort.PAIR, "wait"),
        ("MPI_Intercomm_merge", Sort.NONE, ""),
        ("MPI_Reduce", Sort.ROOTED, "reduce"),
        ("MPI_Bcast", Sort.ROOTED, "broadcast"),
        ("gloo:gather", Sort.ROOTED, "gather"),
        ("MPI_Sendrecv", Sort.PAIR, "send/receive"),
        ("MPI_Waitall", Sort.PAIR, "wait"),
        ("MPI_Reduce_local", Sort.NONE, ""),
        ("MPI_Comm_rank", Sort.NONE, ""),
        ("ncclCommInitRank", Sort.NONE, ""),
    ],
)
def test_a_calls_kind_follows_from_its_name(name: str, sort: Sort, read: str) -> None:
    assert read_name(name) == (sort, read)


def rank(path: Path, number: int, many: int, sleeps: float = 0.0, steps: int = 5, calls: bool = True) -> None:
    """Each step, in µs: 100 of forward, 100 of backward, an all-reduce that 50 more of backward hide in part, the optimizer. The rank
    sleeps before its backward; the others wait for it in the all-reduce."""
    story, rows = Story(), []
    length = STEP + SLEEP
    for step in range(steps):
        begin = 1000 + step * length
        story.work(begin, begin + 5, begin + 105, TRAIN, ("forward", "/app/model.py", 3), name="sgemm")
        launched = begin + 100 + sleeps
        story.work(launched, launched + 5, launched + 105, TRAIN, ("backward", "/app/model.py", 9), name="sgemm_nt")
        rows.append({"begin_ns": round((launched + 6) * US), "end_ns": round((launched + 10) * US)})
        end = begin + 100 + SLEEP + 205
        story.work(launched + 8, launched + 105, end, TRAIN, ("backward", "/app/model.py", 9), name=REDUCE, stream=13)
        story.work(launched + 20, launched + 105, launched + 155, TRAIN, ("backward", "/app/model.py", 11), name="sgemm_nt")
        last = end - 20
        story.work(last, end, end + 40, TRAIN, OPTIMIZER_STEP, name="adam")
        story.during("optimizer", last - 2, last + 10)
    for tick in range(1, 3):
        story.met(tick * 0.5, MAIN, clock=0)
    call = {"name": 1, "thread": 1, "group": 1, "peer": 0xFFFFFFFF, "kind": int(CallKind.ASYNC), "bytes": 4096}
    more: dict[str, list[Row]] = {"ranks": [{"rank": number, "size": many, "launcher": "torchrun"}]}
    if calls:
        more["calls"] = [{**call, **row} for row in rows]
        more["call_names"] = [{"backend": int(CallBackend.NCCL), "name": "ncclAllReduce"}]
        everybody = np.arange(many, dtype=np.uint32).tobytes()
        more["groups"] = [{"backend": int(CallBackend.NCCL), "handle": number, "rank": number, "size": many, "members": everybody}]
    path.mkdir(parents=True)
    story.profile(path, **more)


def answer(tmp_path: Path, many: int = 3, **sleeps: Any) -> Ranks:
    for number in range(many):
        rank(tmp_path / str(number), number, many, **(sleeps if number == 1 else {}))
    profiles, _ = sources([tmp_path / str(number) / "p.aiflame" for number in range(many)])
    return ranks(here(profiles, 1 << 30, processes=1))


def test_a_rank_that_sleeps_before_it_launches_is_named(tmp_path: Path) -> None:
    job_answer = answer(tmp_path, sleeps=SLEEP)
    (one,) = job_answer.stragglers
    assert (one.rank, one.why.cause, one.name) == (1, Cause.WAIT, "all-reduce")
    # Without layers, the beginning of the first step is unknown.
    assert (one.times, one.of) == (4, 4)
    assert one.lost_ns == 4 * round(SLEEP * US)


def test_kernels_say_when_a_collective_was_and_calls_which_group_it_is_of(tmp_path: Path) -> None:
    rank(tmp_path / "0", 0, 2)
    facts = here(sources([tmp_path / "0" / "p.aiflame"])[0], 1 << 30).facts[0]
    assert facts.rule == "devices"
    assert facts.slots["group"].unique().to_list() == ["nccl all"]
    took = facts.collectives["end_ns"] - facts.collectives["begin_ns"]
    assert took.to_list() == [round((SLEEP + 100) * US)] * 5
    assert facts.collectives["bytes"].to_list() == [4096] * 5


def test_work_beside_a_collective_hides_it(tmp_path: Path) -> None:
    rank(tmp_path / "0", 0, 2)
    facts = here(sources([tmp_path / "0" / "p.aiflame"])[0], 1 << 30).facts[0]
    assert facts.collectives["exposed"].to_list() == [round((SLEEP + 50) * US)] * 5


def test_without_calls_kernels_of_one_kind_are_numbered_together(tmp_path: Path) -> None:
    rank(tmp_path / "0", 0, 2, calls=False)
    facts = here(sources([tmp_path / "0" / "p.aiflame"])[0], 1 << 30).facts[0]
    assert facts.slots["group"].unique().to_list() == ["kernels all-reduce"]
    assert facts.collectives["number"].to_list() == list(range(5))
