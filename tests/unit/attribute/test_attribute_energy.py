"""Energy: a device's joules between two looks, divided over the work that ran there, and the energy of an idle device."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
from calling import run_aiflame
from device_work import GPU, OTHER, UNDER, kernel, lines, profile
from hypothesis import given, settings
from hypothesis import strategies as st
from profiles import Row, ran
from telemetries import MS, S, counter, told

from aiflame.analyze.overview.summary import summarize
from aiflame.attribute.sites.devices import device_sites
from aiflame.attribute.transforms.filters import without_idle
from aiflame.attribute.tree import Tree
from aiflame.attribute.trees.build import metrics, tree
from aiflame.errors import AiflameError
from aiflame.render.report.facts_block import facts_makers

J = 1_000_000
IDLE = "train.py (4711);[GPU idle energy]"


def power(time_ns: int) -> float:
    """1 s idle, 2 s of kernel A, 1 s idle, 1 s of kernel B, 1 s idle."""
    second = time_ns // S
    return {1: 500.0, 2: 500.0, 4: 100.0}.get(second, 70.0)


TWO = ran(kernel(1, 1 * S, 3 * S, "a"), kernel(2, 4 * S, 5 * S, "b"))


def energies(of: Tree) -> dict[str, int]:
    """By the innermost frame."""
    by_name: dict[str, int] = {}
    for path, value in lines(of, "energy").items():
        name = path.rpartition(";")[2]
        by_name[name] = by_name.get(name, 0) + value
    return by_name


def test_each_kernel_has_the_devices_energy_while_it_ran(tmp_path: Path) -> None:
    recorded = profile(tmp_path, **TWO, **told(("nvidia", GPU, "energy", "J", counter(power, 6 * S))))
    stacks = lines(tree(recorded, "energy"), "energy")
    assert stacks == {f"{UNDER};-;a_[G]": 1000 * J, f"{UNDER};py::run;-;b_[G]": 100 * J, IDLE: 3 * 70 * J}


def test_all_adds_up_to_the_device_s_own_counter(tmp_path: Path) -> None:
    read = counter(power, 6 * S)
    recorded = profile(tmp_path, **TWO, **told(("nvidia", GPU, "energy", "J", read)))
    assert tree(recorded, "energy").total("energy") == round((read[6 * S] - read[0]) * J)


def test_without_a_counter_it_is_power_times_time(tmp_path: Path) -> None:
    """The sensor is read while work goes on: 70 W, and 500 while the kernel runs, changing between two looks 50 ms apart."""
    watts = {time_ns: power(time_ns + 1) for time_ns in range(0, 6 * S + 1, 50 * MS)}
    recorded = profile(tmp_path, **TWO, **told(("nvidia", GPU, "power", "W", watts)))
    energies_tree = tree(recorded, "energy")
    by_name = energies(energies_tree)
    assert by_name["a_[G]"] == pytest.approx(1000 * J, rel=0.03)
    assert by_name["b_[G]"] == pytest.approx(100 * J, rel=0.03)
    assert "from power and time" in energies_tree.metric("energy").label


def test_a_kernel_that_runs_for_a_part_of_two_looks_leaves_the_rest_idle(tmp_path: Path) -> None:
    """20 ms of 300 W in 50, and 70 W else."""
    read = {0: 0.0, 50 * MS: 3.5, 100 * MS: 3.5 + 0.02 * 300 + 0.03 * 70, 150 * MS: 3.5 * 2 + 8.1, 200 * MS: 3.5 * 3 + 8.1}
    recorded = profile(tmp_path, **ran(kernel(1, 60 * MS, 80 * MS)), **told(("nvidia", GPU, "energy", "J", read)))
    assert energies(tree(recorded, "energy")) == {"gemm_[G]": 6 * J, "[GPU idle energy]": round((3 * 3.5 + 2.1) * J)}


def test_kernels_that_run_together_share_by_their_time(tmp_path: Path) -> None:
    """On two streams: one for 100 ms, one for the last 25 of these."""
    kernels = ran(kernel(1, 0, 100 * MS, "long"), kernel(1, 75 * MS, 100 * MS, "short", stream=2))
    recorded = profile(tmp_path, **kernels, **told(("nvidia", GPU, "energy", "J", {0: 0.0, 100 * MS: 50.0})))
    assert energies(tree(recorded, "energy")) == {"long_[G]": 40 * J, "short_[G]": 10 * J}


def test_a_counter_that_is_renewed_rarely_counts_when_it_grows(tmp_path: Path) -> None:
    """Looked at every 50 ms, renewed every 100: kernel A 100 ms at 200 W, then B at 400."""
    read = {0: 0.0, 50 * MS: 0.0, 100 * MS: 20.0, 150 * MS: 20.0, 200 * MS: 60.0}
    recorded = profile(tmp_path, **ran(kernel(1, 0, 100 * MS, "a"), kernel(1, 100 * MS, 200 * MS, "b")),
                       **told(("nvidia", GPU, "energy", "J", read)))  # fmt: skip
    assert energies(tree(recorded, "energy")) == {"a_[G]": 20 * J, "b_[G]": 40 * J}


def test_a_counter_that_was_set_back_loses_its_growth_in_that_interval(tmp_path: Path) -> None:
    read = {0: 5.0, 50 * MS: 10.0, 100 * MS: 1.0, 150 * MS: 4.0}
    recorded = profile(tmp_path, **ran(kernel(1, 0, 150 * MS)), **told(("nvidia", GPU, "energy", "J", read)))
    assert energies(tree(recorded, "energy")) == {"gemm_[G]": 8 * J}


def test_work_outside_the_looks_is_noted(tmp_path: Path) -> None:
    """A quarter of the kernel's time lies before the first look."""
    recorded = profile(tmp_path, **ran(kernel(1, 0, 400 * MS)), **told(("nvidia", GPU, "energy", "J", {100 * MS: 0.0, 400 * MS: 30.0})))
    energies_tree = tree(recorded, "energy")
    assert energies_tree.total("energy") == 30 * J
    assert "without 25.0% of GPU time" in energies_tree.metric("energy").label


