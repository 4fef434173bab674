"""Compares the measures of two groups of runs: which got slower by more than their thresholds and by more than noise."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum

from aiflame.analyze.gate.noise import FEW_STEPS, FEWEST_FREE, MOST_BLOCKS, reach, sampling_reach
from aiflame.analyze.gate.run import WHOLE, Measured, Place, Run
from aiflame.analyze.gate.thresholds import GATE_METRICS, GateMetric, Thresholds
from aiflame.values import dataclass, replace

MOST_PARTS = 5
"""The most kernels, functions, layers and lines that are judged, the heaviest of each."""
LEAST_SHARE = 0.05
"""Smallest share of the time of all kernels or functions: lighter parts are not judged."""
LEAST_OF_WHOLE = 0.01


NOWHERE = Place()


_PARTS = {"cpu": ("function",), "gpu": ("kernel", "layer", "line"), "gpu-idle": (), "waiting": ()}
"""The metrics whose parts a total is divided into; only some kinds of parts fit each total."""


class Noise(Enum):
    RUNS = "runs"
    STEPS = "steps"
    UNKNOWN = "unknown"


class Outcome(Enum):
    SLOWER = "slower"
    FASTER = "faster"
    NOISE = "within noise"
    """Beyond the threshold, but within chance, or if the noise is unknown, within the margin."""
    SAME = "within threshold"


@dataclass(frozen=True, slots=True)
class Verdict:
    metric: GateMetric
    item: str
    base: float
    new: float
    per_step: bool
    """The values are means of a step, not of the whole run."""
    threshold: float
    """The threshold as a fraction, like all fields below."""
    noise: float | None
    """The relative difference that chance alone may make. If `noise_from` is UNKNOWN, it comes only from the number of samples, and is None
    for exact values."""
    noise_from: Noise
    few_samples: bool = False
    """The noise comes from the number of samples, which is larger than the variation between runs or steps."""
    outcome: Outcome = Outcome.SAME
    place: Place = NOWHERE

    @property
    def difference(self) -> float:
        return self.new - self.base

    @property
    def change(self) -> float:
        """Relative to `base`, which is positive."""
        return self.difference / self.base


def judged(base: Sequence[Run], new: Sequence[Run], thresholds: Thresholds, changed_files: Sequence[str] = ()) -> list[Verdict]:
    """Verdicts in the order of metrics, the heaviest parts first. Lines of `changed_files` are left out, because line numbers may have
    moved."""
    runs = (*base, *new)
    per_step = all(run.steps for run in runs)
    pairs = [
        (metric, item, _side(base, metric.name, item), _side(new, metric.name, item))
        for metric in GATE_METRICS.values()
        if metric.name in thresholds.percents
        for item in (_pairs(base, new, metric.name, per_step, changed_files) if metric.parts else _whole(runs, metric.name))
    ]
    if per_step and "elapsed" not in thresholds.asked:  # much of it is start-up, whose noise steps do not show
        pairs = [pair for pair in pairs if pair[0].name != "elapsed" or _noise_from(pair[2], pair[3], per_step) is Noise.RUNS]
    verdicts = [_compared(*pair, per_step, thresholds.percents[pair[0].name] / 100, len(pairs)) for pair in pairs]
    whole = _length(runs, per_step)
    places = {key: place for run in base for key, place in run.places.items()} | {
        key: place for run in new for key, place in run.places.items()
    }
    return [
        replace(one, outcome=_outcome(one, thresholds.margin / 100, whole), place=places.get((one.metric.name, one.item), Place()))
        for one in verdicts
    ]


def _whole(runs: Sequence[Run], metric: str) -> list[str]:
    if metric == "elapsed" and len({run.steps for run in runs}) > 1:
        return []
    sides = [run.values.get((metric, WHOLE)) for run in runs]
    return [WHOLE] if all(sides) and any(one.total > 0 for one in sides if one is not None) else []


def _pairs(base: Sequence[Run], new: Sequence[Run], metric: str, per_step: bool, changed_files: Sequence[str]) -> list[str]:
    """The heaviest parts that both sides have; `one_sided` has the others."""
    heavy, both = _heavy((*base, *new), metric, per_step), _items(base, metric) & _items(new, metric)
    kept = [item for item in heavy if item in both and not (metric == "line" and item.rpartition(":")[0] in changed_files)]
    return sorted(kept, key=lambda item: (-heavy[item], item))[:MOST_PARTS]


def _heavy(runs: Sequence[Run], metric: str, per_step: bool) -> dict[str, float]:
    """Items with LEAST_SHARE of the time of all runs together."""
    sizes = {item: sum(_values(_side(runs, metric, item), per_step)) for item in _items(runs, metric)}
    every = _partition(runs, metric)
    whole = sum(sum(_values(_side(runs, every, item), per_step)) for item in _items(runs, every))
    return {item: size for item, size in sizes.items() if size > LEAST_SHARE * whole}


def _partition(runs: Sequence[Run], metric: str) -> str:
    """The metric whose parts add up to the whole time: some time has no layer or line."""
    return "kernel" if metric != "function" and _items(runs, "kernel") else "function"


def _items(runs: Sequence[Run], metric: str) -> set[str]:
    return {item for run in runs for name, item in run.values if name == metric}


def one_sided(base: Sequence[Run], new: Sequence[Run], metric: str) -> tuple[dict[str, float], dict[str, float]]:
    """Heavy parts that only the base has, and those that only the new side has (renamed, removed or added), with their mean times."""
    per_step = all(run.steps for run in (*base, *new))
    ours, theirs = _items(base, metric), _items(new, metric)
    gone = {item: size / len(base) for item, size in _heavy(base, metric, per_step).items() if item not in theirs}
    added = {item: size / len(new) for item, size in _heavy(new, metric, per_step).items() if item not in ours}
    return dict(sorted(gone.items())), dict(sorted(added.items()))


def _measured(run: Run, metric: str, item: str) -> Measured:
    """The values of an item in each run that has it."""
    none = Measured(0.0, 0.0, (0.0,) * min(run.steps, MOST_BLOCKS) if run.steps >= FEW_STEPS else ()) if run.steps else Measured(0.0)
    return run.values.get((metric, item), none)


def _side(runs: Sequence[Run], metric: str, item: str) -> list[Measured]:
    return [_measured(run, metric, item) for run in runs]


def _values(side: Sequence[Measured], per_step: bool) -> list[float]:
    return [one.step if per_step and one.step is not None else one.total for one in side]


def _noise_from(base: Sequence[Measured], new: Sequence[Measured], per_step: bool) -> Noise:
    if len(base) + len(new) - 2 >= FEWEST_FREE:
        return Noise.RUNS
    return Noise.STEPS if per_step and all(one.blocks for one in (*base, *new)) else Noise.UNKNOWN


def _compared(
    metric: GateMetric, item: str, base: Sequence[Measured], new: Sequence[Measured], per_step: bool, threshold: float, comparisons: int
) -> Verdict:
    per_step = per_step and all(one.step is not None for one in (*base, *new))
    before, after = _values(base, per_step), _values(new, per_step)
    was, now = max(_mean(before), 1.0), _mean(after)  # at least a nanosecond, since changes are relative to it
    errors, new_errors = (
        [value * one.error for value, one in zip(values, side, strict=True)] for values, side in ((before, base), (after, new))
    )
    by_samples = sampling_reach(errors, new_errors, comparisons)
    source = _noise_from(base, new, per_step)
    if source is Noise.STEPS:
        before, after = ([value for one in side for value in one.blocks] for side in (base, new))
    by_spread = reach(before, after, comparisons) if source is not Noise.UNKNOWN else 0.0
    noise = max(by_spread, by_samples) / was
    return Verdict(metric, item, was, now, per_step, threshold, noise or None, source, few_samples=by_samples > by_spread)


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def _outcome(one: Verdict, margin: float, whole: float) -> Outcome:
    size = abs(one.change)
    if size <= one.threshold or (one.metric.of_whole and abs(one.difference) <= LEAST_OF_WHOLE * whole):
        return Outcome.SAME
    if size <= max(one.noise or 0.0, margin if one.noise_from is Noise.UNKNOWN else 0.0):
        return Outcome.NOISE
    return Outcome.SLOWER if one.change > 0 else Outcome.FASTER


def _length(runs: Sequence[Run], per_step: bool) -> float:
    """The mean time of a step, or of a run."""
    name = "step" if per_step else "elapsed"
    lengths = _values([run.values[name, WHOLE] for run in runs if (name, WHOLE) in run.values], per_step)
    return _mean(lengths) if lengths else 0.0


def slower_parts(verdicts: Sequence[Verdict], whole: Verdict) -> list[Verdict]:
    """The kernels, otherwise the functions, layers or lines that got slower together with the total, those with the largest increase
    first."""
    for metric in _PARTS.get(whole.metric.name, ("kernel", "function", "layer", "line")):
        parts = [one for one in verdicts if one.metric.name == metric and one.outcome is Outcome.SLOWER and one.per_step == whole.per_step]
        if parts:
            return sorted(parts, key=lambda one: -one.difference)
    return []
