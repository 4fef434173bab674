"""Runs real programs with and without the collector, and reads the collector's tables."""

from __future__ import annotations

import ctypes.util
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl
import pytest

from aiflame.errors import AiflameError
from aiflame.profile.folder.control_page import ControlPage
from aiflame.profile.folder.door import Folder
from aiflame.profile.schema.all_tables import TABLE
from aiflame.profile.schema.control_schema import Feature, GpuCounters, GpuSampling
from aiflame.profile.spool.lives import read_lives
from aiflame.profile.spool.process_spool import ProcessSpool, empty_frame
from aiflame.recorder.library import collector

EVERYTHING = sum(Feature)


@dataclass(frozen=True, slots=True)
class Outcome:
    """A program's status and output, as its parent sees them."""

    status: int
    stdout: str
    stderr: str


@dataclass(frozen=True, slots=True)
class Process:
    """The tables of one process."""

    pid: int
    tables: Mapping[str, pl.DataFrame]

    @property
    def command(self) -> list[str]:
        return str(self.tables["processes"]["command"][0]).split("\0")

    def table(self, name: str) -> pl.DataFrame:
        return self.tables.get(name, empty_frame(TABLE[name]))


def build(source: Path, folder: Path, *flags: str) -> Path:
    """Compiles a program of one file."""
    compiler = shutil.which("g++")
    if compiler is None:
        pytest.skip("no C++ compiler")
    target = folder / source.stem
    if not target.exists():
        options = ("-std=c++17", "-O1", "-Wno-deprecated-declarations", "-pthread")
        subprocess.run([compiler, *options, str(source), "-o", str(target), *flags], check=True)
    return target


def build_for_llvms_openmp(source: Path, folder: Path) -> Path:
    """The same, linked with LLVM's or Intel's OpenMP runtime."""
    runtime = ctypes.util.find_library("omp5") or ctypes.util.find_library("omp") or ctypes.util.find_library("iomp5")
    file = next(iter(Path("/usr/lib").glob("**/libomp.so.5")), None) or next(iter(Path(sys.prefix).glob("**/libiomp5.so")), None)
    if runtime is None and file is None:
        pytest.skip("no OpenMP runtime of LLVM or Intel here (Debian: libomp5-14; PyPI: intel-openmp)")
    where = [str(file), f"-Wl,-rpath,{file.parent}"] if file else [f"-l:{runtime}"]
    return build(source, folder, *where)


def library() -> Path:
    try:
        return collector()
    except AiflameError as error:
        pytest.skip(str(error))


def plain(command: Sequence[str | Path], cwd: Path, env: Mapping[str, str] | None = None) -> Outcome:
    """The program alone."""
    return _run(command, cwd, {**_environment(), **(env or {})})


def recorded(
    command: Sequence[str | Path],
    profile: Path,
    *,
    cpu_rate: int = 999,
    wall_rate: int = 0,
    features: int = EVERYTHING,
    gpu_sampling: int = GpuSampling.OFF,
    gpu_counters: int = GpuCounters.OFF,
    host_memory_every: int = 0,
    max_bytes: int = 0,
    env: Mapping[str, str] | None = None,
) -> Outcome:
    """The program with the collector preloaded; runs in `profile`'s folder."""
    (profile / "spool").mkdir(parents=True)
    options = {"cpu_rate": cpu_rate, "wall_rate": wall_rate, "features": features, "max_bytes": max_bytes}
    options |= {"gpu_sampling": gpu_sampling, "gpu_counters": gpu_counters, "host_memory_every": host_memory_every}
    page = ControlPage.create(Folder.open(profile), **options)
    preload = ":".join(filter(None, [str(library()), (env or {}).get("LD_PRELOAD", "")]))
    outcome = _run(command, profile.parent, {**_environment(), **(env or {}), "AIFLAME_PROFILE": str(profile), "LD_PRELOAD": preload})
    page.close()
    return outcome


def processes(profile: Path) -> list[Process]:
    """Every recorded process, in the order of their starts. A damaged record anywhere fails."""
    with_folders = []
    for folder in filter(Path.is_dir, (profile / "spool").iterdir()):
        with ProcessSpool(Folder.open(folder)) as spool:
            tables: dict[str, pl.DataFrame] = {"processes": spool.process()}
            for name, rows in spool.chunks():
                tables[name] = pl.concat([tables[name], rows]) if name in tables else rows
            assert not spool.damage, f"{folder.name}: {dict(spool.damage)}"
        if not tables["processes"].is_empty():
            with_folders.append(Process(spool.pid, tables))
    return sorted([*with_folders, *_lives(profile, with_folders)], key=lambda process: int(process.table("processes")["start_ns"][0]))


def _lives(profile: Path, others: list[Process]) -> list[Process]:
    """Processes that have no folder of their own."""
    starts = {(process.pid, int(process.table("processes")["start_ns"][0])) for process in others}
    lives = read_lives(Folder.open(profile / "spool"), starts)
    assert not lives.damage, dict(lives.damage)
    rows = {name: frame.with_columns(process=pl.Series(lives.process[name])) for name, frame in lives.rows.items()}
    parts = {name: frame.partition_by("process", as_dict=True, include_key=False) for name, frame in rows.items()}
    pids = lives.rows["processes"]["pid"].to_list()
    return [Process(pid, {name: part[(at,)] for name, part in parts.items() if (at,) in part}) for at, pid in enumerate(pids)]


def _environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name not in ("AIFLAME_PROFILE", "LD_PRELOAD")}


def _run(command: Sequence[str | Path], cwd: Path, env: Mapping[str, str]) -> Outcome:
    result = subprocess.run([str(part) for part in command], cwd=cwd, env=env, capture_output=True, timeout=600, check=False)
    return Outcome(result.returncode, result.stdout.decode(errors="replace"), result.stderr.decode(errors="replace"))
