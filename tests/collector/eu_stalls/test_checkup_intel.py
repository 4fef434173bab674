"""`aiflame doctor` on machines with Intel GPUs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from xe_machine import Gpu, XeMachine, build_kernel

import aiflame
from aiflame.recorder.checkup_intel import intel_findings
from aiflame.recorder.finding import Finding, State


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_kernel(tmp_path_factory.mktemp("xe"))


def findings(machine: XeMachine, before: str = "") -> list[tuple[str, str, str]]:
    """State, text and command of each finding."""
    program = (
        "import json, os\n"
        "from aiflame.recorder.checkup_intel import intel_findings\n"
        "from aiflame.recorder.eu_stalls.xe_stream import XeStream\n"
        f"{before}\n"
        "print(json.dumps([[one.state, one.text, one.mend] for one in intel_findings()]))"
    )
    environment = {**os.environ, **machine.environment, "PYTHONPATH": str(Path(aiflame.__file__).parents[1])}
    outcome = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=environment, timeout=60, check=False)
    assert outcome.returncode == 0, outcome.stderr
    return [(state, text, mend) for state, text, mend in json.loads(outcome.stdout)]


def card(root: Path, name: str, driver: str, vendor: str) -> None:
    device = root / "sys/class/drm" / name / "device"
    device.mkdir(parents=True)
    (device / "uevent").write_text(f"DRIVER={driver}\nPCI_SLOT_NAME=0000:00:02.0\n")
    (device / "vendor").write_text(f"{vendor}\n")


def test_no_intel_gpu(tmp_path: Path) -> None:
    card(tmp_path, "card0", "amdgpu", "0x1002")
    assert intel_findings(tmp_path) == [Finding("Intel GPU", State.ABSENT, "none on this machine")]


def test_an_older_driver(tmp_path: Path) -> None:
    card(tmp_path, "card0", "i915", "0x8086")
    (finding,) = intel_findings(tmp_path)
    assert (finding.state, finding.mend) == (State.LIMITED, "") and "its driver is i915" in finding.text


@pytest.mark.parametrize(("paranoid", "state"), [("0", State.WORKS), ("1", State.LIMITED), (None, State.WORKS)])
def test_ponte_vecchio_on_the_older_driver(tmp_path: Path, paranoid: str | None, state: State) -> None:
    machine = XeMachine(tmp_path, Path("none"), (Gpu(driver="i915"),))
    if paranoid is not None:
        file = machine.root / "proc/sys/dev/i915/perf_stream_paranoid"
        file.parent.mkdir(parents=True)
        file.write_text(f"{paranoid}\n")
    (finding,) = intel_findings(machine.root)
    mend = "sudo sysctl dev.i915.perf_stream_paranoid=0"
    assert (finding.state, finding.mend) == (state, mend if state is State.LIMITED else "")


def test_a_gpu_without_its_device_file(tmp_path: Path) -> None:
    card(tmp_path, "card0", "xe", "0x8086")
    (finding,) = intel_findings(tmp_path)
    assert (finding.state, finding.mend) == (State.LIMITED, "docker run --device /dev/dri …")


def test_everybody_may(library: Path, tmp_path: Path) -> None:
    two = (Gpu(version=(12, 60), units=2), Gpu("renderD129", "0000:4D:00.0", (20, 1)))
    assert findings(XeMachine(tmp_path / "xe", library, two)) == [
        ("works", "0000:03:00.0: graphics version 12.60, this user may sample its stalls", ""),
        ("works", "0000:4d:00.0: graphics version 20.1, this user may sample its stalls", ""),
    ]


def test_administrators_alone(library: Path, tmp_path: Path) -> None:
    machine = XeMachine(tmp_path / "xe", library)
    machine.allow(everybody=False)
    ((state, text, mend),) = findings(machine)
    assert (state, mend) == ("limited", "sudo sysctl dev.xe.observation_paranoid=0") and "administrators alone" in text
    ((state, _, mend),) = findings(machine, "os.environ['FAKE_XE_PERFMON'] = '1'")
    assert (state, mend) == ("works", "")


def test_another_program_samples(library: Path, tmp_path: Path) -> None:
    machine = XeMachine(tmp_path / "xe", library)
    ((state, text, mend),) = findings(machine, "held = XeStream(os.open('/dev/dri/renderD128', os.O_RDWR), 0, 251, 1)")
    assert (state, mend) == ("limited", "sudo lsof 2>/dev/null | grep xe_eu_stall") and "another program" in text


@pytest.mark.parametrize(("version", "says"), [((12, 55), "Linux 6.15"), ((47, 11), "its generation (47.11) is not known")])
def test_a_gpu_that_is_not_sampled(library: Path, tmp_path: Path, version: tuple[int, int], says: str) -> None:
    ((state, text, mend),) = findings(XeMachine(tmp_path / "xe", library, (Gpu(version=version),)))
    assert (state, mend) == ("limited", "") and says in text
