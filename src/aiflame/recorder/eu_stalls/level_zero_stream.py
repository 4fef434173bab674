"""Stall samples of a GPU whose kernel driver has no stream that we can read. A process beside the recorder asks the vendor's driver for
them (metric_streamer.py)."""

from __future__ import annotations

import errno
import json
import os
import select
import sys
import time
from pathlib import Path

from aiflame.recorder.eu_stalls import metric_streamer
from aiflame.recorder.eu_stalls.metric_streamer import HEAD, PATIENCE_S

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from aiflame.recorder.eu_stalls.records import Counts

LOADER = "libze_loader.so.1"
REASONS = {
    "Active": "active",
    "PsdepStall": "tdr",
    "OtherStall": "other",
    "ControlStall": "control",
    "PipeStall": "pipestall",
    "SendStall": "send",
    "DistStall": "dist_acc",
    "SbidStall": "sbid",
    "SyncStall": "sync",
    "InstrFetchStall": "inst_fetch",
}
"""The driver's names of metrics, and those of Linux's xe_eu_stall.c."""
_NOT_OURS = ("ZE_AFFINITY_MASK", "ZET_ENABLE_METRICS")
"""The program's choice of devices is not ours."""
_ADDRESS = "IP"
_VALUE_BYTES = 16
_AT_ONCE = 1 << 20
_MOST_READS = 64
_LONGEST_LINE = 1 << 16


class LevelZeroStream:
    """Raises OSError with a sentence's end where nothing can be sampled."""

    late_ns = 100_000_000

    def __init__(self, loader: str, address: str, unit: int, period: int) -> None:
        self._buffer, self._used_ns = b"", 0
        self._input, self._output = _start([loader, address, str(unit), str(period)])
        try:
            facts = self._first_line()
        except OSError:
            self.close()
            raise
        self.period, self.units = int(facts["period"]), int(facts["units"])
        self._metrics = [str(name) for name in facts["metrics"]]

    @property
    def reasons(self) -> tuple[str, ...]:
        return tuple(f"eustall_{REASONS.get(name, name)}" for name in self._metrics if name != _ADDRESS)

    def fileno(self) -> int:
        return self._output

    def enable(self) -> None:
        os.write(self._input, b"e")

    def disable(self) -> None:
        os.write(self._input, b"d")

    def read(self) -> tuple[bytes, int]:
        """The values of whole packets."""
        for _ in range(_MOST_READS):
            try:
                data = os.read(self._output, _AT_ONCE)
            except BlockingIOError:
                break
            if not data:
                raise OSError(errno.EIO, "the driver's library failed")
            self._buffer += data
        values, lost = list[bytes](), 0
        while len(self._buffer) >= HEAD.size:
            count, without_room, used_ns = HEAD.unpack_from(self._buffer)
            end = HEAD.size + count * _VALUE_BYTES
            if len(self._buffer) < end:
                break
            values.append(self._buffer[HEAD.size : end])
            self._buffer = self._buffer[end:]
            self._used_ns += used_ns
            lost += without_room
        return b"".join(values), lost

    def decode(self, samples: bytes) -> Counts:
        from aiflame.recorder.eu_stalls.records import of_metrics

        return of_metrics(samples, self._metrics.index(_ADDRESS), len(self._metrics))

    def used_ns(self) -> int:
        used_ns, self._used_ns = self._used_ns, 0
        return used_ns

    def close(self) -> None:
        """The process ends by itself. Nobody waits for it: the time of processes that were waited for counts as the program's."""
        os.close(self._input)
        os.close(self._output)

    def _first_line(self) -> dict[str, Any]:
        until = time.monotonic() + PATIENCE_S + 1
        line = b""
        while b"\n" not in line and len(line) < _LONGEST_LINE:
            if not select.select([self._output], [], [], max(until - time.monotonic(), 0))[0]:
                break
            data = os.read(self._output, 4096)
            if not data:
                break
            line += data
        line, end, self._buffer = line.partition(b"\n")
        if not end:
            raise OSError(errno.EBUSY, "the driver does not begin to sample: another program may do so, perhaps another rank of this job")
        facts: dict[str, Any] = json.loads(line)
        if "error" in facts:
            raise OSError(errno.EPERM if facts["denied"] else errno.EIO, str(facts["error"]))
        os.set_blocking(self._output, False)
        return facts


def _start(arguments: list[str]) -> tuple[int, int]:
    """Its input and its output."""
    command = [sys.executable, "-I", "-S", str(Path(metric_streamer.__file__).absolute()), *arguments]
    input_read, input_write = os.pipe()
    output_read, output_write = os.pipe()
    null = (os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0)
    streams = [(os.POSIX_SPAWN_DUP2, input_read, 0), (os.POSIX_SPAWN_DUP2, output_write, 1), null]
    environment = {name: value for name, value in os.environ.items() if name not in _NOT_OURS}
    try:
        os.posix_spawn(
            command[0], command, environment | {"ZE_FLAT_DEVICE_HIERARCHY": "COMPOSITE"}, file_actions=streams, setsid=True, setsigmask=()
        )
    except OSError:
        os.close(input_write)
        os.close(output_read)
        raise
    finally:
        os.close(input_read)
        os.close(output_write)
    return input_write, output_read
