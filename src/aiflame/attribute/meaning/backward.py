"""Finds the forward code that made the autograd node of backward work.

A node is identified by torch's number of the thread that made it and its sequence number in that thread. Forward work has the number of the
node that its thread made last: an op makes its node before it runs, so its launches have the node's number, and their stack has its layer.
A node without launches in the forward pass (`chunk` launches nothing, its gradient does) gets its layer from `layer_calls`, which record
the module call that made each node. CPU samples hit few of these moments: their layer always comes from such a call, and their stack from
forward work of the same layer and op.

If neither is recorded, a node gets the layer of its neighbours in the sequence, or the common part of their paths. A sum of gradients gets
the common path of the nodes that gave the gradients (`gradient_sums`). Hooks, and sums that were not recorded, run between nodes and belong
to the previous node.
"""

from __future__ import annotations

import numpy as np
import polars as pl

from aiflame.attribute.arrays import nodes
from aiflame.attribute.arrays.lookup import find
from aiflame.attribute.arrays.types import Ints, Mask
from aiflame.attribute.meaning.gradient_sums import gradient_sums
from aiflame.attribute.meaning.layers import StackLayers
from aiflame.attribute.meaning.op_names import same_op
from aiflame.attribute.meaning.ops import StackOps, Where
from aiflame.attribute.meaning.sequences import Moments, Sequences
from aiflame.profile.schema.frame_words import is_backward, torch_thread
from aiflame.profile.tables.interface import Tables
from aiflame.values import dataclass, replace

COMPILED = "CompiledFunction"
"""The node of a whole compiled graph. Its ops are those that run in it."""
_NO_NUMBER = 0xFFFFFFFF
"""`sequence` of nodes that accumulate the gradient of a parameter."""


@dataclass(frozen=True, slots=True)
class ForwardOf:
    """The forward code of each item; items of forward work are included."""

    backward: Mask
    """True for work of a node of the backward pass, or between nodes. Modules that run in the backward pass do not count: their forward
    code runs again."""
    stack: Ints
    """The stack that gives the Python line: for backward work the forward stack of the same process that made the node (0: unknown), for
    other work its own."""
    layer: Ints
    """The layer path (node of the layers' forest), 0: none. For backward work, the path of its node, or the common path of the node's
    neighbours."""
    op: Ints
    """The op (row of the ops' names), 0: none. For backward work, the forward op that made its node."""


def origins(profile: Tables, items: pl.DataFrame, layers: StackLayers, ops: StackOps) -> ForwardOf:
    """`items`: process, thread, stack, time_ns, autograd, sequence, and `gpu`: it is a launch or a graph's node, not a CPU sample."""
    columns = (
        items[name].to_numpy().astype(np.int64, copy=False) for name in ("process", "thread", "stack", "time_ns", "autograd", "sequence")
    )
    process, thread, stack, time_ns, autograd, sequence = columns
    # There may be tens of millions of items, so small numbers stay in small types.
    place, own = ops.places(process, stack), layers.of_stacks(process, stack)
    op, node_op = (ops.at(column.astype(np.int32), place) for column in (ops.op, ops.node))
    where = ops.at(ops.where.astype(np.int8), place)
    del place
    in_backward = is_backward(autograd)
    backward = in_backward | (where == Where.ENGINE) | ((where == Where.NODE) & (autograd == 0))
    placed = ~backward | (where == Where.RECOMPUTED)  # their stack has the layer already

    same = _same_ops(ops)
    thread_of_torch = torch_thread(process, autograd)
    owner = np.searchsorted(nodes.distinct(thread_of_torch), thread_of_torch)
    del thread_of_torch
    sequences = Sequences.of_forward(
        Moments(owner, sequence, time_ns, process << 32 | thread, same[op]),
        np.flatnonzero((autograd > 0) & ~backward),
    )
    asked = np.flatnonzero(in_backward & ~placed & (sequence != _NO_NUMBER))
    gpu = items["gpu"].to_numpy().astype(np.bool_)
    maker = np.full(len(items), -1, dtype=np.int32 if len(items) < 1 << 31 else np.int64)
    layer, has_layer = np.where(placed, own, 0), placed.copy()
    of_nodes = _OfNodes(layers, own, process, autograd, gpu)
    maker[asked], layer[asked], has_layer[asked] = of_nodes.find(sequences, asked, same[node_op[asked]])
    _add_sums(profile, of_nodes, sequences, process << 32 | thread, asked, layer, has_layer)
    _fill(process << 32 | thread, time_ns, gpu, backward, has_layer, layer, layers)
    layer = np.where(backward & ~has_layer & (layer == 0), own, layer)

    in_node = np.flatnonzero(backward & ~placed & (where != Where.ENGINE))
    op[in_node] = _forward_ops(ops, node_op[in_node], np.where(maker[in_node] >= 0, op[maker[in_node]], 0), op[in_node])
    line = np.where(placed, stack, np.where(maker >= 0, stack[maker], 0))
    lost = np.flatnonzero(backward & (line == 0) & (layer > 0))
    line[lost] = _alike(process, stack, layer, same[op], np.flatnonzero(~backward), lost)
    return ForwardOf(backward & ~placed, line, layer, op)


def _same_ops(ops: StackOps) -> Ints:
    """For each op a number that is the same for its in-place form and for the op after which its node is named; 0 for none."""
    numbers: dict[str, int] = {"": 0}
    return np.array([numbers.setdefault(same_op(name), len(numbers)) for name in ops.names], dtype=np.int32)


