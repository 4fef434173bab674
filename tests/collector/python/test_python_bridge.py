"""`_aiflame` and the bootstrap in real interpreters: rows written by our Python code are in the profile, and the program is as it was."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import textwrap
from pathlib import Path
from typing import Any

import pytest
from live import EVERYTHING, Outcome, Process, library, plain, processes, recorded

from aiflame.profile.schema.all_tables import TABLE
from aiflame.profile.schema.control_schema import Feature
from aiflame.profile.schema.enums import PayloadType, RegionApi, RegionKind
from aiflame.profile.schema.records import Type
from interpreters import FREE_THREADED, VERSIONS, interpreter

SOURCE = Path(__file__).resolve().parents[3] / "src"


@pytest.fixture(scope="module", params=VERSIONS)
def python(request: pytest.FixtureRequest) -> str:
    path = interpreter(request.param)
    if path is None:
        pytest.skip(f"no CPython {request.param} here")
    return path


@pytest.fixture
def target(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An installation of its own: the folder beside the library that Python in the program comes from."""
    installed = tmp_path / "installed"
    (installed / "lib").mkdir(parents=True)
    shutil.copy(library(), installed / "lib/libaiflame.so")
    monkeypatch.setenv("AIFLAME_LIBRARY", str(installed / "lib/libaiflame.so"))
    (installed / "target").mkdir()
    return installed / "target"


def run(python: str, folder: Path, program: str, *arguments: str, **options: Any) -> tuple[Outcome, list[Process]]:
    source = folder / "program.py"
    source.write_text(textwrap.dedent(program))
    outcome = recorded([python, *arguments, source], folder / "profile", **options)
    return outcome, processes(folder / "profile")


def said(python: str, folder: Path, program: str, *arguments: str, **options: Any) -> tuple[Any, list[Process]]:
    """A program that prints JSON and nothing goes wrong."""
    outcome, recorded_processes = run(python, folder, "import json, sys\n" + textwrap.dedent(program), *arguments, **options)
    assert (outcome.status, outcome.stderr) == (0, "")
    assert all(process.table("notes").is_empty() for process in recorded_processes)
    return json.loads(outcome.stdout), recorded_processes


def notes(recorded_processes: list[Process]) -> list[str]:
    return [text for process in recorded_processes for text in process.table("notes")["text"]]


# --- The functions --------------------------------------------------------------------------------------------------------

NOW = "now"
ROWS: dict[str, list[int | str]] = {
    "codes": [2**32 - 1, "größer.py", "f", "line table", 0x030B],
    "gpu_functions": [2**64 - 1, "mangled"],
    "kernel_shapes": ["name", "device", 2, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10],
    "launches": [1, 0, 2, 0xFFFF, 0xFFFFFFFF, 0, NOW, NOW, 2**64 - 1],
    "regions": [1, 4, 2, 1, 0xFFFFFFFF, "domain", "", "name", 2**64 - 1, NOW],
    "kept_files": ["kernel", "module", "ttir", "file"],
}


def test_each_value_comes_to_the_column_it_is_for(python: str, tmp_path: Path) -> None:
    (tmp_path / "rows.json").write_text(json.dumps(ROWS))
    appended, (process,) = said(
        python,
        tmp_path,
        """
        import _aiflame
        rows, moment = {}, _aiflame.now_ns()
        with open("rows.json") as file:
            for name, row in json.load(file).items():
                rows[name] = _aiflame.append(name, *[moment if value == "now" else value for value in row])
        print(json.dumps([rows, moment]))
        """,
        cpu_rate=0,
    )
    rows, moment = appended
    for name, given in ROWS.items():
        recorded_processes = process.table(name).filter(id=rows[name]).drop("id").row(0)
        assert list(recorded_processes) == [
            moment if value == NOW else str(value).encode() if column.type is Type.BLOB else value
            for column, value in zip(TABLE[name].columns, given, strict=True)
        ]


