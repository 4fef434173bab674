"""Messages for a terminal."""

from __future__ import annotations

import pytest

from aiflame.cli.main import guarded
from aiflame.errors import AiflameError

HOSTILE = ["\x1b]0;title\x07", "\x9b2J", "\u202eevil", "\u2066x", "two\nlines", "\r", "\udc80", "\x7f"]


@pytest.mark.parametrize("name", HOSTILE)
def test_no_name_in_an_error_moves_the_terminal(capsys: pytest.CaptureFixture[str], name: str) -> None:
    def fails(_: list[str]) -> int:
        raise AiflameError(f"{name} is no profile")

    assert guarded(fails, []) == 1
    shown = capsys.readouterr().err
    assert shown.endswith("is no profile\n")
    assert not [character for character in shown.removesuffix("\n") if (character in name and not character.isascii()) or character < " "]
