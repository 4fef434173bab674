"""Graphs within graphs: finds the original of nodes whose ids CUPTI has not reported.

A graph that can be executed is flat: the nodes of its child graphs and of the bodies of its conditions have numbers of their own in it,
which kernels report. CUPTI reports the copy of each inner graph right before the nodes of the outer graph. The upper half of a node's id is
the number of its graph, the lower half its place in the graph; inner nodes take, in their order, the places for which CUPTI reported no
node. (Observed with CUPTI 13.0; no document says so.)
"""

from __future__ import annotations

import polars as pl

from aiflame.profile.tables.interface import Tables

_PLACE = 0xFFFFFFFF


def inner_nodes(profile: Tables, reported: pl.DataFrame) -> pl.DataFrame:
    """process, node, original of such nodes; `reported`: process, node, original of `graph_nodes`, in the order of their rows."""
    numbers = pl.concat([profile.scan(table).select("process", "node") for table in ("kernels", "copies")])
    executed = numbers.filter(pl.col("node") != 0).unique().collect()
    unknown = executed.join(reported, on=["process", "node"], how="anti").sort("process", "node")
    clones: list[tuple[int, int, int]] = []
    for (process,), nodes in unknown.group_by("process"):
        rows = reported.filter(pl.col("process") == process)
        seen = set(executed.filter(pl.col("process") == process)["node"].to_list())
        clones += [(int(str(process)), *pair) for pair in _of_process(nodes["node"].to_list(), rows, seen)]
    return pl.DataFrame(clones, schema={name: reported.schema[name] for name in ("process", "node", "original")}, orient="row")


def _of_process(unknown: list[int], reported: pl.DataFrame, executed: set[int]) -> list[tuple[int, int]]:
    nodes, cloned = reported["node"].to_list(), set(reported.filter(pl.col("original") != 0)["node"].to_list())
    pairs: list[tuple[int, int]] = []
    for graph in sorted({node >> 32 for node in unknown}):
        own = {node & _PLACE for node in nodes if node >> 32 == graph}
        last = max(node & _PLACE for node in unknown if node >> 32 == graph)
        if not own or last > len(nodes):
            continue
        at = next(row for row, node in enumerate(nodes) if node >> 32 == graph)
        inner: dict[int, None] = {}
        for node in reversed(nodes[:at]):
            if node not in cloned or node in executed:
                break
            inner[node] = None
        free = [place for place in range(last + 1) if place not in own]
        if len(free) <= len(inner):
            pairs += [(graph << 32 | place, node) for place, node in zip(free, reversed(inner), strict=False)]
    return pairs
