"""Programs to profile, each a step that repeats: `python benchmarks/gpu/gpu_workloads.py launch gpu decode [--seconds 3]`.

Prints one line a workload, `RESULT {"workload", "ms", …}`: the median step, by the host's clock, the device synchronised after each.
Several workloads in one process share the cost of its start. `--small` and `--device cpu` are for trying the programs out.

- `launch`: a training step of a small transformer, bound by launches · `gpu`: of a large one, bound by the GPU
- `decode`: one token of a Llama-like decoder, module in module in module: 20 and more Python frames a launch, hundreds of launches
- `llama`: one token of Hugging Face's Llama with random weights, eager, with its cache
- `compiled`: the small transformer under torch.compile · `graph`: its whole step replayed from a CUDA graph
- `many`: a thousand small kernels

With `--turns` each line that it reads, `launch 0.4`, has it run that workload for so many seconds: two processes can take turns.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
from gpu_models import DECODER, GPU_BOUND, LAUNCH_BOUND, SMALL, WORDS, LanguageModel, Size, Transformer
from torch import Tensor
from torch.nn import functional

Step = Callable[[], object]


@dataclass(frozen=True, slots=True)
class Place:
    """Where a workload runs, and how large it is there."""

    device: str
    small: bool

    def size(self, full: Size) -> Size:
        return SMALL if self.small else full

    @property
    def dtype(self) -> torch.dtype:
        return torch.bfloat16 if self.device == "cuda" else torch.float32

    def synchronize(self) -> None:
        if self.device == "cuda":
            torch.cuda.synchronize()


def training(place: Place, full: Size, *, compiled: bool = False, capturable: bool = False) -> Step:
    size = place.size(full)
    model = Transformer(size).to(place.device, place.dtype)
    forward = torch.compile(model) if compiled else model
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, capturable=capturable)
    words = torch.randint(0, WORDS, (size.batch, size.tokens), device=place.device)

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        logits = forward(words)
        loss = functional.cross_entropy(logits.view(-1, WORDS).float(), words.view(-1))
        loss.backward()
        optimizer.step()

    return step


def replayed(place: Place) -> Step:
    """The whole training step as one CUDA graph; without a GPU, just the step."""
    step = training(place, LAUNCH_BOUND, capturable=place.device == "cuda")
    if place.device != "cuda":
        return step
    aside = torch.cuda.Stream()
    aside.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(aside):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(aside)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    return lambda: graph.replay()


class Generation:
    """Greedy decoding, a token at a time; begins anew when the cache is full."""

    def __init__(self, place: Place) -> None:
        self.size = place.size(DECODER)
        self.model = LanguageModel(self.size).to(place.device, place.dtype).eval()
        self.words = torch.zeros((self.size.batch, 1), dtype=torch.long, device=place.device)
        self.position = torch.zeros(1, dtype=torch.long, device=place.device)
        self.tokens = 0

    def token(self) -> None:
        if self.tokens == self.size.tokens:
            self.tokens = 0
            self.position.zero_()
        self.tokens += 1
        self.words = self.sample(self.next_logits())
        self.position += 1

    @torch.no_grad()
    def next_logits(self) -> Tensor:
        return self.model(self.words, self.position, self.tokens)

    def sample(self, logits: Tensor) -> Tensor:
        return logits[:, -1].argmax(dim=-1, keepdim=True)


def llama(place: Place) -> Step:
    """A token of transformers' own model; the cache begins anew when it is full."""
    from transformers import DynamicCache, LlamaConfig, LlamaForCausalLM

    size = place.size(DECODER)
    config = LlamaConfig(
        vocab_size=WORDS,
        hidden_size=size.width,
        intermediate_size=3 * size.width,
        num_hidden_layers=size.layers,
        num_attention_heads=size.heads,
        num_key_value_heads=size.heads,
    )
    model = LlamaForCausalLM(config).to(place.device, place.dtype).eval()
    words, cache = torch.zeros((1, 1), dtype=torch.long, device=place.device), DynamicCache()

    @torch.no_grad()
    def token() -> None:
        nonlocal words, cache
        if cache.get_seq_length() == size.tokens:
            cache = DynamicCache()
        words = model(input_ids=words, past_key_values=cache, use_cache=True).logits[:, -1].argmax(dim=-1, keepdim=True)

    return token


def small_kernels(place: Place) -> Step:
    x = torch.zeros(32, device=place.device)
    add = x.add_

    def step() -> None:
        for _ in range(1000):
            add(1.0)

    return step


WORKLOADS: dict[str, Callable[[Place], Step]] = {
    "launch": lambda place: training(place, LAUNCH_BOUND),
    "gpu": lambda place: training(place, GPU_BOUND),
    "decode": lambda place: Generation(place).token,
    "llama": llama,
    "compiled": lambda place: training(place, LAUNCH_BOUND, compiled=True),
    "graph": replayed,
    "many": small_kernels,
}


