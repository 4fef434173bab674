"""`aiflame doctor` on CUDA, on machines that are folders."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from aiflame.recorder.checkup_cuda import Machine, cuda_findings, cupti_version
from aiflame.recorder.finding import Finding, State

VERSION = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  {}  Release Build  (dvs-builder@U22)\nGCC version:  12.3.0\n"
OLD_VERSION = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  {}  Thu Feb  1 01:21:30 UTC 2024\n"
LIBCUDA = "usr/lib/x86_64-linux-gnu/libcuda.so.1"
UNPRIVILEGED, ROOT = "0000000000000000", "000001fffeffffff"


@dataclass
class Tree:
    """A machine with a GPU where all is well; a test takes away or adds."""

    root: Path
    environment: dict[str, str] = field(default_factory=dict)
    cupti_api: int = 130001

    def write(self, path: str, text: str = "", *, executable: bool = False) -> Path:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        file.chmod(0o755 if executable else 0o644)
        return file

    def remove(self, path: str) -> None:
        (self.root / path).unlink()

    def findings(self) -> dict[str, Finding]:
        machine = Machine(self.root, self.environment, (self.root / "site-packages",), "/aiflame/agent.so", lambda _: self.cupti_api)
        findings = cuda_findings(machine)
        assert len({finding.subject for finding in findings}) == len(findings)
        return {finding.subject: finding for finding in findings}

    def found(self, subject: str) -> tuple[State, str, str]:
        finding = self.findings()[subject]
        return finding.state, finding.text, finding.mend


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    tree = Tree(tmp_path)
    tree.write("proc/driver/nvidia/version", VERSION.format("580.65.06"))
    tree.write("proc/driver/nvidia/params", "ResmanDebugLevel: 4294967295\nRmProfilingAdminOnly: 0\nTCEBypassMode: 0\n")
    tree.write("proc/driver/nvidia/gpus/0000:18:00.0/information", "Model: \t\t NVIDIA H100 80GB HBM3\nIRQ:   \t\t 120\n")
    tree.write("proc/self/status", f"Name:\tpython\nCapEff:\t{UNPRIVILEGED}\n")
    tree.write(LIBCUDA)
    tree.write("dev/nvidia0")
    tree.write("site-packages/nvidia/cu13/lib/libcupti.so.13")
    tree.write("site-packages/nvidia/cu13/bin/nvdisasm", executable=True)
    return tree


def test_a_machine_without_a_gpu_gets_one_line(tmp_path: Path) -> None:
    tree = Tree(tmp_path)
    tree.write("sys/bus/pci/devices/0000:00:02.0/vendor", "0x8086\n")
    tree.write("sys/bus/pci/devices/0000:00:02.0/class", "0x030000\n")
    tree.write("sys/bus/pci/devices/0000:00:03.0/vendor", "0x10de\n")
    tree.write("sys/bus/pci/devices/0000:00:03.0/class", "0x020000\n")  # NVIDIA makes network cards too
    assert tree.findings() == {"NVIDIA GPU": Finding("NVIDIA GPU", State.ABSENT, "none on this machine")}


def test_where_all_is_well_every_line_says_so(tree: Tree) -> None:
    findings = tree.findings()
    assert list(findings) == ["NVIDIA GPU", "CUPTI", "stall samples", "SASS", "CUDA hook"]
    assert {finding.state for finding in findings.values()} == {State.WORKS}
    assert not any(finding.mend for finding in findings.values())
    assert findings["NVIDIA GPU"].text == "NVIDIA H100 80GB HBM3, driver 580.65.06"


def test_whatever_does_not_work_comes_with_a_mend(tree: Tree) -> None:
    tree.write("proc/driver/nvidia/version", VERSION.format("470.1"))
    tree.write("proc/driver/nvidia/params", "RmProfilingAdminOnly: 1\n")
    for path in ("site-packages/nvidia/cu13/lib/libcupti.so.13", "site-packages/nvidia/cu13/bin/nvdisasm"):
        tree.remove(path)
    tree.environment["CUDA_INJECTION64_PATH"] = "/opt/nsight/libToolsInjection64.so"
    findings = tree.findings().values()
    assert {finding.state for finding in findings} == {State.LIMITED}
    assert all(finding.mend for finding in findings)


# The driver


def test_a_gpu_without_a_driver_differs_from_no_gpu(tmp_path: Path) -> None:
    tree = Tree(tmp_path)
    tree.write("sys/bus/pci/devices/0000:18:00.0/vendor", "0x10de\n")
    tree.write("sys/bus/pci/devices/0000:18:00.0/class", "0x030200\n")
    assert tree.found("NVIDIA GPU")[:2] == (State.LIMITED, "no driver is loaded")
    tree.write(".dockerenv")
    assert tree.found("NVIDIA GPU")[2] == "docker run --gpus all …"
    assert len(tree.findings()) == 1


@pytest.mark.parametrize(
    ("version", "state"), [("525.60.13", State.WORKS), ("524.99.01", State.LIMITED), ("470.223.02", State.LIMITED), ("1000.1", State.WORKS)]
)
@pytest.mark.parametrize("line", [VERSION, OLD_VERSION])
def test_cuda_12_needs_driver_525(tree: Tree, version: str, state: State, line: str) -> None:
    tree.write("proc/driver/nvidia/version", line.format(version))
    finding = tree.found("NVIDIA GPU")
    assert finding[0] is state
    assert f"driver {version}" in finding[1]


def test_a_driver_of_unknown_version_is_not_called_old(tree: Tree) -> None:
    tree.write("proc/driver/nvidia/version", "something else")
    assert tree.found("NVIDIA GPU")[0] is State.WORKS


def test_equal_gpus_are_counted(tree: Tree) -> None:
    tree.write("proc/driver/nvidia/gpus/0000:19:00.0/information", "Model: NVIDIA H100 80GB HBM3\n")
    tree.write("proc/driver/nvidia/gpus/0000:1a:00.0/information", "Model: NVIDIA L4\n")
    assert tree.found("NVIDIA GPU")[1] == "2 × NVIDIA H100 80GB HBM3, NVIDIA L4, driver 580.65.06"


def test_a_driver_without_its_library_runs_no_program(tree: Tree) -> None:
    tree.remove(LIBCUDA)
    assert "libcuda.so.1 was not found" in tree.found("NVIDIA GPU")[1]
    tree.write("run/.containerenv")
    assert "NVIDIA_DRIVER_CAPABILITIES=compute,utility" in tree.found("NVIDIA GPU")[2]


@pytest.mark.parametrize("place", ["usr/lib64/libcuda.so.1", "ld/libcuda.so.1", "etc/ld.so.cache"])
def test_the_drivers_library_is_found_where_the_loader_finds_it(tree: Tree, place: str) -> None:
    tree.remove(LIBCUDA)
    tree.write(place, "glibc-ld.so.cache1.1 libcuda.so.1 /opt/nvidia/libcuda.so.1")
    tree.environment["LD_LIBRARY_PATH"] = f"/nowhere::{tree.root / 'ld'}"
    assert tree.found("NVIDIA GPU")[0] is State.WORKS


def test_a_container_without_device_files_was_not_given_the_gpu(tree: Tree) -> None:
    tree.remove("dev/nvidia0")
    tree.write("dev/nvidiactl")
    tree.write(".dockerenv")
    assert tree.found("NVIDIA GPU")[0] is State.LIMITED
    assert tree.found("NVIDIA GPU")[2] == "docker run --gpus all …"


def test_wsl_has_neither_a_version_nor_device_files(tmp_path: Path) -> None:
    tree = Tree(tmp_path)
    tree.write("usr/lib/wsl/lib/libcuda.so.1")
    tree.write("dev/dxg")
    assert tree.found("NVIDIA GPU") == (State.WORKS, "driver of unknown version", "")


# CUPTI


def only_cupti(tree: Tree, place: str) -> Path:
    tree.remove("site-packages/nvidia/cu13/lib/libcupti.so.13")
    return tree.write(place)


@pytest.mark.parametrize(
    "place",
    [
        "site-packages/nvidia/cu13/lib/libcupti.so.13",
        "site-packages/nvidia/cuda_cupti/lib/libcupti.so.12",
        "site-packages/triton/backends/nvidia/lib/cupti/libcupti.so.12",
        "cuda_home/extras/CUPTI/lib64/libcupti.so.12",
        "ld/libcupti.so.13",
        "usr/lib/x86_64-linux-gnu/libcupti.so.12",
        "usr/local/cuda/extras/CUPTI/lib64/libcupti.so.12",
    ],
)
def test_cupti_is_found_where_the_collector_finds_it(tree: Tree, place: str) -> None:
    library = only_cupti(tree, place)
    tree.environment |= {"CUDA_HOME": str(tree.root / "cuda_home"), "LD_LIBRARY_PATH": str(tree.root / "ld")}
    assert tree.found("CUPTI") == (State.WORKS, f"{library}, of CUDA 13.0", "")


def test_the_newest_cupti_comes_first(tree: Tree) -> None:
    tree.write("site-packages/nvidia/cuda_cupti/lib/libcupti.so.12")
    assert "libcupti.so.13" in tree.found("CUPTI")[1]


def test_a_cupti_that_was_chosen_is_the_only_one(tree: Tree) -> None:
    tree.environment["AIFLAME_CUPTI"] = "/nowhere/libcupti.so"
    assert tree.found("CUPTI")[0] is State.LIMITED


@pytest.mark.parametrize(
    ("api", "driver", "state", "says"),
    [
        (18, "525.60.13", State.WORKS, "of CUDA 12.0"),
        (22, "580.65.06", State.WORKS, "of CUDA 12.4"),
        (99, "580.65.06", State.WORKS, "of CUDA 12 (API 99)"),
        (130500, "580.65.06", State.WORKS, "of CUDA 13.5"),
        (17, "580.65.06", State.LIMITED, "older than 12.0"),
        (130001, "570.10", State.LIMITED, "it needs driver 580 or newer, this one is 570.10"),
        (0, "580.65.06", State.LIMITED, "cannot be loaded"),
    ],
)
def test_cupti_must_be_new_enough_and_not_newer_than_the_driver(tree: Tree, api: int, driver: str, state: State, says: str) -> None:
    tree.write("proc/driver/nvidia/version", VERSION.format(driver))
    tree.cupti_api = api
    line = tree.found("CUPTI")
    assert line[0] is state
    assert says in line[1]


@pytest.mark.parametrize(("driver", "wheel"), [("580.65.06", "nvidia-cuda-cupti"), ("550.54.14", "nvidia-cuda-cupti-cu12")])
def test_a_missing_cupti_is_mended_by_the_wheel_that_fits_the_driver(tree: Tree, driver: str, wheel: str) -> None:
    tree.remove("site-packages/nvidia/cu13/lib/libcupti.so.13")
    tree.write("proc/driver/nvidia/version", VERSION.format(driver))
    assert tree.found("CUPTI")[2] == f"pip install {wheel}"


def test_a_file_that_is_no_library_has_no_version(tmp_path: Path) -> None:
    broken = tmp_path / "libcupti.so.13"
    broken.write_bytes(b"\x7fELF and no more")
    assert cupti_version(broken) == 0
    assert cupti_version(tmp_path / "missing") == 0


def test_a_real_cupti_has_its_version() -> None:
    libraries = [path for folder in sys.path for path in Path(folder).glob("nvidia/cu13/lib/libcupti.so.13")]
    if not libraries:
        pytest.skip("the wheel nvidia-cuda-cupti is not installed")
    assert cupti_version(libraries[0]) >= 130000


# The right to sample


def restricted(tree: Tree, capabilities: str) -> tuple[State, str, str]:
    tree.write("proc/driver/nvidia/params", "RmProfilingAdminOnly: 1\n")
    tree.write("proc/self/status", f"CapEff:\t{capabilities}\n")
    return tree.found("stall samples")


def test_a_driver_for_administrators_alone_takes_the_samples_away(tree: Tree) -> None:
    state, text, mend = restricted(tree, UNPRIVILEGED)
    assert state is State.LIMITED
    assert "kernels are recorded, their stalls are not" in text
    assert "NVreg_RestrictProfilingToAdminUsers=0" in mend


def test_administrators_may_sample(tree: Tree) -> None:
    assert restricted(tree, ROOT)[0] is State.WORKS
    assert restricted(tree, f"{1 << 21:016x}")[0] is State.WORKS


def test_root_of_a_container_is_none_unless_it_was_made_one(tree: Tree) -> None:
    tree.write(".dockerenv")
    docker_default = "00000000a80425fb"
    assert restricted(tree, docker_default) == (
        State.LIMITED,
        restricted(tree, docker_default)[1],
        "docker run --gpus all --cap-add SYS_ADMIN …",
    )


@pytest.mark.parametrize(("driver", "state"), [("565.57.01", State.WORKS), ("550.54.14", State.LIMITED)])
def test_newer_drivers_take_perfmon_too(tree: Tree, driver: str, state: State) -> None:
    tree.write("proc/driver/nvidia/version", VERSION.format(driver))
    assert restricted(tree, f"{1 << 38:016x}")[0] is state


def test_a_driver_that_does_not_say_is_not_called_restricted(tree: Tree) -> None:
    tree.remove("proc/driver/nvidia/params")
    assert tree.found("stall samples")[0] is State.WORKS


# The rest


@pytest.mark.parametrize(
    "place",
    [
        "site-packages/nvidia/cuda_nvdisasm/bin/nvdisasm",
        "cuda_home/bin/nvdisasm",
        "bin/nvdisasm",
        "usr/local/cuda/bin/nvdisasm",
        "usr/local/cuda-12.4/bin/nvdisasm",
        "site-packages/triton/backends/nvidia/bin/nvdisasm",
    ],
)
def test_the_disassembler_is_found_where_resolving_finds_it(tree: Tree, place: str) -> None:
    tree.remove("site-packages/nvidia/cu13/bin/nvdisasm")
    tree.environment |= {"CUDA_HOME": str(tree.root / "cuda_home"), "PATH": f"/nowhere:{tree.root / 'bin'}"}
    tool = tree.write(place, executable=True)
    assert tree.found("SASS") == (State.WORKS, str(tool), "")


def test_a_disassembler_that_cannot_be_run_is_none(tree: Tree) -> None:
    tree.write("site-packages/nvidia/cu13/bin/nvdisasm")
    assert tree.found("SASS")[2] == "pip install nvidia-cuda-nvdisasm"


def test_the_disassembler_is_looked_for_in_the_places_of_resolving(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Both searches, which may not import each other, agree."""
    from aiflame.resolve.device import nvdisasm

    tree = Tree(tmp_path)
    tool = tree.write("site/nvidia/cu13/bin/nvdisasm", executable=True)
    monkeypatch.setattr(sys, "path", [str(tmp_path / "site")])
    assert nvdisasm.tools()[0] == tool
    tree.write("proc/driver/nvidia/version")
    here = {finding.subject: finding.text for finding in cuda_findings(Machine(tmp_path, {}, version_of=lambda _: 0))}
    assert here["SASS"] == str(tool)


