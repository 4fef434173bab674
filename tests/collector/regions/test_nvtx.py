"""The profile has a program's NVTX regions: through the vendor's libraries, versions 2 and 3, and through its Python package."""

from __future__ import annotations

import importlib.util
import struct
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest
from live import EVERYTHING, Outcome, Process, library, plain, processes, recorded

from aiflame.profile.schema.control_schema import Feature
from aiflame.profile.schema.enums import PayloadType, RegionApi, RegionKind

CLIENT = Path(__file__).parent / "programs" / "nvtx_client.py"
WITHOUT_MEANING = EVERYTHING & ~Feature.MEANING
NESTED, FREE, MARK = int(RegionKind.NESTED), int(RegionKind.FREE), int(RegionKind.MARK)


def vendors(version: int) -> Path:
    """The vendor's library with NVTX of that version in it."""
    file = {2: "nvidia/nvtx/lib/libnvToolsExt.so.1", 3: "nvidia/cu13/lib/libnvtx3interop.so.1"}[version]
    library_file = next((Path(folder, file) for folder in sys.path if Path(folder, file).exists()), None)
    if library_file is None:
        pytest.skip(f"no {Path(file).name} here: `make test` installs it")
    return library_file


def around() -> dict[str, str]:
    return {"NVTX_INJECTION64_PATH": str(library().with_name("libaiflame_agent.so"))}


