"""Files, folders and archives of traces: each becomes a profile once, or an error in a sentence."""

from __future__ import annotations

import gzip
import io
import json
import os
import tarfile
import zipfile
from pathlib import Path

import pytest
from calling import run_aiflame

import aiflame
from aiflame import fan_out
from aiflame.errors import AiflameError
from aiflame.exchange.readers import many_files, own_sources
from aiflame.exchange.readers.door import as_profile, import_to, imported
from aiflame.profile.ranks.ranked import Ranked


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "cache").mkdir(0o700)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def trace(rank: int, size: int = 2) -> bytes:
    call = {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1, "ts": 1_700_000_000_000_000 + rank, "dur": 5 + rank}
    return json.dumps({"distributedInfo": {"rank": rank, "world_size": size}, "traceEvents": [call]}).encode()


def files() -> dict[str, bytes]:
    return {f"rank{rank}.json.gz": gzip.compress(trace(rank)) for rank in (1, 0)}


def as_folder(place: Path) -> Path:
    place.mkdir()
    for name, data in files().items():
        (place / name).write_bytes(data)
    return place


def as_zip(place: Path) -> Path:
    with zipfile.ZipFile(place, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files().items():
            archive.writestr(f"../{name}", data)
    return place


def as_tar(place: Path) -> Path:
    with tarfile.open(place, "w:gz") as archive:
        link = tarfile.TarInfo("link.json")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        archive.addfile(link)
        for name, data in files().items():
            entry = tarfile.TarInfo(f"../../{name}")
            entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data))
    return place


def test_a_file_is_imported_again_by_other_readers_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "trace.json"
    file.write_bytes(trace(0))
    assert as_profile(file) == as_profile(file)
    readers = tmp_path / "readers" / "chrome"
    readers.mkdir(parents=True)
    source = readers / "kineto.py"
    source.write_text("one")
    os.utime(source, ns=(0, 0))
    monkeypatch.setattr(own_sources, "SOURCES", (readers.parent,))
    seen = [as_profile(file), as_profile(file)]
    (readers / "__pycache__").mkdir()
    (readers / "__pycache__" / "kineto.pyc").write_text("not a source")
    seen.append(as_profile(file))
    assert len(set(seen)) == 1
    source.write_text("two")  # as long as before, and later
    seen.append(as_profile(file))
    os.utime(source, ns=(0, 0))
    source.rename(readers / "other.py")
    seen.append(as_profile(file))
    assert len(set(seen)) == 3


def test_the_readers_know_all_of_their_own_files() -> None:
    state = own_sources.state_of_sources().decode()
    folder = Path(own_sources.__file__).parent
    assert all(repr(path.relative_to(path.parents[1]).as_posix()) in state for path in folder.rglob("*.py"))
    assert "libaiflame_trace_reader.so" in state


@pytest.mark.parametrize("make", [as_folder, as_zip, as_tar])
def test_traces_of_ranks_are_a_job(tmp_path: Path, make: object) -> None:
    store = aiflame.open(make(tmp_path / "job")).store  # type: ignore[operator]
    assert isinstance(store, Ranked)
    assert [part.rank for part in store.parts] == [0, 1]
    assert sorted(store.table("cpu_samples")["period_ns"]) == [5000, 6000]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["cache", "job"]


def figures(path: Path) -> list[object]:
    """The time of each rank's samples and the names of its frames."""
    job = aiflame.open(path).store
    assert isinstance(job, Ranked)
    tables = ("cpu_samples", "named_frames")
    return [(part.rank, *(part.store.table(name).rows() for name in tables)) for part in job.parts]


@pytest.mark.parametrize("way", ["processes", "dask"])
def test_files_of_a_folder_are_imported_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str) -> None:
    folder = as_folder(tmp_path / "job")
    (folder / "notes.txt").write_text("of no profiler")
    import_to(folder, tmp_path / "one.aiflame")
    if way == "processes":
        monkeypatch.setattr(many_files, "WORTH", 0)
        monkeypatch.setattr(fan_out, "cpus", lambda: 2)
        import_to(folder, tmp_path / "many.aiflame", where=many_files.Where(1 << 30))
    else:
        distributed = pytest.importorskip("distributed")
        with distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster:
            import_to(folder, tmp_path / "many.aiflame", where=many_files.Where(dask=cluster.scheduler_address))
    assert figures(tmp_path / "many.aiflame") == figures(tmp_path / "one.aiflame") != []


def test_a_folder_of_folders_has_a_rank_in_each(tmp_path: Path) -> None:
    flat, deep = as_folder(tmp_path / "flat"), tmp_path / "deep"
    for rank in (0, 1):
        (deep / f"host{rank}").mkdir(parents=True)
        (deep / f"host{rank}/trace.json").write_bytes(trace(rank))
    (deep / ".cache").write_text("hidden")
    import_to(flat, tmp_path / "flat.aiflame")
    import_to(deep, tmp_path / "deep.aiflame")
    assert figures(tmp_path / "deep.aiflame") == figures(tmp_path / "flat.aiflame")
    assert figures(deep) == figures(flat)
    (deep / "host1/trace.json").write_bytes(trace(1).replace(b"aten::mm", b"aten::bmm"))
    assert figures(deep) != figures(flat)


def test_as_many_files_at_once_as_memory_allows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fan_out, "cpus", lambda: 8)
    megabyte = 1 << 20
    assert many_files.at_once([10 * megabyte] * 2, 100 << 30) == 1  # sooner done than processes start
    assert many_files.at_once([100 * megabyte] * 3, 100 << 30) == 3
    assert many_files.at_once([100 * megabyte] * 64, 100 << 30) == 8
    assert many_files.at_once([100 * megabyte] * 63 + [780 * megabyte], 2_000 * megabyte) == 2
    assert many_files.at_once([100 * megabyte] * 64, 1) == 1


