"""Perfetto's traces: real ones compared with a reckoning by the standard library, damaged ones, and the wire format."""

from __future__ import annotations

import gzip
import os
from collections import Counter, defaultdict
from pathlib import Path

import numpy as np
import pytest
from damage import content
from hypothesis import given, settings
from hypothesis import strategies as st
from perfetto_packets import fixed, num, sub
from perfetto_read import own_time, read
from protobuf_fields import fields

from aiflame.exchange.readers import protobuf
from aiflame.exchange.readers.formats import format_of
from aiflame.exchange.readers.perfetto.many_messages import Batch, split

MORE = Path(os.environ.get("AIFLAME_TRACES", "/nonexistent"), "perfetto")
REAL = sorted(file for file in MORE.glob("*") if file.name.startswith(("atrium", "made-chromium", "litSink")))
SMALL = sorted(file for file in MORE.glob("perfetto-*") if file.stat().st_size < 2000)


MESSAGE = st.lists(
    st.one_of(
        st.builds(num, st.integers(1, 5000), st.integers(0, (1 << 64) - 1)),
        st.builds(fixed, st.integers(1, 20), st.integers(0, (1 << 64) - 1)),
        st.builds(lambda field, data: sub(field, data), st.integers(1, 300), st.binary(max_size=200)),
        st.builds(lambda field, data: bytes([field << 3 | 5]) + data, st.integers(1, 15), st.binary(min_size=4, max_size=4)),
        st.binary(max_size=6),
    ),
    max_size=80,
).map(b"".join)


@given(st.lists(MESSAGE, max_size=6), st.integers(1, 20))
@settings(max_examples=60, deadline=None)
def test_many_messages_have_the_fields_that_each_has_by_itself(messages: list[bytes], times: int) -> None:
    every = messages * times
    places = np.cumsum([0, *map(len, every)])
    parsed = split(Batch(b"".join(every)), places[:-1], places[1:])
    data, order = b"".join(every), np.argsort(parsed.message, kind="stable")
    rows: dict[int, list[tuple[int, int | bytes]]] = defaultdict(list)
    for row in order.tolist():
        value, stop = int(parsed.value[row]), int(parsed.end[row])
        rows[int(parsed.message[row])].append((int(parsed.number[row]), value if stop < 0 else data[value:stop]))
    damaged = 0
    for number, one in enumerate(every):
        expected: list[tuple[int, int | bytes]] = []
        try:
            for field, given_value in protobuf.fields(one):
                assert field < 1 << 29
                expected.append((field, given_value if isinstance(given_value, int) else bytes(given_value)))
        except (protobuf.DamagedError, AssertionError):
            damaged += 1
        assert rows[number] == expected
    assert parsed.damaged == damaged


def reckoned(data: bytes) -> Counter[str]:
    """The own time of slices by name, by a walk over all packets."""
    threads: dict[int, tuple[dict[int, str], dict[str, int]]] = {}
    running: dict[int, tuple[int, int, bool]] = {}
    events: list[tuple[int, int, int, str]] = []
    for _, body in fields(data):
        plain = dict(fields(body))  # type: ignore[arg-type]
        sequence = int(plain.get(10, 0))
        names, state = threads.setdefault(sequence, ({}, {}))
        if int(plain.get(13, 0)) & 1 or plain.get(41):
            names.clear()
            state.clear()
        for field, inner in fields(plain.get(12, b"")):  # type: ignore[arg-type]
            if field == 2:
                entry = dict(fields(inner))  # type: ignore[arg-type]
                names[int(entry[1])] = entry[2].decode("utf-8", "replace")  # type: ignore[union-attr]
        if 59 in plain:
            given = dict(fields(plain[59]))  # type: ignore[arg-type]
            state["clock"] = int(given.get(58, 0))
            state["track"] = int(dict(fields(given.get(11, b""))).get(11, 0))  # type: ignore[arg-type]
        for field, inner in fields(plain.get(6, b"")):  # type: ignore[arg-type]
            if field == 1:
                one = dict(fields(inner))  # type: ignore[arg-type]
                if one[1] == 64:
                    running[sequence] = int(one.get(2, 0)), int(one.get(4, 1)), bool(one.get(3))
        time = int(plain.get(8, 0))
        if 8 in plain and int(plain.get(58, state.get("clock", 0))) == 64:
            last, factor, counts = running[sequence]
            time = last + time if counts else time
            running[sequence] = time, factor, counts
            time *= factor
        if 11 in plain:
            event = dict(fields(plain[11]))  # type: ignore[arg-type]
            if event.get(9) in (1, 2):
                name = event[23].decode("utf-8", "replace") if 23 in event else names.get(int(event.get(10, 0)), "")  # type: ignore[union-attr]
                events.append((int(event.get(11, state.get("track", 0))), time, int(event[9]), name))
    own: Counter[str] = Counter()
    stacks: dict[int, list[tuple[str, int, list[int]]]] = defaultdict(list)
    for of, time, kind, name in sorted(events, key=lambda one: one[1]):
        if kind == 1:
            stacks[of].append((name, time, [0]))
        elif stacks[of]:
            called, began, inside = stacks[of].pop()
            own[called] += time - began - inside[0]
            if stacks[of]:
                stacks[of][-1][2][0] += time - began
    return own


@pytest.mark.parametrize("file", REAL, ids=lambda file: file.name)
def test_real_traces_have_the_own_times_that_a_walk_over_them_finds(file: Path, tmp_path: Path) -> None:
    data = content(file)
    profile, making = read(data, tmp_path)
    expected = {name or "[no name]": time for name, time in reckoned(data).items() if time}
    assert not any("no end" in note or "cut" in note for note in making.notes)
    parsed = own_time(profile) if expected else {}
    assert parsed.keys() == expected.keys()
    # Between two snapshots the clocks of a trace drift by less than a microsecond. Only a few slices last over a snapshot.
    drift = 2000 if file.name.startswith("made-chromium") else 0
    assert all(abs(parsed[name] - time) <= drift for name, time in expected.items())


@pytest.mark.parametrize("file", SMALL, ids=lambda file: file.name)
def test_perfettos_own_examples_are_profiles(file: Path, tmp_path: Path) -> None:
    profile, making = read(file.read_bytes(), tmp_path) if file.name != "perfetto-gpu_info.pftrace" else (None, None)
    assert making is None or (profile is not None and not any("damaged" in note for note in making.notes))


HEAP = sub(5, sub(2, num(1, 1), num(2, 9)))


def test_other_files_of_protobuf_are_not_taken_for_a_trace() -> None:
    for file in (Path(__file__).parents[3] / "data" / "traces" / "pprof").glob("*.gz"):
        of = format_of(gzip.decompress(file.read_bytes())[: 1 << 20])
        assert of is not None and of.name == "pprof"
