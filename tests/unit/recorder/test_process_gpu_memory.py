"""The memory of each recorded process on each device, by NVML."""

from __future__ import annotations

from pathlib import Path

import pytest
from fake_machine import fake_nvml, write

from aiflame.profile.folder.door import Folder
from aiflame.recorder.sources import nvidia, sources

NOT_AVAILABLE = (1 << 64) - 1


@pytest.fixture(scope="module")
def nvml(tmp_path_factory: pytest.TempPathFactory) -> str:
    return fake_nvml(tmp_path_factory.mktemp("nvml"))


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    for pid in (100, 101):
        (tmp_path / "spool" / f"{pid}.1").mkdir(parents=True)
    return write(tmp_path / "machine", {"dev/nvidiactl": "", "dev/nvidia0": "", "dev/nvidia1": ""})


def of_recorded(machine: Path, nvml: str) -> list[nvidia.ProcessMemory]:
    return nvidia.nvidia_memory(machine, Folder.open(machine.parent / "spool"), nvml)


def test_recorded_processes_are_read_on_each_device(machine: Path, nvml: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_NVML_PROCESSES", f"100:4096 7:1 101:{NOT_AVAILABLE} 100:4")
    first, second = of_recorded(machine, nvml)
    header = first.begin()
    assert header is not None and header.keyed
    assert [(one.device, one.name, one.unit) for one in header.series] == [("pid {}", "memory on NVIDIA Fake [0]", "bytes")]
    assert header.series[0].identity == "GPU-0 00000000:10:00.0"
    assert [(pid, values) for _, pid, values in first.look()] == [(100, [4100.0])], "both of its instances, and no other program"
    assert second.begin() is not None and second.look() == []


def test_a_driver_that_does_not_say_is_not_asked_again(machine: Path, nvml: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FAKE_NVML_PROCESSES", raising=False)
    assert [one.begin() for one in of_recorded(machine, nvml)] == [None, None]


def test_more_processes_than_are_looked_at_are_none(machine: Path, nvml: str, monkeypatch: pytest.MonkeyPatch) -> None:
    (source, _) = of_recorded(machine, nvml)
    monkeypatch.setenv("FAKE_NVML_PROCESSES", "100:4096")
    source.begin()
    monkeypatch.setenv("FAKE_NVML_PROCESSES", " ".join(["100:4096"] * 257))
    assert source.look() == []


def test_it_is_read_with_gpu_memory_alone(machine: Path, nvml: str) -> None:
    def memories(*, gpu_memory: bool = False) -> int:
        return sum(isinstance(one, nvidia.ProcessMemory) for one in sources(None, machine, nvml, gpu_memory=gpu_memory))

    assert (memories(), memories(gpu_memory=True)) == (0, 2)
