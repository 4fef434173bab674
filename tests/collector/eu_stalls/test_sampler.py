"""The recorder's sampling of Intel GPUs, from the first device code of a recorded program to the end."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path

import pytest
from xe_machine import Device, Gpu, XeMachine, build_kernel, until

import aiflame
from aiflame.profile.folder.eu_stall_files import ROW, SUFFIX, Block, Header, blocks, parts, read_header

LOST = "lost"
PROGRAM = """
import json, sys
from pathlib import Path
from aiflame.profile.folder.control_page import ControlPage
from aiflame.profile.folder.door import Folder
from aiflame.recorder.eu_stalls import loop, sampler
path, choice, loop.SHARE, room, last_ns = Path(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]), int(sys.argv[4]), int(sys.argv[5])
sampler._SHORTEST_PART_NS = 1
profile = Folder.new(path)
profile.new_folder("spool")
stalls = sampler.EuStalls(profile, ControlPage.create(profile, max_bytes=room), choice, last_ns=last_ns)
stalls.start()
print("started", flush=True)
input()
print(json.dumps(stalls.finish()))
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_kernel(tmp_path_factory.mktemp("xe"))


@dataclass
class Recorder:
    machine: XeMachine
    device: Device
    profile: Path
    process: subprocess.Popen[str]

    def load_code(self) -> None:
        """A recorded process loads code for a device."""
        folder = self.profile / "spool/100.1000"
        folder.mkdir()
        (folder / "code_loads.table").touch()

    def sampling(self, *, node: str = "renderD128", unit: int = 0) -> None:
        until(lambda: self.device.enabled(node, unit))

    def finish(self) -> list[str]:
        """Its notes."""
        said: list[str] = json.loads(self.process.communicate("\n", timeout=60)[0])
        return said

    def files(self) -> dict[tuple[str, int], tuple[Header, list[Block]]]:
        """By PCI address and unit."""
        read = {}
        for file in (self.profile / "telemetry").glob(f"*{SUFFIX}"):
            data = file.read_bytes()
            header, begin = read_header(data)
            parts = list(blocks(memoryview(data)[begin:]))
            read[header.address, header.unit] = header, [one for one in parts if one is not None]
            assert None not in parts
        return read

    def samples(self, address: str = "0000:03:00.0", unit: int = 0) -> Counter[tuple[int, str]]:
        """Address and reason → samples."""
        header, parts = self.files()[address, unit]
        samples: Counter[tuple[int, str]] = Counter({(0, LOST): dropped} if (dropped := sum(one.dropped for one in parts)) else {})
        for block in parts:
            for at, reason, count in ROW.iter_unpack(block.rows):
                samples[at, header.reasons[reason].removeprefix("eustall_")] += count
        return samples


@contextlib.contextmanager
def recorder(
    machine: XeMachine, profile: Path, *, choice: int = 1, share: float = 1.0, room: int = 0, last_ns: int = 0
) -> Iterator[Recorder]:
    environment = {**os.environ, **machine.environment, "PYTHONPATH": str(Path(aiflame.__file__).parents[1])}
    command = [sys.executable, "-c", PROGRAM, str(profile), str(choice), str(share), str(room), str(last_ns)]
    device = Device(machine)
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment) as process:
        try:
            assert process.stdout is not None and process.stdout.readline() == "started\n"
            yield Recorder(machine, device, profile, process)
        finally:
            process.kill()


def test_no_gpu_is_woken_before_the_program_uses_one(library: Path, tmp_path: Path) -> None:
    with recorder(XeMachine(tmp_path / "xe", library), tmp_path / "p") as here:
        (here.profile / "spool/100.1000").mkdir()
        assert here.finish() == []
        assert not here.device.enabled() and not here.files()


