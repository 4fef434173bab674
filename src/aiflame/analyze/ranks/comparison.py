"""All ranks of a job together: how each spent its time, which came last to collectives and why, and the critical path of its steps."""

from __future__ import annotations

import statistics
from typing import Any

import numpy as np
import polars as pl

from aiflame.analyze.finding import Finding
from aiflame.analyze.ranks.activity import SAYS, Cause
from aiflame.analyze.ranks.clocks import Clocks, clocks_of
from aiflame.analyze.ranks.critical_path import Path, critical_paths
from aiflame.analyze.ranks.facts import TIMES, Partial, RankFacts
from aiflame.analyze.ranks.losses import exposed, on_the_path, slow
from aiflame.analyze.ranks.meetings import Meetings, meetings
from aiflame.analyze.ranks.row import Row
from aiflame.analyze.ranks.stragglers import Late, Straggler, stragglers
from aiflame.analyze.spans import union
from aiflame.attribute.meaning.phases import NAMES, Phase
from aiflame.json_text import schema
from aiflame.profile.ranks.rank_numbers import named_ranks
from aiflame.values import asdict, dataclass, replace


@dataclass(frozen=True, slots=True)
class InPhase:
    """Times of a phase of a step, each the median over all ranks and steps; `slowest`: the rank with the longest median."""

    phase: str
    whole_ns: int
    compute_ns: int
    exposed_ns: int
    idle_ns: int
    slowest: int
    slowest_ns: int


@dataclass(frozen=True, slots=True)
class Ranks:
    rows: list[Row]
    phases: list[InPhase]
    collectives: int
    """The number of collectives that were recorded in several ranks."""
    stragglers: list[Straggler]
    lates: list[Late]
    """Late ranks at collectives, the costliest first."""
    paths: list[Path]
    """The critical path of each step."""
    findings: list[Finding]
    residual_ns: dict[int, int | None]
    """The possible error of clocks of ranks on other hosts than the first; None: unknown."""
    notes: list[str]


def ranks(partial: Partial, clocks: Clocks | None = None) -> Ranks:
    """`clocks`: the clocks of the ranks; by default the result of `clocks_of`."""
    facts = partial.facts
    clocks = clocks or clocks_of(facts)
    all_meetings = meetings(facts, clocks)
    whole = round(statistics.median(one.whole_ns for one in facts)) if facts else 0
    slowing, lates = stragglers(facts, all_meetings, whole)
    paths = critical_paths(facts, all_meetings, clocks)
    sentences = [*slow(slowing, len(facts)), *on_the_path(paths, len(facts))]
    rows = _rows(facts, all_meetings, lates)
    sentences += exposed(rows, all_meetings, slowing)
    notes = [*partial.notes, *_notes(facts, all_meetings)]
    sentences.sort(key=lambda finding: (-finding.recoverable, finding.sentence))
    return Ranks(rows, _phases(facts), len(all_meetings), slowing, lates, paths, sentences, dict(clocks.residual_ns), notes)


def _rows(facts: tuple[RankFacts, ...], joint: Meetings, lates: list[Late]) -> list[Row]:
    waiting = joint.arrival + np.maximum(joint.waited, 0)
    last: dict[int, tuple[int, int]] = {}
    for late in lates:
        if late.why is not None:
            times, lost = last.get(late.rank, (0, 0))
            last[late.rank] = times + 1, lost + late.own_ns
    rows = []
    for column, one in enumerate(facts):
        there = joint.place[:, column] >= 0
        wait = union(joint.arrival[there, column].astype(np.int64), waiting[there, column].astype(np.int64)).total()
        spent = dict(zip(TIMES, one.times, strict=True))
        steps = one.steps.filter(pl.col("step") >= 0)["step"].n_unique()
        rows.append(
            Row(
                one.rank, one.host, one.rule, steps, one.whole_ns, spent["compute"], spent["communication"], spent["exposed"],
                spent["copies"], spent["idle"], min(wait, spent["exposed"]), *last.get(one.rank, (0, 0)),
            )
        )  # fmt: skip
    return rows


