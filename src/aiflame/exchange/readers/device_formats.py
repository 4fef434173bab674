"""The formats of profilers of devices."""

from __future__ import annotations

import re
from pathlib import Path

from aiflame.exchange.readers.format import FolderFormat, Format, Progress
from aiflame.exchange.readers.making import Making
from aiflame.exchange.readers.source import Source


def _is_sqlite(head: bytes) -> bool:
    return head.startswith(b"SQLite format 3\0")


def _is_rocm_sqlite(head: bytes) -> bool:
    return _is_sqlite(head) and b"rocpd_" in head


def _read_sqlite(source: Source, making: Making, progress: Progress) -> None:
    from aiflame.exchange.readers import databases

    databases.read(source, making, progress)


def _is_rocm_json(head: bytes) -> bool:
    return head.lstrip().startswith(b"{") and b'"rocprofiler-sdk-tool"' in head[:4096]


def _read_rocm_json(source: Source, making: Making, progress: Progress) -> None:
    from aiflame.exchange.readers.rocm import results_json

    results_json.read(source, making, progress)


def _is_rocm_csv(head: bytes) -> bool:
    if b"Start_Timestamp" not in head[:4096]:
        return False
    from aiflame.exchange.readers.rocm import csv_files

    return csv_files.is_csv(head)


def _read_rocm_csv(source: Source, making: Making, progress: Progress) -> None:
    from aiflame.exchange.readers.rocm import csv_files

    csv_files.read(source, making, progress)


def _is_rocm_folder(folder: Path) -> bool:
    from aiflame.exchange.readers.rocm import csv_files

    return csv_files.is_folder(folder)


def _read_rocm_folder(folder: Path, making: Making, progress: Progress) -> None:
    from aiflame.exchange.readers.rocm import csv_files

    csv_files.read_folder(folder, making, progress)


def _is_nsys_folder(folder: Path) -> bool:
    from aiflame.exchange.readers.nsys import report

    return report.is_folder(folder)


def _read_nsys_folder(folder: Path, making: Making, progress: Progress) -> None:
    from aiflame.exchange.readers.nsys import report

    report.read_folder(folder, making, progress)


def _is_proton(head: bytes) -> bool:
    return bool(_PROTON.match(head)) and b'"metrics"' in head and b'"frame"' in head


def _read_proton(source: Source, making: Making, progress: Progress) -> None:
    from aiflame.exchange.readers import proton

    proton.read(source, making, progress)


_PROTON = re.compile(rb'\s*\[\s*\{\s*"(?:children|frame|metrics)"\s*:')

DEVICE_FORMATS = (
    Format("rocprofv3 JSON", _is_rocm_json, _read_rocm_json),
    Format("rocprofv3 CSV", _is_rocm_csv, _read_rocm_csv),
    Format("rocprofv3 (rocpd) or RPD SQLite", _is_rocm_sqlite, _read_sqlite),
    Format("nsys SQLite", _is_sqlite, _read_sqlite),
    Format("Proton", _is_proton, _read_proton),
)

DEVICE_FOLDERS = (
    FolderFormat("nsys Parquet or Arrow", _is_nsys_folder, _read_nsys_folder),
    FolderFormat("rocprofv3 CSV", _is_rocm_folder, _read_rocm_folder),
)


def sisters(path: Path) -> tuple[Path, ...]:
    """Other files that are read together with a file."""
    if ".csv" not in path.name:
        return ()
    from aiflame.exchange.readers.rocm import csv_files

    return tuple(one for one in csv_files.sisters(path) if one.name != path.name)
