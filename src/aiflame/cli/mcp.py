"""`aiflame mcp`: answers a coding agent's questions about profiles, with the Model Context Protocol on stdin and stdout."""

from __future__ import annotations

from argparse import Namespace
from importlib.util import find_spec
from pathlib import Path

from aiflame.cli.support.parser import Parser
from aiflame.errors import AiflameError

DESCRIPTION = (
    "Lets a coding agent ask why a program is slow: serves findings, top, annotate, diff, source, query and record by the Model Context"
    " Protocol on stdin and stdout. It needs the package mcp."
)
EXAMPLES = (
    "pip install 'aiflame[mcp]'",
    "claude mcp add aiflame -- aiflame mcp .",
    "aiflame mcp runs --allow-command 'python train.py'",
)


def add_arguments(parser: Parser) -> None:
    parser.add_argument(
        "folders",
        nargs="*",
        type=Path,
        metavar="[FOLDER ...]",
        help="open profiles below these folders only; new ones are written into the first (default: the current folder)",
    )
    parser.add_argument("--allow-record", action="store_true", help="let the agent run and record any command")
    parser.add_argument(
        "--allow-command",
        action="append",
        default=[],
        metavar="COMMAND",
        help="let it record command lines that begin with these words; may be repeated",
    )
    parser.add_argument(
        "--source-path",
        type=Path,
        metavar="DIR",
        help="also answer with sources from this folder; a file is looked up by the end of its path",
    )


def run(options: Namespace) -> None:
    if find_spec("mcp") is None:
        raise AiflameError("mcp needs the package mcp: pip install 'aiflame[mcp]'")
    from aiflame.agents.access import Access
    from aiflame.agents.server import serve

    folders = options.folders or [Path()]
    serve(Access.to(folders, any_command=options.allow_record, commands=options.allow_command, sources=options.source_path))
