"""Measured values under process, thread and stack."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest
from examples import COSTLY
from hypothesis import given
from hypothesis import strategies as st
from profiles import Row, native, ran, sealed, stack
from small_program import CODES, EVAL_PC, LAYER, MAIN, MARK, PROCESSES, PYMAIN, SYMBOLS, THREADS, WORK, WORK_PC, InMemory, damaged, symbol
from trees import is_sound

from aiflame.attribute.transforms.filters import without_idle
from aiflame.attribute.tree import Kind, Tree
from aiflame.attribute.trees.build import default_metric, metrics, tree
from aiflame.errors import AiflameError
from aiflame.exchange.writers import collapsed
from aiflame.profile.schema.enums import CopyKind, SampleState
from aiflame.profile.tables.store import Profile

MS = 1_000_000


def lines(of: Tree, metric: str = "cpu-time") -> dict[str, int]:
    """The tree as collapsed stacks, values in milliseconds."""
    text = io.StringIO()
    collapsed.write(of, metric, text)
    pairs = (line.rsplit(" ", 1) for line in text.getvalue().splitlines())
    return {path: int(value) // MS for path, value in pairs}


def sample(stack_id: int, ms: int = 1, thread: int = 1, **more: int) -> Row:
    return {"thread": thread, "stack": stack_id, "weight": ms, "period_ns": MS, **more}


def profile(path: Path, **tables: list[Row]) -> Profile:
    given = {"processes": PROCESSES, "threads": THREADS, "symbols": SYMBOLS, "codes": CODES, **tables}
    return sealed(path / "p.aiflame", **given)


def test_a_stack_hangs_under_its_process_and_thread(tmp_path: Path) -> None:
    recorded = profile(tmp_path, stacks=stack(MAIN, PYMAIN, WORK), cpu_samples=[sample(3, 5)])
    assert lines(tree(recorded)) == {"train.py (4711);main thread;main;py::run;work": 5}


def test_time_is_ticks_times_their_period(tmp_path: Path) -> None:
    ticks = [{"thread": 1, "stack": 1, "weight": weight, "period_ns": period * MS} for weight, period in ((3, 5), (1, 2))]
    recorded = profile(tmp_path, stacks=stack(MAIN), cpu_samples=ticks)
    assert tree(recorded).total("cpu-time") == 17 * MS


def test_different_addresses_of_a_function_are_one_frame(tmp_path: Path) -> None:
    stacks = [*stack(MAIN, WORK), {"parent": 1, "frame": WORK_PC}]
    recorded = profile(tmp_path, stacks=stacks, cpu_samples=[sample(2, 1), sample(3, 2)])
    assert lines(tree(recorded)) == {"train.py (4711);main thread;main;work": 3}


def test_a_python_function_is_known_by_the_line_it_begins_on(tmp_path: Path) -> None:
    recorded = profile(tmp_path, stacks=stack(PYMAIN), cpu_samples=[sample(1)])
    frames = tree(recorded).frames
    assert frames.filter(name="run").select("file", "line").rows() == [("/app/train.py", 40)]


def test_inlined_functions_follow_the_one_they_were_inlined_into(tmp_path: Path) -> None:
    symbols = [*SYMBOLS, symbol(WORK, "inner", Kind.CPP, depth=1), symbol(WORK, "innermost", Kind.CPP, depth=2)]
    stacks = [*stack(MAIN, WORK), {"parent": 2, "frame": MAIN}]
    recorded = profile(tmp_path, stacks=stacks, symbols=symbols, cpu_samples=[sample(2, 1), sample(3, 2)])
    inlined = "train.py (4711);main thread;main;work;inner;innermost"
    assert lines(tree(recorded)) == {inlined: 1, f"{inlined};main": 2}


def test_a_frame_without_a_symbol_is_unknown_not_lost(tmp_path: Path) -> None:
    recorded = profile(tmp_path, stacks=stack(MAIN, native(3, 0x77)), cpu_samples=[sample(2, 4)])
    assert lines(tree(recorded)) == {"train.py (4711);main thread;main;[unknown]": 4}


def test_a_sample_without_a_stack_is_shown_as_such(tmp_path: Path) -> None:
    recorded = profile(tmp_path, stacks=stack(MAIN), cpu_samples=[sample(0, 2), sample(1, 1)])
    assert lines(tree(recorded))["train.py (4711);main thread;[unattributed: no stack]"] == 2


def test_a_sample_of_a_thread_that_was_lost_is_shown_as_such(tmp_path: Path) -> None:
    recorded = profile(tmp_path, stacks=stack(MAIN), cpu_samples=[sample(1, 2, thread=9)])
    assert lines(tree(recorded)) == {"train.py (4711);[unattributed: thread not recorded];main": 2}


@pytest.mark.parametrize("damaged", [77, 2, 3])
def test_a_stack_whose_callers_were_lost_keeps_its_time(tmp_path: Path, damaged: int) -> None:
    """Its caller is not there, is itself, or comes after it."""
    stacks = [{"parent": 0, "frame": MAIN}, {"parent": damaged, "frame": WORK}, {"parent": 2, "frame": MAIN}]
    recorded = profile(tmp_path, stacks=stacks, cpu_samples=[sample(2, 3)])
    assert lines(tree(recorded)) == {"train.py (4711);main thread;[unattributed: callers lost];work": 3}


def test_threads_of_one_name_differ_by_their_number(tmp_path: Path) -> None:
    threads = [{"tid": tid, "name": name} for tid, name in ((4711, "python"), (4712, "pool"), (4713, "pool"), (4714, "loader"))]
    ends = [{"thread": 4, "name": "loader 0"}]
    samples = [sample(1, 1, thread=thread) for thread in (1, 2, 3, 4)]
    recorded = profile(tmp_path, threads=threads, thread_ends=ends, stacks=stack(MAIN), cpu_samples=samples)
    labels = [path.split(";")[1] for path in lines(tree(recorded))]
    assert sorted(labels) == ["loader 0", "main thread", "pool (4712)", "pool (4713)"]


def test_a_thread_has_the_name_that_python_gave_it(tmp_path: Path) -> None:
    """The last one counts; a number that was used again belongs to the thread of that time; a worker's main thread may have a role."""
    threads = [
        {"tid": 4711, "name": "python", "start_ns": 10},
        {"tid": 4712, "name": "python", "start_ns": 20},
        {"tid": 4712, "name": "python", "start_ns": 50},
        {"tid": 4713, "name": "native", "start_ns": 20},
        {"process": 1, "tid": 4800, "name": "python", "start_ns": 30, "id": 1},
    ]
    names = [
        {"tid": 4712, "time_ns": 21, "name": "first"},
        {"tid": 4712, "time_ns": 22, "name": "a reader of the shop's orders"},
        {"tid": 4712, "time_ns": 49, "name": "seen late"} | {"tid": 4799},
        {"tid": 4712, "time_ns": 51, "name": "used again"},
        {"process": 1, "tid": 4800, "time_ns": 40, "name": "DataLoader worker 2"},
    ]
    samples = [*(sample(1, 1, thread=thread) for thread in (1, 2, 3, 4)), {**sample(1), "process": 1}]
    processes = [*PROCESSES, {"process": 1, "pid": 4800, "command": "python3\0train.py"}]
    stacks = [*stack(MAIN), {**stack(MAIN)[0], "process": 1, "id": 1}]
    recorded = profile(tmp_path, processes=processes, threads=threads, thread_names=names, stacks=stacks, cpu_samples=samples)
    labels = [path.split(";")[1] for path in lines(tree(recorded))]
    assert sorted(labels) == ["DataLoader worker 2", "a reader of the shop's orders", "main thread", "native", "used again"]


