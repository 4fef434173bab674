"""Real files of sampling profilers: each is reckoned here once more, with the standard library, and its sums are those of the profile."""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from damage import content
from trees import paths

import aiflame
from aiflame.attribute.tree import Tree
from aiflame.profile.schema.kinds import Kind

FOLDER = Path(__file__).parents[3] / "data" / "traces"
MORE = Path(os.environ.get("AIFLAME_TRACES", FOLDER))
Sums = dict[str, Counter[str]]
"""For each metric, sums by the innermost function."""
OURS = (Kind.WAIT, Kind.CPU_LINE, Kind.PROCESS, Kind.THREAD)


def of(kind: str, *patterns: str, most: int = 300_000) -> list[Path]:
    files = {file for folder in (FOLDER, MORE) for pattern in patterns for file in (folder / kind).glob(pattern)}
    return sorted(file for file in files if 0 < file.stat().st_size < most)


def innermost(tree: Tree, metric: str) -> Counter[str]:
    """Sums by the name of the innermost function, as the file has it."""
    names = [full or name for name, full in tree.frames.select("name", "full_name").rows()]
    kinds = tree.frames["kind"].to_list()
    sums: Counter[str] = Counter()
    for node, value in enumerate(tree.values[metric].tolist()):
        if value:
            at = node
            while kinds[tree.frame[at]] in OURS and names[tree.frame[at]].startswith("["):
                at = int(tree.parent[at])
            sums[names[tree.frame[at]]] += value
    return sums


def close(ours: Counter[str], theirs: Counter[str], factor: float = 0.0) -> bool:
    return ours.keys() == theirs.keys() and all(abs(ours[name] - theirs[name]) <= factor for name in theirs)


def perf(data: bytes) -> Sums:
    """Samples of an event with a period and a time; events of others are not reckoned."""
    sums: Sums = {}
    sample: tuple[str, int] | None = None
    for line in [*data.decode("utf-8", "replace").splitlines(), ""]:
        head = re.match(r"^\S.*?\s+\d+(?:/\d+)?\s+(?:\[\d+\]\s+)?\d+\.\d+:\s+(?:(\d+)\s+)?([a-z]\S*):\s*$", line)
        if head is not None:
            sample = head[2], int(head[1] or 1)
            if head[1] and re.match("(cpu|task)-clock", head[2]):
                sample = "cpu-time", sample[1]
        elif sample is not None and (frame := re.match(r"^\s*[0-9a-f]+\s+(.*?)(?:\+0x[0-9a-f]+)? \(([^()]*)\)\s*$", line)):
            name = frame[1]
            if name == "[unknown]" and frame[2] != "[unknown]":
                base = frame[2].rpartition("/")[2]
                name = base if base.startswith("[") else f"[{base}]"
            python = re.match("py::(.*):[^:]*$", name)
            sums.setdefault(sample[0], Counter())[python[1] if python else name] += sample[1]
            sample = None
    return sums


def speedscope(data: bytes) -> Sums:
    file = json.loads(data)
    names = [frame["name"] for frame in file["shared"]["frames"]]
    sums: Counter[str] = Counter()
    for profile in file["profiles"]:
        factor = {"seconds": 10**9, "milliseconds": 10**6, "microseconds": 10**3, "nanoseconds": 1}.get(profile["unit"])
        if profile["type"] == "sampled":
            for sample, weight in zip(profile["samples"], profile["weights"], strict=True):
                sums[names[sample[-1]]] += round(weight * (factor or 1))
        else:
            stack: list[int] = []
            before = profile["startValue"]
            for event in profile["events"]:
                if stack:
                    sums[names[stack[-1]]] += round(event["at"] * (factor or 1)) - round(before * (factor or 1))
                before = event["at"]
                if event["type"] == "O":
                    stack.append(event["frame"])
                else:
                    assert stack.pop() == event["frame"]
    return {"wall-time" if factor else "samples": +sums}


def cpuprofile(data: bytes) -> Sums:
    file = json.loads(data)
    names = {node["id"]: node["callFrame"]["functionName"] or "(anonymous)" for node in file["nodes"]}
    times, now = [], file["startTime"]
    for delta in file["timeDeltas"]:
        now += delta
        times.append(now)
    ordered = sorted(zip(times, file["samples"], strict=True), key=lambda pair: pair[0])
    ends = [at for at, _ in ordered[1:]] + [max(file["endTime"], ordered[-1][0])]
    sums: Counter[str] = Counter()
    for (at, node), end in zip(ordered, ends, strict=True):
        sums[names[node]] += (end - at) * 1000
    return {"wall-time": +sums}


def gecko(data: bytes) -> Sums:
    """Time by the clock of processed profiles, by the thread's own tables."""
    file = json.loads(data)
    sums: Sums = {"wall-time": Counter(), "cpu-time": Counter()}
    unit = {"µs": 1000, "ns": 1}.get(file["meta"].get("sampleUnits", {}).get("threadCPUDelta"), 0)
    for thread in file["threads"]:
        strings = thread.get("stringArray") or file.get("shared", {}).get("stringArray", [])
        samples = thread["samples"]
        for row in range(samples["length"]):
            stack = samples["stack"][row]
            name = "[unattributed: no stack]"
            if stack is not None:
                function = thread["frameTable"]["func"][thread["stackTable"]["frame"][stack]]
                name = strings[thread["funcTable"]["name"][function]]
                weight = (samples.get("weight") or [1] * samples["length"])[row]
                sums["wall-time"][name] += round(weight * file["meta"]["interval"] * 10**6)
            if "threadCPUDelta" in samples and samples["threadCPUDelta"][row]:
                sums["cpu-time"][name] += round(samples["threadCPUDelta"][row] * unit)
    return {metric: +own for metric, own in sums.items() if own}


