"""The frames that took the time, as a list."""

from __future__ import annotations

import io
import json
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from rich.console import Console
from trees import PROCESS, THREAD, TREES, c, paths, py, tree

from aiflame.analyze.top import to_json, top
from aiflame.attribute.groupings import LISTS
from aiflame.attribute.tree import LAUNCHES, Frame, Kind, Tree
from aiflame.errors import AiflameError
from aiflame.render.terminal.columns import cut_middle
from aiflame.render.terminal.top_table import bar, print_top, where

MS = 1_000_000


def rows(of: Tree, by: str = "function") -> dict[str, tuple[int, int]]:
    """(self, total) of each item."""
    return {name: (own, total) for name, own, total in top(of, by).select("name", "self", "total").rows()}


def test_self_is_a_functions_own_time_and_total_adds_its_calls() -> None:
    of = tree(((PROCESS, py("m"), c("work")), 6), ((PROCESS, py("m")), 4))
    assert rows(of) == {"work": (6, 6), "m": (4, 10)}


def test_the_heaviest_comes_first() -> None:
    of = tree(((py("light"),), 1), ((py("heavy"), py("b")), 5), ((py("heavy"), py("a")), 5))
    assert top(of)["name"].to_list() == ["a", "b", "light", "heavy"]


def test_a_function_that_calls_itself_is_counted_once() -> None:
    of = tree(((py("f"), py("g"), py("f"), py("f")), 6), ((py("f"), py("h")), 1), ((py("g"), py("f")), 2))
    assert rows(of) == {"f": (8, 9), "g": (0, 8), "h": (1, 1)}


@given(TREES)
def test_totals_agree_with_the_definition(of: Tree) -> None:
    by_name = Counter[str]()
    for path, value in paths(of).items():
        for name in set(path):
            by_name[name] += value
    functions = {frame for frame, kind in of.frames.select("name", "kind").rows() if Kind(kind) in LISTS["function"].kinds}
    expected = {name: value for name, value in by_name.items() if name in functions and name != "f"}  # two libraries have an f
    totals = {name: total for name, (_, total) in rows(of).items() if name in expected}
    assert totals == {name: value for name, value in expected.items() if value}


@given(TREES)
def test_self_values_sum_up_to_the_whole_however_it_is_listed(of: Tree) -> None:
    for by in ("function", "module", "thread", "process"):
        assert top(of, by)["self"].sum() == of.total("cpu-time")


def test_lines_and_instructions_belong_to_their_function() -> None:
    line, instruction = Frame("w.c:4", Kind.CPU_LINE, "w.c", 4), Frame("mov @ +0x1", Kind.CPU_INSTRUCTION)
    of = tree(((c("work"), line, instruction), 5), ((c("work"),), 2))
    assert rows(of) == {"work": (7, 7)}
    assert rows(of, "line") == {"w.c:4": (5, 5), "work": (2, 7)}


def test_libraries_take_the_time_of_their_functions() -> None:
    of = tree(((py("m"), c("f", "liba.so"), c("g", "liba.so")), 5), ((py("m"), c("f", "libb.so")), 2), ((py("m"),), 1))
    assert rows(of, "module") == {"liba.so": (5, 5), "libb.so": (2, 2), "Python": (1, 8)}


def test_processes_that_a_rank_started_are_the_ranks() -> None:
    """In a tree grouped by rank, a loader stands below its rank; the launcher has no rank, and stands for itself."""
    rank, loader, launcher = (Frame(name, Kind.PROCESS) for name in ("rank 3", "loader (8)", "torchrun (1)"))
    of = tree(((rank, THREAD, py("m")), 5), ((rank, loader, THREAD, py("m")), 2), ((launcher, THREAD), 1))
    assert rows(of, "rank") == {"rank 3": (7, 7), "torchrun (1)": (1, 1)}


def test_threads_and_processes_take_all_that_lies_in_them() -> None:
    of = tree(((PROCESS, THREAD, py("m")), 5), ((PROCESS, Frame("pool", Kind.THREAD)), 2), ((PROCESS,), 1))
    assert rows(of, "thread") == {"main thread": (5, 5), "pool": (2, 2), "[no thread]": (1, 1)}
    assert rows(of, "process") == {"train.py (7)": (8, 8)}


def test_kernels_are_listed_by_their_time_over_all_launchers() -> None:
    kernel, boundary = Frame("matmul", Kind.GPU_KERNEL), Frame("-", Kind.BOUNDARY)
    of = tree(((py("a"), boundary, kernel), 5), ((py("b"), boundary, kernel, Frame("m.cu:3", Kind.GPU_LINE)), 3))
    assert rows(of, "kernel") == {"matmul": (8, 8)}


