"""The values that each source reads of a machine, in a person's units: files go in, tables come out."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from fake_machine import MEMINFO, diskstats, fake_nvml, net, pressure, stat, write

from aiflame.profile.folder.door import Folder
from aiflame.profile.folder.telemetry_files import FOLDER, Packer, pack_header
from aiflame.profile.sealing.telemetry import read
from aiflame.recorder.sources import cpu, memory, nvidia, processes, quota, system, vendors
from aiflame.recorder.sources.base import Source, SysfsSource

Readings = dict[tuple[str, str], list[float]]
SECOND = 1_000_000_000


def readings(folder: Path, source: Source, *changes: Callable[[], object], apart: int = SECOND) -> Readings:
    """(device, name) → values, of looks a second apart, with a change of the machine before each but the first."""
    header = source.begin()
    assert header is not None
    packer = Packer(len(header.series))
    records = []
    for number, change in enumerate((lambda: None, *changes)):
        change()
        records += [packer.pack((number + 1) * apart, key, values) for _, key, values in source.look()]
    source.end()
    (folder / FOLDER).mkdir(exist_ok=True)
    (folder / FOLDER / "00-x.records").write_bytes(pack_header(header) + b"".join(records))
    telemetry = read(Folder.open(folder / FOLDER))
    assert telemetry.notes == []
    values = telemetry.values.join(telemetry.series, on="series").sort("series", "time_ns")
    by_counter: Readings = {}
    for device, name, value in values.select("device", "name", "value").rows():
        by_counter.setdefault((device, name), []).append(value)
    return by_counter


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "root"


def test_cpu_time_is_a_share_of_all_cores(root: Path) -> None:
    """A core has 100 ticks a second: 75 in user code and 25 idle."""
    write(root, {"proc/stat": stat(0, 0)})
    values = readings(root, cpu.CpuTimes(root, cores=False), lambda: write(root, {"proc/stat": stat(75, 25)}))
    assert values == {("", "user"): [75.0], ("", "system"): [0.0], ("", "iowait"): [0.0], ("", "idle"): [25.0]}


def test_each_core_has_its_own_time(root: Path) -> None:
    write(root, {"proc/stat": stat(0, 0, cores=3)})
    values = readings(root, cpu.CpuTimes(root, cores=True), lambda: write(root, {"proc/stat": stat(40, 60, cores=3)}))
    assert {device: value for (device, name), value in values.items() if name == "user"} == {
        f"core {number}": [40.0] for number in range(3)
    }


def test_a_core_that_is_switched_off_has_no_values_meanwhile(root: Path) -> None:
    write(root, {"proc/stat": stat(0, 0)})
    off = "\n".join(line for line in stat(10, 10).splitlines() if not line.startswith("cpu1"))
    values = readings(root, cpu.CpuTimes(root, cores=True), lambda: write(root, {"proc/stat": off}))
    assert ("core 1", "user") not in values
    assert values["core 0", "user"] == [10.0]


def test_frequency_and_temperature_of_cpus(root: Path) -> None:
    sensor = "sys/class/hwmon/hwmon2"
    write(root, {
        "sys/devices/system/cpu/cpu0/cpufreq/scaling_cur_freq": 2400000, "sys/devices/system/cpu/cpu10/cpufreq/scaling_cur_freq": 800000,
        f"{sensor}/name": "coretemp", f"{sensor}/temp1_label": "Package id 0", f"{sensor}/temp1_input": 61000,
        f"{sensor}/temp2_label": "Core 0", f"{sensor}/temp2_input": 59000, "sys/class/hwmon/hwmon0/name": "nvme",
    })  # fmt: skip
    values = readings(root, SysfsSource("cpu", [*cpu.frequencies(root), *cpu.temperatures(root)]))
    assert values == {("core 0", "frequency"): [2400.0], ("core 10", "frequency"): [800.0], ("Package id 0", "temperature"): [61.0]}


def test_memory(root: Path) -> None:
    write(root, {"proc/meminfo": MEMINFO})
    values = readings(root, memory.Memory(root))
    kib = {"used": 4000, "available": 12000, "cached": 3000, "dirty": 40, "swap used": 500}
    assert values == {("", name): [value * 1024] for name, value in kib.items()}


def test_resident_memory_of_the_processes_that_are_recorded(root: Path, tmp_path: Path) -> None:
    """7 and 8 are recorded, 9 is not, and 8 ends."""
    write(root, {f"proc/{pid}/statm": f"5000 {pid * 100} 10 1 0 50 0" for pid in (7, 8, 9)})
    for pid in (7, 8):
        (tmp_path / f"spool/{pid}.123").mkdir(parents=True)
    values = readings(root, processes.Processes(root, Folder.open(tmp_path / "spool")), lambda: shutil.rmtree(root / "proc/8"))
    page = 4096
    assert values == {("pid 7", "resident memory"): [700 * page] * 2, ("pid 8", "resident memory"): [800 * page]}


def task(root: Path, thread: int, running: float, waited: float) -> None:
    write(root, {f"proc/7/task/{thread}/schedstat": f"{running * SECOND:.0f} {waited * SECOND:.0f} 5"})


def test_threads_that_run_and_that_have_no_cpu(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two threads, of which one ends and gives its number to another."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1, 2})
    (tmp_path / "spool/7.123").mkdir(parents=True)

    def account(minor: int, major: int, system_ticks: int) -> None:
        write(root, {"proc/7/stat": f"7 (a) b) S 1 1 1 0 -1 0 {minor} 0 {major} 0 9 {system_ticks} 0 0 20 0 2 0 5"})

    write(root, {"proc/self/schedstat": "0 0 0"})
    task(root, 7, 100, 10)
    task(root, 8, 5, 5)
    account(1000, 10, 0)

    def second() -> None:
        task(root, 7, 100.75, 10.25)
        task(root, 8, 5.25, 5.75)
        account(3000, 30, 25)

    def third() -> None:
        task(root, 7, 101, 11)
        task(root, 8, 0.5, 0)
        account(3000, 30, 25)

    values = readings(root, processes.Scheduling(root, Folder.open(tmp_path / "spool")), second, third)
    ticks = os.sysconf("SC_CLK_TCK")
    assert values == {
        ("pid 7", "running threads"): [pytest.approx(1.0), pytest.approx(0.75)],
        ("pid 7", "threads without a CPU"): [pytest.approx(1.0), pytest.approx(0.75)],
        ("pid 7", "usable CPUs"): [3.0] * 3,
        ("pid 7", "page faults"): [2020.0, 0.0],
        ("pid 7", "page faults from disk"): [20.0, 0.0],
        ("pid 7", "time in the kernel"): [2500 / ticks, 0.0],
    }


def test_a_kernel_that_does_not_account_for_threads_is_not_asked(root: Path, tmp_path: Path) -> None:
    write(root, {"proc/7/stat": "7"})
    assert processes.Scheduling(root, Folder.open(tmp_path)).begin() is None


def test_a_quota_of_a_group_above(root: Path) -> None:
    write(root, {"proc/self/cgroup": "0::/user/job", "sys/fs/cgroup/user/job/cpu.max": "max 100000"})
    write(root, {"sys/fs/cgroup/user/cpu.max": "150000 100000", "sys/fs/cgroup/user/cpu.stat": "usage_usec 100\nthrottled_usec 7"})
    later = "usage_usec 500100\nnr_throttled 9\nthrottled_usec 250007"
    values = readings(root, quota.Quota(root), lambda: write(root, {"sys/fs/cgroup/user/cpu.stat": later}))
    assert values == {("", "limit"): [1.5, 1.5], ("", "used"): [pytest.approx(0.5)], ("", "held up"): [pytest.approx(0.25)]}


@pytest.mark.parametrize("path", ["job", ""], ids=["the group", "a container"])
def test_a_quota_of_the_first_version(root: Path, path: str) -> None:
    """In a container, the path of its group is the host's."""
    folder = f"sys/fs/cgroup/cpu,cpuacct/{path}"
    write(root, {"proc/self/cgroup": "4:memory:/\n3:cpu,cpuacct:/job"})
    write(root, {f"{folder}/cpu.cfs_quota_us": 20_000, f"{folder}/cpu.cfs_period_us": 100_000})

    def used(ns: int, held_ns: int) -> None:
        write(root, {f"{folder}/cpu.stat": f"nr_periods 3\nthrottled_time {held_ns}", f"{folder}/cpuacct.usage": ns})

    used(5, 1000)
    values = readings(root, quota.Quota(root), lambda: used(200_000_005, 800_001_000))
    assert values == {("", "limit"): [0.2, 0.2], ("", "used"): [pytest.approx(0.2)], ("", "held up"): [pytest.approx(0.8)]}


