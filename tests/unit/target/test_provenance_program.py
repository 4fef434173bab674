"""Hooks inside the program for --keep-ir and JAX, with a program's classes and aiflame's module made up."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from test_provenance_hlo import MODULE

from aiflame.target import jax_ops, triton_ir


class Bridge(ModuleType):
    """The module `_aiflame`; it remembers the calls that it gets."""

    def __init__(self, profile: Path, features: int) -> None:
        super().__init__("_aiflame")
        self.profile, self.features = str(profile), features
        self.rows: list[tuple[Any, ...]] = []
        self.notes: list[str] = []

    def append(self, *row: Any) -> int:
        self.rows.append(row)
        return len(self.rows)

    def note(self, text: str) -> None:
        self.notes.append(text)


@pytest.fixture
def bridge(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bridge:
    recording_bridge = Bridge(tmp_path, triton_ir.KEEP_IR)
    monkeypatch.setitem(sys.modules, "_aiflame", recording_bridge)
    monkeypatch.setattr(jax_ops, "_rows", [])
    return recording_bridge


def triton(kernel: type) -> Any:
    return SimpleNamespace(CompiledKernel=kernel)


def compiled_kernel() -> type:
    class CompiledKernel:
        def __init__(self, name: str) -> None:
            self.metadata, self.hash = SimpleNamespace(name=name), "0123456789abcdef"
            self.asm = {"ttir": "module {}", "ptx": ".version 8", "cubin": b"\x7fELF"}

    return CompiledKernel


def test_stages_of_a_triton_kernel_are_kept_once(bridge: Bridge, tmp_path: Path) -> None:
    kernel = compiled_kernel()
    triton_ir.install(triton(kernel))
    triton_ir.install(triton(kernel))
    kernel("vadd")
    kernel("vadd")
    assert bridge.rows == [
        ("kept_files", "vadd", "", "ttir", "vadd-0123456789ab.ttir"),
        ("kept_files", "vadd", "", "ptx", "vadd-0123456789ab.ptx"),
    ]
    assert (tmp_path / "kept" / "vadd-0123456789ab.ptx").read_text() == ".version 8"


def test_nothing_is_kept_unless_asked_for(bridge: Bridge, tmp_path: Path) -> None:
    bridge.features = 0
    kernel = compiled_kernel()
    triton_ir.install(triton(kernel))
    kernel("vadd")
    assert bridge.rows == []
    assert not (tmp_path / "kept").exists()


def test_a_kernel_that_cannot_be_kept_is_compiled_all_the_same(bridge: Bridge, tmp_path: Path) -> None:
    (tmp_path / "kept").write_text("in the way")
    kernel = compiled_kernel()
    triton_ir.install(triton(kernel))
    assert kernel("vadd").asm["ttir"] == "module {}"
    assert bridge.notes == ["Triton: intermediate representations are not kept (FileExistsError)"]


@pytest.fixture
def compiler(monkeypatch: pytest.MonkeyPatch) -> Any:
    """jax._src.compiler, whose executables have one HLO module; None stands for an executable that has none."""
    module = ModuleType("jax._src.compiler")

    def compile_or_get_cached(text: str | None) -> Any:
        hlo = SimpleNamespace(name="jit_f", to_string=lambda: text)
        return SimpleNamespace(hlo_modules=lambda: [hlo]) if text is not None else SimpleNamespace()

    module.compile_or_get_cached = compile_or_get_cached  # type: ignore[attr-defined]
    for name, each in (("jax", ModuleType("jax")), ("jax._src", ModuleType("jax._src")), ("jax._src.compiler", module)):
        monkeypatch.setitem(sys.modules, name, each)
    return module


def test_programs_that_jax_compiles_or_loads_from_its_cache_are_reported(bridge: Bridge, compiler: Any) -> None:
    jax_ops.install(sys.modules["jax"])
    jax_ops.install(sys.modules["jax"])
    compiler.compile_or_get_cached(MODULE)
    origins = [row for row in bridge.rows if row[0] == "kernel_origins"]
    assert [row[1:5] for row in origins] == [("subtract_multiply_fusion", "xla", "jit_f", ""), ("reduce.2", "xla", "jit_f", "")]
    assert json.loads(origins[0][5])["backward"] is True
    assert ("kept_files", "", "jit_f", "hlo", "hlo-jit_f.txt") in bridge.rows


def test_another_recording_hears_of_it_again(bridge: Bridge, compiler: Any) -> None:
    jax_ops.install(sys.modules["jax"])
    compiler.compile_or_get_cached(MODULE)
    origins = [row for row in bridge.rows if row[0] == "kernel_origins"]
    bridge.rows.clear()
    jax_ops.recording_began()
    assert bridge.rows == origins


def test_an_executable_without_information_still_reaches_the_program(bridge: Bridge, compiler: Any) -> None:
    jax_ops.install(sys.modules["jax"])
    assert compiler.compile_or_get_cached(None) is not None
    assert bridge.notes == ["JAX: origins of kernels are incomplete (AttributeError)"]
