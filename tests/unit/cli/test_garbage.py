"""Imports of a command are not searched for garbage; the command's own objects are."""

from __future__ import annotations

import subprocess
import sys

SHOWN = (
    "import gc, sys\n"
    "from aiflame.cli import commands, main\n"
    "def run(options): print(gc.isenabled(), gc.get_freeze_count() > 0)\n"
    "commands.load = lambda name: sys.modules['__main__']\n"
    "DESCRIPTION, EXAMPLES, add_arguments = '', (), lambda parser: None\n"
    "sys.argv[1:] = [{command!r}]\n"
    "main.main()\n"
)


def of(command: str) -> str:
    return subprocess.run([sys.executable, "-c", SHOWN.format(command=command)], capture_output=True, text=True, check=True).stdout.strip()


def test_a_command_collects_its_garbage_but_not_what_was_imported() -> None:
    assert of("top") == "True True"


def test_record_collects_nothing_until_the_program_runs() -> None:
    assert of("record") == "False False"