def test_a_script_without_a_guard_opens_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Opening a folder starts no process that would run the script again."""

    def started(*_: object) -> int:
        raise AssertionError("a process was started")

    monkeypatch.setattr(many_files, "WORTH", 0)
    monkeypatch.setattr(fan_out, "_pool", started)
    assert len(figures(as_folder(tmp_path / "job"))) == 2


def cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-20])


@pytest.mark.parametrize("at_once", [False, True], ids=["one after another", "in processes"])
def test_a_damaged_file_among_many_is_left_out_with_a_note(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at_once: bool) -> None:
    if at_once:
        monkeypatch.setattr(many_files, "WORTH", 0)
        monkeypatch.setattr(fan_out, "cpus", lambda: 2)
    folder = as_folder(tmp_path / "job")
    (folder / "rank2.json.gz").write_bytes(gzip.compress(trace(2, 3)))
    for rank in (0, 1):
        (folder / f"rank{rank}.json.gz").write_bytes(gzip.compress(trace(rank, 3)))
    cut(folder / "rank1.json.gz")
    import_to(folder, tmp_path / "many.aiflame", where=many_files.Where(1 << 30))
    profile = aiflame.open(tmp_path / "many.aiflame")
    assert profile.store.table("ranks")["rank"].to_list() == [0, 2]
    (note,) = [note for note in profile.store.meta.degraded if "left out" in note]
    assert note.startswith("rank1.json.gz is left out: cannot unpack rank1.json.gz: ")
    said = run_aiflame("ranks", str(tmp_path / "many.aiflame"), "--json")
    notes = json.loads(said.out)["notes"]
    assert "no trace of rank 1 was read; the job has 3 ranks" in notes and note in notes


def test_in_an_archive_too(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "job.zip", "w") as archive:
        for rank in (0, 1):
            archive.writestr(f"rank{rank}.json.gz", gzip.compress(trace(rank))[: None if rank else -9])
    profile = aiflame.open(tmp_path / "job.zip")
    assert profile.store.meta.job_rank is not None and profile.store.meta.job_rank.rank == 1
    assert any(note.startswith("rank0.json.gz is left out: cannot unpack rank0.json.gz: ") for note in profile.store.meta.degraded)


def test_where_all_files_are_damaged_the_first_says_why(tmp_path: Path) -> None:
    folder = as_folder(tmp_path / "job")
    for file in folder.iterdir():
        cut(file)
    with pytest.raises(AiflameError, match=r"cannot unpack rank0\.json\.gz"):
        import_to(folder, tmp_path / "none.aiflame")
    assert not (tmp_path / "none.aiflame").exists()


def test_a_trace_that_is_cut_short_is_named_beside_the_others(tmp_path: Path) -> None:
    folder = tmp_path / "job"
    folder.mkdir()
    for rank in (0, 1):
        (folder / f"rank{rank}.json").write_bytes(trace(rank)[: None if rank else -2])
    said = run_aiflame("ranks", str(folder), "--json")
    assert "rank 0: the trace is cut short: its end is missing" in json.loads(said.out)["notes"]


def test_traces_of_different_jobs_are_refused(tmp_path: Path) -> None:
    folder = as_folder(tmp_path / "job")
    (folder / "again.json").write_bytes(trace(1))
    with pytest.raises(AiflameError, match=r"different jobs: again\.json and rank1\.json\.gz are both of rank 1; put each job"):
        aiflame.open(folder)
    (folder / "again.json").write_bytes(trace(3, 4))
    with pytest.raises(AiflameError, match=r"again\.json knows 4 ranks in its job, and rank0\.json\.gz 2; put each job"):
        aiflame.open(folder)


def test_a_file_is_imported_once_and_again_where_an_import_was_killed(tmp_path: Path) -> None:
    file = tmp_path / "trace.json"
    file.write_bytes(trace(0))
    place = imported(file)
    kept = next((tmp_path / "cache").glob("aiflame/profiles/*/*.aiflame"))
    written = (kept / "meta.json").stat().st_mtime_ns
    assert imported(file).path == place.path == file
    assert (kept / "meta.json").stat().st_mtime_ns == written
    (kept / "meta.json").unlink()  # it comes last
    assert imported(file).has_file("meta.json")


def test_damaged_archives_are_errors_in_a_sentence(tmp_path: Path) -> None:
    for make in (as_zip, as_tar):
        whole = make(tmp_path / make.__name__).read_bytes()
        for at in range(0, len(whole), 7):
            file = tmp_path / "damaged"
            file.write_bytes(whole[:at] + bytes([whole[at] ^ 0xFF]) + whole[at + 1 :])
            try:
                aiflame.open(file)
            except AiflameError as error:
                assert "\n" not in str(error)


def test_an_archive_that_unpacks_to_far_too_much_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aiflame.exchange.readers.source._HARMLESS", 1 << 10)
    with zipfile.ZipFile(tmp_path / "bomb.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("zeros.json", bytes(1 << 23))
    with pytest.raises(AiflameError, match="unpacks to far more"):
        aiflame.open(tmp_path / "bomb.zip")


def test_a_profile_is_not_imported_and_nothing_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "trace.json").write_bytes(trace(0))
    import_to(tmp_path / "trace.json", tmp_path / "one.aiflame")
    with pytest.raises(AiflameError, match="is a profile already"):
        import_to(tmp_path / "one.aiflame", tmp_path / "two.aiflame")
    with pytest.raises(AiflameError, match="exists"):
        import_to(tmp_path / "trace.json", tmp_path / "one.aiflame")