@pytest.mark.parametrize(
    ("call", "error"),
    [
        ("append()", "TypeError"),
        ("append(3)", "TypeError"),
        ("append('nothing', 1)", "ValueError"),
        ("append('marks')", "TypeError"),
        ("append('marks', 'a', 'b')", "TypeError"),
        ("append('marks', 3)", "TypeError"),
        ("append('stacks', 1, 'a')", "TypeError"),
        ("append('stacks', 1, 2.0)", "TypeError"),
        ("append('stacks', 1 << 32, 1)", "ValueError"),
        ("append('stacks', 1, 1 << 64)", "ValueError"),
        ("append('stacks', -1, 1)", "ValueError"),
        ("append(table='marks')", "TypeError"),
        ("push()", "TypeError"),
        ("push('a', name='b')", "TypeError"),
        ("push('a', colour=3)", "TypeError"),
        ("push('a', 'b', 'c', 1, 2)", "TypeError"),
        ("begin('a', payload='x')", "TypeError"),
        ("end('a')", "TypeError"),
        ("end()", "TypeError"),
        ("name_layer(1, 2, 3, 4)", "TypeError"),
        ("variant(-1, 'a', 'b', 'c')", "ValueError"),
        ("when_layers_are_new(3)", "TypeError"),
        ("note(3)", "TypeError"),
        ("calibrate_autograd(1, 2)", "TypeError"),
    ],
)
def test_wrong_arguments_raise(tmp_path: Path, call: str, error: str) -> None:
    python = interpreter("3.11") or pytest.skip("no CPython 3.11 here")
    program = f"import _aiflame\ntry:\n    _aiflame.{call}\nexcept Exception as error:\n    print(json.dumps(type(error).__name__))"
    assert said(python, tmp_path, program)[0] == error


def test_texts_that_have_no_utf_8_are_written_all_the_same(python: str, tmp_path: Path) -> None:
    _, (process,) = said(python, tmp_path, r"import _aiflame; _aiflame.append('counters', 0, 'a\udc80', b'\xff', 0, 0); print(0)")
    assert process.table("counters").select("name", "domain").rows() == [("a\\udc80", "�")]


def test_regions(python: str, tmp_path: Path) -> None:
    rows, (process,) = said(
        python,
        tmp_path,
        """
        import _aiflame
        outer = _aiflame.push("outer", domain="d", category="c", color=0xFF00FF00)
        inner = _aiflame.push("inner", "d")
        free = _aiflame.begin("optimizer", "aiflame", 4, 2, 0x7F0000001000)
        signed = _aiflame.begin("signed", payload=-3)
        real = _aiflame.begin("real", payload=0.5)
        _aiflame.end(free)
        print(json.dumps([outer, inner, free, signed, real, _aiflame.pop("d"), _aiflame.pop(domain="d")]))
        """,
    )
    outer, inner, free, signed, real, first, second = rows
    assert (first, second) == (inner, outer)
    regions = {row["id"]: row for row in process.table("regions").iter_rows(named=True)}
    assert [(regions[row]["name"], regions[row]["domain"]) for row in (outer, inner, free)] == [
        ("outer", "d"), ("inner", "d"), ("optimizer", "aiflame"),
    ]  # fmt: skip
    assert (regions[outer]["api"], regions[outer]["kind"]) == (RegionApi.AIFLAME, RegionKind.NESTED)
    assert (regions[outer]["category"], regions[outer]["color"]) == ("c", 0xFF00FF00)
    assert (regions[free]["api"], regions[free]["kind"]) == (RegionApi.AUTOMATIC, RegionKind.FREE)
    assert [(regions[row]["payload_type"], regions[row]["payload"]) for row in (inner, free, signed, real)] == [
        (PayloadType.NONE, 0),
        (PayloadType.UNSIGNED, 0x7F0000001000),
        (PayloadType.SIGNED, 2**64 - 3),
        (PayloadType.FLOAT, 0x3FE0000000000000),
    ]
    assert process.table("region_ends")["region"].to_list() == [free, inner, outer]


