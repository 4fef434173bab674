"""The files that commands open while they read profiles, as the kernel sees it: by descriptors below a profile, and none outside."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from hostile_profiles import link, replaced, unsealed

import aiflame

SOURCE = Path(__file__).parents[3]
READER = SOURCE / "tests" / "unit" / "builders" / "read_everything.py"
STRANGER = 12345

_CALL = re.compile(r"^(?:\d+ +)?(\w+)\((.*)\) += (-?\d+|\?)(?:<(.*?)>)?")
_TEXT = r'"((?:[^"\\]|\\.)*)"(?:\.\.\.)?'
_AT = re.compile(rf"(AT_FDCWD|\d+)(?:<((?:[^>\\]|\\.)*)>)?, {_TEXT}(.*)")
_PATH = re.compile(rf"{_TEXT}(.*)")


@dataclass(frozen=True)
class Call:
    """A system call that was given a path."""

    line: str
    name: str
    folder: str
    """the path of its descriptor; empty: it had none"""
    path: str
    flags: str
    opened: str
    """The path that its result refers to."""


def calls(log: Path) -> Iterator[Call]:
    for line in log.read_text(errors="surrogateescape").splitlines():
        match = _CALL.match(line)
        if match is None:
            continue
        name, arguments, _, opened = match.groups()
        at, plain = _AT.match(arguments), _PATH.match(arguments)
        if at is not None:
            yield Call(line, name, "" if at[1] == "AT_FDCWD" else at[2] or "", at[3], at[4], opened or "")
        elif plain is not None:
            yield Call(line, name, "", plain[1], plain[2], opened or "")


def faults(log: Path, profiles: list[Path], allowed: list[str]) -> list[str]:
    """Calls that reach into a profile without its descriptor, follow a link there, or open a file that they should not."""
    lines = []
    for call in calls(log):
        if call.name == "readlink":
            continue  # Polars asks how the file is called whose descriptor it got; it opens nothing by that name
        inside = any(is_below(call.folder, profile) for profile in profiles if call.folder)
        by_path = not call.folder and any(is_below(os.path.normpath(call.path), profile, itself=False) for profile in profiles)
        follows = call.name in ("open", "openat", "creat") and inside and "O_NOFOLLOW" not in call.flags
        looks_through = call.name in ("newfstatat", "statx") and inside and call.path and "AT_SYMLINK_NOFOLLOW" not in call.flags
        deep = inside and ("/" in call.path or call.path == "..")
        foreign = call.opened.startswith("/") and not call.opened.startswith(tuple(allowed))
        if by_path or follows or looks_through or deep or foreign:
            lines.append(call.line)
    return lines


def is_below(path: str, folder: Path, *, itself: bool = True) -> bool:
    return path.startswith(f"{folder}/") or (itself and path == str(folder))


@pytest.fixture(scope="module")
def traced(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Path], Path]:
    """All reading commands over profiles of ours and of somebody else's, sealed and not, whole and with links: the log of strace.
    The first command seals the first profile, and the others read it sealed."""
    if not shutil.which("strace"):
        pytest.skip("strace is not installed")
    folder = tmp_path_factory.mktemp("traced").resolve()
    sealed = unsealed(folder / "sealed.aiflame")
    aiflame.open(sealed)
    profiles = [unsealed(folder / "unsealed.aiflame"), shutil.copytree(sealed, folder / "linked.aiflame")]
    (folder / "outside").mkdir()
    replaced(profiles[-1], "kept", link, folder / "outside" / "a")
    if os.geteuid() == 0:
        for name, source, part in (
            ("their-unsealed", folder / "unsealed.aiflame", ""),
            ("their-sealed", sealed, ""),
            ("their-linked", folder / "unsealed.aiflame", "binaries"),
        ):
            profiles.append(shutil.copytree(source, folder / f"{name}.aiflame"))
            if part:
                replaced(profiles[-1], part, link, folder / "outside" / name)
            for path in [profiles[-1], *profiles[-1].rglob("*")]:
                os.chown(path, STRANGER, STRANGER, follow_symlinks=False)
    for private in ("home", "cwd", "cache", "state", "tmp"):
        (folder / private).mkdir(mode=0o700)
    environment = {
        **{name: value for name, value in os.environ.items() if name in ("PATH", "LANG", "LD_LIBRARY_PATH")},
        "HOME": str(folder / "home"),
        "XDG_CACHE_HOME": str(folder / "cache"),
        "XDG_STATE_HOME": str(folder / "state"),
        "TMPDIR": str(folder / "tmp"),
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONPATH": f"{SOURCE / 'src'}",
        "POLARS_MAX_THREADS": "1",  # several take longer to share tables of a few rows than to read them
    }
    command = ["strace", "-f", "-y", "-qq", "-s", "4096", "-e", "trace=%file", "--seccomp-bpf", "-o", str(folder / "log")]
    command += [sys.executable, str(READER), str(folder / "output"), *map(str, profiles)]
    process = subprocess.run(command, env=environment, cwd=folder / "cwd", capture_output=True, text=True, check=False, timeout=1800)
    if "ptrace" in process.stderr and not (folder / "output").exists():
        pytest.skip(f"strace may not trace here: {process.stderr.splitlines()[0]}")
    assert process.returncode == 0, process.stderr
    return folder, profiles, folder / "log"


def allowed(folder: Path) -> list[str]:
    """The files of Python, aiflame and the system; those that the user named; and our own cache."""
    system = ["/usr/", "/lib", "/etc/", "/proc/", "/sys/", "/dev/", str(SOURCE)]
    python = [sys.prefix, sys.base_prefix, *(path for path in map(os.path.realpath, sys.path) if path)]
    own = [str(folder / name) for name in ("output", "cwd", "cache", "state", "tmp")]
    return [*system, *python, *own, *(str(path) for path in folder.glob("*.aiflame"))]


def test_nothing_is_opened_below_a_profile_but_from_its_descriptor_and_nothing_outside(traced):
    folder, profiles, log = traced
    assert faults(log, profiles, allowed(folder)) == []


def test_the_commands_did_read_the_profiles(traced):
    folder, profiles, log = traced
    opened = {call.opened for call in calls(log)}
    for name in ("tables/cpu_samples/00000.parquet", "kept/graph.txt", "binaries/77-5", "jit/perf-100.map"):
        assert str(profiles[0] / name) in opened, name
    said = [json.loads((folder / "output" / str(number) / "said.json").read_text()) for number in range(len(profiles))]
    whole = [said[0], said[3]] if len(said) > 2 else [said[0]]
    for each in whole:
        assert not any(text.startswith("aiflame: ") and "cannot carry" not in text for text in each.values())
    assert all("kept is a symbolic link" in text for text in said[1].values())


@pytest.mark.parametrize(
    "line",
    [
        'openat(AT_FDCWD, "/p/meta.json", O_RDONLY|O_NOFOLLOW) = 3</p/meta.json>',
        'openat(3</p>, "meta.json", O_RDONLY|O_CLOEXEC) = 4</p/meta.json>',
        '12 openat(3</p/tables>, "../meta.json", O_RDONLY|O_NOFOLLOW) = 4</p/meta.json>',
        'newfstatat(3</p>, "meta.json", {st_mode=S_IFREG|0600}, 0) = 0',
        'stat("/p/meta.json", 0x7ffd) = -1 ENOENT (No such file or directory)',
        'unlink("/p/tables/symbols/old") = 0',
        'openat(AT_FDCWD, "/home/reader/.ssh/key", O_RDONLY) = 3</home/reader/.ssh/key>',
        'openat(3</p>, "meta.json", O_RDONLY|O_NOFOLLOW) = 4</home/reader/.ssh/key>',
    ],
)
def test_a_forbidden_open_is_found(tmp_path, line):
    (tmp_path / "log").write_text(line + "\n")
    assert faults(tmp_path / "log", [Path("/p")], ["/p", "/usr"]) == [line]


@pytest.mark.parametrize(
    "line",
    [
        'openat(AT_FDCWD</cwd>, "/p", O_RDONLY|O_DIRECTORY|O_CLOEXEC) = 3</p>',
        'openat(3</p>, "meta.json", O_RDONLY|O_NOFOLLOW|O_CLOEXEC) = 4</p/meta.json>',
        '7 newfstatat(3</p>, "meta.json", {st_mode=S_IFREG|0600, ...}, AT_SYMLINK_NOFOLLOW) = 0',
        'newfstatat(3</p/x>, "", {st_mode=S_IFREG|0600, ...}, AT_EMPTY_PATH) = 0',
        'openat(AT_FDCWD</cwd>, "/usr/lib/libc.so.6", O_RDONLY|O_CLOEXEC) = 3</usr/lib/libc.so.6>',
        'openat(AT_FDCWD</cwd>, "/home/reader/none", O_RDONLY|O_CLOEXEC) = -1 ENOENT (No such file or directory)',
    ],
)
def test_an_allowed_open_is_not_found(tmp_path, line):
    (tmp_path / "log").write_text(line + "\n")
    assert faults(tmp_path / "log", [Path("/p")], ["/p", "/usr"]) == []
