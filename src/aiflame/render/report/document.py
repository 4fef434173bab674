"""A profile as a report: one HTML file, or its parts, which a server makes on request."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import cast

from aiflame.analyze.device.profile_analysis import profile_analysis, release_analysis
from aiflame.analyze.kernel.source_text import SourceFolder, SourceTexts
from aiflame.analyze.limits.page import limits_page
from aiflame.analyze.ranks.one_profile import answer, facts_of_ranks, rank_numbers
from aiflame.analyze.ranks.page import RankPage, rank_page
from aiflame.analyze.scope import analysis_of, has_steady_steps
from aiflame.analyze.tables.all import tables
from aiflame.analyze.tables.table import TableOf
from aiflame.attribute.analysis import Analysis
from aiflame.attribute.meaning.context import release_samples
from aiflame.attribute.timeline.windows import Windows
from aiflame.errors import AiflameError
from aiflame.memory import give_back_freed_memory
from aiflame.profile.tables.interface import OpenedProfile
from aiflame.render.blocks import block
from aiflame.render.output import new_file
from aiflame.render.report.code import MOST_IN_A_FILE, Code
from aiflame.render.report.facts_block import facts_makers
from aiflame.render.report.limits_block import limits_block
from aiflame.render.report.memory_block import has_map, memory_block
from aiflame.render.report.overview import first_screen, tables_block
from aiflame.render.report.page import harmless, page
from aiflame.render.report.ranks import ranks_block
from aiflame.render.report.timeline_block import of_profile as timeline_block_of
from aiflame.render.report.timeline_block import timeline_block

OTHER_SCREEN, OTHER_TABLES, OTHER_LIMITS = "scope.other", "tables.other", "limits.other"
"""Blocks for the scope that the page does not show first."""
WHOLE = 1 << 30
"""More pages of kernels than any profile has."""
MOST_AT_ONCE = 400_000
"""The most kernels, launches and samples that are read for a zoomed stretch of the timeline: a second or two."""


class Report:
    """The contents of a report. Each part is made on request: the user sees the first screen before the other parts exist."""

    def __init__(
        self,
        profile: OpenedProfile,
        baseline: OpenedProfile | None = None,
        title: str = "",
        most_code: int = WHOLE,
        sources: SourceFolder | None = None,
        *,
        whole_run: bool = False,
    ) -> None:
        self.profile, self.baseline = profile, baseline
        self.title = title or profile.path.name
        self._most_code, self._sources = most_code, sources
        self._whole_run = whole_run
        self.analysis = analysis_of(profile, whole_run=whole_run)

    def first_screen(self) -> dict[str, object]:
        """The data that the page shows first, and the names of its `blocks`."""
        shown = first_screen(self.profile, self.analysis, self.tables, self.baseline, lambda: self.ranks.comparison)
        names = ("run", "steps") if self._whole_run else ("steps", "run")
        scopes = dict(zip(("shown", "other"), names, strict=True)) if has_steady_steps(self.analysis) else None
        return {**shown, "scopes": scopes, "title": self.title, "blocks": self.names}

    @cached_property
    def names(self) -> list[str]:
        """Names of all blocks; those to which the first screen links come first."""
        return [*self._makers, *self.code.names]

    def block(self, name: str) -> bytes:
        make = self._makers.get(name)
        if make is None and name not in self.names:
            raise AiflameError(f"this report has no data called {name}")
        return make() if make is not None else self.code.block(name)

    def closer(self, begin: int, end: int) -> bytes:
        """The block for a stretch of the timeline (ns), with all its slices."""
        return timeline_block(self._windows.timeline(begin, end, MOST_AT_ONCE), window=(begin, end), counted=self._windows.counters)

    def blocks(self) -> Iterator[tuple[str, bytes]]:
        """All blocks, one after the other. Data that only the first blocks need is freed before the large ones are made: there may be
        millions of launches."""
        for name in self.names:
            self.analysis.shared = name != "timeline"  # the last block that needs the context of launches
            yield name, self.block(name)
            if name == "tables":
                release_analysis(self.analysis)
                self.__dict__.pop("tables", None)
            if name == OTHER_TABLES:
                self.__dict__.pop("_other", None)
            if name in self._makers:
                give_back_freed_memory()

    @cached_property
    def _makers(self) -> dict[str, Callable[[], bytes]]:
        makers: dict[str, Callable[[], bytes]] = {"limits": lambda: _limits(self.analysis, self.profile)} if self._on_devices else {}
        makers |= {"tables": self._tables_block} if self.tables else {}
        if has_steady_steps(self.analysis):
            makers |= {OTHER_SCREEN: lambda: self._other[OTHER_SCREEN]}
            makers |= {OTHER_LIMITS: lambda: self._other[OTHER_LIMITS]} if self._on_devices else {}
            makers |= {OTHER_TABLES: lambda: self._other[OTHER_TABLES]}
        if len(rank_numbers(self.profile)) > 1:
            makers["ranks"] = self._ranks_block
        makers |= {"memory": lambda: memory_block(self.analysis)} if has_map(self.analysis) else {}
        makers |= {f"facts.{domain}": make for domain, make in facts_makers(self.analysis).items()}
        if self.baseline is not None:
            makers |= {f"base.{domain}": make for domain, make in facts_makers(self.baseline).items()}
        return {**makers, "timeline": self._timeline_block}

    def _tables_block(self) -> bytes:
        return tables_block(self.tables, self.profile.meta.started.monotonic_ns)

    @cached_property
    def _other(self) -> dict[str, bytes]:
        """The blocks for the scope that the page does not show first."""
        analysis = analysis_of(self.profile, whole_run=not self._whole_run)
        listed = tables(analysis)
        shown = first_screen(self.profile, analysis, listed, self.baseline, lambda: self.ranks.comparison)
        screen = block(cast(Mapping[str, object], harmless({**shown, "tables": OTHER_TABLES, "limits": OTHER_LIMITS})), {})
        blocks = {OTHER_SCREEN: screen, OTHER_TABLES: tables_block(listed, self.profile.meta.started.monotonic_ns)}
        return blocks | ({OTHER_LIMITS: _limits(analysis, self.profile)} if self._on_devices else {})

    @cached_property
    def _on_devices(self) -> bool:
        return profile_analysis(self.analysis).ran_on_devices

    def _ranks_block(self) -> bytes:
        data = ranks_block(self.ranks, self.profile.meta.started.monotonic_ns)
        del self.ranks
        return data

    def _timeline_block(self) -> bytes:
        data = timeline_block_of(self.analysis)
        release_samples(self.analysis)  # no other block needs their context
        return data

    @cached_property
    def ranks(self) -> RankPage:
        """The comparison of the profile's ranks: the first screen shows a part of it, the page of ranks everything."""
        partial = facts_of_ranks(self.profile)
        return rank_page(partial, answer(partial))

    @cached_property
    def _windows(self) -> Windows:
        return Windows(self.analysis)

    @cached_property
    def tables(self) -> list[TableOf]:
        return tables(self.analysis)

    @cached_property
    def code(self) -> Code:
        return Code(self.profile, self.analysis, self._most_code, SourceTexts(self.profile, self._sources))


def _limits(analysis: Analysis, profile: OpenedProfile) -> bytes:
    return limits_block(limits_page(profile_analysis(analysis), profile.meta.imported))


def write(
    profile: OpenedProfile,
    path: Path,
    baseline: OpenedProfile | None = None,
    title: str = "",
    sources: SourceFolder | None = None,
    *,
    whole_run: bool = False,
) -> int:
    """Writes the report as one file, completely or not at all; returns its size in bytes."""
    report = Report(profile, baseline, title, MOST_IN_A_FILE, sources, whole_run=whole_run)
    return _write(path, page(report.title, report.first_screen(), report.blocks()))


def _write(path: Path, pieces: Iterator[str]) -> int:
    size = 0
    with contextlib.ExitStack() as stack:
        with _as_error(path):
            file = stack.enter_context(new_file(path))
        for piece in pieces:
            with _as_error(path):
                size += file.write(piece.encode())
        with _as_error(path):
            file.flush()
            stack.pop_all().close()
    return size


@contextlib.contextmanager
def _as_error(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise AiflameError(f"cannot write {path}: {(error.strerror or str(error)).lower()}: choose another place with -o") from None
