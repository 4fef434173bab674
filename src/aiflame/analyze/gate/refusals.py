"""Refuses profiles that a gate must not judge: each error names the profile, the missing data, and how to record it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NoReturn

from aiflame.analyze.gate.run import Run
from aiflame.attribute.tree import GPU_TIME
from aiflame.attribute.trees.build import metrics
from aiflame.errors import AiflameError
from aiflame.profile.tables.interface import OpenedProfile

_STOPPED = "recording stopped early"
_AGAIN = "record it again with `aiflame record -- COMMAND`"


def refuse_incomplete(profile: OpenedProfile, name: str) -> None:
    """Raises an error if a profile, which has just been opened, was not recorded to its end or has nothing to compare."""
    if profile.unfinished():
        raise AiflameError(f"{name} is still being recorded: compare it when its command has ended")
    early = next((note for note in profile.meta.degraded if _STOPPED in note), "")
    if early:
        raise AiflameError(f"{name} was cut short ({early}), so that its times are too small: {_AGAIN}, with room for all of it")
    if not profile.meta.complete:
        reason = "; ".join(profile.meta.degraded[:2]) or "its recorder did not see the end of the command"
        raise AiflameError(f"{name} was cut short, so that its times may be too small ({reason}): {_AGAIN}, and let it run to its end")
    if not metrics(profile):
        raise AiflameError(
            f"{name} has nothing to compare: no sample of CPU time and no kernel or copy of a GPU. {_AGAIN[0].upper()}{_AGAIN[1:]}, without"
            " --cpu-rate 0, and let the command run for at least a second"
        )


def refuse_unequal(base: Sequence[Run], new: Sequence[Run]) -> None:
    """Refuses runs that did different work."""
    endings = {run.meta.exit_status for run in (*base, *new)}
    if len(endings) > 1:
        several = ", ".join(f"{run.name} with {_status(run.meta.exit_status)}" for run in (*base, *new))
        raise AiflameError(f"the commands ended differently ({several}), so that their times do not compare: record runs that end alike")
    kinds = {run.main for run in (*base, *new)}
    if len(kinds) > 1:
        richest = max((*base, *new), key=lambda run: run.main == GPU_TIME.name)
        other = next(run for run in (*base, *new) if run.main != richest.main)
        raise AiflameError(
            f"{other.name} has no {richest.main}, only {other.main}, and {richest.name} has: record all runs with the same options, on"
            " machines of one kind"
        )


def refuse_missing(asked: Iterable[str], judged: Iterable[str], records: dict[str, str]) -> None:
    """Refuses if the profiles lack a metric for which the user set a threshold."""
    if lacking := [name for name in asked if name not in set(judged)]:
        name = lacking[0]
        raise AiflameError(f"--threshold {name}: not all of these profiles have values of it that can be compared; {records[name]}")


def refuse_nothing() -> NoReturn:
    """Refuses if there is no comparison at all: such a gate would always pass."""
    raise AiflameError("nothing was compared: every metric that all these profiles have is off; leave out a --threshold METRIC=off")


def _status(status: int | None) -> str:
    if status is None:
        return "an unknown exit status"
    return f"signal {-status}" if status < 0 else f"exit status {status}"
