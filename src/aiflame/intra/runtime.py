"""In the program: chooses the launches that use the instrumented twin of a kernel, and collects their records.

Kernels do not change. When Triton loads one, we wrap its launcher; the wrapper sometimes launches the twin instead: never while a graph is
captured or an autotuner measures, nor when there is no free memory for the records.
"""

from __future__ import annotations

import atexit
import functools
import importlib
import os
import re
import runpy
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from aiflame.intra import catalog, compile_hook, device, device_ring, driver, lowering
from aiflame.intra.capture_writer import CaptureWriter
from aiflame.intra.compile_hook import Recipe
from aiflame.intra.errors import Refused
from aiflame.intra.launch_hooks import Hooks
from aiflame.values import dataclass

_DONE = "_aiflame_intra"
SLOTS = 4
"""Number of launches whose records fit into the memory at the same time."""


@dataclass(frozen=True, slots=True)
class Settings:
    """The arguments of `--intra`."""

    passes: tuple[str, ...] = ("auto",)
    """Empty: all passes that the files define."""
    files: tuple[str, ...] = ()
    """Python files that define passes."""
    kernels: str = ""
    """Regular expression for the names of kernels; empty: all."""
    warps: tuple[int, ...] | None = None
    launches: int = 20
    """The most recorded launches of each kernel."""
    every: int = 128
    """Launches 1, 2, 4, 8 … and every multiple of this number are recorded."""
    memory: int = 256 << 20
    """Bytes of device memory, and as many of host memory."""
    disk: int = 1 << 30
    """The most bytes on disk for each process."""
    segment_bytes: int = 32768
    """The most bytes of a warp's records."""
    shared: bool | None = None
    """True if records stay in shared memory until a block ends; None: if there is room for them."""


@dataclass(slots=True)
class Counts:
    """Launches of one kernel: all, recorded, and missed for lack of memory or time."""

    launches: int = 0
    recorded: int = 0
    dropped: int = 0


@dataclass(slots=True)
class _Pending:
    pool: device.Pool
    slot: device.Slot
    head: dict[str, Any]
    size: int


