"""How several workers share the tests."""

from __future__ import annotations

import os
from typing import Any

import pytest
from xdist.scheduler import LoadFileScheduling

import timed_tests
from timed_tests import ALONE, TIMED


class AloneLast(LoadFileScheduling):
    """Gives each worker a file at a time, in order. The timed tests of a file are a piece of their own, for a worker with a core of its
    own; those with `alone`, of all files, are the last piece, for one worker.

    More workers than cores are spare: they use the time in which others wait, and go home when only timed tests are left.
    """

    def __init__(self, config: pytest.Config, log: Any) -> None:
        super().__init__(config, log)
        self._kinds: dict[str, str] | None = None
        self._cores = len(os.sched_getaffinity(0))

    def _split_scope(self, nodeid: str) -> str:
        if self._kinds is None:
            self._kinds = timed_tests.kinds(self.config)
        kind, file = self._kinds.get(nodeid, ""), str(super()._split_scope(nodeid))
        return ALONE if kind == ALONE else f"{kind} {file}".lstrip()

    def _assign_work_unit(self, node: Any) -> None:
        if not self._goes_home(node) and (not self._alone_are_next() or self._is_alone(node)):
            super()._assign_work_unit(node)

    def _reschedule(self, node: Any) -> None:
        """Where only tests that are alone are left, the workers go home as they get idle, and the last one begins when all have gone.

        A worker holds its last test back until it knows the next one: the last worker waits with one or two tests in hand.
        """
        if not self._goes_home(node):
            super()._reschedule(node)
        elif not node.shutting_down and self._pending_of(self.assigned_work[node]) <= 2:
            node.shutdown()

    def mark_test_complete(self, node: Any, item_index: int, duration: float = 0) -> None:
        super().mark_test_complete(node, item_index, duration)
        self._look_whether_one_is_alone()

    def remove_node(self, node: Any) -> str | None:
        """A worker that has ended. The test that it ran then is returned and has failed; xdist's own schedulers would give it to the next
        worker, and to as many as may crash. Others take the rest of the worker's tests, before all that wait."""
        units = self.assigned_work.pop(node)
        crashed = next((nodeid for unit in units.values() for nodeid, is_complete in unit.items() if not is_complete), None)
        if crashed is not None:
            for scope, unit in reversed(units.items()):
                if crashed in unit:
                    unit[crashed] = True
                if not all(unit.values()):
                    self.workqueue[scope] = unit
                    self.workqueue.move_to_end(scope, last=False)
            for other in self.assigned_work:
                self._reschedule(other)
        self._look_whether_one_is_alone()
        return crashed

    def _look_whether_one_is_alone(self) -> None:
        if self._alone_are_next():
            for node in self.assigned_work:
                if not node.shutting_down and self._is_alone(node):
                    self._reschedule(node)
                    return

    def _goes_home(self, node: Any) -> bool:
        """Whether all tests left are for other workers: timed tests for one worker a core, tests that are alone for the last one."""
        others = [other for other in self.assigned_work if other is not node and not other.shutting_down]
        if self._alone_are_next():
            return bool(others)
        before = [other for other in others if _number(other) < _number(node)]
        return next(iter(self.workqueue), "").startswith(f"{TIMED} ") and len(before) >= self._cores

    def _alone_are_next(self) -> bool:
        return next(iter(self.workqueue), None) == ALONE

    def _is_alone(self, node: Any) -> bool:
        return not any(self._pending_of(work) for other, work in self.assigned_work.items() if other is not node)


def _number(node: Any) -> int:
    """3 of the worker gw3."""
    return int(node.gateway.id.removeprefix("gw"))
