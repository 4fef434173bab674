"""Finds the layer of each stack: the modules whose `forward` runs there, as a path of names.

A path has a frame for each name, `layers.3` and then `attn`; work in a model itself is placed under the model's class. Where a process runs
several models, the class is the first frame of every path. A module that is no child of the one around it adds a path of its own.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from aiflame.attribute.analysis import Analysis, once
from aiflame.attribute.arrays import nodes
from aiflame.attribute.arrays.types import Ints
from aiflame.attribute.forest import Forest
from aiflame.attribute.meaning.layer_calls import LayerCalls, layer_calls
from aiflame.attribute.meaning.layer_names import LayerNames, Module, ModulePath
from aiflame.attribute.meaning.torch_frames import torch_frames
from aiflame.attribute.stacks.table import StackKeys
from aiflame.attribute.tree import Frame, frame_table
from aiflame.profile.schema.frame_words import layer_rows
from aiflame.values import dataclass


@dataclass(frozen=True, slots=True)
class StackLayers:
    forest: Forest
    """Layer paths, a frame (Kind.LAYER) for each name: `layers.3`, then `attn`. Node 0: no layer."""
    stacks: StackKeys
    path: Ints
    """For each row of `stacks` its node of `forest`. Inside the backward pass: the path of the modules that are called there, if any."""
    calls: LayerCalls
    call_path: Ints
    """For each call its node of `forest`."""

    def of_stacks(self, process: Ints, stack: Ints) -> Ints:
        """The layer path of each stack, 0 if the profile has no such stack."""
        return self.stacks.at(self.path, process, stack)

    def shared(self, one: Ints, other: Ints) -> Ints:
        """The path that two paths have in common, 0 for none."""
        return _common(self.forest.parent, one, other)


@once
def layers(profile: Analysis) -> StackLayers:
    """The layer path of every stack of the profile."""
    frames = torch_frames(profile)
    words, calls = frames.words, layer_calls(profile)
    at = nodes.nearest(words.parent, frames.layer)
    layer_nodes = np.flatnonzero(frames.layer)
    boundary = nodes.nearest(words.parent, frames.layer | frames.engine | frames.in_node, strict=True)[layer_nodes]
    outer = np.where((boundary >= 0) & frames.layer[boundary], np.searchsorted(layer_nodes, boundary), -1)
    row = layer_rows(words.distinct["frame"].to_numpy()[words.word[layer_nodes]])
    process = words.distinct["process"].to_numpy()[words.word[layer_nodes]].astype(np.int64)

    # Chains of modules are few, however many stacks and calls there are.
    module = np.concatenate([process << 32 | row, calls.process << 32 | calls.layer])
    parent = np.concatenate([outer, np.where(calls.parent >= 0, calls.parent + len(layer_nodes), -1)])
    distinct = nodes.distinct(module)
    which = np.searchsorted(distinct, module)
    above = np.concatenate([[-1], parent + 1]).astype(np.int32)
    chains, chain_module, place = nodes.merge_siblings(above, np.concatenate([[0], which]).astype(np.uint32))
    modules = [(number >> 32, number & 0xFFFFFFFF) for number in distinct.tolist()]
    of_chains = [modules[row] for row in chain_module.tolist()[1:]]
    forest, of_chain = _paths(LayerNames(profile, modules), chains.tolist()[1:], of_chains)

    path = of_chain[place[1:]]
    of_node = np.where(at >= 0, np.append(path, 0)[np.searchsorted(layer_nodes, np.maximum(at, 0))], 0)
    return StackLayers(forest, words.stacks.keys, of_node[1:], calls, path[len(layer_nodes) :])


@dataclass(frozen=True, slots=True)
class _Chain:
    """A chain of modules, one called inside of the other."""

    own: int
    """The unordered node of its innermost module."""
    base: int
    """The unordered node under which inner modules are added; -1 for none."""
    place: ModulePath | None


def _paths(names: LayerNames, parent: list[int], module: list[Module]) -> tuple[Forest, Ints]:
    """The frames of chains, which are given by their parents' numbers and innermost modules: a forest, and the node of each chain. Chains
    are numbered from 1; 0 is the empty chain."""
    places: list[ModulePath | None] = [None]
    inside: list[ModulePath | None] = [None]
    for around, each in zip(parent, module, strict=True):
        inside.append(names.inside(each, places[around]))
        places.append(inside[-1] or places[around])
    numbers = _models(names, places)
    grown = _Loose()
    chains = [_Chain(-1, -1, None)]
    for around, each, place in zip(parent, module, inside[1:], strict=True):
        chains.append(_chain(names, grown, numbers, chains[around], each, place))
    forest, of_loose = Forest.of_chains(np.array(grown.parent, dtype=np.int64), frame_table(grown.frames)[1:])
    return forest, np.append(of_loose, 0)[[chain.own for chain in chains]]


def _chain(
    names: LayerNames, grown: _Loose, numbers: Mapping[Module, int], outer: _Chain, module: Module, place: ModulePath | None
) -> _Chain:
    if place is None:
        node = grown.add(outer.base, [names.class_frame(module)])
        return _Chain(node, node, outer.place)
    around = outer.place
    if around is not None and place.root == around.root and place.path[: len(around.path)] == around.path:
        if place.path == around.path:
            return outer
        node = grown.add(outer.base, names.frames(place, len(around.path)))
        return _Chain(node, node, place)
    base = outer.base
    if place.root in numbers and (around is None or around.root != place.root):
        base = grown.add(base, [names.root_frame(place, numbers[place.root])])
    if place.path:
        node = grown.add(base, names.frames(place))
        return _Chain(node, node, place)
    return _Chain(base if base != outer.base else grown.add(base, [names.root_frame(place)]), base, place)


class _Loose:
    """Frames that are added on top of others, in any order."""

    def __init__(self) -> None:
        self.parent: list[int] = []
        self.frames: list[Frame] = []

    def add(self, base: int, frames: list[Frame]) -> int:
        for frame in frames:
            self.parent.append(base)
            self.frames.append(frame)
            base = len(self.frames) - 1
        return base


def _models(names: LayerNames, places: list[ModulePath | None]) -> dict[Module, int]:
    """The models of each process that runs several, whose paths begin with their class and number: model → its number among the models of
    its class. A module without children does not count as a model."""
    roots = sorted({place.root for place in places if place is not None and place.path})
    several: dict[int, int] = {}
    for process, _ in roots:
        several[process] = several.get(process, 0) + 1
    numbers: dict[Module, int] = {}
    counts: dict[tuple[int, str], int] = {}
    for root in roots:
        if several[root[0]] > 1:
            key = root[0], names.root_frame(ModulePath(root, ())).name
            counts[key] = numbers[root] = counts.get(key, 0) + 1
    return numbers


def _common(parent: Ints | np.ndarray, one: Ints, other: Ints) -> Ints:
    """The deepest node at or above both nodes. Nodes have greater numbers than their parents."""
    one, other = one.copy(), other.copy()
    while True:
        more, less = one > other, other > one
        if not (more | less).any():
            return one
        one = np.where(more, np.maximum(parent[one], 0), one)
        other = np.where(less, np.maximum(parent[other], 0), other)
