"""Programs of Debian 11 for the tests, whose C library does not hold libdl and libpthread yet: `test_old_system.py FOLDER`."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from debian_packages import LIBRARIES, Missing, download, lay, own_libraries, tools

PACKAGES = ["libc6", "dash", "xz-utils", "liblzma5"]
PROGRAMS = ("dash", "xz")


def main() -> None:
    folder = Path(sys.argv[1]).resolve()
    if folder.exists():
        return
    try:
        provide(folder)
    except Missing as error:
        print(f"test tools: no programs of an old system: {error}; their tests will be skipped")


def provide(folder: Path) -> None:
    """The finished programs appear in `folder` at once, or not at all."""
    patchelf = tools()
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix="making-") as scratch:
        root = Path(scratch) / "root"
        lay(download("bullseye", PACKAGES, Path(scratch) / "apt", dependencies=False), root)
        for program in PROGRAMS:
            own_libraries(patchelf, root / "usr/bin" / program, folder / LIBRARIES)
        root.rename(folder)


if __name__ == "__main__":
    main()
