"""The cells of an annotated kernel: foreign texts, fitted into columns of a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from aiflame.analyze.amounts import share
from aiflame.analyze.kernel.annotate import CodeLine, Reasons
from aiflame.resolve.device.stall_reasons import ISSUED
from aiflame.resolve.names.readable import clean
from aiflame.values import dataclass

TAB = 4
_LONGEST = 2000
"""The number of characters of a text that are examined: no terminal is wider."""
_HOT, _WARM = 0.10, 0.03
_SHOWN_REASONS, _LEAST_REASON = 3, 0.05
# Characters that would change the direction of a line's text.
_TURNS = dict.fromkeys([*range(0x202A, 0x202F), *range(0x2066, 0x206A), 0x200E, 0x200F, 0x061C], "?")


@dataclass(frozen=True, slots=True)
class Cell:
    text: str
    width: int
    style: str = ""
    right: bool = False


def row(cells: Sequence[Cell], *, keep: bool = False) -> Text:
    """The cells beside each other, each cut or padded to its width. `keep`: keeps blanks at the end, for text that follows."""
    line = Text(" ").join(fitted(cell.text, cell.width, cell.style, right=cell.right) for cell in cells)
    if not keep:
        line.rstrip()
    return line


def fitted(text: str, width: int, style: str = "", *, right: bool = False) -> Text:
    """Exactly `width` columns: cut with an ellipsis, or padded."""
    if width <= 0:
        return Text()
    result = Text(text[:_LONGEST], style)
    result.truncate(width, overflow="ellipsis")
    missing = width - cell_len(result.plain)
    if right:
        result.pad_left(missing)
    else:
        result.pad_right(missing)
    return result


def wrapped(text: str, width: int, style: str = "") -> Iterator[Text]:
    for line in Text(harmless(text), style).wrap(Console(width=width), max(width, 1)):
        line.rstrip()
        yield line


def harmless(text: str) -> str:
    """Removes characters that move the cursor, break a line or change its direction; tabs become blanks of their width."""
    return clean(text[:_LONGEST].expandtabs(TAB)).translate(_TURNS)


def number(value: int) -> str:
    """The number; empty for 0, so that values are easy to see."""
    return f"{value:,}" if value else ""


def percent(part: int, whole: int) -> str:
    return share(part, whole) if part else ""


def heat(part: int, whole: int, reason: str = "") -> str:
    """The style of an amount: hot, warm, lukewarm or cold."""
    if reason in ISSUED or not whole:
        return ""
    if not part:
        return "dim"
    return "bold red" if part >= _HOT * whole else "yellow" if part >= _WARM * whole else ""


def reasons_text(reasons: Reasons, width: int) -> str:
    """`long_scoreboard 62%, barrier 20%`: shares of this row's samples, as many reasons as fit."""
    whole = sum(count.samples for count in reasons.values())
    ordered = sorted(reasons.items(), key=lambda item: (-item[1].samples, item[0]))
    text = ""
    for reason, count in ordered[:_SHOWN_REASONS]:
        longer = f"{text}, " * bool(text) + f"{harmless(reason)} {100 * count.samples / max(whole, 1):.0f}%"
        if count.samples < _LEAST_REASON * whole or not count.samples or (text and cell_len(longer) > width):
            break
        text = longer
    return text


def place_name(file: str, line: int) -> str:
    return f"{file.rsplit('/', 1)[-1]}:{line}" if line else file.rsplit("/", 1)[-1]


def chain_text(callers: Sequence[CodeLine]) -> str:
    """`← attn.py:88 ← model.py:12`: the lines into which the code was inlined."""
    return harmless(" ".join(f"← {place_name(place.file, place.line)}" for place in callers))
