"""Real traces of XLA's profilers against an independent reckoning with the standard library."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import polars as pl
import pytest
from damage import content

import aiflame

OWN = Path(__file__).parents[3] / "data" / "traces" / "xplane"
THEIRS = Path(os.environ.get("AIFLAME_TRACES", "/nowhere"), "xplane")
REAL = sorted(file for folder in (OWN, THEIRS) for file in folder.glob("*.xplane.pb*") if not file.name.startswith("xprof-tpu"))
EACH = pytest.mark.parametrize("file", REAL, ids=lambda file: file.name)


def kernels(profile: aiflame.Profile) -> pl.DataFrame:
    shapes = profile.table("kernel_shapes")
    return profile.table("kernels").join(shapes, left_on=["process", "shape"], right_on=["process", "id"], maintain_order="left")


def fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    at = 0

    def number() -> int:
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    while at < len(data):
        key = number()
        if key & 7 == 0:
            yield key >> 3, number()
        elif key & 7 == 1:
            at += 8
        else:
            size = number()
            yield key >> 3, data[at : at + size]
            at += size


def reckoned(data: bytes) -> Iterator[tuple[str, str, str, int, int, dict[str, int]]]:
    """Plane, line, name, begin and end (ns) and numbers of each event."""
    for number, plane in fields(data):
        if number != 1:
            continue
        parts = list(fields(plane))  # type: ignore[arg-type]
        plane_name = next((value.decode() for key, value in parts if key == 2), "")  # type: ignore[union-attr]
        names, stats = ({}, {})  # type: ignore[var-annotated]
        for key, value in parts:
            if key in (4, 5):
                entry = dict(fields(value))  # type: ignore[arg-type]
                inner = dict(fields(entry.get(2, b"")))  # type: ignore[arg-type]
                (names if key == 4 else stats)[entry.get(1, 0)] = inner.get(2, b"").decode()  # type: ignore[union-attr]
        for key, line in parts:
            if key == 3:
                rows = list(fields(line))  # type: ignore[arg-type]
                own = dict(row for row in rows if row[0] != 4)
                for member, event in rows:
                    if member == 4:
                        facts = list(fields(event))  # type: ignore[arg-type]
                        head = dict(fact for fact in facts if fact[0] != 4)
                        values = [dict(fields(value)) for of, value in facts if of == 4]  # type: ignore[arg-type]
                        texts = {stats[value[1]]: value.get(4, value.get(3, 0)) for value in values}
                        offset, took = head.get(2, 0), head.get(3, 0)
                        begin = own.get(3, 0) + offset // 1000  # type: ignore[operator]
                        yield plane_name, own.get(2, b"").decode(), names[head[1]], begin, own.get(3, 0) + (offset + took) // 1000, texts  # type: ignore


@EACH
def test_a_real_file_has_its_own_kernels_launches_and_steps(file: Path) -> None:
    count, took, steps, linked, called = Counter[str](), Counter[str](), 0, set(), set()
    copied = 0
    for plane, line, name, begin, end, stats in reckoned(content(file)):
        if plane.startswith("/device:") and line == "Steps":
            steps += 1
        elif plane.startswith("/device:GPU") and line.startswith("Stream"):
            if "memcpy_details" in stats:
                copied += end - begin
            else:
                count[name.removesuffix(".kd")] += 1
                took[name.removesuffix(".kd")] += end - begin
            linked.add(stats["correlation_id"])
        elif plane == "/host:CPU":
            steps += "step_num" in stats
            called.add(stats.get("correlation_id"))
    profile = aiflame.open(file)
    rows = kernels(profile)
    assert Counter(rows["name"].to_list()) == count
    own = dict.fromkeys(count, 0)
    for name, start, until in rows.select("name", "start_ns", "end_ns").iter_rows():
        own[name] += until - start
    assert own == took
    copies = profile.table("copies")
    assert (copies["end_ns"] - copies["start_ns"]).sum() == copied
    assert profile.table("regions").filter(pl.col("category") == "step").height == steps
    if linked <= called and linked:
        launched = profile.table("launches")["correlation"].to_list()
        assert rows["correlation"].is_in(launched).all()


@EACH
def test_time_on_threads_is_the_time_in_which_any_call_ran(file: Path) -> None:
    spans: dict[str, list[tuple[int, int]]] = {}
    for plane, line, _, begin, end, _ in reckoned(content(file)):
        if plane == "/host:CPU":
            spans.setdefault(line, []).append((begin, end))
    total = 0
    for rows in spans.values():
        last = 0
        for begin, end in sorted(rows):
            total += max(end, last) - max(begin, last)
            last = max(end, last)
    profile = aiflame.open(file)
    own = int(profile.table("cpu_samples")["period_ns"].cast(pl.Int64).sum())
    cut = any("are cut to its end" in note for note in profile.meta.degraded)
    assert own <= total if cut else own == total


@EACH
def test_python_functions_have_their_file_and_line(file: Path) -> None:
    wanted = {name for *_, name, _, _, _ in reckoned(content(file)) if re.match(r"\$.+:\d+ ", name)}
    codes = aiflame.open(file).table("codes")
    own = {f"${name}:{line} {function}" for name, line, function in codes.select("filename", "first_line", "qualname").iter_rows()}
    assert own == wanted
