"""Stall samples of a GPU whose kernel driver has no stream that we can read. A process beside the recorder asks the vendor's driver for
them (metric_streamer.py)."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import select
import sys
import time
from pathlib import Path

from aiflame.profile.folder.eu_stall_files import Header
from aiflame.recorder.eu_stalls import metric_streamer
from aiflame.recorder.eu_stalls.devices import Gpu
from aiflame.recorder.eu_stalls.loop import NotBegun
from aiflame.recorder.eu_stalls.metric_streamer import HEAD, PATIENCE_S

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from aiflame.recorder.eu_stalls.records import Counts

LOADER = "libze_loader.so.1"
OLDER_PARANOID = "sudo sysctl dev.i915.perf_stream_paranoid=0"
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
_LEAVING_S, _BEGINNING_S = 0.8, 0.3


class LevelZeroStream:
    """It begins once the process has opened it. A read raises NotBegun where it cannot."""

    late_ns = 100_000_000

    def __init__(self, loader: str, gpu: Gpu, unit: int, period: int, address_bits: int) -> None:
        self._gpu, self._unit, self._address_bits = gpu, unit, address_bits
        self._buffer, self._used_ns, self._drained = b"", 0, False
        self._period, self._metrics = 0, list[str]()
        self._refused: NotBegun | None = None
        self._input, self._output = _start([loader, gpu.address, str(unit), str(period)])
        os.set_blocking(self._output, False)

    def header(self) -> Header:
        """Once it has begun."""
        reasons = tuple(f"eustall_{REASONS.get(name, name)}" for name in self._metrics if name != _ADDRESS)
        return Header(self._gpu.address, self._unit, self._period, self._address_bits, reasons)

    def wait(self) -> None:
        """Until it has begun; NotBegun where it cannot."""
        until = time.monotonic() + PATIENCE_S + 1
        while not self._metrics and time.monotonic() < until:
            select.select([self._output], [], [], 0.1)
            self._receive()
        if not self._metrics:
            raise self._ended()

    def fileno(self) -> int:
        return self._output

    def enable(self) -> None:
        self._ask(b"e")

    def disable(self) -> None:
        self._ask(b"d")

    def read(self) -> tuple[bytes, int]:
        """The values of whole packets."""
        if self._refused:
            raise self._refused
        if not self._drained:
            self._receive()
        values, lost = list[bytes](), 0
        while self._metrics and len(self._buffer) >= HEAD.size:
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

    def drain(self) -> None:
        """The process reads once more, and ends. Nobody waits for it, since the time of such processes would count as the program's."""
        os.close(self._input)
        self._drained = True
        until = time.monotonic() + (_LEAVING_S if self._metrics else _BEGINNING_S)
        try:
            while (left_s := until - time.monotonic()) > 0:
                select.select([self._output], [], [], left_s)
                self._receive()
        except NotBegun as refusal:
            self._refused = refusal
        except OSError:
            pass  # it has ended

    def close(self) -> None:
        if not self._drained:
            os.close(self._input)
        os.close(self._output)

    def _ask(self, what: bytes) -> None:
        with contextlib.suppress(BrokenPipeError):  # the process has ended: the next read raises that
            os.write(self._input, what)

    def _receive(self) -> None:
        ended = False
        for _ in range(_MOST_READS):
            try:
                data = os.read(self._output, _AT_ONCE)
            except BlockingIOError:
                break
            self._buffer += data
            if ended := not data:
                break
        if not self._metrics and b"\n" in self._buffer:
            line, _, self._buffer = self._buffer.partition(b"\n")
            self._begin(json.loads(line))
        if ended:
            raise self._ended()

    def _begin(self, facts: dict[str, Any]) -> None:
        if "error" in facts:
            mend = f": {OLDER_PARANOID}" if facts["denied"] else ""
            raise NotBegun(self._refusal(f"{facts['error']}{mend}") if facts["exists"] else "")
        self._period, self._metrics = int(facts["period"]), [str(name) for name in facts["metrics"]]

    def _ended(self) -> OSError:
        if self._metrics:
            return OSError(errno.EIO, "the vendor's driver failed")
        if self._drained:
            return NotBegun()
        return NotBegun(self._refusal("its driver does not begin: another program may sample them, perhaps another rank of this job"))

    def _refusal(self, reason: str) -> str:
        return f"stalls of the Intel GPU {self._gpu.address} are not sampled: {reason}"


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
