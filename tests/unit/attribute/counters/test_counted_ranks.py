"""Counters of a job whose ranks were recorded apart: on one host, and on hosts that call their devices alike."""

from __future__ import annotations

from pathlib import Path

import polars as pl
from device_work import GPU, MS, OTHER, kernel, stretches
from profiles import Row, ran
from rank_folders import HERE, THERE, Tables, a_rank, job, working

from aiflame.attribute.counters.counted import counted, counts
from aiflame.profile.opening import open_profile
from aiflame.profile.tables.interface import OpenedProfile

BEGIN = 100_000_000_000


def opened(path: Path, tables: Tables, *, hosts: int) -> OpenedProfile:
    metas = [a_rank(rank, (HERE, THERE)[rank % hosts], size=2) for rank in range(2)]
    return open_profile(job(path / "job.aiflame", *metas, size=2, tables=tables))


def later(rows: list[Row], *columns: str) -> list[Row]:
    return [{**row, **{column: row[column] + BEGIN for column in columns}} for row in rows]


def test_a_rank_counts_for_another_on_its_device(tmp_path: Path) -> None:
    """Rank 0 has claimed the device, which both use one after the other; rank 1 calls it by another number."""
    both = [kernel(1, 0, 10 * MS, "gemm"), kernel(1, 15 * MS, 20 * MS, "norm", device=OTHER)]
    counters = stretches(both, {"gemm": 300.0, "norm": 800.0}, 25 * MS)

    def tables(rank: int) -> dict[str, list[Row]]:
        of_rank = ran(both[rank])
        of_rank["kernels"] = later(of_rank["kernels"], "start_ns", "end_ns")
        addresses = [{"device": (GPU, OTHER)[rank], "address": "0000:1b:00.0"}]
        mine = {"gpu_counters": later(counters, "begin_ns", "end_ns")} if rank == 0 else {}
        return {**working(), **of_rank, "gpu_devices": addresses, **mine}

    profile = opened(tmp_path, tables, hosts=1)
    assert counted(profile).sort("execution")["value"].to_list() == [3_000_000_000, 4_000_000_000]


def test_devices_of_hosts_are_not_one_though_their_addresses_are(tmp_path: Path) -> None:
    def tables(rank: int) -> dict[str, list[Row]]:
        own = [kernel(1, 0, 10 * MS, "gemm")]
        of_rank = ran(*own)
        of_rank["kernels"] = later(of_rank["kernels"], "start_ns", "end_ns")
        counters = later(stretches(own, {"gemm": (100.0, 700.0)[rank]}, 25 * MS), "begin_ns", "end_ns")
        return {**working(), **of_rank, "gpu_devices": [{"device": GPU, "address": "0000:1b:00.0"}], "gpu_counters": counters}

    profile = opened(tmp_path, tables, hosts=2)
    assert sorted(counted(profile)["value"].to_list()) == [1_000_000_000, 7_000_000_000]
    assert counts(profile).rates.filter(pl.col("name") == "gemm")["device"].n_unique() == 2
