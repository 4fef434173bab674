"""Host memory is sampled without bias and ends where it is freed, whatever allocator the program has; the program stays as it is."""

from __future__ import annotations

import sys
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest
from elftools.elf.elffile import ELFFile
from elftools.elf.sections import SymbolTableSection
from live import Process, library, plain, processes, recorded

from aiflame.profile.schema.control_schema import Feature
from aiflame.profile.schema.enums import FrameKind, HostMemoryKind
from built import built

FEATURES = Feature.PYTHON | Feature.CHILDREN | Feature.HOST_MEMORY
EACH = 1
"""So many bytes for a sample take every allocation of more than some tens."""
MEGA = 1 << 20
ALLOCATORS = ("libjemalloc.so.2", "libtcmalloc_minimal.so.4", "libmimalloc.so.2")

Scene = Callable[..., list[Process]]


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    """Records a program, whose outcome must be the same alone, and gives its processes."""

    def run(*command: str | Path, every: int = EACH, behind: str = "") -> list[Process]:
        preload = ":".join(filter(None, [str(library().with_name("libaiflame_memory.so")), behind]))
        alone = plain(command, tmp_path, {"LD_PRELOAD": behind} if behind else None)
        profile = tmp_path / "p"
        outcome = recorded(command, profile, cpu_rate=0, features=FEATURES, host_memory_every=every, env={"LD_PRELOAD": preload})
        assert outcome == alone
        return processes(profile)

    return run


def blocks(process: Process) -> pl.DataFrame:
    """Allocations, each with the thread and time of its end."""
    frees = process.table("host_frees").select("allocation", freed_by="thread", freed_ns="time_ns")
    assert frees["allocation"].is_unique().all()
    joined = process.table("host_allocations").join(frees, left_on="id", right_on="allocation", how="left")
    assert joined["freed_ns"].count() == len(frees), "every end has its beginning"
    assert (joined["freed_ns"] >= joined["time_ns"]).all()
    return joined


def of_mappings(process: Process) -> pl.DataFrame:
    """Those of a megabyte and more, and their parts."""
    mapped = pl.col("kind").is_in([int(HostMemoryKind.MAP), int(HostMemoryKind.REST)])
    return blocks(process).filter(mapped & (pl.col("bytes") >= MEGA)).sort("id")


def of_size(process: Process, *sizes: int) -> pl.DataFrame:
    return blocks(process).filter(pl.col("bytes").is_in(sizes))


def callers(process: Process, program: Path) -> dict[int, str]:
    """Stack → the program's innermost function in it."""
    with program.open("rb") as file:
        tables = (section for section in ELFFile(file).iter_sections() if isinstance(section, SymbolTableSection))
        symbols = sorted((symbol["st_value"], symbol.name) for table in tables for symbol in table.iter_symbols())
    starts = [start for start, _ in symbols]
    modules = dict(process.table("modules").select("id", "path").iter_rows())
    nodes = {row: (parent, frame) for row, parent, frame in process.table("stacks").select("id", "parent", "frame").iter_rows()}

    def name(stack: int) -> str:
        while stack:
            stack, frame = nodes[stack]
            if frame >> 60 == FrameKind.NATIVE and Path(modules[frame >> 40 & 0xFFFFF]) == program:
                return symbols[bisect_right(starts, frame & 0x7F_FFFF_FFFF) - 1][1]
        return ""

    return {stack: name(stack) for stack in nodes}


def test_sums_are_right_for_every_way_to_allocate(scene: Scene, tmp_path: Path) -> None:
    program = built("programs/memory_sums").resolve()
    truth = {name: (int(allocated), int(kept)) for name, allocated, kept in map(str.split, plain([program], tmp_path).stdout.splitlines())}
    (process,) = scene(program, every=8192)
    names = callers(process, program)
    rows = blocks(process).with_columns(pl.col("stack").replace_strict(names, default="").alias("caller"))
    for caller, (allocated, kept) in truth.items():
        here = rows.filter(pl.col("caller").str.contains(f"{caller}Ev", literal=True))
        assert here["weight"].sum() == pytest.approx(allocated, rel=0.05), caller
        living = here.filter(pl.col("freed_ns").is_null())
        # Of the kept quarter five standard errors are more.
        assert living["weight"].sum() == pytest.approx(kept, rel=0.08), caller
    assert set(rows.filter(pl.col("caller").str.contains("by_mmap"))["kind"]) == {HostMemoryKind.MAP}


