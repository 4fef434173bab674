"""The tools `annotate` and `source`: a GPU kernel's hottest lines with their stalls, and the text around a line."""

from __future__ import annotations

from collections.abc import Mapping

from aiflame.agents.answer import Answer, Row, Value, quoted
from aiflame.analyze.findings.advice import OF_STALLS
from aiflame.analyze.kernel.annotate import Annotation, Line, Reasons, annotate
from aiflame.analyze.kernel.choice import kernels
from aiflame.analyze.kernel.source_text import Origin, SourceFolder, SourceTexts
from aiflame.api import Profile
from aiflame.errors import AiflameError
from aiflame.resolve.device.stall_reasons import MEANINGS, NO_STALLS

ANNOTATE = "aiflame.mcp.annotate/1"
SOURCE = "aiflame.mcp.source/1"
MOST_REASONS = 3
_STALLS = frozenset(MEANINGS) - NO_STALLS


def kernel_answer(
    profile: Profile, kernel: str, rows: int, sources: SourceFolder | None, more: Mapping[str, Value] | None = None
) -> Answer:
    """The kernel's lines and instructions with the most samples, each with its stall reasons."""
    every = kernels(profile.store)
    if not every:
        nothing = "nothing recorded: no GPU kernel ran; record a program that uses a GPU, with --gpu-sampling auto"
        return Answer(ANNOTATE, {**(more or {}), "nothing": nothing})
    shown = annotate(profile.store, kernel, texts=SourceTexts(profile.store, sources))
    whole = max(shown.count.samples, 1)
    lines = sorted((line for file in shown.files for line in file.lines), key=lambda line: (-line.count.samples, line.file, line.number))
    hot = sorted(shown.instructions, key=lambda one: (-one.count.samples, one.offset))
    facts: dict[str, Value] = {
        **(more or {}),
        "launches": shown.kernel.launches,
        "gpu_time_ns": shown.kernel.gpu_time_ns,
        "samples": shown.count.samples,
        "stalls": _stalls(shown),
    }
    listed: list[Row] = [_line(line, whole) for line in lines[:rows] if line.count.samples]
    code: list[Row] = [
        {
            "offset": one.offset,
            "percent": _percent(one.count.samples, whole),
            "reasons": _reasons(one.reasons),
            "sass": quoted(one.sass, 100),
            "line": quoted(f"{one.chain[0].file}:{one.chain[0].line}") if one.chain else "",
        }
        for one in hot[:rows]
        if one.count.samples
    ]
    texts: dict[str, Value] = {"kernel": quoted(shown.kernel.full), "notes": [quoted(note) for note in shown.notes]}
    if shown.others:
        texts["other_kernels_that_match"] = [quoted(other.short, 80) for other in shown.others[:5]]
    return Answer(ANNOTATE, facts, untrusted=texts, untrusted_rows={"lines": listed, "instructions": code})


def source_answer(profile: Profile, file: str, line: int, around: int, sources: SourceFolder | None) -> Answer:
    """The text of a file around a line: from the profile, otherwise from the server's folder of sources."""
    place, _, number = file.rpartition(":")
    if place and number.isdecimal():
        file, line = place, line or int(number)
    text = SourceTexts(profile.store, sources).of(file)
    if text.origin is Origin.MISSING:
        how = "read the file itself, or let the user start this server with --source-path"
        return Answer(SOURCE, {"nothing": f"the text of this file was not recorded: {how}"}, untrusted={"file": quoted(file)})
    wanted = max(line, 1)
    if wanted > len(text.lines):
        raise AiflameError(f"{quoted(file)} has {len(text.lines)} lines, no line {wanted}")
    numbers = range(max(wanted - around, 1), min(wanted + around, len(text.lines)) + 1)
    nearest = sorted(numbers, key=lambda one: (abs(one - wanted), one))
    rows: list[Row] = [{"line": one, "text": quoted(text.line(one) or "")} for one in nearest]
    facts: dict[str, Value] = {"origin": text.origin.value, "line": wanted, "order": "nearest lines first"}
    return Answer(SOURCE, facts, untrusted={"file": quoted(file)}, untrusted_rows={"lines": rows})


def _line(line: Line, whole: int) -> Row:
    return {
        "line": quoted(f"{line.file}:{line.number}"),
        "percent": _percent(line.count.samples, whole),
        "reasons": _reasons(line.reasons),
        "text": quoted((line.text or "").strip(), 120),
    }


def _stalls(shown: Annotation) -> list[Row]:
    """The kernel's main stall reasons, each with its meaning and a remedy. An unknown name counts as a text from the profile."""
    stalls = [(reason, count) for reason, count in shown.reasons.items() if reason in _STALLS and count.samples]
    whole = max(shown.count.samples, 1)
    return [
        {"stall": reason, "percent": _percent(count.samples, whole), "means": MEANINGS[reason], "fix": OF_STALLS.get(reason, "")}
        for reason, count in stalls[:MOST_REASONS]
    ]


def _reasons(reasons: Reasons) -> Mapping[str, Value]:
    ordered = [(reason, count.samples) for reason, count in reasons.items() if count.samples]
    return {quoted(reason, 40): samples for reason, samples in ordered[:MOST_REASONS]}


def _percent(part: int, whole: int) -> float:
    return round(100 * part / whole, 1)
