"""Gives a wheel its manylinux tag, once it is shown to need no symbol newer than that glibc has: `tag_wheel.py FOLDER`."""

from __future__ import annotations

import io
import re
import subprocess
import sys
import zipfile
from pathlib import Path

from elftools.elf.elffile import ELFFile
from elftools.elf.gnuversions import GNUVerNeedSection

GLIBC = (2, 28)
TAG = f"manylinux_{GLIBC[0]}_{GLIBC[1]}_x86_64"
ALLOWED = {"libc.so.6", "libdl.so.2", "libpthread.so.0", "libm.so.6", "ld-linux-x86-64.so.2"}


def main(folder: Path) -> None:
    for wheel in sorted(folder.glob("*linux_x86_64.whl")):
        if "manylinux" in wheel.name:
            continue
        with zipfile.ZipFile(wheel) as archive:
            for name in archive.namelist():
                if name.endswith(".so"):
                    check(name, archive.read(name))
        subprocess.run([sys.executable, "-m", "wheel", "tags", "--remove", "--platform-tag", TAG, str(wheel)], check=True)


def check(name: str, image: bytes) -> None:
    """Ends the program with a line on the first symbol or library that an older system would not have."""
    for section in ELFFile(io.BytesIO(image)).iter_sections():
        if not isinstance(section, GNUVerNeedSection):
            continue
        for needed, versions in section.iter_versions():
            if needed.name not in ALLOWED:
                sys.exit(f"{name} needs {needed.name}: link it statically")
            for version in versions:
                match = re.fullmatch(r"GLIBC_(\d+)\.(\d+)(?:\.\d+)?", version.name)
                if match and (int(match[1]), int(match[2])) > GLIBC:
                    sys.exit(f"{name} needs {version.name} of {needed.name}: bind an older symbol in native/base/moved_functions.hpp")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