def _phases(facts: tuple[RankFacts, ...]) -> list[InPhase]:
    """Uses all steps but the first of each rank, which warms up; a single step is used."""
    medians = []
    for one in facts:
        steps = one.steps.filter(pl.col("step") >= 0)
        usual = steps.filter(pl.col("step") > pl.col("step").min())
        spent = (usual if len(usual) else steps).with_columns(whole=pl.sum_horizontal("compute", "exposed", "copies", "idle"))
        median = spent.group_by("phase").agg(pl.col("whole", "compute", "exposed", "idle").median())
        medians.append(median.with_columns(rank=pl.lit(one.rank, pl.Int64)))
    if not medians:
        return []
    every = pl.concat(medians).sort("rank")
    in_phases = []
    for (phase,), rows in sorted(every.partition_by("phase", as_dict=True).items(), key=lambda item: int(item[0][0])):
        slowest = rows.sort("whole", "rank", descending=[True, False]).row(0, named=True)
        whole, compute, hidden, idle = (round(float(np.median(rows[name].to_numpy()))) for name in ("whole", "compute", "exposed", "idle"))
        name = NAMES[Phase(phase)] if phase else ""
        in_phases.append(InPhase(name, whole, compute, hidden, idle, slowest["rank"], round(slowest["whole"])))
    return in_phases


def _notes(facts: tuple[RankFacts, ...], joint: Meetings) -> list[str]:
    said: dict[str, list[int]] = {}
    for one in facts:
        for text in one.damage:
            said.setdefault(text, []).append(one.rank)
    notes = [text if len(ranks) == len(facts) else f"{named_ranks(ranks)}: {text}" for text, ranks in said.items()]
    silent = [one.rank for one in facts if one.collectives.is_empty()]
    if silent and len(facts) > 1:
        notes.append(
            f"no collectives were recorded in {_list(silent)}: its waits for others are unknown (`--trace` chooses the traced calls)"
        )
    if joint.unlike:
        notes.append(f"{joint.unlike:,} collectives are left out: ranks disagree about the n-th of their group")
    rules = {one.rule for one in facts if not one.collectives.is_empty()}
    if "calls" in rules:
        notes.append("without CPU samples, a rank counts as computing whenever it is in no call that communicates")
    return notes


def _list(numbers: list[int]) -> str:
    shown = ", ".join(map(str, numbers[:8])) + (f" … ({len(numbers)})" if len(numbers) > 8 else "")
    return f"rank {shown}" if len(numbers) == 1 else f"ranks {shown}"


def to_json(comparison: Ranks, rows: int) -> dict[str, Any]:
    """Plain values; at most `rows` of the collectives with a late rank, and only the paths of the median and the longest step."""
    plain = asdict(replace(comparison, lates=comparison.lates[:rows], paths=[]))
    plain["met"] = plain.pop("collectives")
    for row, one in zip(plain["rows"], comparison.rows, strict=True):
        row["overlap"] = one.overlap
    for straggler, named in zip(plain["stragglers"], comparison.stragglers, strict=True):
        straggler["reason"] = named.reason
    for late in (*plain["lates"], *plain["stragglers"]):
        if late["why"] is not None:
            cause = Cause(late["why"]["cause"])
            late["why"] |= {"cause": cause.name.lower(), "says": SAYS[cause]}
    plain["paths"] = [asdict(path) for path in median_and_longest(comparison.paths)]
    return {"schema": schema("ranks"), **plain}


def median_and_longest(paths: list[Path]) -> list[Path]:
    """The paths of the median and the longest step; the first step, which warms up, counts only if there is no other."""
    usual = sorted(paths[1:] or paths, key=lambda path: (path.took_ns, path.step))
    return list({path.step: path for path in (usual[(len(usual) - 1) // 2], usual[-1])}.values()) if usual else []
