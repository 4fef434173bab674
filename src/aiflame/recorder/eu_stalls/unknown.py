"""Keeps the first records of a GPU whose generation is not known, as the driver gives them, so that its layout can be found out."""

from __future__ import annotations

import contextlib
import json
from io import FileIO

from aiflame.profile.folder.control_page import ControlPage
from aiflame.profile.folder.door import Folder
from aiflame.profile.folder.eu_stall_files import UNKNOWN_SUFFIX
from aiflame.profile.folder.telemetry_files import FOLDER
from aiflame.recorder.eu_stalls.devices import Gpu, Sampling, Unit
from aiflame.recorder.eu_stalls.xe_stream import XeStream

_MOST_BYTES = 1 << 20


class Unknown:
    """A stream like those of `sampler.py`. It stops by itself."""

    def __init__(self, gpu: Gpu, unit: Unit, offered: Sampling, period: int, stream: XeStream, profile: Folder) -> None:
        self.gpu, self.stream = gpu, stream
        self._profile, self._name = profile, f"{gpu.address.replace(':', '-')}-{unit.number}{UNKNOWN_SUFFIX}"
        facts = {"version": unit.version, "unit": unit.number, "record_bytes": offered.record_bytes, "period": period}
        self._records, self._room = [json.dumps(facts).encode() + b"\n"], _MOST_BYTES
        self._file: FileIO | None = None

    def begin(self) -> None:
        if self._room:
            self.stream.enable()

    def read(self) -> None:
        if not self._room:
            return
        records = self.stream.read()[0][: self._room]
        self._records.append(records)
        self._room -= len(records)
        if not self._room:
            self.stream.disable()

    def write_window(self, page: ControlPage) -> bool:
        data = b"".join(self._records)
        if self._file is None and self._room == _MOST_BYTES:
            return True  # no record has come
        if not page.take(len(data)):
            return False
        self._records.clear()
        if self._file is None:
            self._file = self._profile.make_folder(FOLDER).new_file(self._name)
        return self._file.write(data) == len(data)

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self.stream.close()
        if self._file is not None:
            self._file.close()
