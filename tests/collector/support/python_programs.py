"""Programs of Python recorded in a real interpreter: their output, and the rows and notes of their processes."""

from __future__ import annotations

import json
import textwrap
from pathlib import Path
from typing import Any

from live import Outcome, Process, processes, recorded


def run(python: str, folder: Path, program: str, *arguments: str, **options: Any) -> tuple[Outcome, list[Process]]:
    source = folder / "program.py"
    source.write_text(textwrap.dedent(program))
    outcome = recorded([python, *arguments, source], folder / "profile", **options)
    return outcome, processes(folder / "profile")


def said(python: str, folder: Path, program: str, *arguments: str, **options: Any) -> tuple[Any, list[Process]]:
    """A program that prints JSON and nothing goes wrong."""
    outcome, recorded_processes = run(python, folder, "import json, sys\n" + textwrap.dedent(program), *arguments, **options)
    assert (outcome.status, outcome.stderr) == (0, "")
    assert all(process.table("notes").is_empty() for process in recorded_processes)
    return json.loads(outcome.stdout), recorded_processes


def notes(recorded_processes: list[Process]) -> list[str]:
    return [text for process in recorded_processes for text in process.table("notes")["text"]]
