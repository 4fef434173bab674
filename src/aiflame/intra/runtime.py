"""In the program: which launches are made by the instrumented twin of a kernel, and how their records get out.

A kernel stays what it is. When Triton loads one, its launcher gets a thin one in front, which now and then launches the twin in its
place: never while a graph is captured, nor while an autotuner measures, nor when there is no memory for the records just then.
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
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aiflame.intra import catalog, compile_hook, device, device_ring, driver, lowering
from aiflame.intra.capture_writer import CaptureWriter
from aiflame.intra.compile_hook import Recipe
from aiflame.intra.errors import Refused
from aiflame.intra.launch_hooks import Hooks

_DONE = "_aiflame_intra"
SLOTS = 4
"""Launches whose records fit into the memory together."""


@dataclass(frozen=True, slots=True)
class Settings:
    """The request of a person."""

    passes: tuple[str, ...] = ("auto",)
    """Empty: all that the files define."""
    files: tuple[str, ...] = ()
    """Python files that define passes."""
    kernels: str = ""
    """Regular expression: which kernels; empty: all."""
    warps: tuple[int, ...] | None = None
    launches: int = 20
    """Of each kernel, at most."""
    every: int = 128
    """Launches 1, 2, 4, 8 … and every such one are taken."""
    memory: int = 256 << 20
    """Bytes of the device, and as many of the host."""
    disk: int = 1 << 30
    """Bytes for a process."""
    segment_bytes: int = 32768
    """Of a warp's records, at most."""
    shared: bool | None = None
    """Whether they lie in shared memory until a block ends; None: where there is room for them."""


@dataclass(slots=True)
class Counts:
    """Of one kernel."""

    launches: int = 0
    taken: int = 0
    dropped: int = 0


@dataclass(slots=True)
class _Pending:
    pool: device.Pool
    slot: device.Slot
    head: dict[str, Any]
    size: int


class Session:
    """Between `start` and `stop` launches of kernels are taken now and then."""

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
        """Of an earlier recording of this process, while records of it are on their way."""
        self.counts: dict[str, Counts] = {}
        found = _load(settings.files)
        self.names = settings.passes or found
        self.recipe = Recipe(tuple(catalog.chosen(self.names)), settings.warps, settings.segment_bytes, settings.shared)
        self._wanted = re.compile(settings.kernels)

    def start(self) -> None:
        global _now
        lowering.version(), lowering.dialect()
        before = _now
        if before is not None and before._process == self._process and before.settings.memory == self.settings.memory:
            # Memory is never given back, and there is to be no more of it.
            self._before, self._lock, self._pools = before, before._lock, before._pools
        _now = self
        _listen(importlib.import_module("triton.compiler").CompiledKernel)
        _leave_measuring_alone()
        atexit.register(self.stop)

    def stop(self, seconds: float = 10.0) -> None:
        """Waits on the host for our own stream, whose copies may be on their way."""
        global _now
        if _now is self:
            _now = None
        atexit.unregister(self.stop)
        until = time.monotonic() + seconds
        while self._pending and self._process == os.getpid() and time.monotonic() < until:
            self.collect()
            time.sleep(0.001)

    def note(self, text: str) -> None:
        """Once."""
        if text not in self._noted:
            self._noted.add(text)
            self._note(text)

    def wants(self, kernel: Any) -> bool:
        function = getattr(getattr(kernel, "src", None), "fn", None)
        names = (str(kernel.metadata.name), str(getattr(function, "__name__", "")))
        return not getattr(kernel.metadata, "instrumentation_mode", "") and any(self._wanted.search(name) for name in names)

    @property
    def most_bytes(self) -> int:
        """Of a launch."""
        return self.settings.memory // SLOTS

    # A launch ---------------------------------------------------------------------------------------------------------------

    def is_turn(self, counts: Counts) -> bool:
        number = counts.launches
        return counts.taken < self.settings.launches and (number & (number - 1) == 0 or number % self.settings.every == 0)

    def take(self, launch: Launch, grid: tuple[int, int, int], stream: int, rest: tuple[Any, ...], hooks: Hooks) -> bool:
        """Launches the twin; False: it was not to be, and the kernel itself is to be launched. Whatever goes wrong with us, the program
        does not learn of it. What is raised is the program's own: by its hook, or by the launcher once the twin is on its stream."""
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
                    return self._take(launch, grid, stream, rest, hooks)
            finally:
                self._lock.release()
        except Exception as error:
            if hooks.raised or hooks.launched:
                raise
            self.note(f"inside kernels: {_first_line(error)}")
            return False

    def _take(self, launch: Launch, grid: tuple[int, int, int], stream: int, rest: tuple[Any, ...], hooks: Hooks) -> bool:
        counts = launch.counts
        ctas = grid[0] * grid[1] * grid[2] * launch.cluster
        made = launch.twin(self, ctas) if ctas else None
        if made is None:
            return False
        size = ctas * int(made.metadata.profile_scratch_size)
        pool = self._pools.here()
        self.collect()
        slot = pool.take(size)
        if slot is None:
            counts.dropped += 1
            if not any(slot.busy for slot in pool.slots):
                self.note(f"inside kernels: there is no memory for the records of {made.metadata.name} with {ctas} blocks")
            return False
        begin = time.monotonic_ns()
        try:
            _launch_into(slot, made, grid, stream, rest, hooks)
        except BaseException as error:  # it may need more registers than there are
            slot.busy = bool(hooks.launched)  # the launched kernel may still write there: this memory is not used again
            if hooks.raised or hooks.launched or not isinstance(error, Exception):
                raise
            launch.give_up()
            self.note(f"inside kernels: {made.metadata.name} stays as it is: {_first_line(error)}")
            return False
        counts.taken += 1
        try:
            head = {
                "kind": "launch",
                "key": str(made.hash),
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
        except Exception as error:  # it was launched, and must not be again; it may still write there: this memory is not used again
            self.note(f"inside kernels: {_first_line(error)}")
        return True

    def collect(self) -> None:
        """Writes the records that have come to the host by now."""
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
        said = compile_hook.description(twin)
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
                "warp_ids": said["warp_ids"],
                "scratch_bytes": int(metadata.profile_scratch_size),
                "buffer_bytes": said["segment_bytes"] * len(said["warp_ids"]),
                "metric": "cycle",
                "clock64": said["clock_bits"] > 32,
                "triton": str(metadata.triton_version),
                "arch": f"sm_{metadata.target.arch}",
                "scopes": said["scopes"],
                "plain": _resources(plain),
                "instrumented": _resources(twin),
                "plain_key": str(plain.hash),
                "left_out": said["left_out"],
                "passes": list(self.names),
            }
        )


