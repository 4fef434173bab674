"""A command of aiflame's, called in this process."""

from __future__ import annotations

import contextlib
import io
from dataclasses import dataclass

from aiflame.cli.commands import run
from aiflame.cli.main import guarded


@dataclass(frozen=True, slots=True)
class Called:
    status: int
    out: str
    err: str


def run_aiflame(*arguments: str) -> Called:
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            status = guarded(run, list(arguments))
        except SystemExit as end:  # help
            status = int(end.code or 0)
    return Called(status, out.getvalue(), err.getvalue())
