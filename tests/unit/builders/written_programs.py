"""Profiles of programs that train or infer with torch, written down step by step: each piece of work with its time and stack."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from device_work import REASONS, sample
from profiles import Row, python, ran, sealed

from aiflame.profile.schema.enums import CopyKind, FrameKind, RegionApi, RegionKind
from aiflame.profile.schema.kinds import Kind
from aiflame.profile.tables.store import Profile

BACKWARD = 1 << 15
LAST_NODE = 0xFFFFFFFF
MM = "at::_ops::mm::call"
DEVICE = "NVIDIA H200"
TORCH = "/site-packages/torch/"
CALL_IMPL = ("Module._call_impl", TORCH + "nn/modules/module.py")
OPTIMIZER_STEP = ("AdamW.step", TORCH + "optim/adamw.py")
TENSOR_BACKWARD = ("Tensor.backward", TORCH + "_tensor.py")
SCALER_STEP = ("GradScaler.step", TORCH + "amp/grad_scaler.py")
FETCH = ("_SingleProcessDataLoaderIter._next_data", TORCH + "utils/data/dataloader.py")
TRAIN = ("train", "/app/train.py")


class Program:
    """Each action takes 10 ns. A kernel runs 1 ns; the given thread launches it."""

    def __init__(self) -> None:
        self.now = 1000
        self.tables: dict[str, list[Row]] = {"threads": [], "stacks": [], "codes": [], "symbols": [], "launches": [], "layers": []}
        self.tables |= {"regions": [], "region_ends": [], "graph_nodes": [], "cpu_samples": [], "layer_names": []}
        self.tables |= {"layer_calls": [], "gradient_sums": [], "model_calls": []}
        self.kernels: list[Row] = []
        self.copies: list[Row] = []
        self.words: dict[Any, int] = {}
        self.nodes: dict[tuple[int, int], int] = {}
        self.sequence = 100
        self.layers: dict[str, int] = {}
        self.thread("python", tid=4711)

    def thread(self, name: str, tid: int = 0) -> int:
        self.tables["threads"].append({"tid": tid or 5000 + len(self.tables["threads"]), "name": name})
        return len(self.tables["threads"])

    def word(self, frame: tuple[str, str] | str) -> int:
        """A Python function (name, file), a native function (name), or a layer (`layer NAME`)."""
        if frame not in self.words:
            if isinstance(frame, str) and frame.startswith("layer "):
                row = self.layer(frame.removeprefix("layer "))
                self.words[frame] = FrameKind.LAYER << 60 | row
                return self.words[frame]
            if isinstance(frame, str):
                word, kind, name, file = FrameKind.NATIVE << 60 | 1 << 40 | 0x1000 * (1 + len(self.words)), Kind.CPP, frame, ""
            else:
                name, file = frame
                self.tables["codes"].append({"first_line": 1, "filename": file, "qualname": name})
                word, kind = python(len(self.tables["codes"]), 8), Kind.PYTHON
            symbol = {"process": 0, "frame": word, "depth": 0, "name": name, "full_name": "", "kind": int(kind), "module": ""}
            self.tables["symbols"].append({**symbol, "file": file, "line": 1, "offset": 0, "approximate": False})
            self.words[frame] = word
        return self.words[frame]

    def layer(self, path: str) -> int:
        """The module `path` of the model whose outermost module is `model`."""
        if path not in self.layers:
            self.tables["layers"].append({"address": 0x1000 * (1 + len(self.layers)), "type": path.rpartition(".")[2].title()})
            self.layers[path] = len(self.tables["layers"])
            root = self.layers.setdefault(path.partition("/")[0], self.layers[path])
            self.tables["layer_names"].append(
                {"layer": self.layers[path], "root": root, "path": path.partition("/")[2], "type": "app.Part"}
            )
        return self.layers[path]

    def stack(self, *frames: tuple[str, str] | str) -> int:
        node = 0
        for frame in frames:
            key = node, self.word(frame)
            if key not in self.nodes:
                self.tables["stacks"].append({"parent": node, "frame": key[1]})
                self.nodes[key] = len(self.tables["stacks"])
            node = self.nodes[key]
        return node

    def launch(
        self, *frames: tuple[str, str] | str, name: str = "kernel", thread: int = 1, autograd: int = 1, sequence: int = 0, **kernel: int
    ) -> int:
        """One kernel; when it was launched. Copies have the name of their kind."""
        self.now += 10
        number = len(self.tables["launches"]) + 1
        self.tables["launches"].append(
            {"thread": thread, "stack": self.stack(*frames), "api": 2, "correlation": number, "begin_ns": self.now, "end_ns": self.now + 5,
             "autograd": autograd, "sequence": sequence or self.sequence}
        )  # fmt: skip
        took = {"api": 2, "correlation": number, "start_ns": self.now + 3, "end_ns": self.now + 4, "device": DEVICE, **kernel}
        if name in CopyKind.__members__:
            self.copies.append({**took, "kind": int(CopyKind[name]), "bytes": 100})
        else:
            self.kernels.append({**took, "name": name})
        return self.now

    def forward(self, *layers: str, op: str = "at::_ops::addmm::call", grad: bool = True, thread: int = 1, **more: Any) -> int:
        """An op in these layers, from the outermost; with `grad` it makes an autograd node."""
        self.sequence += grad
        called = [part for layer in layers for part in (CALL_IMPL, f"layer {layer}")]
        return self.launch(TRAIN, *called, op, thread=thread, **more)

    def backward(self, nodes: int = 1, thread: int = 1, of: int = 1) -> None:
        """The engine works off the newest nodes, on a thread of torch's own if one is given; `of` is torch's number of that thread."""
        engine = ["torch::autograd::Engine::evaluate_function", "torch::autograd::Node::operator()"]
        start = [TRAIN, TENSOR_BACKWARD, *engine] if thread == 1 else engine
        for back in range(nodes):
            self.launch(*start, thread=thread, autograd=BACKWARD | of, sequence=self.sequence - back)

    def region(self, name: str, payload: int = 0, thread: int = 1, domain: str = "aiflame", api: RegionApi = RegionApi.AUTOMATIC) -> Any:
        return _Region(
            self, {"thread": thread, "api": int(api), "kind": int(RegionKind.NESTED), "domain": domain, "name": name, "payload": payload}
        )

    def optimizer(self, address: int = 0xA, thread: int = 1) -> None:
        with self.region("optimizer", address, thread):
            self.launch(TRAIN, OPTIMIZER_STEP, name="adam", thread=thread)

    def data(self, thread: int = 1) -> None:
        with self.region("data", thread=thread):
            self.now += 10

    def sample(self, *frames: tuple[str, str] | str, thread: int = 1, autograd: int = 0, sequence: int = 0) -> int:
        self.now += 10
        row = {"thread": thread, "stack": self.stack(*frames), "weight": 1, "period_ns": 7, "time_ns": self.now}
        self.tables["cpu_samples"].append({**row, "autograd": autograd, "sequence": sequence})
        return self.now

    def called(self, layer: str, grad: bool, thread: int = 1) -> Any:
        return _Called(self, self.layer(layer), grad, thread)

    def infer(self, layer: str = "model", sequences: int = 0, tokens: int = 0, launches: int = 1, thread: int = 1) -> None:
        """A call of a model, without gradients, that launches kernels; a sample falls into it, too."""
        row = {"thread": thread, "layer": self.layer(layer), "sequences": sequences, "tokens": tokens, "begin_ns": self.now + 1}
        for _ in range(launches):
            self.forward(layer, grad=False, thread=thread)
        self.sample(TRAIN, CALL_IMPL, f"layer {layer}", thread=thread)
        self.now += 10
        self.tables["model_calls"].append({**row, "end_ns": self.now})

    def profile(self, path: Path, /) -> Profile:
        tables = {**self.tables, **ran(*self.kernels), "copies": self.copies, "processes": [{"pid": 4711, "command": "python\0train.py"}]}
        return sealed(path / "p.aiflame", None, **{name: rows for name, rows in tables.items() if rows})


class _Region:
    def __init__(self, program: Program, row: Row) -> None:
        self.program, self.row = program, row

    def __enter__(self) -> None:
        self.program.now += 10
        regions = self.program.tables["regions"]
        regions.append({**self.row, "begin_ns": self.program.now})
        self.number = len(regions)

    def __exit__(self, *error: object) -> None:
        self.program.now += 10
        self.program.tables["region_ends"].append({"region": self.number, "thread": self.row["thread"], "end_ns": self.program.now})


class _Called:
    def __init__(self, program: Program, layer: int, grad: bool, thread: int) -> None:
        self.program, self.row = program, {"thread": thread, "layer": layer, "autograd": 1}
        self.grad = grad

    def __enter__(self) -> None:
        self.program.now += 10
        self.row |= {"begin_ns": self.program.now, "sequence_begin": self.program.sequence + 1}
        self.program.sequence += self.grad

    def __exit__(self, *error: object) -> None:
        self.program.now += 10
        self.program.tables["layer_calls"].append({**self.row, "end_ns": self.program.now, "sequence_end": self.program.sequence + 1})


def train(program: Program) -> None:
    program.data()
    program.launch(TRAIN, name="HOST_TO_DEVICE")
    program.forward("model", "model/layers.0")
    program.launch(TRAIN, "at::_ops::nll_loss::call", name="loss")
    program.backward()
    program.launch(TRAIN, ("clip_grad_norm_", TORCH + "nn/utils/clip_grad.py"), name="clip")
    program.optimizer()


def training(path: Path, **more: list[Row]) -> Profile:
    program = Program()
    with program.region("warm-up", domain="", api=RegionApi.NVTX):
        program.launch(TRAIN, name="init")
    for _ in range(3):
        train(program)
    for frames in ((TRAIN,), (TRAIN, CALL_IMPL, "layer model", MM), (TRAIN, TENSOR_BACKWARD, MM)):
        for thread in (1, 0):
            program.sample(*frames, thread=thread)
    program.tables["launches"].pop()  # a kernel whose launch is not known
    program.tables |= {"stall_reasons": REASONS, "gpu_functions": [{"cubin": 7, "name": "kernel"}], **more}
    program.tables["gpu_windows"] = [{"device": "NVIDIA H200", "begin_ns": 1000, "end_ns": 1 << 20}]
    program.tables["gpu_samples"] = [sample(97), sample(5, offset=0x20), sample(3, function=2)]
    return program.profile(path)
