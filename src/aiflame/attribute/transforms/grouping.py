"""Regroups a tree: under the root first the owner of the time (a thread, a library …), then the code as before."""

from __future__ import annotations

import numpy as np
import polars as pl
from numpy.typing import NDArray

from aiflame.attribute.arrays import nodes
from aiflame.attribute.groupings import REGROUPS
from aiflame.attribute.transforms.reshape import hide_nodes
from aiflame.attribute.tree import Frame, Tree, assemble, frame_table
from aiflame.errors import AiflameError
from aiflame.profile.schema.kinds import Kind

OWNERS = (Kind.PROCESS, Kind.THREAD)


def group(tree: Tree, by: str) -> Tree:
    """Puts stacks under a frame for their process, thread, module, file or kind of code: a stack's value belongs to the group of its
    innermost function. The total stays."""
    if by not in REGROUPS:
        raise AiflameError(f"cannot group by {by!r}: use {', '.join(REGROUPS)}")
    deciding = REGROUPS[by].kinds
    owner = deciding[0] if deciding[0] in OWNERS else None
    names, of_node = groups(tree, by)
    carrying = np.flatnonzero(np.any([value != 0 for value in tree.values.values()], axis=0))
    used, which = np.unique(of_node[carrying], return_inverse=True)
    unplaced = np.array([names[row].startswith("[unattributed") for row in used.tolist()], dtype=np.bool_)
    kind = np.where(unplaced, Kind.UNATTRIBUTED, owner or Kind.REGION)
    labels = frame_table([Frame(names[row], Kind(value)) for row, value in zip(used.tolist(), kind.tolist(), strict=True)])[1:]

    # A pair is a node of the tree in one of the groups.
    wanted = carrying << 32 | which
    pairs = np.sort(nodes.with_callers(tree.parent, nodes.distinct(wanted)))
    node, part = pairs >> 32, pairs & 0xFFFFFFFF
    first = 1 + len(used)
    caller = tree.parent[node]
    above = first + np.searchsorted(pairs, caller.astype(np.int64) << 32 | part)
    parent = np.concatenate([[-1], np.zeros(len(used)), np.where(caller == 0, 1 + part, above)]).astype(np.int32)
    frame = np.concatenate([[0], len(tree.frames) + np.arange(len(used)), tree.frame[node]]).astype(np.uint32)
    place = np.where(carrying == 0, 1 + which, first + np.searchsorted(pairs, wanted))
    values = {name: nodes.gather(place, value[carrying], len(parent)) for name, value in tree.values.items()}
    grouped = assemble(pl.concat([tree.frames, labels]), parent, frame, values, tree.metrics)
    # If threads or processes are the groups, their frames are removed from the stacks.
    return hide_nodes(grouped, (grouped.kinds() == owner) & (grouped.depths() > 1)) if owner else grouped


def groups(tree: Tree, by: str) -> tuple[list[str], NDArray[np.int64]]:
    """The names of all groups, and the group of each node."""
    kinds, name = REGROUPS[by].kinds, REGROUPS[by].name
    none = f"[unattributed: no {by}]"
    names = tree.frames.select(name.alias("name")).to_series().to_list()
    rows = {none: 0}
    of_frame = np.array([rows.setdefault(name or none, len(rows)) for name in names], dtype=np.int64)
    at = nodes.nearest(tree.parent, np.isin(tree.kinds(), kinds))
    return list(rows), np.where(at >= 0, of_frame[tree.frame[at]], 0)