_now: Session | None = None
_measuring = threading.local()


class Launch:
    """In front of a kernel's launcher."""

    def __init__(self, kernel: Any, launcher: Any) -> None:
        self._kernel, self._launcher = kernel, launcher
        self.counts = Counts()
        self._twin: Any = None
        self.cluster = max(1, int(getattr(kernel.metadata, "num_ctas", 1) or 1))
        """Blocks that run for each program of the grid."""
        self._of: Session | None = None
        """Whose counts these are, and of whose recipe the twin is."""
        self._asked = False

    def __call__(self, grid_x: int, grid_y: int, grid_z: int, stream: int, *rest: Any) -> Any:
        session = _now
        if session is not None and not getattr(_measuring, "deep", 0):
            if self._of is not session:
                self._of, self._twin, self._asked, self.counts = session, None, False, Counts()
            self.counts.launches += 1
            if session.is_turn(self.counts):
                hooks = Hooks(*rest[3:5])
                if session.take(self, (grid_x, grid_y, grid_z), stream, rest, hooks):
                    if hooks.on_exit is not None:
                        hooks.on_exit(rest[2])
                    return None
                rest = *rest[:3], hooks.on_enter, *rest[4:]
        return self._launcher(grid_x, grid_y, grid_z, stream, *rest)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._launcher, name)

    def twin(self, session: Session, ctas: int) -> Any:
        """Made with the first launch that is taken, with room for its blocks; None where there can be none."""
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


def _launch_into(slot: device.Slot, twin: Any, grid: tuple[int, int, int], stream: int, rest: tuple[Any, ...], hooks: Hooks) -> None:
    """Triton's launchers ask one allocator of the process for memory for records. It is ours for the length of a launch."""
    holder = importlib.import_module("triton.runtime._allocation")._profile_allocator
    before = holder.get()
    thread = threading.get_ident()

    def allocate(size: int, alignment: int, on: int | None) -> Any:
        return slot if threading.get_ident() == thread else before(size, alignment, on)

    holder.set(allocate)
    try:
        twin._run(*grid, stream, twin.function, twin.packed_metadata, rest[2], hooks.enter, hooks.launched.append, *rest[5:])
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
                _leave_measuring_alone()  # of modules that came later
                if session.wants(self):
                    self._run = Launch(self, self._run)
            except Exception as error:
                session.note(f"inside kernels: a kernel stays as it is: {_first_line(error)}")
        return answer

    setattr(_init_handles, _DONE, True)
    kernel._init_handles = _init_handles


def _leave_measuring_alone() -> None:
    """Autotuners measure kernels as they are: Triton's own and Inductor's."""
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
    """Runs Python files that define passes; their names."""
    before = catalog.known()
    for file in files:
        runpy.run_path(file, run_name="aiflame_passes")
    return tuple(name for name, one in catalog.known().items() if one is not before.get(name))


def _first_line(error: BaseException) -> str:
    return (str(error) or type(error).__name__).strip().partition("\n")[0][:200]
