"""How long a large report of nsys (SQLite) takes to read and to import: `nsys_scale.py [ROWS] [--output FILE]`, by default 3 million.

Writes a report with as many calls as kernels, as `nsys export -t sqlite` lays it out, and in processes of their own: reads its tables by
columns as the import does (`columns`), reads the same with sqlite3's rows (`rows`), imports it (`import`). Prints a row of JSON each, and
writes them to results/exchange/nsys_scale.json.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sqlite3
import subprocess
import sys
import tempfile
import time
from pathlib import Path

RESULTS = Path(__file__).parents[1] / "results" / "exchange" / "nsys_scale.json"
NAMES = 60
SCHEMA = """
CREATE TABLE StringIds (id INTEGER NOT NULL PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE TARGET_INFO_GPU (vmId INTEGER NOT NULL, id INTEGER NOT NULL, name TEXT, busLocation TEXT, cuDevice INTEGER);
CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INTEGER NOT NULL, end INTEGER NOT NULL, eventClass INTEGER NOT NULL, globalTid INTEGER,
    correlationId INTEGER, nameId INTEGER NOT NULL, returnValue INTEGER NOT NULL, callchainId INTEGER);
CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER NOT NULL, end INTEGER NOT NULL, deviceId INTEGER NOT NULL,
    contextId INTEGER NOT NULL, greenContextId INTEGER, streamId INTEGER NOT NULL, correlationId INTEGER, globalPid INTEGER,
    demangledName INTEGER NOT NULL, shortName INTEGER NOT NULL, mangledName INTEGER, launchType INTEGER, cacheConfig INTEGER,
    registersPerThread INTEGER NOT NULL, gridX INTEGER NOT NULL, gridY INTEGER NOT NULL, gridZ INTEGER NOT NULL, blockX INTEGER NOT NULL,
    blockY INTEGER NOT NULL, blockZ INTEGER NOT NULL, staticSharedMemory INTEGER NOT NULL, dynamicSharedMemory INTEGER NOT NULL,
    localMemoryPerThread INTEGER NOT NULL, localMemoryTotal INTEGER NOT NULL, gridId INTEGER NOT NULL, graphNodeId INTEGER);
"""
COLUMNS = """
import sys
from pathlib import Path
from aiflame.exchange.readers.nsys.report import READ
from aiflame.exchange.readers.source import Source
from aiflame.exchange.readers.sqlite_file import SqliteFile
with SqliteFile.open(Source.open(Path(sys.argv[1]))) as file:
    file.read_many(READ)
"""
ROWS = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1])
for table in ("RUNTIME", "KERNEL"):
    connection.execute("SELECT * FROM CUPTI_ACTIVITY_KIND_" + table).fetchall()
"""
IMPORT = """
import sys
from pathlib import Path
from aiflame.exchange.readers.door import import_to
import_to(Path(sys.argv[1]), Path(sys.argv[1] + ".aiflame"))
"""


def write(path: Path, pairs: int) -> None:
    connection = sqlite3.connect(path)
    connection.executescript("PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF;" + SCHEMA)
    connection.executemany(
        "INSERT INTO StringIds VALUES (?, ?)", [(0, "cudaLaunchKernel_v7000"), *((n + 1, f"_Z6kernelILi{n}EEvPf") for n in range(NAMES))]
    )
    connection.execute("INSERT INTO TARGET_INFO_GPU VALUES (0, 0, 'NVIDIA H100', '0000:1B:00.0', 0)")
    process = 1 << 48 | 4242 << 24
    calls = ((n * 6_000, n * 6_000 + 4_000, 0, process | 4242, n + 1, 0, 0, None) for n in range(pairs))
    connection.executemany(f"INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES ({','.join('?' * 8)})", calls)
    kernels = (
        (
            n * 6_000 + 9_000,
            n * 6_000 + 14_000,
            0,
            1,
            0,
            7,
            n + 1,
            process,
            name,
            name,
            name,
            1,
            1,
            32,
            64 + name,
            1,
            1,
            256,
            1,
            1,
            0,
            1024,
            0,
            0,
            n,
            None,
        )
        for n in range(pairs)
        for name in (1 + n % NAMES,)
    )
    connection.executemany(f"INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES ({','.join('?' * 26)})", kernels)
    connection.commit()
    connection.close()


def measured(code: str, path: Path) -> dict[str, float]:
    began = time.perf_counter()
    process = subprocess.Popen([sys.executable, "-c", code, str(path)])
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        raise SystemExit(status)
    return {
        "seconds": round(time.perf_counter() - began, 2),
        "cpu_seconds": round(usage.ru_utime + usage.ru_stime, 2),
        "memory_mb": usage.ru_maxrss // 1024,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows", type=int, nargs="?", default=3_000_000)
    parser.add_argument("--output", type=Path, default=RESULTS)
    options = parser.parse_args()
    rows, runs = options.rows, []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "report.sqlite"
        write(path, rows // 2)
        for name, code in (("columns", COLUMNS), ("rows", ROWS), ("import", IMPORT)):
            result = measured(code, path)
            result["million_rows_a_second"] = round(rows / 1e6 / result["seconds"], 2)
            result["million_rows_a_cpu_second"] = round(rows / 1e6 / result["cpu_seconds"], 2)
            runs.append({"what": name, "rows": rows, "file_mb": path.stat().st_size >> 20, **result})
            print(json.dumps(runs[-1]), flush=True)
    machine = {"cpu": platform.processor() or platform.machine(), "cores": os.cpu_count(), "python": platform.python_version()}
    options.output.write_text(json.dumps({"machine": machine, "load": round(os.getloadavg()[0], 1), "runs": runs}, indent=1) + "\n")


if __name__ == "__main__":
    main()
