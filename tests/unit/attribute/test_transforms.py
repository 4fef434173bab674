"""Transforms of the tree: the effect of each, and that none loses or adds time."""

from __future__ import annotations

import io
import re
from collections import Counter
from collections.abc import Callable

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from trees import PROCESS, THREAD, TREES, c, functions, is_sound, paths, py, tree

from aiflame.attribute.groupings import REGROUPS
from aiflame.attribute.transforms.difference import diff
from aiflame.attribute.transforms.filters import focus, hide, prune, without, without_idle
from aiflame.attribute.transforms.grouping import group
from aiflame.attribute.transforms.invert import invert, inverted_for_reading
from aiflame.attribute.transforms.noise import hide_interpreter_noise
from aiflame.attribute.transforms.recursion import merge_recursion
from aiflame.attribute.tree import CPU_TIME, Frame, Kind, Tree, from_stacks
from aiflame.errors import AiflameError
from aiflame.exchange.writers import collapsed

KEEPING: list[Callable[[Tree], Tree]] = [
    hide_interpreter_noise,
    merge_recursion,
    invert,
    inverted_for_reading,
    lambda of: hide(of, "^[a-f]"),
    lambda of: hide(of, pl.col("kind") == int(Kind.C)),
    lambda of: prune(of, 0.1),
    *(lambda of, by=by: group(of, by) for by in REGROUPS),
]


@pytest.mark.parametrize("transform", KEEPING)
@given(of=TREES)
def test_totals_are_exact_and_the_tree_sound(transform: Callable[[Tree], Tree], of: Tree) -> None:
    before = paths(of)
    after = transform(of)
    assert is_sound(after)
    assert after.total("cpu-time") == of.total("cpu-time")
    assert paths(of) == before, "the argument was changed"


CUDART, CUDA, CUPTI = (f"lib{name}.so.12" for name in ("cudart", "cuda", "cupti"))


def visible(*stack: Frame) -> tuple[str, ...]:
    (path,) = paths(hide_interpreter_noise(tree((stack, 1))))
    return path


def test_a_notebook_s_cell_stands_on_its_thread() -> None:
    kernel = (py("execute_request", "ipykernel/kernelbase.py"), c("task_step", "_asyncio.so"), py("run", "/lib/aiflame/notebook/cell.py"))
    assert visible(PROCESS, THREAD, *kernel, py("<module>", "/tmp/ipykernel_1/2.py"), py("work")) == (
        "train.py (7)", "main thread", "<module>", "work",
    )  # fmt: skip
    assert visible(PROCESS, *kernel[:2], py("run", "/lib/notebook/cell.py"))[1:] == ("execute_request", "task_step", "run")


def test_of_a_gpu_s_driver_the_call_that_the_program_made_stays() -> None:
    inside = (c("[unknown] a", CUDART), c("cuLaunchKernel", CUDA), c("[unknown] b", CUDA), c("[unknown] c", CUPTI))
    assert visible(py("step"), c("launch"), c("cudaLaunchKernel", CUDART), *inside, Frame("-", Kind.BOUNDARY)) == (
        "step", "launch", "cudaLaunchKernel", "-",
    )  # fmt: skip


def test_a_runtime_that_is_a_part_of_the_program_is_folded_too() -> None:
    inside = (c("libcudart_static_0af3", "train"), c("cuMemcpyAsync", CUDA), c("[unknown] b", CUDA))
    assert visible(c("load", "train"), c("cudaMemcpyAsync", "train"), *inside) == ("load", "cudaMemcpyAsync")


def test_behind_a_graph_s_replay_the_captured_call_stays_as_well() -> None:
    captured = (py("forward"), c("cudaLaunchKernel", CUDART), c("[unknown] a", CUDA))
    replay = (py("replay"), c("cudaGraphLaunch", CUDART), c("cuGraphLaunch", CUDA), Frame("[graph replay]", Kind.BOUNDARY))
    assert visible(*replay, *captured) == ("replay", "cudaGraphLaunch", "[graph replay]", "forward", "cudaLaunchKernel")


