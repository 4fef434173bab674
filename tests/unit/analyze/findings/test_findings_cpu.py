"""Findings of programs without a device: hot lines and functions, and threads that wait for each other."""

from __future__ import annotations

from pathlib import Path

import pytest
from stories import MAIN, Story
from story_findings import found

from aiflame.attribute.tree import Kind


def cpu(story: Story, *samples: tuple[int, tuple[object, ...]]) -> None:
    moment = 10
    for count, frames in samples:
        for _ in range(count):
            story.met(moment, *frames, clock=0)
            moment += 1


def test_the_hottest_line_and_function_of_a_program_on_the_cpu(tmp_path: Path) -> None:
    story = Story()
    line = ("work", "/app/math.py", 4)
    cpu(story, (45, (MAIN, line, "sgemm_kernel")), (15, (MAIN, line, "conv")), (40, (MAIN,)))
    kinds = found(story, tmp_path)
    assert kinds["hot-line"].sentence == "60% of CPU time is spent at math.py:4 and in the functions that it calls"
    assert kinds["hot-line"].view.search == "^work$"


def test_a_function_that_is_nearly_all_of_its_line_is_the_only_finding(tmp_path: Path) -> None:
    """The line would repeat the function; a function that several lines call is named beside the hottest line."""
    story = Story()
    cpu(story, (60, (MAIN, ("work", "/app/math.py", 4), "sgemm_kernel")), (40, (MAIN,)))
    (finding,) = [one for one in found(story, tmp_path / "one").values() if one.view.place == "/app/math.py:4"]
    assert finding.sentence == "60% of CPU time is in sgemm_kernel, called from math.py:4"
    assert finding.view.search == "^sgemm_kernel$"
    story = Story()
    lines = [("work", "/app/math.py", line) for line in (4, 5, 6)]
    cpu(story, *((20, (MAIN, line, "sgemm_kernel")) for line in lines), (40, (MAIN,)))
    kinds = found(story, tmp_path / "several")
    assert kinds["hot-function"].sentence == "60% of CPU time is in sgemm_kernel, called from math.py:4"
    assert kinds["hot-line"].sentence == "40% of CPU time is spent at train.py:12 and in the functions that it calls"


def test_a_program_that_spends_its_time_everywhere(tmp_path: Path) -> None:
    story = Story()
    cpu(story, *((10, ((f"f{n}", "/app/f.py", n), f"native{n}")) for n in range(1, 11)))
    assert found(story, tmp_path) == {}


def test_few_samples_make_no_finding(tmp_path: Path) -> None:
    story = Story()
    cpu(story, (40, (MAIN, "sgemm_kernel")))
    assert found(story, tmp_path) == {}


@pytest.mark.parametrize(("waiting", "speaks"), [(40, True), (10, False)])
def test_threads_that_wait_for_each_other(tmp_path: Path, waiting: int, speaks: bool) -> None:
    story = Story()
    cpu(story, (waiting, (MAIN, "gomp_team_barrier_wait_end")), *((10, ((f"f{n}", "/app/f.py", n),)) for n in range(1, 7)))
    kinds = found(story, tmp_path)
    assert ("waiting" in kinds) == speaks
    if speaks:
        assert kinds["waiting"].sentence == "40% of CPU time is spent by threads that wait for each other in OpenMP, most at train.py:12"
        assert kinds["waiting"].view.search == r"^\[OpenMP wait\]$"


@pytest.mark.parametrize(("module", "speaks"), [("libscipy_openblas-6cdc3b4a.so", True), ("libmine.so", False)])
def test_threads_that_wait_for_each_other_in_openblas(tmp_path: Path, module: str, speaks: bool) -> None:
    """Their pool has no line of the program; a function of another library that has the same name is work."""
    story = Story()
    spins = ("blas_thread_server", "exec_blas_async_wait")
    cpu(story, (40, (spins[0],)), (20, (MAIN, spins[1])), (10, (spins[0], "dgemm")), *((10, ((f"f{n}", "/a.py", n),)) for n in range(3)))
    for symbol in story.tables["symbols"]:
        symbol["module"] = module if symbol["name"] in spins else ""
    kinds = found(story, tmp_path)
    assert ("waiting-blas" in kinds, "hot-function" in kinds) == (speaks, not speaks)
    if speaks:
        sentence = "60% of CPU time is spent by threads that wait for each other in OpenBLAS, most at train.py:12"
        assert (kinds["waiting-blas"].sentence, kinds["waiting-blas"].view.search) == (sentence, "^blas_thread_server$")


def test_a_mark_at_the_end_of_a_stack_names_its_wait(tmp_path: Path) -> None:
    story = Story()
    cpu(story, (60, (MAIN, "[OpenMP wait]")))
    for row in story.tables["symbols"]:
        if row["name"] == "[OpenMP wait]":
            row["kind"] = int(Kind.WAIT)
    assert found(story, tmp_path)["waiting"].share == 1.0


@pytest.mark.parametrize(("caller", "speaks"), [("/app/load.py", True), ("/venv/site-packages/pandas/core/methods/selectn.py", False)])
def test_tables_that_grow_are_named_where_pandas_itself_did_not_append(tmp_path: Path, caller: str, speaks: bool) -> None:
    """`Series.nlargest()` calls `concat()`, too."""
    concat = "/venv/lib/python3.11/site-packages/pandas/core/reshape/concat.py"
    story = Story()
    growing = (MAIN, ("compute", caller, 5), ("concat", concat, 150), ("_get_result", concat, 600), "take")
    cpu(story, (120, growing), (60, (MAIN,)), (60, (("other", "/app/other.py", 3),)))
    kinds = found(story, tmp_path)
    assert ("dataframe-growth" in kinds) == speaks


