"""Workers of a DataLoader are named by their number, in processes of their own alone."""

from __future__ import annotations

import multiprocessing
import sys
import threading
from types import ModuleType

import pytest


class Info:
    def __init__(self, id: int, **more: object) -> None:
        self.id = id


@pytest.mark.parametrize("is_child", [True, False])
def test_a_worker_is_named_when_it_makes_its_info(monkeypatch: pytest.MonkeyPatch, is_child: bool) -> None:
    rows: list[tuple[object, ...]] = []
    module = ModuleType("_aiflame")
    module.append = lambda *row: rows.append(row)  # type: ignore[attr-defined]
    module.now_ns = lambda: 7  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "_aiflame", module)
    monkeypatch.delitem(sys.modules, "aiflame.target.torch_steps", raising=False)
    from aiflame.target.torch_steps import naming_workers

    monkeypatch.setattr(multiprocessing, "parent_process", lambda: object() if is_child else None)
    monkeypatch.setattr(Info, "__init__", naming_workers(Info.__init__))
    assert Info(id=2, seed=1).id == 2
    assert rows == ([("thread_names", threading.get_native_id(), 7, "DataLoader worker 2")] if is_child else [])
