"""Scenes of fake_gpu.py, recorded on the fake driver and the fake CUPTI, and the collector's records of them."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import polars as pl
import pytest
from live import EVERYTHING, Outcome, Process, library, plain, processes, recorded

from aiflame.profile.folder.control_page import ControlPage
from aiflame.profile.folder.door import Folder
from aiflame.profile.schema.control_schema import GpuSampling
from aiflame.profile.schema.enums import FrameKind
from built import BUILT

FAKES = BUILT / "fake_cuda"
PROGRAM = Path(__file__).parents[2] / "e2e" / "programs" / "fake_gpu.py"

needs_fakes = pytest.mark.skipif(not (FAKES / "driver").exists(), reason=f"no {FAKES}: `make test` builds it")


@dataclass(frozen=True, slots=True)
class Recorded:
    outcome: Outcome
    processes: list[Process]

    @property
    def process(self) -> Process:
        (process,) = self.processes
        return process

    @property
    def notes(self) -> list[str]:
        return [text for process in self.processes for text in process.table("notes")["text"]]


Scene = Callable[..., Recorded]


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    """Records a scene of fake_gpu.py; it must end as it does alone."""

    def run(
        name: str,
        *arguments: str,
        features: int = EVERYTHING,
        gpu_sampling: int = GpuSampling.OFF,
        max_bytes: int = 0,
        env: Mapping[str, str] | None = None,
    ) -> Recorded:
        profile = tmp_path / f"{name}-{len(list(tmp_path.iterdir()))}"
        variables = around() | (env or {})
        command: list[str | Path] = [sys.executable, PROGRAM, name, *arguments]
        outcome = recorded(command, profile, features=features, gpu_sampling=gpu_sampling, max_bytes=max_bytes, env=variables)
        alone = plain(command, tmp_path, env={name: value for name, value in variables.items() if name != "CUDA_INJECTION64_PATH"})
        assert outcome == alone
        return Recorded(outcome, processes(profile))

    return run


def around() -> dict[str, str]:
    """The variables of a machine with CUDA, and ours."""
    return {
        "CUDA_INJECTION64_PATH": str(library().with_name("libaiflame_agent.so")),
        "LD_LIBRARY_PATH": f"{FAKES / 'driver'}:{FAKES / 'cupti13'}",
        "FAKE_CUDA_DEVICES": "2",
    }


SAMPLED_ONCE = (
    "GPU stalls are not recorded any more: sampling ended for another tool that used CUPTI, or with an earlier recording; "
    "to begin again could hang the program"
)
"""The fake ends a program that samples a context a second time."""


def inside(name: str, *profiles: Path) -> list[Process]:
    """The results of a scene that records itself: one process per profile."""
    for profile in profiles:
        (profile / "spool").mkdir(parents=True)
        ControlPage.create(Folder.open(profile), cpu_rate=999, features=EVERYTHING, gpu_sampling=GpuSampling.AUTO).close()
    assert started_by_itself(name, *profiles) == Outcome(0, "", "")
    return [process for profile in profiles for process in processes(profile)]


def started_by_itself(name: str, *profiles: Path) -> Outcome:
    without_agent = {name: value for name, value in around().items() if name != "CUDA_INJECTION64_PATH"}
    return plain([sys.executable, PROGRAM, name, *profiles], profiles[0].parent, env={**without_agent, "COLLECTOR": str(library())})


def joined(process: Process, table: str) -> pl.DataFrame:
    """Rows of a table with the launch that each belongs to, and `launched`: the Python function that made it."""
    launches = process.table("launches").filter(pl.col("api") == 2)
    assert launches["correlation"].is_unique().all()
    rows = process.table(table)
    if table == "kernels":
        rows = rows.join(process.table("kernel_shapes"), left_on="shape", right_on="id", suffix="_shape")
    with_launches = rows.join(launches, on="correlation", how="inner", suffix="_launch")
    assert len(with_launches) == len(rows), "every row has its launch"
    names = {stack: leaf(process, stack, skip=("launch", "call")) for stack in set(with_launches["stack"])}
    return with_launches.with_columns(pl.col("stack").replace_strict(names, return_dtype=pl.String).alias("launched"))


def leaf(process: Process, stack: int, skip: tuple[str, ...] = ("launch", "call")) -> str:
    """The innermost Python function of the program's own, without those of Gpu."""
    nodes = {row: (parent, frame) for row, parent, frame in process.table("stacks").select("id", "parent", "frame").iter_rows()}
    codes = dict(process.table("codes").select("id", "qualname").iter_rows())
    while stack:
        stack, frame = nodes[stack]
        if frame >> 60 == FrameKind.PYTHON:
            name = str(codes[frame >> 32 & 0xFFFFFFF]).split(".")[-1]
            if name not in skip:
                return name
    return ""


def files_of(process: Process, stack: int) -> list[str]:
    """The names of the files whose native code a stack goes through, innermost first, `?` where one was guessed; and
    the marks in it."""
    nodes = {row: (parent, frame) for row, parent, frame in process.table("stacks").select("id", "parent", "frame").iter_rows()}
    files = {row: Path(path).name for row, path in process.table("modules").select("id", "path").iter_rows()}
    marks = dict(process.table("marks").select("id", "text").iter_rows())
    names_of_frames = []
    while stack:
        stack, frame = nodes[stack]
        if frame >> 60 in (FrameKind.NATIVE, FrameKind.NATIVE_APPROX):
            names_of_frames.append(files[frame >> 40 & 0xFFFFF] + "?" * (frame >> 60 == FrameKind.NATIVE_APPROX))
        if frame >> 60 == FrameKind.MARK:
            names_of_frames.append(marks[frame & 0xFFFFFFFF])
    return names_of_frames


@dataclass(frozen=True)
class Sampled:
    reasons: dict[str, int]
    offsets: dict[int, int]
    samples: int
    dropped: int
    foreign: int


def samples(process: Process) -> Sampled:
    rows = process.table("gpu_samples").join(process.table("stall_reasons"), left_on="reason", right_on="id", suffix="_reason")
    windows = process.table("gpu_windows")
    assert (windows["begin_ns"] < windows["end_ns"]).all()
    reasons: Counter[str] = Counter()
    offsets: Counter[int] = Counter()
    for name, offset, count in rows.select("name", "offset", "count").iter_rows():
        reasons[name] += count
        offsets[offset] += count
    total, dropped, foreign = sum(reasons.values()), int(windows["dropped"].sum()), int(windows["foreign"].sum())
    assert windows["samples"].sum() == total + dropped + foreign
    return Sampled(dict(reasons), dict(offsets), total, dropped, foreign)
