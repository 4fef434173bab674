"""`device_memory.py NAME` (`train`, `oom`, … `launch`, `llama`): memory of the first device, as torch counts it at random moments.

Prints one line of JSON: `moments` (CLOCK_MONOTONIC, bytes allocated, bytes reserved), `most` (bytes allocated at the peak), and `sizes`
that the model has by construction. `launch` and `llama` are steps of the benchmark of that name: `steps` (CLOCK_MONOTONIC at the end, ns).
"""

from __future__ import annotations

import contextlib
import json
import random
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch import nn

MOMENTS = 20
SECONDS = 12
STEPS = 6
ROUNDED = 512
"""The allocator rounds sizes up to a multiple of it."""
WIDTH, INNER, BATCH, LAYERS = 1024, 4096, 8192, 4

chance = random.Random(7)
moments: list[tuple[int, int, int]] = []


def look() -> None:
    moments.append((time.monotonic_ns(), torch.cuda.memory_allocated(), torch.cuda.memory_reserved()))


def look_at_random(model: nn.Module) -> None:
    """Before and after calls of modules, forward and backward."""
    for module in model.modules():
        module.register_forward_hook(lambda *_: look() if chance.random() < 0.3 else None)


def size(tensors: object) -> int:
    return sum(-(-tensor.numel() * tensor.element_size() // ROUNDED) * ROUNDED for tensor in tensors)


def llama(hidden: int) -> nn.Module:
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        hidden_size=hidden, intermediate_size=3 * hidden, num_hidden_layers=6, num_attention_heads=8, num_key_value_heads=8, vocab_size=8000
    )
    return LlamaForCausalLM(config).cuda()


def train() -> dict[str, int]:
    model = llama(512)
    look_at_random(model)
    optimizer = torch.optim.AdamW(model.parameters(), foreach=False)
    words = torch.randint(0, 8000, (8, 128), device="cuda")
    for _ in range(STEPS):
        optimizer.zero_grad(set_to_none=True)
        model(input_ids=words, labels=words).loss.backward()
        look()
        optimizer.step()
        look()
    states = [state for one in optimizer.state.values() for state in one.values() if torch.is_tensor(state) and state.is_cuda]
    return {"parameters": size(model.parameters()), "optimizer state": size(states)}


def generate() -> dict[str, int]:
    model = llama(512).eval()
    look_at_random(model)
    words = torch.randint(0, 8000, (4, 16), device="cuda")
    model.generate(words, max_new_tokens=40, do_sample=False, pad_token_id=0, eos_token_id=None)
    return {"parameters": size(model.parameters())}


def compiled() -> dict[str, int]:
    model = nn.Sequential(*(nn.Sequential(nn.Linear(WIDTH, INNER), nn.GELU(), nn.Linear(INNER, WIDTH)) for _ in range(2))).cuda()
    quick = torch.compile(model, mode="reduce-overhead")
    optimizer = torch.optim.SGD(model.parameters(), momentum=0.9)
    x = torch.randn(512, WIDTH, device="cuda")
    for _ in range(12):
        torch.compiler.cudagraph_mark_step_begin()
        optimizer.zero_grad(set_to_none=True)
        quick(x).square().mean().backward()
        look()
        optimizer.step()
        look()
    return {"parameters": size(model.parameters())}


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(WIDTH, INNER), nn.Linear(INNER, WIDTH)

    def forward(self, value: torch.Tensor) -> torch.Tensor:
        return self.down(torch.relu(self.up(value)))


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(Block() for _ in range(LAYERS))

    def forward(self, value: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            value = layer(value)
        return value


def layers() -> dict[str, int]:
    """Each layer saves the result of relu, and its own for the next layer and the loss. At the peak, in the last layer's backward pass, the
    loss has given its own back."""
    model = Net().cuda()
    optimizer = torch.optim.AdamW(model.parameters(), foreach=False)
    x = torch.randn(BATCH, WIDTH, device="cuda")
    for _ in range(STEPS):
        optimizer.zero_grad(set_to_none=True)
        model(x).square().mean().backward()
        optimizer.step()
    relu, down = 4 * BATCH * INNER, 4 * BATCH * WIDTH
    return {"relu": relu, "down": down, "saved at the peak": LAYERS * relu + (LAYERS - 1) * down, "parameters": size(model.parameters())}


def oom() -> dict[str, int]:
    """The allocator may have 1 GiB: the program asks for twice that, and goes on."""
    torch.cuda.set_per_process_memory_fraction((1 << 30) / torch.cuda.get_device_properties(0).total_memory)
    kept = [torch.empty(100 << 20, dtype=torch.uint8, device="cuda") for _ in range(6)]
    with contextlib.suppress(torch.cuda.OutOfMemoryError):
        asks_for_too_much()
    return {"kept": size(kept)}


def asks_for_too_much() -> torch.Tensor:
    return torch.empty(2 << 30, dtype=torch.uint8, device="cuda")


def fragmented() -> dict[str, int]:
    """Blocks of growing sizes, of which every other one is freed: no later one fits into the holes. `reserved`: the most bytes that the
    allocator had; `left`: those that it has at the end."""
    kept = []
    for number in range(120):
        kept.append(torch.empty((1 << 20) * (number % 40 + 2) + 512 * chance.randrange(2000), dtype=torch.uint8, device="cuda"))
        if number % 2:
            kept.pop(chance.randrange(len(kept)))
        if number == 90:
            torch.cuda.empty_cache()
    return {"reserved": torch.cuda.max_memory_reserved(), "left": torch.cuda.memory_reserved()}


def timed(workload: str) -> None:
    """Steps for some seconds, each to its end on the device."""
    sys.path.insert(0, str(Path(__file__).parents[3] / "benchmarks/gpu"))
    import gpu_workloads

    place = gpu_workloads.Place("cuda", small=False)
    step = gpu_workloads.training(place, gpu_workloads.LAUNCH_BOUND) if workload == "launch" else gpu_workloads.llama(place)
    steps, ends = [], time.monotonic() + SECONDS
    while time.monotonic() < ends:
        began = time.monotonic_ns()
        step()
        torch.cuda.synchronize()
        now = time.monotonic_ns()
        steps.append((now, now - began))
    print(json.dumps({"steps": steps}))


def main() -> None:
    ways: dict[str, Callable[[], dict[str, int]]] = {
        "train": train, "generate": generate, "compiled": compiled, "layers": layers, "oom": oom, "fragmented": fragmented
    }  # fmt: skip
    sizes = ways[sys.argv[1]]()
    torch.cuda.synchronize()
    look()
    shown = sorted(chance.sample(moments[:-1], min(MOMENTS, len(moments) - 1))) + moments[-1:]
    print(json.dumps({"moments": shown, "most": torch.cuda.max_memory_allocated(), "sizes": sizes}))


if sys.argv[1] in ("launch", "llama"):
    timed(sys.argv[1])
else:
    main()
