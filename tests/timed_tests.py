"""Which tests are timed, told by the workers to the process that shares the tests among them: it knows no more of tests than their ids."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import pytest

_FOLDER = pytest.StashKey[tempfile.TemporaryDirectory[str]]()


def let_workers_tell(node: Any) -> None:
    """Gives a worker a file for them, the same one for all: they collect the same tests."""
    if _FOLDER not in node.config.stash:
        node.config.stash[_FOLDER] = tempfile.TemporaryDirectory(prefix="timed-tests-")
    node.workerinput["timed_tests"] = str(_file(node.config))


def tell_scheduler(config: pytest.Config, ids: list[str]) -> None:
    """In a worker."""
    input: dict[str, str] = vars(config)["workerinput"]
    file = Path(input["timed_tests"])
    own = file.with_name(input["workerid"])
    own.write_text(json.dumps(ids))
    own.replace(file)


def told(config: pytest.Config) -> frozenset[str]:
    """The ids, once a worker has collected."""
    return frozenset(json.loads(_file(config).read_text()))


def _file(config: pytest.Config) -> Path:
    return Path(config.stash[_FOLDER].name) / "ids.json"
