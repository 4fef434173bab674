"""Traced calls on a timeline: each where it was made, nested as it was made."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
from profiles import sealed

from aiflame.attribute.timeline.tables import SliceKind
from aiflame.attribute.timeline.whole import timeline
from aiflame.profile.schema.enums import CallBackend, CallKind
from aiflame.profile.tables.store import Profile
from aiflame.resolve.symbols import resolve

NOBODY = 0xFFFFFFFF


def made(path: Path, *calls: dict[str, Any]) -> Profile:
    profile = sealed(
        path,
        threads=[{"tid": 70, "name": "main"}, {"tid": 71, "name": "pump"}],
        call_names=[{"backend": int(CallBackend.MPI), "name": name} for name in ("MPI_Send", "MPI_Wait", "MPI_Isend")],
        groups=[{"name": "MPI_COMM_WORLD", "rank": 1, "size": 4}],
        calls=[{"thread": 1, "peer": NOBODY, **call} for call in calls],
    )
    resolve(profile)
    return profile


def shown(profile: Profile) -> list[tuple[Any, ...]]:
    """track, thread, name, begin, end, depth of each slice."""
    drawn = timeline(profile)
    slices = drawn.slices.filter(pl.col("kind") == int(SliceKind.TRACED)).with_columns(pl.col("name").cast(pl.UInt32))
    tracks = drawn.tracks.select("track", label="name", thread="thread")
    rows = slices.join(tracks, on="track", how="left").sort("thread", "label", "begin_ns", "depth")
    return [
        (label, thread, drawn.names[name], begin, end, depth)
        for label, thread, name, begin, end, depth in rows.select("label", "thread", "name", "begin_ns", "end_ns", "depth").rows()
    ]


def test_calls_lie_below_their_thread_inside_each_other(tmp_path: Path) -> None:
    profile = made(
        tmp_path / "p.aiflame",
        {"name": 1, "begin_ns": 100, "end_ns": 500},
        {"name": 2, "begin_ns": 200, "end_ns": 400},
        {"name": 1, "begin_ns": 600, "end_ns": 700, "thread": 2},
    )
    assert shown(profile) == [
        ("MPI calls", 1, "MPI_Send", 100, 500, 0),
        ("MPI calls", 1, "MPI_Wait", 200, 400, 1),
        ("MPI calls", 2, "MPI_Send", 600, 700, 0),
    ]


def test_operations_that_go_on_meanwhile_have_a_track_of_their_own(tmp_path: Path) -> None:
    profile = made(
        tmp_path / "p.aiflame",
        {"name": 3, "begin_ns": 100, "end_ns": 900, "kind": int(CallKind.ASYNC)},
        {"name": 3, "begin_ns": 500, "end_ns": 1200, "kind": int(CallKind.ASYNC)},
        {"name": 1, "begin_ns": 300, "end_ns": 400, "kind": int(CallKind.BLOCKING)},
    )
    rows = shown(profile)
    assert [(label, begin) for label, _, _, begin, _, _ in rows] == [("MPI calls", 300), ("MPI operations", 100), ("MPI operations", 500)]
    assert {depth for *_, depth in rows} == {0}, "two that overlap lie beside each other, not inside"


def test_a_call_has_bytes_peer_group_and_failure(tmp_path: Path) -> None:
    profile = made(
        tmp_path / "p.aiflame",
        {"name": 1, "begin_ns": 1, "end_ns": 2, "bytes": 4096, "peer": 0, "group": 1, "failed": 1, "result": 15},
        {"name": 2, "begin_ns": 3, "end_ns": 4},
    )
    drawn = timeline(profile)
    facts = [
        {
            key: text if text is not None else number
            for key, text, number in drawn.facts.filter(pl.col("set") == one).select("key", "text", "number").rows()
        }
        for one in drawn.slices.sort("begin_ns")["facts"].to_list()
    ]
    assert facts == [{"bytes": 4096, "peer": 0, "group": "MPI_COMM_WORLD (1 of 4)", "failed": 15}, {}]
