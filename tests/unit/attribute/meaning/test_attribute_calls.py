"""Steps, layers and phases of traced calls: of a profile with millions of calls, only those asked about are classified."""

from __future__ import annotations

from pathlib import Path

import polars as pl
from made_ranks import LAYERS, Made, tables_of
from profiles import Row, sealed

from aiflame.attribute.meaning.context import of_calls
from aiflame.profile.schema.enums import CallBackend
from aiflame.profile.tables.store import Profile

MADE = Made(ranks=2, steps=3)
TRAINS, AUTOGRAD = 1, 2
"""Threads."""


def profile(path: Path, *others: Row) -> Profile:
    """Autograd's thread calls the collectives, which come first; `others` are calls of CUDA."""
    tables = tables_of(MADE, 0)
    tables["call_names"].append({"backend": int(CallBackend.CUDA), "name": "cudaLaunchKernel"})
    for call in tables["calls"]:
        call["thread"] = AUTOGRAD
    tables["calls"] += [{"name": 2, "thread": TRAINS, "stack": 1, "begin_ns": 1, "end_ns": 2, **other} for other in others]
    return sealed(path, **tables)


def classified(of: Profile, calls: int) -> pl.DataFrame:
    """The classes of the first calls."""
    wanted = of.table("calls").select(pl.col("process", "id").cast(pl.Int64)).head(calls)
    return of_calls(of, wanted).samples.sort("id")


def test_only_calls_asked_about_are_classified_and_others_change_nothing(tmp_path: Path) -> None:
    collectives = MADE.steps * len(LAYERS)
    few = classified(profile(tmp_path / "few.aiflame"), collectives)
    among_many = classified(profile(tmp_path / "many.aiflame", *({"begin_ns": 1 + at} for at in range(100))), collectives)
    assert among_many["step"].to_list() == [step for step in range(MADE.steps) for _ in LAYERS]
    assert among_many.equals(few)


def test_other_calls_show_for_which_thread_autograds_thread_works(tmp_path: Path) -> None:
    assert set(classified(profile(tmp_path / "unknown.aiflame"), 1)["mother"]) == {AUTOGRAD}
    assert set(classified(profile(tmp_path / "known.aiflame", {"autograd": 1}), 1)["mother"]) == {TRAINS}
