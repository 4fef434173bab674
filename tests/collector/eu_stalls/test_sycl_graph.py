"""A graph of SYCL on Intel's own driver and SYCL runtime: a list that is recorded once, and appended for each replay."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from aiflame.attribute.trees.build import tree

PROGRAM = Path(__file__).parent / "programs/sycl_graph.cpp"
TIMES = 5


def test_each_kernel_of_each_replay_has_its_time_below_the_caller_of_the_replay(tmp_path: Path) -> None:
    profile = pytest.importorskip("test_sycl_matmul").record_sycl(PROGRAM, tmp_path, str(TIMES)).profile
    kernels = profile.table("kernels")
    assert len(profile.table("launches")) == 4 * TIMES and len(kernels) == 2 * 4 * TIMES
    assert kernels["node"].n_unique() == len(profile.table("graph_nodes")) == 2
    of = tree(profile, "gpu-time", detail="function")
    names = of.frames["name"].to_list()
    sums: Counter[str] = Counter()
    for node, value in enumerate(of.values["gpu-time"].tolist()):
        at, path = node, list[str]()
        while at > 0:
            path.append(names[of.frame[at]])
            at = int(of.parent[at])
        if value and path[0] != "[GPU idle]":
            above, below = path[: (place := path.index("[graph replay]"))], path[place:]
            assert "record" in above
            (caller,) = {"first", "second"}.intersection(below)
            sums[caller] += value
    assert sums.total() >= 15 * 4 * TIMES * 1e6
    assert sums["first"] / sums.total() == pytest.approx(0.75, abs=0.1)
