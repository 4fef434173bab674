"""Finds the place of each stack in the program's own source: the innermost Python line that the program's author wrote."""

from __future__ import annotations

import numpy as np
import polars as pl

from aiflame.attribute.analysis import Analysis, once
from aiflame.attribute.arrays.lookup import find_rows
from aiflame.attribute.arrays.types import Ints, Mask
from aiflame.attribute.stacks.table import StackKeys
from aiflame.attribute.stacks.word_trie import WordTrie, word_trie
from aiflame.attribute.transforms.noise import IMPORT_FILES
from aiflame.profile.schema.enums import FrameKind
from aiflame.profile.schema.frame_words import is_frame_of
from aiflame.profile.tables.interface import Tables
from aiflame.resolve.python.packages import package
from aiflame.values import dataclass

_SCRIPT = r"(^|/)bin/[^/.]+$"
"""The script of a tool such as pytest, beside its interpreter: it only calls the tool's module."""
NOWHERE = ("", 0, "")
_BY_EXEC = "<string>"
"""Mostly methods that `dataclasses` and `collections` generate; the author's line is the one that called them."""
_IMPORTS = pl.col("file").str.contains(IMPORT_FILES)
_SCHEMA = {"file": pl.String, "line": pl.Int64, "function": pl.String}


@dataclass(frozen=True, slots=True)
class Places:
    """The lines of a program, and the line of each of its stacks."""

    rows: pl.DataFrame
    """file, line, function, and `own`: the program's author wrote it. Row 0 means none."""
    _stacks: StackKeys
    _place: Ints
    """The place of each row of the stacks."""
    _words: WordTrie
    _of_word: Ints
    """The row of each distinct word, 0 if it is not Python."""

    def under(self, file: str, line: int, process: Ints, stack: Ints) -> Mask:
        """True for the stacks that contain this line, at any depth."""
        rows = ((self.rows["file"] == file) & (self.rows["line"] == line)).to_numpy()
        here: Ints = np.where(rows[self._of_word], self._of_word, 0)
        held: Mask = self._stacks.at(self._words.nearest(self._words.of_nodes(here))[1:], process, stack) > 0
        return held

    def importing(self, process: Ints, stack: Ints) -> Mask:
        """True for the stacks in an import that a line of the program's own started."""
        own, imports = (self.rows.select(mask).to_series().to_numpy()[self._of_word] for mask in ("own", _IMPORTS))
        nearest = self._words.nearest(self._words.of_nodes(np.where(own, 1, np.where(imports, 2, 0)).astype(np.int64)))[1:]
        imported: Mask = self._stacks.at(nearest, process, stack) == 2
        return imported

    def own_lines(self, process: int, stack: int) -> list[tuple[str, int, str]]:
        """file, line, function: the lines of the program's own in a stack, from the innermost outwards."""
        node = int(self._stacks.find(np.array([process]), np.array([stack]))[0]) + 1
        own, lines = self.rows["own"], []
        while node > 0:
            row = int(self._of_word[self._words.word[node]])
            if row > 0 and own[row]:
                lines.append(self.rows.select("file", "line", "function").row(row))
            node = int(self._words.parent[node])
        return lines

    def of_stacks(self, process: Ints, stack: Ints) -> Ints:
        """The row of each stack's place, 0 if it has none."""
        return self._stacks.at(self._place, process, stack)


def place_text(file: str, line: int) -> str:
    return f"{file}:{line}" if file else ""


def short_place(place: str) -> str:
    """The place without its folders, for sentences."""
    return place.rpartition("/")[2]


def hottest(rows: pl.DataFrame) -> tuple[str, str]:
    """The line with the largest sum of values, as `place_text`, and its function. Columns: file, line, caller, value."""
    lines = rows.filter(pl.col("file") != "").group_by("file", "line").agg(pl.col("value").sum(), pl.col("caller").first())
    lines = lines.sort("value", "file", "line", descending=[True, False, False])
    return (place_text(lines["file"][0], lines["line"][0]), lines["caller"][0]) if len(lines) else ("", "")


@once
def places(profile: Analysis) -> Places:
    """The innermost line in the program's own files; if a stack has none, in a library's. Threads that native code has started have the
    place where they were started."""
    words = word_trie(profile)
    symbols = profile.table("symbols") if profile.has("symbols") else None
    none = pl.DataFrame([NOWHERE], schema=_SCHEMA, orient="row")
    if symbols is None or not len(words.distinct):
        nowhere = np.zeros(len(words.stacks.keys.key), dtype=np.int64)
        return Places(
            none.with_columns(own=pl.lit(False)), words.stacks.keys, nowhere, words, np.zeros(len(words.distinct), dtype=np.int64)
        )
    outermost = symbols.filter(is_frame_of(FrameKind.PYTHON)).unique(["process", "frame"], keep="first")
    python = words.distinct.join(
        outermost.select("process", "frame", "file", "line", function="name"), on=["process", "frame"], how="left", maintain_order="left"
    )
    placed = python.filter(pl.col("file").is_not_null()).select("file", pl.col("line").cast(pl.Int64), "function")
    rows = pl.concat([none, placed.unique(maintain_order=True)])
    row_of = rows.with_row_index("row")
    row = python.with_columns(pl.col("line").cast(pl.Int64)).join(
        row_of, on=["file", "line", "function"], how="left", maintain_order="left"
    )
    of_word = row["row"].fill_null(0).cast(pl.Int64).to_numpy()
    rows = rows.with_columns(own=_own())
    own = words.nearest(words.of_nodes(np.where(rows["own"].to_numpy()[of_word], of_word, 0)))
    of_stack = np.where(own > 0, own, words.nearest(words.of_nodes(of_word)))[1:]
    return Places(rows, words.stacks.keys, of_stack, words, of_word)


def _own() -> pl.Expr:
    script = (pl.col("function") == "<module>") & pl.col("file").str.contains(_SCRIPT)
    return (package() == "") & ~pl.col("file").is_in(["", _BY_EXEC]) & ~script


def is_foreign(file: str, function: str) -> bool:
    """True for code that is not the program's own."""
    return not pl.DataFrame({"file": [file], "function": [function]}).select(_own()).item()


def begins_a_tool(file: str, function: str) -> bool:
    """True where a library's own program begins, such as mypy: everything is below it."""
    return is_foreign(file, function) and (function == "<module>" or file.endswith("/__main__.py"))


def place_of(profile: Tables, process: Ints, thread: Ints, stack: Ints) -> Ints:
    """The places of stacks in the program's source, as rows of `places`; for a stack without Python, the place where its thread was
    started."""
    own_lines = places(profile)
    place = own_lines.of_stacks(process, stack)
    if (place > 0).all():
        return place
    keys, started = _of_threads(profile, own_lines)
    return np.where(place > 0, place, np.append(started, 0)[find_rows(keys, process << 32 | np.maximum(thread, 0))])


def _of_threads(profile: Tables, own_lines: Places) -> tuple[Ints, Ints]:
    """Keys (process << 32 | thread, sorted) of threads, and the place where each was started. Threads that were started during an import
    have none: threads of BLAS, for instance, then work for other lines."""
    threads = (
        profile.table("threads").select(pl.col("process", "id", "creator").cast(pl.Int64)).unique(["process", "id"]).sort("process", "id")
    )
    process, thread, creator = (threads[name].to_numpy() for name in ("process", "id", "creator"))
    started = np.where(own_lines.importing(process, creator), 0, own_lines.of_stacks(process, creator))
    return process << 32 | thread, started
