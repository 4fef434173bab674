"""Programs of a system whose C library does not hold libdl and libpthread yet (before glibc 2.34)."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest
from live import library, plain, processes, recorded

PROGRAMS = Path(__file__).resolve().parents[3] / ".venv/old-system/usr/bin"
"""Files that scripts/test_old_system.py provides."""

SCRIPTS = Path(__file__).resolve().parents[3] / "scripts"
LOOP = "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done; x=$(echo $i); echo $x; exit 3"


def _program(name: str) -> Path:
    if not (PROGRAMS / name).exists():
        pytest.skip("no programs of an old system here (scripts/test_old_system.py)")
    return PROGRAMS / name


@pytest.mark.parametrize("wall_rate", [0, 999])
def test_a_program_linked_with_libc_alone(tmp_path: Path, wall_rate: int) -> None:
    command: list[str | Path] = [_program("dash"), "-c", LOOP]
    alone = plain(command, tmp_path)
    assert (alone.status, alone.stdout) == (3, "300000\n")
    assert recorded(command, tmp_path / "p", wall_rate=wall_rate) == alone
    shell, subshell = processes(tmp_path / "p")
    assert len(shell.table("cpu_samples")) > 20
    assert (subshell.command, len(subshell.table("process_ends"))) == (shell.command, 1)


def test_a_program_with_threads(tmp_path: Path) -> None:
    (tmp_path / "data").write_bytes(b"".join(number.to_bytes(8, "little") for number in range(400_000)))
    command = [_program("xz"), "-T2", "-0", "--block-size=400000", "-c", "data"]
    digest = ["sh", "-c", f"{' '.join(map(str, command))} | sha256sum"]
    alone = plain(digest, tmp_path)
    (tmp_path / "below").mkdir()
    (tmp_path / "below/data").symlink_to(tmp_path / "data")
    assert recorded(digest, tmp_path / "below/p") == alone
    compressor = next(process for process in processes(tmp_path / "below/p") if process.command[0] == str(command[0]))
    threads = compressor.table("threads")
    workers = threads.filter(threads["tid"] != compressor.pid)
    assert len(workers) == 2
    assert len(compressor.table("thread_ends")) == 3
    assert len(compressor.table("cpu_samples")) > 10


def test_no_library_needs_a_newer_system() -> None:
    check = runpy.run_path(str(SCRIPTS / "tag_wheel.py"))["check"]
    libraries = sorted(library().parent.glob("*.so"))
    assert libraries
    for path in libraries:
        check(path.name, path.read_bytes())
