"""`aiflame import`: a file that another profiler wrote, as a profile."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path

from aiflame.cli.support.arguments import add_json
from aiflame.cli.support.many_files import add_memory_and_dask, memory_of
from aiflame.cli.support.parser import Parser
from aiflame.cli.support.progress import ProgressLine
from aiflame.cli.support.say import say, say_json
from aiflame.exchange.readers.door import import_to
from aiflame.exchange.readers.many_files import Where
from aiflame.json_text import json_text, schema
from aiflame.profile.opening import SUFFIX

DESCRIPTION = (
    "How does a trace that I already have look here? Writes the profile of a file of another profiler; of a folder or an archive with"
    " the traces of several ranks, that of the whole job. Other commands take such files directly."
)
EXAMPLES = ("aiflame import trace.json.gz -o run.aiflame", "aiflame top trace.json.gz")
_ENDS = (".gz", ".zst", ".zip", ".tar", ".tgz", ".json", ".sqlite", ".trace", ".pt", ".pb")


def add_arguments(parser: Parser) -> None:
    parser.add_argument("file", type=Path, metavar="FILE", help="the file, a folder or an archive of several")
    parser.add_argument("-o", "--output", type=Path, metavar="PROFILE", help=f"the profile to write (default: NAME{SUFFIX}, here)")
    add_memory_and_dask(parser, "import the files of a folder")
    add_json(parser)


def run(options: Namespace) -> None:
    where = Where(memory_of(options), options.dask)
    target = options.output or Path(f"{_stem(options.file)}{SUFFIX}")
    line = ProgressLine("importing", options.file)
    try:
        import_to(options.file, target, line, where)
    finally:
        line.end()
    if options.json:
        say_json(json_text({"schema": schema("import"), "profile": str(target)}, indent=1))
        return
    say(target)


def _stem(file: Path) -> str:
    name = file.name
    while (end := Path(name).suffix) and end.lower() in _ENDS and name != end:
        name = name.removesuffix(end)
    return name or "imported"
