"""Chrome's JSON and torch.profiler's: the events of written files, and the profiles that are read from these again."""

from __future__ import annotations

import json
from collections import Counter
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from calling import run_aiflame
from exported_profiles import STEPS, figures, training
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from timelines import Program, check_nesting

import aiflame
from aiflame.attribute.analysis import Analysis
from aiflame.attribute.timeline.whole import timeline
from aiflame.profile.schema.enums import RegionApi, RegionKind
from aiflame.profile.tables.store import Profile

TRACES = sorted((Path(__file__).parents[3] / "data" / "traces" / "kineto").glob("*.json.gz"))
HOSTILE = ('"</script><script>alert(1)</script>', "nul\0 \x1b[31m \u202e", '\\"\n\t', "x" * 100_000, "=cmd|' /C calc'!A0", "💥")


@pytest.fixture(scope="module")
def profile(tmp_path_factory: pytest.TempPathFactory) -> Profile:
    return training(tmp_path_factory.mktemp("traces"))


def exported(path: Path, to: str, *options: str, name: str = "") -> Path:
    file = path.with_name(name or f"{path.name.partition('.')[0]}.{to}.json")
    said = run_aiflame("export", str(path), "--to", to, "-o", str(file), *options)
    assert said.status == 0, said.err
    return file


def loaded(file: Path) -> dict[str, Any]:
    whole: dict[str, Any] = json.loads(file.read_text(), parse_float=Decimal)
    return whole


def of_category(whole: dict[str, Any], *categories: str) -> list[dict[str, Any]]:
    return [event for event in whole["traceEvents"] if event.get("cat") in categories and event["ph"] == "X"]


def check_arrows(whole: dict[str, Any]) -> int:
    """Each arrow begins at a call and ends at the kernel or copy with the call's correlation; how many there are."""
    begins = {event["id"]: event for event in whole["traceEvents"] if event["ph"] == "s"}
    ends = [event for event in whole["traceEvents"] if event["ph"] == "f"]
    at = {(event["pid"], event["tid"], event["ts"]) for event in whole["traceEvents"] if event["ph"] == "X"}
    for event in ends:
        start = begins[event["id"]]
        assert (
            start["ts"] <= event["ts"]
            and (start["pid"], start["tid"], start["ts"]) in at
            and (event["pid"], event["tid"], event["ts"]) in at
        )
    return len(ends)


@pytest.mark.parametrize("to", ["chrome", "kineto"])
def test_every_kernel_is_there_to_the_nanosecond_with_its_arrow(profile: Profile, to: str) -> None:
    whole = loaded(exported(profile.path, to))
    took = Counter((event["name"], int(event["ts"] * 1000), int(event["dur"] * 1000)) for event in of_category(whole, "kernel"))
    names = dict(profile.table("kernel_shapes").select("id", "name").iter_rows())
    rows = profile.table("kernels").select("shape", "start_ns", "end_ns").iter_rows()
    assert took == Counter((names[shape], start, end - start) for shape, start, end in rows)
    assert check_arrows(whole) == 4 * STEPS
    assert whole["baseTimeNanoseconds"] == 1_700_000_000_000_000_000
    assert whole["otherData"]["notes"] == ["a note"]


def test_a_chrome_trace_has_the_slices_of_the_timeline(profile: Profile) -> None:
    whole = loaded(exported(profile.path, "chrome"))
    drawn = timeline(profile)
    threads = {(event["pid"], event["tid"]): event["args"]["name"] for event in whole["traceEvents"] if event["name"] == "thread_name"}
    assert {"main thread", "NVIDIA H200 › Stream 7", "NVIDIA H200 › Stream 7: layers", "Sampled stacks › main thread"} <= set(
        threads.values()
    )
    written = Counter(
        (event["name"], int(event["ts"] * 1000), int(event["dur"] * 1000)) for event in whole["traceEvents"] if event["ph"] == "X"
    )
    rows = drawn.slices.select("name", "begin_ns", "end_ns").iter_rows()
    copies = {"[copy host→device]": "Memcpy HtoD (Host -> Device)"}
    names = [copies.get(name, name) for name in drawn.names.to_list()]
    assert written == Counter((names[name], begin, end - begin) for name, begin, end in rows)
    counted = [event for event in whole["traceEvents"] if event["ph"] == "C"]
    assert [event["args"]["bytes"] for event in counted if "copy" in event["name"]] == [4096 * (step + 1) for step in range(STEPS)]
    (sgemm,) = (event for event in of_category(whole, "kernel") if event["name"] == "sgemm" and event["args"]["step"] == 2)
    assert sgemm["args"]["layer"] == "layers.0.attn"


