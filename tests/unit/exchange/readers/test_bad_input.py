"""Files that somebody wrote to do harm: aiflame refuses each in a sentence, or reads its sound parts."""

from __future__ import annotations

import gzip
import io
import json
import os
import pickle
import tarfile
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from calling import run_aiflame
from exported_profiles import listed
from timelines import check_nesting

import aiflame
from aiflame.attribute.timeline.whole import timeline
from aiflame.errors import AiflameError

BEGAN_US = 1_700_000_000_000_000
Event = dict[str, Any]


def call(name: str, begin: float, took: float, correlation: int = 0, category: str = "cuda_runtime", tid: int = 1) -> Event:
    args = {"correlation": correlation} if correlation else {}
    return {"ph": "X", "cat": category, "name": name, "pid": 1, "tid": tid, "ts": BEGAN_US + begin, "dur": took, "args": args}


def kernel(name: str, begin: float, took: float, correlation: int, stream: int = 7) -> Event:
    args = {"device": 0, "stream": stream, "correlation": correlation}
    return {"ph": "X", "cat": "kernel", "name": name, "pid": 0, "tid": stream, "ts": BEGAN_US + begin, "dur": took, "args": args}


def trace(path: Path, *events: Event) -> Path:
    path.write_text(json.dumps({"schemaVersion": 1, "traceEvents": events}))
    return path


def kernel_times(profile: aiflame.Profile) -> dict[str, int]:
    rows = profile.table("kernels").join(profile.table("kernel_shapes"), left_on=["process", "shape"], right_on=["process", "id"])
    return dict(rows.group_by("name").agg((pl.col("end_ns") - pl.col("start_ns")).cast(pl.Int64).sum()).rows())


def bytes_read() -> int:
    return int(Path("/proc/self/io").read_text().split()[1])


def test_gigabytes_of_something_else_are_refused_by_the_first_megabyte(tmp_path: Path) -> None:
    for beginning in (b"", b"%PDF-1.7\n", b"\x7fELF", b"<html>", b"PK\x05\x06"):
        file = tmp_path / "other"
        file.write_bytes(beginning)
        os.truncate(file, 5 << 30)
        before = bytes_read()
        with pytest.raises(AiflameError, match="neither a profile nor a file of a format that can be imported"):
            aiflame.open(file)
        assert bytes_read() - before < 16 << 20