def test_no_quota_is_nothing(root: Path) -> None:
    folder = "sys/fs/cgroup/cpu"
    write(root, {"proc/self/cgroup": "0::/\n1:cpu:/", f"{folder}/cpu.cfs_quota_us": -1, f"{folder}/cpu.cfs_period_us": 100_000})
    assert quota.Quota(root).begin() is None


def test_whole_disks_alone(root: Path) -> None:
    write(root, {"proc/diskstats": diskstats(0, 0, 0), "sys/block/nvme0n1/size": 1, "sys/block/loop0/size": 1})
    values = readings(root, system.Disks(root), lambda: write(root, {"proc/diskstats": diskstats(2048, 1024, 300)}))
    assert values == {("nvme0n1", "read"): [1 << 20], ("nvme0n1", "written"): [1 << 19], ("nvme0n1", "busy"): [30.0]}


def test_networks_and_one_that_is_set_back(root: Path) -> None:
    """A device that is taken away and comes again counts from 0: that second gives no value."""
    write(root, {"proc/net/dev": net(1000, 500)})
    steps = [lambda: write(root, {"proc/net/dev": net(3000, 600)}), lambda: write(root, {"proc/net/dev": net(10, 610)}),
             lambda: write(root, {"proc/net/dev": net(50, 620)})]  # fmt: skip
    values = readings(root, system.Networks(root), *steps)
    assert values["eth0", "received"] == [2000.0, 40.0]
    assert values["eth0", "sent"] == [100.0, 10.0, 10.0]


