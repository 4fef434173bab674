"""`perf.data`: samples and stacks are those that `perf script` prints of the same recording."""

from __future__ import annotations

import os
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from perf_files import CODE, HIGH, record, story

import aiflame
from aiflame.attribute.tree import Tree
from aiflame.errors import AiflameError
from aiflame.exchange.readers.formats import FORMATS
from aiflame.exchange.readers.sampled import perf_names
from aiflame.profile.schema.enums import SampleState
from aiflame.profile.schema.kinds import Kind
from aiflame.resolve.files.code_files import Code

MORE = Path(os.environ.get("AIFLAME_TRACES", "/nowhere"))
PAIRS = ("cpu-clock-fp", "python312-perf-map", "system-wide", "three-events")
REAL = [
    (file, text)
    for name in PAIRS
    for file, text in [(MORE / f"perf-data/made-{name}.perf.data", MORE / f"perf-script/made-{name}.txt")]
    if text.exists()
]
FORMAT = next(one for one in FORMATS if one.name == "perf.data")
OURS = (Kind.ROOT, Kind.PROCESS, Kind.THREAD, Kind.WAIT)
Stacks = Counter[tuple[str, ...]]


def stacks(tree: Tree, metric: str) -> Stacks:
    """Sums by stack, the innermost first, without frames for processes and threads."""
    names, kinds = tree.frames["name"].to_list(), tree.frames["kind"].to_list()
    sums: Stacks = Counter()
    for node, value in enumerate(tree.values[metric].tolist()):
        if value:
            stack, at = [], node
            while at > 0:
                if kinds[tree.frame[at]] not in OURS:
                    stack.append(names[tree.frame[at]])
                at = int(tree.parent[at])
            sums[tuple(stack)] += value
    return sums


def printed(text: str) -> tuple[dict[str, Stacks], Counter[tuple[str, int]]]:
    """By event, sums by stack; and samples of CPU time by thread."""
    sums: dict[str, Stacks] = {}
    threads: Counter[tuple[str, int]] = Counter()
    for block in text.split("\n\n"):
        head, *frames = block.strip("\n").splitlines() or [""]
        sample = re.match(r"^\s*(.*?)\s+(\d+)\s+(?:\[\d+\] )?[\d.]+:\s+(\d+)\s+([\w-]+):", head)
        if sample is None:
            continue
        metric = "cpu-time" if sample[4] == "cpu-clock" else sample[4]
        stack = []
        for frame in frames:
            parts = re.match(r"^\s+([0-9a-f]+) .* \((.*)\)$", frame)
            assert parts is not None, frame
            file = parts[2].rpartition("/")[2]
            whole = file.startswith("[k") or file in ("[unknown]", "anon") or parts[2].endswith(".map")
            stack.append(f"0x{parts[1]}" if whole else f"{file}+0x{parts[1]}")
        sums.setdefault(metric, Counter())[tuple(stack)] += int(sample[3])
        threads[sample[1], int(sample[2])] += metric == "cpu-time"
    return sums, +threads


@pytest.mark.parametrize(("file", "text"), REAL, ids=lambda path: path.name)
def test_samples_are_those_that_perf_prints(file: Path, text: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the names that files of this machine may give."""
    monkeypatch.setattr(perf_names, "code_of", lambda path, build_id: Code(None, None))
    monkeypatch.setattr(perf_names, "kernel_symbols", lambda build_id, recording: b"")
    profile = aiflame.open(file)
    theirs, threads = printed(text.read_text())
    assert theirs["cpu-time"]
    for metric, sums in theirs.items():
        assert stacks(profile.tree(metric), metric) == sums, metric
    rows = profile.sql(
        "select t.name, t.tid, count(*) as n from cpu_samples s join threads t on s.thread = t.id and s.process = t.process group by all"
    )
    ours = {(name, tid): count for name, tid, count in rows.rows()}
    assert {key: count for key, count in threads.items() if key[1]} == {key: count for key, count in ours.items() if key[1]}


EXPECTED = {
    ("work+0x2030", "work+0x2040"): 10_000_000,
    (f"0x{HIGH + 5:x}", "work+0x2030", "work+0x2040"): 10_000_000,
    ("work+0x2050", "0x1234"): 10_000_000,
    ("work+0x2060",): 10_000_000,
    (f"0x{CODE + 0x60:x}",): 10_000_000,  # another program, without a mapping there
    (f"0x{HIGH + 9:x}",): 10_000_000,
}


def opened(data: bytes, folder: Path) -> Any:
    file = folder / "perf.data"
    file.write_bytes(data)
    return aiflame.open(file)


@pytest.mark.parametrize("shape", ["file", "pipe", "backwards"])
def test_stacks_are_offsets_in_the_files_that_were_mapped(shape: str, tmp_path: Path) -> None:
    """Backwards: the buffers of processors come one by one, so that records are not in the order of time."""
    perf = story()
    if shape == "backwards":
        perf.parts[3:] = reversed(perf.parts[3:])
    profile = opened(perf.as_pipe() if shape == "pipe" else perf.as_file(), tmp_path)
    assert stacks(profile.tree("cpu-time"), "cpu-time") == EXPECTED
    assert stacks(profile.tree("page-faults"), "page-faults") == {("work+0x2010",): 3}
    threads = profile.table("threads").select("tid", "name").rows()
    assert sorted(threads) == [(0, "swapper"), (10, "work"), (11, "helper"), (20, "child")]
    idle = profile.table("cpu_samples").filter(state=int(SampleState.WAITING))
    assert len(idle) == 1
    kinds = dict(profile.tree("cpu-time").frames.select("name", "kind").rows())
    assert kinds[f"0x{HIGH + 5:x}"] == Kind.OS_KERNEL
    assert "`perf script`" in " ".join(profile.store.meta.degraded)
    if shape == "file":
        assert profile.store.meta.command == ("perf", "record", "work")
        assert (profile.store.meta.host.name, profile.store.meta.host.cores) == ("host", 4)


def test_records_that_were_packed_are_read(tmp_path: Path) -> None:
    zstandard = pytest.importorskip("zstandard")
    perf = story()
    whole = b"".join(perf.parts)
    packer = zstandard.ZstdCompressor().compressobj()
    first = packer.compress(whole[:300]) + packer.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK)  # within a record
    second = packer.compress(whole[300:]) + packer.flush()
    profile = opened(perf.as_file(data=record(81, first) + record(81, second)), tmp_path)
    assert stacks(profile.tree("cpu-time"), "cpu-time") == EXPECTED


def test_a_file_of_the_other_byte_order_is_refused(tmp_path: Path) -> None:
    with pytest.raises(AiflameError, match="the other byte order"):
        opened(b"2ELIFREP" + bytes(200), tmp_path)


def test_a_file_that_breaks_off_has_what_comes_before(tmp_path: Path) -> None:
    data = story().as_pipe()
    profile = opened(data[: len(data) - 20], tmp_path)
    assert profile.tree("cpu-time").total("cpu-time") == 50_000_000
    assert "breaks off" in " ".join(profile.store.meta.degraded)
