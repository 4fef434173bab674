"""The text of source lines: from the profile, or from the folder that --source-path names."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from sampled_kernels import CODE, TEXT, Sampled, line, profile

from aiflame.analyze.kernel.annotate import annotate
from aiflame.analyze.kernel.source_text import Origin, SourceFolder, SourceTexts
from aiflame.errors import AiflameError
from aiflame.profile.folder.meta import Clocks, Host, Meta


def source(tmp_path: Path, *, recorded: bool = False, below: str | None = None) -> tuple[Origin, str | None]:
    """The origin and the text of line 3. The file exists, and is as old as can be; `below`: --source-path."""
    file = tmp_path / "model/attn.py"
    file.parent.mkdir(exist_ok=True)
    file.write_text("a\nb\non disk\n")
    os.utime(file, ns=(1, 1))
    texts = {str(file): "a\nb\nrecorded\n"} if recorded else {"/other.py": ""}
    meta = Meta(host=Host.here(), started=Clocks(realtime_ns=2))
    kernel = Sampled("k", [(0, "NOP", line(3, str(file)), {"wait": 1})])
    store = profile(tmp_path / "p", kernel, sources=texts, meta=meta)
    folder = SourceFolder(tmp_path / below) if below is not None else None
    answer = annotate(store, "k", texts=SourceTexts(store, folder))
    return answer.files[0].source.origin, answer.files[0].lines[0].text


def test_the_stored_text_comes_first(tmp_path: Path) -> None:
    assert source(tmp_path, recorded=True, below="") == (Origin.PROFILE, "recorded")


def test_a_file_that_the_profile_names_is_not_read(tmp_path: Path) -> None:
    assert source(tmp_path) == (Origin.MISSING, None)


@pytest.mark.parametrize("below", ["", "model"])
def test_the_reader_may_point_to_a_folder_with_the_sources(tmp_path: Path, below: str) -> None:
    assert source(tmp_path, below=below) == (Origin.SOURCE_PATH, "on disk")


def test_below_a_folder_the_longest_tail_of_a_path_is_taken(tmp_path: Path) -> None:
    for place in ("src/model/attn.py", "model/attn.py", "attn.py"):
        (tmp_path / place).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / place).write_text(place)
    folder = SourceFolder(tmp_path)
    assert folder.read("/home/them/src/model/attn.py") == "src/model/attn.py"
    assert folder.read("/elsewhere/model/attn.py") == "model/attn.py"
    assert folder.read("attn.py") == "attn.py"
    assert folder.read("/elsewhere/none.py") is None


def test_nothing_leads_out_of_the_folder(tmp_path: Path) -> None:
    outside, folder = tmp_path / "private", tmp_path / "src"
    outside.mkdir()
    folder.mkdir()
    (outside / "key.py").write_text("secret")
    (folder / "link.py").symlink_to(outside / "key.py")
    (folder / "sub").symlink_to(outside)
    (folder / "own.py").write_text("own")
    (folder / "inner.py").symlink_to("own.py")
    os.mkfifo(folder / "pipe.py")
    sources = SourceFolder(folder)
    assert [
        sources.read(path) for path in ("link.py", "sub/key.py", "../private/key.py", "x/../../private/key.py", "pipe.py", "a\0b", "")
    ] == [None] * 7
    assert sources.read("inner.py") == "own"


def test_a_folder_that_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(AiflameError, match="--source-path"):
        SourceFolder(tmp_path / "none")


def test_a_line_beyond_the_end_of_its_file_has_no_text(tmp_path: Path) -> None:
    stored = profile(tmp_path / "p", Sampled("k", [(0, "NOP", line(99), {"wait": 1})]), sources={CODE: TEXT})
    assert annotate(stored, "k").files[0].lines[0].text is None


def test_lines_are_counted_as_compilers_do(tmp_path: Path) -> None:
    """A form feed ends no line; \\r\\n is one end."""
    stored = profile(tmp_path / "p", Sampled("k", [(0, "NOP", line(2), {"wait": 1})]), sources={CODE: "a\x0c\u2028b\r\nsecond\r\n"})
    assert annotate(stored, "k").files[0].lines[0].text == "second"
