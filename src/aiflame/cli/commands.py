"""The table of commands."""

from __future__ import annotations

import io
import sys
from typing import cast

import typer

from aiflame.cli import annotate, demo, diff, doctor, export, flame, intra, ranks, report, tally, timeline, top
from aiflame.cli import open as opening
from aiflame.errors import harmless

app = typer.Typer(
    help="AI flame graphs for everyone: where did the time go, and why?",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
app.command("open")(opening.open_report)
app.command("report")(report.report)
app.command("flame")(flame.flame)
app.command("top")(top.top)
app.command("annotate")(annotate.annotate)
app.command("tally")(tally.tally)
app.command("intra")(intra.intra)
app.command("diff")(diff.diff)
app.command("timeline")(timeline.timeline)
app.command("ranks")(ranks.ranks)
app.command("export")(export.export)
app.command("doctor")(doctor.doctor)
app.command("demo")(demo.demo)

_USAGE = typer.BadParameter.__mro__[1]
"""Click's error for wrong arguments, or that of the copy of Click in newer versions of Typer."""


def run(arguments: list[str]) -> int:
    """The exit status. Typer would print wrong arguments as they are, and a file's name may be among them."""
    try:
        return int(app(args=arguments, prog_name="aiflame", standalone_mode=False) or 0)
    except typer.Abort:
        print("aiflame: aborted", file=sys.stderr)
        return 1
    except Exception as error:
        if not isinstance(error, _USAGE):
            raise
        shown = io.StringIO()
        cast(typer.BadParameter, error).show(file=shown)
        print("\n".join(map(harmless, shown.getvalue().rstrip("\n").split("\n"))), file=sys.stderr)
        return 2


@app.command("record", context_settings={"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []})
def _record(context: typer.Context) -> None:
    """Record a program and all its child processes: aiflame record -- COMMAND ..."""
    from aiflame.cli.record import record

    raise typer.Exit(record(context.args))


@app.callback(invoke_without_command=True)
def _version(version: bool = typer.Option(False, "--version", help="Print the version and leave.")) -> None:
    if version:
        from aiflame import __version__

        typer.echo(f"aiflame {__version__}")
        raise typer.Exit
