"""Hooks in torch: finds autograd's sequence numbers in memory, names modules, and records steps and calls of models."""

from __future__ import annotations

import ctypes
from types import CodeType, FunctionType, ModuleType
from typing import Any

import _aiflame

from . import memory_growth, torch_layers, torch_steps


def install(torch: Any) -> None:
    """Called when the program has imported torch."""
    calibrate(torch)
    watch_models(torch)
    keep_out_of_graphs(torch, memory_growth)
    for part in (torch_layers, torch_steps):
        keep_out_of_graphs(torch, part)
        part.install(torch)


def recording_began() -> None:
    torch_layers.recording_began()


def calibrate(torch: Any) -> None:
    """Shows the collector four autograd nodes and their sequence numbers, so that it finds the offset of the number in a node.

    The graph is such that no other field of the nodes grows like the sequence number, or is constant."""
    with torch.inference_mode(False), torch.enable_grad():
        leaf = torch.ones(1, dtype=torch.float32, device="cpu", requires_grad=True)
        first, second = leaf.clone(), leaf.clone()
        third = second.clone()
        tensors = [first, second, third, third.clone()]
    for tensor in tensors:
        node = tensor.grad_fn
        # The pointer to the C++ node follows the head of the Python object.
        address = ctypes.c_uint64.from_address(id(node) + object.__basicsize__).value
        _aiflame.calibrate_autograd(address, node._sequence_nr(), 0)


def watch_models(torch: Any) -> None:
    """Has the collector record calls of modules that no other module calls, and shows it a tensor, so that it can read shapes."""
    call = vars(torch.nn.Module).get("__call__")
    if isinstance(call, FunctionType):
        tensor = torch.empty(0, dtype=torch.int64, device="cpu")
        sizes = type(call).__basicsize__, type(tensor).__basicsize__
        _aiflame.watch_model_calls(call, type(tensor), tensor, tensor._cdata, *sizes)


def keep_out_of_graphs(torch: Any, module: ModuleType) -> None:
    """Keeps Dynamo from ever compiling these functions."""
    dynamo = torch._C._dynamo.eval_frame
    for code in codes_of(module):
        if hasattr(dynamo, "set_code_exec_strategy"):
            skip = dynamo._FrameAction.SKIP
            dynamo.set_code_exec_strategy(code, dynamo._FrameExecStrategy(skip, skip))
        elif hasattr(dynamo, "skip_code"):
            dynamo.skip_code(code)


def codes_of(module: ModuleType) -> list[CodeType]:
    """The code of every function, method and inner function that the module defines."""
    codes: list[CodeType] = []
    functions = [value for value in vars(module).values() if isinstance(value, FunctionType)]
    for kind in [value for value in vars(module).values() if isinstance(value, type)]:
        functions += [value for value in vars(kind).values() if isinstance(value, FunctionType)]
    waiting = [function.__code__ for function in functions if function.__module__ == module.__name__]
    while waiting:
        code = waiting.pop()
        codes.append(code)
        waiting += [inner for inner in code.co_consts if isinstance(inner, CodeType)]
    return codes