def austin(data: bytes) -> Sums:
    sums: Sums = {}
    mode = ""
    for line in data.decode().splitlines():
        if line.startswith("# mode:"):
            mode = line.partition(":")[2].strip()
        if line.startswith("P"):
            stack, _, last = line.rpartition(" ")
            frames = stack.split(";")[2:]
            name = frames[-1].split(":")[-2] if frames and frames[-1].count(":") >= 2 else "[unattributed: no stack]"
            numbers = [int(one) for one in last.split(",")]
            expected = {"cpu": {"cpu-time": numbers[0] * 1000}, "wall": {"wall-time": numbers[0] * 1000}, "memory": {"memory": numbers[0]}}
            if mode == "full":
                spent = numbers[0] * 1000
                expected["full"] = {"wall-time": spent, "cpu-time": 0 if numbers[1] else spent, "memory": numbers[2]}
            for metric, value in expected[mode].items():
                sums.setdefault(metric, Counter())[name] += value
    return {metric: Counter({name: value for name, value in own.items() if value}) for metric, own in sums.items()}


def collapsed(data: bytes) -> Sums:
    sums: Counter[str] = Counter()
    for line in data.decode().splitlines():
        stack, _, count = line.rpartition(" ")
        name = stack.split(";")[-1]
        placed = re.match(r"^(.*) \([^()]*(:\d+|\.so[.\d]*)\)$", name)
        name = re.sub(r"_\[[jki]\]$", "", placed[1] if placed else name)
        sums[name] += int(count)
    return {"samples": sums}


def pyinstrument(data: bytes) -> Sums:
    sums: Counter[str] = Counter()

    def walk(frame: dict[str, Any], above: str) -> None:
        name = above if frame["function"] == "[self]" else frame["function"]
        sums[name] += round(frame["time"] * 10**9) - sum(round(one["time"] * 10**9) for one in frame["children"])
        for one in frame["children"]:
            walk(one, name)

    walk(json.loads(data)["root_frame"], "")
    return {"wall-time": +sums}


READERS: dict[str, tuple[Callable[[bytes], Sums], list[Path]]] = {
    "perf script": (
        perf,
        of("perf-script", "cpu_clock*", "three*", "python*", "header*", "*go-stacks*", "*funcab*", "*cycles-i*"),
    ),
    "speedscope": (speedscope, of("speedscope", "pyspy*", "*0.6.0*", "*0.0.1*", "*0.1.2*", "made*")),
    ".cpuprofile": (cpuprofile, of("cpuprofile", "node20*", "made-node20-*", "*sucrase*", "*65-simple.cpuprofile", "*hello*")),
    "Firefox": (gecko, of("gecko", "*samply*", "*argument-values*", "*processed-3*")),
    "austin": (austin, of("austin", "*.txt.gz", "*.austin")),
    "collapsed stacks": (collapsed, of("collapsed", "pyspy*", "*java-stacks-01*", "*numa*", "made-pyspy-raw*")),
    "pyinstrument": (pyinstrument, of("pyinstrument", "*.json*")),
}
CASES = [(name, file) for name, (_, files) in READERS.items() for file in files]


@pytest.mark.parametrize(("name", "file"), CASES, ids=lambda one: one.name if isinstance(one, Path) else None)
def test_sums_by_function_are_those_of_the_file(name: str, file: Path) -> None:
    profile = aiflame.open(file)
    imported = profile.store.meta.imported
    assert imported is not None and imported.format == name
    theirs = READERS[name][0](content(file))
    assert theirs
    for metric, sums in theirs.items():
        assert innermost(profile.tree(metric), metric) == sums, metric


def test_py_spys_processes_and_threads_are_owners(tmp_path: Path) -> None:
    file = tmp_path / "spied.txt"
    owner = 'process 7:"python x.py";thread'
    file.write_text(f"{owner} (9): io;f (a.py:3);g (b.py:4) 2\n{owner} (0x9): io;f (a.py:3) 1\n")
    tree = aiflame.open(file).tree("samples")
    assert paths(tree, "samples") == {("x.py (7)", "io", "f"): 1, ("x.py (7)", "io", "f", "g"): 2}
    kinds = {name: (Kind(kind), of_file) for name, kind, of_file in tree.frames.select("name", "kind", "file").rows()}
    assert kinds["g"] == (Kind.PYTHON, "b.py")


def test_two_counts_are_two_metrics(tmp_path: Path) -> None:
    file = tmp_path / "folded.txt"
    file.write_text("a;b 3 5\na 0 2\n")
    profile = aiflame.open(file)
    assert paths(profile.tree(), "samples") == {("a", "b"): 5, ("a",): 2}
    assert paths(profile.tree("samples-before"), "samples-before") == {("a", "b"): 3}


def test_comments_and_other_encodings(tmp_path: Path) -> None:
    for encoding in ("utf-8-sig", "utf-16", "utf-16-be"):
        file = tmp_path / f"{encoding}.txt"
        begin = "\ufeff" if encoding == "utf-16-be" else ""
        file.write_bytes(f"{begin}# said\r\na;ü 2\r\n".encode(encoding))
        assert paths(aiflame.open(file).tree(), "samples") == {("a", "ü"): 2}
