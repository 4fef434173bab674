"""Which layer a stack lies in."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from profiles import Row, native, python, sealed

from aiflame.attribute.meaning.layers import StackLayers, layers
from aiflame.attribute.tree import Kind
from aiflame.profile.schema.enums import FrameKind
from aiflame.profile.schema.frame_words import torch_thread
from aiflame.profile.tables.store import Profile

MAIN, FORWARD, ENGINE, NODE = native(1, 0x100), python(1, 8), native(2, 0x200), native(2, 0x300)
SYMBOLS = [
    {"name": "main", "kind": int(Kind.C), "frame": MAIN},
    {"name": "Module._call_impl", "kind": int(Kind.PYTHON), "frame": FORWARD},
    {"name": "torch::autograd::Engine::evaluate_function", "kind": int(Kind.CPP), "frame": ENGINE},
    {"name": "torch::autograd::Node::operator()", "kind": int(Kind.CPP), "frame": NODE},
]


def layer(row: int) -> int:
    return int(FrameKind.LAYER) << 60 | row


def symbols() -> list[Row]:
    constants = {"process": 0, "depth": 0, "full_name": "", "module": "", "file": "", "line": 0, "offset": 0, "approximate": False}
    return [{**constants, **row} for row in SYMBOLS]


class Model:
    """Modules of a model, each with its path and class; `children` of lists are only names."""

    def __init__(self) -> None:
        self.layers: list[Row] = []
        self.names: list[Row] = []

    def module(self, kind: str) -> int:
        self.layers.append({"type": kind, "address": 64 * len(self.layers)})
        return len(self.layers)

    def hang(self, layer: int, root: int, path: str) -> None:
        self.names.append({"layer": layer, "root": root, "path": path, "type": "app." + self.layers[layer - 1]["type"]})

    def build(self, kinds: dict[str, str]) -> dict[str, int]:
        """A model of paths and classes, the root's first."""
        rows = {path: self.module(kind) for path, kind in kinds.items()}
        for path, row in rows.items():
            self.hang(row, rows[""], path)
        return rows


def profile(path: Path, model: Model, stacks: list[list[int]], **more: list[Row]) -> Profile:
    """Stacks of words, outermost first; the words 1, 2 … stand for calls of modules."""
    rows: list[Row] = []
    for words in stacks:
        parent = 0
        for word in words:
            rows.append({"parent": parent, "frame": layer(word) if word < 1000 else word})
            parent = len(rows)
    tables = {"stacks": rows, "symbols": symbols(), "layers": model.layers, "layer_names": model.names, **more}
    return sealed(path / "p.aiflame", **tables)


def names(stack_layers: StackLayers, node: int) -> str:
    text: list[str] = []
    while node > 0:
        text.append(stack_layers.forest.frames["name"][int(stack_layers.forest.frame[node])])
        node = int(stack_layers.forest.parent[node])
    return "/".join(reversed(text))


def paths(path: Path, model: Model, *stacks: list[int]) -> list[str]:
    """The layer path of each stack."""
    stack_layers = layers(profile(path, model, list(stacks)))
    ends = np.cumsum([len(words) for words in stacks])
    return [names(stack_layers, node) for node in stack_layers.of_stacks(np.zeros(len(ends), dtype=np.int64), ends).tolist()]


BLOCKS = {"": "Net", "layers": "ModuleList", "layers.0": "Block", "layers.0.attn": "Attn", "layers.1": "Block", "layers.1.attn": "Attn"}


def test_a_path_has_a_frame_for_each_name_and_lists_join_their_elements(tmp_path: Path) -> None:
    model = Model()
    row = model.build(BLOCKS)
    inside = [MAIN, FORWARD, row[""], FORWARD, row["layers.1"], FORWARD, row["layers.1.attn"], MAIN]
    assert paths(tmp_path, model, inside) == ["layers.1/attn"]


def test_the_frame_names_the_whole_path_and_the_class(tmp_path: Path) -> None:
    model = Model()
    row = model.build(BLOCKS)
    stack_layers = layers(profile(tmp_path, model, [[row[""], row["layers.1"], row["layers.1.attn"]]]))
    frame = stack_layers.forest.frames.row(int(stack_layers.forest.frame[stack_layers.path[2]]), named=True)
    assert (frame["name"], frame["kind"], frame["full_name"]) == ("attn", int(Kind.LAYER), "layers.1.attn (app.Attn)")


def test_a_model_has_the_name_of_its_class_and_no_path_leads_to_other_objects(tmp_path: Path) -> None:
    model = Model()
    row = model.build(BLOCKS)
    assert paths(tmp_path, model, [MAIN], [MAIN, row[""], MAIN]) == ["", "Net"]


