"""The runtime of SYCL for its tests, from PyPI: `test_sycl_runtime.py FOLDER`.

The wheels (250 MB) are unpacked into FOLDER (800 MB): a quarter of a minute, once. They are not installed, since they bring libraries of
Intel's that other packages bring, too.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
import zipfile
from pathlib import Path

from debian_packages import Missing, call

PACKAGE = "intel-sycl-rt==2026.2.0"


def main() -> None:
    folder = Path(sys.argv[1]).resolve()
    if folder.exists():
        return
    try:
        provide(folder)
    except Missing as error:
        print(f"test tools: no runtime of SYCL: {error}; its tests will be skipped")


def provide(folder: Path) -> None:
    """The finished folder appears at once, or not at all."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix="making-") as scratch:
        wheels, root = Path(scratch) / "wheels", Path(scratch) / "root"
        call(sys.executable, "-m", "pip", "download", "--quiet", "--dest", str(wheels), PACKAGE)
        for wheel in sorted(wheels.glob("*.whl")):
            with zipfile.ZipFile(wheel) as archive:
                archive.extractall(Path(scratch) / wheel.stem)
            for data in (Path(scratch) / wheel.stem).glob("*.data/data"):
                shutil.copytree(data, root, dirs_exist_ok=True)
        root.rename(folder)


if __name__ == "__main__":
    main()
