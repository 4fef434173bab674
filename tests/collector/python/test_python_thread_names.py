"""Names of Python's threads in a recording: whole, of the threads that ran, and with nothing that the program could see."""

from __future__ import annotations

import json
from pathlib import Path

from python_programs import run

PROGRAM = """
import threading, traceback
seen = []
def work():
    seen.append([frame.name for frame in traceback.extract_stack()])
    native.append(threading.get_native_id())
native = []
first = threading.Thread(target=work, name="a name that is longer than fifteen characters")
first.start(); first.join()
second = threading.Thread(target=work)
second.start(); second.join()
print(json.dumps([native, seen]))
"""


def test_a_thread_is_recorded_by_its_name(python: str, tmp_path: Path) -> None:
    outcome, processes = run(python, tmp_path, "import json" + PROGRAM)
    assert (outcome.status, outcome.stderr) == (0, "")
    (first, second), stacks = json.loads(outcome.stdout)
    names = {row["tid"]: row["name"] for process in processes for row in process.table("thread_names").to_dicts()}
    assert names[first] == "a name that is longer than fifteen characters"
    assert names[second].startswith("Thread-")
    assert all("named" not in stack for stack in stacks)
