"""Rows for spreadsheets, and the tables as Parquet files."""

from __future__ import annotations

import csv
import io
import json
import re
from pathlib import Path

import polars as pl
import pytest
from calling import run_aiflame
from exported_profiles import listed, training

from aiflame.exchange.writers import csv as writer
from aiflame.profile.tables.store import Profile

FORMULAS = ("=cmd|' /C calc'!A0", "+1+2", "-2+3", "@SUM(A1)", "\t=1", "\r=1", "\n=1", " =1", "\ufeff=1", "\uff1d1")
PLAIN = ("gemm", "a=b", "void f<-1>()", 'naïve, "quoted" name', "")


@pytest.fixture(scope="module")
def profile(tmp_path_factory: pytest.TempPathFactory) -> Profile:
    return training(tmp_path_factory.mktemp("csv"))


def rows(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text, newline="")))


def test_no_cell_is_a_formula() -> None:
    file = io.StringIO(newline="")
    writer.write(pl.DataFrame({"name": [*FORMULAS, *PLAIN], "value": [-1.5] * (len(FORMULAS) + len(PLAIN))}), file)
    read = rows(file.getvalue())
    assert [row["name"] for row in read] == [*("'" + re.sub(r"[\t\r\n]", " ", name) for name in FORMULAS), *PLAIN]
    assert {row["value"] for row in read} == {"-1.5"}, "a number is no text"


@pytest.mark.parametrize("by", ["kernel", "layer", "function"])
def test_the_rows_are_those_of_top(profile: Profile, by: str) -> None:
    said = run_aiflame("export", str(profile.path), "--to", "csv", "--by", by, "--raw")
    assert said.status == 0
    read = rows(said.out)
    assert {row["name"]: (int(row["self"]), int(row["total"])) for row in read} == {
        name: values[:2] for name, values in listed(profile, "gpu-time", by).items()
    }
    assert {(row["metric"], row["unit"]) for row in read} == {("gpu-time", "ns")}


def test_a_program_may_make_its_kernels_names_formulas(tmp_path: Path) -> None:
    profile_of_formulas = training(tmp_path, name="=cmd|' /C calc'!A0")
    names = {row["name"] for row in rows(run_aiflame("export", str(profile_of_formulas.path), "--to", "csv").out)}
    assert any(name.startswith("'=cmd") for name in names) and not any(name.startswith("=") for name in names)


def test_each_table_is_a_file(profile: Profile, tmp_path: Path) -> None:
    folder = tmp_path / "tables"
    said = run_aiflame("export", str(profile.path), "--to", "parquet", "-o", str(folder), "--json")
    assert said.status == 0, said.err
    tables = json.loads(said.out)["tables"]
    assert {file.stem for file in folder.iterdir()} == set(tables) == set(profile.names())
    for name, count in tables.items():
        frame = pl.read_parquet(folder / f"{name}.parquet")
        assert len(frame) == count and frame.equals(profile.table(name))
    assert folder.stat().st_mode & 0o777 == 0o700


def test_a_folder_with_something_in_it_stays(profile: Profile, tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("text")
    said = run_aiflame("export", str(profile.path), "--to", "parquet", "-o", str(tmp_path))
    assert said.status == 1 and "is there already" in said.err
    assert [file.name for file in tmp_path.iterdir()] == ["mine"]


def test_a_folder_needs_a_name(profile: Profile) -> None:
    said = run_aiflame("export", str(profile.path), "--to", "parquet")
    assert said.status == 2 and "name a new one with -o" in said.err
