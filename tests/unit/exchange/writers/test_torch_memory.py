"""Snapshots as torch writes them: imported from one and written again, memory is equal in every sum; host memory can be written, too."""

from __future__ import annotations

import io
import pickle
from pathlib import Path

import pytest
from called_lines import CODES, F_9, MAIN_3, SYMBOLS
from memory_snapshots import Device, busy, python, snapshot, written
from profiles import sealed

import aiflame
from aiflame.errors import AiflameError
from aiflame.exchange.writers.torch_memory import write

METRICS = ("gpu-bytes", "gpu-bytes@end", "gpu-allocated", "allocations")


def again(profile: aiflame.Profile, folder: Path) -> aiflame.Profile:
    file = folder / "again.pickle"
    with file.open("wb") as data:
        write(profile.store, data, 0)
    return aiflame.open(file)


def sums(profile: aiflame.Profile, metric: str) -> dict[tuple[str, ...], int]:
    """By the functions of Python alone: a snapshot's reader reads other frames by their names."""
    tree = profile.tree(metric)
    names = tree.frames.select("full_name", "name").rows()
    values: dict[tuple[str, ...], int] = {}
    for node, value in enumerate(tree.values[metric].tolist()):
        if value:
            path, at = [], node
            while at > 0:
                full, name = names[tree.frame[at]]
                path.append(full or name)
                at = int(tree.parent[at])
            values[tuple(path)] = values.get(tuple(path), 0) + value
    return values


@pytest.mark.parametrize("content", [busy(1), busy(2, devices=3), busy(3, last=100)], ids=["one", "three devices", "cut"])
def test_what_was_imported_and_written_again_is_equal(content: dict[str, object], tmp_path: Path) -> None:
    file = tmp_path / "snapshot.pickle"
    file.write_bytes(written(content))
    first = aiflame.open(file)
    second = again(first, tmp_path)
    for metric in METRICS:
        assert first.tree(metric).total(metric) == second.tree(metric).total(metric) > 0, metric
        assert sums(first, metric) == sums(second, metric), metric


def test_it_has_what_the_viewer_reads(tmp_path: Path) -> None:
    device = Device(0)
    frames = [python("work", "train.py", 3), python("<module>", "train.py", 9)]
    kept = device.alloc(3000, frames)
    device.free(device.alloc(500, frames), frames)
    assert kept
    file = tmp_path / "snapshot.pickle"
    file.write_bytes(written(snapshot(device)))
    data = io.BytesIO()
    assert write(aiflame.open(file).store, data, 0) == 6
    content = pickle.loads(data.getvalue())
    (trace,) = content["device_traces"]
    assert [(event["action"], event["size"]) for event in trace] == [
        ("segment_alloc", 2 << 20),
        ("alloc", 3000),
        ("segment_alloc", 2 << 20),
        ("alloc", 500),
        ("free_requested", 500),
        ("free_completed", 500),
    ]
    assert trace[1]["frames"] == [
        {"name": "work", "filename": "train.py", "line": 3},
        {"name": "<module>", "filename": "train.py", "line": 9},
    ]
    segment, unused = content["segments"]
    assert [(block["size"], block["state"]) for block in unused["blocks"]] == [(2 << 20, "inactive")]
    assert [(block["requested_size"], block["state"]) for block in segment["blocks"]] == [(3000, "active_allocated"), (0, "inactive")]
    assert sum(block["size"] for block in segment["blocks"]) == segment["total_size"]
    assert segment["blocks"][0]["address"] == trace[1]["addr"] == segment["address"]


def test_host_memory_is_written_where_there_is_no_other(tmp_path: Path) -> None:
    stacks = [{"parent": 0, "frame": MAIN_3}, {"parent": 1, "frame": F_9}]
    samples = [{"stack": 2, "bytes": 64, "weight": 640, "time_ns": 10}, {"stack": 1, "bytes": 100, "weight": 100, "time_ns": 20}]
    tables = {"host_allocations": samples, "host_frees": [{"allocation": 1, "time_ns": 30}]}
    profile = sealed(tmp_path / "p.aiflame", symbols=SYMBOLS, codes=CODES, stacks=stacks, **tables)
    data = io.BytesIO()
    assert write(profile, data, 0) == 4
    (tmp_path / "x.pickle").write_bytes(data.getvalue())
    second = aiflame.open(tmp_path / "x.pickle")
    assert second.tree("gpu-bytes").total("gpu-bytes") == 740
    assert second.tree("gpu-bytes@end").total("gpu-bytes@end") == 100


def test_a_profile_without_memory_is_refused(tmp_path: Path) -> None:
    with pytest.raises(AiflameError, match="no blocks of memory"):
        write(sealed(tmp_path / "p.aiflame"), io.BytesIO(), 0)


def test_a_block_that_is_freed_at_the_moment_of_its_allocation_is_left_out(tmp_path: Path) -> None:
    lives = [(5, 5, 1000), (5, 9, 20)]
    blocks = [{"memory": "GPU 0", "bytes": size, "begin_ns": begin, "end_ns": end} for begin, end, size in lives]
    file = io.BytesIO()
    write(sealed(tmp_path / "p.aiflame", symbols=SYMBOLS, memory_blocks=blocks), file, 0)
    (trace,) = pickle.loads(file.getvalue())["device_traces"]
    assert [(event["action"], event["size"]) for event in trace] == [("alloc", 20), ("free_requested", 20), ("free_completed", 20)]
