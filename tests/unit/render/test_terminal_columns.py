"""Tables in a narrow terminal: numbers stay whole, and names give way."""

from __future__ import annotations

import pytest
from rich.cells import cell_len
from rich.text import Text

from aiflame.render.terminal.columns import cut_middle, shared_widths, table_of
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


def test_names_in_wide_characters_keep_their_ends() -> None:
    _, first, second = lines(60, "模型.层叠注意力机制模块.层叠注意力机制.甲", "模型.层叠注意力机制模块.层叠注意力机制.乙", keep_ends=True)
    assert first.rstrip().endswith("甲") and second.rstrip().endswith("乙") and "…" in first
    assert cut_middle("模型" * 20, 20).endswith("模型") and cell_len(cut_middle("模型" * 20, 20)) == 20


@pytest.mark.parametrize(
    ("wanted", "width", "given"),
    [
        ([], 50, []),
        ([30], 50, [30]),
        ([80, 10], 50, [40, 10]),
        ([80, 90], 50, [30, 20]),
        ([10, 80], 50, [10, 40]),
        ([90, 90, 90], 100, [60, 20, 20]),
        ([90, 4, 90], 100, [60, 4, 36]),
        ([5, 5, 5], 100, [5, 5, 5]),
    ],
)
def test_texts_share_the_width(wanted: list[int], width: int, given: list[int]) -> None:
    assert shared_widths(wanted, width) == given


def test_columns_stand_in_the_given_order() -> None:
    table = table_of({"Time": ["1 s"]}, {"Name": ["a"], "Kind": ["b"]}, 80, order=["Kind", "Time", "Name"])
    assert [column.header for column in table.columns] == ["Kind", "Time", "Name"]
    assert [str(next(iter(column.cells))) for column in table.columns] == ["b", "1 s", "a"]