def test_a_kineto_trace_has_torchs_own_names(profile: Profile) -> None:
    whole = loaded(exported(profile.path, "kineto"))
    assert whole["schemaVersion"] == 1 and whole["deviceProperties"] == [{"id": 0, "name": "NVIDIA H200"}]
    assert {event["name"] for event in of_category(whole, "gpu_memcpy")} == {"Memcpy HtoD (Host -> Device)"}
    annotations = Counter(event["name"].partition("#")[0] for event in of_category(whole, "user_annotation"))
    assert annotations == {"ProfilerStep": STEPS, "Optimizer.step": STEPS}
    functions = {event["name"] for event in of_category(whole, "python_function")}
    assert {"/app/train.py(1): train", "nn.Module: layers.0_0", "nn.Module: attn_0"} <= functions
    ops = {event["args"]["External id"]: event for event in of_category(whole, "cpu_op")}
    assert {event["name"] for event in ops.values()} == {"aten::addmm", "aten::addmm (backward)"}
    backward = [event for event in ops.values() if "backward" in event["name"]]
    assert len(backward) == STEPS and all(event["args"]["Fwd thread id"] > 0 for event in backward)
    runtime = {event["args"]["correlation"]: event for event in of_category(whole, "cuda_runtime")}
    for kernel in of_category(whole, "kernel"):
        launch = runtime[kernel["args"]["correlation"]]
        op = ops[kernel["args"]["External id"]]
        assert op["ts"] <= launch["ts"] and launch["ts"] + launch["dur"] <= op["ts"] + op["dur"] and op["tid"] == launch["tid"]
        assert (kernel["pid"], kernel["tid"]) == (kernel["args"]["device"], kernel["args"]["stream"])


def test_calls_of_a_kineto_trace_lie_beside_or_inside_each_other(profile: Profile) -> None:
    whole = loaded(exported(profile.path, "kineto"))
    calls = of_category(whole, "python_function", "cpu_op", "cuda_runtime", "native_function")
    around: list[Decimal] = []
    for event in sorted(calls, key=lambda event: (event["ts"], -event["dur"])):
        begin, end = event["ts"], event["ts"] + event["dur"]
        while around and around[-1] <= begin:
            around.pop()
        assert not around or end <= around[-1]
        around.append(end)


def test_what_a_kineto_trace_can_carry_is_the_same_after_it_is_read(profile: Profile) -> None:
    recorded, again = Analysis(profile), Analysis(aiflame.open(exported(profile.path, "kineto")).store)
    carried = ("kernel", "op", "layer", "step", "phase", "thread")
    assert figures(again, "gpu-time", *carried) == figures(recorded, "gpu-time", *carried)
    assert figures(again, "bytes", "kernel", "op", "step", "phase") == figures(recorded, "bytes", "kernel", "op", "step", "phase")
    for table in ("kernels", "copies", "launches"):
        assert len(again.table(table)) == len(profile.table(table))


def test_what_a_chrome_trace_can_carry_is_the_same_after_it_is_read(profile: Profile) -> None:
    again = aiflame.open(exported(profile.path, "chrome")).store
    assert figures(again, "gpu-time", "kernel") == figures(profile, "gpu-time", "kernel")
    assert figures(again, "bytes", "kernel") == figures(profile, "bytes", "kernel")
    assert len(again.table("launches")) == len(profile.table("launches"))


@pytest.mark.parametrize("file", TRACES, ids=lambda path: path.name)
def test_a_trace_of_torch_is_the_same_after_it_was_written_and_read(file: Path, tmp_path: Path) -> None:
    """All figures: of functions, ops, steps, layers, phases."""
    before = Analysis(aiflame.open(file).store)
    written = tmp_path / "again.json.gz"
    assert run_aiflame("export", str(file), "--to", "kineto", "-o", str(written)).status == 0
    after = Analysis(aiflame.open(written).store)
    for metric in ("gpu-time", "wall-time", "bytes"):
        by = ("kernel", "function", "op", "layer", "step", "phase", "thread")
        assert figures(after, metric, *by) == figures(before, metric, *by)
    for table in ("kernels", "copies", "launches", "syncs"):
        assert len(after.table(table)) == len(before.table(table))


