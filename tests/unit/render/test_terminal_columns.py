"""Tables in a narrow terminal: numbers stay whole, and names give way."""

from __future__ import annotations

import pytest
from rich.text import Text

from aiflame.render.terminal.columns import table_of
from aiflame.render.terminal.console import Terminal

NUMBERS: dict[str, list[str | Text]] = {
    "Before": ["115 µs", "0 ns"],
    "Difference": ["−115 µs", "+98.7 µs"],
    "": [Text("gone"), Text("×12.3")],
}


def lines(width: int, *names: str, keep_ends: bool = False) -> list[str]:
    console = Terminal(width=width)
    with console.capture() as shown:
        console.print(table_of(NUMBERS, {"Layer": names}, width, keep_ends=keep_ends))
    return shown.get().splitlines()


@pytest.mark.parametrize("width", [40, 60, 200])
def test_numbers_stay_whole_whatever_the_names_are(width: int) -> None:
    _, first, second = lines(width, "a" * 300, "attn_fwd")
    assert first.split()[:5] == ["115", "µs", "−115", "µs", "gone"]
    assert second.split()[:5] == ["0", "ns", "+98.7", "µs", "×12.3"]
    assert first.rstrip().endswith("a…") and len(first) <= width
    assert second.rstrip().endswith("attn_fwd")


def test_the_end_of_a_layers_path_is_kept() -> None:
    _, first, _ = lines(60, "model.layers.12.self_attention.query_projection.linear", "norm", keep_ends=True)
    assert "model" in first and "…" in first and first.rstrip().endswith("linear")
