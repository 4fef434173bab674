"""Graphs of HIP: a kernel of a replay stands under the code that captured its node, and under nothing where that is not certain."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import polars as pl
import pytest
from live import EVERYTHING, Process, processes, recorded
from recording import Run, recorder, time_under

from aiflame.profile.schema.control_schema import Feature
from built import built

CODE = Path(__file__).parents[2] / "unit/data/amd/scale.gfx90a.hsaco"
UNKNOWN_GRAPH = 2**64 - 1


@pytest.fixture(scope="module")
def process(tmp_path_factory: pytest.TempPathFactory) -> Process:
    profile = tmp_path_factory.mktemp("graphs") / "p"
    outcome = recorded([built("programs/rocm_graphs"), CODE], profile, features=EVERYTHING & ~Feature.MEANING)
    assert (outcome.status, outcome.stdout) == (0, "0 violations\n"), outcome.stderr
    (process,) = processes(profile)
    return process


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    yield recorder(tmp_path_factory.mktemp("tree"))(built("programs/rocm_graphs"), CODE)


def kernels(process: Process, *durations_us: int) -> pl.DataFrame:
    """Those that took one of these times, which is a name of each kind of kernel in programs/rocm_graphs.cpp."""
    took = (pl.col("end_ns") - pl.col("start_ns")) // 1000
    return process.table("kernels").with_columns(took=took).filter(pl.col("took").is_in(durations_us)).sort("took", "start_ns")


def test_each_kernel_of_a_chain_has_its_own_node_again_in_each_replay(process: Process) -> None:
    replayed = kernels(process, 100, 50, 1000)
    nodes = process.table("graph_nodes").select("node", "stack", "original")
    joined = replayed.join(nodes, on="node", maintain_order="left")
    assert joined["took"].to_list() == [50, 50, 100, 100, 100, 100, 1000, 1000]
    assert joined["node"].n_unique() == 4 and (joined["original"] == 0).all() and (joined["stack"] > 0).all()
    assert joined.group_by("node").len()["len"].to_list() == [2] * 4


def test_they_carry_the_number_of_the_launch_of_their_graph(process: Process) -> None:
    replayed = kernels(process, 100, 50, 1000)
    launches = process.table("launches").select("correlation", launch_stack="stack")
    joined = replayed.join(launches, on="correlation")
    assert len(joined) == 8 and joined["correlation"].n_unique() == 2 and (joined["launch_stack"] > 0).all()


def test_kernels_that_branches_may_bring_in_another_order_have_no_node_and_others_have(process: Process) -> None:
    """The stand-in runs the last branch first: the order of capture would give each `scale` the other's stack."""
    assert kernels(process, 10, 20)["node"].to_list() == [0, 0]
    (of_sum,) = kernels(process, 30)["node"]
    assert of_sum in set(process.table("graph_nodes")["node"])


def test_nodes_that_were_added_have_the_stacks_that_added_them(process: Process) -> None:
    joined = kernels(process, 40, 80).join(process.table("graph_nodes").select("node", "stack"), on="node")
    assert len(joined) == 2 and joined["stack"].n_unique() == 2


def test_a_graph_from_before_the_recording_and_a_plain_launch(process: Process) -> None:
    assert kernels(process, 70)["node"].to_list() == [UNKNOWN_GRAPH]
    assert kernels(process, 5)["node"].to_list() == [0]


def test_the_tree_has_the_code_that_captured_under_the_code_that_replays(run: Run) -> None:
    tree = run.profile().tree("gpu-time")

    def time(*path: str) -> int:
        return time_under(tree, *path, metric="gpu-time")

    assert [time("chain", "replay", "left", "scale"), time("chain", "replay", "right", "scale")] == [400_000, 2_000_000]
    assert time("chain", "replay", "middle", "sum") == 100_000
    assert [time("branches", "replay", "other_branch", "sum"), time("branches", "replay", "scale")] == [30_000, 30_000]
    assert [time("added", "add_first", "scale"), time("added", "add_second", "scale")] == [40_000, 80_000]
    assert time("main", "plain", "scale") == 5_000
    assert time("replay", "[unattributed: graph node captured before recording]", "scale") == 70_000
