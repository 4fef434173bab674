"""The holder of a lock for which a thread waited: one thread if samples leave no doubt, otherwise several in turns."""

from __future__ import annotations

import polars as pl

from aiflame.analyze.places import place_text, short_place
from aiflame.analyze.waiting import Waiting

ALONE = 0.8
"""A share of the time of all holders: a thread that certainly has more is named as the holder."""
A_PART = 0.2
"""Relative to an equal share of that time: a thread with less is not one of those that hold it in turns."""
_Z = 2.0
"""Number of standard errors by which a share must be above `ALONE`."""


def holder_text(of: Waiting, held: pl.DataFrame) -> str:
    """`, held by thread parser-2 in save() (io.py:7)`; "" if too few samples distinguish one holder from several. `held`:
    `waiting.holders`"""
    held = held.filter(pl.col("caller") != "")
    if held.is_empty():
        return ""
    threads = held.group_by("process", "thread").agg(pl.col("ns").sum()).sort("ns", "process", "thread", descending=[True, False, False])
    total = int(threads["ns"].sum())
    if surely_above(int(threads["ns"][0]) / total, total**2 / float(held["ns_squared"].sum()), ALONE):
        holder = threads.select("process", "thread").row(0)
        own = held.filter((pl.col("process") == holder[0]) & (pl.col("thread") == holder[1]))
        return f", held by {_name(of, *holder)}{_where(own)}"
    count = threads.filter(pl.col("ns") > A_PART * total / len(threads)).height
    return f", held in turns by {count} threads{_where(held)}" if count > 1 else ""


def surely_above(share: float, samples: float, least: float) -> bool:
    """True if the lower end of a share's interval (Wilson's, from this many independent samples) is above `least`."""
    middle, spread = share + _Z**2 / (2 * samples), _Z * (share * (1 - share) / samples + _Z**2 / (4 * samples**2)) ** 0.5
    return bool((middle - spread) / (1 + _Z**2 / samples) > least)


def _where(held: pl.DataFrame) -> str:
    """` in save() (io.py:7)`; `, most in …` if other functions have a considerable part."""
    places = (
        held.group_by("caller", "file", "module")
        .agg(pl.col("line").first(), pl.col("ns").sum())
        .sort("ns", "caller", descending=[True, False])
    )
    function, file, module, line, ns = places.row(0)
    most = "" if ns > ALONE * int(places["ns"].sum()) else ", most"
    return f"{most} in {function}() ({short_place(place_text(file, line)) or module})"


def _name(of: Waiting, process: int, thread: int) -> str:
    here = of.threads.filter(pl.col("process") == process)
    rows = {int(number): (main, name) for number, main, name in here.select("thread", "main", "name").rows()}
    main, name = rows.get(thread, (False, ""))
    unnamed = {other for is_main, other in rows.values() if is_main} | {""}
    return "the main thread" if main else "another thread" if name in unnamed else f"thread {name}"
