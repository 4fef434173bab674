"""Calls of Level Zero and of HIP, and Level Zero's kernels, where calls and kernels are shown."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest
from profiles import sealed

from aiflame.analyze.tally import DEVICE, HOST, TRAFFIC, tally
from aiflame.attribute.timeline.runtime_names import NAMES
from aiflame.attribute.timeline.whole import timeline
from aiflame.profile.schema.enums import CallBackend, CopyKind, GpuApi
from aiflame.profile.tables.store import Profile
from aiflame.resolve.symbols import resolve

ZE = int(GpuApi.LEVEL_ZERO)


@pytest.fixture
def profile(tmp_path: Path) -> Profile:
    stored = sealed(
        tmp_path / "p.aiflame",
        threads=[{"tid": 70, "name": "main"}],
        call_names=[
            {"backend": int(CallBackend.LEVEL_ZERO), "name": "zeCommandQueueSynchronize"},
            {"backend": int(CallBackend.HIP), "name": "hipMemcpy"},
        ],
        calls=[
            {"name": 1, "thread": 1, "begin_ns": 100, "end_ns": 400},
            {"name": 2, "thread": 1, "begin_ns": 500, "end_ns": 600, "bytes": 64},
            {"name": 2, "thread": 1, "begin_ns": 700, "end_ns": 900, "failed": 1},
        ],
        launches=[{"thread": 1, "api": ZE, "correlation": number, "begin_ns": 90, "end_ns": 95} for number in (1, 2)],
        kernel_shapes=[{"name": "softmax", "device": "Sleeper 1", "api": ZE}],
        kernels=[{"shape": 1, "correlation": 1, "start_ns": 110, "end_ns": 310, "stream": 1, "api": ZE}],
        copies=[
            {
                "kind": int(CopyKind.HOST_TO_DEVICE),
                "device": "Sleeper 1",
                "api": ZE,
                "correlation": 2,
                "start_ns": 310,
                "end_ns": 350,
                "bytes": 8,
            }
        ],
    )
    resolve(stored)
    return stored


def test_tally_adds_them_up(profile: Profile) -> None:
    columns = ["name", "calls", "total", "failed"]
    sections = {(section.kind, section.backend): section.rows.select(columns).rows() for section in tally(profile)}
    assert sections == {
        (HOST, "Level Zero"): [("zeCommandQueueSynchronize", 1, 300, 0)],
        (HOST, "HIP"): [("hipMemcpy", 2, 300, 1)],
        (DEVICE, "Level Zero"): [("softmax", 1, 200, 0), ("[copy host→device]", 1, 40, 0)],
        (TRAFFIC, "Level Zero"): [("[copy host→device]", 1, 8, 0)],
        (TRAFFIC, "HIP"): [("hipMemcpy", 1, 64, 0)],
    }


def test_the_timeline_shows_them(profile: Profile) -> None:
    drawn = timeline(profile)
    tracks = drawn.tracks.select("track", label="name")
    slices = drawn.slices.with_columns(pl.col("name").cast(pl.UInt32)).join(tracks, on="track", how="left").sort("begin_ns")
    shown = {(label, drawn.names[name]) for label, name in slices.select("label", "name").rows()}
    assert {("Level Zero calls", "zeCommandQueueSynchronize"), ("HIP calls", "hipMemcpy")} <= shown
    assert "softmax" in {name for _, name in shown}


def test_every_backend_and_every_api_of_devices_has_a_name() -> None:
    assert set(NAMES) == set(CallBackend)
    assert {api.name for api in GpuApi} <= {backend.name for backend in CallBackend}


@pytest.mark.parametrize("copies", [True, False])
def test_bytes_that_amds_devices_moved_are_counted_once(tmp_path: Path, copies: bool) -> None:
    """One copy, as rocprofiler-sdk reports it, and the calls of HIP and, within, of HSA that asked for it."""
    hip, hsa = int(CallBackend.HIP), int(CallBackend.HSA)
    copy = {"kind": int(CopyKind.HOST_TO_DEVICE), "device": "G", "api": int(GpuApi.HIP), "start_ns": 120, "end_ns": 140, "bytes": 64}
    stored = sealed(
        tmp_path / "p.aiflame",
        threads=[{"tid": 70, "name": "main"}],
        call_names=[{"backend": hip, "name": "hipMemcpy"}, {"backend": hsa, "name": "hsa_amd_memory_async_copy"}],
        calls=[
            {"name": 1, "thread": 1, "begin_ns": 100, "end_ns": 200, "bytes": 64},
            {"name": 2, "thread": 1, "begin_ns": 110, "end_ns": 120, "bytes": 64},
        ],
        copies=[copy] if copies else [],
    )
    moved = {(section.backend, name) for section in tally(stored) if section.kind == TRAFFIC for name in section.rows["name"]}
    asked_for = {("HIP", "hipMemcpy"), ("HSA", "hsa_amd_memory_async_copy")}
    assert moved == ({("HIP", "[copy host→device]")} if copies else asked_for)
