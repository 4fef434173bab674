"""The place of a thread in torch's autograd, in every situation: prints [value read, true value] for each scene.

Runs in an interpreter with torch; the collector's library, by its path, is loaded into it.
"""

from __future__ import annotations

import ctypes
import json
import sys
import threading
from typing import Any

import torch
from torch.utils.checkpoint import checkpoint

BACKWARD = 1 << 15
Point = tuple[int, int]
library = ctypes.CDLL(sys.argv[1])
for function in (library.autograd_now, library.autograd_next, library.autograd_in_tick, library.autograd_ns_for):
    function.restype = ctypes.c_uint64
library.autograd_ns_for.argtypes = [ctypes.c_uint64]
library.autograd_calibrate.argtypes = [ctypes.c_uint64, ctypes.c_uint64]


def point(ask: Any = library.autograd_now) -> Point:
    packed = ask()
    return packed >> 32, packed & 0xFFFFFFFF


def in_tick() -> Point:
    return point(library.autograd_in_tick)


def looking(read: list[Any], *asks: Any) -> Any:
    """A hook that appends the answer of each function."""

    def hook(*gradients: Any) -> None:
        read.extend(ask() for ask in asks)

    return hook


def calibrate() -> None:
    leaf = torch.ones(1, requires_grad=True)
    first, second = leaf.clone(), leaf.clone()
    third = second.clone()
    for tensor in (first, second, third, third.clone()):
        address = ctypes.c_uint64.from_address(id(tensor.grad_fn) + object.__basicsize__).value
        library.autograd_calibrate(address, tensor.grad_fn._sequence_nr())


def parameter() -> torch.Tensor:
    return torch.ones(4, requires_grad=True)


def before_calibration() -> list[Any]:
    return [[point(), point(library.autograd_next), in_tick()], [(0, 0), (0, 0), (0, 0)]]


def forward() -> list[Any]:
    read, true = [], []
    value = parameter()
    for _ in range(5):
        value = value * 2 + 1
        read += [point(), in_tick(), point(library.autograd_next)]
        number = value.grad_fn._sequence_nr()
        true += [(1, number), (1, number), (1, number + 1)]
    return [read, true]


def nodes_of(tensor: torch.Tensor) -> list[Any]:
    nodes, waiting = [], [tensor.grad_fn]
    while waiting:
        node = waiting.pop()
        if node is not None and node not in nodes:
            nodes.append(node)
            waiting += [after for after, _ in node.next_functions]
    return nodes


def backward() -> list[Any]:
    read: list[Any] = []
    true: list[Any] = []
    layer = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.LayerNorm(4), torch.nn.GELU(), torch.nn.Linear(4, 1))
    loss = layer(torch.ones(2, 4)).sum()
    for node in nodes_of(loss):
        if node.name() == "torch::autograd::AccumulateGrad":
            continue
        true_one = (BACKWARD | 1, node._sequence_nr())
        node.register_prehook(looking(read, point, in_tick))
        node.register_prehook(looking(true, lambda one=true_one: one, lambda one=true_one: one))
    loss.backward()
    read.append(point())
    true.append((1, loss.grad_fn._sequence_nr()))
    return [read, true]


def adding_up() -> list[Any]:
    """In a hook, a sum of gradients belongs to the node that ran before; a tick may have missed that node, and then has none."""
    read: list[Any] = []
    leaf = parameter()
    loss = leaf.sin().sum()
    before = loss.grad_fn.next_functions[0][0]
    accumulate = before.next_functions[0][0]
    before.register_prehook(looking([], point))
    accumulate.register_prehook(looking(read, point, in_tick))
    loss.backward()
    return [read, [(BACKWARD | 1, before._sequence_nr()), (BACKWARD | 1, 0xFFFFFFFF)]]


def custom_function() -> list[Any]:
    read: list[Any] = []

    class Double(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, value: torch.Tensor) -> torch.Tensor:
            read.append(point())
            return value * 2

        @staticmethod
        def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
            read.append(point())
            return gradient * 2

    doubled = Double.apply(parameter())
    number = doubled.grad_fn._sequence_nr()
    doubled.sum().backward()
    return [read, [(1, number), (BACKWARD | 1, number)]]


def checkpointed(reentrant: bool) -> list[Any]:
    """Code that is computed again in the backward pass is forward code; one way with nodes of its own, the other way as the node's work."""
    read, true = [], []

    def block(value: torch.Tensor) -> torch.Tensor:
        sine = value.sin()
        if torch.is_grad_enabled():
            read.append(point()[0] if not reentrant else point())
            true.append((1, sine.grad_fn._sequence_nr()))
        return sine.cos()

    result = checkpoint(block, parameter() * 1, use_reentrant=reentrant)
    result.sum().backward()
    return [read, true if reentrant else [1, BACKWARD | 1]]


def other_thread() -> list[Any]:
    """Nodes carry the number of the thread that made them."""
    points: list[Any] = []

    def run() -> None:
        points.append([point(), in_tick()])
        value = parameter() * 3
        points.extend([point(), value])

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    untouched, (number, sequence), value = points
    seen: list[Point] = []
    node = value.grad_fn
    node.register_prehook(looking(seen, point))
    value.sum().backward()
    return [[untouched, number > 1, sequence, *seen], [[(0, 0), (5, 77)], True, node._sequence_nr(), (BACKWARD | number, sequence)]]


def twice() -> list[Any]:
    """With create_graph, backward code makes nodes: it stays the work of the node that runs."""
    read: list[Point] = []
    leaf = parameter()
    loss = leaf.exp().sum()
    node = loss.grad_fn.next_functions[0][0]
    node.register_hook(looking(read, point))
    torch.autograd.grad(loss, leaf, create_graph=True)
    return [read, [(BACKWARD | 1, node._sequence_nr())]]


def main() -> None:
    results: dict[str, Any] = {"before_calibration": before_calibration()}
    state = torch.get_rng_state()
    calibrate()
    for scene in (forward, backward, adding_up, custom_function, other_thread, twice):
        results[scene.__name__] = scene()
    results["checkpointed_reentrant"] = checkpointed(True)
    results["checkpointed"] = checkpointed(False)
    results["numbers_drawn"] = [bool((torch.get_rng_state() == state).all()), False]  # Linear's weights are
    library.autograd_ns_for(1000)
    results["ns"] = min(library.autograd_ns_for(100_000) for _ in range(20)) / 100_000
    print(json.dumps(results))


main()
