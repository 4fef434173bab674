"""The EU stall streams of the xe driver, read from a stand-in for the kernel, which is as strict."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from xe_machine import Device, Gpu, XeMachine, build_kernel

import aiflame


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_kernel(tmp_path_factory.mktemp("xe"))


@pytest.fixture
def machine(library: Path, tmp_path: Path) -> XeMachine:
    return XeMachine(tmp_path / "xe", library)


_BEGIN = """
import json, os, time
from pathlib import Path
from aiflame.recorder.eu_stalls.devices import gpus, sampling, units
from aiflame.recorder.eu_stalls.records import decode, layout_of
from aiflame.recorder.eu_stalls.xe_stream import XeStream
def stream(period=1757, reports=1, unit=0, node="/dev/dri/renderD128"):
    return XeStream(os.open(node, os.O_RDWR), unit, period, reports)
def refused(call, *arguments, **named):
    try:
        call(*arguments, **named)
    except OSError as error:
        return os.strerror(error.errno)
"""


def _said(machine: XeMachine, program: str) -> object:
    """The JSON that a program prints on the machine."""
    environment = {**os.environ, **machine.environment, "PYTHONPATH": str(Path(aiflame.__file__).parents[1])}
    outcome = subprocess.run(
        [sys.executable, "-c", _BEGIN + program], capture_output=True, text=True, env=environment, timeout=60, check=False
    )
    assert outcome.returncode == 0, outcome.stderr
    return json.loads(outcome.stdout)


def test_gpus_and_their_units(library: Path, tmp_path: Path) -> None:
    """Units that encode video do not count. Other drivers' GPUs neither."""
    two = (Gpu(version=(12, 60), units=2), Gpu("renderD129", "0000:4D:00.0", version=(20, 1)))
    machine = XeMachine(tmp_path / "xe", library, two)
    other = machine.root / "sys/class/drm/renderD130/device"
    other.mkdir(parents=True)
    (other / "uevent").write_text("DRIVER=i915\nPCI_SLOT_NAME=0000:00:02.0\n")
    (machine.root / "dev/dri/renderD130").touch()
    said = _said(
        machine,
        """
found = gpus()
opened = [os.open(one.node, os.O_RDWR) for one in found]
print(json.dumps([[one.address for one in found], [[(unit.number, unit.version) for unit in units(one)] for one in opened],
                  [sampling(one).rates for one in opened]]))
""",
    )
    rates = [251 * multiple for multiple in range(1, 8)]
    assert said == [["0000:03:00.0", "0000:4d:00.0"], [[[0, [12, 60]], [1, [12, 60]]], [[0, [20, 1]]]], [rates, rates]]


def test_an_older_gpu_has_no_stall_sampling(library: Path, tmp_path: Path) -> None:
    machine = XeMachine(tmp_path / "xe", library, (Gpu(version=(12, 55)),))
    assert _said(machine, "print(json.dumps(sampling(os.open('/dev/dri/renderD128', os.O_RDWR))))") is None


def test_without_permission(machine: XeMachine) -> None:
    machine.allow(everybody=False)
    assert _said(machine, "print(json.dumps(refused(stream)))") == "Permission denied"


def test_one_stream_a_unit_until_it_is_closed(machine: XeMachine) -> None:
    said = _said(machine, "first = stream(); again = refused(stream); first.close(); print(json.dumps([again, refused(stream)]))")
    assert said == ["Device or resource busy", None]


def test_a_child_does_not_keep_the_stream(machine: XeMachine) -> None:
    """The driver makes its descriptor without close-on-exec."""
    said = _said(
        machine,
        """
import subprocess
first = stream()
with subprocess.Popen(["sleep", "60"], close_fds=False) as child:
    first.close()
    print(json.dumps(refused(stream)))
    child.kill()
""",
    )
    assert said is None


def test_requests_that_the_driver_refuses(machine: XeMachine) -> None:
    wrong = ["period=250", "period=251 * 8", "reports=0", "reports=5000", "unit=1"]
    calls = ", ".join(f"refused(stream, {one})" for one in wrong)
    assert _said(machine, f"print(json.dumps([{calls}]))") == ["Invalid argument"] * len(wrong)


def test_reading_before_and_after(machine: XeMachine) -> None:
    said = _said(
        machine,
        """
one = stream()
before = refused(one.read)
one.enable()
between = one.read()[1]
one.disable()
print(json.dumps([before, between, refused(one.read)]))
""",
    )
    assert said == ["Invalid argument", 0, "Invalid argument"]


