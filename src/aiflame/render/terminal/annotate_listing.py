"""Source and SASS of a kernel: beside each other in a wide terminal, the instructions under their lines in a narrow one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby, zip_longest

from rich.cells import cell_len
from rich.text import Text

from aiflame.analyze.kernel.annotate import Annotation, Count, Instruction, Line, SourceFile
from aiflame.analyze.kernel.source_text import Origin
from aiflame.render.terminal.annotate_cells import Cell, chain_text, harmless, heat, number, percent, place_name, reasons_text, row
from aiflame.values import dataclass

SIDE_BY_SIDE = 140
"""From this width on, source and SASS are shown side by side."""
HOTTEST = 8
_MARKED = 0.01
"""The smallest share of the samples with which one of the hottest instructions is marked."""
_NOT_ISSUED = 100
"""From this width on, samples without issue have a column of their own; side by side, there is less room."""
_NOT_ISSUED_BESIDE = 170
_SMALL_GAP = 4
"""Between two lines with code, up to this many lines without code are shown; a mark stands for more."""
_SMALL_FOLD = 2
"""Runs of up to this many cold instructions are listed; longer ones become one row."""
_CONTEXT = 2
"""Instructions shown around a hot one if there are no source lines."""
_INDENT = 4
_MARK, _PERCENT, _SAMPLES, _NUMBER = 3, 6, 9, 5
_SASS_MOST, _SASS_LEAST, _SOURCE_LEAST = 60, 20, 24

_ORIGINS = {
    Origin.SOURCE_PATH: "text from --source-path: the profile does not have it",
    Origin.MISSING: "source not in the profile: --source-path DIR shows one that you have",
}


def hottest_lines(answer: Annotation) -> list[Line]:
    lines = [line for file in answer.files for line in file.lines if line.count.samples]
    return sorted(lines, key=lambda line: -line.count.samples)[:HOTTEST]


def hottest_instructions(answer: Annotation) -> list[Instruction]:
    sampled = [instruction for instruction in answer.instructions if instruction.count.samples]
    return sorted(sampled, key=lambda instruction: -instruction.count.samples)[:HOTTEST]


@dataclass(frozen=True, slots=True)
class _Widths:
    """The widths of a terminal's columns; 0: the column is not shown."""

    source: int
    """Width of the rows of source lines: the whole width if the instructions are below them."""
    beside: bool
    not_issued: bool
    inclusive: bool
    code: int
    """Width of the rows of instructions."""
    digits: int
    """Digits of an offset."""
    place: int
    """Width of the source line beside an instruction; 0 if the instruction is below its line."""
    sass: int
    waits: int


