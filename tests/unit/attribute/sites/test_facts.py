"""Facts of a report: put together again, they are the trees that are built one by one."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import polars as pl
import pytest
from compiled_kernels import ADD, NORM, call
from device_work import GEMM, GPU, LINES, REASONS, SASS, TABLES, kernel, profile, sample, window
from examples import COSTLY
from facts_trees import stacks_of_facts, stacks_of_tree
from hypothesis import given
from hypothesis import strategies as st
from profiles import Row, ran
from small_program import SYMBOLS, InMemory, damaged
from written_programs import BACKWARD, CALL_IMPL, TENSOR_BACKWARD, TRAIN, Program, training

from aiflame.attribute.analysis import Analysis
from aiflame.attribute.groupings import GROUPING_ROWS, RANK
from aiflame.attribute.sites.cpu import cpu_sites
from aiflame.attribute.sites.devices import device_sites
from aiflame.attribute.sites.table import SiteTable
from aiflame.attribute.trees.build import metrics, tree
from aiflame.profile.tables.store import Profile

MM = "at::_ops::mm::call"


def graphs(path: Path) -> Profile:
    """Graphs that are replayed, one of them captured before recording."""
    program = Program()
    forward = program.stack(TRAIN, CALL_IMPL, "layer model", CALL_IMPL, "layer model/layers.0", MM)
    back = program.stack(TRAIN, TENSOR_BACKWARD, "torch::autograd::Engine::x", MM)
    for node, (stack, autograd) in enumerate(((forward, 1), (back, BACKWARD | 1)), 1):
        program.tables["graph_nodes"].append({"node": node, "thread": 1, "stack": stack, "time_ns": 900 + node, "autograd": autograd})
        program.tables["graph_nodes"].append({"node": node + 10, "original": node})
    for _ in range(3):
        for node in (11, 12, 99):
            program.launch(TRAIN, "cudaGraphLaunch", name="graphed", node=node)
        program.forward("model", "model/head")
        program.backward()
        program.optimizer()
    program.tables["launches"].pop(0)
    return program.profile(path)


def threads(path: Path) -> Profile:
    """An interpreter at work, waits, two threads of one name, and a thread that nobody knows."""
    program = Program()
    other, twin = program.thread("worker"), program.thread("worker")
    for thread in (1, other, twin, 0):
        program.sample("_PyEval_EvalFrameDefault", TRAIN, "_PyEval_Vector", "work", thread=thread)
        program.sample("main", TRAIN, "pthread_cond_wait", thread=thread)
        program.sample("start_thread", "read", thread=thread)
        program.sample("_PyEval_EvalFrameDefault", thread=thread)
    return program.profile(path)


def sampled(path: Path) -> Profile:
    """Kernels with samples inside, called functions, samples whose kernel is not known, lost ones and those of the driver."""
    windows = [window(0, 100), window(100, 200, dropped=4, foreign=6), window(900, 1000, device=f"{GPU} too", dropped=1)]
    functions = [*GEMM, {"cubin": 7, "name": "$gemm$helper"}, {"cubin": 8, "name": "other"}, {"cubin": 9, "name": "relu"}]
    samples = [sample(5), sample(3, offset=0x20, reason=3), sample(2, offset=0x30), sample(1, offset=0x20), sample(4, function=2)]
    samples += [sample(2, function=3), sample(10, in_window=2, function=4), sample(7, in_window=2, reason=2, function=4)]
    kernels = [kernel(1, 0, 100), kernel(2, 110, 150, "relu"), kernel(7, 160, 170, "relu"), kernel(3, 170, 180, "short")]
    copies: list[Row] = [
        {"kind": 1, "device": GPU, "api": 2, "correlation": 3, "start_ns": 185, "end_ns": 190, "bytes": 4096},
        {"kind": 4, "device": GPU, "api": 2, "correlation": 8, "start_ns": 195, "end_ns": 199, "bytes": 64},
    ]
    inside: dict[str, list[Row]] = {"gpu_lines": LINES, "gpu_instructions": SASS}
    more: dict[str, list[Row]] = {"gpu_functions": functions, "gpu_windows": windows, "gpu_samples": samples, "copies": copies}
    return profile(path, **more, **inside, **ran(*kernels))


def compiled(path: Path) -> Profile:
    """Kernels that a compiler fused, of several steps: their time is divided by an estimate."""
    program = Program()
    generated = ("call", "/tmp/torchinductor/k.py")
    origins: list[Row] = [{**call("k1", 1, ADD, NORM), "file": generated[1]}]
    for took in range(7):
        program.forward("model", "model/layers.0")
        program.launch(TRAIN, CALL_IMPL, "layer model", generated, name="triton_fused", end_ns=program.now + 20 + took)
        program.optimizer()
    program.tables["kernel_origins"] = origins
    return program.profile(path)


PROFILES = {"training": training, "graphs": graphs, "threads": threads, "sampled": sampled, "compiled": compiled}
CPU, GPU_TIME, SAMPLED = ("cpu-time", "wall-time"), "gpu-time", ("gpu-stalls", "gpu-latency")


@dataclass(frozen=True)
class Recorded:
    profile: Profile
    analysis: Analysis
    """For trees. The facts were made without it."""
    facts: dict[str, SiteTable]
    """By metric."""


@pytest.fixture(scope="module", params=PROFILES)
def recorded(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    opened: Profile = PROFILES[request.param](tmp_path_factory.mktemp("facts"))
    there = metrics(opened)
    sites = {metric: cpu_sites(opened, metric) for metric in there if metric in CPU}
    if any(metric not in CPU for metric in there):
        sites |= dict.fromkeys([metric for metric in there if metric not in CPU], device_sites(opened))
    return Recorded(opened, Analysis(opened), sites)


@pytest.mark.parametrize("by", [row.name for row in GROUPING_ROWS if row.on_devices and row.name != RANK])
def test_facts_put_together_are_the_trees(recorded: Recorded, by: str) -> None:
    """All metrics in all groupings at all details have the trees' stacks and values, but for the rounding of divided estimates."""
    for metric, facts in recorded.facts.items():
        if by not in [one.name for one in facts.groupings]:
            continue
        for detail in ("function", "line") if metric in CPU else ("function", "line", "instruction"):
            of_facts = stacks_of_facts(facts, metric, by, detail, also="launches" if metric == GPU_TIME else "")
            expected = stacks_of_tree(recorded.analysis, metric, by, detail)
            assert of_facts.keys() == expected.keys()
            assert of_facts.total() == expected.total()
            rounded = 1 if "kernel_origins" in recorded.profile.names() and by in ("layer", "op", "phase") else 0
            assert max((abs(of_facts[chain] - expected[chain]) for chain in expected), default=0) <= rounded


