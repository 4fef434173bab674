"""Counts of JAX's allocators, with stand-ins for JAX and for the collector's module."""

from __future__ import annotations

import importlib
import struct
import sys
from collections.abc import Callable
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

Record = Callable[..., list[tuple[Any, ...]]]


def client(platform: str, *counts: object) -> SimpleNamespace:
    def stats(of: object) -> object:
        if isinstance(of, Exception):
            raise of
        return of

    devices = [SimpleNamespace(local_hardware_id=at, memory_stats=lambda of=of: stats(of)) for at, of in enumerate(counts)]
    return SimpleNamespace(platform=platform, local_devices=lambda: devices)


@pytest.fixture
def record(monkeypatch: pytest.MonkeyPatch) -> Record:
    """The rows and notes of two ticks of a program with these clients."""

    def recorded(*clients: SimpleNamespace, features: int = 64) -> list[tuple[Any, ...]]:
        rows: list[tuple[Any, ...]] = []
        ours: Any = ModuleType("_aiflame")
        ours.features, ours.now_ns, ours.append, ours.note = (
            features,
            lambda: 7,
            lambda *row: rows.append(row),
            lambda text: rows.append((text,)),
        )
        bridge: Any = ModuleType("jax._src.xla_bridge")
        bridge._backends = {str(at): one for at, one in enumerate(clients)}
        monkeypatch.setitem(sys.modules, "_aiflame", ours)
        monkeypatch.setitem(sys.modules, "jax._src.xla_bridge", bridge)
        monkeypatch.delitem(sys.modules, "aiflame.target.jax_memory", raising=False)
        module = importlib.import_module("aiflame.target.jax_memory")
        for _ in range(2):
            module.tick()
        return rows

    return recorded


def bits(value: float) -> int:
    return int.from_bytes(struct.pack("<d", value), "little")


def test_each_device_has_its_bytes(record: Record) -> None:
    rows = record(client("cuda", {"bytes_in_use": 5, "pool_bytes": 9, "num_allocs": 3}, {"bytes_in_use": 6}), client("cpu", ValueError()))
    assert rows[:3] == [
        ("counters", 0, "GPU 0: bytes in use", "JAX", bits(5), 7),
        ("counters", 0, "GPU 0: bytes of the pool", "JAX", bits(9), 7),
        ("counters", 0, "GPU 1: bytes in use", "JAX", bits(6), 7),
    ]
    assert rows[3:] == rows[:3], "at each tick"


def test_a_device_without_counts_has_none(record: Record) -> None:
    assert record(client("cuda", None, {})) == []


def test_an_error_is_noted_once(record: Record) -> None:
    assert record(client("cuda", RuntimeError("no"))) == [("JAX: the memory of its allocators is not recorded (RuntimeError)",)]


def test_nothing_is_asked_without_the_option(record: Record) -> None:
    assert record(client("cuda", RuntimeError("no")), features=0) == []


def test_nothing_is_asked_before_jax_uses_a_device(record: Record) -> None:
    assert record() == []
