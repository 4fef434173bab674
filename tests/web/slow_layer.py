"""The prepared slow program of the guided tour: a transformer of twelve layers, one of which attends through a page table.

By construction: layer 7 of 12 runs `attention_paged` where the others run `attention_fwd`, for 300 µs instead of 10; its warps wait for
memory (long_scoreboard) in 80% of their samples, all but a few of them at the line of attention.py that loads the keys.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from profiles import Row
from stories import US, VENDOR, Story
from written_programs import BACKWARD, CALL_IMPL, DEVICE, FETCH, TORCH

from aiflame.profile.folder.meta import Clocks, Host, Meta
from aiflame.profile.schema.enums import CopyKind
from aiflame.profile.tables.store import Profile

LAYERS, STEPS = 12, 24
SLOW = 7
"""The layer."""
KERNEL, USUAL = "attention_paged", "attention_fwd"
REASON = "long_scoreboard"
SOURCE = "/home/me/llm/attention.py"
TEXT = '''\
import triton
import triton.language as tl


@triton.jit
def attention_fwd(query, keys, values, out, length, BLOCK: tl.constexpr, HEAD: tl.constexpr):
    row = tl.program_id(0)
    column = tl.arange(0, HEAD)
    q = tl.load(query + row * HEAD + column)
    total = tl.zeros([HEAD], tl.float32)
    weight = 0.0
    for first in range(0, length, BLOCK):
        at = first + tl.arange(0, BLOCK)
        k = tl.load(keys + at[:, None] * HEAD + column)
        v = tl.load(values + at[:, None] * HEAD + column)
        score = tl.exp(tl.sum(q * k, 1))
        total += tl.sum(score[:, None] * v, 0)
        weight += tl.sum(score, 0)
    tl.store(out + row * HEAD + column, total / weight)


@triton.jit
def attention_paged(query, keys, values, pages, out, length, BLOCK: tl.constexpr, HEAD: tl.constexpr):
    """Like attention_fwd, for a cache whose tokens lie in any order."""
    row = tl.program_id(0)
    column = tl.arange(0, HEAD)
    q = tl.load(query + row * HEAD + column)
    total = tl.zeros([HEAD], tl.float32)
    weight = 0.0
    for first in range(0, length, BLOCK):
        at = tl.load(pages + first + tl.arange(0, BLOCK))
        k = tl.load(keys + at[:, None] * HEAD + column)
        v = tl.load(values + at[:, None] * HEAD + column)
        score = tl.exp(tl.sum(q * k, 1))
        total += tl.sum(score[:, None] * v, 0)
        weight += tl.sum(score, 0)
    tl.store(out + row * HEAD + column, total / weight)
'''


def _line(start: str, kernel: str) -> int:
    lines = TEXT.splitlines()
    begin = next(number for number, text in enumerate(lines) if text.startswith(f"def {kernel}("))
    return next(number for number, text in enumerate(lines) if number > begin and text.strip().startswith(start)) + 1


LINE = _line("k = tl.load", KERNEL)
"""Where it waits."""
CODE: tuple[tuple[str, str, dict[str, int]], ...] = (
    ("S2R R0, SR_CTAID.X", "row =", {"selected": 4}),
    ("LDG.E.128 R4, [R2.64]", "q =", {"selected": 6, "long_scoreboard": 10}),
    ("LDG.E R8, [R6.64]", "at =", {"selected": 20, "wait": 10}),
    ("IMAD.WIDE R10, R8, 0x100, R12", "k =", {"selected": 10, "long_scoreboard": 560, "long_scoreboard_not_issued": 510}),
    ("LDG.E.128 R16, [R10.64]", "k =", {"selected": 20, "long_scoreboard": 240, "long_scoreboard_not_issued": 220}),
    ("LDG.E.128 R20, [R14.64]", "v =", {"selected": 20, "lg_throttle": 20}),
    ("FFMA R24, R4, R16, R24", "score =", {"selected": 30, "wait": 12}),
    ("MUFU.EX2 R25, R24", "score =", {"selected": 10, "math_pipe_throttle": 8}),
    ("FFMA R28, R25, R20, R28", "total +=", {"selected": 20}),
    ("STG.E.128 [R30.64], R28", "tl.store", {"selected": 4}),
    ("EXIT", "tl.store", {"selected": 2}),
)
"""SASS, the beginning of its line, samples."""

_GEMM = "nvjet_tst_128x256_64x4_1x2_h_bz_coopA_TNT"
_FILE = "/home/me/llm/model.py"
_OPS = (
    ("norm1", "rms_norm", "rms_norm_kernel", 4.0),
    ("attn.qkv", "addmm", _GEMM, 12.0),
    ("attn", "", USUAL, 10.0),
    ("mlp.up", "addmm", _GEMM, 16.0),
    ("mlp.down", "addmm", _GEMM, 16.0),
)
"""In a layer: module, op (none: Triton), kernel, µs"""
SLOW_US = 300.0
LATE_US = 250.0
"""Each eighth step waits so long for its data: not worth a finding."""
BACK = {USUAL: "attention_bwd"}
SHAPE = {"grid_x": 4096, "grid_y": 1, "grid_z": 1, "block_x": 128, "block_y": 1, "block_z": 1, "registers": 96}
AUTOGRAD = ("torch::autograd::Engine::thread_main", "torch::autograd::Engine::evaluate_function", "torch::autograd::Node::operator()")
STEP = ("train_step", "/home/me/llm/train.py", 31)
TRAIN = ("train", "/home/me/llm/train.py", 58)
META = Meta(
    version="1.0",
    command=("python", "train.py", "--layers", str(LAYERS)),
    host=Host("node-3", "AMD EPYC 9454", 48, "6.1.0", "3.12.1"),
    started=Clocks(0, 0, 1_790_000_000_000_000_000),
    ended=Clocks(50_000_000, 50_000_000, 0),
    exit_status=0,
    complete=True,
)


class _Run(Story):
    """The device is a little behind the host, and busy but for the end of each step."""

    def __init__(self) -> None:
        super().__init__()
        self.at = 1000.0  # µs, of the device
        self.autograd = self.thread("pt_autograd_0")

    def runs(self, took: float, *frames: Any, name: str, **more: Any) -> None:
        self.now = round((self.at - 6) * US)
        self.launch(
            *frames,
            name=name,
            start_ns=round(self.at * US),
            end_ns=round((self.at + took) * US),
            **({} if name in CopyKind.__members__ else SHAPE),
            **more,
        )
        self.at += took + 0.4

    def step(self, wait: float) -> None:
        """After so many µs of waiting for data."""
        self.during("data", self.at - 4, self.at + wait)
        self.at += wait + 10
        self.runs(3, TRAIN, FETCH, "cudaMemcpyAsync", name="HOST_TO_DEVICE")
        nodes = [(self._forward(layer, *op), op) for layer in range(LAYERS) for op in _OPS]
        for node, (_, op, kernel, took) in reversed(nodes):
            back = (*AUTOGRAD, f"{(op or kernel).title().replace('_', '')}Backward0::apply", "cudaLaunchKernel")
            self.runs(
                took,
                *back,
                name=kernel if op == "addmm" else BACK.get(kernel, f"{kernel}_backward"),
                thread=self.autograd,
                autograd=BACKWARD | 1,
                sequence=node,
            )
        optimizer = ("AdamW.step", TORCH + "optim/adamw.py", 220)
        self.during("optimizer", self.at - 5, self.at + 30)
        self.runs(30, TRAIN, STEP, optimizer, "cudaLaunchKernel", name="multi_tensor_apply_kernel")

    def _forward(self, layer: int, module: str, op: str, kernel: str, took: float) -> int:
        self.sequence += 1
        slow = kernel == USUAL and layer == SLOW
        frames: list[Any] = [TRAIN, STEP, CALL_IMPL, "layer model", ("Model.forward", _FILE, 88), CALL_IMPL, f"layer model/layers.{layer}"]
        frames.append(("Layer.forward", _FILE, 61))
        parts = module.split(".")
        for depth in range(len(parts)):
            frames += [
                CALL_IMPL,
                f"layer model/layers.{layer}.{'.'.join(parts[: depth + 1])}",
                (f"{parts[depth].title()}.forward", _FILE, 20 + 9 * depth),
            ]
        own = (
            [f"at::_ops::{op}::call", "cudaLaunchKernel"]
            if op
            else [("JITFunction.run", "/site-packages/triton/runtime/jit.py", 710), "cuLaunchKernelEx"]
        )
        self.runs(SLOW_US if slow else took, *frames, *own, name=KERNEL if slow else kernel)
        return self.sequence


WAITS = tuple(LATE_US if number % 8 == 5 else 20.0 + number * 37 % 50 for number in range(STEPS))


def profile(path: Path, waits: Sequence[float] = WAITS) -> Profile:
    """`waits`: for each step, for how long it waits for data before it begins, in µs."""
    run = _Run()
    for wait in waits:
        run.step(wait)
    for moment in range(1000, round(run.at), 90):
        run.met(moment, TRAIN, STEP, clock=0)
    samples, names = _samples()
    functions = [{"cubin": 7, "name": KERNEL}]
    run.tables |= {"gpu_functions": functions, "gpu_samples": samples, "stall_reasons": names, "gpu_lines": []}
    counted = sum(row["count"] for row in samples if not names[row["reason"] - 1]["name"].endswith("_not_issued"))
    run.tables["gpu_windows"] = [{"device": DEVICE, "begin_ns": 0, "end_ns": round(run.at * US), "samples": counted, "period_log2": 20}]
    at = [{"cubin": 7, "function": KERNEL, "offset": 16 * place} for place in range(len(CODE))]
    return run.profile(
        path,
        META,
        gpu_instructions=[{**where, "sass": sass} for where, (sass, _, _) in zip(at, CODE, strict=True)],
        gpu_lines=[
            {**where, "depth": 0, "name": KERNEL, "file": SOURCE, "line": _line(start, KERNEL)}
            for where, (_, start, _) in zip(at, CODE, strict=True)
        ],
        sources=[{"path": SOURCE, "text": TEXT}],
        cubins=[{"crc": 7, "bytes": 4000}],
    )


def _samples() -> tuple[list[Row], list[Row]]:
    """gpu_samples, stall_reasons"""
    reasons = list(dict.fromkeys(reason for _, _, waits in CODE for reason in waits))
    samples = [
        {"window": 1, "function": 1, "offset": 16 * place, "reason": reasons.index(reason) + 1, "count": count}
        for place, (_, _, waits) in enumerate(CODE)
        for reason, count in waits.items()
    ]
    return samples, [{"name": VENDOR + reason, "index": number} for number, reason in enumerate(reasons)]