def test_each_device_has_its_own_energy(tmp_path: Path) -> None:
    kernels = ran(kernel(1, 0, 100 * MS, "a"), kernel(1, 0, 100 * MS, "b", device=OTHER))
    looks = told(("nvidia", OTHER, "energy", "J", {0: 7.0, 100 * MS: 17.0}), ("nvidia", GPU, "energy", "J", {0: 0.0, 100 * MS: 30.0}))
    assert energies(tree(profile(tmp_path, **kernels, **looks), "energy")) == {"a_[G]": 30 * J, "b_[G]": 10 * J}


def test_a_device_that_cuda_numbers_otherwise_is_matched_by_its_address(tmp_path: Path) -> None:
    """CUDA_VISIBLE_DEVICES=1: the program's device 0 is the machine's 1."""
    rows = told(("nvidia", GPU, "energy", "J", {0: 0.0, 100 * MS: 30.0}), ("nvidia", OTHER, "energy", "J", {0: 0.0, 100 * MS: 10.0}))
    for row, address in zip(rows["telemetry_series"], ("00000000:1B:00.0", "00000000:43:00.0"), strict=True):
        row["identity"] = f"GPU-{row['series']} {address}"
    recorded = profile(tmp_path, **ran(kernel(1, 0, 100 * MS)), **rows, gpu_devices=[{"device": GPU, "address": "0000:43:00.0"}])
    assert energies(tree(recorded, "energy")) == {"gemm_[G]": 10 * J}