@pytest.fixture(params=[2, 3], ids=["v2", "v3"])
def scene(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[..., list[Process]]:
    def run(name: str, status: int = 0, features: int = WITHOUT_MEANING) -> list[Process]:
        outcome = recorded([sys.executable, CLIENT, vendors(request.param), name], tmp_path / "p", features=features, env=around())
        assert outcome == Outcome(status, "", "")
        return processes(tmp_path / "p")

    return run


def regions(process: Process) -> pl.DataFrame:
    """Regions with their ends, in the order in which they began."""
    ends = process.table("region_ends").select(id="region", ender="thread", end_ns="end_ns")
    assert ends["id"].is_unique().all()
    return process.table("regions").join(ends, on="id", how="left", maintain_order="left")


def names(process: Process) -> list[str]:
    return regions(process)["name"].to_list()


def payload(kind: int, bits: int) -> float | None:
    if kind == PayloadType.SIGNED:
        return int(struct.unpack("<q", struct.pack("<Q", bits))[0])
    if kind == PayloadType.FLOAT:
        return float(struct.unpack("<d", struct.pack("<Q", bits))[0])
    return bits if kind == PayloadType.UNSIGNED else None


def test_every_function_of_the_core(scene: Callable[..., list[Process]]) -> None:
    (process,) = scene("everything")
    marked = regions(process)
    assert (marked["api"] == int(RegionApi.NVTX)).all() and (marked["domain"] == "").all()
    assert marked.select("name", "kind").rows()[:8] == [
        ("outer", NESTED),
        ("wïde 🔥", NESTED),
        ("moment", MARK),
        ("wïde moment", MARK),
        ("ex moment", MARK),
        ("free", FREE),
        ("free wïde", FREE),
        ("free ex", FREE),
    ]
    assert marked.filter(pl.col("kind") == MARK)["end_ns"].is_null().all()
    assert (marked.filter(pl.col("kind") != MARK)["end_ns"] >= marked.filter(pl.col("kind") != MARK)["begin_ns"]).all()
    outer, inner = marked.row(0, named=True), marked.row(1, named=True)
    assert outer["begin_ns"] <= inner["begin_ns"] <= inner["end_ns"] <= outer["end_ns"]
    categories = marked.filter(pl.col("name").str.starts_with("category"))
    assert categories.select("category", "color").rows() == [("seven", 0xFF112233), ("ächt", 0xFF112233), ("9", 0xFF112233)]
    payloads = {row["name"]: payload(row["payload_type"], row["payload"]) for row in marked.iter_rows(named=True)}
    assert payloads["outer"] is None and payloads["ex moment"] == 2**64 - 1
    assert {name.partition(" ")[2]: value for name, value in payloads.items() if name.startswith("payload")} == {
        "u64": 2**63,
        "i64": -5,
        "f64": 0.5,
        "u32": 2**32 - 1,
        "i32": -7,
        "f32": 0.25,
    }


def test_domains_have_their_own_nests_categories_and_strings(scene: Callable[..., list[Process]]) -> None:
    (process,) = scene("domains")
    marked = regions(process)
    assert marked.select("domain", "name", "category", "kind").rows() == [
        ("", "default", "", NESTED),
        ("A", "registered", "of A", NESTED),
        ("Bä", "registered wïde", "of B", NESTED),
        ("Bä", "moment", "", MARK),
        ("Bä", "free", "", FREE),
        ("", "default by another way", "", NESTED),
    ]
    ended = marked.drop_nulls("end_ns").sort("end_ns")["name"].to_list()
    assert ended == ["registered", "default", "default by another way", "registered wïde", "free"]


def test_unbalanced_ranges_do_not_affect_others(scene: Callable[..., list[Process]]) -> None:
    (process,) = scene("unbalanced")
    marked = regions(process)
    assert marked.filter(pl.col("end_ns").is_not_null())["name"].to_list() == ["inside"]
    assert marked["name"].to_list() == ["popped", "left open", "inside", "of a thread"]
    notes = process.table("notes")["text"].to_list()
    assert notes == ["NVTX: a range was popped where none was open: such pops are passed over"]


def test_any_text_is_a_name(scene: Callable[..., list[Process]]) -> None:
    (process,) = scene("hostile")
    texts = names(process)
    assert texts[0] == "new\nline" and texts[1] == "" and texts[2] == "x" * 10_000
    assert "broken" in texts[3] and texts[4] == 'nul in json \\ " \x01'
    assert texts[5:7] == ["y" * 10_000, "\N{REPLACEMENT CHARACTER} alone"]
    assert texts[7:] == [""] * 4
    assert regions(process)["end_ns"].null_count() == 0


def test_threads_do_not_disturb_each_other(scene: Callable[..., list[Process]]) -> None:
    (process,) = scene("threads")
    marked = regions(process)
    assert len(marked) == 16_000 and marked["end_ns"].null_count() == 0
    assert (marked["ender"] == marked["thread"]).all()
    assert sorted(marked.filter(pl.col("name").str.starts_with("outer")).group_by("thread", "name").len()["len"].to_list()) == [1000] * 8
    assert Counter(marked.filter(pl.col("name").str.starts_with("inner"))["name"]) == {f"inner {digit}": 800 for digit in range(10)}
    for _, of_one in marked.sort("begin_ns", "id").group_by("thread"):
        outer, inner = of_one[::2], of_one[1::2]
        assert (inner["begin_ns"] >= outer["begin_ns"]).all() and (inner["end_ns"] <= outer["end_ns"]).all()


def test_a_range_may_end_on_another_thread(scene: Callable[..., list[Process]]) -> None:
    (process,) = scene("across_threads")
    (range_,) = regions(process).iter_rows(named=True)
    assert range_["ender"] not in (None, range_["thread"])


def test_a_forked_child_has_its_own_regions_and_ends_none_of_its_parents(scene: Callable[..., list[Process]]) -> None:
    parent, child = scene("fork")
    assert regions(parent).filter(pl.col("end_ns").is_not_null())["name"].to_list() == ["of the parent", "free, of the parent"]
    assert regions(child).filter(pl.col("end_ns").is_not_null())["name"].to_list() == names(child) == ["of the child"]
    assert len(child.table("region_ends")) == 1
    assert child.table("notes").is_empty()


def test_a_new_program_in_the_same_process_marks_again(scene: Callable[..., list[Process]]) -> None:
    before, afterwards = scene("execute")
    assert (names(before), names(afterwards)) == (["before exec"], ["after exec"])
    assert before.table("region_ends").is_empty()


def test_regions_begun_before_a_kill_are_kept(scene: Callable[..., list[Process]]) -> None:
    (process,) = scene("killed", status=-9)
    marked = regions(process)
    assert marked["name"].to_list() == [*(f"done {number}" for number in range(100)), "under way"]
    assert marked["end_ns"].null_count() == 1


def test_a_quarter_of_a_million_ranges(scene: Callable[..., list[Process]]) -> None:
    (process,) = scene("many")
    assert len(process.table("regions")) == len(process.table("region_ends")) == 250_000
    assert process.table("regions")["name"].unique().to_list() == ["again"]


def test_of_very_many_open_ranges_the_innermost_are_ended(scene: Callable[..., list[Process]]) -> None:
    (process,) = scene("deep")
    marked = regions(process)
    assert len(marked) == 50_000
    ended = marked.filter(pl.col("end_ns").is_not_null())["id"]
    assert len(ended) >= 10_000
    assert ended.to_list() == marked["id"].tail(len(ended)).to_list()


@pytest.mark.parametrize("scene_name", ["everything", "hostile"])
def test_without_the_feature_no_region_is_recorded(scene: Callable[..., list[Process]], scene_name: str) -> None:
    (process,) = scene(scene_name, features=WITHOUT_MEANING & ~Feature.NVTX)
    assert process.table("regions").is_empty()


def test_without_a_collector_the_agent_leaves_the_program_alone(tmp_path: Path) -> None:
    assert plain([sys.executable, CLIENT, vendors(3), "everything"], tmp_path, env=around()) == Outcome(0, "", "")


def test_the_python_package(tmp_path: Path) -> None:
    if importlib.util.find_spec("nvtx") is None:
        pytest.skip("no nvtx here: `make test` installs it")
    program = """
import nvtx
@nvtx.annotate("decorated", color="red", domain="D", category="C")
def function():
    with nvtx.annotate("inside", payload=3):
        nvtx.mark("moment", payload=2.5)
function()
free = nvtx.start_range("free", domain="D")
nvtx.end_range(free)
"""
    assert recorded([sys.executable, "-c", program], tmp_path / "p", features=WITHOUT_MEANING, env=around()) == Outcome(0, "", "")
    (process,) = processes(tmp_path / "p")
    payloads = regions(process).select("domain", "name", "category", "kind", pl.struct("payload_type", "payload")).rows()
    assert [(*row[:4], payload(row[4]["payload_type"], row[4]["payload"])) for row in payloads] == [
        ("D", "decorated", "C", NESTED, None),
        ("", "inside", "", NESTED, 3),
        ("", "moment", "", MARK, 2.5),
        ("D", "free", "", FREE, None),
    ]
