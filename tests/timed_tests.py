"""Carries the ids of timed tests from the workers, which see marks, to the scheduler, which sees ids alone."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import pytest

_FOLDER = pytest.StashKey[tempfile.TemporaryDirectory[str]]()


def give_file(node: Any) -> None:
    """Gives a worker a file for them, the same one for all: they collect the same tests."""
    if _FOLDER not in node.config.stash:
        node.config.stash[_FOLDER] = tempfile.TemporaryDirectory(prefix="timed-tests-")
    node.workerinput["timed_tests"] = str(_file(node.config))


def write_ids(config: pytest.Config, names: list[str]) -> None:
    """In a worker."""
    input: dict[str, str] = vars(config)["workerinput"]
    file = Path(input["timed_tests"])
    own = file.with_name(input["workerid"])
    own.write_text(json.dumps(names))
    own.replace(file)


def ids(config: pytest.Config) -> frozenset[str]:
    """For the scheduler, once a worker has collected."""
    return frozenset(json.loads(_file(config).read_text()))


def _file(config: pytest.Config) -> Path:
    return Path(config.stash[_FOLDER].name) / "ids.json"
