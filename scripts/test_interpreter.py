"""A CPython of Debian's unstable suite for the tests: `test_interpreter.py VERSION FOLDER`.

Its packages are laid into FOLDER with all that they need, their C library included.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from debian_packages import LIBRARIES, Missing, download, lay, own_libraries, tools


def main() -> None:
    version, folder = sys.argv[1], Path(sys.argv[2]).resolve()
    if (folder / "usr/bin" / f"python{version}").exists():
        return
    try:
        provide(version, folder)
    except Missing as error:
        print(f"test tools: no CPython {version}: {error}; its tests will be skipped unless another is on PATH")


def provide(version: str, folder: Path) -> None:
    """The finished interpreter appears in `folder` at once, or not at all."""
    patchelf = tools()
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix="making-") as scratch:
        root = Path(scratch) / "root"
        lay(download("sid", [f"python{version}", "libstdc++6"], Path(scratch) / "apt"), root)
        # Leads into the machine's own /etc.
        (root / "usr/lib" / f"python{version}" / "sitecustomize.py").unlink(missing_ok=True)
        own_libraries(patchelf, root / "usr/bin" / f"python{version}", folder / LIBRARIES)
        root.rename(folder)


if __name__ == "__main__":
    main()