def test_pressure(root: Path) -> None:
    write(root, {f"proc/pressure/{name}": pressure(0, 0) for name in ("cpu", "memory", "io")})
    values = readings(root, system.Pressure(root), lambda: write(root, {"proc/pressure/io": pressure(250_000, 100_000)}))
    assert values["io", "some waited"] == pytest.approx([25.0])
    assert values["io", "all waited"] == pytest.approx([10.0])
    assert values["cpu", "some waited"] == [0.0]


# Vendors


def test_i915(root: Path) -> None:
    card = "sys/class/drm/card0"
    write(root, {
        f"{card}/device/vendor": "0x8086", f"{card}/device/uevent": "DRIVER=i915\nPCI_SLOT_NAME=0000:3a:00.0",
        f"{card}/gt/gt0/rc6_residency_ms": 100, f"{card}/gt/gt0/rps_act_freq_mhz": 1300, f"{card}/gt/gt1/rps_act_freq_mhz": 900,
        f"{card}/device/hwmon/hwmon3/energy1_input": 5_000_000, "sys/class/drm/card0-DP-1/status": "connected",
    })  # fmt: skip
    values = readings(root, SysfsSource("intel", vendors.intel_gpus(root)), lambda: write(root, {f"{card}/gt/gt0/rc6_residency_ms": 400}))
    gpu = "Intel GPU [0]"
    assert values == {(gpu, "resting"): [30.0], (gpu, "frequency"): [1300.0] * 2, (gpu, "frequency gt gt1"): [900.0] * 2,
                     (gpu, "energy"): [5.0] * 2}  # fmt: skip


