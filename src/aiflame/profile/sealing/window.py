"""Leaves rows outside of the window out of a ring's tables.

The recorder removes old rows by pages of a file, and copies all others; here the window becomes exact. An event that ended in the
window is there whole.
"""

from __future__ import annotations

import time

import numpy as np
import polars as pl
from numpy.typing import NDArray

from aiflame.profile.folder.door import Folder
from aiflame.profile.folder.meta import Kept, Meta
from aiflame.profile.spool.process_spool import ProcessSpool
from aiflame.profile.spool.window import BY_WINDOW, TIMES, newest_ns
from aiflame.values import dataclass, field, replace

UNFINISHED = "the recorder was killed"
"""The cause in a ring whose recorder did not end it."""
MISSING_WINDOWS = f"rows of {BY_WINDOW} whose window is missing"
"""No damage in a ring: the window is old."""
GROWING = "opened while it was recorded"


def window_of(meta: Meta, spool: Folder, *, growing: bool) -> Kept | None:
    """The window of a profile; None: the profile has the whole recording."""
    last_ms = meta.options.get("last_ms")
    if meta.kept is not None or not isinstance(last_ms, int) or last_ms <= 0:
        return meta.kept
    end = time.monotonic_ns() if growing else newest_ns(spool)
    return Kept(GROWING if growing else UNFINISHED, max(end - last_ms * 1_000_000, 0), end)


def with_window(meta: Meta, window: Kept | None) -> Meta:
    """The facts about the profile of a window: it begins and ends with the window."""
    if window is None:
        return meta
    begun = meta.started.monotonic_ns
    started = meta.started.shifted(max(window.begin_ns - begun, 0))
    return replace(meta, kept=window, started=started, ended=meta.started.shifted(window.end_ns - begun), cpu_ns=0)


@dataclass(slots=True)
class InWindow:
    """Filters the rows of one process."""

    window: Kept
    _regions: NDArray[np.uint32] = field(default_factory=lambda: np.empty(0, np.uint32))
    """Regions that ended in the window."""
    _gpu_windows: list[NDArray[np.uint32]] = field(default_factory=list)

    def begin(self, process: ProcessSpool) -> None:
        ends = self.rows("region_ends", process.rows("region_ends"))
        self._regions = ends["region"].unique().to_numpy()

    def rows(self, table: str, frame: pl.DataFrame) -> pl.DataFrame:
        if table == BY_WINDOW:
            return frame.filter(
                pl.Series(np.isin(frame["window"].to_numpy(), np.concatenate([np.empty(0, np.uint32), *self._gpu_windows])))
            )
        if table not in TIMES:
            return frame
        inside = pl.col(TIMES[table]).is_between(self.window.begin_ns, self.window.end_ns)
        if table == "regions":
            ended = pl.Series(np.isin(frame["id"].to_numpy(), self._regions))
            return frame.filter(inside | ended)
        kept = frame.filter(inside)
        if table == "gpu_windows":
            self._gpu_windows.append(kept["id"].to_numpy())
        return kept


def ended_before(process: ProcessSpool, window: Kept) -> bool:
    """True if the process has no part in the window."""
    ends = process.rows("process_ends")["end_ns"]
    return process.start_ns > window.end_ns or (len(ends) > 0 and int(ends.max() or 0) < window.begin_ns)  # type: ignore[arg-type]
