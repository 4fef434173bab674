"""`aiflame timeline`: the profile as a trace for the Perfetto UI."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from aiflame.cli.say import say
from aiflame.cli.view import Ranks, opened
from aiflame.errors import AiflameError
from aiflame.memory import keep_freed_memory
from aiflame.render.output import new_file
from aiflame.render.perfetto import trace as perfetto


def timeline(
    profile: Annotated[Path | None, typer.Argument(metavar="PROFILE", help="The profile (default: the newest one here).")] = None,
    output: Annotated[Path, typer.Option("-o", "--output", help="File to write.")] = Path("timeline.pftrace"),
    ranks: Ranks = "",
    no_samples: Annotated[bool, typer.Option("--no-samples", help="Leave out the functions that CPU samples met.")] = False,
) -> None:
    """Write a timeline that opens in the Perfetto UI (https://ui.perfetto.dev)."""
    keep_freed_memory()
    shown = opened(profile, ranks)
    try:
        with new_file(output) as file:  # half a trace opens, and misleads
            slices = perfetto.write_profile(shown.store, shown.meta.started, file, samples=not no_samples)
    except OSError as error:
        raise AiflameError(f"cannot write {output}: {(error.strerror or str(error)).lower()}: choose another place with -o") from None
    say(output)
    say(f"{slices:,} slices; open it in https://ui.perfetto.dev, where it stays in your browser", err=True)
