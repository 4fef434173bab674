"""Memory snapshots of torch: the sums of a profile are equal to those of a second, simpler replay, written with the standard library."""

from __future__ import annotations

import os
import pickle
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from memory_snapshots import Device, busy, native, python, snapshot, written
from whole_traces import Whole

import aiflame
from aiflame.attribute.tree import Tree
from aiflame.attribute.trees.build import default_metric
from aiflame.errors import AiflameError
from aiflame.exchange.readers.formats import FORMATS, format_of
from aiflame.profile.schema.kinds import Kind

MORE = Path(os.environ.get("AIFLAME_TRACES", "/nowhere"))
REAL = sorted((MORE / "memory-snapshot").glob("*.pickle"))
OURS = [busy(1), busy(2, devices=3), busy(3, last=100), busy(4, actions=900, last=7), busy(5, last=0)]
Sums = dict[str, Counter[str]]
FORMAT = next(one for one in FORMATS if one.name == "torch memory snapshot")


def opened(content: object, folder: Path) -> Any:
    file = folder / "snapshot.pickle"
    file.write_bytes(written(content))
    return aiflame.open(file)


def leaf(frames: list[dict[str, Any]]) -> str:
    """The innermost Python function."""
    return next((frame["name"] for frame in frames if frame["filename"].endswith(".py")), "-")


def reckon(content: dict[str, Any]) -> Sums:
    """Sums by the innermost Python function: the state at the end, undone step by step to the begin, and replayed from there."""
    sums: Sums = {name: Counter() for name in ("gpu-bytes", "gpu-bytes@end", "gpu-allocated", "allocations")}
    for device, trace in enumerate(content["device_traces"]):
        live: dict[int, tuple[int, str]] = {}
        for segment in content["segments"]:
            for block in segment["blocks"]:
                if segment["device"] == device and block["state"] != "inactive":
                    live[block["address"]] = block["requested_size"], leaf(block["frames"])
        for size, function in live.values():
            sums["gpu-bytes@end"][function] += size
        for event in reversed(trace):
            if event["action"] == "alloc":
                del live[event["addr"]]
            elif event["action"] == "free_completed":
                live[event["addr"]] = event["size"], "-"
        now = sum(size for size, _ in live.values())
        most, at_peak = now, dict(live)
        for event in trace:
            if event["action"] == "alloc":
                live[event["addr"]] = event["size"], leaf(event["frames"])
                sums["gpu-allocated"][leaf(event["frames"])] += event["size"]
                sums["allocations"][leaf(event["frames"])] += 1
                now += event["size"]
            elif event["action"] == "free_completed":
                now -= live.pop(event["addr"])[0]
            if now > most:
                most, at_peak = now, dict(live)
        for size, function in at_peak.values():
            sums["gpu-bytes"][function] += size
    return {name: +own for name, own in sums.items()}


def by_python_function(tree: Tree, metric: str) -> Counter[str]:
    names = [full or name for name, full in tree.frames.select("name", "full_name").rows()]
    kinds = tree.frames["kind"].to_list()
    sums: Counter[str] = Counter()
    for node, value in enumerate(tree.values[metric].tolist()):
        if value:
            at = node
            while at > 0 and kinds[tree.frame[at]] != Kind.PYTHON:
                at = int(tree.parent[at])
            sums[names[tree.frame[at]] if at > 0 else "-"] += value
    return sums


def check(profile: Any, content: dict[str, Any]) -> None:
    theirs = reckon(content)
    for metric, sums in theirs.items():
        tree = profile.tree(metric)
        assert by_python_function(tree, metric) == sums, metric
        assert tree.total(metric) == sum(sums.values())


@pytest.mark.parametrize("number", range(len(OURS)))
def test_sums_are_those_of_a_second_replay(number: int, tmp_path: Path) -> None:
    check(opened(OURS[number], tmp_path), OURS[number])


@pytest.mark.parametrize("file", REAL, ids=lambda file: file.name)
def test_sums_of_real_snapshots_are_those_of_a_second_replay(file: Path) -> None:
    check(aiflame.open(file), pickle.loads(file.read_bytes()))


def story() -> tuple[Device, list[dict[str, Any]]]:
    """`hold` keeps 3000 bytes; `work` takes 10,000 and gives them back twice, once while `extra` has 500."""
    device = Device(0)
    main = python("<module>", "train.py", 9)
    hold, work, extra = ([python(name, "train.py", line), main] for line, name in enumerate(("hold", "work", "extra"), 1))
    device.alloc(3000, hold)
    device.free(device.alloc(10_000, work), work)
    other = device.alloc(500, extra)
    device.free(device.alloc(10_000, work), work)
    device.free(other, extra)
    return device, hold


