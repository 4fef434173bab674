"""The table of docs/guests.md: each guest's run alone, and how it fared recorded."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from compare import status_words
from observe import WAYS, Observation

_WORTH_SAYING_NS = 200_000_000
_LITTLE = 0.5
_BEGIN, _END = "<!-- The table is written by `make guests`. -->", "<!-- End of the table. -->"


def alone_cell(alone: Observation) -> str:
    return f"{status_words(alone.status)}, {alone.seconds:.2f} s, {_megabytes(alone.peak_bytes)}"


def recorded_cell(alone: Observation, recorded: Observation, changed: bool) -> str:
    recording = recorded.recording
    assert recording is not None
    verdict = f"**changed** ({status_words(recorded.status)})" if changed else "same"
    seen, share = "", recording.sampled_ns / max(recorded.cpu_ns, 1)
    if recorded.cpu_ns > _WORTH_SAYING_NS:
        seen = f", {share:.0%} of CPU time seen" + (", a note says why" if share < _LITTLE and recording.notes else "")
    cost = f"{recorded.seconds:.2f} s, {_megabytes(recorded.peak_bytes)}, prompt {recorded.prompt_seconds:+.2f} s"
    return f"{verdict}: {cost}{seen}"


def write(page: Path, rows: Sequence[Sequence[str]]) -> None:
    """Puts the table between its two marks in the page."""
    text = page.read_text()
    before, mark, tail = text.partition(_BEGIN)
    after = tail.partition(_END)[2]
    assert mark, f"{page} has no mark for the table"
    lines = [_line(("guest", *(way.name for way in WAYS))), _line(["---"] * (len(WAYS) + 1)), *(_line(row) for row in rows)]
    page.write_text("\n".join([before + _BEGIN, *lines, _END]) + after)


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def _megabytes(count: int) -> str:
    return f"{count / 1e6:.0f} MB"
