"""Physical memory of CUDA's virtual memory management, on a fake driver that has the vendor's rules of when it is free."""

from __future__ import annotations

import json

import polars as pl
from cuda_scenes import Scene, joined, needs_fakes
from live import EVERYTHING

from aiflame.attribute.memory.live import curve
from aiflame.attribute.memory.physical import replayed
from aiflame.profile.schema.control_schema import Feature
from aiflame.profile.schema.enums import MemoryKind, PhysicalMemoryKind

pytestmark = needs_fakes

PIECE = 2 << 20


def test_memory_counts_from_its_creation_to_its_last_reference_and_mapping(scene: Scene) -> None:
    recorded = scene("physical")
    rows = recorded.process.table("physical_memory").with_columns(process=pl.lit(1, pl.UInt32))
    blocks = replayed(rows).blocks
    assert curve(blocks)["bytes"].to_list() == json.loads(recorded.outcome.stdout), "as the driver has it"
    assert set(blocks["memory"]) == {"Fake GPU [0]"}
    assert blocks["bytes"].to_list() == [PIECE, 3 * PIECE, 2 * PIECE, 5 * PIECE, PIECE], "a refused request is none"
    kinds = joined(recorded.process, "physical_memory").filter(pl.col("kind") == int(PhysicalMemoryKind.CREATE))
    assert set(kinds["launched"]) == {"created_here"}


def test_memory_of_another_device_and_of_the_machine(scene: Scene) -> None:
    rows = scene("physical_on_the_other_device").process.table("physical_memory")
    assert rows.select("memory", "device").rows() == [(int(MemoryKind.DEVICE), "Fake GPU [1]"), (int(MemoryKind.HOST), "")]


def test_physical_memory_is_recorded_on_demand(scene: Scene) -> None:
    process = scene("physical", features=EVERYTHING & ~Feature.GPU_MEMORY | Feature.TRACE_CUDA).process
    assert process.table("physical_memory").is_empty()
    assert "cuMemCreate" in set(process.table("call_names")["name"]), "the calls were traced"
