"""Lowers marks to clock reads and stores, in Triton 3.6 to 3.9, for CUDA and AMD.

Marks (`proton.record`) and the passes that lower them are Triton's own. The compiler calls for lowering at two points: up to 3.8 through
one object of the backend's class, from 3.9 through a table of functions. Neither passes the kernel, so we install ourselves only while an
instrumented kernel is lowered, and act only in the thread that does it.
"""

from __future__ import annotations

import contextlib
import importlib
import re
import threading
from collections.abc import Callable, Iterator
from typing import Any

from aiflame.intra import occupancy
from aiflame.intra.errors import Refused
from aiflame.values import dataclass

OLDEST, NEWEST = (3, 6), (3, 9)
POINTS = ("ttgpuir_to_llvmir", "llvmir_to_llvm")
SCRATCH_ALIGNMENT = 128
RECORD_BYTES = 8
_NO_LIMIT = 1 << 28
"""Limit of shared memory for the lowering, which would give records at most 4% of a block's; we choose the size ourselves."""

_lock = threading.Lock()


@dataclass(frozen=True, slots=True)
class Lowering:
    """How a kernel's records are kept."""

    backend: str
    """cuda or hip."""
    arch: str
    """90, gfx942."""
    warps: tuple[int, ...]
    """Warps whose records are kept."""
    segment_bytes: int
    """Bytes for each of these warps, a power of two; the oldest records are overwritten."""
    shared: bool
    """True if records stay in shared memory until the block ends, which copies them; otherwise they go to global memory at once."""
    clock_bits: int = 43
    """43 or 32."""


def version() -> tuple[int, int]:
    """The version of Triton; raises `Refused` if it is not supported."""
    triton = importlib.import_module("triton")
    match = re.match(r"(\d+)\.(\d+)", str(triton.__version__))
    release = (int(match[1]), int(match[2])) if match else (0, 0)
    if not OLDEST <= release <= NEWEST:
        raise Refused(f"Triton {triton.__version__} is not supported: use 3.6 to 3.9")
    return release


def dialect() -> Any:
    """Triton's bindings for marks, which not every build has."""
    library = importlib.import_module("triton._C.libtriton")
    proton = getattr(library, "proton", None)
    if proton is None or not hasattr(proton, "create_proton_record"):
        raise Refused("this build of Triton has no records inside kernels")
    return proton


def backend_class(backend: str) -> Any:
    """The class that compiles for CUDA or AMD."""
    folder = {"cuda": "nvidia", "hip": "amd"}.get(backend)
    if folder is None:
        raise Refused(f"kernels for {backend} cannot be instrumented")
    return importlib.import_module("triton.backends").backends[folder].compiler


@contextlib.contextmanager
def active(lowering: Lowering) -> Iterator[None]:
    """Adds our lowering while an instrumented kernel is compiled in this thread."""
    with _lock:
        if version() >= (3, 9):
            with _in_table(lowering):
                yield
        else:
            with _in_class(lowering):
                yield


class _Instrumentation:
    """Replaces the backend's instrumentation, and passes the kernels of other threads on to the previous one."""

    def __init__(self, lowering: Lowering, before: Any) -> None:
        self._lowering, self._before, self._thread = lowering, before, threading.get_ident()

    def load_dialects(self, context: Any) -> None:
        if threading.get_ident() == self._thread:
            dialect().load_dialects(context)
        elif self._before:
            self._before.load_dialects(context)

    def patch(self, point: str, manager: Any, context: Any) -> None:
        if threading.get_ident() == self._thread:
            dialect().load_dialects(context)
            add_passes(self._lowering, point, manager)
        elif self._before:
            self._before.patch(point, manager, context)


@contextlib.contextmanager
def _in_class(lowering: Lowering) -> Iterator[None]:
    owner = backend_class(lowering.backend)
    before = owner.instrumentation
    owner.instrumentation = _Instrumentation(lowering, before)
    try:
        yield
    finally:
        owner.instrumentation = before


@contextlib.contextmanager
def _in_table(lowering: Lowering) -> Iterator[None]:
    table = importlib.import_module("triton._instrumentation")._callbacks
    folder = {"cuda": "nvidia", "hip": "amd"}[lowering.backend]
    thread = threading.get_ident()

    def ours(point: str, before: Callable[..., None] | None) -> Callable[..., None]:
        def callback(*arguments: Any) -> None:
            if threading.get_ident() == thread:
                if point == "load-dialects":
                    dialect().load_dialects(*arguments)
                else:
                    add_passes(lowering, point.replace("-", "_"), arguments[0])
            elif before is not None:
                before(*arguments)

        return callback

    keys = [(point, folder) for point in ("load-dialects", *(each.replace("_", "-") for each in POINTS))]
    before = {key: table.get(key) for key in keys}
    for key in keys:
        table[key] = ours(key[0], before[key])
    try:
        yield
    finally:
        for key in keys:
            if before[key] is None:
                table.pop(key, None)
            else:
                table[key] = before[key]


def add_passes(lowering: Lowering, point: str, manager: Any) -> None:
    """Adds Triton's own passes, in its own order."""
    proton = dialect()
    if point == POINTS[0]:
        proton.add_convert_proton_to_protongpu(
            manager,
            proton.METRIC_TYPE.CYCLE,
            proton.SAMPLING_STRATEGY.SELECTIVE,
            ",".join(map(str, lowering.warps)),
            proton.GRANULARITY.WARP,
            proton.BUFFER_STRATEGY.CIRCULAR,
            proton.BUFFER_TYPE.SHARED if lowering.shared else proton.BUFFER_TYPE.GLOBAL,
            lowering.segment_bytes * len(lowering.warps),
            _NO_LIMIT,
            1,
            SCRATCH_ALIGNMENT,
            lowering.clock_bits > 32,
        )
        importlib.import_module("triton._C.libtriton").passes.common.add_cse(manager)
        proton.add_allocate_proton_shared_memory(manager)
    elif point == POINTS[1]:
        if hasattr(proton, "add_allocate_proton_global_scratch_buffer"):  # up to 3.7; later versions add these themselves
            proton.add_allocate_proton_global_scratch_buffer(manager)
        if lowering.backend == "cuda":
            proton.add_convert_proton_nvidia_gpu_to_llvm(manager)
        else:
            proton.add_convert_proton_amd_gpu_to_llvm(manager, lowering.arch)


def shared_memory(backend: str, arch: str) -> int:
    """Bytes of shared memory that a block may have."""
    if backend == "hip":
        return 163840 if arch.startswith("gfx950") else 65536
    return occupancy.of_cta(re.sub(r"\D", "", arch) or "0")
