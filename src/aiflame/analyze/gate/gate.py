"""The result of a gate: regressions, improvements, and the evidence about machines and code."""

from __future__ import annotations

from collections.abc import Sequence

from aiflame.analyze.amounts import amount
from aiflame.analyze.gate import code, machine
from aiflame.analyze.gate.code import CodeChanges
from aiflame.analyze.gate.comparison import Noise, Outcome, Verdict, judged, one_sided, slower_parts
from aiflame.analyze.gate.refusals import refuse_missing, refuse_nothing, refuse_unequal
from aiflame.analyze.gate.run import WHOLE, Run
from aiflame.analyze.gate.sentence import Sentence, listed
from aiflame.analyze.gate.specializations import with_common_names
from aiflame.analyze.gate.thresholds import GATE_METRICS, Thresholds
from aiflame.analyze.gate.verdict_sentence import sentence
from aiflame.values import dataclass

_SILENT = ("gpu", "gpu-idle", "kernel", "waiting", "function")
"""Metrics that many programs lack for obvious reasons."""
_MOST_NAMES = 5


@dataclass(frozen=True, slots=True)
class Gate:
    base: tuple[str, ...]
    """Names of the profiles."""
    new: tuple[str, ...]
    margin: float
    verdicts: tuple[Verdict, ...]
    sentences: tuple[Sentence, ...]
    """One for each verdict."""
    notes: tuple[Sentence, ...]
    """Limits of the comparison: unknown noise, metrics and parts that were not compared."""
    machines: tuple[Sentence, ...]
    """Differences between the machines of both sides; if there are none, the models that they share."""
    machines_differ: bool
    code: tuple[Sentence, ...]
    """Differences between the code of both sides."""

    @property
    def regressions(self) -> int:
        return sum(one.outcome is Outcome.SLOWER for one in self.verdicts)


def gate(base: Sequence[Run], new: Sequence[Run], thresholds: Thresholds) -> Gate:
    refuse_unequal(base, new)
    base, new = with_common_names(base, new)
    changed = code.changes([run.code for run in base], [run.code for run in new])
    verdicts = judged(base, new, thresholds, list(changed.files))
    there = {one.metric.name for one in verdicts}
    if not there:
        refuse_nothing()
    refuse_missing(sorted(thresholds.asked), there, {name: metric.record for name, metric in GATE_METRICS.items()})
    machines = [[run.machine for run in side] for side in (base, new)]
    unequal, differing = machine.unequal_models(*machines), machine.differences(*machines)
    notes = [*_of_noise(verdicts, thresholds), *_not_compared(base, new, thresholds, there, changed), *_of_options(base, new)]
    return Gate(
        tuple(run.name for run in base),
        tuple(run.name for run in new),
        thresholds.margin,
        tuple(verdicts),
        tuple(sentence(one, changed, () if one.metric.parts else slower_parts(verdicts, one)) for one in verdicts),
        tuple(notes),
        tuple([unequal, *differing] if unequal else differing or machine.alike(*machines)),
        bool(differing),
        tuple(code.lines(changed)),
    )


def _of_noise(verdicts: Sequence[Verdict], thresholds: Thresholds) -> list[Sentence]:
    labels = {
        source: ", ".join(dict.fromkeys(one.metric.label for one in verdicts if one.noise_from is source))
        for source in (Noise.STEPS, Noise.UNKNOWN)
    }
    notes = []
    if names := labels[Noise.STEPS]:
        notes.append(f"The noise of {names} was estimated from the steps of few runs; differences between runs are not in it.")
    if names := labels[Noise.UNKNOWN]:
        limit = f"Only a change beyond the threshold and of more than {thresholds.margin:g}% counts."
        notes.append(f"The noise of {names} is unknown: there are too few runs, and too few steps. {limit}")
    if notes:
        notes.append("To know the noise between runs, record at least three runs on each side, better five.")
    return [(note,) for note in notes]


def _not_compared(base: Sequence[Run], new: Sequence[Run], thresholds: Thresholds, there: set[str], changed: CodeChanges) -> list[Sentence]:
    notes: list[Sentence] = []
    steps = {run.steps for run in (*base, *new)}
    if "elapsed" in thresholds.percents and len(steps) > 1:
        notes.append((f"Elapsed times are not compared: runs have from {min(steps):,} to {max(steps):,} steps.",))
        there = there | {"elapsed"}
    elif "elapsed" in thresholds.percents and "elapsed" not in there and all(("elapsed", WHOLE) in run.values for run in (*base, *new)):
        notes.append(("Elapsed times are not compared: nothing shows their noise, and steps are compared.",))
        there = there | {"elapsed"}
    edited = {"line"} if changed.files else set()
    lacking = [GATE_METRICS[name] for name in thresholds.percents if name not in there and name not in _SILENT and name not in edited]
    for record in dict.fromkeys(metric.record for metric in lacking):
        labels = [metric.label for metric in lacking if metric.record == record]
        notes.append((f"Not compared: {' and '.join(labels)}. To have values, {record}.",))
    if "line" in thresholds.percents and changed.files:
        notes.append(("Lines of edited files are not compared, as their numbers may have moved: ", *_some(list(changed.files)), "."))
    for name in ("kernel", "function", "layer"):
        if name in thresholds.percents:
            for side, items in zip(("before", "now"), one_sided(base, new, name), strict=True):
                if items:
                    texts = [f"{item} ({amount(round(size), 'ns')})" for item, size in items.items()]
                    notes.append((f"Heavy {GATE_METRICS[name].label} that exist only {side}, and are not compared: ", *_some(texts), "."))
    return notes


def _of_options(base: Sequence[Run], new: Sequence[Run]) -> list[Sentence]:
    options = [{name: value for run in side for name, value in run.meta.options.items()} for side in (base, new)]
    differing = [name for name in options[0] if name in options[1] and options[0][name] != options[1][name]]
    return [("The two sides were recorded with other options, which may change times: ", *listed(differing), ".")] if differing else []


def _some(items: Sequence[str]) -> Sentence:
    more = len(items) - _MOST_NAMES
    return (*listed(items[:_MOST_NAMES], ", " if more > 0 else " and "), f" and {more:,} more" if more > 0 else "")
