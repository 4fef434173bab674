"""Frames read from the interpreter's memory are those that the interpreter reports, in each CPython that is installed here."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from built import BUILT
from interpreters import VERSIONS, interpreter

ROOT = Path(__file__).resolve().parents[3]
SCENARIOS = Path(__file__).parent / "python_scenarios.py"
LIBRARY = BUILT / "libpython_reader.so"

Json = dict[str, Any]


@pytest.fixture(scope="module", params=VERSIONS)
def python(request: pytest.FixtureRequest) -> str:
    if not LIBRARY.exists():
        pytest.skip(f"no {LIBRARY}: `make test` builds it")
    path = interpreter(request.param)
    if path is None:
        pytest.skip(f"no CPython {request.param} here")
    return path


def run(python: str, scenario: str, **environment: str) -> Json:
    result = subprocess.run(
        [python, str(SCENARIOS), str(LIBRARY), scenario],
        capture_output=True,
        text=True,
        timeout=600,
        env={**os.environ, **environment},
        check=False,
    )
    assert result.returncode == 0, result.stderr
    findings: Json = json.loads(result.stdout)
    return findings


def test_every_frame_of_a_call_equals_the_interpreters_own_chain(python: str) -> None:
    findings = run(python, "nested")
    assert findings["checks"] > 100 and findings["frames"] > 1000
    assert findings["wrong"] == []
    assert findings["codes"] == []


def test_the_previous_pointer_of_a_thread_states_own_cframe_is_ignored(python: str) -> None:
    if python_version(python) != (3, 10):
        pytest.skip("later versions write it")
    clean, dirty = run(python, "unwritten")["evaluators"]
    assert dirty == clean == sorted(clean) and len(set(clean)) == len(clean)


def test_frames_are_grouped_by_their_native_evaluator(python: str) -> None:
    frames = run(python, "evaluators")["frames"]
    names = [name for name, _, _ in frames]
    assert names == ["inner", "middle", "outer", "evaluators", "<module>"]
    if python_version(python) == (3, 10):
        assert all(entry for _, entry, _ in frames)
    else:
        assert [entry for _, entry, _ in frames] == [False, True, False, False, True]
        assert len({evaluator for _, _, evaluator in frames}) == 2


def test_chains_read_in_a_signal_handler_are_right(python: str) -> None:
    findings = run(python, "ticks")
    assert findings["in_graph"] > 10_000
    assert findings["wrong"] == 0, findings["examples"]
    # One place at which no chain can be read has many ticks where the handler takes longer than their period: once 39 of 16,721.
    assert findings["missed"] <= findings["samples"] / 100


def test_a_thread_that_waits_without_the_gil_shows_its_frames(python: str) -> None:
    findings = run(python, "released")
    assert findings["samples"] > 100
    assert findings["others"] == []


def test_names_and_lines_of_thousands_of_code_objects(python: str) -> None:
    findings = run(python, "codes")
    assert findings["codes"] > 5000 and findings["ranges"] > 40_000
    assert findings["names"] == []
    assert findings["lines"] == []


def test_an_address_used_again_is_a_new_code_object(python: str) -> None:
    findings = run(python, "reuse")
    assert findings["reuses"] > 3000
    assert findings["wrong"] == 0


def test_the_self_test_passes_and_sees_each_wrong_offset(python: str) -> None:
    findings = run(python, "self_test")
    assert findings["verdict"] == 1
    assert findings["faults"].pop("nothing") == EQUAL
    assert set(findings["faults"].values()) == {DIFFERENT}


def test_the_self_test_passes_above_frames_that_have_not_begun(python: str) -> None:
    assert set(run(python, "unborn")["verdicts"]) == {str(EQUAL)}


def test_loaded_before_the_interpreter_frames_come_at_once_and_the_self_test_when_it_can(python: str, tmp_path: Path) -> None:
    sys.path.insert(0, str(Path(__file__).parent))
    from python_reader import make_profile

    make_profile(tmp_path)
    findings = run(python, "preloaded", LD_PRELOAD=str(LIBRARY), PYTHON_READER_PROFILE=str(tmp_path))
    assert findings["before"] == 0 and findings["frames"] == 2
    assert findings["after"] == 1


def test_a_sub_interpreters_frames(python: str) -> None:
    findings = run(python, "sub_interpreter")
    assert findings["samples"] > 20
    assert findings["inside"] >= findings["samples"] * 0.95


def test_a_thread_without_python_has_no_frames(python: str) -> None:
    assert run(python, "foreign_thread") == {"frames": 0}


def test_a_forked_child_writes_its_codes_anew(python: str) -> None:
    assert run(python, "fork") == {"status": 0}


def test_ticks_while_the_interpreter_is_torn_down_harm_nothing(python: str) -> None:
    for _ in range(10):
        assert run(python, "leave") == {}


def test_the_debug_offsets_of_3_13_and_3_14_are_read_where_they_are_declared() -> None:
    program = BUILT / "python_layout"
    if not program.exists():
        pytest.skip(f"no {program}: `make test` builds it")
    result = subprocess.run([str(program)], capture_output=True, text=True, check=False)
    assert (result.returncode, result.stdout) == (0, "")


EQUAL, DIFFERENT = 1, 2


def python_version(python: str) -> tuple[int, int]:
    out = subprocess.run([python, "-c", "import sys; print(*sys.version_info[:2])"], capture_output=True, text=True, check=True).stdout
    major, minor = map(int, out.split())
    return major, minor