@pytest.mark.parametrize(
    ("source", "names", "cards"),
    [
        ("amd", ("AMD Instinct MI300X [0]", "AMD Instinct MI300X [1]"), ("AMD Instinct MI300X [1]", "AMD Instinct MI300X [2]")),
        ("intel", ("Intel(R) Arc(TM) B580 Graphics", "Intel(R) Arc(TM) B580 Graphics [1]"), ("Intel GPU [1]", "Intel GPU [2]")),
    ],
)
def test_devices_of_another_vendor_are_matched_by_their_addresses(
    tmp_path: Path, source: str, names: tuple[str, str], cards: tuple[str, str]
) -> None:
    """Linux counts a card without a GPU, such as the one that a server's console is on."""
    rows = told((source, cards[0], "energy", "J", {0: 0.0, 100 * MS: 30.0}), (source, cards[1], "energy", "J", {0: 0.0, 100 * MS: 10.0}))
    addresses = ("0000:03:00.0", "0000:c3:00.0")
    for row, address in zip(rows["telemetry_series"], addresses, strict=True):
        row["identity"] = address
    kernels = ran(kernel(1, 0, 100 * MS, "a", device=names[0]), kernel(1, 0, 100 * MS, "b", device=names[1]))
    devices = [{"device": name, "address": address.upper()} for name, address in zip(names, addresses, strict=True)]
    assert energies(tree(profile(tmp_path, **kernels, **rows, gpu_devices=devices), "energy")) == {"a_[G]": 30 * J, "b_[G]": 10 * J}


def test_devices_of_several_hosts_may_have_one_address(tmp_path: Path) -> None:
    """In a profile of several hosts their names stand before those of devices."""
    here, there = f"node1: {GPU}", f"node2: {GPU}"
    rows = told(
        ("nvidia", here, "energy", "J", {0: 0.0, 100 * MS: 30.0}), ("nvidia", there, "energy", "J", {0: 0.0, 100 * MS: 10.0}),
        identity="GPU-1 00000000:1B:00.0",
    )  # fmt: skip
    addresses = [{"device": name, "address": "0000:1b:00.0"} for name in (here, there)]
    kernels = ran(kernel(1, 0, 100 * MS, "a", device=here), kernel(1, 0, 100 * MS, "b", device=there))
    assert energies(tree(profile(tmp_path, **kernels, **rows, gpu_devices=addresses), "energy")) == {"a_[G]": 30 * J, "b_[G]": 10 * J}


def test_a_device_without_looks_has_no_energy_and_a_note_says_so(tmp_path: Path) -> None:
    kernels = ran(kernel(1, 0, 100 * MS, "a"), kernel(1, 0, 300 * MS, "b", device="cpu-haswell [0]"))
    energies_tree = tree(profile(tmp_path, **kernels, **told(("nvidia", GPU, "energy", "J", {0: 0.0, 100 * MS: 30.0}))), "energy")
    assert energies(energies_tree) == {"a_[G]": 30 * J}
    assert "without 75.0% of GPU time" in energies_tree.metric("energy").label


def test_two_processes_on_a_device_share_its_idle_energy_by_their_work(tmp_path: Path) -> None:
    processes = [{"process": 0, "id": 1, "pid": 1, "exe": "/a"}, {"process": 1, "id": 1, "pid": 2, "exe": "/b"}]
    kernels = ran(kernel(1, 100 * MS, 400 * MS), {**kernel(1, 400 * MS, 500 * MS), "process": 1})
    read = counter(lambda at: 100 if 100 * MS <= at < 500 * MS else 40, 1000 * MS, 50 * MS)
    stacks = lines(
        tree(profile(tmp_path, processes=processes, **kernels, **told(("nvidia", GPU, "energy", "J", read))), "energy"), "energy"
    )
    idle = {path: value for path, value in stacks.items() if "idle energy" in path}
    assert sorted(idle.values()) == [6 * J, 18 * J]


@pytest.mark.parametrize("by", ["layer", "op", "phase", "family", "step", "region"])
def test_every_grouping_has_the_same_total(tmp_path: Path, by: str) -> None:
    recorded = profile(tmp_path, **TWO, **told(("nvidia", GPU, "energy", "J", counter(power, 6 * S))))
    assert tree(recorded, "energy", by).total("energy") == 1310 * J


def test_idle_energy_can_be_left_out(tmp_path: Path) -> None:
    recorded = profile(tmp_path, **TWO, **told(("nvidia", GPU, "energy", "J", counter(power, 6 * S))))
    assert without_idle(tree(recorded, "energy")).total("energy") == 1100 * J


