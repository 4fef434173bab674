"""Rows as CSV. Control characters become spaces, and a text that a spreadsheet would run as a formula has `'` before it."""

from __future__ import annotations

from typing import TextIO

import polars as pl

from aiflame.exchange.writers.collapsed import MOVES_THE_CURSOR

FORMULA = r"^(?:[\s\x{feff}]*[=+\-@\x{ff1d}\x{ff0b}\x{ff0d}\x{ff20}])"
"""How texts begin that Excel, LibreOffice or Google Sheets may take for formulas: also in wide letters, and behind spaces."""


def write(rows: pl.DataFrame, file: TextIO) -> None:
    """A header and the rows, lines parted as RFC 4180 says."""
    texts = [
        pl.when(pl.col(name).str.contains(FORMULA)).then(pl.concat_str(pl.lit("'"), name)).otherwise(name).alias(name)
        for name, kind in rows.schema.items()
        if kind == pl.String
    ]
    clean = [pl.col(name).str.replace_all(MOVES_THE_CURSOR, " ") for name, kind in rows.schema.items() if kind == pl.String]
    file.write(rows.with_columns(clean).with_columns(texts).write_csv(line_terminator="\r\n"))
