"""Source code as blocks: a list of kernels, a block for each kernel with a page, the lines that took CPU time, and texts that pages
show."""

from __future__ import annotations

from collections.abc import Callable, Container, Hashable, Iterable, Sequence
from functools import cached_property
from typing import Generic, TypeVar

import numpy as np
import polars as pl

from aiflame.analyze.kernel.annotate import Annotation, CodeLine, annotator
from aiflame.analyze.kernel.choice import Kernel, kernels
from aiflame.analyze.kernel.source_text import SourceTexts
from aiflame.analyze.source.lines import SourceLines, source_lines
from aiflame.attribute.analysis import Analysis
from aiflame.attribute.metrics import CLOCK
from aiflame.attribute.stacks.functions import functions_and_lines
from aiflame.attribute.trees.build import metrics
from aiflame.profile.tables.interface import OpenedProfile
from aiflame.render.blocks import Values, block
from aiflame.render.report.source import listed, source_block
from aiflame.resolve.device.stall_reasons import meaning

MOST_IN_A_FILE = 50
"""The most pages of kernels in one HTML file."""
MOST_TEXT_IN_A_FILE = 12 << 20
"""Bytes of sources and kept files in one HTML file; a server has all of them."""
LARGEST_TEXT = 16 << 20
MOST_LISTED = 5000
MOST_SHAPES = 20

Row = TypeVar("Row", bound=Hashable)


class Code:
    """The blocks `code`, `code.N` (N: place in the list of kernels), `source.METRIC` (lines of a clock), and `text.N` (a source file, or a
    kept file)."""

    def __init__(self, profile: OpenedProfile, analysis: Analysis, most: int, sources: SourceTexts) -> None:
        self._profile, self._analysis, self._in_a_file, self._source_texts = profile, analysis, most == MOST_IN_A_FILE, sources
        self._pages = min(most, len(self._kernels))

    @property
    def names(self) -> list[str]:
        kernels = ["code", *(f"code.{place}" for place in range(self._pages))] if self._kernels else []
        return [*kernels, *(f"source.{clock}" for clock in self._clocks), *(f"text.{number}" for number in self._texts.values())]

    def block(self, name: str) -> bytes:
        if name == "code":
            return self._list()
        kind, _, number = name.partition(".")
        if kind == "source":
            return source_block(self._lines[number], self._texts, {path: self._source_texts.of(path).origin for path in self._texts})
        if kind == "text":
            return _text_block(*self._read(next(path for path, place in self._texts.items() if place == int(number))))
        return annotation_block(self._annotate(self._kernels[int(number)]), self._texts)

    def _list(self) -> bytes:
        listed = self._kernels[:MOST_LISTED]
        head = {
            "pages": self._pages,
            "of": len(self._kernels),
            "gpu_time_ns": sum(kernel.gpu_time_ns for kernel in self._kernels),
            "samples": sum(kernel.samples for kernel in self._kernels),
        }
        return block(
            head,
            {
                **{name: pl.Series([getattr(kernel, name) for kernel in listed], dtype=pl.String) for name in ("name", "short", "full")},
                **{name: np.array([getattr(kernel, name) for kernel in listed]) for name in ("launches", "gpu_time_ns", "samples")},
            },
        )

    @cached_property
    def _kernels(self) -> list[Kernel]:
        return kernels(self._profile)

    @cached_property
    def _annotate(self) -> Callable[[Kernel], Annotation]:
        return annotator(self._profile, self._kernels, self._source_texts)

    @cached_property
    def _texts(self) -> dict[str, int]:
        """The number of the block for each text, by path: sources as recorded, and kept files as `kept/NAME`."""
        sources = [(path, len(text.encode("utf-8", "replace"))) for path, text in self._sources.items() if path in self._shown]
        files = self._profile.table("kept_files")["file"].unique(maintain_order=True).to_list()
        kept = [(f"kept/{file}", size) for file in files if (size := self._profile.kept_size(file)) is not None]
        numbers: dict[str, int] = {}
        room = MOST_TEXT_IN_A_FILE
        for path, size in [*sources, *kept]:
            if size <= LARGEST_TEXT and (size <= room or not self._in_a_file):
                numbers[path] = len(numbers)
                room -= size
        return numbers

    @cached_property
    def _clocks(self) -> list[str]:
        return [metric for metric in metrics(self._analysis) if metric in CLOCK]

    @cached_property
    def _lines(self) -> dict[str, SourceLines]:
        lines = {clock: source_lines(self._analysis, clock) for clock in self._clocks}
        self._analysis.release(functions_and_lines)  # not needed later
        return lines

    @cached_property
    def _shown(self) -> Container[str]:
        """The sources that pages show. A server has all, which costs nothing."""
        if not self._in_a_file:
            return self._sources.keys()
        of_kernels = self._profile.table("gpu_lines")["file"].unique().to_list() if self._profile.has("gpu_lines") else []
        return self._listed.union(of_kernels)

    @property
    def _listed(self) -> set[str]:
        """Files with lines that took CPU time."""
        return {path for lines in self._lines.values() for path in listed(lines)["path"]}

    @cached_property
    def _sources(self) -> dict[str, str]:
        return self._source_texts.all(self._listed if self._source_texts.has_folder else ())

    def _read(self, path: str) -> tuple[str, str]:
        if path in self._sources:
            return path, self._sources[path]
        return path, self._profile.read_kept(path.removeprefix("kept/"), LARGEST_TEXT).decode("utf-8", "replace")


