"""Work on devices under the code that launched it: times, graphs, samples and their division, idle time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest
from device_work import (
    BARRIER,
    GEMM,
    GPU,
    LINES,
    LONG,
    LONG_NOT_ISSUED,
    OTHER,
    REASONS,
    SASS,
    TABLES,
    UNDER,
    graph,
    kernel,
    lines,
    profile,
    sample,
    window,
)
from examples import COSTLY
from hypothesis import given
from hypothesis import strategies as st
from profiles import Row, ran
from small_program import CODES, PROCESSES, SYMBOLS, THREADS, InMemory, damaged
from trees import is_sound

from aiflame.attribute.analysis import Analysis
from aiflame.attribute.metrics import METRIC_ROWS
from aiflame.attribute.transforms.filters import without_idle
from aiflame.attribute.tree import Kind
from aiflame.attribute.trees.build import metrics, tree
from aiflame.profile.schema.enums import CopyKind
from aiflame.profile.tables.store import Profile

# Graphs


def test_a_replayed_kernel_lies_under_the_replay_and_the_stack_that_captured_it(tmp_path: Path) -> None:
    """Node 30 was cloned from 20, and that from 10, which stack 3 captured; stack 1 replays."""
    nodes = graph((30, 20, 0), (10, 0, 3), (20, 10, 0))
    recorded = profile(tmp_path, graph_nodes=nodes, **ran(kernel(1, 0, 5, node=30)))
    assert lines(tree(recorded, "gpu-time"), "gpu-time") == {f"{UNDER};[graph replay];main;py::run;work;-;gemm_[G]": 5}


@pytest.mark.parametrize(
    "nodes", [(), ((30, 20, 0),), ((30, 20, 0), (20, 30, 0)), ((30, 30, 0),), ((30, 0, 0),), ((30, 20, 0), (20, 0, 99))]
)
def test_a_node_whose_capture_is_not_known_says_so(tmp_path: Path, nodes: tuple[tuple[int, int, int], ...]) -> None:
    """No such node, an original that is missing, circles, no stack, a stack that was lost."""
    recorded = profile(tmp_path, graph_nodes=graph(*nodes), **ran(kernel(1, 0, 5, node=30)))
    unknown = "[unattributed: graph node captured before recording]"
    assert lines(tree(recorded, "gpu-time"), "gpu-time") == {f"{UNDER};[graph replay];{unknown};-;gemm_[G]": 5}


def test_a_replayed_kernel_without_a_launch_still_shows_its_capture(tmp_path: Path) -> None:
    recorded = profile(tmp_path, graph_nodes=graph((30, 0, 2)), **ran(kernel(77, 0, 5, node=30)))
    stacks = lines(tree(recorded, "gpu-time"), "gpu-time")
    assert stacks == {"train.py (4711);[unattributed: no launch];[graph replay];main;py::run;-;gemm_[G]": 5}


def test_a_node_that_cupti_reports_as_made_and_as_cloned_was_made_where_its_original_was(tmp_path: Path) -> None:
    """Stack 3 captured node 10. While stack 2 instantiates the graph, CUPTI reports node 30 as created, and then as cloned from 10."""
    recorded = profile(tmp_path, graph_nodes=graph((10, 0, 3), (30, 0, 2), (30, 10, 0)), **ran(kernel(1, 0, 5, node=30)))
    assert lines(tree(recorded, "gpu-time"), "gpu-time") == {f"{UNDER};[graph replay];main;py::run;work;-;gemm_[G]": 5}


def test_the_stack_that_instantiated_never_stands_for_one_that_captured(tmp_path: Path) -> None:
    """The original was captured before the recording began."""
    recorded = profile(tmp_path, graph_nodes=graph((30, 0, 2), (30, 10, 0)), **ran(kernel(1, 0, 5, node=30)))
    unknown = "[unattributed: graph node captured before recording]"
    assert lines(tree(recorded, "gpu-time"), "gpu-time") == {f"{UNDER};[graph replay];{unknown};-;gemm_[G]": 5}


def test_of_nodes_that_were_made_under_one_number_the_one_with_a_stack_counts(tmp_path: Path) -> None:
    recorded = profile(tmp_path, graph_nodes=graph((30, 0, 0), (30, 0, 2), (30, 0, 0)), **ran(kernel(1, 0, 5, node=30)))
    assert lines(tree(recorded, "gpu-time"), "gpu-time") == {f"{UNDER};[graph replay];main;py::run;-;gemm_[G]": 5}


# Threads


@pytest.mark.parametrize(
    ("launch", "creator", "under"),
    [
        (1, 2, "autograd;main;py::run;[thread started here];main"),
        (2, 2, "autograd;main;py::run;[thread started here];main;py::run"),
        (1, 1, "autograd;main"),
        (1, 0, "autograd;main"),
        (1, 77, "autograd;main"),
    ],
    ids=["native", "Python called by native code", "started by native code", "start unknown", "start lost"],
)
def test_work_of_a_thread_that_native_code_started_lies_under_the_python_behind_it(
    tmp_path: Path, launch: int, creator: int, under: str
) -> None:
    threads = [*THREADS, {"tid": 99, "name": "autograd", "creator": creator}]
    launches = [{"thread": len(threads), "stack": launch, "api": 2, "correlation": 1}]
    recorded = profile(tmp_path, threads=threads, launches=launches, **ran(kernel(1, 0, 5)))
    assert lines(tree(recorded, "gpu-time"), "gpu-time") == {f"train.py (4711);{under};-;gemm_[G]": 5}


def test_a_thread_of_pythons_own_stands_for_itself(tmp_path: Path) -> None:
    codes = [{**CODES[0], "qualname": "Thread._bootstrap", "filename": "/usr/lib/python3.12/threading.py"}]
    symbols = [row if row["name"] != "run" else {**row, "name": "Thread._bootstrap"} for row in SYMBOLS]
    threads = [*THREADS, {"tid": 99, "name": "worker", "creator": 2}]
    launches = [{"thread": len(threads), "stack": 3, "api": 2, "correlation": 1}]
    recorded = profile(tmp_path, threads=threads, codes=codes, symbols=symbols, launches=launches, **ran(kernel(1, 0, 5)))
    stacks = lines(tree(recorded, "gpu-time"), "gpu-time")
    assert stacks == {"train.py (4711);worker;main;py::Thread._bootstrap;work;-;gemm_[G]": 5}


# Names, devices, copies


def test_kernels_go_by_their_short_name_and_keep_the_full_one(tmp_path: Path) -> None:
    names = [{"name": "_Z4gemmPf", "short": "gemm", "full": "gemm(float*)"}]
    recorded = profile(tmp_path, kernel_names=names, **ran(kernel(1, 0, 5, "_Z4gemmPf")))
    frames = tree(recorded, "gpu-time").frames.filter(kind=int(Kind.GPU_KERNEL))
    assert frames.select("name", "full_name", "module").rows() == [("gemm", "gemm(float*)", GPU)]


def test_equal_kernels_of_two_devices_are_kept_apart(tmp_path: Path) -> None:
    recorded = profile(tmp_path, **ran(kernel(1, 0, 5), kernel(1, 0, 7, device=OTHER)))
    of = tree(recorded, "gpu-time")
    kernels = of.frames.with_row_index("row").filter(kind=int(Kind.GPU_KERNEL))
    took = {device: int(of.values["gpu-time"][of.frame == row].sum()) for row, device in kernels.select("row", "module").rows()}
    assert took == {GPU: 5, OTHER: 7}


def test_bytes_lie_under_the_stacks_that_copied_them(tmp_path: Path) -> None:
    kinds = (CopyKind.HOST_TO_DEVICE, CopyKind.PEER)
    copies = [{"kind": kind, "api": 2, "correlation": launch, "bytes": 10 * launch} for launch, kind in zip((2, 3), kinds, strict=True)]
    recorded = profile(tmp_path, copies=copies)
    assert lines(tree(recorded, "bytes"), "bytes") == {
        f"{UNDER};py::run;-;[copy host→device]_[G]": 20,
        f"{UNDER};py::run;work;-;[copy device→other device]_[G]": 30,
    }


def test_the_tree_knows_how_often_each_kernel_ran(tmp_path: Path) -> None:
    recorded = profile(tmp_path, **ran(kernel(1, 0, 5), kernel(1, 5, 6), kernel(2, 6, 7)))
    assert lines(tree(recorded, "gpu-time"), "launches") == {f"{UNDER};-;gemm_[G]": 2, f"{UNDER};py::run;-;gemm_[G]": 1}


# Idle time


def test_idle_time_is_the_time_that_no_stream_fills_between_first_and_last(tmp_path: Path) -> None:
    copies = [{"kind": 1, "device": GPU, "api": 2, "correlation": 3, "start_ns": 55, "end_ns": 60}]
    kernels = ran(kernel(1, 10, 20), kernel(1, 12, 40, stream=5), kernel(1, 30, 35), kernel(1, 90, 100), kernel(2, 0, 1000, device=OTHER))
    of = tree(profile(tmp_path, copies=copies, **kernels), "gpu-time")
    idle = 15 + 30
    assert lines(of, "gpu-time")["train.py (4711);[GPU idle]"] == idle
    assert lines(of, "launches").keys() == lines(without_idle(of), "gpu-time").keys()
    assert of.total("gpu-time") - without_idle(of).total("gpu-time") == idle
    assert (of.metrics[0].label, without_idle(of).metrics[0].label) == ("GPU time, with idle time", "GPU time")


def test_a_damaged_record_of_long_ago_makes_no_idle_time(tmp_path: Path) -> None:
    processes = [{**PROCESSES[0], "start_ns": 1000}]
    of = tree(profile(tmp_path, processes=processes, **ran(kernel(1, 3, 7), kernel(1, 1000, 1010), kernel(1, 1015, 1020))), "gpu-time")
    assert lines(of, "gpu-time")["train.py (4711);[GPU idle]"] == 5


# Samples


def test_samples_are_divided_by_the_time_that_launches_took_in_the_window(tmp_path: Path) -> None:
    """Three quarters from one place, in the first window; all from the other in the second."""
    kernels = ran(kernel(2, 0, 75), kernel(3, 75, 100), kernel(3, 100, 200))
    samples = [sample(1, 1, offset) for offset in range(1000)] + [sample(40, 2)]
    recorded = profile(tmp_path, gpu_functions=GEMM, gpu_windows=[window(0, 100), window(100, 200)], gpu_samples=samples, **kernels)
    stacks = lines(tree(recorded, "gpu-stalls", detail="function"), "gpu-stalls")
    assert stacks == {f"{UNDER};py::run;-;gemm_[G]": 750, f"{UNDER};py::run;work;-;gemm_[G]": 290}


def test_division_favours_nobody_however_few_samples_a_point_has(tmp_path: Path) -> None:
    """One sample a point, a hundredth of the time for one of two places."""
    kernels = ran(kernel(2, 0, 9_900), kernel(3, 9_900, 10_000))
    samples = [sample(1, 1, offset, reason) for offset in range(500) for reason in (LONG, BARRIER)]
    recorded = profile(tmp_path, gpu_functions=GEMM, gpu_windows=[window(0, 10_000)], gpu_samples=samples, **kernels)
    stacks = lines(tree(recorded, "gpu-stalls"), "gpu-stalls")
    assert sum(value for path, value in stacks.items() if "work" in path) == 10
    assert len(stacks) == 1000


def test_a_sample_whose_kernel_ran_beside_its_window_belongs_to_it(tmp_path: Path) -> None:
    """The kernels' clock and the windows' differ a little; a kernel further ahead than a window is not meant."""
    windows = [window(100, 200), window(900, 1000)]
    recorded = profile(
        tmp_path, gpu_functions=GEMM, gpu_windows=windows, gpu_samples=[sample(3, 1), sample(5, 2)], **ran(kernel(2, 1001, 1050))
    )
    assert lines(tree(recorded, "gpu-stalls", detail="function"), "gpu-stalls") == {
        f"{UNDER};py::run;-;gemm_[G]": 5,
        "train.py (4711);[unattributed: no kernel ran in the sample's window];gemm_[G]": 3,
    }


def test_samples_that_come_late_belong_to_the_kernels_since_the_window_before(tmp_path: Path) -> None:
    """Samples that are fetched when sampling ends come late. The kernel in the window before the last two gets none."""
    windows = [window(100, 200), window(300, 400), window(5000, 5100)]
    kernels = ran(kernel(3, 150, 160), kernel(2, 450, 460))
    recorded = profile(tmp_path, gpu_functions=GEMM, gpu_windows=windows, gpu_samples=[sample(3, 3)], **kernels)
    assert lines(tree(recorded, "gpu-stalls", detail="function"), "gpu-stalls") == {f"{UNDER};py::run;-;gemm_[G]": 3}


def test_samples_may_come_many_windows_after_their_kernels(tmp_path: Path) -> None:
    """Some are fetched when sampling ends: those of the last time that the kernel ran."""
    windows = [window(begin, begin + 100) for begin in range(0, 20_000, 100)]
    kernels = ran(kernel(3, 110, 120), kernel(2, 310, 320))
    recorded = profile(tmp_path, gpu_functions=GEMM, gpu_windows=windows, gpu_samples=[sample(3, len(windows))], **kernels)
    assert lines(tree(recorded, "gpu-stalls", detail="function"), "gpu-stalls") == {f"{UNDER};py::run;-;gemm_[G]": 3}


def test_samples_of_equal_kernels_stay_on_their_device(tmp_path: Path) -> None:
    kernels = ran(kernel(2, 0, 100), kernel(3, 0, 100, device=OTHER))
    windows = [window(0, 100), window(0, 100, device=OTHER)]
    recorded = profile(tmp_path, gpu_functions=GEMM, gpu_windows=windows, gpu_samples=[sample(5, 1), sample(8, 2)], **kernels)
    stacks = lines(tree(recorded, "gpu-stalls", detail="function"), "gpu-stalls")
    assert stacks == {f"{UNDER};py::run;-;gemm_[G]": 5, f"{UNDER};py::run;work;-;gemm_[G]": 8}


def test_lost_samples_and_those_of_the_driver_stand_for_themselves(tmp_path: Path) -> None:
    windows = [window(0, 100, dropped=4, foreign=2), window(100, 200, dropped=3)]
    recorded = profile(tmp_path, gpu_functions=GEMM, gpu_windows=windows, gpu_samples=[sample(5)], **ran(kernel(1, 0, 100)))
    assert lines(tree(recorded, "gpu-stalls", detail="function"), "gpu-stalls") == {
        f"{UNDER};-;gemm_[G]": 5,
        "train.py (4711);[unattributed: samples dropped]": 7,
        "train.py (4711);[kernels of the driver]_[G]": 2,
    }


def test_samples_not_issued_are_a_part_of_all_and_never_counted_twice(tmp_path: Path) -> None:
    samples = [sample(10), sample(6, reason=LONG_NOT_ISSUED)]
    recorded = profile(tmp_path, gpu_functions=GEMM, gpu_windows=[window(0, 100, dropped=1)], gpu_samples=samples, **ran(kernel(1, 0, 9)))
    assert tree(recorded, "gpu-stalls").total("gpu-stalls") == 11
    inside = f"{UNDER};-;gemm_[G];long_scoreboard_[g];+0x10_[g]"
    assert lines(tree(recorded, "gpu-latency"), "gpu-latency") == {inside: 6}


@pytest.fixture
def inside(tmp_path: Path) -> Profile:
    samples = [sample(5, offset=0x10), sample(3, offset=0x20, reason=BARRIER), sample(2, offset=0x30), sample(1, offset=0x20)]
    more: dict[str, list[Row]] = {"gpu_functions": GEMM, "gpu_windows": [window(0, 100)], "gpu_samples": samples}
    derived: dict[str, list[Row]] = {"gpu_lines": LINES, "gpu_instructions": SASS}
    return profile(tmp_path, **more, **derived, **ran(kernel(1, 0, 100), kernel(2, 200, 310, "short")))


def test_a_sample_goes_down_to_line_instruction_reason_and_offset(inside: Profile) -> None:
    assert METRIC_ROWS["gpu-stalls"].detail == "instruction"
    of, under = tree(inside, "gpu-stalls"), f"{UNDER};-;gemm_[G]"
    assert lines(of, "gpu-stalls") == {
        f"{under};gemm.cu:41_[G];dot dot.cuh:12_[G];LDG.E.128_[g];long_scoreboard_[g];+0x10_[g]": 5,
        f"{under};gemm.cu:41_[G];FFMA_[g];barrier_[g];+0x20_[g]": 3,
        f"{under};gemm.cu:41_[G];FFMA_[g];long_scoreboard_[g];+0x20_[g]": 1,
        f"{under};long_scoreboard_[g];+0x30_[g]": 2,
    }
    kinds = {name: Kind(kind).name for name, kind in of.frames.select("name", "kind").rows()}
    assert [kinds[name] for name in ("gemm.cu:41", "LDG.E.128", "barrier", "+0x20")] == [
        "GPU_LINE",
        "GPU_INSTRUCTION",
        "GPU_STALL",
        "GPU_OFFSET",
    ]
    assert of.frames.filter(name="+0x10")["full_name"].to_list() == ["@!P0 LDG.E.128 R4, [R2.64]"]


def test_a_reason_says_what_it_means(inside: Profile) -> None:
    frames = tree(inside, "gpu-stalls").frames.filter(pl.col("kind") == int(Kind.GPU_STALL))
    full_names = dict(frames.select("name", "full_name").rows())
    assert full_names["long_scoreboard"] == "waits for a result from global, local, surface or texture memory"


def test_with_less_detail_a_sample_ends_at_its_line_or_kernel(inside: Profile) -> None:
    under = f"{UNDER};-;gemm_[G]"
    by_line = {f"{under};gemm.cu:41_[G];dot dot.cuh:12_[G]": 5, f"{under};gemm.cu:41_[G]": 4, under: 2}
    assert lines(tree(inside, "gpu-stalls", detail="line"), "gpu-stalls") == by_line
    assert lines(tree(inside, "gpu-stalls", detail="function"), "gpu-stalls") == {under: 11}


def test_time_inside_a_kernel_is_divided_by_its_samples_and_its_sum_stays_exact(inside: Profile) -> None:
    under = f"{UNDER};-;gemm_[G]"
    of = without_idle(tree(inside, "gpu-time", detail="line"))
    assert lines(of, "gpu-time") == {
        f"{under};gemm.cu:41_[G];dot dot.cuh:12_[G]": 45,
        f"{under};gemm.cu:41_[G]": 37,
        under: 18,
        f"{UNDER};py::run;-;short_[G]": 110,
    }
    assert of.metrics[0].label == "GPU time, divided inside kernels by their samples"


@pytest.mark.parametrize("name", ["helper", "$gemm$helper"])
def test_samples_of_a_called_function_lie_in_the_kernels_of_its_cubin(tmp_path: Path, name: str) -> None:
    functions = [*GEMM, {"cubin": 7, "name": name}, {"cubin": 8, "name": "other"}]
    samples = [sample(1), sample(4, function=2), sample(2, function=3)]
    kernels = ran(kernel(2, 0, 50), kernel(3, 50, 60, "relu"))
    recorded = profile(tmp_path, gpu_functions=functions, gpu_windows=[window(0, 100)], gpu_samples=samples, **kernels)
    assert lines(tree(recorded, "gpu-stalls", detail="function"), "gpu-stalls") == {
        f"{UNDER};py::run;-;gemm_[G]": 1,
        f"{UNDER};py::run;-;gemm_[G];{name}_[G]": 4,
        "train.py (4711);[unattributed: called by an unknown kernel];other_[G]": 2,
    }


def test_samples_and_bytes_are_metrics_where_there_are_any(inside: Profile) -> None:
    assert metrics(inside) == ["gpu-time", "gpu-stalls", "gpu-latency"]


# Any input


@COSTLY
@given(st.fixed_dictionaries({name: damaged(name) for name in TABLES}), st.sampled_from(["function", "line", "instruction"]), st.randoms())
def test_totals_are_the_sums_of_the_records_and_their_order_is_nothing(tables: dict[str, list[Row]], detail: str, chance: Any) -> None:
    processes = [{"process": 0, "pid": 1, "command": "a"}, {"process": 1, "pid": 2, "command": "b"}]
    for row in tables["gpu_windows"]:
        row.update(samples=0, dropped=row["dropped"] % 1000, foreign=row["foreign"] % 1000)
    reasons = [{"process": process, "id": number, **row} for process in (0, 1) for number, row in enumerate(REASONS, 1)]
    whole = {**tables, "processes": processes, "stall_reasons": reasons, "symbols": SYMBOLS}
    recorded = Analysis(InMemory(whole))
    shuffled = InMemory({name: chance.sample(rows, len(rows)) if name == "kernels" else rows for name, rows in whole.items()})
    others = Analysis(shuffled)
    for metric in metrics(recorded):
        of = tree(recorded, metric, detail=detail)
        assert is_sound(of)
        assert lines(tree(others, metric, detail=detail), metric) == lines(of, metric)
        issued = [row["count"] for row in tables["gpu_samples"] if row["reason"] != LONG_NOT_ISSUED]
        took = [min(max(0, row["end_ns"] - row["start_ns"]), 1 << 50) for name in ("kernels", "copies") for row in tables[name]]
        if metric == "gpu-stalls":
            assert of.total(metric) == sum(issued) + sum(row["dropped"] + row["foreign"] for row in tables["gpu_windows"])
        elif metric == "gpu-latency":
            assert of.total(metric) == sum(row["count"] for row in tables["gpu_samples"]) - sum(issued)
        elif metric == "gpu-time" and all(row["start_ns"] < 1 << 62 for name in ("kernels", "copies") for row in tables[name]):
            assert without_idle(of).total(metric) == sum(took)
        elif metric == "bytes":
            assert of.total(metric) == sum(min(row["bytes"], 1 << 50) for row in tables["copies"])
