"""Calls of HIP by rocprofiler-sdk and by preloaded names: each once, whichever of the two sees it, from the program's first call on."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest
from live import EVERYTHING, Outcome, library, plain, processes, recorded

from aiflame.profile.schema.control_schema import Feature
from aiflame.profile.schema.enums import CallBackend
from built import built

FEATURES = EVERYTHING & ~Feature.TRACE_STACKS & ~Feature.MEANING


def run(folder: Path, *, rocprofiler: bool, preloaded: bool, features: int = FEATURES) -> tuple[Outcome, pl.DataFrame]:
    """And its calls, with `function` for `name`."""
    names = library().with_name("libaiflame_hip.so")
    if not names.is_file():
        pytest.skip(f"no {names.name} beside the collector: `make build`")
    features = features if rocprofiler else features & ~Feature.ROCM
    env = {"LD_PRELOAD": str(names)} if preloaded else {}
    outcome = recorded([built("programs/rocm_calls")], folder / "p", features=features, env=env)
    assert outcome.status == 0, outcome.stderr
    (process,) = processes(folder / "p")
    functions = process.table("call_names").filter(pl.col("backend") == int(CallBackend.HIP)).select(name="id", function="name")
    return outcome, process.table("calls").join(functions, on="name", maintain_order="left")


def counted(calls: pl.DataFrame) -> dict[str, int]:
    return dict(calls.group_by("function").len().rows())


@pytest.fixture(scope="module")
def heard(tmp_path_factory: pytest.TempPathFactory) -> tuple[Outcome, pl.DataFrame]:
    return run(tmp_path_factory.mktemp("both"), rocprofiler=True, preloaded=True)


def test_rocprofiler_and_preloaded_names_together_count_no_call_twice(heard: tuple[Outcome, pl.DataFrame]) -> None:
    """`hipInit` begins before rocprofiler is there and ends after; of `hipFree` this rocprofiler does not know."""
    outcome, calls = heard
    assert counted(calls) == json.loads(outcome.stdout)


def test_rocprofiler_alone_lacks_only_the_function_that_it_does_not_know(tmp_path: Path) -> None:
    outcome, calls = run(tmp_path, rocprofiler=True, preloaded=False)
    assert counted(calls) == {name: count for name, count in json.loads(outcome.stdout).items() if name != "hipFree"}


def test_without_rocprofiler_the_preloaded_names_are_enough(tmp_path: Path, heard: tuple[Outcome, pl.DataFrame]) -> None:
    outcome, calls = run(tmp_path, rocprofiler=False, preloaded=True)
    assert outcome == heard[0] == plain([built("programs/rocm_calls")], tmp_path)
    rows = ["function", "result", "failed", "bytes", "kind"]
    assert calls.select(rows).rows() == heard[1].select(rows).rows(), "the same rows from both"


def test_results_failures_and_bytes(heard: tuple[Outcome, pl.DataFrame]) -> None:
    """A call that returns "not ready" has not failed, and a text is no error."""
    calls = heard[1]
    assert calls.filter(pl.col("failed") == 1).select("function", "result", "bytes").rows() == [("hipMemcpy", 1, 0)]
    assert set(calls.filter(pl.col("function") == "hipStreamQuery")["result"]) == {600}
    moved = calls.filter(pl.col("bytes") > 0).group_by("function").agg(pl.col("bytes").sum())
    assert dict(moved.rows()) == {"hipMemcpy": 7 * 32, "hipMemset2D": 2 * 24}
    assert (calls["stack"] == 0).all() and (calls["end_ns"] >= calls["begin_ns"]).all()


def test_with_stacks_each_call_has_the_one_it_was_made_from(tmp_path: Path) -> None:
    _, calls = run(tmp_path, rocprofiler=True, preloaded=False, features=FEATURES | Feature.TRACE_STACKS)
    assert (calls["stack"] > 0).all() and len(calls) == 16


def test_calls_that_nobody_asked_for_are_not_there(tmp_path: Path) -> None:
    _, calls = run(tmp_path, rocprofiler=True, preloaded=True, features=FEATURES & ~Feature.TRACE_HIP)
    assert calls.is_empty()