def test_processes_keep_their_stacks_apart(tmp_path: Path) -> None:
    processes = [{"pid": 1, "command": "/bin/a"}, {"process": 1, "pid": 2, "command": "/bin/b\0-x"}]
    symbols = [symbol(MAIN, "main"), symbol(MAIN, "start", process=1)]
    stacks = [{**row, "process": process} for process in (0, 1) for row in stack(MAIN)]
    samples = [{**sample(1, 1 + process), "process": process} for process in (0, 1)]
    threads = [{"tid": 1}, {"tid": 2, "process": 1}]
    recorded = profile(tmp_path, processes=processes, symbols=symbols, stacks=stacks, cpu_samples=samples, threads=threads)
    assert lines(tree(recorded)) == {"a (1);main thread;main": 1, "b (2);main thread;start": 2}


@pytest.mark.parametrize(
    ("command", "name"),
    [
        ("python3\0-X\0dev\0-u\0/app/run.py\0x", "run.py (4711)"),
        ("/usr/bin/python3.11\0-m\0torch.distributed.run\0x.py", "-m torch.distributed.run (4711)"),
        ("python\0-c\0print(1)", "python -c (4711)"),
        ("python", "python (4711)"),
        ("/opt/bin/server\0-m\0x", "server (4711)"),
        ("", "made (4711)"),
    ],
)
def test_a_process_is_called_as_a_person_would(tmp_path: Path, command: str, name: str) -> None:
    processes = [{"pid": 4711, "command": command, "exe": "/usr/lib/made"}]
    recorded = profile(tmp_path, processes=processes, stacks=stack(MAIN), cpu_samples=[sample(1)])
    assert [path.split(";")[0] for path in lines(tree(recorded))] == [name]


