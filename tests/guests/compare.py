"""Differences between a guest's recorded run and its run alone, a line each."""

from __future__ import annotations

import difflib
import re
import signal
from fnmatch import fnmatch

from guest import Guest
from observe import Observation

_SEEN = 0.5
"""This much of the CPU time must be in samples where a note does not say why it is less."""
_MUCH_NS = 10**9
_LINES = 6
"""Lines of a difference that are shown."""


def changes(guest: Guest, alone: Observation, recorded: Observation) -> list[str]:
    """Empty: the program ran as it does alone, and its recording is not silently empty."""
    lines = []
    if alone.status != recorded.status:
        lines.append(f"{status_words(alone.status)} alone, {status_words(recorded.status)} recorded")
    for name in ("stdout", "stderr"):
        before, after = (scrubbed(guest, getattr(observation, name)) for observation in (alone, recorded))
        if before != after:
            lines.append(f"{name} differs: {_difference(before, after)}")
    lines += _files_changed(guest, alone, recorded)
    if alone.left_running != recorded.left_running:
        lines.append(f"{alone.left_running} processes go on alone, {recorded.left_running} recorded")
    return lines + _recording_problems(guest, recorded)


def status_words(status: int | None) -> str:
    if status is None:
        return "did not end"
    return f"status {status}" if status >= 0 else f"ended by {signal.Signals(-status).name}"


def scrubbed(guest: Guest, text: str) -> str:
    """The text without the parts that may differ: whole lines that may or may not be there leave no trace."""
    for expression in guest.may_differ:
        text = re.sub(expression, lambda match: "" if match.group().endswith("\n") else "…", text, flags=re.MULTILINE)
    return text


def _difference(before: str, after: str) -> str:
    lines = difflib.unified_diff(before.splitlines(), after.splitlines(), "alone", "recorded", lineterm="", n=0)
    shown = [line for line in lines if not line.startswith(("---", "+++", "@@"))]
    return " | ".join(shown[:_LINES]) + (" | …" if len(shown) > _LINES else "")


def _files_changed(guest: Guest, alone: Observation, recorded: Observation) -> list[str]:
    lost, new = sorted(alone.files.keys() - recorded.files.keys()), sorted(recorded.files.keys() - alone.files.keys())
    lines = [f"files not written: {', '.join(lost[:_LINES])}"] if lost else []
    lines += [f"files that the program did not write alone: {', '.join(new[:_LINES])}"] if new else []
    differ = [
        name
        for name in alone.files.keys() & recorded.files.keys()
        if alone.files[name] != recorded.files[name] and not any(fnmatch(name, pattern) for pattern in guest.files_may_differ)
    ]
    return lines + ([f"files written otherwise: {', '.join(sorted(differ)[:_LINES])}"] if differ else [])


def _recording_problems(guest: Guest, recorded: Observation) -> list[str]:
    recording = recorded.recording
    if recording is None:
        return []
    if recording.error:
        return [f"the profile cannot be read: {recording.error}"]
    said = "; ".join(recording.notes)
    if recording.silent and not said:
        return [f"processes without samples, and no note says why: {', '.join(map(str, recording.silent))}"]
    if not said and recorded.cpu_ns > _MUCH_NS and recording.sampled_ns < _SEEN * recorded.cpu_ns:
        return [f"{recording.sampled_ns / recorded.cpu_ns:.0%} of the CPU time is in samples, and no note says why"]
    if recording.sampled < guest.sampled:
        return [f"{recording.sampled} of at least {guest.sampled} processes have samples: {said or 'no note says why'}"]
    return []
