"""Launches have the specialization of their kernel: by the function, in every way of launching, and for nodes of graphs."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from cuda_scenes import around, needs_fakes
from live import EVERYTHING, Process, plain, processes, recorded

PROGRAM = Path(__file__).parents[2] / "e2e" / "programs" / "fake_gpu_variants.py"

pytestmark = needs_fakes


@pytest.fixture(scope="module")
def process(tmp_path_factory: pytest.TempPathFactory) -> Process:
    """The program; the child that it forks launches nothing."""
    folder = tmp_path_factory.mktemp("variants")
    outcome = recorded([sys.executable, PROGRAM], folder / "p", features=EVERYTHING, env=around())
    assert outcome == plain(
        [sys.executable, PROGRAM], folder, env={name: text for name, text in around().items() if "INJECTION" not in name}
    )
    return next(one for one in processes(folder / "p") if len(one.table("launches")))


def readable(process: Process, table: str) -> list[str]:
    rows = process.table("kernel_variants")["readable"].to_list()
    return [rows[row - 1] if row else "" for row in process.table(table)["variant"]]


def test_launches_have_the_specialization_of_their_function(process: Process) -> None:
    launched = readable(process, "launches")
    expected = ["", "first", "second", "", "first again"]
    assert launched[:15] == [name for name in expected for _ in ("cuLaunchKernel", "cuLaunchKernelEx", "cuLaunchCooperativeKernel")]
    assert [name for name in launched[15:] if name] == ["second"] * 4  # one of them captured


def test_nodes_have_the_specialization_of_the_captured_launch(process: Process) -> None:
    assert readable(process, "graph_nodes") == ["second", ""]
