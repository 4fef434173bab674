"""The frames of processes and threads: how they are called in a tree."""

from __future__ import annotations

from pathlib import PurePath

import polars as pl

from aiflame.attribute.tree import Frame
from aiflame.profile.kinds import Kind


def process_frames(processes: pl.DataFrame) -> list[Frame]:
    """One frame for each row of `processes`, such as `train.py (4711)`."""
    rows = processes.sort("process").select("pid", "command", "exe").rows()
    return [Frame(f"{short_command(command, exe)} ({pid})", Kind.PROCESS) for pid, command, exe in rows]


def short_command(command: str, exe: str) -> str:
    """What a person calls a program: the script or module that an interpreter runs, else the program's own name."""
    words = [word for word in command.split("\0") if word]
    if not words:
        return PurePath(exe).name or "[unknown]"
    program = PurePath(words[0]).name
    if not program.startswith("python"):
        return program
    rest = iter(words[1:])
    for word in rest:
        if word == "-m":
            return f"-m {next(rest, '')}".strip()
        if word == "-c":
            return f"{program} -c"
        if word in ("-W", "-X"):
            next(rest, None)
        elif not word.startswith("-") or word == "-":
            return PurePath(word).name
    return program


def thread_frames(threads: pl.DataFrame, ends: pl.DataFrame, processes: pl.DataFrame, wanted: pl.DataFrame, none: Frame) -> list[Frame]:
    """One frame for each row of `wanted` (process, thread): its latest name, with its tid where several threads share the name.

    `none` stands for threads that the profile does not know.
    """
    late = ends.filter(pl.col("name") != "").unique(["process", "thread"], keep="last").select("process", id="thread", late="name")
    main = processes.select("process", tid="pid", main=pl.lit(True))
    known = (
        threads.select("process", "id", "tid", "name")
        .join(late, on=["process", "id"], how="left")
        .join(main, on=["process", "tid"], how="left")
        .with_columns(name=pl.when("main").then(pl.lit("main thread")).otherwise(pl.coalesce("late", "name")))
        .with_columns(shared=pl.len().over("process", "name") > 1)
        .with_columns(name=pl.when(pl.col("name") == "").then(pl.lit("thread")).otherwise("name"))
        .with_columns(name=pl.when("shared").then(pl.format("{} ({})", "name", "tid")).otherwise("name"))
    )
    names = {(process, thread): name for process, thread, name in known.select("process", "id", "name").rows()}
    found = map(names.get, wanted.select("process", "thread").rows())
    return [none if name is None else Frame(name, Kind.THREAD) for name in found]


def unnumbered(frames: pl.DataFrame) -> pl.DataFrame:
    """Frames with the numbers of processes and threads taken away."""
    owner = frames["kind"].is_in([Kind.PROCESS, Kind.THREAD])
    return frames.with_columns(name=pl.when(owner).then(pl.col("name").str.replace(r"^(.+) \(\d+\)$", "${1}")).otherwise("name"))
