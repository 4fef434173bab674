"""Tables for the terminal: numbers stay whole, and names share the width that is left. rich alone would narrow all columns alike."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from rich.cells import cell_len, set_cell_size
from rich.table import Table
from rich.text import Text

GAP = 2
"""Between two columns."""


def table_of(
    numbers: Mapping[str, Sequence[str | Text]],
    texts: Mapping[str, Sequence[str | Text]],
    width: int,
    *,
    left: Collection[str] = (),
    keep_ends: bool = False,
    order: Sequence[str] = (),
) -> Table:
    """A table with these columns for a terminal of this width: numbers, then texts, or all in this `order`. `left`: columns of numbers that
    begin at the left. `keep_ends`: long texts lose their middle, as the end of a layer's path names the layer."""
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, GAP, 0, 0))
    widths = {heading: needed_width(heading, cells) for heading, cells in numbers.items()}
    room = width - GAP * (len(texts) + len(numbers)) - sum(widths.values())
    widths |= zip(texts, shared_widths([needed_width(*column) for column in texts.items()], room), strict=True)
    shown: list[Sequence[str | Text]] = []
    for heading in order or (*numbers, *texts):
        if heading in numbers:
            table.add_column(heading, justify="left" if heading in left else "right", width=widths[heading], no_wrap=True)
            shown.append(numbers[heading])
        else:
            table.add_column(heading, no_wrap=True, overflow="ellipsis", width=widths[heading])
            cells = texts[heading]
            shown.append([_without_middle(_text(cell), widths[heading]) for cell in cells] if keep_ends else cells)
    for row in zip(*shown, strict=True):
        table.add_row(*map(_text, row))
    return table


def leave_room(numbers: dict[str, Sequence[str | Text]], least_useful: Sequence[str], width: int, names: int) -> None:
    """Removes columns of numbers, in this order, until names have this much room."""
    for heading in least_useful:
        if sum(needed_width(*column) + GAP for column in numbers.items()) + names + GAP <= width:
            return
        numbers.pop(heading, None)


def needed_width(heading: str, cells: Sequence[str | Text]) -> int:
    return max([cell_len(heading), *(_text(cell).cell_len for cell in cells)])


def shared_widths(wanted: Sequence[int], width: int) -> list[int]:
    """Widths within `width`: the first text may take three fifths, and more if the others need less; these share the rest evenly."""
    if not wanted:
        return []
    first, *others = wanted
    widths = {0: max(1, min(first, width - min(sum(others), width * 2 // 5)))}
    left = width - widths[0]
    for rank, place in enumerate(sorted(range(1, len(wanted)), key=lambda place: wanted[place])):
        widths[place] = max(1, min(wanted[place], left // (len(others) - rank)))
        left -= widths[place]
    return [widths[place] for place in range(len(wanted))]


def cut_middle(text: str, width: int) -> str:
    """The text with an ellipsis instead of its middle, if it is too long; more of the end is kept. Wide characters have two places."""
    if cell_len(text) <= width:
        return text
    last = width // 2
    return set_cell_size(text, max(0, width - 1 - last)) + "…" + set_cell_size(text[::-1], last)[::-1]


def _without_middle(text: Text, width: int) -> Text:
    return Text(cut_middle(text.plain, width), text.style)


def _text(cell: str | Text) -> Text:
    return cell if isinstance(cell, Text) else Text(cell)
