"""A recorded program that launches Triton's kernels on fake drivers, and the recipes of the twins of its kernels."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import intra_add
import torch
import triton
from intra_fakes import FakeCuda, FakeTriton

from aiflame.intra import captures, compile_hook, runtime
from aiflame.intra.captures import Captures
from aiflame.intra.catalog import chosen
from aiflame.profile.folder.door import Folder

MADE_BESIDE = ["cuStreamCreate", "cuMemHostAlloc", "cuEventCreate", "cuMemsetD8Async", "cuStreamSynchronize"]
"""Calls of the CUDA driver for the things, beside memory, that a launch needs."""


@contextmanager
def fake_driver() -> Iterator[FakeTriton]:
    """Triton's active driver; no kernel has been compiled for it yet."""
    fake = FakeTriton()
    for kernel in vars(intra_add).values():
        if isinstance(kernel, triton.JITFunction):
            kernel.device_caches.clear()
    triton.runtime.driver.set_active(fake)
    try:
        yield fake
    finally:
        triton.runtime.driver._active = None


class Program:
    """A recorded program that launches kernels."""

    def __init__(self, folder: Path, cuda: FakeCuda, driver: FakeTriton) -> None:
        self.folder, self.cuda, self.driver = folder, cuda, driver
        self.notes: list[str] = []
        self.x, self.y = torch.zeros(4096), torch.zeros(4096)
        self.session: runtime.Session | None = None

    def record(self, **settings: Any) -> None:
        chosen = runtime.Settings(**{"passes": ("regions",), **settings})
        self.session = runtime.Session(chosen, self.folder, self.notes.append)
        self.session.start()

    def launch(self, kernel: Any = intra_add.add, times: int = 1, blocks: int = 4) -> list[bool]:
        """For each launch, whether it launched the instrumented twin."""
        before = len(self.driver.launched)
        for _ in range(times):
            kernel[(blocks,)](self.x, self.y, 4096, BLOCK=1024)
        return [mode.startswith("aiflame_") for mode in self.driver.launched[before:]]

    def end_copies(self) -> None:
        assert self.session is not None
        self.session.collect()

    def end(self) -> Captures:
        if self.session is not None:
            self.session.stop(0.2)
            self.session = None
        (file,) = self.folder.glob("*.captures")
        return captures.read(Folder.open(self.folder), int(file.stem))


def loaded(target: str = "cuda", arch: Any = 90, warps: int = 4, registers: int | None = 40, shared: int = 0, roles: str = "") -> Any:
    """A compiled kernel, as far as it is asked."""
    metadata = SimpleNamespace(target=SimpleNamespace(backend=target, arch=arch), num_warps=warps, shared=shared)
    return SimpleNamespace(asm={"ttgir": f'"ttg.num-warps" = {warps} {roles}'}, metadata=metadata, n_regs=registers)


def recipe_of(*names: str) -> compile_hook.Recipe:
    return compile_hook.Recipe(tuple(chosen(names)))