def test_launches_are_counted_once(recorded: Recorded) -> None:
    if GPU_TIME not in recorded.facts:
        pytest.skip("no device was used")
    assert recorded.facts[GPU_TIME].leaves["launches"].sum() == sum(
        len(recorded.profile.table(name)) for name in ("kernels", "copies") if recorded.profile.has(name)
    )


def test_parts_of_a_fused_kernel_are_a_group(tmp_path: Path) -> None:
    facts = device_sites(compiled(tmp_path))
    ops = [facts.frames["name"][int(facts.segments["op"].frame[node])] for node in facts.sites["op"]]
    fused = facts.sites.with_columns(pl.Series("name", ops)).filter(pl.col("group").is_duplicated())
    assert fused["group"].n_unique() == 1
    shares = dict(fused.select("name", "weight").rows())
    assert set(shares) == {"aten::add", "aten::native_layer_norm"}
    assert abs(shares["aten::add"] - 3 * shares["aten::native_layer_norm"]) <= 4


@COSTLY
@given(st.fixed_dictionaries({name: damaged(name) for name in TABLES}))
def test_nothing_is_lost_whatever_the_numbers_are(tables: dict[str, list[Row]]) -> None:
    processes = [{"process": 0, "pid": 1, "command": "a"}, {"process": 1, "pid": 2, "command": "b"}]
    for row in tables["gpu_windows"]:
        row.update(samples=0, dropped=row["dropped"] % 1000, foreign=row["foreign"] % 1000)
    reasons = [{"process": process, "id": number, **row} for process in (0, 1) for number, row in enumerate(REASONS, 1)]
    recorded = Analysis(InMemory({**tables, "processes": processes, "stall_reasons": reasons, "symbols": SYMBOLS}))
    there = metrics(recorded)
    if not there:
        return
    facts = device_sites(recorded)
    for metric in there:
        assert facts.leaves[metric].sum() == tree(recorded, metric).total(metric)
    assert len(facts.moments) == 0 or facts.moments["bin"].max() < facts.bins.count
    assert len(facts.leaves) == 0 or facts.leaves["site"].max() < len(facts.sites)


@COSTLY
@given(damaged("cpu_samples").filter(bool), damaged("stacks"), damaged("threads"))
def test_whatever_the_numbers_are_no_sample_is_lost(samples: list[Row], stacks: list[Row], threads: list[Row]) -> None:
    processes = [{"process": 0, "pid": 1, "command": "a"}, {"process": 1, "pid": 2, "command": "b"}]
    samples = [{**row, "clock": 0, "weight": row["weight"] % 100} for row in samples]
    recorded = InMemory({"processes": processes, "threads": threads, "stacks": stacks, "cpu_samples": samples, "symbols": SYMBOLS})
    facts = cpu_sites(recorded, "cpu-time")
    total = sum(row["weight"] * row["period_ns"] for row in samples)
    timed = sum(row["weight"] * row["period_ns"] for row in samples if row["time_ns"])  # 0: the moment is not known
    assert facts.leaves["cpu-time"].sum() == total
    assert facts.moments["cpu-time"].sum() == timed