@pytest.mark.parametrize("version", [(12, 60), (20, 4), (35, 11)])
def test_every_sample_of_every_unit(library: Path, tmp_path: Path, version: tuple[int, int]) -> None:
    gpus = (Gpu(version=version, units=2, records=4096), Gpu("renderD129", "0000:4d:00.0", (20, 1)))
    with recorder(XeMachine(tmp_path / "xe", library, gpus), tmp_path / "p") as here:
        here.load_code()
        here.sampling(unit=1)
        here.sampling(node="renderD129")
        for number in range(3000):
            here.device.sample(0x1000 + 8 * (number % 10), core=number % 4, sbid=3, active=1)
            here.device.sample(0x9000, unit=1, pipestall=255)
            if number % 100 == 0:
                time.sleep(0.01)
                here.device.sample(0x7000, node="renderD129", inst_fetch=2)
        assert here.finish() == []
        assert here.samples() == {(0x1000 + 8 * at, name): 300 * count for at in range(10) for name, count in (("sbid", 3), ("active", 1))}
        assert here.samples(unit=1) == {(0x9000, "pipestall"): 3000 * 255}
        assert here.samples("0000:4d:00.0") == {(0x7000, "inst_fetch"): 60}
        assert not any(here.device.enabled(node, unit) for node, unit in (("renderD128", 0), ("renderD128", 1), ("renderD129", 0)))
        assert {header.period for header, _ in here.files().values()} == {251 * 7}


def test_a_sample_was_taken_within_its_stretch(library: Path, tmp_path: Path) -> None:
    """Stretches overlap by the time that the driver needs to see a sample, and leave no gap."""
    with recorder(XeMachine(tmp_path / "xe", library), tmp_path / "p") as here:
        here.load_code()
        here.sampling()
        moments: dict[int, tuple[int, int]] = {}
        for number in range(40):
            before = time.monotonic_ns()
            assert here.device.sample(8 * number, active=1) == 1
            moments[8 * number] = before, time.monotonic_ns()
            time.sleep(0.02)
        here.finish()
        ((_, stretches),) = here.files().values()
        assert len(stretches) >= 3
        for block in stretches:
            for address, _, _ in ROW.iter_unpack(block.rows):
                begin, end = moments.pop(address)
                assert block.begin_ns <= end and begin <= block.end_ns
        assert not moments
        for earlier, later in pairwise(stretches):
            assert earlier.begin_ns < later.begin_ns <= earlier.end_ns < later.end_ns


def test_lost_samples_are_counted(library: Path, tmp_path: Path) -> None:
    with recorder(XeMachine(tmp_path / "xe", library, (Gpu(records=16),)), tmp_path / "p") as here:
        here.load_code()
        here.sampling()
        written = [here.device.sample(64, active=1) for _ in range(5000)]
        assert -1 in written
        here.finish()
        samples = here.samples()
        assert samples[64, "active"] == written.count(1)
        assert 1 <= samples[0, LOST] <= written.count(-1)


def test_a_period_of_ones_own(library: Path, tmp_path: Path) -> None:
    """The driver's period nearest to 2^9 cycles."""
    with recorder(XeMachine(tmp_path / "xe", library), tmp_path / "p", choice=9) as here:
        here.load_code()
        here.sampling()
        here.device.sample(8, active=1)
        here.finish()
        assert [header.period for header, _ in here.files().values()] == [502]


def test_without_permission(library: Path, tmp_path: Path) -> None:
    machine = XeMachine(tmp_path / "xe", library)
    machine.allow(everybody=False)
    with recorder(machine, tmp_path / "p") as here:
        here.load_code()
        until(lambda: not _thread_lives(here.process))
        (note,) = here.finish()
    assert note == (
        "stalls of the Intel GPU 0000:03:00.0 are not sampled: its driver lets administrators alone do so: "
        "sudo sysctl dev.xe.observation_paranoid=0"
    )


def test_permission_taken_away_meanwhile(library: Path, tmp_path: Path) -> None:
    """The driver asks once."""
    machine = XeMachine(tmp_path / "xe", library)
    with recorder(machine, tmp_path / "p") as here:
        here.load_code()
        here.sampling()
        machine.allow(everybody=False)
        assert here.device.sample(8, active=1) == 1
        assert here.finish() == []
        assert here.samples() == {(8, "active"): 1}


def test_a_stream_that_another_program_has(library: Path, tmp_path: Path) -> None:
    """One unit is sampled, the other is not."""
    machine = XeMachine(tmp_path / "xe", library, (Gpu(), Gpu("renderD129", "0000:4d:00.0")))
    with recorder(machine, tmp_path / "first") as first:
        first.load_code()
        first.sampling()
        first.sampling(node="renderD129")
        with recorder(machine, tmp_path / "second") as second:
            second.load_code()
            until(lambda: not _thread_lives(second.process))
            name = "stalls of the Intel GPU {} are not sampled: another program samples them, perhaps another rank of this job"
            assert second.finish() == [name.format("0000:03:00.0"), name.format("0000:4d:00.0")]
        assert first.device.enabled() and first.finish() == []