def test_a_drivers_wait_stays_and_one_of_its_nameless_functions() -> None:
    wait = Frame("[lock]", Kind.WAIT)
    nameless = (c("[unknown] a", CUDA), c("[unknown] b", CUDA), c("poll", "libc.so.6"), wait)
    assert visible(c("cudaDeviceSynchronize", CUDART), *nameless) == ("cudaDeviceSynchronize", "poll", "[lock]")
    assert visible(c("worker"), *nameless) == ("worker", "[unknown] a", "poll", "[lock]")


def test_idle_time_can_be_left_out() -> None:
    idle = Frame("[GPU idle]", Kind.GPU_IDLE)
    of = tree(((PROCESS, idle), 5), ((PROCESS, THREAD, py("a")), 3))
    assert without_idle(of).total("cpu-time") == 3
    assert of.total("cpu-time") == 8


@given(TREES, st.sampled_from(["^a$", "f|kernel", "train", "nowhere"]))
def test_the_focused_part_and_the_rest_make_the_whole(of: Tree, pattern: str) -> None:
    inside, outside = focus(of, pattern), without(of, pattern)
    assert is_sound(inside)
    assert is_sound(outside)
    assert inside.total("cpu-time") + outside.total("cpu-time") == of.total("cpu-time")
    matched = sum(value for path, value in paths(of).items() if any(re.search(pattern, name) for name in path))
    assert inside.total("cpu-time") == matched


@given(TREES)
def test_inverting_turns_every_stack_round(of: Tree) -> None:
    assert paths(invert(of)) == Counter({tuple(reversed(path)): value for path, value in paths(of).items()})


@given(TREES)
def test_inverting_twice_gives_the_tree_back(of: Tree) -> None:
    again = invert(invert(of))
    assert paths(again) == paths(of)
    assert functions(again) == functions(of)


@given(TREES)
def test_inverted_the_totals_below_the_root_are_functions_own_times(of: Tree) -> None:
    turned = invert(of)
    first = np.flatnonzero(turned.parent == 0)
    names = turned.frames["name"].to_list()
    totals = Counter[str]()
    for node in first.tolist():
        totals[names[turned.frame[node]]] += int(turned.totals("cpu-time")[node])
    assert totals == Counter({name: value for name, value in functions(of).items() if name})


def test_read_from_the_leaves_samples_begin_with_the_stall_reason() -> None:
    """An offset means nothing without its kernel, and those of different kernels would be one frame."""

    def inside(kernel: str) -> tuple[Frame, ...]:
        kinds = (Kind.GPU_KERNEL, Kind.GPU_INSTRUCTION, Kind.GPU_STALL, Kind.GPU_OFFSET)
        return tuple(Frame(name, kind) for name, kind in zip((kernel, "LDG", "long_scoreboard", "+0x10"), kinds, strict=True))

    of = tree((inside("gemm"), 3), (inside("relu"), 2))
    assert paths(inverted_for_reading(of)) == {("long_scoreboard", "LDG", "gemm"): 3, ("long_scoreboard", "LDG", "relu"): 2}


@given(TREES)
def test_merging_recursion_twice_changes_nothing_more(of: Tree) -> None:
    once = merge_recursion(of)
    assert paths(merge_recursion(once)) == paths(once)


@pytest.mark.parametrize(
    ("stack", "merged"),
    [
        ("a a a", "a"),
        ("a b a b a b", "a b"),
        ("m a b c a b c d", "m a b c d"),
        ("a b a", "a b a"),
        ("a b a b a", "a b a"),
        ("a b c a d", "a b c a d"),
        ("a a b a a b", "a b"),
    ],
)
def test_calls_that_repeat_at_once_are_merged_into_the_first(stack: str, merged: str) -> None:
    of = tree((tuple(py(name) for name in stack.split()), 5))
    assert paths(merge_recursion(of)) == {tuple(merged.split()): 5}