def test_names_of_layers_belong_to_objects(python: str, tmp_path: Path) -> None:
    addresses, (process,) = said(
        python,
        tmp_path,
        """
        import _aiflame
        class Block: pass
        class Model: pass
        model, block = Model(), Block()
        _aiflame.name_layer(id(block), id(model), "layers.0", "app.Block")
        _aiflame.name_layer(id(block), id(model), "layers.1", "app.Block")
        _aiflame.name_layer(id(model), id(model), "", "app.Model")
        _aiflame.forget_layer(id(block))
        _aiflame.name_layer(id(block), id(model), "layers.0", "app.Block")
        print(json.dumps([id(model), id(block)]))
        """,
    )
    model, block = addresses
    layers = {row["id"]: (row["address"], row["type"]) for row in process.table("layers").iter_rows(named=True)}
    assert sorted(layers.values()) == sorted([(model, "Model"), (block, "Block"), (block, "Block")])
    names = process.table("layer_names")
    assert [(layers[row["layer"]][0], layers[row["root"]][0], row["path"], row["type"]) for row in names.iter_rows(named=True)] == [
        (block, model, "layers.0", "app.Block"),
        (block, model, "layers.1", "app.Block"),
        (model, model, "", "app.Model"),
        (block, model, "layers.0", "app.Block"),
    ]
    assert names["layer"][0] == names["layer"][1] != names["layer"][3]


def test_an_object_outside_of_models_is_no_layer(python: str, tmp_path: Path) -> None:
    rows, (process,) = said(
        python, tmp_path, "import _aiflame; print(json.dumps([_aiflame.name_layer(a, a, '', '') for a in (0, 7, 1 << 46)]))"
    )
    assert rows == [0, 0, 0]
    assert process.table("layers").is_empty()


# --- The program is as it was ---------------------------------------------------------------------------------------------

TRACES = """
import json, sys
modules = sorted(sys.modules)
finders = [type(finder).__name__ for finder in sys.meta_path]
print(json.dumps([modules, finders, sorted(vars(__builtins__)), sys.path]))
"""


@pytest.mark.parametrize("arguments", [(), ("-I", "-S"), ("-S", "-E"), ("-X", "dev")], ids=" ".join)
def test_the_modules_and_one_finder_are_all_that_a_program_can_find(python: str, tmp_path: Path, arguments: tuple[str, ...]) -> None:
    outcome, recorded_processes = run(python, tmp_path, TRACES, *arguments)
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


# --- Names are asked for --------------------------------------------------------------------------------------------------

ASKED = """
import json, sys, threading, time
sys.path.insert(0, {folder!r})
from module import Module
import zlib, _aiflame
data = bytes(1 << 22)

class Works(Module):
    def forward(self):
        zlib.crc32(data)

works, calls = Works(), []

def ask():
    calls.append((threading.current_thread() is threading.main_thread(), Module._call_impl.__code__ in codes()))
    {then}

def codes():
    frame = sys._getframe()
    while frame:
        yield frame.f_code
        frame = frame.f_back

_aiflame.when_layers_are_new(ask)
deadline = time.monotonic() + 60
while len(calls) < {wanted} and time.monotonic() < deadline:
    works()
{more}
_aiflame.when_layers_are_new(None)
print(json.dumps(calls))
"""
MODULE = "class Module:\n    def _call_impl(self):\n        self.forward()\n    __call__ = _call_impl\n"


def asked(python: str, folder: Path, **parts: Any) -> tuple[Any, Process]:
    """A program whose ticks meet it in zlib, which calls nothing of the interpreter's."""
    package = folder / "torch/nn/modules"
    package.mkdir(parents=True)
    (package / "module.py").write_text(MODULE)
    calls, (process,) = said(python, folder, ASKED.format(**{"then": "", "more": "", "wanted": 1, "folder": str(package), **parts}))
    return calls, process


