"""Each grouping is a sound tree with the same total, whatever launches, stacks, regions and autograd numbers say."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given
from hypothesis import strategies as st
from profiles import Row
from trees import is_sound
from written_programs import CALL_IMPL, OPTIMIZER_STEP, SCALER_STEP, TENSOR_BACKWARD, TRAIN, Program

from aiflame.attribute.groupings import PREFIXES
from aiflame.attribute.trees.build import tree
from aiflame.profile.schema.enums import RegionApi

TIMES = st.sampled_from([0, 5, 1000, 1010, 1020, 2000, (1 << 63) - 1, (1 << 64) - 1])
LAYERS = (CALL_IMPL, "layer a", "layer a/b", "layer c")
FRAMES = st.lists(st.sampled_from([TRAIN, *LAYERS, TENSOR_BACKWARD, OPTIMIZER_STEP, SCALER_STEP, "at::_ops::mm::call"]), max_size=6)
LAUNCH = st.tuples(
    FRAMES, st.integers(0, 3), TIMES, st.sampled_from([0, 1, 2, 0x8001, 0x8002, 0xFFFF]), st.sampled_from([0, 1, 2, 99, 0xFFFFFFFF])
)
REGION = st.tuples(st.sampled_from(["optimizer", "data", "mine"]), TIMES, st.none() | TIMES, st.integers(0, 3), st.integers(0, 2))
CALL = st.tuples(st.integers(0, 3), st.integers(0, 4), TIMES, TIMES, st.integers(0, 3), st.integers(0, 3))
SUM = st.tuples(st.integers(0, 3), st.sampled_from([0, 1, 0x8001]), st.integers(0, 3), st.sampled_from([0, 1, 99]), TIMES, TIMES)
NODE = st.tuples(st.integers(0, 4), st.integers(0, 4), FRAMES)


def program(
    launches: list[tuple], regions: list[tuple], calls: list[tuple], nodes: list[tuple], sums: list[tuple]  # type: ignore[type-arg]
) -> Program:  # fmt: skip
    fuzzed = Program()
    fuzzed.thread("other")
    fuzzed.stack(TRAIN)
    for number, (frames, thread, time, autograd, sequence) in enumerate(launches):
        fuzzed.launch(
            *frames, thread=thread, autograd=autograd, sequence=sequence, node=number % 5, name=("k", "HOST_TO_DEVICE", "nccl")[number % 3]
        )
        fuzzed.tables["launches"][-1]["begin_ns"] = time
        row = {"thread": thread, "stack": fuzzed.stack(*frames), "weight": 1, "period_ns": 7, "time_ns": time}
        fuzzed.tables["cpu_samples"].append({**row, "autograd": autograd, "sequence": sequence})
    for name, begin, end, thread, payload in regions:
        automatic: Row = {"api": int(RegionApi.AUTOMATIC), "domain": "aiflame"} if name != "mine" else {"api": 3}
        fuzzed.tables["regions"].append({"thread": thread, "kind": 1, "name": name, "payload": payload, "begin_ns": begin, **automatic})
        if end is not None:
            fuzzed.tables["region_ends"].append({"region": len(fuzzed.tables["regions"]), "thread": thread, "end_ns": end})
    for thread, layer, begin, end, first, past in calls:
        row = {"thread": thread, "layer": layer, "begin_ns": begin, "end_ns": end}
        fuzzed.tables["layer_calls"].append({**row, "autograd": 1, "sequence_begin": first, "sequence_end": past})
    for gradient_sum in sums:
        fuzzed.tables["gradient_sums"].append(
            dict(zip(("thread", "autograd", "first", "last", "begin_ns", "end_ns"), gradient_sum, strict=True))
        )
    for node, original, frames in nodes:
        fuzzed.tables["graph_nodes"].append({"node": node, "original": original, "thread": 1, "stack": fuzzed.stack(*frames), "time_ns": 7})
    return fuzzed


@given(
    st.lists(LAUNCH, min_size=1, max_size=8),
    st.lists(REGION, max_size=4),
    st.lists(CALL, max_size=4),
    st.lists(NODE, max_size=5),
    st.lists(SUM, max_size=3),
    st.sampled_from(
        [
            (metric, by)
            for metric in ("gpu-time", "cpu-time")
            for by in PREFIXES
            if by != "category" and (metric, by) != ("cpu-time", "family")
        ]
    ),
)
def test_every_grouping_of_whatever_was_recorded_has_the_same_total(
    launches: list[tuple],  # type: ignore[type-arg]
    regions: list[tuple],  # type: ignore[type-arg]
    calls: list[tuple],  # type: ignore[type-arg]
    nodes: list[tuple],  # type: ignore[type-arg]
    sums: list[tuple],  # type: ignore[type-arg]
    asked: tuple[str, str],
) -> None:
    metric, by = asked
    with TemporaryDirectory() as folder:
        grouped = tree(program(launches, regions, calls, nodes, sums).profile(Path(folder)), metric, by)
    assert is_sound(grouped)
    # Idle time is no launch's; a sample is worth 7 ns.
    counted, worth = ("launches", 1) if metric == "gpu-time" else (metric, 7)
    assert grouped.total(counted) == worth * len(launches)
