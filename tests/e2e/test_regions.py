"""Marked regions contain the time that was spent in them: with aiflame.region(), NVTX and ITT, recorded from outside and from inside."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest
from recording import PROGRAMS, PYTHON, Recorder, time_under

import aiflame
from aiflame.api import Profile

TOLERANCE = 0.15
"""Tolerance of shares from a second or two of samples, on a busy machine."""


def paths_of(profile: Profile) -> list[tuple[str, str, str]]:
    return list(
        dict.fromkeys(profile.table("regions").filter(profile.table("regions")["api"] == 3).select("domain", "name", "category").rows())
    )


def close(measured: int, expected: int) -> bool:
    return abs(measured - expected) < TOLERANCE * expected + 30_000_000


def test_cpu_time_lies_in_the_regions_in_which_it_was_spent(record: Recorder) -> None:
    run = record(PYTHON, PROGRAMS / "marked.py", options=("--cpu-rate", "499"))
    assert run.status == 0, run.stderr
    expected = json.loads(run.stdout)
    tree = run.profile().tree("cpu-time", by="region")
    assert close(time_under(tree, "around all", "step", "forward"), expected["step/forward"])
    assert close(time_under(tree, "around all", "step", "backward"), expected["step/backward"])
    assert close(time_under(tree, "other thread", "forward"), expected["other thread/forward"])
    assert time_under(tree, "around all", "other thread") == 0
    assert tree.values["cpu-time"].sum() == run.profile().tree("cpu-time").values["cpu-time"].sum()
    assert ("model", "forward", "") in paths_of(run.profile()) and ("", "backward", "grad") in paths_of(run.profile())


def test_a_program_that_records_itself_has_the_regions_that_begin_meanwhile(tmp_path: Path) -> None:
    profile = tmp_path / "inside.aiflame"
    result = subprocess.run([PYTHON, PROGRAMS / "marked.py", "inside", profile], capture_output=True, text=True, check=False)
    assert (result.returncode, result.stderr) == (0, "")
    expected = json.loads(result.stdout)
    opened = aiflame.open(profile)
    tree = opened.tree("cpu-time", by="region")
    assert "around all" not in tree.frames["name"].to_list()
    assert close(time_under(tree, "step", "forward"), expected["step/forward"])
    assert close(time_under(tree, "other thread", "forward"), expected["other thread/forward"])
    marked = opened.table("regions")
    open_ended = marked.join(opened.table("region_ends"), left_on=["process", "id"], right_on=["process", "region"], how="anti")
    assert open_ended.filter(open_ended["api"] == 3)["name"].to_list() == ["ends too late"]
    assert opened.store.notes() == []


def test_regions_open_at_the_end_of_a_recording_are_not_in_the_next(tmp_path: Path) -> None:
    if importlib.util.find_spec("nvtx") is None:
        pytest.skip("no nvtx here: `make test` installs it")
    program = """
import sys, aiflame, nvtx
with aiflame.record(sys.argv[1]):
    nvtx.push_range("across")
    nvtx.push_range("first")
    nvtx.pop_range()
    free = nvtx.start_range("free across")
nvtx.push_range("between")
with aiflame.record(sys.argv[2]):
    nvtx.push_range("second")
    for _ in range(3):
        nvtx.pop_range()
    nvtx.end_range(free)
"""
    one, two = tmp_path / "one.aiflame", tmp_path / "two.aiflame"
    result = subprocess.run([PYTHON, "-c", program, one, two], capture_output=True, text=True, check=False)
    assert (result.returncode, result.stderr) == (0, "")

    def ended(path: Path) -> dict[str, bool]:
        profile = aiflame.open(path)
        ends = profile.table("region_ends")["region"].to_list()
        assert set(ends) <= set(profile.table("regions")["id"]) and profile.store.notes() == []
        return {name: row in ends for row, name in profile.table("regions").select("id", "name").rows()}

    assert ended(one) == {"across": False, "first": True, "free across": False}
    assert ended(two) == {"second": True}


def test_ranges_of_nvtx_tasks_of_itt_and_regions_of_ours_lie_in_one_another_by_time(record: Recorder) -> None:
    for package in ("nvtx", "ittapi"):
        if importlib.util.find_spec(package) is None:
            pytest.skip(f"no {package} here: `make test` installs it")
    program = """
import time, aiflame, ittapi, nvtx
def spin():
    end = time.process_time() + 0.6  # in which the kernel may give no tick for 0.2 s
    while time.process_time() < end: pass
with ittapi.task("task", domain="I"), aiflame.region("ours"), nvtx.annotate("range", domain="N"):
    spin()
"""
    run = record(PYTHON, "-c", program)
    assert run.status == 0, run.stderr
    tree = run.profile().tree("cpu-time", by="region")
    names = tree.frames["name"].to_list()
    node = max(range(len(tree)), key=lambda node: (names[tree.frame[node]] == "range", tree.values["cpu-time"][node]))
    path = []
    while node > 0:
        path.append((names[tree.frame[node]], tree.frames["module"][int(tree.frame[node])]))
        node = int(tree.parent[node])
    assert path[:3] == [("range", "N"), ("ours", ""), ("task", "I")]
    assert time_under(tree, "range") > 200_000_000


@pytest.mark.parametrize("variable, api", [("NVTX_INJECTION64_PATH", "NVTX"), ("INTEL_LIBITTNOTIFY64", "ITT")])
def test_the_programs_own_tool_stays_and_is_noted(record: Recorder, variable: str, api: str) -> None:
    run = record(PYTHON, "-c", f"import os; print(os.environ[{variable!r}])", env={variable: "/opt/tool.so"})
    assert run.stdout == "/opt/tool.so\n"
    note = f"{variable} is already set to /opt/tool.so: recording without regions that the program marks by {api}"
    assert note in run.stderr and note in run.profile().store.notes()


@pytest.mark.parametrize("variable", ["NVTX_INJECTION64_PATH", "INTEL_LIBITTNOTIFY64"])
def test_without_regions_the_variables_are_left_alone(record: Recorder, variable: str) -> None:
    run = record(PYTHON, "-c", f"import os; print(os.environ.get({variable!r}))", options=("--no-regions",))
    assert run.stdout == "None\n"


def test_a_child_with_an_environment_of_its_own_is_asked_too(record: Recorder) -> None:
    child = "import os; print('NVTX_INJECTION64_PATH' in os.environ, 'INTEL_LIBITTNOTIFY64' in os.environ)"
    program = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {child!r}], env={{}})"
    assert record(sys.executable, "-c", program).stdout == "True True\n"
