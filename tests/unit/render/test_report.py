"""The report as a file: its contents; texts stay within their elements; it is written whole or not at all."""

from __future__ import annotations

import base64
import errno
import gzip
import json
import os
import re
import struct
import threading
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from profiles import sealed
from report_profiles import HOSTILE, SLOWEST, SOURCE, STEPS, hostile, training

import aiflame
from aiflame.errors import AiflameError
from aiflame.profile.tables.interface import OpenedProfile
from aiflame.profile.tables.store import Profile
from aiflame.render.report import document
from aiflame.render.report.code import MOST_IN_A_FILE
from aiflame.render.report.document import Report, write
from aiflame.render.report.page import harmless, page


class Elements(HTMLParser):
    """The elements of a page, and the text in those that have an id or hold a block."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str]] = []
        self.inside: dict[str, str] = {}
        self._in = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.tags.append(tag)
        self.attributes += list(given.items())
        self._in = given.get("id") or given.get("data-name") or f"<{tag}>"
        self.inside.setdefault(self._in, "")

    def handle_endtag(self, tag: str) -> None:
        self._in = ""

    def handle_data(self, data: str) -> None:
        if self._in:
            self.inside[self._in] += data


def written(profile: OpenedProfile, path: Path, **options: Any) -> Elements:
    write(profile, path, **options)
    return Elements(path.read_text(encoding="utf-8"))


def names_in(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()]


def head_of(block: bytes) -> dict[str, Any]:
    raw = gzip.decompress(block)
    head: dict[str, Any] = json.loads(raw[4 : 4 + struct.unpack("<I", raw[:4])[0]])
    return head


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Profile:
    return training(tmp_path_factory.mktemp("report"))


@pytest.fixture(scope="module")
def calm(trained: Profile, tmp_path_factory: pytest.TempPathFactory) -> Elements:
    """Its report."""
    return written(trained, tmp_path_factory.mktemp("calm") / "r.html")


@pytest.fixture(scope="module")
def little(tmp_path_factory: pytest.TempPathFactory) -> OpenedProfile:
    """Whose report is soon written."""
    path = tmp_path_factory.mktemp("little") / "p.aiflame"
    sealed(path)
    return aiflame.open(path).store


def test_the_file_has_the_first_screen_and_each_block_it_names(calm: Elements) -> None:
    first = json.loads(calm.inside["summary"])
    assert first["title"] == "p.aiflame"
    assert first["summary"]["command"] == "python train.py"
    assert {"tables", "facts.device", "facts.cpu", "timeline", "code", "code.0", "text.0"} <= set(first["blocks"])
    for name in first["blocks"]:
        head = head_of(base64.b64decode(calm.inside[name]))
        assert head[{"scope.other": "summary", "limits": "why", "limits.other": "why"}.get(name, "columns")]


def test_the_first_screen_has_findings_steps_and_panels(trained: Profile) -> None:
    first: Any = Report(trained).first_screen()
    assert [panel["table"] for panel in first["panels"]] == ["phases", "layer-groups", "kernels"]
    layers = first["panels"][1]["rows"]
    assert (layers[0]["name"], layers[0]["search"]) == ("layers.*.attn", "^attn$")
    assert (first["panels"][2]["of"], first["panels"][2]["rows"][0]["value"]) == ("GPU time", (STEPS - 1) * 60_000)
    (steps,) = first["steps"]
    assert (len(steps["step"]), steps["of"]) == (STEPS, STEPS)
    assert max(range(STEPS), key=lambda at: steps["took_ns"][at]) == SLOWEST
    assert all(sum(parts) == took for *parts, took in zip(*steps["states"].values(), steps["took_ns"], strict=True))
    assert all(set(finding["view"]) >= {"view", "metric", "by", "search", "kernel", "table"} for finding in first["findings"])


def test_many_steps_are_thinned_to_the_longest_of_neighbours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, trained: Profile) -> None:
    monkeypatch.setattr("aiflame.analyze.overview.step_series.MOST_POINTS", 2)
    first: Any = Report(trained).first_screen()
    (steps,) = first["steps"]
    assert (len(steps["step"]), steps["of"]) == (2, STEPS)
    assert SLOWEST in steps["step"]


def test_a_profile_with_nothing_in_it_has_a_report_that_says_so(tmp_path: Path) -> None:
    sealed(tmp_path / "empty.aiflame")
    elements = written(aiflame.open(tmp_path / "empty.aiflame").store, tmp_path / "r.html")
    first = json.loads(elements.inside["summary"])
    assert (first["findings"], first["panels"], first["steps"]) == ([], [], [])
    assert "tables" not in first["blocks"]
    assert "code" not in first["blocks"]


def test_the_title_is_the_one_that_is_asked_for(trained: Profile, tmp_path: Path) -> None:
    elements = written(trained, tmp_path / "r.html", title="Before </title><b>")
    assert (elements.inside["<title>"], elements.inside["title"]) == ("Before </title><b>",) * 2
    assert "b" not in elements.tags


def test_a_baseline_brings_its_facts(trained: Profile, tmp_path: Path) -> None:
    first = json.loads(written(trained, tmp_path / "r.html", baseline=training(tmp_path / "base")).inside["summary"])
    assert {"base.device", "base.cpu"} <= set(first["blocks"])
    assert first["baseline"] == "p.aiflame"


def test_hostile_names_stay_in_their_places(tmp_path: Path, calm: Elements) -> None:
    wild = written(hostile(tmp_path), tmp_path / "wild.html", title=HOSTILE[0])
    assert [tag for tag in wild.tags if tag != "script"] == [tag for tag in calm.tags if tag != "script"]
    blocks = len(json.loads(wild.inside["summary"])["blocks"])
    assert wild.tags.count("script") == blocks + calm.tags.count("script") - len(json.loads(calm.inside["summary"])["blocks"])
    assert wild.inside["<script>"] == calm.inside["<script>"]
    assert not [value for name, value in wild.attributes if name.startswith("on") or "harmed" in value]
    text = (tmp_path / "wild.html").read_text(encoding="utf-8")
    assert not re.search("[\x00\x1b\u202e\u2066]", text)
    assert json.loads(wild.inside["summary"])["summary"]["notes"][0] == HOSTILE[0]


def test_a_lone_surrogate_becomes_a_replacement() -> None:
    assert harmless({"a": ("\ud800b", [1, None])}) == {"a": ["?b", [1, None]]}


def test_the_policy_allows_nothing_outside_the_page(calm: Elements) -> None:
    policy = next(value for name, value in calm.attributes if value.startswith("default-src"))
    assert "default-src 'none'" in policy
    assert "connect-src 'none'" in policy
    assert "unsafe" not in policy
    assert not re.search(r"https?:|\*", policy)
    assert not [value for name, value in calm.attributes if name in ("src", "href") and not value.startswith("data:")]


def test_a_served_page_has_no_data_and_may_ask_its_own_server() -> None:
    elements = Elements("".join(page("served", None)))
    assert elements.inside["summary"] == "null"
    assert "connect-src 'self'" in next(value for name, value in elements.attributes if value.startswith("default-src"))


def test_a_file_has_pages_of_the_hottest_kernels_alone_and_a_server_of_all(tmp_path: Path) -> None:
    many = training(tmp_path, kernels=MOST_IN_A_FILE + 20)
    pages = [name for name in Report(many, most_code=MOST_IN_A_FILE).names if name.startswith("code.")]
    assert len(pages) == MOST_IN_A_FILE
    assert len([name for name in Report(many).names if name.startswith("code.")]) == MOST_IN_A_FILE + 20
    assert head_of(Report(many).block("code.0"))["name"] == "sgemm"


def test_a_kernels_page_names_its_files_and_reasons(trained: Profile) -> None:
    head = head_of(Report(trained).block("code.0"))
    assert (head["name"], head["samples"], head["shown_samples"], head["not_issued"]) == ("sgemm", 100, 100, 30)
    assert [reason for reason, _ in head["reasons"]] == ["long_scoreboard", "barrier", "selected", "wait"]
    assert head["files"] == [{"path": SOURCE, "text": 0, "origin": "profile"}]
    assert head["disassembled"]


def test_kept_files_are_texts_and_none_from_outside_the_profile(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("a key")
    files = ["sgemm.ttir", "../../secret", str(secret), "missing.ttir", "link"]
    profile = sealed(
        tmp_path / "p.aiflame",
        kernels=[{"shape": 1, "start_ns": 1, "end_ns": 2}],
        kernel_shapes=[{"name": "sgemm"}],
        kept_files=[{"kernel": "sgemm", "file": file} for file in files],
    )
    (profile.path / "kept").mkdir()
    (profile.path / "kept" / "sgemm.ttir").write_text("module {\n}\n")
    (profile.path / "kept" / "link").symlink_to(secret)
    code = Report(profile).code
    assert [name for name in code.names if name.startswith("text.")] == ["text.0"]
    assert b"module {" in gzip.decompress(code.block("text.0"))
    assert dict(head_of(code.block("code.0"))["kept"])["kept/sgemm.ttir"] == 0
    assert set(dict(head_of(code.block("code.0"))["kept"]).values()) == {0, -1}


def test_a_block_that_the_report_lacks_is_an_error(trained: Profile) -> None:
    with pytest.raises(AiflameError, match="no data called nothing"):
        Report(trained).block("nothing")


def test_a_full_disk_leaves_the_old_report_and_one_line(trained: Profile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "r.html"
    path.write_text("old")

    def pieces(*_: object) -> Iterator[str]:
        yield "<!doctype html>"
        raise AssertionError("written after the disk was full")

    class Full:
        def write(self, _: bytes) -> int:
            raise OSError(errno.ENOSPC, "No space left on device")

        def __enter__(self) -> Full:
            return self

        def __exit__(self, *_: object) -> None:
            pass

    opened = os.fdopen

    def open_full(descriptor: int, mode: str = "r", *arguments: Any, **more: Any) -> Any:
        if mode == "wb":
            os.close(descriptor)
            return Full()
        return opened(descriptor, mode, *arguments, **more)

    monkeypatch.setattr("aiflame.render.output.os.fdopen", open_full)
    monkeypatch.setattr(document, "page", pieces)
    with pytest.raises(AiflameError, match=r"cannot write .*r\.html: no space left on device: choose another place with -o"):
        write(trained, path)
    monkeypatch.undo()
    assert path.read_text() == "old"
    assert names_in(tmp_path) == ["r.html"]


@pytest.mark.parametrize(("name", "why"), [("missing/r.html", "no such file"), ("", "is a directory")])
def test_a_place_that_cannot_be_written_is_one_line(trained: Profile, tmp_path: Path, name: str, why: str) -> None:
    with pytest.raises(AiflameError, match=f"cannot write .*{why}"):
        write(trained, tmp_path / name)
    assert names_in(tmp_path) == []


def test_an_error_inside_leaves_the_old_report(trained: Profile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "r.html"
    path.write_text("old")

    def broken(*_: object) -> bytes:
        raise FileNotFoundError("of our own")

    monkeypatch.setattr(document, "tables_block", broken)
    with pytest.raises(FileNotFoundError):  # not: "cannot write"
        write(trained, path)
    assert (path.read_text(), names_in(tmp_path)) == ("old", ["r.html"])


def test_the_target_of_a_link_is_replaced(little: OpenedProfile, tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "r.html").symlink_to(tmp_path / "there" / "real.html")
    write(little, tmp_path / "r.html")
    assert (tmp_path / "r.html").is_symlink()
    assert (tmp_path / "there" / "real.html").read_text().startswith("<!doctype html>")


def test_a_pipe_gets_the_whole_page(little: OpenedProfile, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    read: list[bytes] = []
    reader = threading.Thread(target=lambda: read.append(pipe.read_bytes()))
    reader.start()
    size = write(little, pipe)
    reader.join()
    assert (len(read[0]), read[0][:15]) == (size, b"<!doctype html>")
    assert pipe.is_fifo()
