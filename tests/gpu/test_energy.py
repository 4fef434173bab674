"""Energy on a real GPU: trees add up to the same energy as the device's own counter, and work takes more than rest."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest
from gpu_runs import GpuRun, Recorder

from aiflame.attribute.transforms.filters import without_idle
from aiflame.recorder.sources.nvidia import nvidia_gpus

MICROJOULE = 1e6


def counts_energy() -> bool:
    """Whether the first device answers."""
    header = next((source.begin() for source in nvidia_gpus(Path("/"))), None)
    return header is not None and "energy" in {one.name for one in header.series}


pytestmark = pytest.mark.skipif(not counts_energy(), reason="no GPU here counts its energy")


@pytest.fixture
def working(record: Recorder) -> GpuRun:
    """Kernels for two seconds, rests of two seconds around them; the program reads the device's counter around all of it."""
    run = record("energy.py", "2", "2", options=("--telemetry", "50"))
    assert run.result.status == 0, run.run.stderr
    return run


def read(run: GpuRun, name: str) -> pl.DataFrame:
    """time_ns and value of the devices that ran kernels."""
    series = run.profile.table("telemetry_series").filter(pl.col("source") == "nvidia", pl.col("name") == name)
    address = run.profile.table("gpu_devices")["address"][0].lower().lstrip("0:")
    series = series.filter(pl.col("identity").str.to_lowercase().str.contains(address, literal=True))
    return run.profile.table("telemetry").join(series, on="series").sort("time_ns").select("time_ns", "value")


def test_a_tree_adds_up_to_the_counter(working: GpuRun) -> None:
    counter = read(working, "energy")
    took = counter["value"][-1] - counter["value"][0]
    assert working.tree("energy").total("energy") == pytest.approx(took * MICROJOULE, rel=0.001)


def test_it_is_what_the_program_itself_reads_of_the_counter(working: GpuRun) -> None:
    """Over the seconds between its two readings, the counter grew by as much in our looks as in the program's."""
    readings = json.loads(working.result.stdout)
    counter = read(working, "energy").to_dict(as_series=False)
    at = [value_at(counter["time_ns"], counter["value"], moment) for moment in (readings["begin_ns"], readings["end_ns"])]
    assert at[1] - at[0] == pytest.approx((readings["end_mj"] - readings["begin_mj"]) / 1000, rel=0.02)


def test_a_kernel_that_keeps_a_device_busy_takes_more_than_rest(working: GpuRun) -> None:
    readings = json.loads(working.result.stdout)
    busy = working.total("energy", "spin") / working.total("gpu-time", "spin")
    idle_power = idle(working) / (whole_ns(working) - working.total("gpu-time", "spin"))
    assert busy > 1.1 * idle_power
    assert working.total("gpu-time", "spin") >= 0.8 * readings["worked_s"] * 1e9


def test_idle_energy_stands_by_itself(working: GpuRun) -> None:
    tree = working.tree("energy")
    assert "[GPU idle energy]" in tree.frames["name"].to_list()
    assert without_idle(tree).total("energy") == tree.total("energy") - idle(working) > 0


def idle(run: GpuRun) -> int:
    return sum(value for stack, value in run.stacks("energy").items() if stack[-1] == "[GPU idle energy]")


def whole_ns(run: GpuRun) -> int:
    times = read(run, "energy")["time_ns"]
    return int(times[-1] - times[0])


def value_at(times: list[int], values: list[float], moment: int) -> float:
    """Between two looks it grows evenly."""
    after = next(place for place, time_ns in enumerate(times) if time_ns >= moment)
    before = max(after - 1, 0)
    span = max(times[after] - times[before], 1)
    return values[before] + (values[after] - values[before]) * (moment - times[before]) / span