@dataclass(frozen=True, slots=True)
class _OfNodes:
    """Finds the layers of nodes."""

    layers: StackLayers
    own: Ints
    """For each item the layer of its stack, then its process, `autograd` and `gpu`."""
    process: Ints
    autograd: Ints
    gpu: Mask

    def find(self, sequences: Sequences, asked: Ints, op: Ints) -> tuple[Ints, Ints, Mask]:
        """For the node of each asked item: the forward item that made it (-1: none), its layer, and whether it has a layer."""
        maker = sequences.makers(asked, op)
        has_maker = maker >= 0
        layer, has_layer = np.where(has_maker, self.own[maker], 0), has_maker.copy()
        layer[~has_maker], has_layer[~has_maker] = self._between_neighbours(sequences, asked[~has_maker])
        called = np.flatnonzero(~self.gpu[asked] | ~has_maker)
        of_call, by_call = self._by_calls(sequences, asked[called])
        layer[called[by_call]], has_layer[called[by_call]] = of_call[by_call], True
        return maker, layer, has_layer

    def _between_neighbours(self, sequences: Sequences, asked: Ints) -> tuple[Ints, Mask]:
        """The layer that the neighbours of each node share, and whether there are any neighbours."""
        before, after = sequences.neighbours(asked)
        one, other = self.own[np.where(before >= 0, before, after)], self.own[np.where(after >= 0, after, before)]
        there = (before >= 0) | (after >= 0)
        return np.where(there, self.layers.shared(one, other), 0), there

    def _by_calls(self, sequences: Sequences, asked: Ints) -> tuple[Ints, Mask]:
        """The layer of the call that made each node, and whether calls decide the layer. If no call made a node, it belongs to no module,
        provided that other calls were recorded; on a GPU, calls before and after it, since older profiles record none after the first
        launch."""
        calls, path = self.layers.calls, self.layers.call_path
        if not len(path):
            return np.zeros(len(asked), dtype=np.int64), np.zeros(len(asked), dtype=np.bool_)
        thread = torch_thread(self.process[asked], self.autograd[asked])
        sequence, time_ns = sequences.of.sequence[asked], sequences.of.time_ns[asked]
        call = calls.of_nodes(thread, sequence, time_ns)
        others = np.where(self.gpu[asked], calls.around(thread, sequence, time_ns), calls.cover(thread, time_ns))
        return np.where(call >= 0, path[call], 0), (call >= 0) | others


def _add_sums(profile: Tables, of_nodes: _OfNodes, sequences: Sequences, thread: Ints, asked: Ints, layer: Ints, has_layer: Mask) -> None:
    """The gradients of a tensor are added up as they come, from the last op that used it to the first: each sum belongs to the innermost
    layer that made both its own node and the first one. Uses in between are in that layer, too."""
    of = sequences.of
    first = gradient_sums(profile).first_node(thread[asked], of.time_ns[asked], of_nodes.autograd[asked] << 32 | of.sequence[asked])
    sums = asked[first >= 0]
    if not len(sums):
        return
    sequence = of.sequence.copy()
    sequence[sums] = first[first >= 0]
    _, of_first, there = of_nodes.find(replace(sequences, of=replace(of, sequence=sequence)), sums, 0 * sums)
    there &= has_layer[sums]
    layer[sums[there]] = of_nodes.layers.shared(layer[sums[there]], of_first[there])


def _fill(owner: Ints, time_ns: Ints, gpu: Mask, backward: Mask, has_layer: Mask, layer: Ints, layers: StackLayers) -> None:
    """Gives a layer to work between nodes. All launches are recorded, so a launch gets the layer of the previous launch. Samples are
    sparse, so a sample gets the common path of the samples before and after. Forward work of the thread ends a backward pass."""
    if not (backward & ~has_layer).any():
        return
    order = np.lexsort((time_ns, owner))
    place = np.arange(len(order))
    new_owner = np.append(True, np.diff(owner[order]) != 0)[: len(order)]
    anchor = (backward & has_layer)[order]
    stop = (~backward)[order]
    since = np.maximum.accumulate(np.where(stop | new_owner, place, 0))
    before = np.maximum.accumulate(np.where(anchor, place, -1))
    before = np.where((before >= since) & ~stop, before, -1)
    ends = np.append(new_owner[1:], True)[: len(order)]
    until = np.minimum.accumulate(np.where(stop | ends, place, len(order))[::-1])[::-1]
    after = np.minimum.accumulate(np.where(anchor, place, len(order))[::-1])[::-1]
    after = np.where((after <= until) & ~stop, after, -1)
    wanted = np.flatnonzero((backward & ~has_layer)[order] & (before >= 0))
    one = layer[order[before[wanted]]]
    second = np.where(gpu[order[wanted]] | (after[wanted] < 0), before[wanted], after[wanted])
    layer[order[wanted]] = layers.shared(one, layer[order[second]])
    has_layer[order[wanted]] = True


def _forward_ops(ops: StackOps, node: Ints, maker: Ints, own: Ints) -> Ints:
    """The forward op of work in a node: the op after which the node is named, otherwise the op that launched there in the forward pass,
    otherwise the running op."""
    compiled = np.array([name == COMPILED for name in ops.names])[node]
    named = np.where(compiled, own, node)
    return np.where(named > 0, named, np.where(maker > 0, maker, np.where(own > 0, own, node)))


def _alike(process: Ints, stack: Ints, layer: Ints, same: Ints, forward: Ints, asked: Ints) -> Ints:
    """The first stack of forward work with the layer and op of each asked item; 0 for none."""
    forward = forward[(layer[forward] > 0) & (same[forward] > 0)]
    place = process << 32 | layer
    places = nodes.distinct(place[forward])
    at, there = find(places, place[asked])
    key = np.searchsorted(places, place[forward]) << 32 | same[forward]
    order = np.argsort(key, kind="stable")
    row, alike = find(key[order], at << 32 | same[asked])
    return np.where(there & alike, np.append(stack[forward][order], 0)[row], 0)