def test_xe(root: Path) -> None:
    device = "sys/class/drm/card1/device"
    write(root, {
        f"{device}/vendor": "0x8086", f"{device}/tile0/gt0/gtidle/idle_residency_ms": 0, f"{device}/tile0/gt0/freq0/act_freq": 2000,
        f"{device}/hwmon/hwmon0/energy1_input": 0,
    })  # fmt: skip
    steps = lambda: write(root, {f"{device}/hwmon/hwmon0/energy1_input": 120_000_000})  # noqa: E731
    values = readings(root, SysfsSource("intel", vendors.intel_gpus(root)), steps)
    assert values["Intel GPU [1]", "energy"] == [0.0, 120.0]
    assert values["Intel GPU [1]", "frequency"] == [2000.0, 2000.0]


def test_amdgpu(root: Path) -> None:
    device = "sys/class/drm/card0/device"
    write(root, {
        f"{device}/vendor": "0x1002", f"{device}/product_name": "AMD Instinct MI250X", f"{device}/gpu_busy_percent": 87,
        f"{device}/mem_info_vram_used": 1 << 30, f"{device}/hwmon/hwmon5/power1_average": 310_000_000,
        f"{device}/hwmon/hwmon5/temp1_input": 45000, f"{device}/hwmon/hwmon5/freq1_input": 1_700_000_000,
    })  # fmt: skip
    by_counter = readings(root, SysfsSource("amd", vendors.amd_gpus(root)))
    values = {"utilization": 87.0, "memory used": 2.0**30, "power": 310.0, "temperature": 45.0, "SM clock": 1700.0}
    assert by_counter == {("AMD Instinct MI250X [0]", name): [value] for name, value in values.items()}


def rapl(root: Path, package: int) -> Path:
    zones = "sys/class/powercap"
    return write(root, {
        f"{zones}/intel-rapl:0/name": "package-0", f"{zones}/intel-rapl:0/energy_uj": package,
        f"{zones}/intel-rapl:0/max_energy_range_uj": 1_000_000, f"{zones}/intel-rapl:0:0/name": "dram",
        f"{zones}/intel-rapl:0:0/energy_uj": 77, f"{zones}/intel-rapl:0:0/max_energy_range_uj": 1_000_000,
    })  # fmt: skip


def test_rapl_goes_on_where_its_counter_begins_again(root: Path) -> None:
    rapl(root, 900_000)
    values = readings(root, SysfsSource("rapl", vendors.rapl(root)), lambda: rapl(root, 100_000), lambda: rapl(root, 300_000))
    assert values["package-0", "energy"] == pytest.approx([0.9, 1.1, 1.3])
    assert values["package-0 dram", "energy"] == pytest.approx([77e-6] * 3)