@settings(max_examples=20, deadline=None)
@given(st.data())
def test_no_µJ_is_lost_or_made(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    begins = data.draw(st.lists(st.integers(0, 900 * MS), min_size=1, max_size=20))
    lengths = data.draw(st.lists(st.integers(1, 200 * MS), min_size=len(begins), max_size=len(begins)))
    watts = data.draw(st.lists(st.integers(0, 700_000), min_size=20, max_size=20))
    names = data.draw(st.lists(st.sampled_from("abc"), min_size=len(begins), max_size=len(begins)))
    joules = [sum(watts[:place]) / 1000 * 0.05 for place in range(20)]
    read = {place * 50 * MS: value for place, value in enumerate(joules)}
    kernels = [kernel(1, begin, begin + length, name) for begin, length, name in zip(begins, lengths, names, strict=True)]
    path = tmp_path_factory.mktemp("energy")
    energies_tree = tree(profile(path, **ran(*kernels), **told(("nvidia", GPU, "energy", "J", read))), "energy")
    values = energies_tree.values["energy"]
    assert (values >= 0).all()
    if any(begin < 950 * MS for begin in begins):
        assert int(values.sum()) == pytest.approx(joules[-1] * J, abs=20)  # each look is rounded to whole µJ


# Damage and absence


def test_a_profile_without_looks_says_how_to_have_energy(tmp_path: Path) -> None:
    recorded = profile(tmp_path, **TWO)
    assert "energy" not in metrics(recorded)
    with pytest.raises(AiflameError, match="--telemetry off"):
        tree(recorded, "energy")


def test_a_note_says_that_looks_have_no_power(tmp_path: Path) -> None:
    recorded = profile(tmp_path, **TWO, **told(("memory", "", "used", "bytes", {0: 1.0, S: 2.0})))
    with pytest.raises(AiflameError, match="driver reports its power"):
        tree(recorded, "energy")


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, -1e300, 1e300])
def test_damaged_values_do_no_harm(tmp_path: Path, value: float) -> None:
    read = {0: 0.0, 50 * MS: value, 100 * MS: 10.0, (1 << 63) - 1: 11.0}
    recorded = profile(tmp_path, **ran(kernel(1, 0, 100 * MS)), **told(("nvidia", GPU, "energy", "J", read)))
    assert tree(recorded, "energy").total("energy") >= 0


# CPUs


def samples(*rows: tuple[int, int, int]) -> list[Row]:
    """stack, moment, ns"""
    return [{"thread": 1, "stack": stack, "time_ns": time_ns, "weight": 1, "period_ns": ns} for stack, time_ns, ns in rows]


def cpu(path: Path, *series: Any, **more: Any) -> Any:
    """Stack 2 runs 50 ms in the first 100, stack 3 100 in the second; the machine has 2 cores."""
    ticks = samples(*((2, at * 10 * MS, 10 * MS) for at in range(1, 6)), *((3, 100 * MS + at * 10 * MS, 10 * MS) for at in range(1, 11)))
    return profile(path, cpu_samples=ticks, **told(*series), **more)


PACKAGE = ("rapl", "package-0", "energy", "J", {0: 100.0, 100 * MS: 105.0, 200 * MS: 125.0, 300 * MS: 127.0})
ELSEWHERE = "[energy of idle CPUs and of other programs]"


def test_a_package_s_energy_is_divided_over_samples(tmp_path: Path) -> None:
    stacks = lines(tree(cpu(tmp_path, PACKAGE), "energy"), "energy")
    assert stacks == {f"{UNDER};py::run": 5 * J, f"{UNDER};py::run;work": 20 * J, ELSEWHERE: 2 * J}


