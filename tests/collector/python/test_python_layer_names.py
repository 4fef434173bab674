"""Python is asked for the names of layers that run without one."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from live import Process
from python_programs import notes, run, said

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


@pytest.mark.timed
def test_unnamed_layers_are_asked_for_ever_more_rarely(python: str, tmp_path: Path) -> None:
    calls, _ = asked(python, tmp_path, then="calls[-1] = time.monotonic()", wanted=4)
    first, second, third, fourth = calls
    # 0.1, 0.2 and 0.4 s lie between the requests; a call may come some milliseconds after its request.
    assert second - first >= 0.075 and third - second >= 0.15 and fourth - third >= 0.3


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
    assert process.table("cpu_samples")["weight"].sum() > 100