class Listing:
    """The rows of one kernel, for a terminal of this width."""

    def __init__(self, answer: Annotation, width: int, least_percent: float, *, code_alone: bool) -> None:
        """`least_percent`: runs of instructions with a smaller share each become one row. `code_alone`: without the source."""
        self._answer, self._width = answer, width
        self._whole = answer.count.samples
        self._least = least_percent * self._whole / 100
        self._ranks = {(line.file, line.number): f"#{rank}" for rank, line in enumerate(hottest_lines(answer), 1)}
        self._hot = {one.offset for one in hottest_instructions(answer) if one.count.samples >= _MARKED * self._whole}
        self.folded = False
        """True if instructions were folded into such a row; complete at the end."""
        self._widths = _code_alone(answer, width) if code_alone else _side_by_side(answer, width)

    def in_order_of_code(self) -> Iterator[Text]:
        """Rows in the device's order, which shows loops and moved instructions, each with its source line."""
        yield from self._titled(self._answer.language if self._answer.disassembled else "Offsets")
        yield self._code_heading()
        yield from self._folded(self._answer.instructions, _CONTEXT)

    def in_order_of_source(self) -> Iterator[Text]:
        for file in self._answer.files:
            yield from self._file(file)
        if self._answer.homeless:
            yield from self._titled("No source line")
            yield from map(self._indented, self._folded(self._answer.homeless, 0))

    def _titled(self, title: str) -> Iterator[Text]:
        yield Text()
        yield Text(title, "bold")

    def _file(self, file: SourceFile) -> Iterator[Text]:
        yield Text()
        part = f"  {percent(file.count.samples, self._whole)}".rstrip()
        path = _end(harmless(file.source.path), self._width - len(part))
        yield Text.assemble((path, "bold"), (part, heat(file.count.samples, self._whole)))
        if origin := _ORIGINS.get(file.source.origin):
            yield row([Cell(origin, self._width, "yellow")])
        heading = self._source_row("", ("%", "samples", "not iss.", "incl."), "line", "source", "bold", "bold")
        yield self._beside(heading, self._code_heading()) if self._widths.beside else heading
        before = 0
        for line in file.lines:
            yield from self._between(file, before, line.number)
            yield from self._line(line)
            before = line.number

    def _between(self, file: SourceFile, before: int, after: int) -> Iterator[Text]:
        """The lines without code between two that have some, so that the source is readable."""
        if not before or not file.source.lines or after == before + 1:
            return
        far = after - before - 1 > _SMALL_GAP
        rows = [("⋮", "")] if far else [(str(at), harmless(file.source.line(at) or "")) for at in range(before + 1, after)]
        for at, text in rows:
            left = self._source_row("", ("",) * 4, at, text, "", "dim")
            yield self._beside(left, Text()) if self._widths.beside else left

    def _line(self, line: Line) -> Iterator[Text]:
        left = [self._line_row(line)]
        if line.count.samples and line.count.samples >= self._least:
            text_width = self._text_width() - 4
            left.append(self._source_row("", ("",) * 4, "", f"  └ {reasons_text(line.reasons, text_width)}", "", "cyan"))
        right = list(self._code(line))
        if self._widths.beside:
            yield from (self._beside(one, other) for one, other in zip_longest(left, right, fillvalue=Text()))
        else:
            yield from left
            yield from map(self._indented, right)

    def _line_row(self, line: Line) -> Text:
        inclusive = percent(line.inclusive.samples, self._whole) if line.inclusive != line.count else ""
        numbers = (*self._numbers(line.count), inclusive)
        mark = self._ranks.get((line.file, line.number), "")
        text = harmless(line.text) if line.text is not None else ""
        # The colour of the numbers shows how hot a line is; its text stays readable.
        text_style = "" if line.inclusive.samples else "dim"
        return self._source_row(mark, numbers, str(line.number), text, heat(line.count.samples, self._whole), text_style)

    def _numbers(self, count: Count) -> tuple[str, str, str]:
        return percent(count.samples, self._whole), number(count.samples), number(count.not_issued)

    def _source_row(self, mark: str, numbers: Sequence[str], at: str, text: str, style: str, text_style: str) -> Text:
        """`numbers`: share, samples, samples without issue, and the share with inlined code."""
        part, samples, not_issued, inclusive = numbers
        cells = [
            Cell(mark, _MARK, "bold red"),
            Cell(part, _PERCENT, style, right=True),
            Cell(samples, _SAMPLES, style, right=True),
            *([Cell(not_issued, _SAMPLES, style, right=True)] if self._widths.not_issued else []),
            *([Cell(inclusive, _PERCENT, "magenta", right=True)] if self._widths.inclusive else []),
            Cell(at, _NUMBER, "dim", right=True),
        ]
        return row([*cells, Cell(text, self._text_width(), text_style)])

    def _text_width(self) -> int:
        return self._widths.source - _numbers_width(self._widths.not_issued, self._widths.inclusive)

    def _code(self, line: Line) -> Iterator[Text]:
        for block in line.blocks:
            if block.callers:
                width = self._widths.code - self._widths.digits - 3
                yield row([Cell("", self._widths.digits + 2), Cell(chain_text(block.callers), width, "magenta")])
            yield from self._folded(block.instructions, 0)

    def _folded(self, instructions: Sequence[Instruction], context: int) -> Iterator[Text]:
        """Folds runs of cold instructions into one row with their number."""
        warm = [place for place, one in enumerate(instructions) if one.count.samples >= self._least]
        shown = {near for place in warm for near in range(place - context, place + context + 1)}
        for is_shown, run in groupby(range(len(instructions)), key=shown.__contains__):
            cold = [instructions[place] for place in run]
            if is_shown or len(cold) <= _SMALL_FOLD:
                yield from map(self._instruction, cold)
            else:
                self.folded = True
                samples = sum(instruction.count.samples for instruction in cold)
                texts = (f"{len(cold)} instructions", "") if self._widths.sass else ("", f"{len(cold)} offsets")
                yield self._code_row("", "⋮", (percent(samples, self._whole), number(samples), ""), "", *texts, "dim")

    def _instruction(self, instruction: Instruction) -> Text:
        place = place_name(instruction.chain[0].file, instruction.chain[0].line) if instruction.chain else ""
        return self._code_row(
            "►" if instruction.offset in self._hot else "",
            f"{instruction.offset:0{self._widths.digits}x}",
            self._numbers(instruction.count),
            harmless(place),
            harmless(instruction.sass) or "(not disassembled)",
            reasons_text(instruction.reasons, self._widths.waits),
            heat(instruction.count.samples, self._whole),
        )

    def _code_heading(self) -> Text:
        return self._code_row("", "", ("%", "samples", "not iss."), "line", self._answer.language, "waits for", "bold")

    def _code_row(self, mark: str, offset: str, numbers: Sequence[str], place: str, sass: str, waits: str, style: str) -> Text:
        part, samples, not_issued = numbers
        widths = self._widths
        return row(
            [
                Cell(mark, 1, "bold red"),
                Cell(offset, widths.digits, "dim", right=True),
                Cell(part, _PERCENT, style, right=True),
                Cell(samples, _SAMPLES, style, right=True),
                *([Cell(not_issued, _SAMPLES, style, right=True)] if widths.not_issued else []),
                *([Cell(place, widths.place, "cyan")] if widths.place else []),
                *([Cell(sass, widths.sass, style)] if widths.sass else []),
                Cell(waits, widths.waits, style if style in ("bold", "dim") else "cyan"),
            ]
        )

    def _beside(self, left: Text, right: Text) -> Text:
        line = left.copy()
        line.pad_right(self._widths.source - left.cell_len)
        return Text.assemble(line, (" │ ", "dim"), right)

    def _indented(self, line: Text) -> Text:
        return Text.assemble(" " * _INDENT, line)