def test_copies_and_idle_time_are_listed_beside_kernels() -> None:
    kernel, copy, idle = Frame("gemm", Kind.GPU_KERNEL), Frame("[fill]", Kind.GPU_COPY), Frame("[GPU idle]", Kind.GPU_IDLE)
    of = tree(((PROCESS, py("a"), kernel), 5), ((PROCESS, py("a"), copy), 3), ((PROCESS, idle), 2))
    assert rows(of, "kernel") == {"gemm": (5, 5), "[fill]": (3, 3), "[GPU idle]": (2, 2)}
    assert rows(tree(((PROCESS, copy), 3)), "kernel") == {"[fill]": (3, 3)}


def test_stall_reasons_are_listed_over_all_kernels() -> None:
    def at(kernel: str, instruction: str, reason: str) -> tuple[Frame, ...]:
        frames = Frame(kernel, Kind.GPU_KERNEL), Frame(instruction, Kind.GPU_INSTRUCTION), Frame(reason, Kind.GPU_STALL)
        return (*frames, Frame("+0x10", Kind.GPU_OFFSET))

    of = tree(
        (at("gemm", "LDG", "barrier"), 3),
        (at("relu", "STG", "barrier"), 2),
        (at("relu", "STG", "wait"), 1),
        ((Frame("not sampled", Kind.GPU_KERNEL),), 4),
    )
    assert rows(of, "stall") == {"barrier": (5, 5), "[reason unknown]": (4, 4), "wait": (1, 1)}
    lines = printed(of, 120, "stall")
    assert lines[1].split()[4] == "barrier"
    assert "waits at a block's barrier" in lines[1]


def test_kernels_are_listed_with_their_launches_and_the_mean_of_one() -> None:
    kernel, line = Frame("gemm", Kind.GPU_KERNEL), Frame("g.cu:4", Kind.GPU_LINE)
    of = tree(((py("a"), kernel, line), 6), ((py("b"), kernel), 3), ((PROCESS, Frame("[GPU idle]", Kind.GPU_IDLE)), 2))
    launches = np.array([2 * (of.frames["name"][frame] == "gemm") for frame in of.frame.tolist()])
    of = of.with_values({**of.values, LAUNCHES.name: launches.astype(np.int64)}, (*of.metrics, LAUNCHES))
    assert top(of, "kernel").select("name", "launches", "mean").rows() == [("gemm", 4, 2.25), ("[GPU idle]", 0, None)]
    text = io.StringIO()
    print_top(top(of, "kernel"), of, "cpu-time", "kernel", Console(file=text, width=100))
    assert text.getvalue().splitlines()[1].split()[-3:] == ["2", "ns", "gemm"]


@pytest.mark.parametrize(
    ("by", "says"),
    [
        (
            "colour",
            "cannot list the top by 'colour': use function, kernel, stall, line, layer, step, region, op, phase, family, category, ",
        ),
        ("rank", "no process ran in it: use function, process, thread, module"),
        ("kernel", "no GPU kernel ran in it: use function, process, thread, module"),
        ("line", "no source line is known in it"),
    ],
)
def test_a_list_that_does_not_exist_is_refused_with_the_lists_that_do(by: str, says: str) -> None:
    with pytest.raises(AiflameError, match=says):
        top(tree(((py("a"),), 1)), by)


def test_an_empty_tree_has_no_rows() -> None:
    assert top(tree()).is_empty()


def test_json_has_the_metric_its_unit_and_the_rows_asked_for() -> None:
    of = tree(((py("a"),), 3), ((py("b"),), 1))
    answer = json.loads(to_json(top(of), of, "cpu-time", 1))
    assert answer == {
        "schema": "aiflame.top/2",
        "scope": None,
        "metric": "cpu-time",
        "unit": "ns",
        "total": 4,
        "rows": [
            {
                "name": "a",
                "kind": "python",
                "self": 3,
                "total": 3,
                "self_percent": 75.0,
                "total_percent": 75.0,
                "file": "train.py",
                "line": 1,
                "module": "",
            }
        ],
    }


def printed(of: Tree, width: int, by: str = "function", color: bool = False) -> list[str]:
    text = io.StringIO()
    console = Console(file=text, width=width, force_terminal=color, highlight=False)
    print_top(top(of, by), of, "cpu-time", by, console)
    return [line.rstrip() for line in text.getvalue().splitlines()]


TWO = tree(((py("m", "/src/app/train.py", 3), c("work" * 30)), 30 * MS), ((py("m", "/src/app/train.py", 3),), 10 * MS))


def test_a_wide_table_has_bars_and_places() -> None:
    header, first, second, last = printed(TWO, 120)
    assert header.split()[:2] == ["Self", "%"]
    assert "█" * 16 in first
    assert "█████▍" in second
    assert second.split()[0:3] == ["10", "ms", "25.0%"]
    assert "app/train.py:3" in second
    assert last == "CPU time: 40 ms in all"