def test_only_code_is_merged_not_owners_or_instructions() -> None:
    line = Frame("g.cpp:4", Kind.CPU_LINE)
    of = tree(((PROCESS, PROCESS, line, line), 1))
    assert paths(merge_recursion(of)) == paths(of)


def test_deep_recursion_takes_one_place() -> None:
    of = tree(((PROCESS, *([py("fib")] * 5000), c("work")), 3))
    assert paths(merge_recursion(of)) == {("train.py (7)", "fib", "work"): 3}


def libpython(name: str, kind: Kind = Kind.C) -> Frame:
    return Frame(name, kind, module="libpython3.11.so.1.0")


def test_the_interpreter_at_work_is_hidden_and_its_time_is_its_callers() -> None:
    of = tree(
        (
            (
                PROCESS,
                THREAD,
                c("_start", "python3.11"),
                c("__libc_start_main_impl", "libc.so.6"),
                c("main", "python3.11"),
                libpython("Py_BytesMain"),
                libpython("pymain_run_python.constprop.0"),
                py("<module>"),
                libpython("_PyEval_EvalFrameDefault"),
                libpython("_PyFunction_Vectorcall"),
                py("train"),
                libpython("_PyEval_EvalFrameDefault"),
            ),
            3,
        ),
        ((PROCESS, Frame("pool (8)", Kind.THREAD), c("__clone3", "libc.so.6"), c("start_thread", "libc.so.6"), c("worker")), 2),
    )
    hidden = hide_interpreter_noise(of)
    assert paths(hidden) == {("train.py (7)", "main thread", "<module>", "train"): 3, ("train.py (7)", "pool (8)", "worker"): 2}


@pytest.mark.parametrize(
    "frame",
    [
        libpython("list_sort_impl"),
        libpython("PyDict_SetItem"),
        libpython("_PyGC_Collect"),
        libpython("long_add"),
        c("main", "server"),
        c("type_call", "libmine.so"),
        py("run", "/app/threading_tools.py"),
        py("load", "/app/importlib_helper.py"),
        py("train", "/app/target/train.py"),
        py("Pool.copy_out", "/usr/lib/python3.11/site-packages/aiflame/intra/device.py"),
        Frame("[OpenMP wait]", Kind.WAIT),
        Frame("at::native::conv2d", Kind.CPP, module="libtorch_cpu.so"),
    ],
)
def test_work_is_not_noise(frame: Frame) -> None:
    of = tree(((PROCESS, frame), 1))
    assert paths(hide_interpreter_noise(of)) == paths(of)


@pytest.mark.parametrize(
    "frame",
    [
        py("_find_and_load", "<frozen importlib._bootstrap>"),
        py("exec_module", "<frozen importlib._bootstrap_external>"),
        py("look_around", "/usr/lib/python3.11/site-packages/aiflame/target/bootstrap.py"),
        py("Launch.__call__", "/usr/lib/python3.11/site-packages/aiflame/intra/runtime.py"),
        py("_run_code", "/usr/lib/python3.11/runpy.py"),
        py("_run_module_as_main", "<frozen runpy>"),
        py("Thread._bootstrap_inner", "/usr/lib/python3.11/threading.py"),
        libpython("object_vacall"),
        libpython("method_vectorcall"),
        libpython("slot_tp_call"),
        libpython("PyObject_CallFunctionObjArgs"),
        libpython("cfunction_vectorcall_FASTCALL_KEYWORDS"),
        c("aiflame::spool::append", "libaiflame.so"),
        c("anything", "libaiflame.so"),
        Frame("execute_native_thread_routine", Kind.C, module="libstdc++.so.6"),
    ],
)
def test_noise_is_hidden(frame: Frame) -> None:
    of = tree(((PROCESS, frame, py("kept")), 1))
    assert paths(hide_interpreter_noise(of)) == {("train.py (7)", "kept"): 1}


