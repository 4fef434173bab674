"""Files whose import would take more than 2 GB of memory are refused in a sentence, before it is taken."""

from __future__ import annotations

import resource
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import rocm_files as rocm
from xplanes import Event, Line, Plane, part, space, varint

from aiflame.errors import AiflameError
from aiflame.exchange.readers.door import import_to
from aiflame.exchange.readers.spans import divided
from aiflame.exchange.readers.xla.space import check_size

DAY = 86_400 * 10**9
MEASURE = """
import sys
from pathlib import Path
from aiflame.errors import AiflameError
from aiflame.exchange.readers.door import import_to
try:
    import_to(Path(sys.argv[1]), Path(sys.argv[2]))
except AiflameError as error:
    print(error)
status = dict(line.split(":", 1) for line in open("/proc/self/status"))
print(int(status["VmHWM"].split()[0]) >> 10)
"""


def peak(file: Path) -> tuple[str, int]:
    """The error of an import of the file, and its peak in megabytes: of the program alone, while `ru_maxrss` begins at its parent's."""
    limits = (resource.RLIMIT_AS, (8 << 30, 8 << 30))
    process = subprocess.run(
        [sys.executable, "-c", MEASURE, str(file), str(file.parent / "made")],
        capture_output=True,
        text=True,
        check=True,
        preexec_fn=lambda: resource.setrlimit(*limits),
    )
    *said, megabytes = process.stdout.splitlines()
    return " ".join(said), int(megabytes)


def test_lines_of_two_bytes_with_a_cell_in_each_column_are_refused(tmp_path: Path) -> None:
    """10 MB of text would be 3 GB of cells."""
    file = rocm.write_csv(tmp_path)
    kernels = next(tmp_path.glob("*kernel_trace.csv"))
    head = kernels.read_bytes().splitlines()[0]
    kernels.write_bytes(head + b"\n" + b"a\n" * 5_000_000)
    said, megabytes = peak(file)
    assert "5,000,001 lines" in said and "more than 2 GB of memory" in said
    assert megabytes < 500


def test_events_of_an_xplane_are_counted_before_they_are_read(tmp_path: Path) -> None:
    """Seven million empty events are 14 MB; the limit is known from their number alone."""
    file = tmp_path / "host.xplane.pb"
    whole = space(Plane("/host:CPU", (Line(1, "python", (Event("a", 0, 1),)),)))
    many = b"\x22\x00" * 7_200_000  # the field `events` of a line
    line = part(3, part(2, "python") + many)
    file.write_bytes(whole + b"\x0a" + varint(len(part(2, "/host:CPU") + line)) + part(2, "/host:CPU") + line)
    said, megabytes = peak(file)
    assert "events or more, whose import takes more than 2 GB of memory" in said
    assert megabytes < 700


def test_stats_count_and_what_is_below_the_limit_passes() -> None:
    check_size(100 << 20, 2_000_000, 4_000_000)
    for data, events, stats in ((1 << 30, 3_000_000, 0), (0, 2_000_000, 30_000_000)):
        with pytest.raises(AiflameError, match=f"{events:,} events"):
            check_size(data, events, stats)


def test_long_times_are_pieces_a_few_at_once() -> None:
    """Three calls of 30, 0 and 20 days; and one of a year, which is no time of a trace."""
    begin = np.array([7, 7, 9 * DAY])
    end = begin + np.array([30 * DAY + 1, 0, 20 * DAY])
    parts = list(divided(np.arange(3), begin, end))
    assert max(len(row) for row, _, _ in parts) <= 1 << 17
    row, first, last = (np.concatenate([part[at] for part in parts]) for at in range(3))
    assert [int((last - first)[row == one].sum()) for one in range(3)] == [30 * DAY + 1, 0, 20 * DAY]
    assert int((last - first).max()) == 4 * 10**9
    of_first = row == 0
    assert (first[of_first][1:] == last[of_first][:-1]).all() and first[of_first][0] == 7
    with pytest.raises(AiflameError, match="365 days in all"):
        list(divided(np.arange(1), np.array([0]), np.array([365 * DAY])))


def test_a_call_of_a_month_is_imported_with_little_memory(tmp_path: Path) -> None:
    """A damaged time of a trace of rocprofv3 once took 1.15 GB."""
    file = tmp_path / "4711_hip_api_trace.csv"
    head = '"Domain","Function","Process_Id","Thread_Id","Correlation_Id","Start_Timestamp","End_Timestamp"\n'
    file.write_text(head + f'"HIP_RUNTIME_API","hipFree",4711,4712,1,1000,{80 * DAY}\n')
    said, megabytes = peak(file)
    assert said == "" and megabytes < 500
    file.write_text(head + f'"HIP_RUNTIME_API","hipFree",4711,4712,1,1000,{370 * DAY}\n')
    with pytest.raises(AiflameError, match="369 days in all"):
        import_to(file, tmp_path / "other")
