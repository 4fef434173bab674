"""Intel's drivers for Level Zero and OpenCL and their compiler for the tests, from Debian's unstable suite, and from PyPI its library for
profilers (PTI): `test_intel_driver.py FOLDER`.

The packages (130 MB) are laid into FOLDER with all that they need, their C library included: half a minute, once.
"""

from __future__ import annotations

import sys
import tempfile
import zipfile
from pathlib import Path

from debian_packages import LIBRARIES, Missing, call, download, lay, own_libraries, tools

PACKAGES = [
    *("libze-intel-gpu1", "intel-opencl-icd", "intel-ocloc", "libigc2", "libigdfcl2"),
    *("libze1", "libze-dev", "ocl-icd-libopencl1", "ocl-icd-opencl-dev", "opencl-c-headers"),
]
WHEELS = ["intel-pti==1.2.0", "intel-cmplr-lib-rt==2026.2.0"]
FROM_WHEELS = {"lib/libpti_view.so.1": "libpti_view.so.1", "lib/pti/libpti.so": "pti/libpti.so", "lib/libxptifw.so.1": "libxptifw.so"}
"""End of a file's name in a wheel → its place among the libraries."""


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
        try:
            add_wheels(Path(scratch) / "wheels", root / LIBRARIES)
        except Missing as error:
            print(f"test tools: no PTI of Intel's: {error}; its test will be skipped")
        root.rename(folder)


def add_wheels(wheels: Path, libraries: Path) -> None:
    call(sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(wheels), *WHEELS)
    for wheel in wheels.glob("*.whl"):
        with zipfile.ZipFile(wheel) as archive:
            for name in archive.namelist():
                for end, place in FROM_WHEELS.items():
                    if name.endswith(end):
                        (libraries / place).parent.mkdir(exist_ok=True)
                        (libraries / place).write_bytes(archive.read(name))


if __name__ == "__main__":
    main()