@pytest.mark.parametrize(
    "begins", [b'{"traceEvents": [', b'{"$schema":"https://www.speedscope.app/file-format-schema.json","a":"', b"a;b 1\n"]
)
def test_a_file_that_unpacks_to_far_too_much_is_refused(begins: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aiflame.exchange.readers.source._HARMLESS", 1 << 12)
    file = tmp_path / "bomb.gz"
    file.write_bytes(gzip.compress(begins + b" " * (1 << 20)) + gzip.compress(b" " * (1 << 24)) * 2)
    with pytest.raises(AiflameError, match="unpacks to more than 400 times its size"):
        aiflame.open(file)


def test_devices_and_pipes_are_neither_read_nor_waited_for(tmp_path: Path) -> None:
    folder = tmp_path / "traces"
    folder.mkdir()
    os.mkfifo(folder / "a.json")
    (folder / "b.json").symlink_to("/dev/zero")
    trace(folder / "c.json", kernel("k", 0, 5, 1))
    assert kernel_times(aiflame.open(folder)) == {"k": 5000}
    with pytest.raises(AiflameError, match="no regular file"):
        aiflame.open(folder / "a.json")
    with tarfile.open(tmp_path / "traces.tar", "w") as archive:
        for kind in (tarfile.CHRTYPE, tarfile.BLKTYPE, tarfile.FIFOTYPE, tarfile.LNKTYPE, tarfile.SYMTYPE):
            entry = tarfile.TarInfo(f"/dev/{kind!r}.json")
            entry.type, entry.linkname, entry.devmajor = kind, "/etc/passwd", 1
            archive.addfile(entry)
        data = (folder / "c.json").read_bytes()
        entry = tarfile.TarInfo("/etc/../c.json")
        entry.size = len(data)
        archive.addfile(entry, io.BytesIO(data))
    assert kernel_times(aiflame.open(tmp_path / "traces.tar")) == {"k": 5000}


class Harm:
    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (os.environ["HARM"],)


def test_a_pickle_with_code_does_not_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HARM", str(tmp_path / "done"))
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        file = tmp_path / f"snapshot{protocol}.pickle"
        file.write_bytes(pickle.dumps({"segments": [Harm()], "device_traces": []}, protocol))
        with pytest.raises(AiflameError) as refused:
            aiflame.open(file)
        assert "\n" not in str(refused.value)
    assert not (tmp_path / "done").exists()


def test_control_characters_in_names_do_not_reach_the_terminal(tmp_path: Path) -> None:
    name = "k\x1b[31m\u202e\x07\nend"
    file = trace(tmp_path / "named.json", kernel(name, 0, 5, 1), call(name, 0, 5, 1), call(name, 9, 5, 0, "cpu_op"))
    assert kernel_times(aiflame.open(file)) == {name: 5000}
    for command in ("top", "findings", "flame"):
        said = run_aiflame(command, str(file), *(["-o", str(tmp_path / "flame.svg")] if command == "flame" else []))
        assert said.status == 0, said.err
        assert not {"\x1b", "\u202e", "\x07"} & set(said.out + said.err)
    assert "\x1b" not in (tmp_path / "flame.svg").read_text()


def test_ids_that_are_there_twice_lose_and_double_nothing(tmp_path: Path) -> None:
    events = [call("cudaLaunchKernel", 0, 5, 3), call("cudaLaunchKernel", 10, 5, 3), kernel("a", 20, 7, 3), kernel("b", 30, 9, 3)]
    profile = aiflame.open(trace(tmp_path / "twice.json", *events))
    assert kernel_times(profile) == {"a": 7000, "b": 9000}
    assert listed(profile.store, "wall-time", "function")["cudaLaunchKernel"][0] == 10_000
    assert {name: own for name, (own, _, _) in listed(profile.store, "gpu-time", "kernel").items() if name != "[GPU idle]"} == {
        "a": 7000,
        "b": 9000,
    }


def test_a_clock_that_runs_backwards_is_no_error(tmp_path: Path) -> None:
    events = [call("f", 100 - 10 * number, 5, category="cpu_op") for number in range(10)]
    events += [
        call("ends before it begins", 50, -20, category="cpu_op"),
        kernel("k", 90, 5, 1),
        kernel("k", 40, 5, 2),
        kernel("k", 60, -5, 3),
    ]
    profile = aiflame.open(trace(tmp_path / "back.json", *events))
    assert kernel_times(profile) == {"k": 10_000}
    assert listed(profile.store, "wall-time", "function")["f"][0] == 50_000
    check_nesting(timeline(profile.store))


def test_kernels_that_overlap_on_a_stream_have_all_their_time(tmp_path: Path) -> None:
    events = [kernel("a", 0, 10, 1), kernel("b", 5, 10, 2), kernel("c", 6, 2, 3), kernel("a", 5, 10, 4)]
    profile = aiflame.open(trace(tmp_path / "over.json", *events))
    assert kernel_times(profile) == {"a": 20_000, "b": 10_000, "c": 2000}
    assert timeline(profile.store).slices.height >= 4
    check_nesting(timeline(profile.store))


def test_work_without_a_launch_is_counted(tmp_path: Path) -> None:
    profile = aiflame.open(trace(tmp_path / "alone.json", kernel("a", 0, 10, 1), call("cudaLaunchKernel", 0, 5, 2), kernel("b", 20, 10, 0)))
    own = {name: row[0] for name, row in listed(profile.store, "gpu-time", "kernel").items()}
    assert own["a"] == own["b"] == 10_000