def test_wall_time_says_what_a_thread_waits_on(tmp_path: Path) -> None:
    read, sleep = native(1, 0x300, exact=True), native(1, 0x400, exact=True)
    symbols = [*SYMBOLS, symbol(read, "read", module="libc.so.6"), symbol(sleep, "wander")]
    stacks = [*stack(MAIN, read), {"parent": 1, "frame": sleep}]
    waiting = {"state": SampleState.WAITING, "clock": 1}
    samples = [sample(2, 7, **waiting), sample(3, 2, **waiting), sample(3, 4, clock=1), sample(2, 1)]
    recorded = profile(tmp_path, symbols=symbols, stacks=stacks, cpu_samples=samples)
    under = "train.py (4711);main thread;main"
    assert lines(tree(recorded, "wall-time"), "wall-time") == {
        f"{under};read;[I/O]": 7,
        f"{under};wander;[waiting]": 2,
        f"{under};wander": 4,
    }
    assert lines(tree(recorded, "cpu-time")) == {f"{under};read": 1}


def test_a_spinning_openmp_worker_is_waiting_though_it_runs(tmp_path: Path) -> None:
    spin = native(1, 0x300, exact=True)
    symbols = [*SYMBOLS, symbol(spin, "gomp_team_barrier_wait_end", module="libgomp.so.1")]
    recorded = profile(tmp_path, symbols=symbols, stacks=stack(MAIN, spin), cpu_samples=[sample(2, 3)])
    assert lines(tree(recorded)) == {"train.py (4711);main thread;main;gomp_team_barrier_wait_end;[OpenMP wait]": 3}


def test_a_stack_that_names_its_wait_gets_no_second_name(tmp_path: Path) -> None:
    samples = [sample(2, 3, state=SampleState.WAITING, clock=1)]
    recorded = profile(tmp_path, stacks=stack(MAIN, MARK), cpu_samples=samples)
    assert lines(tree(recorded), "wall-time") == {"train.py (4711);main thread;main;[OpenMP wait]": 3}


INSTRUCTIONS = [
    {"process": 0, "frame": WORK_PC, "text": "vfmadd231ps ymm0, ymm1, ymm2", "function_offset": 0x1F3},
]