def test_python_is_asked_for_the_names_of_new_layers_in_the_main_thread_while_they_run(python: str, tmp_path: Path) -> None:
    calls, process = asked(python, tmp_path)
    assert calls[0] == [True, True]
    assert process.table("layers").height == 1


def test_named_layers_are_not_asked_for_again(python: str, tmp_path: Path) -> None:
    then = "_aiflame.name_layer(id(works), id(works), '', 'Works')"
    calls, process = asked(python, tmp_path, then=then, more="for _ in range(300): works()")
    assert len(calls) == 1
    assert process.table("layer_names")["type"].to_list() == ["Works"]


def test_unnamed_layers_are_asked_for_ever_more_rarely(python: str, tmp_path: Path) -> None:
    calls, _ = asked(python, tmp_path, then="calls[-1] = time.monotonic()", wanted=4)
    first, second, third, fourth = calls
    assert second - first >= 0.1 and third - second >= 0.2 and fourth - third >= 0.4


@pytest.mark.parametrize(("error", "note"), [("ValueError('x')", True), ("KeyboardInterrupt", False)])
def test_a_failure_while_naming_is_a_note_and_an_interrupt_reaches_the_program(python: str, tmp_path: Path, error: str, note: bool) -> None:
    package = tmp_path / "torch/nn/modules"
    package.mkdir(parents=True)
    (package / "module.py").write_text(MODULE)
    program = ASKED.format(then=f"raise {error}", more="", wanted=1, folder=str(package))
    outcome, recorded_processes = run(python, tmp_path, program)
    if note:
        assert (outcome.status, outcome.stderr) == (0, "")
        (text,) = notes(recorded_processes)
        assert re.fullmatch(r"Python of aiflame's in the program failed at program\.py:\d+: ValueError: x", text)
    else:
        assert outcome.status != 0 and "KeyboardInterrupt" in outcome.stderr
        assert notes(recorded_processes) == []


@pytest.mark.timed
def test_threads_that_hold_cpythons_lock_for_pending_calls_all_the_time_do_not_hang_with_ticks(python: str, tmp_path: Path) -> None:
    """2,000 ticks a second, each of which wants to add a pending call of its own when it may: layers without names keep coming."""
    package = tmp_path / "torch/nn/modules"
    package.mkdir(parents=True)
    (package / "module.py").write_text(MODULE)
    count, (process,) = said(
        python,
        tmp_path,
        f"""
        import ctypes, threading, zlib
        sys.path.insert(0, {str(package)!r})
        from module import Module
        import _aiflame
        FUNCTION = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p)
        ran, asked = [], []
        call = FUNCTION(lambda _: ran.append(1) or 0)
        add = ctypes.CDLL(None).Py_AddPendingCall
        add.argtypes = [FUNCTION, ctypes.c_void_p]
        data = bytes(1 << 16)

        class Works(Module):
            def forward(self):
                for _ in range(20):
                    zlib.crc32(data)
                    add(call, None)

        def adds():
            for _ in range(4000):
                add(call, None)

        _aiflame.when_layers_are_new(lambda: asked.append(1))
        threads = [threading.Thread(target=adds) for _ in range(4)]
        for thread in threads: thread.start()
        for _ in range(3000):
            Works()()
        for thread in threads: thread.join()
        print(json.dumps([len(ran), len(asked)]))
        """,
        cpu_rate=2000,
    )
    assert count[0] > 0 and count[1] > 0
    assert process.table("cpu_samples").height > 100


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
    end = time.monotonic() + 1.5
    while time.monotonic() < end: work()
    sys.settrace(None)
    sys.setprofile(None)
    print(json.dumps([sorted(files | profiled), "_aiflame" in sys.modules, sys.version_info[:2] >= (3, 11)]))
    """
    (files, has_run, hidden), _ = said(python, tmp_path, program)
    assert has_run
    if hidden:
        assert files == [str(tmp_path / "program.py")]
