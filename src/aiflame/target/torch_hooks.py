"""Facts about torch from inside the program: the place of autograd's numbers, the names of modules, the ends of steps."""

from __future__ import annotations

import ctypes
from types import CodeType, FunctionType, ModuleType
from typing import Any

import _aiflame

from . import torch_layers, torch_steps


def install(torch: Any) -> None:
    """Once the program has imported torch."""
    calibrate(torch)
    for part in (torch_layers, torch_steps):
        keep_out_of_graphs(torch, part)
        part.install(torch)


def recording_began() -> None:
    torch_layers.recording_began()


def calibrate(torch: Any) -> None:
    """Four nodes whose numbers are known. Their places in the graph are such that no other number in them goes with theirs, or stays."""
    with torch.inference_mode(False), torch.enable_grad():
        leaf = torch.ones(1, dtype=torch.float32, device="cpu", requires_grad=True)
        first, second = leaf.clone(), leaf.clone()
        third = second.clone()
        made = [first, second, third, third.clone()]
    for tensor in made:
        node = tensor.grad_fn
        # Behind the head of the Python object lies its pointer to the C++ node.
        address = ctypes.c_uint64.from_address(id(node) + object.__basicsize__).value
        _aiflame.calibrate_autograd(address, node._sequence_nr(), 0)


def keep_out_of_graphs(torch: Any, module: ModuleType) -> None:
    """Dynamo never compiles a frame of these functions, wherever they are called from."""
    dynamo = torch._C._dynamo.eval_frame
    for code in codes_of(module):
        if hasattr(dynamo, "set_code_exec_strategy"):
            skip = dynamo._FrameAction.SKIP
            dynamo.set_code_exec_strategy(code, dynamo._FrameExecStrategy(skip, skip))
        elif hasattr(dynamo, "skip_code"):
            dynamo.skip_code(code)


def codes_of(module: ModuleType) -> list[CodeType]:
    """Of every function, method and inner function that the module defines."""
    found: list[CodeType] = []
    functions = [value for value in vars(module).values() if isinstance(value, FunctionType)]
    for kind in [value for value in vars(module).values() if isinstance(value, type)]:
        functions += [value for value in vars(kind).values() if isinstance(value, FunctionType)]
    waiting = [function.__code__ for function in functions if function.__module__ == module.__name__]
    while waiting:
        code = waiting.pop()
        found.append(code)
        waiting += [inner for inner in code.co_consts if isinstance(inner, CodeType)]
    return found
