"""The commands and their options as Markdown: `python -m aiflame.cli.describe docs/commands.md` renews them in that page."""

from __future__ import annotations

import sys
from argparse import Action
from collections.abc import Iterator, Mapping
from pathlib import Path

from aiflame.cli.commands import GROUPS, load, parser
from aiflame.cli.support.parser import Parser

BEGIN = "<!-- generated from the commands' parsers by `python -m aiflame.cli.describe docs/commands.md` -->"
PAGES: Mapping[str, tuple[str, ...]] = {
    "record": ("meaning", "regions", "tracing", "telemetry", "intra", "ranks", "guests"),
    "dump": ("dump",),
    "doctor": ("troubleshooting",),
    "open": ("report", "tour"),
    "findings": ("findings",),
    "annotate": ("annotate",),
    "diff": ("diff",),
    "gate": ("gate",),
    "tally": ("tracing",),
    "stats": ("stats",),
    "ranks": ("ranks",),
    "intra": ("intra",),
    "mcp": ("agents",),
    "report": ("report",),
    "timeline": ("timeline",),
    "import": ("import",),
    "export": ("export",),
    "push": ("push",),
}
"""Pages of docs/ about each command."""


def renewed(page: str) -> str:
    """The page with everything after `BEGIN` replaced by the descriptions of the current parsers."""
    return page.partition(BEGIN)[0] + BEGIN + "\n" + "".join(f"{line}\n" for line in _lines())


def _lines() -> Iterator[str]:
    for group, commands in GROUPS.items():
        yield from ("", f"## {group.capitalize()}")
        for name in commands:
            yield from _command(name, parser(name, load(name)))


def _command(name: str, parser: Parser) -> Iterator[str]:
    yield from ("", f"### aiflame {name}", "", str(parser.description), "")
    yield from (f"    {line}".rstrip() for line in (parser.format_usage().strip(), "", *parser.examples))
    yield from ("", "| argument or option | effect |", "| --- | --- |")
    yield from (
        f"| `{_escaped(_invocation(action))}` | {_escaped(str(action.help))} |" for action in parser.actions() if action.dest != "help"
    )
    if pages := PAGES.get(name):
        yield from ("", f"More: {', '.join(f'[{page}.md]({page}.md)' for page in pages)}.")


def _invocation(action: Action) -> str:
    metavar = str(action.metavar or "")
    if not action.option_strings:
        return metavar
    value = f"[{metavar}]" if action.nargs == "?" else metavar
    return f"{', '.join(action.option_strings)} {value}".rstrip()


def _escaped(text: str) -> str:
    return text.replace("|", "\\|")


if __name__ == "__main__":
    page = Path(sys.argv[1])
    page.write_text(renewed(page.read_text()))
