"""The table of commands. A command's module is imported when the command is called, so that `aiflame -h` and `aiflame record` start at
once."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from keyword import iskeyword

from aiflame.cli.support.parser import Parser, UsageError, meant, near
from aiflame.errors import AiflameError
from aiflame.imported_with import ONE_BLAS_THREAD, imported_with

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace
    from typing import Protocol

    class Command(Protocol):
        """A module of this folder with the command's name."""

        @property
        def DESCRIPTION(self) -> str:
            """The question that the command answers, at the top of its help."""

        @property
        def EXAMPLES(self) -> tuple[str, ...]:
            """Command lines, at the end of its help."""

        def add_arguments(self, parser: Parser) -> None: ...

        def run(self, options: Namespace) -> int | None:
            """The exit status; None: 0."""


DESCRIPTION = "AI flame graphs for everyone: where did the time go, and why?"
GROUPS: Mapping[str, Mapping[str, str]] = {
    "record": {
        "record": "record a program and all its child processes",
        "attach": "record a program that runs already",
        "agent": "record all programs of this machine, all the time, within a budget",
        "ps": "list the programs that can be attached to",
        "dump": "show what each thread of a running process does or waits for",
        "keep": "keep the last minutes of a program that record --last records",
        "demo": "record a small bundled workload and show where its time went",
        "doctor": "check what can be recorded on this machine, and how to enable more",
        "merge": "merge GPU stalls and GPU counters of two recordings into one",
    },
    "read a profile": {
        "open": "show the report in the browser",
        "findings": "list the largest avoidable costs, and a remedy for each",
        "top": "list the heaviest kernels, functions, layers or lines",
        "flame": "draw the flame graph as one interactive SVG file",
        "annotate": "show a GPU kernel's source and instructions side by side",
        "diff": "compare two recordings: which parts got slower or faster",
        "gate": "fail where a new version of a program is slower: for CI",
        "tally": "add up calls of runtimes, kernels and bytes moved",
        "stats": "print the reports of HTA, nsys, torch and TraceLens by their names",
        "ranks": "find the ranks of a parallel job that the others wait for",
        "intra": "look inside Triton kernels: scopes, overlap, waits, roles",
    },
    "bring in and take out": {
        "import": "read a trace of another profiler: torch.profiler, nsys, perf …",
        "export": "write stacks for speedscope or flamegraph.pl",
        "push": "send profiles to a collector of OpenTelemetry or to Pyroscope",
    },
    "answer an agent": {
        "mcp": "answer a coding agent's questions about profiles",
    },
    "write files": {
        "report": "write the report as one HTML file that opens without a network",
        "timeline": "write a timeline for the Perfetto UI",
        "completion": "print the completion of commands and options for your shell",
    },
}
"""Each command and its line of help, in the order of `aiflame -h`."""
COMMANDS: Mapping[str, str] = {name: help for group in GROUPS.values() for name, help in group.items()}


def run(arguments: list[str], imported: Callable[[str], None] = lambda command: None) -> int:
    """Runs the command that the arguments name; returns its exit status. Calls `imported` once the command's module is imported."""
    name, *options = arguments or [""]
    if name in COMMANDS:
        command = load(name)
        imported(name)
        return command.run(parser(name, command).parse(options)) or 0
    if name == "--version":
        from aiflame.version import VERSION

        print(_versions() if "--json" in options else f"aiflame {VERSION}")
        return 0
    if name in ("-h", "--help"):
        print(overview())
        return 0
    if not name:
        print(overview(), file=sys.stderr)
        return 2
    raise UsageError(_unknown(name))


def load(name: str) -> Command:
    try:
        with imported_with(ONE_BLAS_THREAD):
            command: Command = import_module(f"aiflame.cli.{name}{'_' * iskeyword(name)}")
    except ModuleNotFoundError as error:  # on a machine that only records
        package = (error.name or "aiflame").partition(".")[0]
        if package == "aiflame":
            raise
        raise AiflameError(f"{name} needs {package}, which is not installed: pip install aiflame") from None
    return command


def parser(name: str, command: Command) -> Parser:
    result = Parser(f"aiflame {name}", command.DESCRIPTION, command.EXAMPLES)
    command.add_arguments(result)
    return result


def overview() -> str:
    width = max(map(len, COMMANDS)) + 2
    lines = ["usage: aiflame COMMAND [options]", "", DESCRIPTION]
    for group, commands in GROUPS.items():
        lines += ["", f"{group}:", *(f"  {name:{width}}{help}" for name, help in commands.items())]
    lines += [
        "",
        "options:",
        f"  {'-h, --help':{width}}show this help; after a command, the help of that command",
        f"  {'--version':{width}}print the version",
        "",
        "first steps:",
        "  aiflame record -- python train.py",
        "  aiflame open",
    ]
    return "\n".join(lines)


def _versions() -> str:
    from aiflame.json_text import SCHEMAS, json_text, schema
    from aiflame.version import VERSION

    return json_text({"schema": schema("version"), "version": VERSION, "schemas": {name: schema(name) for name in SCHEMAS}}, indent=1)


def _unknown(name: str) -> str:
    if name.startswith("-"):
        names = near(name, ("--help", "--version"))
        return f"there is no option {name}: {meant(names) if names else 'aiflame -h lists all options'}"
    if name.rstrip("/").endswith(".aiflame"):
        return f"{name} is no command: did you mean aiflame open {name}?"
    names = near(name, list(COMMANDS))
    return f"there is no command {name}: {meant(names) if names else 'aiflame -h lists them'}"
