"""Calls of HIP are traced, however the program came to its functions: as many as it made, and nothing changed for it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import polars as pl
import pytest
from live import EVERYTHING, Outcome, library, plain, processes, recorded

from aiflame.profile.schema.control_schema import Feature
from aiflame.profile.schema.enums import CallBackend
from built import built

FEATURES = EVERYTHING & ~Feature.TRACE_STACKS & ~Feature.MEANING


@dataclass(frozen=True, slots=True)
class Hip:
    folder: Path

    def recorded(self, *command: str | Path, features: int = FEATURES) -> tuple[Outcome, pl.DataFrame]:
        """And its calls, with `function` for `name`."""
        profile = self.folder / f"p{len(list(self.folder.glob('p[0-9]*')))}"
        preload = library().with_name("libaiflame_hip.so")
        if not preload.is_file():
            pytest.skip(f"no {preload.name} beside the collector: `make build`")
        outcome = recorded(command, profile, features=features, env={"LD_PRELOAD": str(preload)})
        assert outcome.status == 0, outcome.stderr
        (process,) = processes(profile)
        names = process.table("call_names").filter(pl.col("backend") == int(CallBackend.HIP))
        return outcome, process.table("calls").join(names.select(name="id", function="name"), on="name", maintain_order="left")


@pytest.fixture(scope="module")
def hip(tmp_path_factory: pytest.TempPathFactory) -> Hip:
    return Hip(tmp_path_factory.mktemp("hip"))


@pytest.fixture(scope="module")
def client() -> Path:
    """It is linked with the runtime."""
    return built("programs/hip_client")


@pytest.fixture(scope="module")
def looks_up() -> Path:
    """`looks_up lookup|plugin|foreign LIBRARY`"""
    return built("programs/hip_looks_up")


@pytest.fixture(scope="module")
def known_run(hip: Hip, client: Path) -> tuple[Outcome, pl.DataFrame]:
    return hip.recorded(client)


def counted(calls: pl.DataFrame) -> dict[str, int]:
    return dict(calls.group_by("function").len().rows())


def test_there_are_as_many_calls_as_the_program_made(known_run: tuple[Outcome, pl.DataFrame]) -> None:
    """Those that the runtime makes of its own functions are none of the program's."""
    outcome, calls = known_run
    assert counted(calls) == json.loads(outcome.stdout)
    assert (calls["stack"] == 0).all() and (calls["thread"] > 0).all()


def test_failures(known_run: tuple[Outcome, pl.DataFrame]) -> None:
    """A call that returns "not ready" has not failed; nor has one that returns an earlier call's error."""
    failed = known_run[1].filter(pl.col("failed") == 1)
    assert failed.select("function", "result", "bytes").rows() == [("hipMemcpy", 1, 0)]
    assert set(known_run[1].filter(pl.col("function") == "hipStreamQuery")["result"]) == {600}


def test_bytes(known_run: tuple[Outcome, pl.DataFrame]) -> None:
    moved = known_run[1].filter(pl.col("bytes") > 0).group_by("function").agg(pl.col("bytes").sum())
    assert dict(moved.rows()) == {"hipMemcpy": 7 * 256, "hipMemset2D": 8 * 3, "hipMemsetD32": 40}


def test_a_call_takes_as_long_as_it_took(known_run: tuple[Outcome, pl.DataFrame]) -> None:
    took = known_run[1].select("function", seconds=(pl.col("end_ns") - pl.col("begin_ns")) / 1e9)
    for function, seconds in (("hipStreamSynchronize", 0.060), ("hipDeviceSynchronize", 0.150)):
        for each in took.filter(pl.col("function") == function)["seconds"]:
            assert seconds <= each < seconds + 2, "the machine may be busy"


def test_functions_found_by_look_up_are_traced_too(hip: Hip, looks_up: Path) -> None:
    runtime = built("programs/libamdhip64.so.7")
    outcome, calls = hip.recorded(looks_up, "lookup", runtime)
    assert counted(calls) == json.loads(outcome.stdout)
    assert plain([looks_up, "lookup", runtime], hip.folder) == outcome


def test_a_library_that_sees_the_runtime_alone(hip: Hip, looks_up: Path) -> None:
    outcome, calls = hip.recorded(looks_up, "plugin", built("programs/libhip_plugin.so"))
    assert counted(calls) == json.loads(outcome.stdout)


def test_a_function_that_only_has_the_name_is_called_as_before(hip: Hip, looks_up: Path) -> None:
    outcome, calls = hip.recorded(looks_up, "foreign", built("programs/libhip_foreign.so"))
    assert outcome.stdout == "42\n"
    assert calls.is_empty()


def test_with_stacks_each_call_has_the_one_it_was_made_from(hip: Hip, client: Path, known_run: tuple[Outcome, pl.DataFrame]) -> None:
    _, calls = hip.recorded(client, features=FEATURES | Feature.TRACE_STACKS)
    assert len(calls) == len(known_run[1]) and (calls["stack"] > 0).all()


def test_without_the_feature_there_is_no_row(hip: Hip, client: Path, known_run: tuple[Outcome, pl.DataFrame]) -> None:
    outcome, calls = hip.recorded(client, features=FEATURES & ~Feature.TRACE_HIP)
    assert outcome == known_run[0] and calls.is_empty()
