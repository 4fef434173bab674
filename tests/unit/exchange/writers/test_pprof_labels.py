"""Labels that say for which layer and op a value was spent are read again: the same lists before and after."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from calling import run_aiflame
from exported_profiles import training

import aiflame
from aiflame.analyze.top import top
from aiflame.attribute.groupings import LISTS
from aiflame.attribute.transforms.filters import without_idle
from aiflame.attribute.trees.build import metrics, tree
from aiflame.exchange.readers.frames import LayerFrame, NamedFrame, PythonFrame
from aiflame.exchange.readers.sampled.layer_labels import LayerLabels
from aiflame.profile.schema.kinds import OP_MODULE, Kind
from aiflame.profile.tables.interface import Tables

MODULES = Path(__file__).parents[3] / "data" / "traces" / "kineto" / "torch2.13_modules.json.gz"


def listed(profile: Tables, metric: str, by: str) -> dict[str, tuple[int, int]]:
    """Own value and total of each row, without idle devices."""
    name = metric if metric in metrics(profile) else f"{metric}-ns"
    of = without_idle(tree(profile, name, by if LISTS[by].grouped else "code"))
    rows = top(of, by, name).to_dicts()
    return {row["name"]: (row["self"], row["total"]) for row in rows if row["self"] or row["total"]}


def again(profile: str, folder: Path) -> Tables:
    file = folder / "run.pb.gz"
    assert run_aiflame("export", profile, "--to", "pprof", "-o", str(file)).status == 0
    return aiflame.open(file).store


@pytest.fixture(scope="module")
def pairs(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], tuple[Tables, Tables]]:
    folder = tmp_path_factory.mktemp("labels")
    recorded = training(folder)
    before = {"recording": recorded, "trace": aiflame.open(MODULES).store}
    after = {}
    for name, path in (("recording", recorded.path), ("trace", MODULES)):
        (folder / name).mkdir()
        after[name] = again(str(path), folder / name)
    return lambda name: (before[name], after[name])


@pytest.mark.parametrize(("metric", "by"), [("cpu-time", "function"), ("cpu-time", "thread"), ("wall-time", "function")])
def test_time_on_cpus_has_the_same_lists(pairs: Callable[[str], tuple[Tables, Tables]], metric: str, by: str) -> None:
    before, after = pairs("recording")
    rows = listed(before, metric, by)
    assert rows and listed(after, metric, by) == rows


def test_work_of_devices_has_the_same_layers_and_ops(pairs: Callable[[str], tuple[Tables, Tables]]) -> None:
    """In the file an idle device is a function, outside of all layers."""
    before, after = pairs("recording")
    layers = listed(before, "gpu-time", "layer")
    assert {"layers.0", "layers.0.attn", "layers.1"} < set(layers)
    assert {**listed(after, "gpu-time", "layer"), "[no layer]": layers["[no layer]"]} == layers
    ops, read = listed(before, "gpu-time", "op"), listed(after, "gpu-time", "op")
    assert read["aten::addmm"] == ops["aten::addmm"] and "aten::addmm (backward)" in ops
    assert "aten::addmm (backward)" not in read  # no frame of the recording shows a node of the backward graph


def test_an_imported_trace_has_the_same_layers_and_ops(pairs: Callable[[str], tuple[Tables, Tables]]) -> None:
    before, after = pairs("trace")
    layers, ops = (listed(before, "wall-time", by) for by in ("layer", "op"))
    assert len(layers) == 10 and listed(after, "wall-time", "layer") == layers
    read = listed(after, "wall-time", "op")
    differing = {name for name in ops | read if ops.get(name) != read.get(name)}
    assert len(ops) > 40 and any(name.endswith("(backward)") and name not in differing for name in ops)
    assert differing == {"AccumulateGrad (backward)", "aten::detach", "[no op]"}  # a node without an op


def test_places_of_layers_and_ops_in_a_stack() -> None:
    labels = LayerLabels()
    outer, inner, op = PythonFrame("train", "a.py", 1), PythonFrame("forward", "a.py", 9), NamedFrame("aten::mm", Kind.CPP, OP_MODULE)
    assert labels.placed([outer, inner], "layers.0", "") == [outer, inner, LayerFrame(3)]  # 2 is `layers`, 1 the model
    assert labels.placed([outer, inner], "", "aten::mm") == [op, outer, inner]
    assert labels.placed([outer, inner], "layers.1", "aten::mm") == [LayerFrame(4), op, outer, inner]
    assert labels.placed([outer, op, inner], "layers.0", "aten::mm") == [outer, LayerFrame(3), op, inner]
    assert labels.placed([outer, inner], "layers.0", "aten::mm (backward)") == [LayerFrame(3), outer, inner]
    assert labels.placed([], "", "") == []


def test_processes_have_their_ranks_again(tmp_path: Path) -> None:
    """Three traces of a job, exported as one file."""
    folder = tmp_path / "job"
    folder.mkdir()
    for rank in range(3):
        call = {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 100 + rank, "tid": 1, "ts": 1000, "dur": 5 + rank}
        (folder / f"{rank}.json").write_text(json.dumps({"distributedInfo": {"rank": rank, "world_size": 3}, "traceEvents": [call]}))
    before, after = aiflame.open(folder).store, again(str(folder), tmp_path)
    processes = listed(before, "wall-time", "process")
    assert len(processes) == 3 and all(name.startswith("rank ") for name in processes)
    assert listed(after, "wall-time", "process") == processes
    assert sorted(after.table("ranks")["rank"].to_list()) == [0, 1, 2]