@pytest.mark.parametrize(
    ("library", "state"),
    [("", State.WORKS), ("/aiflame/agent.so", State.WORKS), ("/opt/nsight/libToolsInjection64.so", State.LIMITED)],
)
def test_a_hook_that_another_tool_took_is_noted(tree: Tree, library: str, state: State) -> None:
    tree.environment["CUDA_INJECTION64_PATH"] = library
    line = tree.found("CUDA hook")
    assert (line[0], bool(line[2])) == (state, state is State.LIMITED)
    assert state is State.WORKS or library in line[1]


ODD: list[Callable[[Tree], object]] = [
    lambda tree: tree.write("proc/driver/nvidia/version", "\x00\xff" * 100),
    lambda tree: tree.write("proc/driver/nvidia/params", "RmProfilingAdminOnly: yes\n"),
    lambda tree: tree.write("proc/self/status", "CapEff:\tnone\n"),
    lambda tree: (tree.root / "site-packages/nvidia/cu14/bin/nvdisasm").mkdir(parents=True),
    lambda tree: tree.environment.update(CUDA_HOME="", LD_LIBRARY_PATH=":::", PATH="::"),
]


@pytest.mark.parametrize("change", ODD)
def test_odd_machines_get_their_lines_too(tree: Tree, change: Callable[[Tree], object]) -> None:
    change(tree)
    assert len(tree.findings()) == 5
