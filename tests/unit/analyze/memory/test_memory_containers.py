"""The container that holds the memory of a line that allocates some in each step."""

from __future__ import annotations

from pathlib import Path

import pytest
from called_lines import CODES, F_9, MAIN_3, SYMBOLS
from profiles import Row, sealed

from aiflame.analyze.findings.memory import memory_findings
from aiflame.analyze.memory.containers import containers
from aiflame.analyze.memory.growth import Growth, growth
from aiflame.analyze.tables.memory import memory_tables
from aiflame.attribute.analysis import Analysis
from aiflame.attribute.memory.addresses import blocks_at
from aiflame.profile.schema.enums import AllocationKind

MIB, START, STEP = 1 << 20, 1_000_000_000, 10_000_000
STEPS, ASKED = 40, 12
MAIN, F = 1, 2
"""Stacks: main() at a.py:3, f() at a.py:9."""


def address(stack: int, step: int) -> int:
    return (stack << 40) + step * 4 * MIB


def asked(path: str, addresses: list[int], **more: object) -> Row:
    words = b"".join(one.to_bytes(8, "little") for one in addresses)
    times = {"since_ns": START + (ASKED - 4) * STEP, "time_ns": START + ASKED * STEP}
    named = {"path": path, "file": "/home/me/train.py", "type": "list", "content": "Tensor"}
    return {**times, **named, "items": ASKED, "added": 4, "addresses": words, **more}


def recorded(folder: Path, *held: Row, gpu: bool = False) -> Analysis:
    """In each step main() and f() keep a block of 1 MiB, and f() has one that it frees."""
    allocated, freed, pool = [], [], []
    for step in range(STEPS):
        begin = START + step * STEP
        for at, stack in ((1, MAIN), (2, F), (3, F)):
            place = address(stack, step) if at < 3 else 9 << 40
            allocated.append({"stack": stack, "address": place, "bytes": MIB, "weight": MIB, "time_ns": begin + at, "thread": 1})
            pool.append(
                {"kind": int(AllocationKind.TAKE), "device": "GPU 0", "address": place, "bytes": MIB, "stack": stack, "time_ns": begin + at}
            )
        freed.append({"allocation": len(allocated), "time_ns": begin + 4})
        pool.append({"kind": int(AllocationKind.RELEASE), "device": "GPU 0", "address": 9 << 40, "bytes": MIB, "time_ns": begin + 4})
    memory: dict[str, list[Row]] = {"pool_blocks": pool} if gpu else {"host_allocations": allocated, "host_frees": freed}
    profile = sealed(
        folder / "p.aiflame",
        symbols=SYMBOLS,
        codes=CODES,
        stacks=[{"parent": 0, "frame": MAIN_3}, {"parent": 0, "frame": F_9}],
        processes=[{"pid": 7, "start_ns": START}],
        threads=[{"tid": 7, "start_ns": START}],
        memory_holders=list(held),
        **memory,
    )
    return Analysis(profile)


def by_function(profile: Analysis) -> dict[str, Growth]:
    return {one.function: one for one in growth(profile)}


@pytest.mark.parametrize("gpu", [False, True])
def test_the_container_whose_entries_lie_in_a_lines_blocks_holds_them(tmp_path: Path, gpu: bool) -> None:
    within = [address(F, step) + 64 for step in range(ASKED - 4, ASKED)]
    profile = recorded(
        tmp_path, asked("losses", [address(MAIN, step) for step in (9, 10, 11)]), asked("cache", within, function="fit"), gpu=gpu
    )
    held = {name: (one.holder.text, one.holder.sure) for name, one in by_function(profile).items() if one.holder}
    assert held == {
        "main": ("losses of train.py (list of Tensor, 4 more in 0.04 s)", True),
        "f": ("cache in fit() of train.py (list of Tensor, 4 more in 0.04 s)", True),
    }


def test_addresses_count_at_their_moment(tmp_path: Path) -> None:
    """A block that had the address before or after is another one."""
    profile = recorded(tmp_path)
    lain = blocks_at(
        profile, 0, [address(MAIN, 3), address(F, 3) + MIB - 1, address(F, 3) + MIB, 9 << 40, 5, (1 << 64) - 1], START + 4 * STEP
    )
    assert lain.select("stack", "address").rows() == [(MAIN, address(MAIN, 3)), (F, address(F, 3))]
    assert blocks_at(profile, 0, [address(MAIN, 3)], START + 2 * STEP).is_empty()
    assert blocks_at(profile, 1, [address(MAIN, 3)], START + 4 * STEP).is_empty()
    (inside_a_step,) = blocks_at(profile, 0, [9 << 40], START + 5 * STEP + 3)["stack"]
    assert inside_a_step == F


def test_no_container_is_named_where_none_was_seen(tmp_path: Path) -> None:
    profile = recorded(tmp_path)
    assert [one.holder for one in growth(profile)] == [None, None]
    assert containers(profile) == ()
    assert not any("held by" in one.sentence for one in memory_findings(profile))


def test_a_list_of_tensors_with_graphs_probably_holds_what_no_list_does(tmp_path: Path) -> None:
    profile = recorded(tmp_path, asked("outputs", [1, 2], graphs=1), asked("losses", [address(MAIN, 11)]))
    held = by_function(profile)
    assert held["main"].holder is not None and held["main"].holder.sure
    assert (
        held["f"].holder is not None
        and held["f"].holder.text.startswith("autograd graphs in outputs of train.py")
        and not held["f"].holder.sure
    )


@pytest.mark.parametrize(("paths", "named"), [(["odd"], True), (["odd", "other"], False)])
def test_the_only_container_is_a_guess_where_no_address_is_known(tmp_path: Path, paths: list[str], named: bool) -> None:
    profile = recorded(tmp_path, *(asked(path, []) for path in paths))
    assert [one.holder is not None and not one.holder.sure for one in growth(profile)] == [named] * 2


def test_findings_and_the_table_say_it(tmp_path: Path) -> None:
    profile = recorded(tmp_path, asked("losses", [address(MAIN, 11)]), asked("outputs", [], graphs=1))
    sentences = sorted(one.sentence.rpartition("; ")[2] for one in memory_findings(profile) if one.kind == "memory-grows")
    text = "(list of Tensor, 4 more in 0.04 s)"
    assert sentences == [
        f"it is held by losses of train.py {text}",
        f"it is probably held by autograd graphs in outputs of train.py {text}",
    ]
    (table,) = [one.rows for one in memory_tables(profile) if one.name == "memory_growth"]
    assert sorted(table["holder"]) == [f"autograd graphs in outputs of train.py {text}, probably", f"losses of train.py {text}"]


def test_damaged_rows_name_nothing(tmp_path: Path) -> None:
    odd = asked("", [], content="", type="", file="", since_ns=(1 << 64) - 1, time_ns=(1 << 64) - 1, added=(1 << 32) - 1) | {
        "addresses": b"odd"
    }
    profile = recorded(tmp_path, odd, {})
    assert len(containers(profile)) == 2 and all(one.lines == () for one in containers(profile))
    assert [one.holder for one in growth(profile)] == [None, None]