def test_a_weight_makes_up_for_the_allocations_that_were_not_sampled(scene: Scene) -> None:
    (process,) = scene(built("programs/memory_scenes"), "threads", every=1001)
    rows = of_size(process, 1001)
    assert set(rows["weight"]) == {round(1001 / (1 - 2.718281828459045**-1))}
    assert len(rows) == pytest.approx(3200 * (1 - 2.718281828459045**-1), abs=5 * (3200 * 0.632 * 0.368) ** 0.5)


def test_a_block_ends_in_the_thread_that_frees_it(scene: Scene) -> None:
    (process,) = scene(built("programs/memory_scenes"), "threads")
    rows = of_size(process, 1001)
    assert sorted(Counter(rows["thread"]).values()) == [200] * 16
    assert (rows["weight"] == 1001).all()
    freed = rows.filter(pl.col("freed_ns").is_not_null())
    assert len(freed) == 16 * 196 and (freed["thread"] != freed["freed_by"]).all()


def test_a_child_has_a_table_of_its_own(scene: Scene) -> None:
    parent, child = scene(built("programs/memory_scenes"), "forks")
    assert len(of_size(parent, 1003)) == 100 and of_size(parent, 1003)["freed_ns"].null_count() == 0
    assert of_size(child, 1003).is_empty() and of_size(parent, 1005).is_empty()
    assert len(of_size(child, 1005)) == 50 and of_size(child, 1005)["freed_ns"].null_count() == 49


def test_a_reallocation_ends_a_block_and_begins_another(scene: Scene) -> None:
    (process,) = scene(built("programs/memory_scenes"), "reallocs")
    rows = of_size(process, *range(1007, 11_000, 1000)).sort("id")
    assert rows["bytes"].to_list() == list(range(1007, 11_000, 1000))
    # One that fails leaves the block as it is.
    assert rows["freed_ns"].is_null().to_list() == [False] * 9 + [True]