def test_a_list_that_is_called_has_a_frame_of_its_own(tmp_path: Path) -> None:
    model = Model()
    row = model.build({"": "Net", "net": "Sequential", "net.0": "Linear"})
    assert paths(tmp_path, model, [row[""], row["net"], row["net.0"]]) == ["net/0"]


def test_a_sequential_that_is_only_looped_over_goes_with_the_number(tmp_path: Path) -> None:
    model = Model()
    row = model.build({"": "Net", "net": "Sequential", "net.0": "Linear"})
    assert paths(tmp_path, model, [row[""], row["net.0"]]) == ["net.0"]


def test_a_module_whose_calls_go_past_it_keeps_its_frame(tmp_path: Path) -> None:
    """`self.attn.proj(x)`, without calling `attn`."""
    model = Model()
    row = model.build({"": "Net", "attn": "Attn", "attn.proj": "Linear"})
    assert paths(tmp_path, model, [row[""], row["attn.proj"]]) == ["attn/proj"]


@pytest.mark.parametrize(
    ("wrapper", "prefix"),
    [("DistributedDataParallel", "module"), ("OptimizedModule", "_orig_mod"), ("FullyShardedDataParallel", "_fsdp_wrapped_module")],
)
def test_wrappers_vanish(tmp_path: Path, wrapper: str, prefix: str) -> None:
    model = Model()
    row = model.build({"": wrapper, prefix: "Net", f"{prefix}.head": "Linear"})
    names_of_paths = paths(tmp_path, model, [row[""], row[prefix], row[f"{prefix}.head"]], [row[""], row[prefix], MAIN], [row[""], MAIN])
    assert names_of_paths == ["head", "Net", "Net"]


def test_wrappers_vanish_within_a_path(tmp_path: Path) -> None:
    model = Model()
    row = model.build({"": "Net", "block": "CheckpointWrapper", "block._checkpoint_wrapped_module": "Block"})
    inner = model.module("Linear")
    model.hang(inner, row[""], "block._checkpoint_wrapped_module.up")
    stack = [row[""], row["block"], row["block._checkpoint_wrapped_module"], inner]
    assert paths(tmp_path, model, stack) == ["block/up"]


def test_a_module_that_a_person_calls_module_keeps_its_name(tmp_path: Path) -> None:
    model = Model()
    row = model.build({"": "Net", "adapter": "Adapter", "adapter.module": "Linear"})
    assert paths(tmp_path, model, [row[""], row["adapter"], row["adapter.module"]]) == ["adapter/module"]


def test_a_shared_module_is_where_its_caller_has_it(tmp_path: Path) -> None:
    model = Model()
    row = model.build({"": "Net", "one": "Block", "two": "Block"})
    shared = model.module("Norm")
    for path in ("one.norm", "two.norm"):
        model.hang(shared, row[""], path)
    assert paths(tmp_path, model, [row[""], row["one"], shared], [row[""], row["two"], shared]) == ["one/norm", "two/norm"]


def test_a_module_called_inside_one_that_is_not_its_parent_follows_with_its_own_path(tmp_path: Path) -> None:
    model = Model()
    row = model.build({"": "Net", "encoder": "Encoder", "encoder.proj": "Linear", "decoder": "Decoder"})
    assert paths(tmp_path, model, [row[""], row["decoder"], row["encoder.proj"]]) == ["decoder/encoder/proj"]


def test_a_module_without_a_name_is_called_by_its_class(tmp_path: Path) -> None:
    model = Model()
    row = model.build(BLOCKS)
    loose = model.module("torch.nn.modules.activation.Softmax")
    assert paths(tmp_path, model, [row[""], row["layers.0"], loose], [loose]) == ["layers.0/Softmax", "Softmax"]


def test_a_part_that_is_called_by_itself_is_where_the_whole_has_it(tmp_path: Path) -> None:
    """Recomputation may meet a block as the outermost module of a thread, and name it as a model of its own."""
    model = Model()
    row = model.build(BLOCKS)
    model.hang(row["layers.1"], row["layers.1"], "")
    model.hang(row["layers.1.attn"], row["layers.1"], "attn")
    assert paths(tmp_path, model, [row["layers.1"], row["layers.1.attn"]]) == ["layers.1/attn"]