def annotation_block(answer: Annotation, texts: dict[str, int]) -> bytes:
    """Columns: instructions in the order of the code, with `at`, their innermost source place; `place`: a forest of places, row 0 for none,
    in which a place is below that into which it was inlined; `count`: samples of an instruction for a reason."""
    files = _Rows("")
    functions = _Rows("")
    chains = _Rows((0, 0, 0, 0))
    instructions = answer.instructions
    at = [_chain(instruction.chain, chains, files, functions) for instruction in instructions]
    reasons = list(answer.reasons)
    number = {reason: place for place, reason in enumerate(reasons)}
    counts = [
        (row, number[reason], count.samples, count.not_issued)
        for row, instruction in enumerate(instructions)
        for reason, count in instruction.reasons.items()
    ]
    by_path = {file.source.path: file for file in answer.files}
    head = {
        **_head(answer),
        "reasons": [[reason, meaning(reason)] for reason in reasons],
        "files": [
            {"path": path, "text": texts.get(path, -1), "origin": by_path[path].source.origin.value if path in by_path else "missing"}
            for path in files.rows[1:]
        ],
        "functions": functions.rows,
        "kept": [[path, texts.get(path, -1)] for path in answer.kept],
    }
    return block(
        head,
        {
            "offset": np.array([instruction.offset for instruction in instructions], dtype=np.int64),
            "sass": pl.Series([instruction.sass for instruction in instructions], dtype=pl.String),
            "at": np.array(at, dtype=np.int64),
            **_columns(chains.rows, ("place.above", "place.file", "place.line", "place.function")),
            **_columns(counts, ("count.instruction", "count.reason", "count.samples", "count.not_issued")),
        },
        frozenset({"offset", "count.instruction", "place.above", "at"}),
    )


def _head(answer: Annotation) -> dict[str, object]:
    kernel = answer.kernel
    return {
        "name": kernel.name,
        "short": kernel.short,
        "full": kernel.full,
        "launches": kernel.launches,
        "gpu_time_ns": kernel.gpu_time_ns,
        "samples": kernel.samples,
        "specializations": kernel.specializations,
        "total_gpu_time_ns": answer.total_gpu_time_ns,
        "total_samples": answer.total_samples,
        "shown_samples": answer.count.samples,
        "not_issued": answer.count.not_issued,
        "shapes": [
            {
                "device": shape.device,
                "grid": shape.grid,
                "block": shape.block,
                "registers": shape.registers,
                "shared": shape.static_shared + shape.dynamic_shared,
                "local": shape.local_bytes,
                "launches": shape.launches,
            }
            for shape in answer.shapes[:MOST_SHAPES]
        ],
        "shape_count": len(answer.shapes),
        "dropped": answer.sampling.dropped,
        "sampled": answer.sampling.samples,
        "periods": [1 << period for period in answer.sampling.periods],
        "cubin": f"{answer.cubin:016x}" if answer.cubin is not None else "",
        "versions": [[f"{cubin:016x}", samples] for cubin, samples in answer.versions.items()],
        "notes": answer.notes,
        "made_from": answer.made_from,
        "disassembled": answer.disassembled,
    }


class _Rows(Generic[Row]):
    """Distinct values and their places."""

    def __init__(self, first: Row) -> None:
        self.rows = [first]
        self._place = {first: 0}

    def place(self, row: Row) -> int:
        if row not in self._place:
            self._place[row] = len(self.rows)
            self.rows.append(row)
        return self._place[row]


def _chain(chain: Iterable[CodeLine], places: _Rows[tuple[int, int, int, int]], files: _Rows[str], functions: _Rows[str]) -> int:
    above = 0
    for place in reversed(list(chain)):
        above = places.place((above, files.place(place.file), place.line, functions.place(place.function)))
    return above


def _columns(rows: Sequence[tuple[int, ...]], names: Sequence[str]) -> dict[str, Values]:
    table = np.array(rows, dtype=np.int64).reshape(-1, len(names))
    return {name: table[:, column] for column, name in enumerate(names)}


def _text_block(path: str, text: str) -> bytes:
    """Lines as compilers count them."""
    lines = text.replace("\r\n", "\n").removesuffix("\n").split("\n")
    return block({"path": path}, {"line": pl.Series(lines, dtype=pl.String)})