def test_an_allocation_that_failed_has_a_row_with_its_stack(scene: Scene) -> None:
    (process,) = scene(built("programs/memory_scenes"), "refused")
    rows = process.table("memory_refusals").sort("id")
    much = (1 << 62) - 1
    assert rows["bytes"].to_list()[:6] == [much, 2 * (much // 2 - 4096), *(much - pages * 4096 for pages in (4, 6, 8, 12))]
    assert set(rows["bytes"][6:]) == {much} and len(rows) == 1000
    assert set(rows["memory"]) == {"host"} and set(rows["thread"]) == {1}
    names = callers(process, built("programs/memory_scenes").resolve())
    assert all("refused" in names[stack] for stack in rows["stack"])
    assert "host memory: the first 1,000 failed allocations are recorded" in process.table("notes")["text"].to_list()


def test_of_mappings_the_rest_stays(scene: Scene) -> None:
    (process,) = scene(built("programs/memory_scenes"), "mappings")
    rows = of_mappings(process)
    assert rows["weight"].to_list() == rows["bytes"].to_list()
    living = rows.filter(pl.col("freed_ns").is_null())
    assert sorted(size // MEGA for size in living["bytes"]) == [5, 5, 6]
    whole = rows.row(0, named=True)
    assert whole["bytes"] == 16 * MEGA
    assert {whole["address"] + MEGA, whole["address"] + 10 * MEGA} < set(living["address"])


def test_pieces_of_a_mapping_are_no_more_than_the_whole(scene: Scene) -> None:
    (process,) = scene(built("programs/memory_scenes"), "pieces")
    rows = of_mappings(process)
    anew = rows.filter(pl.col("kind") == HostMemoryKind.MAP)
    assert [size // MEGA for size in anew["bytes"]] == [64, 8, 32]
    assert rows["freed_ns"].null_count() == 0
    born = rows.select(at="time_ns", change=pl.col("bytes").cast(pl.Int64))
    died = rows.select(at="freed_ns", change=-pl.col("bytes").cast(pl.Int64))
    live = pl.concat([born, died]).group_by("at").agg(pl.col("change").sum()).sort("at")["change"].cum_sum()
    assert (live.max(), live.min()) == (64 * MEGA, 0)


def test_every_moment_is_fit_to_allocate_in(scene: Scene) -> None:
    (process,) = scene(built("programs/memory_scenes"), "moments")
    counted = Counter(blocks(process)["bytes"])
    assert (counted[1009], counted[1011], counted[1013], counted[1015]) == (100, 10, 10, 10)
    assert of_size(process, 1009, 1011, 1013, 1015)["freed_ns"].null_count() == 0


@pytest.mark.parametrize("way", ["vforks", "forks_among_threads"])
def test_children_of_every_kind_leave_their_parent_alone(scene: Scene, way: str) -> None:
    parent, *children = scene(built("programs/memory_scenes"), way)
    assert of_size(parent, 1021, 1027).is_empty()
    rows = {len(of_size(child, 1027)) for child in children}
    assert rows == ({100} if way == "forks_among_threads" else {0})


def test_a_program_with_its_own_malloc_says_so(scene: Scene) -> None:
    (process,) = scene(built("programs/memory_own_malloc"))
    assert of_size(process, 1000).is_empty()
    assert any("malloc() of its own" in note for note in process.table("notes")["text"])


@pytest.mark.parametrize("allocator", ALLOCATORS)
@pytest.mark.parametrize("way", ["threads", "forks", "reallocs", "moments", "forks_among_threads"])
def test_another_allocator_is_seen_like_libc_s(scene: Scene, allocator: str, way: str) -> None:
    path = Path("/usr/lib/x86_64-linux-gnu") / allocator
    if not path.exists():
        pytest.skip(f"no {allocator} here")
    process, *_ = scene(built("programs/memory_scenes"), way, behind=str(path))
    if way == "threads":
        assert len(of_size(process, 1001)) == 3200
    if way == "reallocs":
        assert len(of_size(process, *range(1007, 11_000, 1000))) == 10
    assert any("new comes from an allocator" in note for note in process.table("notes")["text"])


def test_a_python_program_s_arrays_have_its_stack(scene: Scene, tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        "import numpy\ndef inner():\n    return numpy.ones(12_345_678, numpy.int8)\ndef outer():\n    return inner()\nouter()\n"
    )
    (process,) = scene(sys.executable, program, every=512 << 10)
    array = of_size(process, 12_345_678).row(0, named=True)
    codes = dict(process.table("codes").select("id", "qualname").iter_rows())
    nodes = {row: (parent, frame) for row, parent, frame in process.table("stacks").select("id", "parent", "frame").iter_rows()}
    names, stack = [], array["stack"]
    while stack:
        stack, frame = nodes[stack]
        if frame >> 60 == FrameKind.PYTHON:
            names.append(codes[frame >> 32 & 0xFFFFFFF])
    assert [name for name in names if name in ("inner", "outer")] == ["inner", "outer"]
    assert array["freed_ns"] is not None


@pytest.mark.parametrize("way", ["threads", "forks", "reallocs", "mappings", "pieces", "moments"])
def test_without_the_collector_it_only_forwards(way: str, tmp_path: Path) -> None:
    """As in a child whose environment kept only a part of LD_PRELOAD."""
    command = (built("programs/memory_scenes"), way)
    memory = str(library().with_name("libaiflame_memory.so"))
    assert plain(command, tmp_path, {"LD_PRELOAD": memory}) == plain(command, tmp_path)


def test_without_the_feature_nothing_is_recorded(tmp_path: Path) -> None:
    memory = str(library().with_name("libaiflame_memory.so"))
    command = [str(built("programs/memory_scenes")), "threads"]
    outcome = recorded(command, tmp_path / "p", features=FEATURES & ~Feature.HOST_MEMORY, host_memory_every=1, env={"LD_PRELOAD": memory})
    assert outcome.status == 0
    assert [process.table("host_allocations").height for process in processes(tmp_path / "p")] == [0]


def test_without_the_library_a_note_says_so(tmp_path: Path) -> None:
    outcome = recorded([str(built("programs/memory_scenes")), "threads"], tmp_path / "p", features=FEATURES, host_memory_every=1)
    assert outcome.status == 0
    (process,) = processes(tmp_path / "p")
    assert [note for note in process.table("notes")["text"] if "needs aiflame record --host-memory" in note]
