"""Collapsed stacks, written and read."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from trees import PROCESS, THREAD, TREES, c, is_sound, paths, py, tree

import aiflame
from aiflame.attribute.tree import CPU_TIME, Frame, Kind, Tree, from_stacks
from aiflame.errors import AiflameError
from aiflame.exchange.writers import collapsed

GOLDEN = Path(__file__).parents[2] / "golden" / "stacks.collapsed"
UNDER = (PROCESS, THREAD, py("train"), Frame("at::addmm", Kind.CPP, module="libtorch_cpu.so"))
WHOLE = tree(
    (UNDER, 5),
    ((*UNDER, Frame("-", Kind.BOUNDARY), Frame("gemm_128", Kind.GPU_KERNEL), Frame("gemm.cu:7", Kind.GPU_LINE)), 7),
    (
        (
            *UNDER,
            Frame("-", Kind.BOUNDARY),
            Frame("gemm_128", Kind.GPU_KERNEL),
            Frame("gemm.cu:7", Kind.GPU_LINE),
            Frame("HGMMA", Kind.GPU_INSTRUCTION),
            Frame("long_scoreboard", Kind.GPU_STALL),
            Frame("+0x1f0", Kind.GPU_OFFSET),
        ),
        11,
    ),
    ((*UNDER, c("memcpy"), Frame("copy.c:3", Kind.CPU_LINE), Frame("rep movsb @ +0x1f3", Kind.CPU_INSTRUCTION)), 13),
    ((*UNDER, c("read"), Frame("vfs_read", Kind.OS_KERNEL)), 17),
    ((PROCESS, THREAD, c("do_wait"), Frame("[OpenMP wait]", Kind.WAIT)), 19),
    ((PROCESS, THREAD, Frame("[unattributed: no stack]", Kind.UNATTRIBUTED)), 23),
    ((PROCESS, THREAD, py("odd;name\nof two lines"), c("")), 29),
)


def written(of: Tree) -> str:
    text = io.StringIO()
    collapsed.write(of, of.metrics[0].name, text)
    return text.getvalue()


def read(tmp_path: Path, text: str | bytes) -> Tree:
    path = tmp_path / "in.collapsed"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return aiflame.open(path).tree("samples")


def test_every_kind_has_its_mark() -> None:
    assert written(WHOLE) == GOLDEN.read_text()


def test_marks_name_the_kinds_again() -> None:
    of = aiflame.open(GOLDEN).tree("samples")
    kinds = dict(of.frames.select("name", "kind").rows())
    assert {name: Kind(kind).name for name, kind in kinds.items() if name not in ("all", "[unknown]", "odd:name of two lines")} == {
        "train.py (7)": "C",
        "main thread": "C",
        "train": "PYTHON",
        "at::addmm": "CPP",
        "-": "BOUNDARY",
        "gemm_128": "GPU_KERNEL",
        "gemm.cu:7": "GPU_LINE",
        "HGMMA": "GPU_INSTRUCTION",
        "long_scoreboard": "GPU_STALL",
        "+0x1f0": "GPU_OFFSET",
        "memcpy": "C",
        "copy.c:3": "CPU_LINE",
        "rep movsb @ +0x1f3": "CPU_INSTRUCTION",
        "read": "C",
        "vfs_read": "OS_KERNEL",
        "do_wait": "C",
        "[OpenMP wait]": "WAIT",
        "[unattributed: no stack]": "UNATTRIBUTED",
    }


def test_a_collapsed_file_is_written_as_it_was_read() -> None:
    assert written(aiflame.open(GOLDEN).tree("samples")) == GOLDEN.read_text()


@given(TREES)
def test_every_value_is_written_once(of: Tree) -> None:
    lines = written(of).splitlines()
    assert sum(int(line.rsplit(" ", 1)[1]) for line in lines) == of.total("cpu-time")
    assert len({line.rsplit(" ", 1)[0] for line in lines}) == len(lines)


def test_frames_that_are_written_alike_make_one_line() -> None:
    assert written(tree(((c("f", "liba.so"),), 1), ((c("f", "libb.so"),), 2))) == "f 3\n"


LINES = st.lists(st.tuples(st.lists(st.sampled_from(["a", "b", "c c", "ü"]), min_size=1, max_size=6), st.integers(1, 9)), max_size=20)


@settings(max_examples=12)
@given(LINES)
def test_lines_in_any_order_make_the_same_tree(tmp_path_factory: pytest.TempPathFactory, lines: list[tuple[list[str], int]]) -> None:
    text = [f"{';'.join(path)} {count}\n" for path, count in lines]
    folder = tmp_path_factory.mktemp("lines")
    unsorted, in_order = read(folder, "".join(text)), read(folder, "".join(sorted(text)))
    assert is_sound(unsorted)
    assert paths(unsorted, "samples") == paths(in_order, "samples")
    assert written(unsorted) == written(in_order)


def test_counts_may_be_fractions_and_lines_empty(tmp_path: Path) -> None:
    assert written(read(tmp_path, "a;b 2.6\r\n\n  \na 1")) == "a 1\na;b 3\n"


def test_names_that_are_no_utf8_are_kept_as_far_as_they_go(tmp_path: Path) -> None:
    assert paths(read(tmp_path, b"a\xff;b 2\n"), "samples") == {("a\ufffd", "b"): 2}


def test_an_empty_file_is_an_empty_tree(tmp_path: Path) -> None:
    assert read(tmp_path, "").total("samples") == 0


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("a;b 1\nno-count\n", "line 2: not a collapsed stack"),
        ("a;b many\n", "line 1: ends with 'many', not with a count"),
        ("a;b nan\n", "line 1: ends with 'nan'"),
        ("a;b 1e300\n", "line 1: ends with '1e300'"),
        ("a 99999999999999999999999\n", "line 1: ends with '9999"),
    ],
)
def test_a_line_that_is_no_collapsed_stack_is_named_in_the_error(tmp_path: Path, text: str, says: str) -> None:
    with pytest.raises(AiflameError, match=says):
        read(tmp_path, text)


def test_a_file_that_is_not_there_is_reported(tmp_path: Path) -> None:
    with pytest.raises(AiflameError, match="does not exist"):
        aiflame.open(tmp_path / "none")


@pytest.mark.parametrize(
    "frame",
    [
        Frame("[copy host→device]", Kind.GPU_COPY),
        Frame("[fill]", Kind.GPU_COPY),
        Frame("[GPU idle]", Kind.GPU_IDLE),
        Frame("[graph replay]", Kind.BOUNDARY),
        Frame("[unattributed: samples dropped]", Kind.UNATTRIBUTED),
        Frame("[kernels of the driver]", Kind.GPU_KERNEL),
        Frame("dot dot.cuh:12", Kind.GPU_LINE),
        Frame("LDG.E.128", Kind.GPU_INSTRUCTION),
        Frame("long_scoreboard", Kind.GPU_STALL),
        Frame("+0x1f0", Kind.GPU_OFFSET),
    ],
)
def test_work_of_a_gpu_keeps_its_kind(frame: Frame, tmp_path: Path) -> None:
    file = tmp_path / "stacks.txt"
    with file.open("w", encoding="utf-8") as text:
        collapsed.write(from_stacks([((frame,), 1)], CPU_TIME), CPU_TIME.name, text)
    assert aiflame.open(file).tree("samples").frames.select("name", "kind").rows()[1:] == [(frame.name, int(frame.kind))]
