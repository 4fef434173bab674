"""Arguments of commands that read the files of many ranks."""

from __future__ import annotations

from argparse import Namespace

from aiflame.cli.support.parser import Parser
from aiflame.errors import AiflameError
from aiflame.recorder.options import parse_size


def add_memory_and_dask(parser: Parser, work: str) -> None:
    """`work` describes the work that a Dask cluster does, for the help text."""
    parser.add_argument(
        "--memory", default="2G", metavar="SIZE", help="how much memory all processes together may take: 500M, 2G (default: 2G)"
    )
    parser.add_argument("--dask", default="", metavar="ADDRESS", help=f"{work} on this Dask cluster: tcp://HOST:8786")


def memory_of(options: Namespace) -> int:
    """Bytes, at least one."""
    try:
        size = parse_size(options.memory)
    except AiflameError:
        size = 0
    if not size:
        raise AiflameError(f"--memory {options.memory}: name a size like 2G or 500M")
    return size
