"""`aiflame open`: the report in a browser, served on loopback."""

from __future__ import annotations

from argparse import Namespace

from aiflame.cli.support.arguments import add_base_ranks, add_baseline, add_json, add_profile, add_ranks, add_source_path, add_whole_run
from aiflame.cli.support.browser import show
from aiflame.cli.support.parser import Parser, number
from aiflame.cli.support.say import say, say_json
from aiflame.cli.support.stores import add_range, path_of_range
from aiflame.cli.support.view import of_ranks, opened, source_folder
from aiflame.json_text import json_text, schema
from aiflame.render.report.document import Report
from aiflame.render.report.server import Server

DESCRIPTION = (
    "Where did the time go, and why? Shows the report in the browser, served on this machine alone, until Ctrl-C: findings, flame graph,"
    " timeline, source and instructions, tables."
)
EXAMPLES = (
    "aiflame open",
    "aiflame open after.aiflame --baseline before.aiflame",
    "aiflame open --store /srv/aiflame --from 14:00 --to 15:00",
)


def add_arguments(parser: Parser) -> None:
    add_profile(parser)
    add_baseline(parser)
    add_range(parser)
    parser.add_argument("--no-browser", action="store_true", help="only print the address")
    parser.add_argument("--port", type=number(0, 65535), default=0, metavar="PORT", help="the port on 127.0.0.1 (default: any free one)")
    add_whole_run(parser)
    add_source_path(parser)
    add_ranks(parser)
    add_base_ranks(parser)
    add_json(parser)


def run(options: Namespace) -> None:
    shown = opened(path_of_range(options), options.ranks)
    before = opened(options.baseline, options.base_ranks).store if options.baseline is not None else None
    sources = source_folder(options.source_path)
    report = Report(shown.store, before, of_ranks(shown, options.ranks), sources=sources, whole_run=options.whole_run)
    with Server(report, options.port) as server:
        if options.json:
            say_json(json_text({"schema": schema("open"), "address": server.address}))
        else:
            say(server.address)
        if not options.no_browser:
            for line in show(server.address):
                say(line, err=True)
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            say(err=True)  # after the terminal's ^C