def _code_alone(answer: Annotation, width: int) -> _Widths:
    places = [len(place_name(one.chain[0].file, one.chain[0].line)) for one in answer.instructions if one.chain]
    return _widths(answer, 0, width, min(max(places, default=0), width // 5), not_issued=width >= _NOT_ISSUED)


def _side_by_side(answer: Annotation, width: int) -> _Widths:
    if width < SIDE_BY_SIDE:
        return _widths(answer, width, width - _INDENT, 0, not_issued=width >= _NOT_ISSUED)
    not_issued = width >= _NOT_ISSUED_BESIDE
    longest = max((cell_len(harmless(line.text or "")) for file in answer.files for line in file.lines), default=0)
    source = min(_numbers_width(not_issued, _inlines(answer)) + max(longest, _SOURCE_LEAST), width * 9 // 20)
    return _widths(answer, source, width - source - 3, 0, not_issued=not_issued, beside=True)


def _widths(answer: Annotation, source: int, code: int, place: int, *, not_issued: bool, beside: bool = False) -> _Widths:
    digits = max([4, *(len(f"{instruction.offset:x}") for instruction in answer.instructions)])
    numbers = 1 + digits + _PERCENT + _SAMPLES + 4 + not_issued * (_SAMPLES + 1) + (place and place + 1)
    left = max(code - numbers, 0)
    longest = max((len(instruction.sass) for instruction in answer.instructions), default=0)
    wanted = min(max(longest, _SASS_LEAST), _SASS_MOST, max(left * 3 // 5, _SASS_LEAST))
    sass = min(wanted, max(left - 1, 0)) if longest else 0
    return _Widths(source, beside, not_issued, _inlines(answer), code, digits, place, sass, left - sass - bool(sass))


def _inlines(answer: Annotation) -> bool:
    return any(line.inclusive != line.count for file in answer.files for line in file.lines)


def _numbers_width(not_issued: bool, inclusive: bool) -> int:
    """Columns before the text of a source line."""
    return _MARK + _PERCENT + _SAMPLES + _NUMBER + 4 + not_issued * (_SAMPLES + 1) + inclusive * (_PERCENT + 1)


def _end(path: str, width: int) -> str:
    """A path cut at its front, since the end identifies the file."""
    return path if len(path) <= width else "…" + path[len(path) - max(width - 1, 0) :]
