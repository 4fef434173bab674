"""The limits of kernels, from programs whose counters are known by construction."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest
from device_work import GPU, kernel
from device_work import profile as made
from profiles import ran
from stories import US, Counted

from aiflame.analyze.top import top
from aiflame.attribute.analysis import Analysis
from aiflame.attribute.devices.work import work
from aiflame.attribute.limits.bounds import of_limits
from aiflame.attribute.limits.kernels import has_limits, kernel_limits, waited
from aiflame.attribute.limits.peaks import DEVICES, peaks
from aiflame.attribute.sites.devices import device_sites
from aiflame.attribute.tree import COULD_WIN, GPU_TIME
from aiflame.attribute.trees.build import metrics, tree


def run(path: Path) -> Counted:
    story = Counted()
    story.layer_work(0, 10, 110, "model", "model/attn", name="copying")
    story.count(memory=0.9)
    story.layer_work(100, 110, 310, "model", "model/mlp", name="multiplying")
    story.count(memory=0.2, tensor=0.75)
    story.layer_work(300, 310, 410, "model", "model/mlp", name="waiting")
    story.count(memory=0.3, tensor=0.1, active=0.5)
    return story


def test_time_at_the_limit_is_that_of_the_bytes_or_of_the_tensor_cores(tmp_path: Path) -> None:
    limits = kernel_limits(run(tmp_path).profile(tmp_path))
    assert limits.has_limit.all()
    assert not limits.estimated.any()
    assert limits.memory == pytest.approx([90_000, 40_000, 30_000], rel=1e-3)
    assert limits.tensor == pytest.approx([0, 150_000, 10_000], rel=1e-3)
    assert limits.limit == pytest.approx([90_000, 150_000, 30_000], rel=1e-3)
    assert limits.active == pytest.approx([100_000, 200_000, 50_000], rel=1e-3)
    assert limits.dram == pytest.approx([4.8e12 * took for took in (9e-5, 4e-5, 3e-5)], rel=1e-3)


def test_top_says_how_far_each_kernel_is_and_what_bounds_it(tmp_path: Path) -> None:
    rows = top(tree(run(tmp_path).profile(tmp_path), GPU_TIME.name), "kernel")
    of = {row["name"]: (round(row["limit_percent"] or 0), row["could_win"], row["bound_by"]) for row in rows.iter_rows(named=True)}
    assert of["copying"] == (90, 10_000, "memory")
    assert of["multiplying"] == (75, 50_000, "tensor")
    assert of["waiting"] == (30, 70_000, "latency")


def test_a_layer_has_the_sums_of_its_kernels(tmp_path: Path) -> None:
    rows = top(tree(run(tmp_path).profile(tmp_path), GPU_TIME.name, "layer"), "layer", alike=True)
    of = {row["name"]: (round(row["limit_percent"]), row["could_win"]) for row in rows.iter_rows(named=True) if row["limit_percent"]}
    assert of["mlp"] == (60, 120_000)
    assert of["attn"] == (90, 10_000)


def test_the_time_that_could_be_won_is_a_metric_that_adds_up(tmp_path: Path) -> None:
    profile = run(tmp_path).profile(tmp_path)
    assert COULD_WIN.name in metrics(profile)
    assert tree(profile, COULD_WIN.name).total(COULD_WIN.name) == 10_000 + 50_000 + 70_000


def test_without_counters_nothing_is_said(tmp_path: Path) -> None:
    story = Counted()
    story.layer_work(0, 10, 110, "model")
    profile = story.profile(tmp_path)
    assert not has_limits(profile)
    assert COULD_WIN.name not in metrics(profile)
    assert "limit_percent" not in top(tree(profile, GPU_TIME.name), "kernel").columns


def test_a_kernel_outside_of_all_counters_counts_in_no_sum(tmp_path: Path) -> None:
    story = Counted()
    story.layer_work(0, 10, 110, "model", name="once")
    story.count(memory=0.5)
    story.layer_work(200, 210, 510, "model", name="once")
    row = top(tree(story.profile(tmp_path), GPU_TIME.name), "kernel").filter(name="once").row(0, named=True)
    assert (row["self"], row["could_win"], round(row["limit_percent"])) == (400_000, 50_000, 50)


def test_values_that_were_divided_have_an_error(tmp_path: Path) -> None:
    """Two kernels always run in one stretch, one after the other: nothing separates their rates."""
    story = Counted()
    for number in range(6):
        begin = 1000 * (number + 1)
        story.layer_work(begin - 10, begin, begin + 50, "model", name="first")
        story.layer_work(begin, begin + 50, begin + 100, "model", name="second")
        story.kernels[-1]["start_ns"] -= 50 * US
        story.count(memory=0.5)
        story.kernels[-1]["start_ns"] += 50 * US
    limits = kernel_limits(story.profile(tmp_path))
    assert limits.has_limit.all() and limits.estimated.all()
    assert limits.limit == pytest.approx([25_000] * 12, rel=1e-2)
    assert limits.error == pytest.approx(limits.limit)


def test_collectives_have_no_limit(tmp_path: Path) -> None:
    story = Counted()
    story.layer_work(0, 10, 110, "model", name="ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)")
    story.count(memory=0.1)
    assert not has_limits(story.profile(tmp_path))


def test_a_limit_is_never_more_than_the_time(tmp_path: Path) -> None:
    story = Counted()
    story.layer_work(0, 10, 110, "model", name="fast")
    story.count(memory=1.04)
    row = top(tree(story.profile(tmp_path), GPU_TIME.name), "kernel").filter(name="fast").row(0, named=True)
    assert (row["limit_percent"], row["could_win"]) == (100, 0)


def test_a_device_that_is_not_listed_has_no_limit(tmp_path: Path) -> None:
    launched = [kernel(1, 1000, 2000, device="Other 9000 [0]")]
    counters = [
        {"device": "Other 9000 [0]", "metric": name, "begin_ns": 1000, "end_ns": 2000, "value": 9}
        for name in ("dram-read-bytes", "sm-cycles")
    ]
    assert not has_limits(made(tmp_path, kernels=launched, gpu_counters=counters))


@pytest.mark.parametrize(
    ("sums", "bound"),
    [
        ({"limit": 60, "by_memory": 60}, "memory"),
        ({"limit": 59, "by_memory": 59}, ""),
        ({"limit": 71, "by_memory": 35}, "tensor"),
        ({"limit": 70, "by_memory": 35}, "memory"),
        ({"waited": 100}, "launch"),
        ({"waited": 99}, ""),
        ({"active": 59}, "latency"),
        ({"active": 61}, ""),
        ({"active": 80, "warps": 19}, "latency"),
        ({"active": 80, "warps": 21}, ""),
        ({"limit": 90, "by_memory": 90, "waited": 200, "active": 30}, "memory"),
        ({"counted": 0, "waited": 200}, ""),
    ],
)
def test_what_bounds_a_group(sums: dict[str, int], bound: str) -> None:
    row = {"counted": 100, "limit": 0, "by_memory": 0, "error": 0, "active": 100, "warps": 50, "waited": 0} | sums
    assert pl.DataFrame([row]).select(of_limits())["bound_by"].item() == bound


@pytest.mark.parametrize(
    ("name", "memory"),
    [
        ("NVIDIA H100 80GB HBM3", 3.35),
        ("NVIDIA H100 PCIe [1]", 2.0),
        ("NVIDIA H200", 4.8),
        ("NVIDIA A100-SXM4-40GB", 1.555),
        ("NVIDIA A100-SXM4-80GB", 2.039),
        ("NVIDIA A100 80GB PCIe", 1.935),
        ("NVIDIA L4", 0.3),
        ("NVIDIA L40S", 0.864),
        ("NVIDIA A10G", 0.6),
        ("NVIDIA GH200 480GB", 4.0),
        ("NVIDIA B200", 8.0),
        ("NVIDIA GB200", 8.0),
    ],
)
def test_each_device_has_its_own_bandwidth(name: str, memory: float) -> None:
    of_device = peaks(name)
    assert of_device is not None
    assert of_device.memory == memory * 1e12


def test_a_part_of_a_device_and_an_unknown_one_have_none() -> None:
    assert peaks("NVIDIA H100 80GB HBM3 MIG 1g.10gb") is None
    assert peaks("GeForce 256") is None


@pytest.mark.parametrize("name", ["RTX 4090 Laptop GPU", "RTX 4090 D", "RTX 3090 Ti", "RTX 5090 Laptop GPU", "RTX 5090 D [1]"])
def test_a_device_does_not_have_the_figures_of_another_one_whose_name_is_shorter(name: str) -> None:
    """A mobile RTX 4090 has 576 GB/s, the one for desktops 1,008."""
    assert peaks(name.partition(" Laptop")[0].removesuffix(" D").removesuffix(" D [1]").removesuffix(" Ti")) is not None
    assert peaks(f"NVIDIA GeForce {name}") is None


@pytest.mark.parametrize(
    ("address", "gaps"), [("0000:43:00.0", 18 * 20_000), ("0000:1b:00.0", 19 * 5_000)], ids=["two devices", "one device"]
)
def test_devices_of_two_processes_may_have_one_name(tmp_path: Path, address: str, gaps: int) -> None:
    """Each process sees one device, as number 0: work on another device does not end the time in which a device has nothing to do."""
    kernels = [kernel(1, begin, begin + 10_000, process=at) for at in (0, 1) for begin in range(15_000 * at, 300_000, 30_000)]
    devices = [{"process": process, "device": GPU, "address": of} for process, of in ((0, "0000:1b:00.0"), (1, address))]
    profile = Analysis(made(tmp_path, processes=[{"pid": 1}, {"pid": 2}], **ran(*kernels), gpu_devices=devices))
    assert waited(profile, work(profile, None)).sum() == gaps


def test_each_row_of_the_table_can_be_reached_by_a_name() -> None:
    assert all(of_device.source and of_device.memory > 1e11 and of_device.bf16 >= of_device.tf32 for _, of_device in DEVICES)


def test_the_reports_flame_graph_has_the_metric(tmp_path: Path) -> None:
    sites = device_sites(run(tmp_path).profile(tmp_path))
    assert COULD_WIN.name in {metric.name for metric in sites.metrics}
    assert sites.leaves[COULD_WIN.name].sum() == 10_000 + 50_000 + 70_000
