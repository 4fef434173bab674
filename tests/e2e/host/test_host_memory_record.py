"""`aiflame record --host-memory`: from the option to the tables of a sealed profile."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest
from recording import PYTHON, Recorder

import aiflame
from aiflame.analyze.top import top

PROGRAM = """
import subprocess, sys
def keeps(): return [bytearray(3_000_001) for _ in range(20)]
def drops(): [bytearray(3_000_003) for _ in range(30)]
kept = keeps()
drops()
subprocess.run([sys.executable, "-c", "bytearray(9_000_000)"], check=True)
"""


def test_a_sealed_profile_says_who_holds_which_bytes(record: Recorder) -> None:
    run = record(PYTHON, "-c", PROGRAM, options=("--host-memory", "--host-memory-every", "64K"))
    assert run.status == 0, run.stderr
    profile = run.profile()
    ends = profile.table("host_frees").select("process", pl.col("allocation").alias("id"), freed_ns="time_ns")
    blocks = profile.table("host_allocations").join(ends, on=["process", "id"], how="left")
    assert blocks["process"].n_unique() == 2, "the child, too"

    ours = blocks.filter(pl.col("bytes").is_between(3_000_001, 3_000_100))
    assert len(ours) == 50, "allocations of many times the distance between samples are all sampled"
    assert ours["weight"].sum() == ours["bytes"].sum()
    assert ours["stack"].n_unique() == 2, "one for each function"
    kept = ours.filter(pl.col("stack") == ours.sort("time_ns")["stack"][0])
    dropped = ours.filter(pl.col("stack") != kept["stack"][0])
    assert (len(kept), len(dropped)) == (20, 30)
    assert dropped["freed_ns"].max() < kept["freed_ns"].min(), "which live until the interpreter ends"

    here = pl.col("process") == ours["process"][0]
    nodes = profile.table("stacks").filter(here).select("id", "parent", "frame")
    stacks = {row: (parent, frame) for row, parent, frame in nodes.iter_rows()}
    names = dict(profile.table("symbols").filter(here).select("frame", "name").iter_rows())
    for rows, name in ((kept, "keeps"), (dropped, "drops")):
        stack, outwards = rows["stack"][0], []
        while stack:
            stack, frame = stacks[stack]
            outwards.append(str(names.get(frame)))
        assert name in outwards


def test_its_distance_needs_the_option_itself(record: Recorder) -> None:
    run = record("true", options=("--host-memory-every", "64K"))
    assert run.status != 0 and "belongs to --host-memory" in run.stderr and not run.path.exists()


def test_ranks_of_a_job_add_up(record: Recorder, tmp_path: Path) -> None:
    job, kept = tmp_path / "job.aiflame", {0: 30 << 20, 1: 50 << 20}
    for rank, size in kept.items():
        env = {"RANK": str(rank), "WORLD_SIZE": "2", "TORCHELASTIC_RUN_ID": "job"}
        run = record(PYTHON, "-c", f"kept = bytearray({size})", options=("--host-memory", "-o", str(job)), env=env)
        assert run.status == 0, run.stderr
    profile = aiflame.open(job)
    drawn = profile.tree("host-bytes", by="rank")
    sums = dict(top(drawn, "rank", "host-bytes").select("name", "self").rows())
    assert sums["rank 1"] - sums["rank 0"] == pytest.approx(kept[1] - kept[0], rel=0.2)
    by_category = profile.tree("host-bytes", by="category")
    assert by_category.total("host-bytes") == drawn.total("host-bytes") == sum(sums.values())
    at_end = profile.tree("host-bytes@end", by="rank")
    assert at_end.total("host-bytes@end") <= sum(sums.values())
