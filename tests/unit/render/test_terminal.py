"""Names of a stranger's do not control the terminal that they are printed on."""

from __future__ import annotations

import io

import pytest
from rich.table import Table
from rich.text import Text

from aiflame.render.terminal.console import Terminal

HOSTILE = {
    "escape": "\x1b]0;title\x07",
    "carriage return": "good\rbad",
    "C1 control": "\x9b31m",
    "right to left": "\u202egpj.exe",
    "backspaces": "a\b\b\b",
}


@pytest.mark.parametrize("name", HOSTILE.values(), ids=HOSTILE.keys())
@pytest.mark.parametrize("colors", [True, False])
def test_control_characters_are_shown_as_question_marks(name: str, colors: bool) -> None:
    file = io.StringIO()
    terminal = Terminal(file=file, force_terminal=colors, width=60)
    table = Table("function", box=None)
    table.add_row(Text(name, "red"))
    terminal.print(table)
    terminal.print(Text(name))
    terminal.print(f"see {name} [bold]")
    written = file.getvalue()
    if colors:  # the terminal's own: colours
        assert "\x1b[31m" in written
        written = written.replace("\x1b[0m", "").replace("\x1b[1m", "").replace("\x1b[31m", "").replace("\x1b[1;31m", "")
    assert not any(character in written for character in "\x1b\x07\r\x9b\u202e\b"), repr(written)
    assert written.count("\n") == 4


def test_other_text_stays_as_it_is() -> None:
    file = io.StringIO()
    Terminal(file=file, width=60).print(Text("größer ▏▎ 层 → λ\nsecond line"))
    assert file.getvalue() == "größer ▏▎ 层 → λ\nsecond line\n"