def test_a_line_has_all_of_its_time_also_the_part_with_a_cause(tmp_path: Path) -> None:
    story = Story()
    line = ("work", "/app/math.py", 4)
    dumps = ("dumps", "/usr/lib/python3.11/json/__init__.py", 231)
    cpu(story, (120, (MAIN, line)), (120, (MAIN, line, dumps)), (60, (MAIN,)))
    kinds = found(story, tmp_path)
    assert kinds["json"].share == 0.4
    assert kinds["hot-line"].sentence == "80% of CPU time is spent at math.py:4 and in the functions that it calls"
    assert kinds["hot-line"].recoverable == pytest.approx(0.2)


@pytest.mark.parametrize(("library", "elsewhere", "speaks"), [(115, 1, False), (100, 1, True), (115, 40, True)])
def test_the_line_that_enters_a_library_which_does_all_work_is_no_finding(
    tmp_path: Path, library: int, elsewhere: int, speaks: bool
) -> None:
    """The entering line is named where its own file has work of its own, or where other lines take part of the time."""
    story = Story()
    tests = [("run", "/venv/site-packages/networkx/tests/test_paths.py", line) for line in (4, 5)]
    cpu(
        story,
        (library, (MAIN, tests[0])),
        (library, (MAIN, tests[1])),
        (2 * (120 - library), (MAIN,)),
        (elsewhere, (("load", "/app/load.py", 3),)),
    )
    assert ("hot-line" in found(story, tmp_path)) == speaks


@pytest.mark.parametrize("ending", [0, 40])
def test_an_interpreters_end_does_not_make_the_entering_line_a_finding(tmp_path: Path, ending: int) -> None:
    """The end has no line of the program."""
    story = Story()
    tests = [("run", "/venv/site-packages/networkx/tests/test_paths.py", line) for line in (4, 5)]
    cpu(story, (100, (MAIN, tests[0])), (100, (MAIN, tests[1])), (ending, ("Py_FinalizeEx", "gc_collect_main")))
    assert "hot-line" not in found(story, tmp_path)


def test_the_line_that_starts_an_event_loop_is_no_finding(tmp_path: Path) -> None:
    """All is below it, also the lines that the loop calls back."""
    story = Story()
    loop = ("BaseEventLoop.run_forever", "/usr/lib/python3.12/asyncio/base_events.py", 639)
    request = ("answer", "/app/server.py", 9)
    cpu(story, (90, (MAIN, loop)), (60, (MAIN, loop, request)), (50, (MAIN, loop, ("send", "/app/server.py", 12))))
    assert found(story, tmp_path)["hot-line"].sentence.startswith("30% of CPU time is spent at server.py:9 ")


def test_a_line_of_the_import_system_is_not_named(tmp_path: Path) -> None:
    """Interpreters start for too little time to name that: 60 samples."""
    story = Story()
    imports = ("_find_and_load", "<frozen importlib._bootstrap>", 1165)
    cpu(story, (60, ("Py_InitializeFromConfig", imports)), (30, (("work", "/app/work.py", 3),)))
    assert found(story, tmp_path)["hot-line"].view.place == "/app/work.py:3"


def test_the_line_of_a_tool_that_does_all_work_is_no_finding(tmp_path: Path) -> None:
    """A compiled one has no other lines of Python."""
    story = Story()
    cpu(story, (200, (("console_entry", "/venv/site-packages/mypy/__main__.py", 16), "check")), (40, (MAIN,)))
    assert "hot-line" not in found(story, tmp_path)


@pytest.mark.parametrize(
    ("line", "place", "at"),
    [(("console_entry", "/venv/site-packages/mypy/__main__.py", 16), "", ""), (MAIN, "/app/train.py:12", ", most at train.py:12")],
)
def test_a_cause_is_not_at_the_line_that_begins_a_tool(tmp_path: Path, line: tuple[object, ...], place: str, at: str) -> None:
    story = Story()
    cpu(story, (120, (line, "gc_collect_main")), (120, (line, "check")))
    for symbol in story.tables["symbols"]:
        symbol["module"] = "python3.12" if symbol["name"] == "gc_collect_main" else ""
    finding = found(story, tmp_path)["gc"]
    assert (finding.sentence, finding.view.place) == (f"50% of CPU time is garbage collection{at}", place)


@pytest.mark.parametrize(("collecting", "ending", "speaks"), [(120, 0, True), (0, 120, False)])
def test_collections_have_a_remedy_but_for_the_one_at_the_interpreters_end(
    tmp_path: Path, collecting: int, ending: int, speaks: bool
) -> None:
    story = Story()
    collects, ends = "gc_collect_main", "Py_FinalizeEx"
    cpu(story, (collecting, (MAIN, collects)), (ending, (ends, collects)), (100, (MAIN, "sgemm")))
    for symbol in story.tables["symbols"]:
        symbol["module"] = "python3.12" if symbol["name"] in (collects, ends) else ""
    assert ("gc" in found(story, tmp_path)) is speaks