class Session:
    """Records some launches of kernels between `start` and `stop`."""

    def __init__(self, settings: Settings, folder: Path, note: Callable[[str], Any] = lambda text: None) -> None:
        self.settings, self._folder = settings, folder
        self._note = note
        self._noted: set[str] = set()
        self._writer = CaptureWriter(folder, settings.disk)
        self._pools = device.Pools(settings.memory, self.most_bytes)
        self._pending: list[_Pending] = []
        self._lock = threading.RLock()
        self._process = os.getpid()
        self._before: Session | None = None
        """The session of an earlier recording of this process, while its records are still being copied."""
        self.counts: dict[str, Counts] = {}
        defined = _load(settings.files)
        self.names = settings.passes or defined
        self.recipe = Recipe(tuple(catalog.chosen(self.names)), settings.warps, settings.segment_bytes, settings.shared)
        self._wanted = re.compile(settings.kernels)

    def start(self) -> None:
        global _now
        lowering.version(), lowering.dialect()
        before = _now
        if before is not None and before._process == self._process and before.settings.memory == self.settings.memory:
            # Memory is never freed, so the new session uses that of the old one.
            self._before, self._lock, self._pools = before, before._lock, before._pools
        _now = self
        _listen(importlib.import_module("triton.compiler").CompiledKernel)
        _leave_measuring_alone()
        atexit.register(self.stop)

    def stop(self, seconds: float = 10.0) -> None:
        """Ends the session. Waits on the host for copies on our own stream."""
        global _now
        if _now is self:
            _now = None
        atexit.unregister(self.stop)
        until = time.monotonic() + seconds
        while self._pending and self._process == os.getpid() and time.monotonic() < until:
            self.collect()
            time.sleep(0.001)

    def note(self, text: str) -> None:
        """Reports a note, each text once."""
        if text not in self._noted:
            self._noted.add(text)
            self._note(text)

    def wants(self, kernel: Any) -> bool:
        function = getattr(getattr(kernel, "src", None), "fn", None)
        names = (str(kernel.metadata.name), str(getattr(function, "__name__", "")))
        return not getattr(kernel.metadata, "instrumentation_mode", "") and any(self._wanted.search(name) for name in names)

    @property
    def most_bytes(self) -> int:
        """The most bytes of records of a launch."""
        return self.settings.memory // SLOTS

    # A launch ---------------------------------------------------------------------------------------------------------------

    def is_turn(self, counts: Counts) -> bool:
        number = counts.launches
        return counts.recorded < self.settings.launches and (number & (number - 1) == 0 or number % self.settings.every == 0)

    def take(self, launch: Launch, grid: tuple[int, int, int], stream: int, others: tuple[Any, ...], hooks: Hooks) -> bool:
        """Launches the twin; False: the caller has to launch the kernel itself.

        Our own errors become notes. Exceptions of the program's hook, or of the launcher once the twin is on its stream, are raised."""
        counts = launch.counts
        try:
            if self._process != os.getpid() or driver.is_captured(stream):
                counts.dropped += 1
                return False
            if not self._lock.acquire(blocking=False):  # another thread compiles a twin, or writes records
                counts.dropped += 1
                return False
            try:
                with driver.unnoticed():
                    return self._take(launch, grid, stream, others, hooks)
            finally:
                self._lock.release()
        except Exception as error:
            if hooks.raised or hooks.launched:
                raise
            self.note(f"inside kernels: {_first_line(error)}")
            return False

    def _take(self, launch: Launch, grid: tuple[int, int, int], stream: int, others: tuple[Any, ...], hooks: Hooks) -> bool:
        counts = launch.counts
        ctas = grid[0] * grid[1] * grid[2] * launch.cluster
        instrumented = launch.twin(self, ctas) if ctas else None
        if instrumented is None:
            return False
        size = ctas * int(instrumented.metadata.profile_scratch_size)
        pool = self._pools.here()
        self.collect()
        slot = pool.take(size)
        if slot is None:
            counts.dropped += 1
            if not any(slot.busy for slot in pool.slots):
                self.note(f"inside kernels: there is no memory for the records of {instrumented.metadata.name} with {ctas} blocks")
            return False
        begin = time.monotonic_ns()
        try:
            _launch_into(slot, instrumented, grid, stream, others, hooks)
        except BaseException as error:  # the twin may need more registers than the device has
            slot.busy = bool(hooks.launched)  # a launched kernel may still write there: this memory is not used again
            if hooks.raised or hooks.launched or not isinstance(error, Exception):
                raise
            launch.give_up()
            self.note(f"inside kernels: {instrumented.metadata.name} stays as it is: {_first_line(error)}")
            return False
        counts.recorded += 1
        try:
            head = {
                "kind": "launch",
                "key": str(instrumented.hash),
                "device": driver.device(),
                "stream": int(stream),
                "grid": [grid[0] * launch.cluster, grid[1], grid[2]],
                "correlation": 0,
                "begin_ns": begin,
                "first_cta": 0,
                "ctas": ctas,
                "ring_bytes": slot.bytes if size > slot.bytes else 0,
                "launch": counts.launches,
                "dropped_launches": counts.dropped,
            }
            size = min(size, slot.bytes)
            pool.copy_out(slot, size, stream)
            self._pending.append(_Pending(pool, slot, head, size))
        except Exception as error:  # the twin was launched: do not launch the kernel, and do not use this memory again
            self.note(f"inside kernels: {_first_line(error)}")
        return True

    def collect(self) -> None:
        """Writes the records that have arrived on the host."""
        with self._lock, driver.unnoticed():
            if self._before is not None:
                self._before.collect()
                self._before = self._before if self._before._pending else None
            for one in [*self._pending]:
                try:
                    if not one.pool.is_copied(one.slot):
                        continue
                    if not self._writer.write(one.head, device.bytes_at(one.slot.host, one.size)):
                        self.note(f"inside kernels: the limit of {self.settings.disk >> 20} MiB of records is reached")
                except (Refused, OSError) as error:
                    self.note(f"inside kernels: {error}")
                self._pending.remove(one)
                one.slot.busy = False

    def describe(self, plain: Any, twin: Any) -> None:
        """Writes the description of a kernel, before its launches."""
        description = compile_hook.description(twin)
        code = getattr(getattr(plain.src.fn, "fn", None), "__code__", None)
        metadata = twin.metadata
        self._writer.write(
            {
                "kind": "kernel",
                "key": str(twin.hash),
                "name": str(metadata.name),
                "file": code.co_filename if code else "",
                "line": code.co_firstlineno if code else 0,
                "num_warps": int(metadata.num_warps),
                "warp_ids": description["warp_ids"],
                "scratch_bytes": int(metadata.profile_scratch_size),
                "buffer_bytes": description["segment_bytes"] * len(description["warp_ids"]),
                "metric": "cycle",
                "clock64": description["clock_bits"] > 32,
                "triton": str(metadata.triton_version),
                "arch": f"sm_{metadata.target.arch}",
                "scopes": description["scopes"],
                "plain": _resources(plain),
                "instrumented": _resources(twin),
                "plain_key": str(plain.hash),
                "left_out": description["left_out"],
                "passes": list(self.names),
            }
        )


_now: Session | None = None
_measuring = threading.local()