def test_the_peak_is_the_first_moment_with_the_most_bytes(tmp_path: Path) -> None:
    profile = opened(snapshot(story()[0]), tmp_path)
    assert default_metric(profile.store) == "gpu-bytes"
    by = {
        metric: by_python_function(profile.tree(metric), metric)
        for metric in ("gpu-bytes", "gpu-bytes@end", "gpu-allocated", "allocations")
    }
    assert by["gpu-bytes"] == {"hold": 3000, "work": 10_000, "extra": 500}
    assert by["gpu-bytes@end"] == {"hold": 3000}
    assert by["gpu-allocated"] == {"hold": 3000, "work": 20_000, "extra": 500}
    assert by["allocations"] == {"hold": 1, "work": 2, "extra": 1}


def test_memory_that_a_stream_still_uses_is_live(tmp_path: Path) -> None:
    """`free_requested` is no end."""
    device = Device(0)
    frames = [python("<module>")]
    first = device.alloc(700, frames)
    device.free(first, frames, at_once=False)
    device.alloc(800, frames)
    device.complete(first, frames)
    assert opened(snapshot(device), tmp_path).tree("gpu-bytes").total("gpu-bytes") == 1500


def test_a_trace_that_begins_in_the_middle_starts_from_what_is_live(tmp_path: Path) -> None:
    """None of the nine last actions allocates the bytes that `hold` keeps, and the first two free bytes that no action allocates."""
    content = snapshot(story()[0], last=9)
    assert [event["action"] for event in content["device_traces"][0][:2]] == ["free_requested", "free_completed"]
    profile = opened(content, tmp_path)
    tree = profile.tree("gpu-bytes")
    names = tree.frames["name"].to_list()
    assert "[allocated before the trace]" not in names  # at the peak they are free again
    assert by_python_function(tree, "gpu-bytes") == {"hold": 3000, "work": 10_000, "extra": 500}
    assert sum_of("[allocated before the trace]", opened(snapshot(story()[0], last=3), tmp_path)) == 10_500


def sum_of(name: str, profile: Any) -> int:
    tree = profile.tree("gpu-bytes")
    return int(tree.values["gpu-bytes"][[tree.frames["name"][int(frame)] == name for frame in tree.frame]].sum())


def notes(profile: Any) -> str:
    return " ".join(profile.store.meta.degraded)


def test_each_device_has_a_peak_of_its_own_and_is_a_process(tmp_path: Path) -> None:
    first, second = Device(0), Device(2)
    frames = [python("<module>")]
    first.free(first.alloc(5000, frames), frames)
    second.now += 1000
    second.alloc(7000, frames)
    profile = opened(snapshot(first, second), tmp_path)
    tree = profile.tree("gpu-bytes")
    assert tree.total("gpu-bytes") == 12_000
    devices = [name for name, kind in tree.frames.select("name", "kind").rows() if kind == Kind.PROCESS]
    assert sorted(devices) == ["GPU 0", "GPU 2"]
    assert "GPU 0: the most memory was live after event 2 of 4" in notes(profile)
    assert "GPU 2: the most memory was live after event 2 of 2" in notes(profile)


def test_unused_memory_and_failures_are_said(tmp_path: Path) -> None:
    device = Device(0)
    frames = [python("<module>")]
    kept = device.alloc((1 << 21) - 1000, frames)
    device.free(device.alloc(1 << 20, frames), frames)
    device.fail(20 << 30, 1 << 30, frames)
    assert kept
    text = notes(opened(snapshot(device), tmp_path))
    assert "4 MiB are reserved, 2 MiB of them are live, 488 bytes are lost by rounding, and 2 MiB lie unused in 2 pieces" in text
    assert "the allocator ran out of memory once, when 20 GiB were asked for and 1 GiB were free" in text


def test_memory_in_pieces_is_said_only_where_it_would_have_been_enough(tmp_path: Path) -> None:
    for number, (asked, in_pieces) in enumerate(((3 << 20, True), (5 << 20, False), (1 << 20, False))):
        device = Device(0)
        frames = [python("<module>")]
        for address in [device.alloc(1 << 21, frames) for _ in range(2)]:
            device.free(address, frames)
        device.fail(asked, 0, frames)
        (tmp_path / str(number)).mkdir()
        text = notes(opened(snapshot(device), tmp_path / str(number)))
        assert ("expandable_segments:True avoids that" in text) == in_pieces, asked


