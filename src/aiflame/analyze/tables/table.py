"""A table for people to sort and filter."""

from __future__ import annotations

from typing import Literal

import polars as pl

from aiflame.analyze.amounts import FLOP_RATE
from aiflame.values import dataclass


@dataclass(frozen=True, slots=True)
class Column:
    name: str
    label: str
    unit: str = ""
    """ns, bytes, bytes/s, FLOP/s, samples; "" for texts and plain numbers."""
    kind: Literal["text", "number", "share", "place"] = "text"
    """A share is between 0 and 1; a place is `file:line`."""


@dataclass(frozen=True, slots=True)
class TableOf:
    name: str
    title: str
    columns: tuple[Column, ...]
    """The columns of `rows`, in order."""
    rows: pl.DataFrame
    """The most important first."""


def text(name: str, label: str) -> Column:
    return Column(name, label)


def place(name: str, label: str) -> Column:
    return Column(name, label, kind="place")


def share(name: str, label: str) -> Column:
    return Column(name, label, kind="share")


def number(name: str, label: str, unit: str = "") -> Column:
    return Column(name, label, unit, "number")


OF_LIMIT = (share("of_limit", "% of limit"), number("could_win", "Could win", "ns"), text("bound_by", "Bound by"))
"""The columns if the limits of kernels are known (`analyze.limits`)."""


OF_MODEL = (number("flop_rate", "Operations", FLOP_RATE), number("intensity", "FLOP/byte"))
"""The columns if operations are modelled."""


def with_limits(rows: pl.DataFrame) -> tuple[Column, ...]:
    columns = OF_LIMIT if OF_LIMIT[0].name in rows.columns else ()
    return (*columns, *(OF_MODEL if OF_MODEL[0].name in rows.columns else ()))


def table_of(name: str, title: str, columns: tuple[Column, ...], rows: pl.DataFrame) -> TableOf:
    return TableOf(name, title, columns, rows.select(column.name for column in columns))
