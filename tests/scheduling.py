"""How several workers share the tests."""

from __future__ import annotations

from typing import Any

import pytest
from xdist.scheduler import LoadFileScheduling

import timed_tests

TIMED = "timed"


class TimedLast(LoadFileScheduling):
    """A file at a time, in order. The timed tests of all files are one piece of work: the last, for one worker alone."""

    def __init__(self, config: pytest.Config, log: Any) -> None:
        super().__init__(config, log)
        self._ids: frozenset[str] | None = None

    def _split_scope(self, nodeid: str) -> str:
        if self._ids is None:
            self._ids = timed_tests.ids(self.config)
        return TIMED if nodeid in self._ids else str(super()._split_scope(nodeid))

    def _assign_work_unit(self, node: Any) -> None:
        if not self._timed_are_next() or self._is_alone(node):
            super()._assign_work_unit(node)

    def _reschedule(self, node: Any) -> None:
        """Where the timed tests alone are left, the workers go home as they get idle, and the last one begins when all have gone.

        A worker holds its last test back until it knows the next one: the last worker waits with one or two tests in hand.
        """
        others_stay = any(other is not node and not other.shutting_down for other in self.assigned_work)
        if self._timed_are_next() and others_stay and not node.shutting_down:
            if self._pending_of(self.assigned_work[node]) <= 2:
                node.shutdown()
        else:
            super()._reschedule(node)

    def mark_test_complete(self, node: Any, item_index: int, duration: float = 0) -> None:
        super().mark_test_complete(node, item_index, duration)
        self._look_whether_one_is_alone()

    def remove_node(self, node: Any) -> str | None:
        crashed = super().remove_node(node)
        self._look_whether_one_is_alone()
        return crashed

    def _look_whether_one_is_alone(self) -> None:
        if self._timed_are_next():
            for node in self.assigned_work:
                if not node.shutting_down and self._is_alone(node):
                    self._reschedule(node)
                    return

    def _timed_are_next(self) -> bool:
        return next(iter(self.workqueue), None) == TIMED

    def _is_alone(self, node: Any) -> bool:
        return not any(self._pending_of(work) for other, work in self.assigned_work.items() if other is not node)
