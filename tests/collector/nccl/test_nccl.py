"""NCCL's profiler plugin: a host drives it as NCCL does, in each version of the interface, and its events are in the profile."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest
from live import EVERYTHING, Outcome, Process, library, plain, processes, recorded

from aiflame.profile.schema.control_schema import Feature
from aiflame.profile.schema.enums import CallBackend, CallKind
from built import built

NONE = 0xFFFFFFFF
VERSIONS = (1, 2, 3, 4, 5)
GROUP_COLLECTIVE_P2P, GROUP_CALL_COLLECTIVE_P2P = 0x7, 0x106
MILLISECOND = 1_000_000


@pytest.fixture
def host(tmp_path: Path) -> Callable[..., tuple[Outcome, list[Process]]]:
    program = built("programs/nccl_host")

    def run(version: int, scene: str, features: int = EVERYTHING & ~Feature.MEANING) -> tuple[Outcome, list[Process]]:
        outcome = recorded([program, str(version), scene], tmp_path / "p", features=features, env=around())
        return outcome, processes(tmp_path / "p")

    return run


def around() -> dict[str, str]:
    return {"NCCL_PROFILER_PLUGIN": str(library().with_name("libaiflame_agent.so"))}


def calls(process: Process) -> pl.DataFrame:
    names = process.table("call_names").filter(pl.col("backend") == int(CallBackend.NCCL)).select(name="id", call="name")
    return process.table("calls").join(names, on="name", maintain_order="left").sort("begin_ns", maintain_order=True)


@pytest.mark.parametrize("version", VERSIONS)
def test_each_call_has_its_name_bytes_and_peer(host: Callable[..., tuple[Outcome, list[Process]]], version: int) -> None:
    outcome, (process,) = host(version, "calls")
    mask = GROUP_CALL_COLLECTIVE_P2P if version >= 5 else GROUP_COLLECTIVE_P2P
    assert outcome == Outcome(0, f"done {version} {mask:x}\n", "")
    rows = calls(process)
    assert rows.select("call", "bytes", "peer").rows() == [
        ("ncclGroup", 0, NONE),
        ("ncclAllReduce RING LL128 24ch", 4000, NONE),
        ("ncclBroadcast RING LL128 24ch", 40, 3),
        ("ncclSend", 40, 1),
        ("ncclRecv", 48, 3),
    ]
    assert rows["failed"].sum() == 0
    assert set(rows["kind"]) == {int(CallKind.BLOCKING)}
    assert (rows["stack"] > 0).all()
    group, reduce = rows.row(0, named=True), rows.row(1, named=True)
    assert 20 * MILLISECOND <= reduce["end_ns"] - reduce["begin_ns"] < 20_000 * MILLISECOND
    assert group["begin_ns"] <= reduce["begin_ns"]
    assert group["end_ns"] >= reduce["end_ns"]


@pytest.mark.parametrize("version", VERSIONS)
def test_a_communicator_is_a_group(host: Callable[..., tuple[Outcome, list[Process]]], version: int) -> None:
    _, (process,) = host(version, "calls")
    groups = process.table("groups")
    size = 4 if version >= 4 else 0
    assert groups.select("backend", "rank", "size", "name").rows() == [(int(CallBackend.NCCL), 2, size, "1234abcd5678ef01 world")]
    rows = calls(process).filter(pl.col("call") != "ncclGroup")
    assert set(rows["group"]) == {groups["id"][0]}


@pytest.mark.parametrize("version", VERSIONS)
def test_calls_that_outlive_their_communicator_have_failed(host: Callable[..., tuple[Outcome, list[Process]]], version: int) -> None:
    outcome, (process,) = host(version, "aborted")
    assert outcome.status == 0
    assert calls(process).select("call", "failed").rows() == [("ncclAllReduce RING LL128 24ch", 1)]


@pytest.mark.parametrize("version", VERSIONS)
def test_events_of_other_kinds_are_passed_over(host: Callable[..., tuple[Outcome, list[Process]]], version: int) -> None:
    outcome, (process,) = host(version, "unknown")
    assert outcome.status == 0
    assert calls(process).is_empty()


def test_a_newer_nccl_gets_the_newest_version_that_is_known(host: Callable[..., tuple[Outcome, list[Process]]]) -> None:
    outcome, (process,) = host(9, "calls")
    assert outcome.stdout.startswith("done 5 ")
    assert calls(process).height == 5


def test_more_events_than_are_kept_are_let_go(host: Callable[..., tuple[Outcome, list[Process]]]) -> None:
    outcome, (process,) = host(5, "many")
    assert outcome.status == 0
    assert calls(process).height == 1024


def test_nccl_is_left_alone_when_it_is_not_traced(host: Callable[..., tuple[Outcome, list[Process]]]) -> None:
    outcome, (process,) = host(5, "calls", EVERYTHING & ~(Feature.MEANING | Feature.TRACE_NCCL))
    assert outcome == Outcome(0, "done 5 0\n", "")
    assert process.table("calls").is_empty()


def test_the_plugin_without_the_collector_does_nothing(tmp_path: Path) -> None:
    program = built("programs/nccl_host")
    outcome = plain([program, "5", "calls"], tmp_path, around())
    assert outcome == Outcome(0, "done 5 55\n", "")
