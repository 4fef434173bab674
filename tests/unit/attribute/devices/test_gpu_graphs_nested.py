"""Nodes of graphs within graphs, as CUPTI 13.0 reported them on an H200."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl
import pytest

from aiflame.attribute.devices.graphs_nested import inner_nodes


def node(graph: int, place: int) -> int:
    return graph << 32 | place


@dataclass(frozen=True)
class Ran:
    """A profile whose kernels ran for these nodes."""

    nodes: list[int]

    def has(self, name: str) -> bool:
        return True

    def table(self, name: str) -> pl.DataFrame:
        nodes = self.nodes if name == "kernels" else []
        return pl.DataFrame({"process": [0] * len(nodes), "node": nodes}, schema={"process": pl.UInt32, "node": pl.UInt64})

    def scan(self, name: str) -> pl.LazyFrame:
        return self.table(name).lazy()


def reported(*rows: tuple[int, int]) -> pl.DataFrame:
    """Node and original, in the order of rows."""
    schema = {"process": pl.UInt32, "node": pl.UInt64, "original": pl.UInt64}
    return pl.DataFrame([(0, *row) for row in rows], schema=schema, orient="row")


def made(*nodes: int) -> list[tuple[int, int]]:
    return [(each, 0) for each in nodes]


def cloned(copy: int, original: int) -> list[tuple[int, int]]:
    return [(copy, 0), (copy, original)]


CHILD = reported(
    *made(node(1, 0), node(1, 1)),
    *cloned(node(3, 0), node(1, 0)),
    *cloned(node(3, 1), node(1, 1)),
    *made(node(2, 0)),
    *cloned(node(5, 0), node(3, 0)),
    *cloned(node(5, 1), node(3, 1)),
    *cloned(node(4, 0), node(2, 0)),
    *made(node(6, 0)),
)
CONDITION = reported(
    *made(node(1, 0), node(2, 0), node(2, 1)),
    *cloned(node(4, 0), node(2, 0)),
    *cloned(node(4, 1), node(2, 1)),
    *cloned(node(3, 0), node(1, 0)),
    *made(node(5, 0), node(3, 3), node(3, 4)),
)


@pytest.mark.parametrize(
    ("rows", "executed", "expected"),
    [
        (CHILD, [node(4, 1), node(4, 2)], [(node(4, 1), node(5, 0)), (node(4, 2), node(5, 1))]),
        (CONDITION, [node(3, 1), node(3, 2)], [(node(3, 1), node(4, 0)), (node(3, 2), node(4, 1))]),
    ],
)
def test_inner_nodes_take_the_places_that_were_not_reported(
    rows: pl.DataFrame, executed: list[int], expected: list[tuple[int, int]]
) -> None:
    assert inner_nodes(Ran(executed), rows).select("node", "original").rows() == expected


@pytest.mark.parametrize("executed", [[], [node(1, 0)], [node(9, 0)], [node(4, 3)], [node(4, 1 << 30)]])
def test_where_that_does_not_fit_nothing_is_made_up(executed: list[int]) -> None:
    assert inner_nodes(Ran(executed), CHILD).is_empty()
