"""The memory that NVML counts of a process, and that no recorded call took."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import polars as pl
import pytest
from called_lines import CODES, SYMBOLS
from profiles import Row, sealed
from telemetries import MS, told
from trees import paths

from aiflame.attribute.analysis import Analysis
from aiflame.attribute.meaning.memory_categories import NAMES, Category
from aiflame.attribute.memory.uncounted import uncounted
from aiflame.attribute.trees.build import tree
from aiflame.profile.schema.enums import AllocationKind, GpuApi
from aiflame.profile.tables.store import Profile

GPU, OTHER = "NVIDIA H200 [0]", "NVIDIA H200 [1]"
CONTEXT, START = 500, 10_000 * MS
ADDRESS = "00000000:1B:00.0"


def of_driver(at: int, address: int, size: int, process: int = 0) -> Row:
    """A negative size comes back. The process uses the device to 2,000 ms."""
    kind = AllocationKind.TAKE if size > 0 else AllocationKind.RELEASE
    return {
        "process": process,
        "kind": int(kind),
        "device": GPU,
        "api": int(GpuApi.CUDA),
        "address": address,
        "bytes": abs(size),
        "time_ns": START + at * MS,
    }


BLOCKS = [of_driver(500, 100, 1000), of_driver(1000, 9000, 200), of_driver(1500, 9000, -200), of_driver(2000, 20_000, 1)]
"""1,000 bytes from 500 ms on, 1,200 from 1,000 to 1,500 ms."""


def process_series(*readings: tuple[int, int], pid: int = 7, device: str = GPU) -> tuple[str, str, str, str, dict[int, float]]:
    return ("process", f"pid {pid}", f"memory on {device}", "bytes", {START + at * MS: float(used) for at, used in readings})


def device_series(*readings: tuple[int, int]) -> tuple[str, str, str, str, dict[int, float]]:
    return ("nvidia", GPU, "memory used", "bytes", {START + at * MS: float(used) for at, used in readings})


def profile_of(path: Path, tables: Mapping[str, list[Row]], driver: list[Row], **more: list[Row]) -> Profile:
    processes: list[Row] = [{"pid": 7, "start_ns": START}, {"pid": 8, "start_ns": START}]
    return sealed(path / "p.aiflame", symbols=SYMBOLS, codes=CODES, processes=processes, allocations=driver, **tables, **more)


def rest(profile: Profile, at: int, process: int = 0) -> int:
    moment = pl.DataFrame({"process": [process], "memory": [GPU], "at_ns": [START + at * MS]}, schema_overrides={"process": pl.UInt32})
    return int(uncounted(Analysis.of(profile), moment)["bytes"].sum())


def test_it_is_what_nvml_counts_more_than_the_calls(tmp_path: Path) -> None:
    told_so = told(process_series((700, 1000 + CONTEXT), (1200, 1200 + CONTEXT + 40)))
    profile = profile_of(tmp_path, told_so, BLOCKS)
    assert [rest(profile, at) for at in (600, 800, 1300)] == [CONTEXT, CONTEXT, CONTEXT + 40]
    name = NAMES[Category.UNCOUNTED]
    by_category = paths(tree(profile, "gpu-bytes", "category"), "gpu-bytes")
    assert sum(size for path, size in by_category.items() if name in path) == CONTEXT, "at the peak, by the reading before it"
    assert tree(profile, "gpu-bytes").total("gpu-bytes") == 1200 + CONTEXT
    assert tree(profile, "gpu-allocated").total("gpu-allocated") == 1201, "no call allocated it"


@pytest.mark.parametrize("at", [990, 1015, 1485])
def test_a_reading_beside_a_call_does_not_count(tmp_path: Path, at: int) -> None:
    assert rest(profile_of(tmp_path, told(process_series((at, 9999))), BLOCKS), at) == 0


@pytest.mark.parametrize(
    "series", [process_series((700, 9999), pid=9), process_series((700, 9999), device=OTHER), process_series((2001, 9999))]
)
def test_other_processes_devices_and_times_do_not_count(tmp_path: Path, series: tuple[str, str, str, str, dict[int, float]]) -> None:
    assert rest(profile_of(tmp_path, told(series), BLOCKS), 800) == 0


def test_less_than_is_counted_is_nothing(tmp_path: Path) -> None:
    assert rest(profile_of(tmp_path, told(process_series((700, 10))), BLOCKS), 800) == 0


def test_a_device_is_known_by_its_address(tmp_path: Path) -> None:
    devices: list[Row] = [{"process": 0, "device": GPU, "address": "0000:1b:00.0"}]
    series = told(process_series((700, 1000 + CONTEXT), device=OTHER), identity=f"GPU-7 {ADDRESS}")
    assert rest(profile_of(tmp_path, series, BLOCKS, gpu_devices=devices), 800) == CONTEXT


def test_a_pool_holds_more_than_its_blocks(tmp_path: Path) -> None:
    pool: list[Row] = [{"kind": 1, "device": GPU, "address": 120, "bytes": 64, "used": 64, "held": 1000, "time_ns": START + 501 * MS}]
    assert rest(profile_of(tmp_path, told(process_series((700, 1000 + CONTEXT))), BLOCKS, pool_blocks=pool), 800) == CONTEXT


FLAT = ((10, 70), (210, 70), (700, 70 + 1000 + CONTEXT))


def test_without_the_process_the_whole_device_is_asked(tmp_path: Path) -> None:
    """As in containers, where NVML knows no processes."""
    assert rest(profile_of(tmp_path, told(device_series(*FLAT)), BLOCKS), 800) == CONTEXT


@pytest.mark.parametrize(
    ("readings", "driver"),
    [
        ([(10, 70), (210, 90), *FLAT[2:]], BLOCKS),
        ([(510, 70), (520, 70), *FLAT[2:]], BLOCKS),
        ([(at + 2000, used) for at, used in FLAT], [{**row, "time_ns": int(str(row["time_ns"])) + 2000 * MS} for row in BLOCKS]),
        (FLAT, [*BLOCKS, of_driver(600, 1 << 30, 8, process=1)]),
    ],
    ids=["it changes before", "the program came first", "the program ran before", "two programs"],
)
def test_a_device_of_which_the_beginning_is_not_known_says_nothing(
    tmp_path: Path, readings: list[tuple[int, int]], driver: list[Row]
) -> None:
    profile = profile_of(tmp_path, told(device_series(*readings)), driver)
    assert [rest(profile, at) for at in (800, 2800)] == [0, 0]