@pytest.mark.parametrize("width", [20, 40, 72, 100, 200])
def test_a_table_fits_its_terminal_a_line_a_row(width: int) -> None:
    lines = printed(TWO, width)
    assert max(map(len, lines)) <= width
    assert sum("25.0%" in line or "75.0%" in line for line in lines) <= 2


def test_totals_that_say_nothing_more_are_left_out() -> None:
    kernel = Frame("gemm", Kind.GPU_KERNEL)
    of = tree(((py("a"), kernel), 5), ((py("b"), kernel), 3))
    assert "Total" not in printed(of, 120, "kernel")[0]
    assert "Total" in printed(of, 120)[0]


@pytest.mark.parametrize(("idle", "hinted"), [(9, True), (1, False), (0, False)])
def test_where_a_gpu_had_mostly_nothing_to_do_it_is_said_how_to_see_the_rest(idle: int, hinted: bool) -> None:
    of = tree(((PROCESS, Frame("gemm", Kind.GPU_KERNEL)), 1), ((PROCESS, Frame("[GPU idle]", Kind.GPU_IDLE)), idle))
    assert ("The GPU was idle in 90.0% of it: --no-idle leaves that out" in printed(of, 120, "kernel")) is hinted


def test_names_are_shown_as_they_are() -> None:
    """rich would take brackets for markup."""
    of = tree(((c("[bold]x[/bold]"), c("[red]")), 1))
    assert any("[bold]x[/bold]" in line for line in printed(of, 100))


def test_a_pipe_gets_no_escape_codes() -> None:
    assert "\x1b" not in "\n".join(printed(TWO, 100))
    assert "\x1b" in "\n".join(printed(TWO, 100, color=True))


def test_bars_are_as_long_as_their_part() -> None:
    assert [bar(part, 2) for part in (0, 1 / 16, 0.5, 1, 7)] == ["", "▏", "█", "██", "██"]


def test_a_place_is_a_file_and_line_else_the_library() -> None:
    assert where("/a/b/c/d.py", 4, "") == "c/d.py:4"
    assert where("d.py", 0, "lib.so") == "d.py"
    assert where("", 0, "lib.so") == "lib.so"


def test_layers_that_are_built_alike_are_one_row() -> None:
    def layer(name: str) -> Frame:
        return Frame(name, Kind.LAYER)

    stacks = [((PROCESS, layer("model"), layer(f"layers.{number}"), layer("mlp"), c("gemm")), 10 + number) for number in range(3)]
    of = tree(*stacks, ((PROCESS, layer("model"), layer("layers.1"), c("add")), 4), ((PROCESS, layer("model"), layer("head")), 2))
    alike = top(of, "layer", alike=True).select("name", "self", "total", "layers").rows()
    assert alike == [("model.layers.*.mlp", 33, 33, 3), ("model.layers.*", 4, 37, 3), ("model.head", 2, 2, 1), ("model", 0, 39, 1)]
    each = top(of, "layer").select("name", "self").head(3).rows()
    assert each == [("model.layers.2.mlp", 12), ("model.layers.1.mlp", 11), ("model.layers.0.mlp", 10)]
    assert "layers" not in top(of, "layer").columns
    assert "layers" not in top(of, alike=True).columns


def test_layers_of_one_class_are_alike_though_their_full_names_have_their_paths() -> None:
    def layer(number: int, of: str) -> Frame:
        return Frame(f"layers.{number}", Kind.LAYER, full_name=f"model.layers.{number} ({of})")

    of = tree(
        *(((PROCESS, layer(number, "app.Block"), c("gemm")), 10) for number in range(3)), ((PROCESS, layer(3, "app.Head"), c("gemm")), 5)
    )
    assert top(of, "layer", alike=True).select("name", "self", "layers").rows() == [("layers.*", 30, 3), ("layers.*", 5, 1)]


def test_a_long_layer_is_cut_in_the_middle() -> None:
    assert cut_middle("transformer.h.*.attn.c_attn", 27) == "transformer.h.*.attn.c_attn"
    assert cut_middle("transformer.h.*.attn.c_attn", 17) == "transfor…n.c_attn"
    assert [len(cut_middle("transformer.h.*.attn.c_attn", width)) for width in range(1, 20)] == list(range(1, 20))
    name = "base_model.model.transformer.h.*.attn.c_attn"
    of = tree(((PROCESS, Frame(name, Kind.LAYER), c("gemm")), 5))
    text = io.StringIO()
    print_top(top(of, "layer"), of, "cpu-time", "layer", Console(file=text, width=50))
    shown = text.getvalue()
    assert "attn.c_attn" in shown
    assert name not in shown
