"""The Python interface: `aiflame.record()`, `aiflame.open()`."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Protocol

    import polars as pl

    from aiflame.analyze.findings.listing import Listing
    from aiflame.attribute.tree import Tree
    from aiflame.profile.folder.meta import Meta
    from aiflame.profile.tables.interface import OpenedProfile
    from aiflame.recorder.options import RecordOptions

    class SupportsText(Protocol):
        """IPython's pretty printer."""

        def text(self, text: str) -> None: ...


MOST_EMBEDDED = 4 << 20


@contextmanager
def record(
    path: str | Path, options: RecordOptions | None = None, *, overwrite: bool = False, last: str = "", on: str = "", keep: int = 0
) -> Iterator[Path]:
    """Records the block into the profile `path`. If the program is being recorded already, the block just runs.

    `last="2m"` records into a ring of so much time, which is kept when the block ends, by `aiflame.keep(reason)`, and at the events of
    `on`, such as "slow-step:3x,hang:60s"; of the profiles kept meanwhile the newest `keep` stay, 20 by default."""
    from dataclasses import replace

    from aiflame.recorder.inside import recording
    from aiflame.recorder.options import RecordOptions, parse_last
    from aiflame.region import listening

    chosen = options or RecordOptions()
    if last:
        chosen = replace(chosen, last_ms=parse_last(last), on=on, keep=keep or chosen.keep)
    with listening(), recording(Path(path), chosen, overwrite=overwrite) as profile:
        yield profile


def open(path: str | Path | None = None, progress: Callable[[float], None] | None = None, ranks: Collection[int] | None = None) -> Profile:
    """The profile at `path` (the newest one in the current folder without), sealed and resolved when it was not yet; of a parallel job
    all ranks, or those named. A trace that another tool wrote is imported, and so is a range of a store (`STORE@14:00..15:30`)."""
    from aiflame.profile.folder.door import Folder
    from aiflame.profile.opening import newest, open_profile
    from aiflame.profile.ranks.ranked import Ranked, some_ranks
    from aiflame.resolve.complete import complete

    def align(job: Ranked) -> Ranked:
        from aiflame.analyze.ranks.aligned import by_meetings

        return by_meetings(job)

    def imported(file: Path, progress: Callable[[float], None] | None) -> Folder:
        from aiflame.exchange.readers.door import imported

        return ranged(file) or imported(file, progress)

    def ranged(path: Path) -> Folder | None:
        from aiflame.store.door import range_of_store

        return range_of_store(path)

    where = path if path is not None else newest(Path())
    store = open_profile(where, progress, derive=complete, align=align, imported=imported, ranged=ranged)
    return Profile(store if ranks is None else some_ranks(store, ranks))


class Profile:
    """A profile: its tables, trees, and first findings."""

    embed = MOST_EMBEDDED
    """The most bytes of report that go into the output of a notebook's cell, and so into its file."""

    def __init__(self, store: OpenedProfile) -> None:
        self.store = store
        self.cells: dict[str, str] = {}
        """Names of a notebook's cells, by the files as which IPython compiled them."""

    @property
    def path(self) -> Path:
        return self.store.path

    @property
    def meta(self) -> Meta:
        return self.store.meta

    def table(self, name: str) -> pl.DataFrame:
        """A table of the profile; docs/profile-format.md lists them."""
        return self.store.table(name)

    def sql(self, query: str) -> pl.DataFrame:
        """The answer to a query over the tables."""
        return self.store.sql(query)

    def stats(self, report: str) -> pl.DataFrame:
        """A report that another tool is known for, such as `hta.temporal-breakdown` or `nsys.cuda-api-sum`; `aiflame stats` lists them.
        Columns end in their units."""
        from aiflame.analyze.stats.table import stats

        return stats(self.store, report)

    def tree(self, metric: str | None = None, by: str = "code", detail: str | None = None) -> Tree:
        """The calling-context tree of one metric, grouped by code; its leaves are functions, lines or instructions. By default the metric
        is one that the profile has, and the detail is the metric's. Metrics: cpu-time, wall-time, gpu-time, gpu-stalls (samples of warps),
        gpu-latency (those in whose cycle nothing was issued), bytes (copied)."""
        from aiflame.attribute.trees.build import default_metric, tree

        return tree(self.store, metric or default_metric(self.store), by, detail)

    def __repr__(self) -> str:
        return f"<aiflame.Profile {str(self.path)!r}>"

    @cached_property
    def _first_findings(self) -> Listing:
        """The first findings. IPython asks for them twice, as HTML and as text."""
        from aiflame.render.report.inline import first_findings

        return first_findings(self.store)

    def _repr_html_(self) -> str:
        """The first findings and the report, for a notebook."""
        from aiflame.render.report.inline import inline

        return inline(self.store, self._first_findings, self.embed, self.cells)

    def _repr_pretty_(self, printer: SupportsText, cycle: bool) -> None:
        """The first findings, for IPython without a notebook."""
        from aiflame.render.report.inline import plain

        printer.text(plain(self.store, self._first_findings, self.cells))