def test_the_class_stands_first_where_a_process_runs_several_models(tmp_path: Path) -> None:
    model = Model()
    one, two = model.build({"": "Generator", "up": "Linear"}), model.build({"": "Discriminator", "down": "Linear"})
    names_of_paths = paths(tmp_path, model, [one[""], one["up"]], [two[""], two["down"]], [two[""], MAIN])
    assert names_of_paths == ["Generator/up", "Discriminator/down", "Discriminator"]


def test_models_of_one_class_have_distinct_names(tmp_path: Path) -> None:
    model = Model()
    one, two = model.build({"": "Net", "up": "Linear"}), model.build({"": "Net", "up": "Linear"})
    assert paths(tmp_path, model, [one[""], one["up"]], [two[""], two["up"]]) == ["Net/up", "Net (2)/up"]


def test_a_loss_beside_a_model_leaves_its_paths_alone(tmp_path: Path) -> None:
    model = Model()
    row, loss = model.build({"": "Net", "up": "Linear"}), model.build({"": "CrossEntropyLoss"})
    assert paths(tmp_path, model, [row[""], row["up"]], [loss[""], MAIN]) == ["up", "CrossEntropyLoss"]


def test_modules_called_in_the_backward_pass_begin_a_path_anew(tmp_path: Path) -> None:
    """A gradient that is taken inside of a module, of checkpointed code."""
    model = Model()
    row = model.build({"": "Net", "penalty": "Penalty", "up": "Linear"})
    stack = [row[""], row["penalty"], ENGINE, NODE, row["up"]]
    assert paths(tmp_path, model, stack) == ["up"]


def test_processes_have_their_own_modules(tmp_path: Path) -> None:
    model = Model()
    row = model.build(BLOCKS)
    stacks = [{"process": process, "parent": 0, "frame": layer(row["layers.0"])} for process in (0, 1)]
    stack_layers = layers(
        sealed(tmp_path / "p.aiflame", stacks=stacks, symbols=symbols(), layers=model.layers, layer_names=model.names, processes=[{}, {}])
    )
    assert [names(stack_layers, node) for node in stack_layers.path.tolist()] == ["layers.0", "[unknown layer]"]


def test_a_profile_without_torch_has_no_layers(tmp_path: Path) -> None:
    assert paths(tmp_path, Model(), [MAIN]) == [""]


def test_calls_have_the_paths_of_the_calls_around_them(tmp_path: Path) -> None:
    model = Model()
    row = model.build(BLOCKS)
    spans = [("", 0, 100, 0, 10), ("layers.0", 10, 50, 0, 5), ("layers.0.attn", 20, 30, 1, 3), ("layers.1", 60, 90, 5, 9)]
    calls = [
        {"thread": 1, "layer": row[path], "autograd": 1, "begin_ns": begin, "end_ns": end, "sequence_begin": first, "sequence_end": last}
        for path, begin, end, first, last in spans
    ]
    stack_layers = layers(profile(tmp_path, model, [[MAIN]], layer_calls=calls[::-1]))
    sequence = np.arange(11)
    call = stack_layers.calls.of_nodes(torch_thread(0 * sequence, 0 * sequence + 1), sequence, 0 * sequence + 200)
    got = [
        names(stack_layers, node) if at >= 0 else None
        for at, node in zip(call.tolist(), stack_layers.call_path[call].tolist(), strict=True)
    ]
    blocks = ["layers.0", "layers.0/attn", "layers.0/attn", "layers.0", "layers.0", *["layers.1"] * 4]
    assert got == [*blocks, "Net", None]


def test_numbers_that_began_again_belong_to_the_later_calls(tmp_path: Path) -> None:
    model = Model()
    row = model.build(BLOCKS)
    wraps = (1 << 32) - 2
    spans = [("layers.0", 10, 20, wraps, 1), ("layers.1", 30, 40, 1, 5), ("layers.0", 110, 120, wraps - 9, wraps - 5)]
    calls = [
        {"thread": 1, "layer": row[path], "autograd": 1, "begin_ns": begin, "end_ns": end, "sequence_begin": first, "sequence_end": last}
        for path, begin, end, first, last in spans
    ]
    stack_layers = layers(profile(tmp_path, model, [[MAIN]], layer_calls=calls))
    sequence = np.array([wraps, wraps + 1, 2, wraps - 9, 2])
    time = np.array([50, 50, 50, 130, 25])
    call = stack_layers.calls.of_nodes(torch_thread(0 * sequence, 0 * sequence + 1), sequence, time)
    assert [names(stack_layers, stack_layers.call_path[at]) if at >= 0 else None for at in call.tolist()] == [
        "layers.0",
        "layers.0",
        "layers.1",
        "layers.0",
        None,
    ]
