"""Blocks of a report: the page reads from a block the values that were written into it."""

from __future__ import annotations

import gzip
import json
import shutil
import struct
import subprocess
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiflame.attribute.arrays.types import Ints
from aiflame.render import blocks
from aiflame.render.blocks import block

WEB = Path(blocks.__file__).parent / "web"
NODE = shutil.which("node")
HEAD = {"notes": ["</script>", "\u2028"], "bins": {"count": 3}}
MOST = (1 << 53) - 1
HOSTILE = ["", "</script><script>alert(1)</script>", "x" * 100_000, "\u202eevil", "a\x00b", "naïve 日本 🔥", "\ud7ff\ue000", "line\nbreak"]


def opened(packed: bytes) -> tuple[dict[str, Any], dict[str, list[Any]]]:
    """Head and columns, read as the format's description says and in no other way."""
    raw = gzip.decompress(packed)
    (size,) = struct.unpack_from("<I", raw)
    head = json.loads(raw[4 : 4 + size])
    columns: dict[str, list[Any]] = {}
    at = 4 + size
    for name, kind, count, planes, wide in head["columns"]:
        length = planes if kind == "text" else count * planes
        part = raw[at : at + length]
        at += length
        if kind == "text":
            ends = np.cumsum([0, *columns[f"{name}.length"]]).tolist()
            columns[name] = [part[begin:end].decode() for begin, end in pairwise(ends)]
            continue
        values = [sum(part[plane * count + row] << (8 * plane) for plane in range(planes)) for row in range(count)]
        if kind == "delta":
            steps = [value // 2 if value % 2 == 0 else -(value + 1) // 2 for value in values]
            values = np.cumsum(np.array(steps, dtype=object)).tolist() if steps else []
        assert wide == any(value >= 1 << 31 for value in values)
        columns[name] = values
    assert at == len(raw)
    return head, columns


numbers = st.lists(st.integers(0, 300) | st.integers(0, (1 << 33)) | st.integers(MOST - 5, MOST), max_size=30)


@given(plain=numbers, delta=numbers, texts=st.lists(st.sampled_from(HOSTILE[3:]) | st.text(max_size=9), max_size=9))
def test_written_values_are_read_back(plain: list[int], delta: list[int], texts: list[str]) -> None:
    columns: dict[str, Ints | pl.Series] = {
        "plain": np.array(plain, dtype=np.int64),
        "text": pl.Series(texts, dtype=pl.String),
        "delta": np.array(delta, dtype=np.int64),
    }
    head, read_columns = opened(block(HEAD, columns, frozenset({"delta"})))
    assert (head["notes"], head["bins"]) == (HEAD["notes"], HEAD["bins"])
    assert (read_columns["plain"], read_columns["delta"]) == (plain, delta)
    assert len(read_columns["text"]) == len(texts)


def test_a_column_takes_no_more_planes_than_its_numbers_need() -> None:
    columns = {"small": np.array([0, 255]), "larger": np.array([256]), "falling": np.array([1000, 999, 998])}
    head, _ = opened(block({}, columns, frozenset({"falling"})))
    assert [row[:4] for row in head["columns"]] == [["small", "plain", 2, 1], ["larger", "plain", 1, 2], ["falling", "delta", 3, 2]]


def test_numbers_beyond_the_limits_are_clamped() -> None:
    _, read_columns = opened(block({}, {"n": np.array([-5, 1 << 60])}))
    assert read_columns["n"] == [0, MOST]


def test_columns_without_rows() -> None:
    _, read_columns = opened(
        block({}, {"n": np.zeros(0, dtype=np.int64), "d": np.zeros(0, dtype=np.int64), "t": pl.Series([], dtype=pl.String)})
    )
    assert read_columns == {"n": [], "d": [], "t.length": [], "t": []}


def test_texts_have_nothing_in_them_that_turns_a_line_around_or_ends_it() -> None:
    _, read_columns = opened(block({}, {"t": pl.Series(HOSTILE)}))
    assert read_columns["t"][:3] == HOSTILE[:3]
    assert read_columns["t"][3:5] == ["\ufffdevil", "a\ufffdb"]
    assert read_columns["t"][5] == HOSTILE[5]


def test_the_same_columns_are_the_same_bytes() -> None:
    columns: dict[str, Ints | pl.Series] = {"n": np.arange(10), "t": pl.Series(["a", "b"])}
    assert block(HEAD, columns) == block(HEAD, columns)


def read_by_the_page(packed: bytes, path: Path) -> dict[str, Any]:
    (path / "block").write_bytes(packed)
    # A folder of its own says that these are modules.
    shutil.copy(WEB / "blocks.js", path / "blocks.mjs")
    script = """
        import { readFileSync } from "node:fs";
        import { readBlock, fromBase64 } from "./blocks.mjs";
        const bytes = readFileSync("block");
        const { head, columns } = await readBlock(fromBase64(bytes.toString("base64")));
        const plain = Object.fromEntries(Object.entries(columns).map(([name, values]) => [name, Array.from(values)]));
        const types = Object.fromEntries(Object.entries(columns).map(([name, values]) => [name, values.constructor.name]));
        console.log(JSON.stringify({ head, columns: plain, types }));
    """
    (path / "read.mjs").write_text(script)
    process = subprocess.run([str(NODE), "read.mjs"], cwd=path, capture_output=True, text=True, check=True, timeout=120)
    answer: dict[str, Any] = json.loads(process.stdout)
    return answer


@pytest.mark.skipif(NODE is None, reason="node is not installed")
def test_the_page_reads_the_same(tmp_path: Path) -> None:
    chance = np.random.default_rng(3)
    columns: dict[str, Any] = {
        "byte": chance.integers(0, 256, 50),
        "three": chance.integers(0, 1 << 24, 50),
        "four": chance.integers(0, 1 << 31, 50),
        "wide": chance.integers(0, 1 << 53, 50),
        "edge": np.array([(1 << 31) - 1, 0]),
        "over": np.array([1 << 31, 0]),
        "walk": np.cumsum(chance.integers(0, 9, 50)),
        "leaps": chance.integers(0, 1 << 31, 50),
        "far": chance.integers(0, 1 << 53, 50),
        "text": pl.Series(HOSTILE),
        "none": np.zeros(0, dtype=np.int64),
        "no_text": pl.Series([], dtype=pl.String),
    }
    packed = block(HEAD, columns, frozenset({"walk", "leaps", "far"}))
    head, expected = opened(packed)
    page = read_by_the_page(packed, tmp_path)
    assert page["columns"] == expected
    assert page["head"] == head
    assert {name for name, kind in page["types"].items() if kind == "Float64Array"} == {"wide", "over", "far"}


@pytest.mark.skipif(NODE is None, reason="node is not installed")
def test_differences_that_no_double_holds_are_not_stored(tmp_path: Path) -> None:
    values = [MOST, 0, MOST - 4, 7]
    page = read_by_the_page(block({}, {"n": np.array(values)}, frozenset({"n"})), tmp_path)
    assert page["columns"]["n"] == values
