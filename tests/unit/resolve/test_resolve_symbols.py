"""The derived tables: Python frames, frames of our own, and rules that hold for every row."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest
from profiles import native, python, sealed, stack

from aiflame.profile.folder.meta import Clocks, Meta
from aiflame.profile.schema.enums import FrameKind
from aiflame.profile.schema.kinds import Kind
from aiflame.resolve.symbols import SYMBOLS, resolve

MARK, KERNEL = FrameKind.MARK << 60, FrameKind.KERNEL << 60


def code_row(code: Any) -> dict[str, Any]:
    import sys

    return {
        "first_line": code.co_firstlineno,
        "filename": code.co_filename,
        "qualname": getattr(code, "co_qualname", code.co_name),
        "linetable": code.co_linetable,
        "python": sys.hexversion >> 16,
    }


def test_a_python_frame_has_its_qualified_name_file_and_line(tmp_path: Path) -> None:
    source = "class A:\n    def work(self):\n        x = 1\n        return x + 2\n"
    module = compile(source, "/srv/train.py", "exec")
    (body,) = (const for const in module.co_consts if hasattr(const, "co_code"))
    (work,) = (const for const in body.co_consts if hasattr(const, "co_code"))
    offsets = {line: start for start, _, line in work.co_lines()}
    words = {line: python(1, offsets[line]) for line in (3, 4)}
    profile = sealed(tmp_path / "p.aiflame", codes=[code_row(work)], stacks=stack(*words.values(), python(1, -1)))
    resolve(profile)
    shown = {row["frame"]: row for row in profile.table("symbols").to_dicts()}
    for line, word in words.items():
        row = shown[word]
        assert (row["file"], row["line"], row["kind"], row["module"]) == ("/srv/train.py", line, Kind.PYTHON, "")
        assert row["name"] == getattr(work, "co_qualname", work.co_name)
    assert shown[python(1, -1)]["line"] == 2, "before its first instruction a function is at its own line"


@pytest.mark.parametrize(
    ("name", "file"), [("<module>", "train.py"), ("_find_and_load", "<frozen importlib._bootstrap>"), ("<lambda>", "<string>")]
)
def test_names_and_files_of_python_are_kept_as_they_are(tmp_path: Path, name: str, file: str) -> None:
    codes = [{"first_line": 7, "filename": file, "qualname": name, "python": 0x030C}]
    profile = sealed(tmp_path / "p.aiflame", codes=codes, stacks=stack(python(1, -1)))
    resolve(profile)
    assert profile.table("symbols").select("name", "full_name", "file", "line").rows() == [(name, "", file, 7)]


def test_codes_are_those_of_the_frames_own_process(tmp_path: Path) -> None:
    profile = sealed(
        tmp_path / "p.aiflame",
        processes=[{"process": 0}, {"process": 1}],
        codes=[{"process": 0, "qualname": "parent"}, {"process": 1, "qualname": "child"}],
        stacks=[{"process": process, **row} for process in (0, 1) for row in stack(python(1, -1))],
    )
    resolve(profile)
    assert profile.table("symbols").sort("process")["name"].to_list() == ["parent", "child"]


def test_frames_of_our_own_and_of_the_kernel_carry_their_text(tmp_path: Path) -> None:
    marks = [{"text": "[OpenMP wait]"}, {"text": "do_syscall_64"}]
    profile = sealed(tmp_path / "p.aiflame", marks=marks, stacks=stack(MARK | 1, KERNEL | 2, MARK | 3))
    resolve(profile)
    assert profile.table("symbols").sort("frame").select("name", "kind").rows() == [
        ("[OpenMP wait]", Kind.WAIT),
        ("[unknown]", Kind.WAIT),
        ("do_syscall_64", Kind.OS_KERNEL),
    ]


def test_every_frame_has_one_row_at_depth_0_whatever_is_missing(tmp_path: Path) -> None:
    words = [
        native(3, 5),
        python(9, 4),
        MARK | 5,
        KERNEL | 5,
        FrameKind.JIT << 60 | 1 << 32,
        FrameKind.ADDRESS << 60 | 4096,
        0,
        9 << 60 | 1,
        (1 << 64) - 1,
    ]
    profile = sealed(tmp_path / "p.aiflame", stacks=[*stack(*words), *stack(*words)])
    resolve(profile)
    table = profile.table("symbols")
    assert table.schema == pl.Schema(SYMBOLS)
    assert sorted(table.filter(pl.col("depth") == 0)["frame"]) == sorted(words)
    assert table.null_count().sum_horizontal().item() == 0
    assert table.equals(table.sort("process", "frame", "depth"))


def test_a_profile_without_stacks_has_empty_tables(tmp_path: Path) -> None:
    profile = sealed(tmp_path / "p.aiflame")
    shares: list[float] = []
    resolve(profile, shares.append)
    assert (profile.table("symbols").height, profile.table("instructions").height) == (0, 0)
    assert profile.table("symbols").schema == pl.Schema(SYMBOLS)
    assert shares[-1] == 1.0


def test_a_scanned_frame_is_marked_approximate(tmp_path: Path) -> None:
    scanned = FrameKind.NATIVE_APPROX << 60 | 1 << 40 | 0x1234
    profile = sealed(tmp_path / "p.aiflame", modules=[{"path": "/gone.so"}], stacks=stack(native(1, 0x1234), scanned))
    resolve(profile)
    shown = {row["frame"]: row for row in profile.table("symbols").to_dicts()}
    assert shown[scanned]["approximate"] is True
    assert shown[native(1, 0x1234)]["approximate"] is False


def test_errors_for_people_about_a_damaged_profile_are_no_failure(tmp_path: Path) -> None:
    most = (1 << 64) - 1
    words = [native(1, 0), native(1, (1 << 39) - 1, exact=True), native(2, 5), python(1, (1 << 31) - 2), FrameKind.ADDRESS << 60 | 1]
    profile = sealed(
        tmp_path / "p.aiflame",
        Meta(started=Clocks(monotonic_ns=1, realtime_ns=1)),
        processes=[{"pid": (1 << 32) - 1, "start_ns": most, "cwd": "a\0b"}],
        modules=[{"path": "/a\0b", "build_id": b"\0" * 300, "seen_ns": most, "inode": most, "device": most}, {"path": "../.."}],
        codes=[{"first_line": 5, "qualname": "", "filename": "\n", "linetable": b"\xff" * 50, "python": most >> 32}],
        stacks=stack(*words),
    )
    resolve(profile)
    shown = profile.table("symbols")
    assert sorted(shown["frame"]) == sorted(words)
    assert not shown["name"].str.contains(r"[\x00-\x1f]").any()
    assert not shown["file"].str.contains(r"[\x00-\x1f]").any()
