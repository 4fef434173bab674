"""`aiflame completion`: the script by which a shell completes commands, options and their values."""

from __future__ import annotations

from argparse import REMAINDER, Namespace
from pathlib import Path

from aiflame.cli.commands import COMMANDS, load
from aiflame.cli.support.arguments import add_json
from aiflame.cli.support.parser import Parser
from aiflame.cli.support.say import say_json
from aiflame.errors import AiflameError
from aiflame.json_text import json_text, schema

DESCRIPTION = "Prints a script that makes a shell complete aiflame's commands, options and values. It needs shtab."
EXAMPLES = (
    "pip install 'aiflame[completion]'",
    "aiflame completion bash > ~/.local/share/bash-completion/completions/aiflame",
    "aiflame completion zsh > ~/.zfunc/_aiflame  # where fpath has ~/.zfunc",
)
SHELLS = ("bash", "zsh")


def add_arguments(parser: Parser) -> None:
    parser.add_choice("shell", choices=SHELLS, metavar="SHELL", help=" or ".join(SHELLS))
    add_json(parser)


def run(options: Namespace) -> None:
    try:
        import shtab
    except ImportError:
        raise AiflameError("completion needs shtab: pip install 'aiflame[completion]'") from None
    whole = Parser("aiflame")
    whole.add_argument("--version", action="store_true", help="print the version")
    commands = whole.add_subparsers(parser_class=_OfCommand)
    for name, help in COMMANDS.items():
        for action in commands.add_parser(name, prog=f"aiflame {name}", help=help).actions():
            if action.type is Path or action.nargs == REMAINDER:
                action.complete = shtab.FILE  # type: ignore[attr-defined]
    script = shtab.complete(whole, options.shell)
    if options.json:
        say_json(json_text({"schema": schema("completion"), "shell": options.shell, "script": script}, indent=1))
    else:
        print(script)


class _OfCommand(Parser):
    def __init__(self, prog: str, **_: object) -> None:
        name = prog.removeprefix("aiflame ")
        super().__init__(prog, COMMANDS[name])  # zsh shows the line of help beside the command
        load(name).add_arguments(self)