LAUNCHES = st.lists(
    st.tuples(
        st.integers(0, 300),
        st.integers(1, 40),
        st.integers(0, 60),
        st.integers(0, 300),
        st.sampled_from(["mm", "add", ""]),
        st.integers(1, 2),
    ),
    min_size=1,
    max_size=12,
)
"""Time after the last launch, its own, until its kernel, the kernel's; op; thread."""


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=8, deadline=None)
@given(rows=LAUNCHES, samples=st.lists(st.tuples(st.integers(1, 3000), st.integers(1, 2)), max_size=8))
def test_any_program_keeps_its_kernels_ops_and_launches(rows: Any, samples: Any, tmp_path_factory: pytest.TempPathFactory) -> None:
    program = Program()
    begin = 1
    for gap, took, delay, lasts, op, thread in rows:
        begin += gap
        number = program.launch(begin, begin + took, *(["layers.0", op] if op else []), thread=thread)
        program.kernel(number, begin + delay, begin + delay + lasts, name=f"k{lasts % 3}")
        begin += took
    stack = program.stack("mm")
    program.rows(
        "cpu_samples", *({"thread": thread, "stack": stack, "time_ns": at, "period_ns": 100, "weight": 1} for at, thread in samples)
    )
    profile_of_program = program.profile(tmp_path_factory.mktemp("any"))
    again = aiflame.open(exported(profile_of_program.path, "kineto")).store
    assert figures(again, "gpu-time", "kernel", "op", "thread") == figures(profile_of_program, "gpu-time", "kernel", "op", "thread")
    assert len(again.table("launches")) == len(profile_of_program.table("launches"))
    assert again.meta.degraded == ()
    check_nesting(timeline(again))


@pytest.mark.parametrize("to", ["chrome", "kineto", "firefox"])
def test_hostile_names_are_texts_in_json(tmp_path: Path, to: str) -> None:
    program = Program()
    for number, name in enumerate(HOSTILE):
        program.kernel(program.launch(10 * number + 1, 10 * number + 2, "mm"), 1000 + number, 1001 + number, name=name)
        region = {"thread": 1, "name": name, "api": int(RegionApi.NVTX), "kind": int(RegionKind.NESTED), "begin_ns": 10 * number + 1}
        program.rows("regions", region)
        program.rows("region_ends", {"region": number + 1, "thread": 1, "end_ns": 10 * number + 3})
    text = exported(program.profile(tmp_path).path, to).read_text()
    whole = json.loads(text)
    assert "\x1b" not in text and "\u202e" not in text and "\0" not in text
    if to == "firefox":
        names = set(whole["shared"]["stringArray"])
    else:
        names = {event["name"] for event in whole["traceEvents"]}
        assert max(map(len, names)) <= 4097
    assert {name[:4000] for name in HOSTILE} <= {name[:4000] for name in names}


@pytest.mark.parametrize("to", ["chrome", "kineto"])
def test_two_processes_with_one_number_stay_apart(tmp_path: Path, to: str) -> None:
    program = Program()
    program.rows("processes", *({"process": process, "pid": 1000, "start_ns": 1} for process in (0, 1)))
    program.rows("threads", *({"process": process, "tid": 1000} for process in (0, 1)))
    for process in (0, 1):
        region = {"process": process, "thread": 1, "name": "work", "api": int(RegionApi.NVTX), "kind": int(RegionKind.NESTED)}
        program.rows("regions", {**region, "begin_ns": 10})
        program.rows("region_ends", {"process": process, "region": 1, "thread": 1, "end_ns": 20})
    whole = loaded(exported(program.profile(tmp_path).path, to))
    assert len({(event["pid"], event["tid"]) for event in whole["traceEvents"] if event["name"] == "work"}) == 2
    named = [event["pid"] for event in whole["traceEvents"] if event["name"] == "process_name"]
    assert len(set(named)) == len(named)


def test_without_samples_functions_of_samples_are_left_out(profile: Profile) -> None:
    text = exported(profile.path, "kineto", "--no-samples", name="less.json").read_text()
    assert "c_work" not in text and "sgemm" in text


def test_a_name_that_ends_in_gz_is_packed_alike_each_time(profile: Profile) -> None:
    one, other = (exported(profile.path, "kineto", name=name) for name in ("a.json.gz", "b.json.gz"))
    assert one.read_bytes()[:2] == b"\x1f\x8b" and one.read_bytes() == other.read_bytes()
