"""Packs and unpacks frame words and the column `autograd`."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import polars as pl
from profiles import native, python

from aiflame.profile.schema import frame_packing, frame_words
from aiflame.profile.schema.enums import FrameKind

LAYER = FrameKind.LAYER << 60 | 0xFFFFFFFE
WORDS = [
    native(0xFFFFF, 0x7F_FFFF_FFFF),
    native(3, 0x1040, exact=True),
    FrameKind.NATIVE_APPROX << 60 | 2 << 40 | 0x99,
    python(0xFFFFFFF, 7),
    FrameKind.JIT << 60 | 5 << 32 | 0x20,
    FrameKind.ADDRESS << 60 | 0xFFFF_FFFF_FFFF,
    frame_packing.mark_word(4),
    LAYER,
]
FRAMES = pl.DataFrame({"frame": WORDS}, schema={"frame": pl.UInt64})


def column(name: str) -> list[int]:
    return frame_words.unpacked(FRAMES)[name].to_list()


def test_all_bits_of_a_word_are_taken_apart() -> None:
    assert column("word_kind") == [1, 1, 2, 3, 4, 5, 6, 8]
    assert column("id")[:5] == [0xFFFFF, 3, 2, 0xFFFFFFF, 5]
    assert column("offset")[:3] == [0x7F_FFFF_FFFF, 0x1040, 0x99]
    assert column("rest")[3:5] == [8, 0x20]
    assert column("rest")[6:] == [4, 0xFFFFFFFE]
    assert column("address")[5] == 0xFFFF_FFFF_FFFF
    assert column("exact") == [False, True, *[False] * 6]
    assert column("approximate") == [False, False, True, *[False] * 5]


def test_columns_and_arrays_say_the_same() -> None:
    words = FRAMES["frame"].to_numpy()
    kinds = FRAMES.select(frame_words.frame_kind())["frame"].to_list()
    assert kinds == frame_words.frame_kinds(words).tolist() == column("word_kind")
    assert FRAMES.filter(frame_words.is_frame_of(FrameKind.PYTHON)).select(frame_words.code_of_python()).item() == 0xFFFFFFF
    native_words = FRAMES.filter(frame_words.is_frame_of(FrameKind.NATIVE))
    assert native_words.select(frame_words.module_of_native())["frame"].to_list() == [0xFFFFF, 3]
    assert frame_words.layer_rows(words).tolist() == [0, 0, 0, 0, 0, 0, 0, 0xFFFFFFFE]


def test_autograd_has_a_thread_and_whether_it_is_backward_work() -> None:
    autograd = np.array([0, 1, 0x7FFF, 0x8000 | 1, 0xFFFF])
    process = np.array([0, 0, 1, 1, 1])
    rows = pl.DataFrame({"process": process, "autograd": autograd})
    assert frame_words.is_backward(autograd).tolist() == [False, False, False, True, True]
    assert rows.select(frame_words.is_backward_column())["autograd"].to_list() == [False, False, False, True, True]
    assert rows.select(frame_words.is_forward())["autograd"].to_list() == [False, True, True, False, False]
    threads = frame_words.torch_thread(process, autograd)
    assert threads.tolist() == [0, 1, 0x8000 | 0x7FFF, 0x8000 | 1, 0x8000 | 0x7FFF]
    assert rows.select(frame_words.torch_thread_column()).to_series().to_list() == threads.tolist()


def test_no_other_module_takes_words_apart() -> None:
    source = Path(frame_words.__file__).parents[2]
    shifts = re.compile(r"(?:<<|>>|//)\s*(?:np\.uint64\()?\(?(?:1 << )?60\b|0x7FFF\b")
    modules = {path.relative_to(source).as_posix() for path in source.rglob("*.py") if shifts.search(path.read_text(encoding="utf-8"))}
    assert modules - {"profile/ranks/shifts.py"} == {"profile/schema/frame_words.py"}
