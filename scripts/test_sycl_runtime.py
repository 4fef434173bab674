"""The runtime of SYCL for its test, from PyPI: `test_sycl_runtime.py FOLDER`.

The wheels (250 MB) are unpacked into FOLDER (800 MB): a minute, once. They are not installed, since they bring libraries of Intel's that
other packages bring, too.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

PACKAGE = "intel-sycl-rt==2026.2.0"


def main() -> None:
    folder = Path(sys.argv[1]).resolve()
    if folder.exists():
        return
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix="making-") as scratch:
        wheels, root = Path(scratch) / "wheels", Path(scratch) / "root"
        subprocess.run([sys.executable, "-m", "pip", "download", "--quiet", "--dest", str(wheels), PACKAGE], check=True)
        for wheel in sorted(wheels.glob("*.whl")):
            with zipfile.ZipFile(wheel) as archive:
                archive.extractall(Path(scratch) / wheel.stem)
            for data in (Path(scratch) / wheel.stem).glob("*.data/data"):
                shutil.copytree(data, root, dirs_exist_ok=True)
        root.rename(folder)


if __name__ == "__main__":
    main()
