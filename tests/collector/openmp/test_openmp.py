"""OpenMP's workers are found under the function that launched their region, and known when they wait."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile
from elftools.elf.sections import SymbolTableSection
from live import Process, build_for_llvms_openmp, library, processes, recorded

from aiflame.profile.folder.control_page import ControlPage
from aiflame.profile.folder.door import Folder
from aiflame.profile.schema.enums import FrameKind
from built import built

pytestmark = pytest.mark.timed(alone=True)

OFFSET = (1 << 39) - 1


@pytest.fixture(scope="module")
def regions() -> Path:
    return built("programs/omp_regions")


def test_libgomps_workers_are_under_their_launcher(regions: Path, tmp_path: Path) -> None:
    outcome = recorded([regions], tmp_path / "p")
    assert outcome.status == 0
    (process,) = processes(tmp_path / "p")
    _, worker = _ticks_by_thread(process, regions)
    launchers = {"launches_much", "launches_little", "serial"}
    at_work = _at_work(process, regions, outcome.stdout)
    assert [(under, frames & launchers) for under, frames in at_work if frames & launchers != {under}] == []
    assert {under for under, _ in at_work} == launchers
    assert worker["launches_much", "leaf"] > 0
    assert worker["serial", "leaf"] == 0
    assert worker["leaf",] == worker["main", "leaf"]


def test_a_waiting_worker_of_libgomp_says_so(regions: Path, tmp_path: Path) -> None:
    recorded([regions], tmp_path / "p", env={"OMP_WAIT_POLICY": "active"})
    (process,) = processes(tmp_path / "p")
    _, worker = _ticks_by_thread(process, regions)
    assert worker["[OpenMP wait]",] > 0
    assert worker["[OpenMP wait]",] + worker["leaf",] >= 0.9 * worker["",]


def test_a_library_bound_before_recording_began_is_followed(tmp_path: Path) -> None:
    """Recording from inside, without LD_PRELOAD, also for the second time."""
    code = built("programs/libomp_regions_library.so")
    for name in ("first", "second"):
        (tmp_path / name / "spool").mkdir(parents=True)
        ControlPage.create(Folder.open(tmp_path / name), cpu_rate=999, features=0xFF).close()
    program = LATE.format(code=str(code), library=str(library()), folder=str(tmp_path))
    subprocess.run([sys.executable, "-c", program], check=True, timeout=600)
    for name in ("first", "second"):
        (process,) = processes(tmp_path / name)
        workers = [ticks for ticks in _ticks_by_thread(process, code) if not ticks["serial",]]
        assert sum(ticks["launches_much", "leaf"] for ticks in workers) > 0
        assert sum(ticks["leaf",] - ticks["run", "leaf"] for ticks in workers) == 0


LATE = """
import ctypes
code = ctypes.CDLL({code!r})
code.launches_much(), code.launches_little()  # binds the functions of libgomp that run() calls
assert code.reduces() == 0
collector = ctypes.CDLL({library!r})
for name in ("first", "second"):
    assert collector.aiflame_start(({folder!r} + "/" + name).encode()) == 1
    assert code.run() == 0
    collector.aiflame_stop()
