"""The bootstrap in real interpreters: it runs once a process, and leaves the program as it was."""

from __future__ import annotations

import json
import os
import subprocess
import textwrap
from pathlib import Path

import pytest
from live import EVERYTHING, plain, processes
from python_programs import notes, run, said

from aiflame.profile.schema.control_schema import Feature
from interpreters import FREE_THREADED, interpreter

SOURCE = Path(__file__).resolve().parents[3] / "src"

TRACES = """
import json, sys
modules = sorted(sys.modules)
finders = [type(finder).__name__ for finder in sys.meta_path]
print(json.dumps([modules, finders, sorted(vars(__builtins__)), sys.path]))
"""


@pytest.mark.parametrize("arguments", [(), ("-I", "-S"), ("-S", "-E"), ("-X", "dev")], ids=" ".join)
def test_the_modules_and_one_finder_are_all_that_a_program_can_find(python: str, tmp_path: Path, arguments: tuple[str, ...]) -> None:
    features = EVERYTHING - Feature.HOST_MEMORY  # which has a module of its own
    outcome, recorded_processes = run(python, tmp_path, TRACES, *arguments, features=features)
    alone = plain([python, *arguments, tmp_path / "program.py"], tmp_path)
    assert (outcome.status, outcome.stderr, notes(recorded_processes)) == (0, alone.stderr, [])
    with_us, without = json.loads(outcome.stdout), json.loads(alone.stdout)
    assert [name for name in with_us[0] if name not in without[0]] == ["_aiflame", "_aiflame_target", "_aiflame_target.bootstrap"]
    assert [name for name in without[0] if name not in with_us[0]] == []
    assert sorted(with_us[1]) == sorted([*without[1], "_Finder"])
    assert with_us[2:] == without[2:]


def test_without_meaning_our_modules_are_absent(python: str, tmp_path: Path) -> None:
    modules, _ = said(
        python, tmp_path, "print(json.dumps([n for n in sys.modules if 'aiflame' in n]))", features=EVERYTHING - Feature.MEANING
    )
    assert modules == []


@pytest.mark.parametrize(
    ("text", "note"),
    [
        ("x = 1\nraise ValueError('no\\nway')", "failed at bootstrap.py:2: ValueError: no way"),
        ("def broken(:", "SyntaxError"),
        ("import nowhere", "failed at bootstrap.py:1: ModuleNotFoundError"),
        (None, "target/bootstrap.py is missing"),
    ],
)
def test_a_bootstrap_that_fails_is_a_note(python: str, tmp_path: Path, target: Path, text: str | None, note: str) -> None:
    if text is not None:
        (target / "bootstrap.py").write_text(text)
    outcome, recorded_processes = run(python, tmp_path, "print('fine')")
    assert (outcome.status, outcome.stdout, outcome.stderr) == (0, "fine\n", "")
    (recorded_note,) = notes(recorded_processes)
    assert note in recorded_note


def test_the_bootstrap_runs_once_a_process_and_again_after_exec(python: str, tmp_path: Path, target: Path) -> None:
    (target / "bootstrap.py").write_text("import _aiflame\n_aiflame.append('marks', 'bootstrap')")
    outcome, recorded_processes = run(
        python,
        tmp_path,
        """
        import os, sys, time
        if os.fork() == 0:
            os._exit(0)
        os.wait()
        if len(sys.argv) < 2:
            os.execv(sys.executable, [sys.executable, __file__, "again"])
        """,
    )
    assert (outcome.status, outcome.stderr) == (0, "")
    assert len(recorded_processes) == 4
    marks = [process.table("marks").filter(text="bootstrap").height for process in recorded_processes]
    assert sorted(marks) == [0, 0, 1, 1]


def test_a_child_of_a_fork_writes_its_own_rows(python: str, tmp_path: Path) -> None:
    _, recorded_processes = said(
        python,
        tmp_path,
        """
        import os, _aiflame
        _aiflame.append("marks", "parent")
        if os.fork() == 0:
            _aiflame.append("marks", "child")
            os._exit(0)
        os.wait()
        print(0)
        """,
    )
    texts = [[text for text in process.table("marks")["text"] if text in ("parent", "child")] for process in recorded_processes]
    assert texts == [["parent"], ["child"]]


def test_sub_interpreters_are_left_alone(python: str, tmp_path: Path) -> None:
    program = """
        try: import _interpreters as interpreters
        except ImportError: import _xxsubinterpreters as interpreters
        import os
        read, write = os.pipe()
        inside = "import sys, os; sum(range(100)); os.write(%d, repr([n for n in sys.modules if 'aiflame' in n]).encode())" % write
        one = interpreters.create()
        interpreters.run_string(one, inside)
        interpreters.destroy(one)
        print(json.dumps([os.read(read, 1000).decode(), "_aiflame" in sys.modules]))
    """
    assert said(python, tmp_path, program)[0] == ["[]", True]


def test_recording_from_inside_a_program_twice(python: str, tmp_path: Path, target: Path) -> None:
    """In the second recording the bootstrap is notified, and rows go into the second profile."""
    (target / "bootstrap.py").write_text(
        "import _aiflame\n_aiflame.append('marks', 'ran')\ndef recording_began():\n    _aiflame.append('marks', 'again')\n"
    )
    program = f"""
        import json, sys
        sys.path.insert(0, {str(SOURCE)!r})
        import aiflame
        for name in ("one", "two"):
            with aiflame.record(name):
                import _aiflame
                while not _aiflame.profile.endswith(name): pass
                _aiflame.append("marks", name)
        """
    (tmp_path / "program.py").write_text(textwrap.dedent(program))
    result = subprocess.run([python, "program.py"], cwd=tmp_path, env={**os.environ}, capture_output=True, text=True, check=False)
    assert (result.returncode, result.stderr) == (0, "")

    def texts(name: str) -> list[str]:
        (process,) = processes(tmp_path / name)
        return [text for text in process.table("marks")["text"] if not text.startswith("[")]

    assert (texts("one"), texts("two")) == (["ran", "one"], ["again", "two"])


@pytest.mark.parametrize("version", FREE_THREADED)
def test_a_free_threaded_build_keeps_its_gil_off_and_its_frames_are_refused_with_the_reason(version: str, tmp_path: Path) -> None:
    python = interpreter(version) or pytest.skip(f"no free-threaded CPython {version} here")
    program = 'import sys; sum(range(3_000_000)); print(sys._is_gil_enabled(), "_aiflame" in sys.modules)'
    outcome, recorded_processes = run(python, tmp_path, program)
    assert (outcome.status, outcome.stdout) == (0, "False False\n")
    assert recorded_processes[0].table("codes").is_empty()
    assert any("free-threaded" in note for note in notes(recorded_processes))


def test_tracers_of_the_program_do_not_see_our_code(python: str, tmp_path: Path) -> None:
    program = """
    import time
    files, profiled = set(), set()
    def trace(frame, event, argument):
        files.add(frame.f_code.co_filename)
    def profile(frame, event, argument):
        profiled.add(frame.f_code.co_filename)
    def work(): pass
    sys.settrace(trace)
    sys.setprofile(profile)
    end = time.process_time() + 0.5
    while time.process_time() < end: work()
    sys.settrace(None)
    sys.setprofile(None)
    print(json.dumps([sorted(files | profiled), "_aiflame" in sys.modules, sys.version_info[:2] >= (3, 11)]))
    """
    (files, has_run, hidden), _ = said(python, tmp_path, program)
    assert has_run
    if hidden:
        assert files == [str(tmp_path / "program.py")]
