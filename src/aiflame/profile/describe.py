"""The schema as Markdown: `python -m aiflame.profile.describe docs/profile-format.md` renews the tables in that page."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from .records import Column, Type
from .schema import CONTROL, LIVES, SPOOL_HEADER, TABLES

BEGIN = "<!-- generated from schema.py by aiflame.profile.describe -->"

SEALED = {Type.STR: "text", Type.BLOB: "bytes"}


def renewed(page: str) -> str:
    """The page with everything after `BEGIN` replaced by the present schema."""
    return page.partition(BEGIN)[0] + BEGIN + "\n\n" + "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    for number, table in enumerate(TABLES):
        yield f"### {table.name}"
        yield ""
        yield f"{table.doc[0].upper()}{table.doc[1:]}. Table {number}, `{table.cpp}`."
        yield ""
        yield from _columns(table.columns)
    yield "### The records of lives.table"
    yield ""
    for half in LIVES:
        yield f"{half.doc[0].upper()}{half.doc[1:]}. `{half.cpp}`."
        yield ""
        yield from _columns(half.columns)
    yield "### The header of a table file"
    yield ""
    yield from _columns(SPOOL_HEADER)
    yield "### The control page"
    yield ""
    yield from _columns(CONTROL)


def _columns(columns: tuple[Column, ...]) -> Iterator[str]:
    yield "| column | type | |"
    yield "| --- | --- | --- |"
    for column in columns:
        yield f"| `{column.name}` | {SEALED.get(column.type, column.type.name.lower())} | {column.doc.replace('|', chr(92) + '|')} |"
    yield ""


if __name__ == "__main__":
    page = Path(sys.argv[1])
    page.write_text(renewed(page.read_text()))
