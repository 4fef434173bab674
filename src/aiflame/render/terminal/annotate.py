"""A kernel in detail for the terminal: its head, its stall reasons, its hottest lines, then its source and SASS."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Console
from rich.text import Text

from aiflame.analyze.amounts import share
from aiflame.analyze.kernel.annotate import Annotation, Count, Reasons
from aiflame.render.terminal.annotate_cells import Cell, fitted, harmless, heat, number, percent, place_name, reasons_text, row, wrapped
from aiflame.render.terminal.annotate_header import header
from aiflame.render.terminal.annotate_listing import Listing, hottest_instructions, hottest_lines
from aiflame.render.terminal.console import Terminal
from aiflame.resolve.device.stall_reasons import meaning

LEAST_PERCENT = 0.1
_REASONS = 8
_RANK, _PERCENT, _SAMPLES = 3, 6, 11
_MEDIUM = 100
"""From this width on, the digest also has the samples without issue."""
_FOLDED = "⋮: instructions with few samples; --least 0 shows all"
_WHERE = "samples stand at the instruction that waits to be issued; the load or barrier that it waits for lies before it"
_MEANS = "not issued: no other warp could go on either, so the time was lost"


def print_annotation(
    answer: Annotation, least_percent: float = LEAST_PERCENT, *, by_code: bool = False, console: Console | None = None
) -> None:
    """`least_percent`: runs of instructions with a smaller share of the samples each become one row.

    `by_code`: instructions in the order of the code, each with its line, instead of source lines with their instructions.
    """
    console = console or Terminal()
    for line in annotation_lines(answer, console.width, least_percent, by_code=by_code):
        console.print(line, no_wrap=True, overflow="crop", crop=True)


def annotation_lines(answer: Annotation, width: int, least_percent: float = LEAST_PERCENT, *, by_code: bool = False) -> Iterator[Text]:
    yield from header(answer, width)
    if answer.count.samples:
        yield from _stalls(answer, width)
        yield from _digest(answer, width)
    if answer.instructions:
        code_alone = by_code or not answer.files
        listing = Listing(answer, width, least_percent, code_alone=code_alone)
        yield from listing.in_order_of_code() if code_alone else listing.in_order_of_source()
        if answer.count.samples or listing.folded:
            yield Text()
        if answer.count.samples:
            yield from wrapped(_WHERE, width, "dim")
        if listing.folded:
            yield from wrapped(_FOLDED if code_alone else f"{_FOLDED}; --sass: in the order of the code", width, "dim")
    if answer.notes:
        yield Text()
    for note in answer.notes:
        yield from wrapped(note, width, "yellow")


def _stalls(answer: Annotation, width: int) -> Iterator[Text]:
    """The kernel's stall reasons."""
    yield Text()
    whole = answer.count.samples
    names = max(len("Waited for"), *map(len, answer.reasons))
    widths = (_PERCENT, _SAMPLES, _SAMPLES, names)
    left = width - sum(widths) - len(widths)

    def line(cells: tuple[str, str, str, str], comment: str, style: str, comment_style: str) -> Text:
        numbers = [Cell(text, size, style, right=place < 3) for place, (text, size) in enumerate(zip(cells, widths, strict=True))]
        return row([*numbers, *([Cell(comment, left, comment_style)] if left >= 20 else [])])

    yield line(("%", "Samples", "Not issued", "Waited for"), "", "bold", "")
    most = _REASONS if len(answer.reasons) > _REASONS + 1 else _REASONS + 1  # a row `1 more` could as well be that one row
    shown = list(answer.reasons.items())[:most]
    for reason, count in shown:
        cells = (share(count.samples, whole), number(count.samples), number(count.not_issued), harmless(reason))
        yield line(cells, meaning(reason), heat(count.samples, whole, reason), "dim")
    if others := list(answer.reasons.values())[most:]:
        other = sum(others, Count())
        yield line((share(other.samples, whole), number(other.samples), number(other.not_issued), f"{len(others)} more"), "", "dim", "dim")
    yield line((share(whole, whole), number(whole), number(answer.count.not_issued), "all"), _MEANS, "dim", "dim")


def _digest(answer: Annotation, width: int) -> Iterator[Text]:
    """The hottest lines; the margin of the listing repeats their numbers."""
    rows: list[tuple[str, str, Count, Reasons]]
    if lines := hottest_lines(answer):
        title = "Hottest lines"
        rows = [(place_name(line.file, line.number), (line.text or "").strip(), line.count, line.reasons) for line in lines]
    else:
        title = "Hottest instructions"
        hot = hottest_instructions(answer)
        rows = [(f"+{instruction.offset:#x}", instruction.sass, instruction.count, instruction.reasons) for instruction in hot]
    places = min(max(len(place) for place, *_ in rows), max(width // 4, 8))
    texts_width = width - _RANK - _PERCENT - _SAMPLES - 3 - (width >= _MEDIUM) * (_SAMPLES + 1)
    waits = [reasons_text(reasons, texts_width * 2 // 5) for *_, reasons in rows]
    for_waits = min(max(map(len, ["Waited for", *waits])), texts_width * 2 // 5)

    def line(rank: str, numbers: tuple[str, str, str], what: Text, wait: str, style: str, wait_style: str) -> Text:
        part, samples, not_issued = numbers
        cells = [
            Cell(rank, _RANK, "bold red"),
            Cell(part, _PERCENT, style, right=True),
            Cell(samples, _SAMPLES, style, right=True),
            *([Cell(not_issued, _SAMPLES, style, right=True)] if width >= _MEDIUM else []),
        ]
        return Text.assemble(row(cells, keep=True), " ", what, " ", row([Cell(wait, for_waits, wait_style)]))

    yield Text()
    room = texts_width - for_waits - 1
    yield line("", ("%", "Samples", "Not issued"), fitted(title, room, "bold"), "Waited for", "bold", "bold")
    for rank, ((place, text, count, _), wait) in enumerate(zip(rows, waits, strict=True), 1):
        what = row([Cell(harmless(place), places, "cyan"), Cell(harmless(text), room - places - 1)], keep=True)
        numbers = percent(count.samples, answer.count.samples), number(count.samples), number(count.not_issued)
        yield line(f"#{rank}", numbers, what, wait, heat(count.samples, answer.count.samples), "cyan")
