"""Profiles that earlier versions sealed open, with the values that they had; recordings that they did not seal are refused.

`golden/version-0.1.tar.gz` was written and sealed by aiflame 0.1.0 of 2026-11-21, from the rows of `spool_files.busy_process()`:
70 samples of 5 ms in two processes, and in each a kernel of 4 ns.
"""

from __future__ import annotations

import struct
import tarfile
from pathlib import Path

import pytest
from profiles import as_sealed_before, sealed
from sampled_kernels import GEMM
from sampled_kernels import profile as sampled
from spool_files import busy_process, ended_profile

import aiflame
from aiflame.api import Profile
from aiflame.attribute.analysis import Analysis
from aiflame.attribute.memory.blocks import blocks, rest_of_pools
from aiflame.attribute.trees.build import tree
from aiflame.errors import AiflameError
from aiflame.profile.folder.meta import Meta
from aiflame.profile.schema.all_tables import SPOOL_HEADER, TABLES
from aiflame.profile.schema.records import layout
from aiflame.profile.spool.check_words import check_word
from aiflame.render.report import document
from aiflame.resolve.complete import complete

GOLDEN = Path(__file__).parents[1] / "golden" / "version-0.1.tar.gz"


@pytest.fixture
def profile(tmp_path: Path) -> Profile:
    with tarfile.open(GOLDEN) as archive:
        archive.extractall(tmp_path, filter="data")
    return aiflame.open(tmp_path / "sealed.aiflame")


@pytest.mark.parametrize(("metric", "total"), [("cpu-time", 70 * 5_000_000), ("gpu-time", 2 * 4)])
@pytest.mark.parametrize("by", ["code", "layer", "step", "region"])
def test_trees_have_the_values_of_a_profile_of_version_0_1(profile: Profile, metric: str, total: int, by: str) -> None:
    values = profile.tree(metric, by=by)
    assert values.totals(metric)[0] == total
    assert ("gemm" in values.frames["name"]) == (metric == "gpu-time")


def test_samples_and_notes_of_version_0_1_are_read(profile: Profile) -> None:
    assert profile.sql("SELECT count(*), sum(period_ns) FROM cpu_samples").row(0) == (70, 70 * 5_000_000)
    assert profile.table("notes")["text"].to_list() == ["something was not possible"] * 2


def test_a_report_of_version_0_1_is_written(profile: Profile, tmp_path: Path) -> None:
    document.write(profile.store, tmp_path / "report.html")
    assert (tmp_path / "report.html").stat().st_size > 100_000


def recorded_by_0_1(path: Path, samples: int = 3, meta: Meta | None = None) -> Path:
    """A recording that is not sealed, whose `cpu_samples` have the 32 bytes that version 0.1 gave them."""
    ended_profile(path, files := busy_process(samples=0), meta=meta or Meta(version="0.1.0", command=("program",), complete=True))
    records = b""
    for number in range(samples):
        record = struct.pack("<IIIIQIBBH", 0, 1, 1, 1, 1_000 + number, 5_000_000, 0, 0, 0)
        records += struct.pack("<I", check_word(record)) + record[4:]
    number = next(number for number, table in enumerate(TABLES) if table.name == "cpu_samples")
    files.write_file(path / f"spool/{files.pid}.{files.start_ns}/cpu_samples.table", number, 32, records)
    return path


@pytest.mark.parametrize(("version", "named"), [("0.1.0", "aiflame 0.1.0"), ("", "another version of aiflame")])
def test_a_recording_of_version_0_1_is_refused_and_stays_whole(tmp_path: Path, version: str, named: str) -> None:
    path = recorded_by_0_1(tmp_path / "a.aiflame", meta=Meta(version=version, command=("program",), complete=True))
    table = path / "spool/100.1000/cpu_samples.table"
    before = table.read_bytes()
    for _ in range(2):
        with pytest.raises(AiflameError) as error:
            aiflame.open(path)
        assert f"was recorded by {named}, which lays records of cpu_samples out in another way" in str(error.value)
        assert "open it once with that version, which seals it" in str(error.value)
        assert "\n" not in str(error.value)
    assert table.read_bytes() == before
    assert not (path / "tables").exists()


def test_a_header_that_states_another_size_is_damage_alone(tmp_path: Path) -> None:
    path = ended_profile(tmp_path / "a.aiflame", busy_process(samples=20))
    table = path / "spool/100.1000/cpu_samples.table"
    content = table.read_bytes()
    place = next(offset for column, offset in layout(SPOOL_HEADER)[0] if column.name == "record_bytes")
    table.write_bytes(content[:place] + struct.pack("<I", 32) + content[place + 4 :])
    assert len(aiflame.open(path).table("cpu_samples")) == 20


def test_columns_that_came_later_are_empty(profile: Profile) -> None:
    assert profile.sql("SELECT count(*), sum(autograd + sequence + variant) FROM launches").row(0) == (2, 0)


def test_stalls_and_refusals_of_profiles_without_todays_columns_are_read(tmp_path: Path) -> None:
    today = sampled(tmp_path / "p.aiflame", GEMM)
    complete(today)
    stalls = tree(Analysis(today), "gpu-stalls").total("gpu-stalls")
    refused = sealed(tmp_path / "q.aiflame", memory_refusals=[{"bytes": 4096, "held": 8192}])
    assert stalls > 0
    assert tree(Analysis(as_sealed_before(today, gpu_windows=("launched_by",))), "gpu-stalls").total("gpu-stalls") == stalls
    refused = as_sealed_before(refused, memory_refusals=("used", "held"))
    assert refused.table("memory_refusals").select("bytes", "used", "held").rows() == [(4096, 0, 0)]
    none = blocks(Analysis(refused))
    assert rest_of_pools(Analysis(refused), none, none).is_empty()
