"""Workers and the scheduler exchange files about timed tests: their ids, and which workers still run other tests.

Workers see the marks of tests, the scheduler sees their ids alone.
"""

from __future__ import annotations

import json
import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

TIMED, ALONE = "timed", "alone"

_FOLDER = pytest.StashKey[tempfile.TemporaryDirectory[str]]()
_LOOK_AGAIN_S = 0.05


def give_folder(node: Any) -> None:
    """Gives a worker the folder, the same one for all: they collect the same tests."""
    if _FOLDER not in node.config.stash:
        node.config.stash[_FOLDER] = tempfile.TemporaryDirectory(prefix="timed-tests-")
    node.workerinput["timed_tests"] = node.config.stash[_FOLDER].name


def kinds(config: pytest.Config) -> dict[str, str]:
    """For the scheduler, once a worker has collected: TIMED or ALONE by the ids of tests."""
    by_id: dict[str, str] = json.loads(Path(config.stash[_FOLDER].name, "kinds.json").read_text())
    return by_id


def kind(item: pytest.Item) -> str:
    """TIMED, ALONE or ""."""
    marker = item.get_closest_marker("timed")
    return "" if marker is None else ALONE if marker.kwargs.get("alone") else TIMED


class Worker:
    """One of several processes that run tests."""

    def __init__(self, input: dict[str, Any]) -> None:
        self._folder = Path(input["timed_tests"])
        self._name = str(input["workerid"])
        self._cores = sorted(os.sched_getaffinity(0))
        self._core = self._cores[int(self._name.removeprefix("gw")) % len(self._cores)]
        self._others_are_done = False
        (self._folder / f"{self._name}.pid").write_text(str(os.getpid()))

    def write_kinds(self, items: list[pytest.Item]) -> None:
        own = self._folder / f"{self._name}.kinds"
        own.write_text(json.dumps({item.nodeid: kind(item) for item in items if kind(item)}))
        own.replace(self._folder / "kinds.json")

    @contextmanager
    def turn(self, item: pytest.Item) -> Iterator[None]:
        """A timed test begins when no worker runs an untimed test any more. It and its programs stay on this worker's core."""
        if kind(item) != TIMED:
            yield
            return
        self.end_untimed()
        self._wait_for_others()
        os.sched_setaffinity(0, {self._core})
        try:
            yield
        finally:
            os.sched_setaffinity(0, self._cores)

    def end_untimed(self) -> None:
        """This worker has run its last untimed test."""
        (self._folder / f"{self._name}.pid").unlink(missing_ok=True)

    def _wait_for_others(self) -> None:
        while not self._others_are_done:
            self._others_are_done = not any(map(_lives, self._folder.glob("*.pid")))
            if not self._others_are_done:
                time.sleep(_LOOK_AGAIN_S)


def _lives(file: Path) -> bool:
    """A worker that crashed leaves its file behind."""
    try:
        return Path("/proc", file.read_text()).exists()
    except OSError:
        return False
