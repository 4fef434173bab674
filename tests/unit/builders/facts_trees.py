"""Facts put together again: the stacks of one metric in one grouping, as a page makes them from a block."""

from __future__ import annotations

from collections import Counter

import numpy as np

from aiflame.attribute.sites.segments import Segment
from aiflame.attribute.sites.table import CONTEXTS, SiteTable
from aiflame.attribute.transforms.noise import hide_interpreter_noise
from aiflame.attribute.tree import Frame, Tree
from aiflame.attribute.trees.build import tree
from aiflame.profile.schema.kinds import Kind
from aiflame.profile.tables.interface import Tables

Chain = tuple[Frame, ...]
LINES = {Kind.GPU_LINE, Kind.CPU_LINE}
INSTRUCTIONS = {Kind.GPU_INSTRUCTION, Kind.GPU_STALL, Kind.GPU_OFFSET}
DEEPER = {"function": LINES | INSTRUCTIONS, "line": INSTRUCTIONS, "instruction": set()}


def stacks_of_facts(facts: SiteTable, metric: str, by: str, detail: str, also: str = "") -> Counter[Chain]:
    """The value of each stack. Sites take part that have values of the metric, or of `also`."""
    frames = [Frame(*row) for row in facts.frames.rows()]
    chains = {name: _chains(segment, frames) for name, segment in facts.segments.items()}
    grouping = next(one for one in facts.groupings if one.name == by)
    carrying = np.flatnonzero(np.any([facts.leaves[name].to_numpy() != 0 for name in (metric, also) if name], axis=0))
    leaf_sites, insides = facts.leaves["site"].to_list(), facts.leaves["inside"].to_list()
    sites = sorted({leaf_sites[leaf] for leaf in carrying.tolist()})
    place: dict[int, Chain] = dict.fromkeys(sites, ())
    for name in grouping.segments:
        node = facts.sites[name].to_list()
        shared = {place[site] for site in sites if node[site]} if name in CONTEXTS else set()
        for site in sites:
            none = (Frame(f"[no {name}]", Kind.UNATTRIBUTED),) if place[site] in shared and not node[site] else ()
            place[site] = (*place[site], *none, *chains[name][node[site]])
    # Without detail, GPU time belongs to whole kernels: functions that they call are no frames.
    hidden = DEEPER[detail] | ({Kind.GPU_KERNEL} if metric == "gpu-time" and detail == "function" else set())
    values: Counter[Chain] = Counter()
    value = facts.leaves[metric].to_list()
    for leaf in carrying.tolist():
        inside = tuple(frame for frame in chains["inside"][insides[leaf]] if frame.kind not in hidden)
        chain = (*place[leaf_sites[leaf]], *inside)
        if value[leaf]:
            values[chain] += value[leaf]
    return values


def stacks_of_tree(profile: Tables, metric: str, by: str, detail: str) -> Counter[Chain]:
    """The same, of the tree that is built of one metric."""
    return stacks(hide_interpreter_noise(tree(profile, metric, by, detail)), metric)


def stacks(of: Tree, metric: str) -> Counter[Chain]:
    frames = [Frame(*row) for row in of.frames.rows()]
    chain: list[Chain] = [()]
    for node in range(1, len(of)):
        chain.append((*chain[of.parent[node]], frames[of.frame[node]]))
    values: Counter[Chain] = Counter()
    for node, value in enumerate(of.values[metric].tolist()):
        if value:
            values[chain[node]] += value
    return values


def _chains(segment: Segment, frames: list[Frame]) -> list[Chain]:
    chains: list[Chain] = [()]
    for parent, frame in zip(segment.parent[1:].tolist(), segment.frame[1:].tolist(), strict=True):
        chains.append((*chains[parent], frames[frame]))
    return chains