def test_other_programs_have_their_part_of_it(tmp_path: Path) -> None:
    """Both cores are busy all the time: of 200 ms of CPU time in each 100 ours are 50 and 100."""
    busy = [("cpu", "", "user", "%", {0: 100.0, 200 * MS: 0.0, 300 * MS: 0.0})]
    cores = [("cpu", f"core {number}", "user", "%", {0: 100.0}) for number in (0, 1)]
    stacks = lines(tree(cpu(tmp_path, PACKAGE, *busy, *cores), "energy"), "energy")
    assert stacks == {f"{UNDER};py::run": 5 * J // 4, f"{UNDER};py::run;work": 10 * J, ELSEWHERE: (2 + 10) * J + 15 * J // 4}


def test_other_programs_of_several_hosts_have_their_part_of_it(tmp_path: Path) -> None:
    """Each of two hosts has a busy core: the same 200 ms of CPU time in each 100, of which 50 and 100 are ours."""
    busy = [("cpu", f"node{host}: ", "user", "%", {0: 100.0, 200 * MS: 0.0, 300 * MS: 0.0}) for host in (1, 2)]
    cores = [("cpu", f"node{host}: core 0", "user", "%", {0: 100.0}) for host in (1, 2)]
    package = (PACKAGE[0], f"node1: {PACKAGE[1]}", *PACKAGE[2:])
    stacks = lines(tree(cpu(tmp_path, package, *busy, *cores), "energy"), "energy")
    assert stacks == {f"{UNDER};py::run": 5 * J // 4, f"{UNDER};py::run;work": 10 * J, ELSEWHERE: (2 + 10) * J + 15 * J // 4}


def test_cores_are_in_their_package_and_memory_beside_it(tmp_path: Path) -> None:
    parts = [("rapl", f"package-0 {part}", "energy", "J", {0: 0.0, 300 * MS: joules}) for part, joules in (("core", 9.0), ("dram", 3.0))]
    assert tree(cpu(tmp_path, PACKAGE, *parts), "energy").total("energy") == (27 + 3) * J


def test_energy_that_only_root_may_read_names_the_file(tmp_path: Path) -> None:
    recorded = cpu(tmp_path, ("rapl", "package-0", "energy", "J", {}), ("memory", "", "used", "bytes", {0: 1.0}))
    with pytest.raises(AiflameError, match="energy_uj"):
        tree(recorded, "energy")


@pytest.mark.parametrize("by", ["thread", "module", "op"])
def test_cpu_energy_can_be_grouped(tmp_path: Path, by: str) -> None:
    assert tree(cpu(tmp_path, PACKAGE), "energy", by).total("energy") == 27 * J


def test_only_kernels_have_families(tmp_path: Path) -> None:
    with pytest.raises(AiflameError, match="families"):
        tree(cpu(tmp_path, PACKAGE), "energy", "family")


# The report


def test_the_facts_of_a_report_have_the_tree_s_energy(tmp_path: Path) -> None:
    recorded = profile(tmp_path, **TWO, **told(("nvidia", GPU, "energy", "J", counter(power, 6 * S))))
    facts = device_sites(recorded)
    assert [metric.name for metric in facts.metrics] == ["gpu-time", "energy"]
    assert facts.leaves["energy"].sum() == tree(recorded, "energy").total("energy")
    names = facts.frames["name"].to_list()
    kernel, alone = facts.segments["kernel"], facts.segments["alone"]
    rows = facts.leaves.join(facts.sites.with_row_index("site"), on="site").select("kernel", "alone", "energy").rows()
    by_name = {names[kernel.frame[of]] if of else names[alone.frame[other]]: value for of, other, value in rows if value}
    assert by_name == {"a": 1000 * J, "b": 100 * J, "[GPU idle energy]": 210 * J}


def test_a_report_of_cpus_alone_has_no_devices(tmp_path: Path) -> None:
    assert "device" not in facts_makers(cpu(tmp_path, PACKAGE))


def test_the_summary_has_energy(tmp_path: Path) -> None:
    recorded = profile(tmp_path, **TWO, **told(("nvidia", GPU, "energy", "J", counter(power, 6 * S))))
    (energy,) = [one for one in summarize(recorded, recorded.meta).metrics if one.name == "energy"]
    assert (energy.total, energy.unit) == (1310 * J, "µJ")


# The commands


def test_commands_show_joules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    path = profile(tmp_path, **TWO, **told(("nvidia", GPU, "energy", "J", counter(power, 6 * S)))).path
    run = run_aiflame("top", str(path), "--metric", "energy")
    assert run.status == 0, run.err
    assert "1 kJ" in run.out
    assert "100 J" in run.out
    assert "[GPU idle energy]" in run.out
