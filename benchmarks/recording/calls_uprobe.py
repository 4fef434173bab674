"""The cost of the kernel's own probes to a call: a uprobe where a function begins and one where it returns, for calls.py.

Both are only counted: no record is written and no clock is read, so that a tracer built on them costs more. As root on a kernel with
perf events for uprobes; elsewhere a line says why not. The same for LTTng-UST, whose tracepoints are compiled in.
"""

from __future__ import annotations

import contextlib
import ctypes
import ctypes.util
import os
import platform
import shutil
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from elftools.elf.elffile import ELFFile

PMU = Path("/sys/bus/event_source/devices/uprobe")
SYSCALLS = {"x86_64": 298, "aarch64": 241}
"""perf_event_open."""
ENTRY, RETURN = 0, 1
ATTRIBUTE = struct.Struct("=IIQQQQQIIQQ")
"""perf_event_attr: type, size, config, sample_period, sample_type, read_format, flags, wakeup_events, bp_type, config1, config2."""


class NotHere(Exception):
    """There is no measuring on this machine."""


def beside(library: Path, function: str, calls: int, client: Callable[[], dict[str, float]]) -> dict[str, Any]:
    """Times a client that calls a library's function at least this often: ns a call without probes and with them."""
    try:
        alone = client()
        costs: dict[str, Any] = {}
        for what, kinds in (("entry", (ENTRY,)), ("entry and return", (ENTRY, RETURN))):
            with probed(library, function, kinds) as hits:
                times = client()
            if min(hits.values()) < calls:
                raise NotHere(f"the probes were hit {list(hits.values())} times in {calls} calls")
            added = {kind: round(times[kind] - alone[kind], 1) for kind in ("median", "mean")}
            costs[f"{function}, {what}"] = {"alone": alone, "probed": times, "added": added}
        return costs
    except (NotHere, OSError) as why:
        return {"skipped": str(why)}


def lttng() -> str:
    """Whether it could be measured beside."""
    installed = shutil.which("lttng-gen-tp") and ctypes.util.find_library("lttng-ust")
    return "on this machine, not measured" if installed else "skipped: LTTng-UST is not on this machine"


@contextlib.contextmanager
def probed(library: Path, function: str, kinds: tuple[int, ...]) -> Iterator[dict[int, int]]:
    """While it lasts, on all processors; afterwards, how often each kind was hit."""
    offset = offset_of(library, function)
    path = ctypes.create_string_buffer(str(library.resolve()).encode())
    counted = dict.fromkeys(kinds, 0)
    with contextlib.ExitStack() as stack:
        opened = {(kind, cpu): _opened(kind, cpu, path, offset) for kind in counted for cpu in sorted(os.sched_getaffinity(0))}
        for event in opened.values():
            stack.callback(os.close, event)
        yield counted
        for (kind, _), event in opened.items():
            counted[kind] += struct.unpack("=Q", os.read(event, 8))[0]


def offset_of(library: Path, function: str) -> int:
    """Where in the file a function begins."""
    with library.open("rb") as stream:
        elf = ELFFile(stream)
        symbols: Any = elf.get_section_by_name(".dynsym")
        address = next(symbol["st_value"] for symbol in symbols.get_symbol_by_name(function))
        return int(next(elf.address_offsets(address)))


def _opened(kind: int, cpu: int, path: Any, offset: int) -> int:
    if not PMU.exists():
        raise NotHere("the kernel has no perf events for uprobes")
    number = SYSCALLS.get(platform.machine())
    if number is None:
        raise NotHere(f"not on {platform.machine()}")
    attribute = ATTRIBUTE.pack(int((PMU / "type").read_text()), ATTRIBUTE.size, kind, 0, 0, 0, 0, 0, 0, ctypes.addressof(path), offset)
    libc = ctypes.CDLL(None, use_errno=True)
    event = int(libc.syscall(ctypes.c_long(number), ctypes.c_char_p(attribute), -1, cpu, -1, ctypes.c_ulong(0)))
    if event < 0:
        raise NotHere(f"perf_event_open: {os.strerror(ctypes.get_errno())}; uprobes on all processors are root's")
    return event
