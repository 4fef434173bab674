"""Graphs: finds the stack that captured the node of a kernel, by way of the nodes from which it was cloned."""

from __future__ import annotations

import numpy as np
import polars as pl

from aiflame.attribute.devices.graphs_nested import inner_nodes
from aiflame.profile.tables.interface import Tables

_NONE = {"process": pl.UInt32, "node": pl.UInt64, "made": pl.UInt64, "captured": pl.UInt32, "variant": pl.UInt32}


def captured_stacks(profile: Tables) -> pl.DataFrame:
    """A row for each node: process; node; `made`, the first node of its chain of clones (itself if it is no clone); `captured`, the stack
    that made that node, 0 if unknown; `variant`, the specialization that it launches.

    CUPTI reports a cloned node twice: first its creation, by the call that instantiates the graph, then the node from which it was cloned.
    Its stack is that of its original.

    Jumps double in length, so that long chains need few rounds. In a damaged profile originals may form circles, which lead to no node.
    """
    if not profile.has("graph_nodes"):
        return pl.DataFrame(schema=_NONE)
    numbered = profile.scan("graph_nodes").sort("process", "id").select("process", "node", "original").collect()
    inner = inner_nodes(profile, numbered).lazy().with_columns(stack=pl.lit(0, pl.UInt32), variant=pl.lit(0, pl.UInt32))
    variant = pl.col("variant") if profile.has("kernel_variants") else pl.lit(0, dtype=pl.UInt32).alias("variant")
    rows = profile.scan("graph_nodes").select("process", "node", "original", "stack", variant)
    nodes = (
        pl.concat([rows, inner])
        .filter(pl.col("node") != 0)
        .with_columns(stack=pl.when(pl.col("original") == 0).then("stack").otherwise(0))
        .sort("process", "node", pl.col("original") == 0, pl.col("stack") == 0, "stack", "original")
        .unique(["process", "node"], keep="first", maintain_order=True)
        .collect()
        .with_row_index("row")
    )
    originals = nodes.select("process", original="node", to="row")
    stack = nodes["stack"].to_numpy()
    to = nodes.join(originals, on=["process", "original"], how="left", maintain_order="left")["to"].to_numpy()
    here = np.arange(len(nodes))
    at = np.where(np.isnan(to), here, np.nan_to_num(to)).astype(np.int64)
    for _ in range(len(nodes).bit_length()):
        at = at[at]
    captured = pl.Series(stack[at], dtype=pl.UInt32)
    return nodes.select("process", "node", made=pl.col("node").gather(at), captured=captured, variant=pl.col("variant").gather(at))