def test_a_forbidden_source_is_named_and_has_no_values(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only root may read RAPL; tests may be root."""
    rapl(root, 1)
    from aiflame.recorder.sources import base

    def refuse(path: Path, most: int = 0) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(base, "OpenFile", refuse)
    header = SysfsSource("rapl", vendors.rapl(root)).begin()
    assert header is not None
    assert header.series == ()
    assert [one.device for one in header.unreadable] == ["package-0", "package-0 dram"]
    (root / FOLDER).mkdir()
    (root / FOLDER / "00-rapl.records").write_bytes(pack_header(header))
    telemetry = read(Folder.open(root / FOLDER))
    assert telemetry.series["source"].to_list() == ["rapl", "rapl"]
    assert telemetry.values.is_empty()


def test_infiniband_counts_words(root: Path) -> None:
    counters = "sys/class/infiniband/mlx5_0/ports/1/counters"
    write(root, {f"{counters}/port_rcv_data": 0, f"{counters}/port_xmit_data": 0, f"{counters}/port_xmit_wait": 0})
    change = lambda: write(root, {f"{counters}/port_rcv_data": 1000, f"{counters}/port_xmit_wait": 9})  # noqa: E731
    values = readings(root, SysfsSource("infiniband", vendors.infiniband(root)), change)
    port = "mlx5_0 port 1"
    assert values == {(port, "received"): [4000.0], (port, "sent"): [0.0], (port, "waited to send"): [9.0]}


def test_slingshot_gives_a_time_beside_each_value(root: Path) -> None:
    path = "sys/class/cxi/cxi0/device/telemetry/hni_sts_tx_ok_octets"
    write(root, {path: "100@1760000000.25"})
    values = readings(root, SysfsSource("cxi", vendors.slingshot(root)), lambda: write(root, {path: "2100@1760000001.25"}))
    assert values == {("cxi0", "sent"): [2000.0]}


def test_a_machine_without_anything_has_nothing_to_look_at(root: Path) -> None:
    root.mkdir()
    for sensors in (vendors.rapl, vendors.amd_gpus, vendors.intel_gpus, vendors.infiniband, vendors.slingshot, cpu.frequencies):
        assert SysfsSource("x", sensors(root)).begin() is None
    for source in (cpu.CpuTimes(root, cores=False), memory.Memory(root), system.Disks(root), system.Networks(root), system.Pressure(root)):
        assert source.begin() is None
    assert nvidia.nvidia_gpus(root) == []


# NVML


@pytest.fixture(scope="session")
def nvml(tmp_path_factory: pytest.TempPathFactory) -> str:
    return fake_nvml(tmp_path_factory.mktemp("nvml"))


def devices(root: Path) -> Path:
    return write(root, {"dev/nvidiactl": "", "dev/nvidia0": "", "dev/nvidia1": "", "dev/nvidia-uvm": ""})


def of_device(root: Path, nvml: str, index: int) -> Readings:
    by_counter: Readings = {}
    for number, source in enumerate(one for one in nvidia.nvidia_gpus(devices(root), nvml) if one.index == index):
        (root / str(number)).mkdir()
        by_counter |= readings(root / str(number), source, lambda: None)
    return by_counter


def test_a_device_that_counts_its_energy(root: Path, nvml: str) -> None:
    by_counter = of_device(root, nvml, 0)
    assert {device for device, _ in by_counter} == {"NVIDIA Fake [0]"}
    values = {name: value for (_, name), value in by_counter.items()}
    assert values["energy"][1] - values["energy"][0] == pytest.approx(1.5)
    del values["energy"]
    assert values == {"power": [512.0] * 2, "utilization": [80.0] * 2, "memory used": [40.0] * 2, "memory utilization": [30.0] * 2,
                      "temperature": [55.0] * 2, "SM clock": [1980.0] * 2, "memory clock": [3201.0] * 2, "PCIe sent": [1000.0],
                      "NVLink sent": [0.0]}  # fmt: skip


def test_values_that_a_device_does_not_give_are_left_out(root: Path, nvml: str) -> None:
    values = {name: value for (_, name), value in of_device(root, nvml, 1).items()}
    assert "energy" not in values
    assert values["power"] == [70.0] * 2


def test_a_device_is_named_with_its_uuid_and_address(root: Path, nvml: str) -> None:
    header = nvidia.nvidia_gpus(devices(root), nvml)[1].begin()
    assert header is not None
    assert {one.identity for one in header.series} == {"GPU-1 00000000:20:00.0"}


def test_nvml_that_is_not_there_or_does_not_start_is_nothing(root: Path, nvml: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert nvidia.nvidia_gpus(devices(root), "libnothing-of-this-name.so")[0].begin() is None
    monkeypatch.setenv("FAKE_NVML_BROKEN", "1")
    assert nvidia.nvidia_gpus(root, nvml)[0].begin() is None


def test_nvml_is_not_loaded_where_the_driver_is_not(root: Path) -> None:
    root.mkdir()
    assert nvidia.nvidia_gpus(root, "/nothing/there") == []


def test_moments_of_looks_are_those_of_the_monotonic_clock(root: Path) -> None:
    write(root, {"proc/meminfo": MEMINFO})
    source = memory.Memory(root)
    source.begin()
    before = time.monotonic_ns()
    assert before <= source.look()[0][0] <= time.monotonic_ns()
