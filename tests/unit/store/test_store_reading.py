"""A range of a store as a profile: values, processes and layers are those of its windows."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest
from store_rows import BEGIN_NS, HOUR_NS, new_store, window

import aiflame
from aiflame.api import Profile
from aiflame.errors import AiflameError
from aiflame.profile.folder.door import Folder
from aiflame.store.layout import hour_of, make_store
from aiflame.store.tables import merge, write

RANGE = "2025-11-27 14:00..2025-11-27 16:00"
SECOND = 10**9


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import time

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()


def add(store: Folder, number: int, stacks: dict[tuple[str, ...], int], **facts: object) -> None:
    begin = int(str(facts.get("begin_ns", BEGIN_NS)))
    write(store, hour_of(begin), window(number, stacks, **facts))  # type: ignore[arg-type]


def opened(store: Folder, text: str = RANGE) -> Profile:
    return aiflame.open(f"{store.path}@{text}")


def stacks_of(profile: Profile, metric: str = "cpu-time", by: str = "code") -> dict[tuple[str, ...], int]:
    tree = profile.tree(metric, by)
    names = tree.frames["name"].to_list()
    paths: list[tuple[str, ...]] = [()]
    values: dict[tuple[str, ...], int] = {}
    for node in range(1, len(tree)):
        paths.append((*paths[int(tree.parent[node])], names[tree.frame[node]]))
        if value := int(tree.values[metric][node]):
            values[paths[node]] = values.get(paths[node], 0) + value
    return values


def test_notes_of_the_recordings_are_those_of_the_range(tmp_path: Path) -> None:
    """A range in which a program used a processor and has no samples says so, and not once for each window."""
    store = new_store(tmp_path)
    add(store, 1, {("f",): SECOND}, notes="process 7 has no samples\nanother")
    add(store, 2, {("f",): SECOND}, begin_ns=BEGIN_NS + 60 * SECOND, notes="process 7 has no samples")
    add(store, 3, {("f",): SECOND}, begin_ns=BEGIN_NS + HOUR_NS)
    assert opened(store).meta.degraded[1:] == ("process 7 has no samples", "another")
    for number in range(4, 12):
        add(store, number, {("f",): SECOND}, notes=f"note {number}")
    assert opened(store).meta.degraded[-1] == "5 more notes of windows are left out"


def test_windows_of_two_hours_add_up(tmp_path: Path) -> None:
    store = new_store(tmp_path)
    add(store, 1, {("main", "heavy"): 3 * SECOND, ("main", "light"): SECOND})
    add(
        store,
        2,
        {("main", "heavy"): 6 * SECOND, ("main", "light"): 2 * SECOND},
        pid=8,
        command="python serve.py",
        begin_ns=BEGIN_NS + HOUR_NS,
    )
    values = stacks_of(opened(store))
    by_function: dict[str, int] = {}
    for path, value in values.items():
        by_function[path[-1]] = by_function.get(path[-1], 0) + value
    assert by_function == {"heavy": 9 * SECOND, "light": 3 * SECOND}
    assert {path[0] for path in values} == {"train.py (7)", "serve.py (8)"}
    merge(store, hour_of(BEGIN_NS))
    assert stacks_of(opened(store)) == values


def test_windows_stand_for_the_time_that_their_process_ran(tmp_path: Path) -> None:
    """Two windows of 10 s, of a process that was there from the first window's begin for 200 s: ten times their values."""
    store = new_store(tmp_path)
    add(store, 1, {("heavy",): 3 * SECOND})
    add(store, 2, {("heavy",): 5 * SECOND}, begin_ns=BEGIN_NS + 190 * SECOND, found_ns=BEGIN_NS)
    profile = opened(store)
    assert sum(stacks_of(profile).values()) == 80 * SECOND
    (note,) = profile.meta.degraded
    assert note == "times are estimates for the whole range: 2 windows of 1 process, 20 s in all, stand for the 200 s that these ran"


def test_a_time_without_an_agent_is_not_stood_for(tmp_path: Path) -> None:
    """An agent saw the process for 40 s, and another one for 60 s, an hour later; also when the hour's parts are merged."""
    store = new_store(tmp_path)
    for number, (begin_s, found_s) in enumerate(((0, 0), (30, 0), (1850, 1800), (1840, 1800))):
        add(store, number, {("f",): SECOND}, begin_ns=BEGIN_NS + begin_s * SECOND, found_ns=BEGIN_NS + found_s * SECOND)
    assert sum(stacks_of(opened(store)).values()) == 4 * SECOND * 100 // 40
    merge(store, hour_of(BEGIN_NS))
    assert sum(stacks_of(opened(store)).values()) == 4 * SECOND * 100 // 40