WARM_STEPS = {"decode": DECODER.tokens, "llama": DECODER.tokens}
"""Attention makes a plan for each length that it has not met yet, which takes as long as many tokens."""


def timed(step: Step, place: Place, seconds: float, steps: int = 0) -> list[float]:
    """Milliseconds of each step: for so many seconds, or so many steps."""
    took: list[float] = []
    end = time.perf_counter() + seconds
    while len(took) < steps if steps else time.perf_counter() < end or len(took) < 3:
        begin = time.perf_counter()
        step()
        place.synchronize()
        took.append((time.perf_counter() - begin) * 1e3)
    return took


def measured(step: Step, place: Place, seconds: float, steps: int) -> tuple[list[float], dict[str, object]]:
    """Milliseconds of each step; and of the launching thread, in the mean step, its CPU time in ms and its context switches.
    `witness_ms`: a loop of pure Python right after, which says how fast the machine's processor is in this process."""
    before, cpu = resource.getrusage(resource.RUSAGE_THREAD), time.thread_time()
    took = timed(step, place, seconds, steps)
    cpu, after = time.thread_time() - cpu, resource.getrusage(resource.RUSAGE_THREAD)
    switches = after.ru_nvcsw + after.ru_nivcsw - before.ru_nvcsw - before.ru_nivcsw
    begin = time.perf_counter()
    for _ in range(1_000_000):
        pass
    witness = (time.perf_counter() - begin) * 1e3
    each: dict[str, object] = {
        "cpu_ms": round(cpu * 1e3 / len(took), 4),
        "switches": round(switches / len(took), 3),
        "witness_ms": round(witness, 2),
    }
    return took, each


def warmed(name: str, place: Place, settle: float = 0.7) -> Step:
    """The workload's step, once it has run often enough that allocations and clocks have settled."""
    torch.manual_seed(0)
    step = WORKLOADS[name](place)
    timed(step, place, seconds=0, steps=2 if place.small else WARM_STEPS.get(name, 10))
    timed(step, place, seconds=0.05 if place.small else settle)
    return step


def summary(name: str, took: list[float], **more: object) -> dict[str, object]:
    low, middle, high = statistics.quantiles(took, n=4)
    tenth = statistics.quantiles(took, n=10)[0]
    figures = {"ms": round(middle, 4), "tenth_ms": round(tenth, 4), "quartiles": [round(low, 4), round(high, 4)], "steps": len(took)}
    return {"workload": name, **figures, **more}


def print_result(result: dict[str, object]) -> None:
    print("RESULT", json.dumps(result), flush=True)


def peak_memory() -> dict[str, int]:
    """Kilobytes of this process: the most that was resident, and the part now resident that is its own (no file behind it)."""
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines() if ":" in line)
    return {"peak_kb": int(status["VmHWM"].split()[0]), "own_kb": int(status["RssAnon"].split()[0])}


def pin(place: Place, forward: int, backward: int) -> None:
    """This thread and autograd's on processors of their own: those of shared machines differ in speed, and both processes of a pair
    are to meet the same."""
    x = torch.ones(1, device=place.device, requires_grad=True) * 1
    x.register_hook(lambda _: os.sched_setaffinity(0, {backward}))
    x.sum().backward()
    os.sched_setaffinity(0, {forward})


def take_turns(steps: dict[str, Step], place: Place) -> None:
    if len(cores := sorted(os.sched_getaffinity(0))) >= 4:
        pin(place, cores[-1], cores[-2])
    print_result({"ready": list(steps)})
    for line in sys.stdin:
        name, seconds = line.split()
        timed(steps[name], place, 0, steps=2)  # caches are another's now
        print_result(summary(name, timed(steps[name], place, float(seconds))))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("workloads", nargs="+", choices=WORKLOADS)
    parser.add_argument("--seconds", type=float, default=3.0, help="of steady steps")
    parser.add_argument("--steps", type=int, default=0, help="so many steps instead")
    parser.add_argument("--settle", type=float, default=0.7, help="seconds of steps before those that are measured")
    parser.add_argument("--device", default="cuda", choices=("cuda", "cpu"))
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--turns", action="store_true", help="run the workloads named on the standard input")
    options = parser.parse_args()
    place = Place(options.device, options.small)
    if options.device == "cpu":
        torch.set_num_threads(1)
    if options.turns:
        take_turns({name: warmed(name, place) for name in options.workloads}, place)
        return
    for name in options.workloads:
        step = warmed(name, place, options.settle)
        took, each = measured(step, place, options.seconds, options.steps)
        del step
        print_result(summary(name, took, **each, **peak_memory(), last_ns=time.monotonic_ns()))


if __name__ == "__main__":
    main()