def test_lines_and_instructions_lie_inside_the_innermost_function(tmp_path: Path) -> None:
    recorded = profile(tmp_path, stacks=stack(MAIN, WORK_PC), instructions=INSTRUCTIONS, cpu_samples=[sample(2, 2), sample(1, 1)])
    under = "train.py (4711);main thread;main"
    assert lines(tree(recorded, detail="line")) == {f"{under};work;work.c:14": 2, under: 1}
    fine = tree(recorded, detail="instruction")
    assert lines(fine) == {f"{under};work;work.c:14;vfmadd231ps @ +0x1f3_[g]": 2, under: 1}
    assert fine.frames.filter(kind=int(Kind.CPU_INSTRUCTION))["full_name"].to_list() == ["vfmadd231ps ymm0, ymm1, ymm2"]


def test_inside_the_interpreter_the_line_is_that_of_the_python_function(tmp_path: Path) -> None:
    recorded = profile(tmp_path, stacks=stack(PYMAIN, EVAL_PC), cpu_samples=[sample(2, 2)])
    call_tree = tree(recorded, detail="line")
    assert lines(call_tree) == {"train.py (4711);main thread;py::run;_PyEval_EvalFrameDefault;train.py:44": 2}


def test_a_layer_is_no_function(tmp_path: Path) -> None:
    """The own time of a layer's call belongs to the function that calls the layer, also where nothing lies inside it."""
    recorded = profile(tmp_path, stacks=stack(MAIN, PYMAIN, LAYER, WORK), cpu_samples=[sample(4, 5), sample(3, 2)])
    under = "train.py (4711);main thread;main;py::run"
    assert lines(tree(recorded)) == {f"{under};work": 5, under: 2}
    assert lines(tree(recorded, detail="line")) == {f"{under};work;work.c:12": 5, f"{under};train.py:44": 2}


def test_gpu_time_lies_under_the_stack_that_launched_it(tmp_path: Path) -> None:
    launches = [{"thread": 1, "stack": 2, "api": 1, "correlation": 5}, {"thread": 1, "stack": 1, "api": 1, "correlation": 6}]
    kernels = ran({"name": "matmul", "device": "gpu", "api": 1, "correlation": 5, "start_ns": 1 * MS, "end_ns": 4 * MS})
    copies = [{"kind": CopyKind.HOST_TO_DEVICE, "api": 1, "correlation": 6, "start_ns": 5 * MS, "end_ns": 7 * MS}]
    recorded = profile(tmp_path, stacks=stack(MAIN, WORK), launches=launches, copies=copies, **kernels)
    under = "train.py (4711);main thread;main"
    assert lines(tree(recorded), "gpu-time") == {f"{under};work;-;matmul_[G]": 3, f"{under};-;[copy host→device]_[G]": 2}


def test_work_on_a_device_without_a_launch_is_shown_as_such(tmp_path: Path) -> None:
    launches = [{"thread": 1, "stack": 1, "api": 2, "correlation": 5}]
    kernels = ran({"name": "matmul", "api": 1, "correlation": 5, "end_ns": 4 * MS})
    recorded = profile(tmp_path, stacks=stack(MAIN), launches=launches, **kernels)
    assert lines(tree(recorded), "gpu-time") == {"train.py (4711);[unattributed: no launch];matmul_[G]": 4}


def test_many_kernels_of_one_launch_are_all_counted_once(tmp_path: Path) -> None:
    launch = {"thread": 1, "stack": 1, "api": 1, "correlation": 5}
    kernels = ran(*({"name": "k", "api": 1, "correlation": 5, "start_ns": n * MS, "end_ns": (n + 2) * MS} for n in range(10)))
    recorded = profile(tmp_path, stacks=stack(MAIN), launches=[launch, launch], **kernels)
    assert tree(recorded, "gpu-time").total("gpu-time") == 20 * MS


