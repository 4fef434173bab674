"""The findings of a profile with ids and remedies, and sentences about missing data and how to record it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import polars as pl

from aiflame.analyze.amounts import amount
from aiflame.analyze.device.profile_analysis import profile_analysis
from aiflame.analyze.finding import Finding
from aiflame.analyze.findings.advice import fix
from aiflame.analyze.findings.biggest import findings
from aiflame.analyze.findings.cpu import FEW_SAMPLES
from aiflame.analyze.overview.summary import MetricTotal, Summary, summarize
from aiflame.analyze.scheduling import ready_share
from aiflame.analyze.scope import analysis_of
from aiflame.analyze.waiting import idle_share, waiting
from aiflame.attribute.analysis import Analysis
from aiflame.attribute.stacks.own_metrics import own_metrics
from aiflame.attribute.tree import CPU_TIME, WALL_TIME
from aiflame.attribute.trees.how_to_record import LONGER
from aiflame.json_text import json_text, schema
from aiflame.profile.folder.meta import Imported
from aiflame.profile.tables.interface import OpenedProfile
from aiflame.values import asdict, dataclass

if TYPE_CHECKING:
    from aiflame.analyze.ranks.comparison import Ranks

MOSTLY_WAITING = 0.5
"""A share of the duration: a program that runs for less is waiting for something that samples of CPU time do not show."""
EXPLAIN_WAITING = ("waiting-", "loop-blocked", "oversubscribed-", "throttled", "swapping")
"""Prefixes of the kinds of findings about waiting."""
LONG_ENOUGH = 500_000_000
"""In nanoseconds: a program that runs this long has a hundred samples."""
NO_STALLS = "No samples of GPU instructions, so no stall reasons: record with --gpu-sampling auto (aiflame doctor checks its requirements)"
NOTHING = "Nothing stands out: the time is spread over many functions; aiflame top lists them"
NO_TIME = "Findings are about time, and this profile has none: aiflame top lists where its values are"
CUT_SHORT = "The recording was cut short: its end is missing, and findings cover the time until then"


@dataclass(frozen=True, slots=True)
class Listed:
    id: str
    """Stays the same across recordings: one kind of finding about one piece of code."""
    finding: Finding
    fix: str


@dataclass(frozen=True, slots=True)
class Listing:
    profile: str
    summary: Summary
    findings: tuple[Listed, ...]
    missing: tuple[str, ...]
    """Sentences: data that the profile lacks, and how to record it."""
    notes: tuple[str, ...]
    whole_run: bool
    """True if the user asked for the whole run."""

    @property
    def total(self) -> MetricTotal | None:
        """The total of the summary's metric."""
        return next((one for one in self.summary.metrics if one.name == self.summary.metric), None)


def listing(profile: OpenedProfile, limit: int, *, whole_run: bool = False) -> Listing:
    """Lists the most promising findings, at most `limit`."""
    analysis = analysis_of(profile, whole_run=whole_run)
    summary = summarize(analysis, profile.meta)
    ordered = findings(analysis, summary, limit, lambda: _ranks(profile))
    if (origin := profile.meta.imported) is not None:
        missing = tuple(_missing_in_import(origin, ordered, timed=summary.metric not in own_metrics(analysis)))
    else:
        missing = tuple(_missing(analysis, summary, ordered, off=profile.meta.options.get("cpu_rate") == 0))
    return Listing(profile.path.name, summary, tuple(_with_ids(ordered)), missing, (*profile.unfinished(), *summary.notes), whole_run)


def _ranks(profile: OpenedProfile) -> Ranks:
    from aiflame.analyze.ranks.one_profile import answer, facts_of_ranks  # few profiles have ranks

    return answer(facts_of_ranks(profile))