"""


@pytest.fixture(scope="module")
def llvm(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_for_llvms_openmp(Path(__file__).parent / "programs" / "omp_llvm.cpp", tmp_path_factory.mktemp("programs"))


# Workers wait at full speed: one that yields on a busy machine is never found running by a tick.
SPINNING = {"KMP_BLOCKTIME": "infinite", "KMP_USE_YIELD": "0", "OMP_DYNAMIC": "false"}


def test_workers_of_llvms_runtime_are_under_their_launcher(llvm: Path, tmp_path: Path) -> None:
    assert recorded([llvm], tmp_path / "p", env=SPINNING).status == 0
    (process,) = processes(tmp_path / "p")
    launcher, worker = _ticks_by_thread(process, llvm)
    assert worker["launches_much", "leaf"] == worker["leaf",] > 0
    assert worker["[OpenMP wait]",] > 0
    assert worker["[OpenMP wait]",] + worker["leaf",] >= 0.9 * worker["",]
    assert launcher["serial", "leaf"] > 0
    assert launcher["launches_much", "serial"] == 0


def test_a_users_own_openmp_tool_comes_first(llvm: Path, tmp_path: Path) -> None:
    assert recorded([llvm, "tool"], tmp_path / "ours").stdout == "a tool\n"
    assert recorded([llvm, "tool"], tmp_path / "listed", env={"OMP_TOOL_LIBRARIES": str(library())}).stdout == "a tool\n"
    assert recorded([llvm, "tool"], tmp_path / "theirs", env={"OMP_TOOL_LIBRARIES": "/opt/their-tool.so"}).stdout == "no tool\n"


class Ticks(Counter[tuple[str, ...]]):
    """Ticks by functions that are all on the stack; ("",) is every tick."""

    def __init__(self, stacks: list[tuple[set[str], int]]) -> None:
        super().__init__()
        self._stacks = stacks

    def __missing__(self, names: tuple[str, ...]) -> int:
        return sum(weight for frames, weight in self._stacks if frames.issuperset(names) or names == ("",))


def _at_work(process: Process, program: Path, stays: str) -> list[tuple[str, set[str]]]:
    """Each tick in leaf(), by the program's own account: the function that the thread worked for, and the names on its stack."""
    fields = [line.split() for line in stays.splitlines()]
    stay_of = {(int(tid), int(begin), int(end)): under for under, tid, begin, end in fields}
    tids = dict(process.table("threads").select("id", "tid").iter_rows())
    at_work = []
    for thread, time, frames, _ in _samples(process, program):
        unders = [under for (tid, begin, end), under in stay_of.items() if tid == tids[thread] and begin <= time <= end]
        at_work += [(under, frames) for under in unders]
    return at_work


def _ticks_by_thread(process: Process, program: Path) -> list[Ticks]:
    """In the order of thread rows."""
    threads: dict[int, list[tuple[set[str], int]]] = {row: [] for row in process.table("threads")["id"].to_list()}
    for thread, _, frames, weight in _samples(process, program):
        threads[thread].append((frames, weight))
    return [Ticks(stacks) for stacks in threads.values()]


def _samples(process: Process, program: Path) -> list[tuple[int, int, set[str], int]]:
    """Thread, time, functions of `program` and our own frames that are on the stack, weight."""
    nodes = {row: (parent, frame) for row, parent, frame in process.table("stacks").select("id", "parent", "frame").iter_rows()}
    ours = {row for row, path in process.table("modules").select("id", "path").iter_rows() if Path(path).name == program.name}
    marks = dict(process.table("marks").select("id", "text").iter_rows())
    functions = _functions(program)

    def names(stack: int) -> set[str]:
        frame_names = set()
        while stack:
            stack, frame = nodes[stack]
            if frame >> 60 == FrameKind.MARK:
                frame_names.add(marks[frame & 0xFFFFFFFF])
            elif frame >> 60 == FrameKind.NATIVE and frame >> 40 & 0xFFFFF in ours:
                frame_names |= {
                    name for name, (low, high) in functions.items() if low <= (frame & OFFSET) - 1 < high or low == (frame & OFFSET)
                }
        return frame_names

    samples = process.table("cpu_samples").select("thread", "time_ns", "stack", "weight")
    return [(thread, time, names(stack), weight) for thread, time, stack, weight in samples.iter_rows()]


def _functions(program: Path) -> dict[str, tuple[int, int]]:
    with program.open("rb") as file:
        table = ELFFile(file).get_section_by_name(".symtab")
        assert isinstance(table, SymbolTableSection)
        functions = [symbol for symbol in table.iter_symbols() if symbol["st_info"]["type"] == "STT_FUNC" and symbol["st_size"]]
        return {symbol.name: (symbol["st_value"], symbol["st_value"] + symbol["st_size"]) for symbol in functions}
