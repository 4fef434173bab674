"""The hours of a store, for people who choose a range."""

from __future__ import annotations

import time
from pathlib import Path

from aiflame.errors import AiflameError
from aiflame.profile.folder.door import Folder
from aiflame.store.layout import HOURS, begin_of, hours, is_store
from aiflame.store.reading import read_hour
from aiflame.values import dataclass


@dataclass(frozen=True, slots=True)
class Hour:
    begins: str
    """in local time"""
    windows: int
    processes: int
    """that were seen, also those without a window"""
    recorded_s: float
    size: int
    problem: str = ""
    """why it cannot be read"""


def listed(path: Path) -> list[Hour]:
    """AiflameError: there is no store."""
    try:
        store = Folder.open(path)
    except OSError as error:
        raise AiflameError(f"cannot read the store {path}: {(error.strerror or str(error)).lower()}: name one with --store") from None
    if not is_store(store):
        raise AiflameError(f"{path} is no store of aiflame agent: name one with --store")
    rows = []
    for hour in hours(store):
        begins, size = time.strftime("%Y-%m-%d %H:%M", time.localtime(begin_of(hour))), store.folder(HOURS, hour).size()
        try:
            tables = read_hour(store, hour, ("windows", "processes"))
        except AiflameError as error:
            rows.append(Hour(begins, 0, 0, 0.0, size, str(error)))
            continue
        windows, processes = tables["windows"], tables["processes"]
        seen = set(windows["process"].to_list()) | set(processes["process"].to_list())
        rows.append(Hour(begins, len(windows), len(seen), int(windows["took_ns"].sum()) / 1e9, size))
    return rows
