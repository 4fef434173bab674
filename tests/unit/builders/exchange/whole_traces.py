"""A few whole files of every format that can be imported, to be damaged. Some are committed, builders and our writers write others, and the
folder that AIFLAME_TRACES names may bring more."""

from __future__ import annotations

import gzip
import io
import json
import os
import tarfile
import zipfile
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path

import memory_snapshots
import nsys_files
import rocm_files
from calling import run_aiflame
from damage import content, says_one_sentence
from exported_profiles import training
from memory_tables import ROWS, TABLE
from perf_files import story
from perfetto_packets import EVERYTHING
from proton_trees import MADE as PROTON
from proton_trees import packed
from sampled_examples import GECKO
from v8_chunks import CHUNKS

import aiflame
from aiflame.analyze.device.profile_analysis import profile_analysis
from aiflame.attribute.analysis import Analysis
from aiflame.attribute.trees.build import metrics, tree
from aiflame.errors import AiflameError
from aiflame.exchange.readers.door import import_to
from aiflame.exchange.readers.formats import FORMATS, format_of
from aiflame.exchange.readers.making import Making
from aiflame.exchange.readers.source import Source
from aiflame.profile.folder.door import Folder

COMMITTED = Path(__file__).parents[3] / "data" / "traces"
FOLDER, ARCHIVE = "nsys Parquet or Arrow", "archive"
_WRITTEN = {"chrome": "json", "kineto": "json", "pprof": "pb.gz", "firefox": "json", "speedscope": "json", "collapsed": "txt"}
_LARGEST = 200_000
"""Bytes of a file that is worth ten thousand copies."""
_MOST_OF_A_FOLDER = 12
_BY_NAME = {one.name: one for one in FORMATS}


@dataclass(frozen=True, slots=True)
class Whole:
    format: str
    name: str
    data: bytes = field(repr=False)
    beside: dict[str, bytes] = field(default_factory=dict, repr=False)
    """Other files of its folder."""

    def survives(self, data: bytes, folder: Path) -> Path | None:
        """The profile that a reader makes of these bytes in its place. None: an error for people."""
        folder.mkdir()
        for name, other in self.beside.items():
            (folder / name).write_bytes(other)
        file = folder / self.name
        file.write_bytes(data)
        profile = folder / "made.aiflame"
        try:
            if self.format in _BY_NAME:
                self._read(file, profile)
            else:
                import_to(folder if self.format == FOLDER else file, profile)
        except AiflameError as error:
            assert says_one_sentence(error), f"the error is no sentence: {error}"
            assert "not enough memory" not in str(error)
            return None
        return profile

    def _read(self, file: Path, profile: Path) -> None:
        """Reads the file in its own format, even where the damage hides which one it is."""
        making = Making(Folder.new(profile))
        _BY_NAME[self.format].read(Source.open(file), making, lambda share: None)
        making.finish(self.format, (self.name,), "0")


def look_at(profile: Path) -> None:
    """Every metric has the same total in every grouping."""
    analysis = Analysis(aiflame.open(profile).store)
    for metric in metrics(analysis):
        assert tree(analysis, metric).total(metric) == tree(analysis, metric, "module").total(metric)
    profile_analysis(analysis)


