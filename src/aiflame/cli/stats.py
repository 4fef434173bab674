"""`aiflame stats`: reports that people know from other tools."""

from __future__ import annotations

import sys
from argparse import Namespace
from pathlib import Path, PurePath

import polars as pl

from aiflame.analyze.stats.report import Report
from aiflame.analyze.stats.table import REPORTS, UnknownReport, named, stats
from aiflame.cli.support.arguments import add_json, add_profile, add_rows
from aiflame.cli.support.parser import Parser, UsageError, meant, near
from aiflame.cli.support.say import say, say_json
from aiflame.cli.support.view import opened
from aiflame.errors import harmless
from aiflame.json_text import json_text, schema
from aiflame.render.output import new_file
from aiflame.render.terminal.stats_table import print_report, print_reports

DESCRIPTION = (
    "What would HTA, nsys, torch or TraceLens say about this profile? Prints one of their reports, of a recording or of another tool's"
    " trace. Without a name it lists the reports."
)
EXAMPLES = (
    "aiflame stats",
    "aiflame stats hta.temporal-breakdown",
    "aiflame stats cuda_gpu_kern_sum report.sqlite",
    "aiflame stats torch.key-averages trace.json.gz --csv -o ops.csv",
)
ROWS = 20


def add_arguments(parser: Parser) -> None:
    parser.add_suggested("report", REPORTS, "[REPORT]", "the report's name (default: lists the reports)", nargs="?")
    add_profile(parser)
    add_rows(parser, ROWS)
    parser.add_argument(
        "--rank", "--ranks", dest="ranks", default="", metavar="RANKS", help="only these ranks of a parallel job: 0,7 or 0-3 (default: all)"
    )
    parser.add_argument("--csv", action="store_true", help="print all rows and columns as CSV")
    parser.add_argument("-o", "--output", type=Path, metavar="FILE", help="write CSV, or with --json JSON, into this file")
    add_json(parser)


def run(options: Namespace) -> None:
    if options.json and options.csv:
        raise UsageError("stats: --json or --csv, not both")
    if options.report is None:
        _list(options)
        return
    report = _named(options.report)
    rows = stats(opened(options.profile, options.ranks).store, report.name)
    if options.output is not None:
        with new_file(options.output) as file:
            file.write((_json(report, rows) + "\n" if options.json else rows.write_csv()).encode())
    elif options.json:
        say_json(_json(report, rows))
    elif options.csv:
        _print_csv(rows)
    else:
        print_report(report, rows, options.rows)


def _list(options: Namespace) -> None:
    if options.csv or options.output is not None:
        raise UsageError(f"stats: name a report: {', '.join(list(REPORTS)[:3])} …")
    if options.json:
        listed = [{"report": report.name, "shows": report.shows, "elsewhere": report.theirs} for report in REPORTS.values()]
        say_json(json_text({"schema": schema("stats"), "reports": listed}, indent=1))
    else:
        print_reports(REPORTS.values())


def _named(name: str) -> Report:
    try:
        return named(name)
    except UnknownReport:
        pass
    if "/" in name or (PurePath(name).suffix and name.partition(".")[0] not in {full.partition(".")[0] for full in REPORTS}):
        raise UsageError(f"stats needs the name of a report before {name}: `aiflame stats` lists them")
    plain = name.replace("_", "-")
    short = {full.partition(".")[2]: full for full in REPORTS}
    proposed = near(plain, list(REPORTS)) or [short[one] for one in near(plain, list(short))]
    raise UsageError(f"stats: there is no report {name!r}: {meant(proposed) if proposed else '`aiflame stats` lists them'}")


def _json(report: Report, rows: pl.DataFrame) -> str:
    return json_text({"schema": schema("stats"), "report": report.name, "columns": rows.columns, "rows": rows.to_dicts()}, indent=1)


def _print_csv(rows: pl.DataFrame) -> None:
    text = rows.write_csv()
    if sys.stdout.isatty():
        for line in text.splitlines():
            say(harmless(line))
    else:
        sys.stdout.write(text)