def test_a_recorder_that_is_killed_leaves_the_stream_to_the_next(library: Path, tmp_path: Path) -> None:
    machine = XeMachine(tmp_path / "xe", library)
    with recorder(machine, tmp_path / "first") as first:
        first.load_code()
        first.sampling()
        first.device.sample(8, active=1)
        until(lambda: bool(first.files()))
        first.process.send_signal(signal.SIGKILL)
        first.process.wait()
        assert first.samples() == {(8, "active"): 1}
    with recorder(machine, tmp_path / "second") as second:
        second.load_code()
        second.sampling()
        until(lambda: second.device.sample(16, active=1) == 1)
        assert second.finish() == []
        assert second.samples()[16, "active"] >= 1


def test_reading_takes_a_bounded_share_of_a_core(library: Path, tmp_path: Path) -> None:
    """A share so small that sampling pauses, and a note says so."""
    with recorder(XeMachine(tmp_path / "xe", library), tmp_path / "p", share=1e-6) as here:
        here.load_code()
        here.sampling()
        here.device.sample(8, active=1)
        began = time.monotonic()
        until(lambda: not here.device.enabled())
        paused = time.monotonic()
        until(lambda: time.monotonic() - paused > paused - began)
        (note,) = here.finish()
        assert note.startswith("stalls of the Intel GPU were sampled for ")
        assert here.samples() == {(8, "active"): 1}


def test_a_generation_that_is_not_known(library: Path, tmp_path: Path) -> None:
    with recorder(XeMachine(tmp_path / "xe", library, (Gpu(version=(47, 11)),)), tmp_path / "p") as here:
        here.load_code()
        here.sampling()
        for _ in range(5):
            here.device.sample(8, active=1)
        assert here.finish() == ["stalls of the Intel GPU 0000:03:00.0 are not shown: its generation (47.11) is not known"]
        facts, _, records = (here.profile / "telemetry/0000-03-00.0-0.eustalls-unknown").read_bytes().partition(b"\n")
        assert json.loads(facts) == {"version": [47, 11], "unit": 0, "record_bytes": 64, "period": 1757}
        assert len(records) == 5 * 64


def test_a_limit_of_the_profiles_size(library: Path, tmp_path: Path) -> None:
    with recorder(XeMachine(tmp_path / "xe", library), tmp_path / "p", room=64) as here:
        here.load_code()
        here.sampling()
        here.device.sample(8, active=1)
        until(lambda: not here.device.enabled() or not _thread_lives(here.process))
        here.finish()
        assert not here.files()


def test_a_flight_recorder_has_a_file_for_each_part_of_its_window(library: Path, tmp_path: Path) -> None:
    with recorder(XeMachine(tmp_path / "xe", library), tmp_path / "p", last_ns=20) as here:
        here.load_code()
        here.sampling()
        telemetry = here.profile / "telemetry"
        for number in range(3):
            assert here.device.sample(8 * number, active=1) == 1
            until(partial(_has_files, telemetry, number + 1))
        assert here.finish() == []
    written = parts(file.name for file in telemetry.iterdir())
    assert len(written) == 3 and {one.stream for one in written} == {"0000-03-00.0-0"}
    for number, one in enumerate(written):
        data = (telemetry / one.name).read_bytes()
        (block,) = blocks(memoryview(data)[read_header(data)[1] :])
        assert block is not None and block.begin_ns == one.begin_ns
        assert [at for at, _, _ in ROW.iter_unpack(block.rows)] == [8 * number]


def _has_files(folder: Path, count: int) -> bool:
    return folder.is_dir() and len(list(folder.iterdir())) >= count


def _thread_lives(process: subprocess.Popen[str]) -> bool:
    return len(list(Path(f"/proc/{process.pid}/task").iterdir())) > 1


def test_a_user_with_the_capability_needs_no_permission(library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """CAP_PERFMON."""
    machine = XeMachine(tmp_path / "xe", library)
    machine.allow(everybody=False)
    monkeypatch.setenv("FAKE_XE_PERFMON", "1")
    with recorder(machine, tmp_path / "p") as here:
        here.load_code()
        here.sampling()
        assert here.device.sample(8, active=1) == 1
        assert here.finish() == []
        assert here.samples() == {(8, "active"): 1}