def whole_traces(folder: Path) -> dict[str, list[Whole]]:
    """By the name of the format; made in an empty folder."""
    files = [path for path in sorted(COMMITTED.glob("*/*")) if path.is_file()]
    given = os.environ.get("AIFLAME_TRACES")
    if given:
        for room in sorted(path for path in Path(given).iterdir() if path.is_dir()):
            small = [path for path in sorted(room.glob("*")) if path.is_file() and path.stat().st_size <= _LARGEST]
            files += small[:: max(1, len(small) // _MOST_OF_A_FOLDER)]
    wholes = [_recognized(path) for path in (*files, *_written(folder), *_made(folder))]
    traces = defaultdict(list)
    for whole in (*wholes, _nsys_tables(folder), *_archives()):
        if whole is not None and len(whole.data) <= _LARGEST:
            traces[whole.format].append(whole)
    return dict(traces)


def _recognized(path: Path) -> Whole | None:
    try:
        data = content(path)
        of = format_of(data[: 1 << 20])
    except (OSError, EOFError, AiflameError):
        return None
    name = path.name.removesuffix(".gz")
    return None if of is None or not (of.marked or path.parent.name == "collapsed") else Whole(of.name, name, data)


def _written(folder: Path) -> list[Path]:
    profile = training(folder)
    room = folder / "collapsed"  # where its files are taken for collapsed stacks
    room.mkdir()
    for to, suffix in _WRITTEN.items():
        said = run_aiflame("export", str(profile.path), "--to", to, "-o", str(room / f"{to}.{suffix}"))
        assert said.status == 0, said.err
    said = run_aiflame("timeline", str(profile.path), "-o", str(room / "timeline.pftrace"))
    assert said.status == 0, said.err
    return sorted(room.iterdir())


def _made(folder: Path) -> list[Path]:
    room = folder / "made"
    room.mkdir()
    (room / "gecko.json").write_text(json.dumps(GECKO))
    (room / "proton.hatchet").write_text(json.dumps(PROTON, indent=2))
    (room / "proton.hatchet_msgpack").write_bytes(packed(PROTON))
    (room / "v8.json").write_text(json.dumps({"traceEvents": CHUNKS}))
    (room / "snapshot.pickle").write_bytes(memory_snapshots.written(memory_snapshots.busy(8, devices=2, actions=150)))
    (room / "memory_timeline.json").write_text(json.dumps(ROWS * 9))
    (room / "memray.csv").write_text(TABLE * 5)
    (room / "trace.pftrace").write_bytes(EVERYTHING)
    (room / "perf.data").write_bytes(story().as_file())
    (room / "perf.pipe.data").write_bytes(story().as_pipe())
    nsys_files.write_lines(nsys_files.write(room / "nsys.sqlite"), room / "nsys.jsonl", False)
    nsys_files.write_arrow(room / "nsys.sqlite", room / "nsys.arrow")
    rocm_files.write_json(room)
    rocm_files.write_rocpd(room)
    rocm_files.write_csv(room)
    return sorted(path for path in room.iterdir() if path.is_file())


def _nsys_tables(folder: Path) -> Whole:
    tables = {}
    for table, rows in nsys_files.frames(folder / "made" / "nsys.sqlite").items():
        file = io.BytesIO()
        rows.write_parquet(file)
        tables[f"{table}.parquet"] = file.getvalue()
    name = "CUPTI_ACTIVITY_KIND_KERNEL.parquet"
    return Whole(FOLDER, name, tables.pop(name), tables)


def _archives() -> list[Whole]:
    """Two ranks in a zip and in a tar, and one packed with gzip."""
    ranks = {}
    for rank in range(2):
        call = {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1, "ts": 1_700_000_000_000_000 + rank, "dur": 5}
        ranks[f"rank{rank}.json"] = json.dumps({"distributedInfo": {"rank": rank, "world_size": 2}, "traceEvents": [call]}).encode()
    zipped, tarred = io.BytesIO(), io.BytesIO()
    with zipfile.ZipFile(zipped, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in ranks.items():
            archive.writestr(zipfile.ZipInfo(name), data, zipfile.ZIP_DEFLATED)
    with tarfile.open(fileobj=tarred, mode="w") as archive:
        for name, data in ranks.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data))
    packed = gzip.compress(ranks["rank0.json"], mtime=0)
    return [
        Whole(ARCHIVE, "ranks.zip", zipped.getvalue()),
        Whole(ARCHIVE, "ranks.tar", tarred.getvalue()),
        Whole(ARCHIVE, "rank0.json.gz", packed),
    ]