@pytest.mark.parametrize("name", ["list_contains", "long_richcompare", "[unknown] libpython3.11.so.1.0+0x1f"])
def test_the_interpreters_work_counts_for_the_function_that_it_runs(name: str) -> None:
    inner = libpython(name)
    of = tree(((PROCESS, inner, py("a"), inner, py("b"), inner, inner), 2), ((PROCESS, inner, py("a"), inner), 3))
    assert paths(hide_interpreter_noise(of)) == {("train.py (7)", "a", "b"): 2, ("train.py (7)", "a"): 3}


def test_functions_that_the_interpreter_calls_for_python_stay() -> None:
    of = tree(((PROCESS, py("a"), libpython("list_sort"), c("compare", "mine.cpython-311.so"), c("memcmp", "libc.so.6")), 2))
    assert paths(hide_interpreter_noise(of)) == {("train.py (7)", "a", "compare", "memcmp"): 2}


def test_garbage_collection_stays_and_has_the_time_of_all_that_it_calls() -> None:
    collects = (libpython("_PyGC_CollectNoFail"), libpython("[GC]"), libpython("deduce_unreachable"))
    of = tree(((PROCESS, py("a"), *collects), 2), ((PROCESS, py("a"), *collects, py("Node.__del__")), 1))
    assert paths(hide_interpreter_noise(of)) == {("train.py (7)", "a", "[GC]"): 2, ("train.py (7)", "a", "[GC]", "Node.__del__"): 1}


def test_start_and_end_of_the_interpreter_are_one_frame_each() -> None:
    ends = (libpython("Py_FinalizeEx"), libpython("_Py_Finalize"), libpython("finalize_modules"))
    of = tree(((PROCESS, *ends), 2), ((PROCESS, *ends, libpython("[GC]"), libpython("deduce_unreachable")), 1))
    assert paths(hide_interpreter_noise(of)) == {("train.py (7)", "Py_FinalizeEx"): 2, ("train.py (7)", "Py_FinalizeEx", "[GC]"): 1}


def test_where_python_is_not_read_the_interpreters_functions_are_all_there_is() -> None:
    of = tree(((PROCESS, THREAD, libpython("[unknown] libpython3.11.so.1.0+0x1f"), libpython("list_contains"), c("work")), 1))
    assert paths(hide_interpreter_noise(of)) == paths(of)


LIBC = c("[unknown] libc.so.6+0x2a1c9", "libc.so.6")


@pytest.mark.parametrize("start", [THREAD, PROCESS, Frame("[graph replay]", Kind.BOUNDARY)])
def test_how_a_stripped_libc_starts_programs_and_threads_is_hidden(start: Frame) -> None:
    of = tree(((start, c("_start", "train"), LIBC, LIBC, c("main", "train"), LIBC), 2), ((start, LIBC), 1))
    assert paths(hide_interpreter_noise(of)) == {(start.name, "main", LIBC.name): 2, (start.name, LIBC.name): 1}


def test_lines_go_with_the_native_function_that_is_hidden_but_python_lines_stay() -> None:
    evaluator = libpython("_PyEval_EvalFrameDefault")
    own_line, instruction = libpython("ceval.c:99", Kind.CPU_LINE), libpython("mov @ +0x4", Kind.CPU_INSTRUCTION)
    line = Frame("train.py:4", Kind.CPU_LINE, "train.py", 4)
    of = tree(((py("a"), evaluator, own_line, instruction), 1), ((py("b"), evaluator, line, instruction), 2))
    assert paths(hide_interpreter_noise(of)) == {("a",): 1, ("b", "train.py:4"): 2}


def test_focus_makes_the_outermost_matches_the_new_beginning() -> None:
    of = tree(((py("m"), py("f"), py("g"), py("f")), 4), ((py("m"), py("g")), 2), ((py("f"),), 1))
    assert paths(focus(of, "^f$")) == {("f", "g", "f"): 4, ("f",): 1}


def test_a_hidden_frame_leaves_its_time_with_its_caller() -> None:
    of = tree(((py("m"), py("f"), py("g")), 4), ((py("m"), py("f")), 2))
    assert paths(hide(of, "^f$")) == {("m", "g"): 4, ("m",): 2}