class Launch:
    """A wrapper around a kernel's launcher."""

    def __init__(self, kernel: Any, launcher: Any) -> None:
        self._kernel, self._launcher = kernel, launcher
        self.counts = Counts()
        self._twin: Any = None
        self.cluster = max(1, int(getattr(kernel.metadata, "num_ctas", 1) or 1))
        """Number of blocks for each program of the grid."""
        self._of: Session | None = None
        """The session to which the counts and the twin belong."""
        self._asked = False

    def __call__(self, grid_x: int, grid_y: int, grid_z: int, stream: int, *others: Any) -> Any:
        session = _now
        if session is not None and not getattr(_measuring, "deep", 0):
            if self._of is not session:
                self._of, self._twin, self._asked, self.counts = session, None, False, Counts()
            self.counts.launches += 1
            if session.is_turn(self.counts):
                hooks = Hooks(*others[3:5])
                if session.take(self, (grid_x, grid_y, grid_z), stream, others, hooks):
                    if hooks.on_exit is not None:
                        hooks.on_exit(others[2])
                    return None
                others = *others[:3], hooks.on_enter, *others[4:]
        return self._launcher(grid_x, grid_y, grid_z, stream, *others)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._launcher, name)

    def twin(self, session: Session, ctas: int) -> Any:
        """The twin, compiled for the first recorded launch with room for its blocks; None if that failed."""
        if not self._asked:
            self._asked = True
            try:
                go_round = session.most_bytes >= device.SLOT_UNIT and device_ring.is_supported()
                recipe = compile_hook.fitting(session.recipe, self._kernel, ctas, session.most_bytes, go_round=go_round)
                twin = compile_hook.twin(self._kernel, recipe)
                if int(twin.metadata.shared) > lowering.shared_memory("cuda", str(twin.metadata.target.arch)):
                    raise Refused("the records do not fit into shared memory")
                twin._init_handles()
                session.describe(self._kernel, twin)
                self._twin = twin
            except Exception as error:
                session.note(f"inside kernels: {self._kernel.metadata.name} stays as it is: {_first_line(error)}")
        return self._twin

    def give_up(self) -> None:
        """The twin cannot be launched."""
        self._twin = None


def _launch_into(slot: device.Slot, twin: Any, grid: tuple[int, int, int], stream: int, others: tuple[Any, ...], hooks: Hooks) -> None:
    """Launches the twin with `slot` as its memory: Triton's launchers use a global allocator, which we replace during the launch."""
    holder = importlib.import_module("triton.runtime._allocation")._profile_allocator
    before = holder.get()
    thread = threading.get_ident()

    def allocate(size: int, alignment: int, on: int | None) -> Any:
        return slot if threading.get_ident() == thread else before(size, alignment, on)

    holder.set(allocate)
    try:
        twin._run(*grid, stream, twin.function, twin.packed_metadata, others[2], hooks.enter, hooks.launched.append, *others[5:])
    finally:
        holder.set(before)


def _listen(kernel: Any) -> None:
    if getattr(kernel._init_handles, _DONE, False):
        return
    load: Callable[[Any], Any] = kernel._init_handles

    @functools.wraps(load)
    def _init_handles(self: Any) -> Any:
        was_loaded = self.module is not None
        answer = load(self)
        session = _now
        if not was_loaded and self.module is not None and session is not None and callable(self._run):
            try:
                _leave_measuring_alone()  # in modules imported since the start
                if session.wants(self):
                    self._run = Launch(self, self._run)
            except Exception as error:
                session.note(f"inside kernels: a kernel stays as it is: {_first_line(error)}")
        return answer

    setattr(_init_handles, _DONE, True)
    kernel._init_handles = _init_handles


def _leave_measuring_alone() -> None:
    """Switches recording off while the autotuners of Triton and Inductor measure kernels."""
    for module, owner, methods in (
        ("triton.runtime.autotuner", "Autotuner", ("_bench",)),
        ("torch._inductor.runtime.triton_heuristics", "CachingAutotuner", ("bench", "benchmark_all_configs")),
    ):
        kind = getattr(sys.modules.get(module), owner, None)
        for name in methods:
            own = getattr(kind, name, None)
            if own is not None and not getattr(own, _DONE, False):
                setattr(kind, name, _as_it_is(own))


def _as_it_is(method: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(method)
    def measured(*arguments: Any, **named: Any) -> Any:
        _measuring.deep = getattr(_measuring, "deep", 0) + 1
        try:
            return method(*arguments, **named)
        finally:
            _measuring.deep -= 1

    setattr(measured, _DONE, True)
    return measured


def _resources(kernel: Any) -> dict[str, int] | None:
    registers, spills = getattr(kernel, "n_regs", None), getattr(kernel, "n_spills", None)
    if registers is None:
        return None
    return {"registers": int(registers), "shared": int(kernel.metadata.shared), "spills": int(spills or 0)}


def _load(files: tuple[str, ...]) -> tuple[str, ...]:
    """Runs Python files that define passes; returns the names of these passes."""
    before = catalog.known()
    for file in files:
        runpy.run_path(file, run_name="aiflame_passes")
    return tuple(name for name, one in catalog.known().items() if one is not before.get(name))


def _first_line(error: BaseException) -> str:
    return (str(error) or type(error).__name__).strip().partition("\n")[0][:200]
