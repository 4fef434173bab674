"""The control page: one 4096-byte file that the recorder and every recorded process map. Standard library alone."""

from __future__ import annotations

import mmap
import os
from _thread import allocate_lock  # `threading` takes a millisecond to import

from aiflame.errors import AiflameError
from aiflame.profile.folder.door import Folder
from aiflame.profile.schema.control_schema import CONTROL, CONTROL_MAGIC, FORMAT, ControlState, StopReason
from aiflame.profile.schema.records import Column, layout

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import TracebackType
    from typing import BinaryIO

FILE_NAME = "control"
PAGE_BYTES = 4096
_LARGEST_ERRNO = 4095

_MAGIC = int.from_bytes(CONTROL_MAGIC, "little")
_PLACED: dict[str, tuple[Column, int]] = {column.name: (column, offset) for column, offset in layout(CONTROL)[0]}


class ControlPage:
    """The mapped page. Each field is set by one aligned store, which every process sees at once."""

    def __init__(self, memory: mmap.mmap) -> None:
        self._memory = memory
        self._view = memoryview(memory)
        self._by_size = {4: self._view.cast("I"), 8: self._view.cast("Q")}
        self._taking = allocate_lock()

    @staticmethod
    def create(
        profile: Folder,
        *,
        max_bytes: int = 0,
        cpu_rate: int = 0,
        wall_rate: int = 0,
        features: int = 0,
        gpu_sampling: int = 0,
        gpu_counters: int = 0,
        host_memory_every: int = 0,
        recorder_pid: int | None = None,
    ) -> ControlPage:
        """A new page in state RECORDING. The file appears complete, and its block on the disk is allocated, so that a store into it cannot
        fail on a full disk."""
        values = {
            "magic": _MAGIC,
            "format": FORMAT,
            "state": int(ControlState.RECORDING),
            "max_bytes": max_bytes,
            "cpu_rate": cpu_rate,
            "wall_rate": wall_rate,
            "features": features,
            "gpu_sampling": gpu_sampling,
            "gpu_counters": gpu_counters,
            "host_memory_every": host_memory_every,
            "recorder_pid": os.getpid() if recorder_pid is None else recorder_pid,
        }
        page = bytearray(PAGE_BYTES)
        for name, value in values.items():
            column, offset = _PLACED[name]
            size = _size(column)
            page[offset : offset + size] = value.to_bytes(size, "little")
        profile.put(FILE_NAME, bytes(page))
        return ControlPage.open(profile)

    @staticmethod
    def open(profile: Folder) -> ControlPage:
        """Maps the page that all processes share, for reading and writing."""
        try:
            with profile.existing(FILE_NAME) as file:
                return _mapped(profile, file, mmap.ACCESS_WRITE)
        except OSError as error:
            raise AiflameError(f"cannot open {profile.path / FILE_NAME}: {error.strerror}") from None

    @staticmethod
    def look(profile: Folder) -> ControlPage:
        """Reads the page of a profile that we may not be able to write to."""
        with profile.file(FILE_NAME) as file:
            return _mapped(profile, file, mmap.ACCESS_READ)

    def is_one(self) -> bool:
        return self._get("magic") == _MAGIC and self._get("format") == FORMAT

    @property
    def state(self) -> int:
        return self._get("state")

    @state.setter
    def state(self, state: ControlState) -> None:
        self._set("state", int(state))

    @property
    def max_bytes(self) -> int:
        return self._get("max_bytes")

    @max_bytes.setter
    def max_bytes(self, limit: int) -> None:
        self._set("max_bytes", limit)

    def take(self, size: int) -> bool:
        """Reserves room for the recorder's own files; the processes have that much less. False: there is no room left."""
        with self._taking:
            if self.max_bytes and self.used_bytes + size >= self.max_bytes:
                return False
            if self.max_bytes:
                self.max_bytes -= size
            return True

    @property
    def used_bytes(self) -> int:
        return self._get("used_bytes")

    @property
    def stop_reason(self) -> StopReason:
        """Why a process stopped recording; an unknown value counts as IO_ERROR."""
        reason = self._get("stop_reason")
        return StopReason(reason) if reason in list(StopReason) else StopReason.IO_ERROR

    @property
    def stop_errno(self) -> int:
        return self._get("stop_errno")

    @property
    def cpu_rate(self) -> int:
        return self._get("cpu_rate")

    @property
    def wall_rate(self) -> int:
        return self._get("wall_rate")

    @property
    def features(self) -> int:
        return self._get("features")

    @property
    def recorder_pid(self) -> int:
        return self._get("recorder_pid")

    def stop_note(self) -> str | None:
        """One line on why recording stopped early; None when it did not."""
        if self.stop_reason is StopReason.NONE:
            return None
        if self.stop_reason is StopReason.MAX_SIZE:
            return f"recording stopped early: the size limit of {self.max_bytes / 1e6:.0f} MB was reached (--max-size)"
        if self.stop_reason is StopReason.SANDBOX:
            return "recording of a process stopped early: its sandbox (seccomp) forbids a system call that recording needs"
        if self.stop_reason is StopReason.NO_SPACE:
            return "recording stopped early: no space left on the device"
        return f"recording stopped early: {os.strerror(min(self.stop_errno, _LARGEST_ERRNO))}"

    def close(self) -> None:
        for view in self._by_size.values():
            view.release()
        self._view.release()
        self._memory.close()

    def __enter__(self) -> ControlPage:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def _get(self, name: str) -> int:
        column, offset = _PLACED[name]
        size = _size(column)
        return int(self._by_size[size][offset // size])

    def _set(self, name: str, value: int) -> None:
        column, offset = _PLACED[name]
        size = _size(column)
        self._by_size[size][offset // size] = value


def _mapped(profile: Folder, file: BinaryIO | None, access: int) -> ControlPage:
    if file is None:
        raise AiflameError(f"{profile.path / FILE_NAME} is missing: nothing is being recorded there")
    if file.seek(0, 2) < PAGE_BYTES:
        raise AiflameError(f"{profile.path / FILE_NAME} is cut short: nothing is being recorded there")
    page = ControlPage(mmap.mmap(file.fileno(), PAGE_BYTES, access=access))
    if not page.is_one():
        page.close()
        raise AiflameError(f"{profile.path / FILE_NAME} is damaged, or of another version of aiflame")
    return page


def _size(column: Column) -> int:
    return int(column.type.numpy[-1])