def test_a_pattern_that_is_none_is_refused() -> None:
    with pytest.raises(AiflameError, match="is not a regular expression"):
        focus(tree(((py("a"),), 1)), "(")


def test_a_stack_belongs_to_the_library_of_its_innermost_function() -> None:
    line = Frame("a.c:1", Kind.CPU_LINE)
    of = tree(((py("m"), c("f", "liba.so"), line), 4), ((py("m"),), 2), ((PROCESS,), 1))
    assert paths(group(of, "module")) == {
        ("liba.so", "m", "f", "a.c:1"): 4,
        ("Python", "m"): 2,
        ("[unattributed: no module]", "train.py (7)"): 1,
    }


def test_grouped_by_thread_the_thread_comes_first_and_once() -> None:
    of = tree(((PROCESS, THREAD, py("m")), 4), ((PROCESS,), 1))
    assert paths(group(of, "thread")) == {("main thread", "train.py (7)", "m"): 4, ("[unattributed: no thread]", "train.py (7)"): 1}


def test_one_cannot_group_by_something_absent() -> None:
    with pytest.raises(AiflameError, match="cannot group by 'mood': use process, thread, module, file, kind"):
        group(tree(((py("a"),), 1)), "mood")


def test_small_nodes_become_one_beside_their_larger_siblings() -> None:
    of = tree(((py("m"), py("big")), 90), ((py("m"), py("s")), 4), ((py("m"), py("s"), py("t")), 2), ((py("m"), py("u")), 4))
    assert paths(prune(of, 0.1)) == {("m", "big"): 90, ("m", "[… 3 smaller]"): 10}


def test_a_difference_has_the_values_of_both_under_the_same_frames() -> None:
    base = tree(((PROCESS, py("a", line=10)), 5), ((PROCESS, py("gone")), 2))
    new = tree(((Frame("train.py (99)", Kind.PROCESS), py("a", line=14)), 3), ((Frame("train.py (99)", Kind.PROCESS), py("come")), 1))
    both = diff(base, new, "cpu-time")
    assert paths(both, "base") == {("train.py", "a"): 5, ("train.py", "gone"): 2}
    assert paths(both, "new") == {("train.py", "a"): 3, ("train.py", "come"): 1}
    assert is_sound(both)


@given(TREES, TREES)
def test_a_difference_keeps_both_totals(base: Tree, new: Tree) -> None:
    both = diff(base, new, "cpu-time")
    assert is_sound(both)
    assert (both.total("base"), both.total("new")) == (base.total("cpu-time"), new.total("cpu-time"))


@given(TREES, TREES)
def test_a_normalized_difference_has_equal_totals(base: Tree, new: Tree) -> None:
    both = diff(base, new, "cpu-time", normalize=True)
    assert both.total("new") == new.total("cpu-time")
    if base.total("cpu-time"):
        assert both.total("base") == new.total("cpu-time")


@given(TREES)
def test_a_tree_differs_from_itself_in_nothing(of: Tree) -> None:
    both = diff(of, of, "cpu-time", normalize=True)
    assert both.values["base"].tolist() == both.values["new"].tolist()


def test_every_transform_takes_stacks_of_five_thousand_frames() -> None:
    deep = tuple(py(f"f{at % 11}") for at in range(5000))
    of = tree((deep, 7), (deep[:4000], 5))
    for transform in KEEPING:
        assert transform(of).total("cpu-time") == 12
    assert paths(invert(of))[tuple(frame.name for frame in reversed(deep))] == 7


def _text(of: Tree) -> str:
    text = io.StringIO()
    collapsed.write(of, "cpu-time", text)
    return text.getvalue()


@given(TREES)
def test_transforms_give_the_same_bytes_every_time(of: Tree) -> None:
    stacks = list(paths(of).items())
    again = from_stacks([(tuple(py(name) for name in path), value) for path, value in reversed(stacks)], CPU_TIME)
    once = from_stacks([(tuple(py(name) for name in path), value) for path, value in stacks], CPU_TIME)
    assert _text(merge_recursion(once)) == _text(merge_recursion(again))
