"""Device code that an attached program had loaded before: that of Triton and Inductor lies in their caches.

CUPTI hands out device code when it is loaded, not later; its samples name the code by a number that only CUPTI computes. So files of the
caches that have a sampled kernel's name are given to the program's copy of CUPTI, in a process of its own, which needs no device."""

from __future__ import annotations

import contextlib
import getpass
import os
import re
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from aiflame.profile.folder.door import Folder

_FOLDER = "cubins"
_NAME = re.compile(r"\w{1,200}")
_LARGEST, _MOST_FILES = 64 << 20, 2000
_LONGEST_S = 60
_SETTINGS = ("TRITON_CACHE_DIR", "TRITON_HOME", "TORCHINDUCTOR_CACHE_DIR", "HOME", "TMPDIR")
_COMPUTE = """import ctypes, sys
class Parameters(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("length", ctypes.c_size_t), ("code", ctypes.c_char_p), ("crc", ctypes.c_uint64)]
compute = ctypes.CDLL(sys.argv[1]).cuptiGetCubinCrc
for path in sys.stdin.read().split("\\0"):
    with open(path, "rb") as file:
        code = file.read()
    one = Parameters(ctypes.sizeof(Parameters), len(code), code, 0)
    print(one.crc if compute(ctypes.byref(one)) == 0 else 0, flush=True)
"""


def keep_earlier(pids: list[int], profile: Folder) -> int:
    """Puts sampled code that is missing in the profile into it; how many files. The programs must still run."""
    missing = _missing(profile)
    until = time.monotonic() + _LONGEST_S
    kept = set[int]()
    asked = set[tuple[str, Path]]()
    for pid in pids if missing else ():
        names = {name for crc, functions in missing.items() if crc not in kept for name in functions}
        cupti = _cupti(pid) if names else None
        if cupti is None:
            continue
        roots = [root for root in caches(_settings(pid)) if (cupti, root) not in asked]
        asked |= {(cupti, root) for root in roots}
        files = [path for root in roots for path in _called(root, names)][:_MOST_FILES]
        for path, crc in zip(files, _numbers(cupti, files, until - time.monotonic()), strict=False):
            if crc in missing.keys() - kept:
                with contextlib.suppress(OSError):
                    profile.make_folder(_FOLDER).put(f"{crc:016x}.cubin", path.read_bytes())
                    kept.add(crc)
    return len(kept)


def _missing(profile: Folder) -> dict[int, set[str]]:
    """Names of sampled functions by the number of their code."""
    from aiflame.profile.spool.process_spool import ProcessSpool

    missing: dict[int, set[str]] = {}
    spool = profile.folder("spool")
    for name in [entry.name for entry in spool.entries() if entry.is_folder and spool.folder(entry.name).has_file("gpu_functions.table")]:
        with ProcessSpool(spool.folder(name), growing=True) as rows:
            for crc, function in rows.rows("gpu_functions").select("cubin", "name").iter_rows():
                if _NAME.fullmatch(function) and not profile.folder(_FOLDER).has_file(f"{crc:016x}.cubin"):
                    missing.setdefault(crc, set()).add(function)
    return missing


def _cupti(pid: int) -> str | None:
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/maps").read_text(errors="replace").splitlines():
            path = line.split(None, 5)[-1]
            if path.startswith("/") and Path(path).name.startswith("libcupti.so"):
                return path
    return None


def _settings(pid: int) -> dict[str, str]:
    """The variables of the program that say where caches are."""
    try:
        texts = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return {}
    pairs = (os.fsdecode(text).partition("=") for text in texts)
    return {name: value for name, _, value in pairs if name in _SETTINGS and value}


def caches(settings: dict[str, str]) -> list[Path]:
    """The folders in which Triton and Inductor keep compiled kernels, as these variables say."""
    roots = [Path(folder) / ".triton/cache" for folder in (settings.get("TRITON_HOME"), settings.get("HOME")) if folder][:1]
    roots += [Path(folder) for folder in (settings.get("TRITON_CACHE_DIR"),) if folder]
    inductor = [settings.get("TORCHINDUCTOR_CACHE_DIR", "")]
    with contextlib.suppress(KeyError, OSError):
        user = re.sub(r'[\\/:*?"<>|]', "_", getpass.getuser())
        inductor.append(f"{settings.get('TMPDIR', '/tmp')}/torchinductor_{user}")
    for folder in filter(None, inductor):
        roots += sorted(Path(folder).glob("triton/*"))
    return [root for root in dict.fromkeys(roots) if root.is_dir()]


def _called(root: Path, names: set[str]) -> Iterator[Path]:
    """Regular files of one of these names, in the folders of a cache."""
    with contextlib.suppress(OSError):
        for folder in sorted(root.iterdir()):
            with contextlib.suppress(OSError):
                for path in folder.iterdir():
                    if path.suffix == ".cubin" and path.stem in names:
                        status = path.lstat()
                        if stat.S_ISREG(status.st_mode) and status.st_size <= _LARGEST:
                            yield path


def _numbers(cupti: str, files: list[Path], seconds: float) -> list[int]:
    """CUPTI's number of each; 0: it has none."""
    if not files or seconds <= 0:
        return []
    command = [sys.executable, "-I", "-c", _COMPUTE, cupti]
    try:
        child = subprocess.run(command, input="\0".join(map(str, files)), capture_output=True, text=True, timeout=seconds, check=False)
        return [int(line) for line in child.stdout.split()]
    except (OSError, ValueError, subprocess.SubprocessError):
        return []
