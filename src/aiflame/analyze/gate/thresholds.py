"""The measures of a gate, each with its default threshold, and the thresholds that a user sets."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from aiflame.errors import AiflameError
from aiflame.values import dataclass


@dataclass(frozen=True, slots=True)
class GateMetric:
    name: str
    label: str
    percent: float
    """Default threshold."""
    record: str
    """How to record a program so that the profile has it."""
    subject: str
    """The beginning of a sentence; a part's name follows."""
    verb: str
    parts: bool = False
    """It has a value for each kernel, layer …, not one for the whole run."""
    of_whole: bool = False
    """Changes of less than a hundredth of the run do not count: the value itself may be close to zero."""


_MEANING = "record a torch or JAX program that takes several steps, without --no-meaning"
_METRICS = (
    GateMetric("elapsed", "elapsed time", 5, "let the recorded command run to its end", "The run", "takes"),
    GateMetric("step", "time of a step", 3, _MEANING, "A step", "takes"),
    GateMetric("cpu", "CPU time", 5, "record without --cpu-rate 0", "The CPU time", "is"),
    GateMetric("gpu", "GPU busy time", 3, "record a program that uses a GPU", "The GPU", "is busy for"),
    GateMetric("gpu-idle", "GPU idle time", 10, "record a program that uses a GPU", "The GPU", "is idle for", of_whole=True),
    GateMetric("waiting", "waiting time of main threads", 10, "record with --wall", "The main thread", "waits for", of_whole=True),
    GateMetric("kernel", "GPU kernels", 5, "record a program that uses a GPU", "Kernel", "takes", parts=True),
    GateMetric("function", "functions", 10, "record without --cpu-rate 0", "Function", "takes", parts=True),
    GateMetric("layer", "layers", 5, _MEANING, "Layer", "takes", parts=True),
    GateMetric("line", "lines of Python", 10, "record a Python program without --no-python", "Line", "takes", parts=True),
)
GATE_METRICS: Mapping[str, GateMetric] = {metric.name: metric for metric in _METRICS}
OFF = "off"
MARGIN = 20.0
"""Percent: if the noise is unknown, a smaller change is not a regression."""
_MOST_PERCENT = 10_000


def parse_threshold(text: str) -> tuple[str, float | None]:
    """`kernel=5%`, `kernel=5` or `line=off` (None)."""
    name, equals, value = text.partition("=")
    if name not in GATE_METRICS or not equals:
        raise AiflameError(f"{text!r} is no threshold: write METRIC=PERCENT, such as kernel=5%, with one of {', '.join(GATE_METRICS)}")
    return name, None if value == OFF else parse_percent(value)


def parse_percent(text: str) -> float:
    try:
        value = float(text.removesuffix("%"))
    except ValueError:
        value = -1.0
    if not 0 <= value <= _MOST_PERCENT:
        raise AiflameError(f"{text!r} is no percentage: write a number such as 5% or 2.5%, or for a threshold {OFF}")
    return value


@dataclass(frozen=True, slots=True)
class Thresholds:
    percents: Mapping[str, float]
    """The thresholds of the judged metrics, in percent."""
    asked: frozenset[str] = frozenset()
    """Metrics that the user named: a gate without them is an error."""
    margin: float = MARGIN

    @staticmethod
    def of(chosen: Iterable[tuple[str, float | None]] = (), margin: float = MARGIN) -> Thresholds:
        of_users = dict(chosen)
        percents = {name: of_users.get(name, metric.percent) for name, metric in GATE_METRICS.items()}
        judged = {name: percent for name, percent in percents.items() if percent is not None}
        return Thresholds(judged, frozenset(name for name, percent in of_users.items() if percent is not None), margin)
