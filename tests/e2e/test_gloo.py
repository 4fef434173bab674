"""torch.distributed on Gloo with four ranks: every collective, peer and wait that the program made is a row with its data."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from recording import PROGRAMS, PYTHON, UNSEALED, Run

from aiflame.profile.schema.enums import CallBackend, CallKind

pytestmark = pytest.mark.skipif(find_spec("torch") is None, reason="torch is not installed")
BACKWARD, UNKNOWN, NONE = 1 << 15, 0xFFFFFFFF, 0xFFFFFFFF
BLOCKING, ASYNC = int(CallKind.BLOCKING), int(CallKind.ASYNC)
LAUNCHERS = {"torchrun": ["-m", "torch.distributed.run", "--nproc-per-node", "4"], "spawn": []}


@dataclass(frozen=True, slots=True)
class Rank:
    facts: dict[str, Any]
    calls: pl.DataFrame
    """With `call`, the name."""
    groups: pl.DataFrame
    layers: pl.DataFrame
    regions: pl.DataFrame

    def operations(self) -> pl.DataFrame:
        """The program's own operations, in their order: without those of the training, which come last, and the one that failed."""
        before_training = pl.col("begin_ns") < self.facts["training"]
        return self.calls.filter(pl.col("call").str.starts_with("gloo:"), before_training, pl.col("failed") == 0)

    def training(self) -> pl.DataFrame:
        return self.calls.filter(pl.col("begin_ns") >= self.facts["training"])


@pytest.fixture(scope="module", params=LAUNCHERS)
def ranks(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> list[Rank]:
    folder = tmp_path_factory.mktemp(request.param)
    path = folder / "run.aiflame"
    spawn = ["spawn"] if request.param == "spawn" else []
    command = [PYTHON, *LAUNCHERS[request.param], str(PROGRAMS / "gloo_ranks.py"), str(folder), *spawn]
    result = subprocess.run(
        [sys.executable, "-m", "aiflame.cli.main", "record", UNSEALED, "-o", str(path), "--", *command],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=900,
        cwd=folder,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    profile = Run(0, result.stdout, result.stderr, path).profile()
    rows = profile.table("ranks")
    assert dict(rows.group_by("process").agg(pl.col("rank").last()).select("rank", pl.lit(4)).rows()) == dict.fromkeys(range(4), 4)
    names = profile.table("call_names").filter(pl.col("backend") == int(CallBackend.TORCH))
    calls = profile.table("calls").join(names.select("process", name="id", call="name"), on=["process", "name"]).sort("begin_ns")
    groups = profile.table("groups").filter(pl.col("backend") == int(CallBackend.TORCH))
    process = dict(rows.select("rank", "process").rows())
    return [
        Rank(
            json.loads(Path(folder, f"{rank}.json").read_text()),
            calls.filter(pl.col("process") == process[rank]),
            groups.filter(pl.col("process") == process[rank]),
            profile.table("layer_names").filter(pl.col("process") == process[rank]),
            profile.table("regions").filter(pl.col("process") == process[rank]),
        )
        for rank in range(4)
    ]


def test_each_call_is_a_row_with_its_bytes_and_its_peer(ranks: list[Rank]) -> None:
    for rank in ranks:
        operations = Counter(rank.operations().select("call", "bytes", "peer").rows())
        # Those that DistributedDataParallel makes when it is built stand before the training: a gather of sizes, broadcasts of parameters.
        expected = Counter(tuple(call) for call in rank.facts["calls"])
        assert expected - operations == Counter()
        assert {call for call, _, _ in (operations - expected)} <= {"gloo:all_gather", "gloo:broadcast"}


def test_an_operation_is_asynchronous_and_has_a_stack(ranks: list[Rank]) -> None:
    for rank in ranks:
        operations = rank.operations()
        assert (operations["stack"] > 0).all()
        kinds = dict(operations.group_by("call").agg(pl.col("kind").unique()).rows())
        assert kinds.pop("gloo:monitored_barrier") == [BLOCKING]
        assert all(kind == [ASYNC] for kind in kinds.values())


def test_waits_are_rows_of_the_waiting_rank(ranks: list[Rank]) -> None:
    for rank in ranks:
        waits = rank.calls.filter(pl.col("call") == "c10d:wait", pl.col("begin_ns") < rank.facts["training"])
        assert waits.height >= rank.facts["waits"]
        assert set(waits["kind"]) == {BLOCKING}
        assert waits["bytes"].sum() == 0


def test_a_straggler_is_seen_in_the_duration_of_the_others(ranks: list[Rank]) -> None:
    bytes_ = ranks[0].facts["straggler"]
    calls = [rank.operations().filter(pl.col("bytes") == bytes_).row(0, named=True) for rank in ranks]
    late = calls[3]["begin_ns"]
    for call in calls[:3]:
        assert call["end_ns"] > late
        assert call["end_ns"] - call["begin_ns"] > 20_000_000


def test_a_call_that_raised_has_failed(ranks: list[Rank]) -> None:
    for rank in ranks:
        assert "unsupported" in rank.facts["failed"]
        failed = rank.calls.filter(pl.col("failed") == 1)
        assert failed.select("call", "kind").rows() == [("gloo:all_reduce", BLOCKING)]


def test_buckets_of_a_training_are_reduced_where_the_backward_pass_was(ranks: list[Rank]) -> None:
    for rank in ranks:
        reduced = rank.training().filter(pl.col("call") == "gloo:all_reduce")
        assert sorted(reduced["bytes"]) == sorted(rank.facts["buckets"])
        assert (reduced["autograd"] >= BACKWARD).all()
        assert (reduced["sequence"] != UNKNOWN).all()
        finalized = rank.training().filter(pl.col("call") == "c10d:wait_for_buckets")
        assert finalized.height == rank.facts["steps"]
        assert (finalized["autograd"] >= BACKWARD).all()


def test_each_rank_has_its_layers_and_its_steps(ranks: list[Rank]) -> None:
    for rank in ranks:
        assert "module.0" in rank.layers["path"].to_list()
        assert rank.regions.filter(pl.col("name") == "optimizer").height == rank.facts["steps"]


def test_groups_have_their_members(ranks: list[Rank]) -> None:
    for number, rank in enumerate(ranks):
        world = rank.groups.row(0, named=True)
        assert (world["rank"], world["size"], world["members"]) == (number, 4, b"")
        others = rank.groups[1:]
        if number not in (1, 3):
            assert others.is_empty()
            continue
        pair = others.row(0, named=True)
        assert (pair["rank"], pair["size"]) == ([1, 3].index(number), 2)
        assert pair["members"] == b"\x01\0\0\0\x03\0\0\0"
        reduced = rank.operations().filter(pl.col("call") == "gloo:all_reduce", pl.col("bytes") == 8)
        assert reduced["group"].to_list() == [pair["id"]]


def test_torchs_own_profiler_sees_its_collectives_beside_us(ranks: list[Rank]) -> None:
    assert all(rank.facts["profiler"] for rank in ranks)
