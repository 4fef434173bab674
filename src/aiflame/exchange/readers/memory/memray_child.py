"""Runs in a process of its own, with the Python that memray is installed for: writes the content of a capture file as lines of JSON.

It needs the standard library and memray. The file may come from a stranger, and memray reads it in C++: the process has limits.
"""

from __future__ import annotations

import json
import resource
import sys
from collections.abc import Iterable, Iterator
from typing import Any

_BOUNDS = {resource.RLIMIT_AS: 2 << 30, resource.RLIMIT_CPU: 300, resource.RLIMIT_FSIZE: 1 << 30, resource.RLIMIT_CORE: 0}
_MOST_RECORDS = 20_000_000
"""Allocations whose stacks are added up one by one."""
_STACK = ("stack_id", "native_stack_id", "native_segment_generation")
"""Numbers of the stack of a record; older versions of memray have the first alone."""
_FREES = ("FREE", "PYMALLOC_FREE", "MUNMAP")


def main(path: str) -> None:
    for bound, most in _BOUNDS.items():
        hard = resource.getrlimit(bound)[1]
        most = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(bound, (most, most))
    try:
        import memray  # type: ignore[import-not-found]

        _write(memray, path)
    except Exception as error:
        _line({"error": f"{type(error).__name__}: {str(error)[:300]}"})


def _write(memray: Any, path: str) -> None:
    _line({"version": str(getattr(memray, "__version__", ""))})
    reader = memray.FileReader(path)
    facts = reader.metadata
    native = bool(facts.has_native_traces)
    _line({"pid": facts.pid, "command": facts.command_line, "began": facts.start_time.timestamp(), "ended": facts.end_time.timestamp()})
    for kind, records in (("peak", reader.get_high_watermark_allocation_records), ("end", reader.get_leaked_allocation_records)):
        for record in records(merge_threads=False):
            _row(kind, record, record.size, record.n_allocations, native)
    if facts.total_allocations > _MOST_RECORDS:
        _line({"note": f"memray counts {facts.total_allocations:,} allocations: too many to add them up by stack"})
        return
    try:
        for record, size, count in _sums(memray, reader.get_allocation_records()):
            _row("all", record, size, count, native)
    except NotImplementedError:
        _line({"note": "memray wrote the file with --aggregate: it has no allocations that were freed before the end, but for the peak"})


def _sums(memray: Any, records: Iterable[Any]) -> Iterator[tuple[Any, int, int]]:
    """A record of each stack, with the bytes and the number of all its allocations."""
    frees = {kind.value for kind in memray.AllocatorType if kind.name in _FREES}
    sums: dict[tuple[int, ...], list[Any]] = {}
    for record in records:
        if record.allocator not in frees:
            key = record.tid, *(getattr(record, name, 0) for name in _STACK)
            row = sums.setdefault(key, [record, 0, 0])
            row[1] += record.size
            row[2] += record.n_allocations
    for record, size, count in sums.values():
        yield record, size, count


def _row(kind: str, record: Any, size: int, count: int, native: bool) -> None:
    stack = record.hybrid_stack_trace() if native else record.stack_trace()
    _line({"kind": kind, "tid": record.tid, "thread": record.thread_name, "size": size, "count": count, "stack": stack})


def _line(content: dict[str, Any]) -> None:
    print(json.dumps(content))


if __name__ == "__main__":
    main(sys.argv[1])
