"""The table of commands."""

from __future__ import annotations

import typer

from aiflame.cli import annotate, demo, diff, doctor, export, flame, intra, ranks, report, tally, timeline, top
from aiflame.cli import open as opening

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