def to_json(listing: Listing) -> str:
    total = listing.total
    document = {
        "schema": schema("findings"),
        "profile": listing.profile,
        "command": listing.summary.command,
        "duration_ns": listing.summary.duration_ns,
        "exit_status": listing.summary.exit_status,
        "complete": listing.summary.complete,
        "scope": listing.summary.scope.to_json(),
        "metric": listing.summary.metric,
        "total": total.total if total is not None else 0,
        "unit": total.unit if total is not None else "",
        "findings": [_plain(one) for one in listing.findings],
        "missing": list(listing.missing),
        "notes": list(listing.notes),
    }
    return json_text(document, indent=1)


def _plain(one: Listed) -> dict[str, object]:
    finding = one.finding
    return {
        "id": one.id,
        "kind": finding.kind,
        "sentence": finding.sentence,
        "share": finding.share,
        "recoverable": finding.recoverable,
        "of_whole_run": finding.of_whole_run,
        "place": finding.view.place,
        "kernel": finding.view.kernel,
        "stall": finding.view.stall,
        "fix": one.fix,
        "evidence": asdict(finding.view),
    }


def _with_ids(ordered: Sequence[Finding]) -> Iterator[Listed]:
    used: dict[str, int] = {}
    for finding in ordered:
        view = finding.view
        code = "\0".join((finding.kind, view.kernel, view.place, view.search, view.table, *view.names))
        name = f"{finding.kind}-{hashlib.sha256(code.encode('utf-8', 'replace')).hexdigest()[:4]}"
        used[name] = used.get(name, 0) + 1
        yield Listed(name if used[name] == 1 else f"{name}-{used[name]}", finding, fix(finding))


def _missing_in_import(origin: Imported, ordered: Sequence[Finding], *, timed: bool) -> Iterator[str]:
    if not ordered:
        yield NOTHING if timed else NO_TIME
    if origin.lacks:
        yield f"A file of this kind ({origin.format}) has no {', no '.join(origin.lacks)}: a recording of aiflame has them"


def _missing(analysis: Analysis, summary: Summary, ordered: Sequence[Finding], *, off: bool) -> Iterator[str]:
    """`off`: samples of CPU time were switched off."""
    if not summary.complete:
        yield CUT_SHORT
    if not summary.metrics:
        if not ordered:
            yield _nothing(summary, off=off)
        return
    if profile_analysis(analysis).ran_on_devices:
        if not analysis.has("gpu_samples"):
            yield NO_STALLS
        return
    samples = int(analysis.scan("cpu_samples").select(pl.len()).collect().item())
    if samples < FEW_SAMPLES:
        yield f"Only {samples} samples of threads, and fewer than {FEW_SAMPLES} say little: {LONGER}"
    measured = {one.name: one.total for one in summary.metrics}
    waits = waiting(analysis)
    explained = any(one.kind.startswith(EXPLAIN_WAITING) for one in ordered) or (waits and idle_share(waits) > MOSTLY_WAITING)
    total = measured.get(CPU_TIME.name, 0)
    if WALL_TIME.name not in measured and total < MOSTLY_WAITING * summary.duration_ns and not explained:
        begin = f"The program ran for {total / max(summary.duration_ns, 1):.0%} of its time and"
        ready = ready_share(analysis)
        if ready > MOSTLY_WAITING * (1 - total / summary.duration_ns):
            yield f"{begin} was ready to run for {ready:.0%} of it, but other programs had the CPUs"
            return
        reason = "the reason was not seen: record with --wall, or without --no-waits"
        yield f"{begin} waited for the rest (for data, a lock or a processor), and {reason}"
    elif not ordered and samples >= FEW_SAMPLES:
        yield NOTHING


def _nothing(summary: Summary, *, off: bool) -> str:
    if off:
        return "Nothing was sampled: it was recorded with --cpu-rate 0; record without it"
    if summary.duration_ns > LONG_ENOUGH:
        took = amount(summary.duration_ns, "ns")
        return f"Nothing was sampled in {took}: the program hardly used the CPU, and waits were not sampled; record with --wall"
    return f"Nothing was sampled: the program ended too soon; {LONGER}"
