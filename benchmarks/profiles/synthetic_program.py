"""The program that `synthetic_profile.py` has recorded: its functions, layers, kernels, and the stacks from which it launches them."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import polars as pl
from numpy.typing import NDArray

from aiflame.profile.schema.enums import FrameKind

DEVICE = "NVIDIA H200 [0]"
_MODULE_FILE = "/opt/torch/nn/modules/module.py"
_SOURCE = "/home/me/kernels.cu"


@dataclass(frozen=True, slots=True)
class Kernel:
    compiled: str
    short: str
    family: str
    micros: float


@dataclass(frozen=True, slots=True)
class Site:
    """A place that launches one kernel a step."""

    phase: str
    kernel: Kernel
    stack: int
    """Node of the trie, from 1."""
    node: int
    """Number of the autograd node in its step, from 1; 0: none."""
    stream: int = 0


@dataclass(slots=True)
class Program:
    python: list[tuple[str, str, int]] = field(default_factory=list)
    """Name, file and first line of each function; its code is its place, from 1."""
    native: dict[str, int] = field(default_factory=dict)
    """Name → frame word."""
    layers: list[tuple[str, str]] = field(default_factory=list)
    """Path and class of each module."""
    kernels: list[Kernel] = field(default_factory=list)
    parents: list[int] = field(default_factory=list)
    """The trie of stacks: the node of each node's caller, 0 for none; nodes count from 1."""
    words: list[int] = field(default_factory=list)
    sites: list[Site] = field(default_factory=list)
    data_stack: int = 0
    loss_stack: int = 0
    _known: dict[tuple[int, int], int] = field(default_factory=dict)

    def kernel_names(self) -> pl.DataFrame:
        names = [(each.compiled, each.short, f"void {each.compiled}<float>(float*)", each.family) for each in self.kernels]
        return pl.DataFrame(names, schema=["name", "short", "full", "family"], orient="row")

    def gpu_code(self, cubins: NDArray[np.int64], instructions: int) -> dict[str, pl.DataFrame]:
        """Instructions and lines of every kernel, and the file that they are from."""
        size = len(self.kernels) * instructions
        number = np.arange(size)
        kinds = ["LDG.E.128 R4, [R2.64]", "FFMA R8, R4, R5, R8", "HMMA.16816.F32.BF16 R12, R4, R6, R12", "STS [R9], R4", "BAR.SYNC 0x0"]
        code = pl.DataFrame(
            {
                "cubin": np.repeat(cubins, instructions).astype(np.uint64),
                "function": np.repeat([each.compiled for each in self.kernels], instructions),
                "offset": (number % instructions * 16).astype(np.uint32),
            }
        )
        line = (number % instructions // 8 + number // instructions * 40 + 1).astype(np.uint32)
        names = np.repeat([each.short for each in self.kernels], instructions)
        lines = code.with_columns(
            depth=pl.lit(0, pl.UInt16), name=pl.Series(names), file=pl.lit(_SOURCE), line=pl.Series(line, dtype=pl.UInt32)
        )
        text = "\n".join(f"    acc[{row % 8}] += a[{row}] * b[{row}];" for row in range(1, int(line.max()) + 2))
        sass = pl.Series(np.array(kinds)[number % len(kinds)])
        return {
            "gpu_instructions": code.with_columns(sass=sass),
            "gpu_lines": lines,
            "sources": pl.DataFrame({"path": [_SOURCE], "text": [text]}),
        }

    def under(self, node: int, word: int) -> int:
        key = (node, word)
        if key not in self._known:
            self.parents.append(node)
            self.words.append(word)
            self._known[key] = len(self.words)
        return self._known[key]

    def function(self, node: int, name: str, file: str, line: int) -> int:
        """A call of a Python function."""
        one = (name, file, line)
        if one not in self.python:
            self.python.append(one)
        return self.under(node, (FrameKind.PYTHON << 60) | (self.python.index(one) + 1) << 32 | 9)

    def calls(self, node: int, *names: str) -> int:
        """Native functions that call each other."""
        for name in names:
            word = self.native.setdefault(name, FrameKind.NATIVE << 60 | 1 << 40 | 0x1000 + 16 * len(self.native))
            node = self.under(node, word)
        return node

    def module(self, node: int, path: str, kind: str, line: int) -> int:
        """A call of a torch module."""
        if (path, kind) not in self.layers:
            self.layers.append((path, kind))
        node = self.function(node, "Module._wrapped_call_impl", _MODULE_FILE, 1740)
        node = self.function(node, "Module._call_impl", _MODULE_FILE, 1749)
        node = self.under(node, FrameKind.LAYER << 60 | self.layers.index((path, kind)) + 1)
        return self.function(node, f"{kind}.forward", "/home/me/model.py", line)


_GEMM = "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize{}_warpgroupsize1x1x1_execute_segment_k_off_kernel__5x_cublas"
_LAYER: tuple[tuple[str, str, int, tuple[tuple[str, str, str, float], ...]], ...] = (
    ("norm1", "Norm", 20, (("rms_norm", "rms_norm_kernel", "norm", 5.0),)),
    ("attn", "Attention", 30, ()),
    ("attn.qkv", "Linear", 40, (("addmm", _GEMM.format("128x128x64"), "gemm", 21.0),)),
    (
        "attn",
        "Attention",
        30,
        (("_scaled_dot_product_flash_attention", "flash_fwd_kernel", "attention", 34.0), ("mul", "mul_kernel", "elementwise", 3.0)),
    ),
    ("attn.out", "Linear", 40, (("addmm", _GEMM.format("128x64x64"), "gemm", 12.0),)),
    ("norm2", "Norm", 20, (("rms_norm", "rms_norm_kernel", "norm", 5.0),)),
    ("mlp", "Mlp", 50, ()),
    ("mlp.up", "Linear", 40, (("addmm", _GEMM.format("256x128x64"), "gemm", 38.0),)),
    ("mlp", "Mlp", 50, (("gelu", "gelu_kernel", "elementwise", 6.0), ("dropout", "dropout_kernel", "elementwise", 4.0))),
    ("mlp.down", "Linear", 40, (("addmm", _GEMM.format("256x64x64"), "gemm", 33.0),)),
    ("", "Layer", 10, (("add", "add_kernel", "elementwise", 3.0),)),
)
_BACKWARD = {"addmm": ("AddmmBackward0", "mm", 2), "gelu": ("GeluBackward0", "gelu_backward", 1), "add": ("AddBackward0", "sum", 1)}


def program(layers: int) -> Program:
    code = Program()
    top = code.function(0, "<module>", "/home/me/train.py", 1)
    train = code.function(top, "train", "/home/me/train.py", 20)
    loader = code.function(train, "_BaseDataLoaderIter.__next__", "/opt/torch/utils/data/dataloader.py", 720)
    code.data_stack = code.calls(loader, "at::_ops::copy_::call", "cudaMemcpyAsync")
    code.loss_stack = code.calls(code.function(train, "item", "/home/me/train.py", 44), "at::_ops::item::call", "cudaMemcpyAsync")
    kernels: dict[str, Kernel] = {}

    def kernel(name: str, family: str, micros: float) -> Kernel:
        kernel_of_name = kernels.setdefault(name, Kernel(name, _short(name), family, micros))
        if kernel_of_name not in code.kernels:
            code.kernels.append(kernel_of_name)
        return kernel_of_name

    forward: list[tuple[str, str, str, float]] = []

    def launch(node: int, op: str, name: str, family: str, micros: float) -> None:
        stack = code.calls(node, f"at::_ops::{op}::call", f"at::native::{op}_cuda", "cudaLaunchKernel")
        forward.append((op, name, family, micros))
        code.sites.append(Site("forward", kernel(name, family, micros), stack, len(forward)))

    model = code.module(train, "", "Llama", 60)
    launch(code.module(model, "embed", "Embedding", 70), "embedding", "indexing_kernel", "indexing", 4.0)
    for layer in range(layers):
        outer = code.module(model, f"layers.{layer}", "Layer", 10)
        for path, kind, line, ops in _LAYER:
            node = outer
            parts = path.split(".") if path else []
            for depth in range(1, len(parts) + 1):
                of = kind if depth == len(parts) else {"attn": "Attention", "mlp": "Mlp"}[parts[0]]
                at = line if depth == len(parts) else {"attn": 30, "mlp": 50}[parts[0]]
                node = code.module(node, ".".join([f"layers.{layer}", *parts[:depth]]), of, at)
            for op in ops:
                launch(node, *op)
    launch(code.module(model, "head", "Linear", 40), "addmm", _GEMM.format("256x128x64"), "gemm", 38.0)
    launch(train, "nll_loss_forward", "nll_loss_kernel", "reduction", 4.0)
    _backward(code, forward, layers, kernel)
    step = code.function(train, "Adam.step", "/opt/torch/optim/adam.py", 212)
    for _ in range(layers * 2):
        stack = code.calls(step, "at::_ops::_foreach_addcdiv_::call", "multi_tensor_apply", "cudaLaunchKernel")
        code.sites.append(Site("optimizer", kernel("multi_tensor_apply_kernel", "optimizer", 9.0), stack, 0, 0))
    return code


def _short(name: str) -> str:
    _, tiled, tiles = name.partition("_tilesize")
    return f"gemm<bf16,{tiles.partition('_')[0]}>" if tiled else name.removesuffix("_kernel")


def _backward(code: Program, forward: list[tuple[str, str, str, float]], layers: int, kernel: object) -> None:
    """Each forward op's node, last first; a layer's gradients are reduced on the second stream when it is through."""
    assert callable(kernel)
    engine = code.calls(0, "start_thread", "torch::autograd::Engine::thread_init", "torch::autograd::Engine::thread_main")
    engine = code.calls(engine, "torch::autograd::Engine::evaluate_function")
    a_layer = sum(len(ops) for _, _, _, ops in _LAYER)
    for number in range(len(forward), 0, -1):
        op, name, family, micros = forward[number - 1]
        node, called, many = _BACKWARD.get(op, (f"{op.title().replace('_', '')}Backward0", f"{op}_backward", 1))
        stack = code.calls(engine, f"torch::autograd::generated::{node}::apply", f"at::_ops::{called}::call")
        for part in range(many):
            leaf = (
                code.calls(stack, f"at::native::{called}_cuda", "cudaLaunchKernel") if part == 0 else code.calls(stack, "cudaLaunchKernel")
            )
            backward = name if family == "gemm" else name.replace("_kernel", "_backward_kernel")
            code.sites.append(Site("backward", kernel(backward, family, micros * 1.2), leaf, number))
        if number > 1 and (number - 2) % a_layer == 0 and number - 2 < layers * a_layer:
            reduce = code.calls(engine, "c10d::Reducer::mark_bucket_ready", "ncclAllReduce", "cudaLaunchKernel")
            name = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL"
            code.sites.append(Site("backward", kernel(name, "collective", 90.0), reduce, number, 1))
