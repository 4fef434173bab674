"""The findings of `aiflame doctor` about regions."""

from __future__ import annotations

import pytest

from aiflame.recorder.checkup import _regions
from aiflame.recorder.finding import State


def test_a_tool_that_is_named_already_gets_the_marks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("INTEL_LIBITTNOTIFY64", raising=False)
    monkeypatch.setenv("NVTX_INJECTION64_PATH", "/opt/tool.so")
    finding = _regions()
    assert (finding.state, finding.mend) == (State.LIMITED, "unset NVTX_INJECTION64_PATH")
    assert "NVTX_INJECTION64_PATH names /opt/tool.so" in finding.text


def test_else_they_are_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NVTX_INJECTION64_PATH", "INTEL_LIBITTNOTIFY64"):
        monkeypatch.delenv(name, raising=False)
    assert _regions().state is State.WORKS