_SAMPLED = """
import ctypes, sys
one = stream(reports=3)
one.enable()
print("ready", flush=True)
layout = layout_of(units(os.open("/dev/dri/renderD128", os.O_RDWR))[0].version)
rows, lost = {}, 0
while sum(rows.values()) + lost < WANTED:
    records, times = one.read()
    lost += times
    counts = decode(records, layout)
    for address, of in zip(counts.address.tolist(), counts.counts.tolist()):
        for name, count in zip(layout.fields, of):
            if count:
                rows[f"{address:x} {name}"] = rows.get(f"{address:x} {name}", 0) + count
    time.sleep(0.002)
print(json.dumps([rows, lost]))
"""


def _sampled(machine: XeMachine, wanted: int, samples: list[tuple[int, int, str, int]]) -> object:
    """The samples that a reader of the stream gets when the device takes them: core, address, reason, number of records of one sample."""
    environment = {**os.environ, **machine.environment, "PYTHONPATH": str(Path(aiflame.__file__).parents[1])}
    program = _BEGIN + _SAMPLED.replace("WANTED", str(wanted))
    device = Device(machine)
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, env=environment) as reader:
        assert reader.stdout is not None and reader.stdout.readline() == "ready\n"
        for core, address, reason, number in samples:
            for _ in range(number):
                device.sample(address, "renderD128", 0, core, **{reason: 1})
        return json.loads(reader.communicate(timeout=60)[0])


@pytest.mark.parametrize("version", [(12, 60), (20, 4), (30, 0), (35, 11)])
def test_all_samples_of_all_cores(library: Path, tmp_path: Path, version: tuple[int, int]) -> None:
    machine = XeMachine(tmp_path / "xe", library, (Gpu(version=version),))
    samples = [(0, 0x1000, "sbid", 5), (1, 0x1000, "sbid", 2), (3, 0x1008, "active", 100), (2, 0xFFFFFFF8, "inst_fetch", 1)]
    assert _sampled(machine, 108, samples) == [{"1000 sbid": 7, "1008 active": 100, "fffffff8 inst_fetch": 1}, 0]


def test_lost_samples_are_told_once(library: Path, tmp_path: Path) -> None:
    """A buffer of 16 records, and 40 at once, which nobody reads meanwhile."""
    machine = XeMachine(tmp_path / "xe", library, (Gpu(records=16),))
    device = Device(machine)
    environment = {**os.environ, **machine.environment, "PYTHONPATH": str(Path(aiflame.__file__).parents[1])}
    program = """
one = stream(reports=1)
one.enable()
print("ready", flush=True)
input()
records, lost = b"", 0
while not records:
    time.sleep(0.006)
    more, times = one.read()
    records, lost = records + more, lost + times
print("read", flush=True)
input()
after, times = b"", 0
while not after:
    time.sleep(0.006)
    after, more = one.read()
    times += more
print(json.dumps([len(records) // 64, lost, len(after) // 64 + times]))
"""
    with subprocess.Popen(
        [sys.executable, "-c", _BEGIN + program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    ) as reader:
        assert reader.stdin is not None and reader.stdout is not None
        assert reader.stdout.readline() == "ready\n"
        written = [device.sample(64, active=1) for _ in range(40)]
        assert written == [1] * 16 + [-1] * 24
        print(file=reader.stdin, flush=True)
        assert reader.stdout.readline() == "read\n"
        assert device.sample(64, active=1) == 1
        assert json.loads(reader.communicate("\n", timeout=60)[0]) == [16, 1, 1]


def test_whole_records_at_the_asked_number(machine: XeMachine) -> None:
    """A poll returns when the driver has seen as many records as were asked for; a read gives whole ones, as many as have room, and then
    EAGAIN."""
    environment = {**os.environ, **machine.environment, "PYTHONPATH": str(Path(aiflame.__file__).parents[1])}
    program = """
import select
one = stream(reports=3)
one.enable()
polled = select.poll()
polled.register(one, select.POLLIN)
print("ready", flush=True)
input()
few = polled.poll(50)
print(len(few), flush=True)
input()
enough = polled.poll(10_000)
sizes = [len(os.read(one.fileno(), room)) for room in (100, 1000)]
print(json.dumps([[events for _, events in enough], sizes, refused(os.read, one.fileno(), 1000), refused(os.read, one.fileno(), 63)]))
"""
    device = Device(machine)
    with subprocess.Popen(
        [sys.executable, "-c", _BEGIN + program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    ) as reader:
        assert reader.stdin is not None and reader.stdout is not None
        assert reader.stdout.readline() == "ready\n"
        assert [device.sample(64, core=core, active=1) for core in (0, 1)] == [1, 1]
        print(file=reader.stdin, flush=True)
        assert reader.stdout.readline() == "0\n", "two of three"
        assert device.sample(64, core=2, active=1) == 1
        said = json.loads(reader.communicate("\n", timeout=60)[0])
    assert said == [[1], [64, 128], "Resource temporarily unavailable", "Invalid argument"]