def test_a_process_is_seen_until_the_end_of_a_range_though_that_is_written_in_the_next_hour(tmp_path: Path) -> None:
    """Found 100 s before the hour's end, with a window of 10 s; written 5 minutes later."""
    store = new_store(tmp_path)
    found_ns = BEGIN_NS + HOUR_NS - 100 * SECOND
    add(store, 1, {("f",): SECOND}, begin_ns=found_ns)
    assert sum(stacks_of(opened(store, "2025-11-27 14:00..15:00")).values()) == SECOND
    later = window(2, {("g",): SECOND}, begin_ns=found_ns + 290 * SECOND, found_ns=found_ns)
    write(store, hour_of(BEGIN_NS + HOUR_NS), later)
    assert stacks_of(opened(store, "2025-11-27 14:00..15:00")) == {("train.py (7)", "main thread", "f"): 10 * SECOND}


def test_processes_without_a_window_are_named(tmp_path: Path) -> None:
    store = new_store(tmp_path)
    add(store, 1, {("f",): SECOND})
    for pid in (8, 9):
        unseen = window(pid, {}, pid=pid, command=f"job {pid}")
        unseen["processes"] = unseen["processes"].with_columns(cpu_ns=pl.lit(pid * SECOND, dtype=pl.Int64))
        unseen["windows"] = unseen["windows"].clear()
        write(store, hour_of(BEGIN_NS), unseen)
    assert opened(store).meta.degraded[1:] == (
        "2 more processes have no window here: values leave them out (17 s of CPU time in their whole lives)",
    )
    assert len(opened(store, f"{RANGE},command=train").meta.degraded) == 1


def test_an_at_sign_in_a_condition_or_in_the_name_of_a_store(tmp_path: Path) -> None:
    store = make_store(tmp_path / "me@here")
    unit = window(1, {("f",): SECOND})
    unit["windows"] = unit["windows"].with_columns(cgroup=pl.lit("/user@1000.service/a"))
    write(store, hour_of(BEGIN_NS), unit)
    assert sum(stacks_of(opened(store, f"{RANGE},cgroup=/user@1000.service")).values()) == SECOND
    with pytest.raises(AiflameError, match="has no window in this range"):
        aiflame.open(store.path)


@pytest.mark.parametrize(
    ("condition", "value"),
    [
        ("command=serve", 2),
        ("rank=3", 2),
        ("pid=7", 1),
        ("version=ab", 2),
        ("cgroup=/user.slice", 3),
        ("user=me", 3),
        ("command=^python", 3),
        ("command=^(?!.*serve)", 1),
    ],
)
def test_some_processes_alone(tmp_path: Path, condition: str, value: int) -> None:
    store = new_store(tmp_path)
    add(store, 1, {("f",): SECOND})
    add(store, 2, {("f",): 2 * SECOND}, pid=8, command="python serve.py", rank=3, version="abcd 1234")
    assert sum(stacks_of(opened(store, f"{RANGE},{condition}")).values()) == value * SECOND


def test_a_range_without_windows_says_which_hours_there_are(tmp_path: Path) -> None:
    store = new_store(tmp_path)
    with pytest.raises(AiflameError, match="has no window yet"):
        opened(store)
    add(store, 1, {("f",): SECOND})
    with pytest.raises(AiflameError, match="its hours are those from 2025-11-27 14:00 to 2025-11-27 14:00"):
        opened(store, "2025-11-28")


def test_a_window_that_is_added_later_is_in_the_range(tmp_path: Path) -> None:
    store = new_store(tmp_path)
    add(store, 1, {("f",): SECOND})
    assert sum(stacks_of(opened(store)).values()) == SECOND
    add(store, 2, {("f",): SECOND}, pid=9)
    assert sum(stacks_of(opened(store)).values()) == 2 * SECOND


def test_rank_and_version_are_in_the_name_of_a_process(tmp_path: Path) -> None:
    store = new_store(tmp_path)
    add(store, 1, {("f",): SECOND}, rank=3, version="abcd")
    (command,) = opened(store).table("processes")["command"]
    assert command == "python\0train.py\0rank=3\0version=abcd"


def test_layers_are_those_of_the_model(tmp_path: Path) -> None:
    store = new_store(tmp_path)
    add(store, 1, {("f",): SECOND}, layer="layers.3.attn")
    assert any("attn" in "".join(path) for path in stacks_of(opened(store), by="layer"))


def test_another_metric_is_kept(tmp_path: Path) -> None:
    store = new_store(tmp_path)
    add(store, 1, {("f",): 4096}, metric="bytes-moved", unit="bytes")
    assert sum(stacks_of(opened(store), "bytes-moved").values()) == 4096


def test_a_path_that_is_no_store_is_refused_as_before(tmp_path: Path) -> None:
    with pytest.raises(AiflameError, match="does not exist: name a profile"):
        aiflame.open(tmp_path / "nothing@14:00")
    with pytest.raises(AiflameError, match="is no moment"):
        opened(new_store(tmp_path), "soon")