def test_the_default_metric_is_gpu_time_where_kernels_ran(tmp_path: Path) -> None:
    only_cpu = profile(tmp_path / "cpu", stacks=stack(MAIN), cpu_samples=[sample(1)])
    with_gpu = profile(tmp_path / "gpu", stacks=stack(MAIN), cpu_samples=[sample(1)], **ran({"name": "k", "end_ns": 5}))
    assert (default_metric(only_cpu), metrics(only_cpu)) == ("cpu-time", ["cpu-time"])
    assert (default_metric(with_gpu), metrics(with_gpu)) == ("gpu-time", ["cpu-time", "gpu-time"])


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        ({"metric": "gpu-time"}, "no gpu-time, only cpu-time: for gpu-time, record a program that uses a GPU"),
        ({"metric": "love"}, "unknown metric 'love': use cpu-time, wall-time, gpu-time, gpu-stalls, gpu-latency, bytes"),
        ({"by": "mood"}, "unknown grouping 'mood': use code, layer, step, region, op, phase, family, category, process, thread, module"),
        ({"detail": "atom"}, "unknown detail 'atom': use function, line, instruction"),
    ],
)
def test_a_grouping_that_is_missing_is_refused_with_the_possible_ones(tmp_path: Path, asked: dict[str, Any], says: str) -> None:
    recorded = profile(tmp_path, stacks=stack(MAIN), cpu_samples=[sample(1)])
    with pytest.raises(AiflameError, match=says):
        tree(recorded, **asked)


def test_a_stack_of_thousands_of_frames_is_kept_whole(tmp_path: Path) -> None:
    deep = [PYMAIN, MAIN] * 2500
    recorded = profile(tmp_path, stacks=stack(*deep), cpu_samples=[sample(5000, 2)])
    assert lines(tree(recorded)) == {"train.py (4711);main thread;" + ";".join(["py::run", "main"] * 2500): 2}


def test_a_profile_of_nothing_says_so(tmp_path: Path) -> None:
    with pytest.raises(AiflameError, match="ended too soon to be sampled; record it for longer"):
        tree(profile(tmp_path))


def test_a_tree_may_be_grouped_by_library_first(tmp_path: Path) -> None:
    recorded = profile(tmp_path, stacks=stack(MAIN, PYMAIN), cpu_samples=[sample(1, 1), sample(2, 2)])
    under = "train.py (4711);main thread;main"
    assert lines(tree(recorded, by="module")) == {f"libx.so;{under}": 1, f"Python;{under};py::run": 2}


@COSTLY
@given(
    st.fixed_dictionaries({name: damaged(name) for name in ("threads", "thread_ends", "stacks", "codes", "launches", "kernels", "copies")}),
    damaged("cpu_samples").filter(bool),
    st.sampled_from(["function", "line", "instruction"]),
)
def test_whatever_the_numbers_are_a_tree_is_made_and_no_time_lost(tables: dict[str, list[Row]], samples: list[Row], detail: str) -> None:
    processes = [{"process": 0, "pid": 1, "command": "a"}, {"process": 1, "pid": 2, "command": "b"}]
    samples = [{**sample, "clock": 0, "weight": sample["weight"] % 100} for sample in samples]
    recorded = InMemory({**tables, "processes": processes, "cpu_samples": samples, "symbols": SYMBOLS, "instructions": INSTRUCTIONS})
    of = tree(recorded, "cpu-time", detail=detail)
    assert is_sound(of)
    assert of.total("cpu-time") == sum(sample["weight"] * sample["period_ns"] for sample in samples)
    if tables["kernels"] or tables["copies"]:
        on_device = without_idle(tree(recorded, "gpu-time"))
        assert is_sound(on_device)
        longest = sum(max(0, row["end_ns"] - row["start_ns"]) for name in ("kernels", "copies") for row in tables[name])
        assert 0 <= on_device.total("gpu-time") <= longest
