"""The frames of processes and threads, and their names in a tree."""

from __future__ import annotations

import re
from pathlib import PurePath
from typing import Literal

import polars as pl

from aiflame.attribute.analysis import once
from aiflame.attribute.arrays.types import Mask
from aiflame.attribute.tree import Frame
from aiflame.profile.ranks.rank_of import NONE, ranks_of
from aiflame.profile.schema.kinds import Kind
from aiflame.profile.tables.interface import Tables

INTERPRETER_MODULE = r"^(lib)?python[\d.]*[a-z]*(\.so[.\d]*)?$"
"""Names of the modules that are the Python interpreter."""
GARBAGE_COLLECTOR = "[GC]"
COMPILER_SUFFIX = r"(\.(cold|part|constprop|isra|lto_priv|llvm)[.\d]*)*$"
"""The end of a function's name, with the suffixes that compilers append."""
_OPTION = re.compile(r"-[bBdEiIOPqRsSuvx]*([cmWX])(.*)", re.DOTALL)
"""An option of Python's that has a value, behind options that have none."""
NO_THREAD = Frame("[unattributed: thread not recorded]", Kind.UNATTRIBUTED)


def process_frames(processes: pl.DataFrame) -> list[Frame]:
    """One frame for each row of `processes`, such as `train.py (4711)`; where ranks are known (`with_ranks`) `rank 3: train.py (4711)`."""
    named = zip(process_names(processes), processes["pid"], strict=True)
    return [Frame(f"{name} ({pid})" if pid else name, Kind.PROCESS) for name, pid in named]


def nameless(processes: pl.DataFrame) -> Mask:
    """Which of these rows (`with_ranks`) say nothing: an imported file need not know its process."""
    empty = (pl.col("command") == "") & (pl.col("exe") == "") & (pl.col("pid") == 0) & (pl.col("rank") == NONE)
    mask: Mask = processes.select(empty).to_series().to_numpy()
    return mask


def process_names(processes: pl.DataFrame) -> list[str]:
    """The same without the numbers, in the order of the rows."""
    rank = processes["rank"] if "rank" in processes.columns else [NONE] * len(processes)
    names = [short_command(command, exe) for command, exe in processes.select("command", "exe").rows()]
    return [name if of == NONE else f"rank {of}: {name}" for name, of in zip(names, rank, strict=True)]


def with_ranks(processes: pl.DataFrame, ranks: pl.DataFrame) -> pl.DataFrame:
    """The table `processes` in order, with the rank of each process (`rank_of.NONE`: none)."""
    return processes.sort("process").with_columns(rank=pl.Series(ranks_of(processes, ranks), dtype=pl.Int64))


def short_command(command: str, exe: str) -> str:
    """A short name for a program: the script or module that an interpreter runs, otherwise the program's own name."""
    words = [word for word in command.split("\0") if word]
    if not words:
        return PurePath(exe).name or "[unknown]"
    program = PurePath(words[0]).name
    if not program.startswith("python"):
        return program
    arguments = iter(words[1:])
    for word in arguments:
        if option := _OPTION.fullmatch(word):
            if option[1] == "c":  # code, which no name shows
                return f"{program} -c"
            value = option[2] or next(arguments, "")
            if option[1] == "m":
                return f"-m {value}".strip()
        elif not word.startswith("-") or word == "-":
            return PurePath(word).name
    return program


def thread_frames(profile: Tables, wanted: pl.DataFrame, none: Frame) -> list[Frame]:
    """A frame for each row of `wanted` (process, thread): the name that Python gave the thread, otherwise its latest name; with its tid if
    several threads share the name.

    `none` is the frame of threads that the profile lacks.
    """
    names = _thread_names(profile)
    labels = map(names.get, wanted.select("process", "thread").rows())
    return [none if name is None else Frame(name, Kind.THREAD) for name in labels]


@once
def _thread_names(profile: Tables) -> dict[tuple[int, int], str]:
    """By process and thread."""
    threads, ends, processes = (profile.table(name) for name in ("threads", "thread_ends", "processes"))
    late = ends.filter(pl.col("name") != "").unique(["process", "thread"], keep="last").select("process", id="thread", late="name")
    main = processes.filter(pl.col("pid") > 0).select("process", tid="pid", main=pl.lit(True))
    named = (
        threads.select("process", "id", "tid", "name")
        .join(names_from_python(threads, profile.table("thread_names")), on=["process", "id"], how="left")
        .join(late, on=["process", "id"], how="left")
        .join(main, on=["process", "tid"], how="left")
        .with_columns(name=pl.coalesce("given", pl.when("main").then(pl.lit("main thread")).otherwise(pl.coalesce("late", "name"))))
        .with_columns(shared=pl.len().over("process", "name") > 1)
        .with_columns(name=pl.when(pl.col("name") == "").then(pl.lit("thread")).otherwise("name"))
        .with_columns(name=pl.when("shared").then(pl.format("{} ({})", "name", "tid")).otherwise("name"))
    )
    return {(process, thread): name for process, thread, name in named.select("process", "id", "name").rows()}


_ASOF: tuple[Literal["backward", "forward"], ...] = ("backward", "forward")


def names_from_python(threads: pl.DataFrame, names: pl.DataFrame) -> pl.DataFrame:
    """process, id, given: the latest name from Python. Another thread may later have the same tid."""
    begun = threads.select("process", "id", "tid", time_ns="start_ns").sort("time_ns")
    left = names.select("process", "tid", "time_ns", given="name").filter(pl.col("given") != "").sort("time_ns")
    placed = []
    for strategy in _ASOF:  # a thread may be seen late: then it is the first of that number
        near = left.join_asof(begun, on="time_ns", by=["process", "tid"], strategy=strategy, check_sortedness=False)
        placed.append(near.filter(pl.col("id").is_not_null()))
        left = near.filter(pl.col("id").is_null()).select(left.columns)
    return pl.concat(placed).sort("time_ns").unique(["process", "id"], keep="last").select("process", "id", "given")


def unnumbered(frames: pl.DataFrame) -> pl.DataFrame:
    """Frames without the numbers of processes, threads and ranks in their names."""
    owner = frames["kind"].is_in([Kind.PROCESS, Kind.THREAD])
    name = pl.col("name").str.replace(r"^(.+) \(\d+\)$", "${1}").str.replace(r"^rank \d+: ", "").str.replace(r"^rank \d+$", "rank")
    return frames.with_columns(name=pl.when(owner).then(name).otherwise("name"))