def test_frames_of_the_interpreter_and_of_every_allocation_are_left_out(tmp_path: Path) -> None:
    device = Device(0)
    inner = ["torch::unwind::unwind()", "c10::cuda::CUDACachingAllocator::Native::NativeCachingAllocator::malloc(void**, signed char)"]
    inner += [
        "at::detail::empty_cuda(c10::ArrayRef<long>)",
        "at::_ops::empty_like::call(at::Tensor const&)",
        "at::native::clone(at::Tensor const&)",
    ]
    inner += ["at::_ops::clone::redispatch(c10::DispatchKeySet, at::Tensor const&)", "cfunction_call"]
    outer = [python("forward", "model.py", 3), native("_PyEval_EvalFrameDefault"), native("slot_tp_call"), native("_start")]
    device.alloc(100, [*map(native, inner), *outer, python("<module>", "train.py", 8)])
    tree = opened(snapshot(device), tmp_path).tree("gpu-bytes")
    names = tree.frames["full_name"].to_list()
    at = int(tree.values["gpu-bytes"].argmax())
    stack = []
    while at > 0:
        stack.append(names[tree.frame[at]] or tree.frames["name"][int(tree.frame[at])])
        at = int(tree.parent[at])
    assert stack[:-1] == ["at::native::clone(at::Tensor const&)", "aten::clone", "forward", "<module>"]
    by_op = opened(snapshot(device), tmp_path).tree("gpu-bytes", by="op")
    assert "aten::clone" in by_op.frames["name"].to_list()


def test_older_snapshots_have_sizes_and_stacks_in_the_history_of_blocks(tmp_path: Path) -> None:
    """A list of segments, `history` in place of `frames`, and no addresses of blocks."""
    content = snapshot(story()[0])["segments"]
    for segment in content:
        for block in segment["blocks"]:
            history = {"addr": block.pop("address"), "real_size": block.pop("requested_size"), "frames": block.pop("frames")}
            if block["state"] != "inactive":
                block["history"] = [history]
    profile = opened(content, tmp_path)
    assert by_python_function(profile.tree("gpu-bytes"), "gpu-bytes") == {"hold": 3000}
    assert "GPU 0: the snapshot has no trace" in notes(profile)


def test_a_pickle_with_code_is_refused(tmp_path: Path) -> None:
    class Evil:
        def __reduce__(self) -> tuple[Any, ...]:
            return os.mkdir, (str(tmp_path / "made"),)

    file = tmp_path / "evil.pickle"
    file.write_bytes(pickle.dumps({"segments": [{"segment_type": "large"}], "device_traces": [Evil()]}))
    with pytest.raises(AiflameError, match="a pickle with code is refused"):
        aiflame.open(file)
    assert not (tmp_path / "made").exists()


def test_a_pickle_of_something_else_is_no_snapshot(tmp_path: Path) -> None:
    assert format_of(pickle.dumps({"weights": [1, 2, 3]})) is not FORMAT
    with pytest.raises(AiflameError, match="no memory snapshot of torch"):
        opened({"segment_type": 1}, tmp_path)


@pytest.mark.parametrize("value", [-1, 1 << 80, "x", None, 1.5, [], True])
@pytest.mark.parametrize(
    "key", ["addr", "size", "time_us", "frames", "action", "blocks", "requested_size", "device", "segments", "device_traces"]
)
def test_values_of_another_kind_are_a_profile_or_an_error(key: str, value: object, tmp_path: Path) -> None:
    content = busy(6, actions=20)
    for row in [
        content,
        *content["device_traces"][0][5:9],
        *content["segments"],
        *(b for s in content["segments"] for b in s["blocks"][:1]),
    ]:
        if key in row:
            row[key] = value
    Whole("torch memory snapshot", "s.pickle", b"").survives(written(content), tmp_path / "0")


def test_a_snapshot_that_contains_itself_ends(tmp_path: Path) -> None:
    content = busy(7, actions=20)
    content["device_traces"].append(content["device_traces"])
    content["segments"][0]["blocks"].append(content["segments"][0])
    content["device_traces"][0][0]["frames"].append(content["device_traces"][0][0])
    assert Whole("torch memory snapshot", "s.pickle", b"").survives(written(content), tmp_path / "0")
