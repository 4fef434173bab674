"""Compiled kernels in groupings: their time under the layers and ops that they were fused from, and none of it lost."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest
from compiled_kernels import ADD, GELU, NORM, call, op
from profiles import sealed

from aiflame.attribute.forest import Forest
from aiflame.attribute.meaning.fused_kernels import kernel_origins
from aiflame.attribute.meaning.fused_split import Compiled, SplitOverOps, compiled, op_frames, split_over_ops
from aiflame.attribute.tree import CPU_TIME, Frame, frame_table
from aiflame.profile.schema.kinds import Kind

EAGER_OPS = ["aten::gelu", "aten::gelu (backward)"]
MODEL, LAYER, BLOCK = 1, 2, 3
"""Nodes of the layers' forest below: the model itself, `layers.3`, and a class that is no model's."""


@pytest.fixture
def kernels(tmp_path: Path) -> Compiled:
    """Sets 1: add and norm, 2: gelu, 3: a backward op without layer."""
    rows = [call("k1", 1, ADD, NORM), call("k2", 2, GELU), call("k3", 3, op("aten::gelu_backward", backward=True))]
    names = [{"layer": 1, "root": 1, "path": "", "type": "train.Model"}]
    profile = sealed(tmp_path / "p.aiflame", kernel_origins=rows, layer_names=names)
    return compiled(profile, kernel_origins(profile), len(EAGER_OPS))


def forests(kernels: Compiled) -> dict[str, Forest]:
    layers = frame_table([Frame(name, Kind.LAYER) for name in ("Model", "layers.3", "Block")])[1:]
    ops = frame_table([Frame(name, Kind.OP) for name in EAGER_OPS])[1:]
    return {"layer": Forest.of_frames(layers), "op": Forest.of_frames(pl.concat([ops, op_frames(kernels.origins)]))}


def path(forest: Forest, node: int) -> str:
    names = []
    while node > 0:
        names.append(forest.frames["name"][int(forest.frame[node])])
        node = int(forest.parent[node])
    return "/".join(reversed(names))


def parts_of(split: SplitOverOps) -> list[tuple[int, str, str, int]]:
    layers, ops = split.forests["layer"], split.forests["op"]
    rows = zip(split.division.item.tolist(), *split.rows.select("layer", "op").get_columns(), split.division.value.tolist(), strict=True)
    return [(item, path(layers, layer), path(ops, op), value) for item, layer, op, value in rows]


def spread_of(kernels: Compiled, rows: list[tuple[int, int, int]]) -> SplitOverOps:
    """Splits rows of (layer, op, value)."""
    frame = pl.DataFrame({"layer": [row[0] for row in rows], "op": [row[1] for row in rows]}, schema={"layer": pl.Int32, "op": pl.Int32})
    return split_over_ops(frame, np.array([row[2] for row in rows], dtype=np.int64), kernels, forests(kernels))


def test_layers_of_a_compiled_model_stand_where_those_of_an_eager_one_do(kernels: Compiled) -> None:
    assert parts_of(spread_of(kernels, [(MODEL, kernels.first, 4000)])) == [
        (0, "layers.2", "aten::add", 3000),
        (0, "layers.3/norm", "aten::native_layer_norm", 1000),
    ]


def test_layers_of_a_compiled_part_stand_on_the_layer_that_was_compiled(kernels: Compiled) -> None:
    assert parts_of(spread_of(kernels, [(BLOCK, kernels.first + 1, 500)])) == [(0, "Block/layers.3", "aten::gelu", 500)]


def test_eager_kernels_keep_their_layer_and_op(kernels: Compiled) -> None:
    assert parts_of(spread_of(kernels, [(LAYER, 1, 70), (0, 0, 3)])) == [(0, "layers.3", "aten::gelu", 70), (1, "", "", 3)]


def test_a_backward_op_is_named_as_eagerly(kernels: Compiled) -> None:
    assert parts_of(spread_of(kernels, [(LAYER, kernels.first + 2, 9)])) == [(0, "layers.3", "aten::gelu (backward)", 9)]


def test_kernels_without_python_are_named_by_their_own_name(kernels: Compiled) -> None:
    rows = pl.DataFrame(
        {"process": [0, 0], "name": ["k2", "other"], "layer": [0, 0], "op": [0, 0]}, schema_overrides={"process": pl.UInt32}
    )
    split = split_over_ops(rows, np.array([5, 6]), kernels, forests(kernels))
    assert parts_of(split) == [(0, "layers.3", "aten::gelu", 5), (1, "", "", 6)]


def test_the_label_says_that_something_was_divided(kernels: Compiled) -> None:
    assert "estimated bytes" in spread_of(kernels, [(MODEL, kernels.first, 4000)]).label(CPU_TIME).label
    assert spread_of(kernels, [(MODEL, kernels.first + 1, 4000)]).label(CPU_TIME) == CPU_TIME


def test_other_values_of_the_same_rows_are_divided_alike(kernels: Compiled) -> None:
    split = spread_of(kernels, [(LAYER, 1, 70), (MODEL, kernels.first, 4000)])
    place, which, value = split.divide(np.array([0, 1, 1]), np.array([10, 400, 4]))
    ops = [path(split.forests["op"], split.rows["op"][row]) for row in place.tolist()]
    assert list(zip(which.tolist(), ops, value.tolist(), strict=True)) == [
        (0, "aten::gelu", 10),
        (1, "aten::add", 300),
        (1, "aten::native_layer_norm", 100),
        (2, "aten::add", 3),
        (2, "aten::native_layer_norm", 1),
    ]
    assert split.first().tolist() == [0, 1]


def test_rows_without_ops_are_left_alone(kernels: Compiled) -> None:
    split = split_over_ops(pl.DataFrame({"region": [1, 2]}), np.array([5, 6]), kernels, {})
    assert split.division.value.tolist() == [5, 6]
    place, which, value = split.divide(np.array([1]), np.array([9]))
    assert (place.tolist(), which.tolist(), value.tolist()) == ([1], [0], [9])
