"""Names of functions in `perf.data`: those of the files of this machine that have the build ids of the recording, and no others."""

from __future__ import annotations

import ctypes
import os
import time
from pathlib import Path

import pytest
from perf_files import CODE, HIGH, KERNEL, USER, PerfFile

import aiflame
from aiflame.exchange.readers.door import import_to
from aiflame.profile.schema.kinds import Kind
from aiflame.resolve.files.elf_file import ElfFile

PERIOD = 10_000_000


def library() -> tuple[str, int, bytes]:
    """Path of libc in this process, the offset of `getppid` in it, and its build id."""
    address = ctypes.cast(ctypes.CDLL(None).getppid, ctypes.c_void_p).value
    assert address is not None
    for line in Path("/proc/self/maps").read_text().splitlines():
        place, _, offset, _, _, *path = line.split()
        begin, end = (int(one, 16) for one in place.split("-"))
        if begin <= address < end:
            elf = ElfFile.open(Path(path[0]))
            assert elf is not None and elf.build_id
            return path[0], address - begin + int(offset, 16), elf.build_id
    raise AssertionError("getppid is in no file")


def own(profile: aiflame.Profile) -> dict[str, Kind]:
    """The innermost frame of each sample, with its kind."""
    tree = profile.tree("cpu-time")
    frames = tree.frames.select("name", "kind").rows()
    return {
        frames[tree.frame[node]][0]: frames[tree.frame[node]][1] for node, value in enumerate(tree.values["cpu-time"].tolist()) if value
    }


def opened(perf: PerfFile, folder: Path, host: str = "host") -> aiflame.Profile:
    return imported(perf.as_file(host=host), folder)


def imported(data: bytes, folder: Path) -> aiflame.Profile:
    """Past the cache, which knows nothing of other files."""
    (folder / "perf.data").write_bytes(data)
    import_to(folder / "perf.data", folder / "made")
    return aiflame.open(folder / "made")


@pytest.mark.parametrize("way", ["table", "pipe", "mapping", "cache", "another", "none"])
def test_a_library_with_the_build_id_names_its_functions(way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    path, offset, build_id = library()
    shown = path
    if way == "cache":  # the library that ran lies elsewhere; perf has kept it
        shown = "/gone" + path
        kept = tmp_path / ".debug" / ".build-id" / build_id.hex()[:2] / build_id.hex()[2:]
        kept.mkdir(parents=True)
        (kept / "elf").symlink_to(path)
    perf = PerfFile()
    perf.map(10, CODE, 0x1000, offset & ~0xFFF, shown, build_id=build_id if way == "mapping" else b"")
    if way not in ("mapping", "none"):
        perf.build_ids[shown] = build_id[::-1] if way == "another" else build_id
    perf.sample(10, 10, 1_000_000, [USER, CODE + (offset & 0xFFF) + 1])
    profile = imported(perf.as_pipe(), tmp_path) if way == "pipe" else opened(perf, tmp_path)
    missing = f"{Path(path).name}+0x{offset + 1:x}"
    assert own(profile) == {missing if way in ("another", "none") else "getppid": Kind.C}
    notes = " ".join(profile.store.meta.degraded)
    assert ("is not on this machine" in notes) == (way in ("another", "none"))


def test_the_kernels_symbols_beside_the_recording_are_moved_to_where_it_ran(tmp_path: Path) -> None:
    """The kernel of the table lay 0x200000 lower."""
    (tmp_path / "kcore_dir").mkdir()
    low = HIGH - 0x20_0000
    (tmp_path / "kcore_dir" / "kallsyms").write_text(
        f"{low:016x} T _text\n{low + 0x40:016x} t do_work\n{low + 0x80:016x} D data\n{low + 0xC0:016x} T other\t[module]\nbroken\n"
    )
    perf = PerfFile()
    perf.map(-1, HIGH, 0x10_0000, HIGH, "[kernel.kallsyms]_text")
    perf.sample(10, 10, 1_000_000, [KERNEL, HIGH + 0x41])
    perf.sample(10, 10, 2_000_000, [KERNEL, HIGH + 0x90])
    perf.sample(10, 10, 3_000_000, [KERNEL, HIGH + 0xC0, HIGH + 0x80])
    tree = opened(perf, tmp_path).tree("cpu-time")
    names = tree.frames["name"].to_list()
    assert {names[tree.frame[node]]: value for node, value in enumerate(tree.values["cpu-time"].tolist()) if value} == {
        "do_work": 2 * PERIOD,
        "other": PERIOD,
    }
    (node,) = (node for node in range(len(tree.frame)) if names[tree.frame[node]] == "other")
    assert names[tree.frame[tree.parent[node]]] == "do_work", "an address behind a call belongs to the function with the call"


def test_a_kernel_that_hides_its_addresses_names_nothing(tmp_path: Path) -> None:
    (tmp_path / "kcore_dir").mkdir()
    (tmp_path / "kcore_dir" / "kallsyms").write_text(f"{0:016x} T _text\n{0:016x} t do_work\n")
    perf = PerfFile()
    perf.map(-1, HIGH, 0x10_0000, HIGH, "[kernel.kallsyms]_text")
    perf.sample(10, 10, 1_000_000, [KERNEL, HIGH + 0x41])
    assert own(opened(perf, tmp_path)) == {f"0x{HIGH + 0x41:x}": Kind.OS_KERNEL}


@pytest.mark.parametrize("why", ["", "another machine", "too old", "too new"])
def test_the_map_of_a_process_that_was_recorded_here_names_its_code(why: str, tmp_path: Path) -> None:
    pid = 0x7000_0000 + os.getpid()  # no process has such a number
    file = Path(f"/tmp/perf-{pid}.map")
    file.write_text("10000 100 py::inner:/src/a.py\n10100 100 stub\n")
    try:
        shift = {"too old": -100, "too new": 100}.get(why, 0)
        os.utime(file, (time.time() + shift,) * 2)
        perf = PerfFile()
        perf.sample(pid, pid, 1_000_000_000, [USER, 0x10010])
        perf.sample(pid, pid, 4_000_000_000, [USER, 0x10110])
        profile = opened(perf, tmp_path, host="elsewhere" if why == "another machine" else os.uname().nodename)
    finally:
        file.unlink()
    assert own(profile) == ({"0x10010": Kind.C, "0x10110": Kind.C} if why else {"inner": Kind.PYTHON, "stub": Kind.C})
