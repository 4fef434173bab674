"""The unit tests on other CPythons: `test_pythons.py [--quick] [--only VERSION] CONSTRAINTS PACKAGE...`.

Each Python gets the packages in its own folder of .venv/pythons. A Python that is missing, or has no wheels yet, is skipped by name.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))
from interpreters import VERSIONS, interpreter  # noqa: E402

UNIT = ROOT / "tests" / "unit"
FOLDERS = ROOT / ".venv" / "pythons"
# A few minutes on each Python: reading, writing, resolving, and the code that runs inside of the programs that we record.
QUICK = (
    "test_analysis", "test_attribute", "test_collapsed", "test_commands", "test_division", "test_errors", "test_facts",
    "test_import_circles", "test_imports", "test_kernel_names", "test_layout", "test_perfetto", "test_profile_meta", "test_profile_store",
    "test_python_lines", "test_region", "test_report_tables", "test_spans", "test_speedscope", "test_svg", "test_target_bootstrap",
    "test_target_numbers", "test_terminal", "test_timeline", "test_top", "test_transforms", "test_tree",
)  # fmt: skip
# Minutes on any Python, and no other code than on the Python of `make test`.
SLOW = ("test_cubin_against_nvdisasm", "test_hostile_profile", "test_hostile_sizes", "test_parquet_bombs", "test_pins", "test_profile_fuzz")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a subset, a few minutes for each Python")
    parser.add_argument("--only", action="append", choices=VERSIONS, help="this Python (may be given again)")
    parser.add_argument("constraints")
    parser.add_argument("packages", nargs="+")
    asked = parser.parse_args()
    failed = [version for version in asked.only or VERSIONS if not passes(version, asked)]
    if failed:
        print(f"test-interpreters: tests failed on CPython {', '.join(failed)}")
    return bool(failed)


def passes(version: str, asked: argparse.Namespace) -> bool:
    """A Python that cannot be tested passes, and says why."""
    python = interpreter(version)
    if not python:
        print(f"test-interpreters: no CPython {version} here: skipped")
        return True
    folder = FOLDERS / version
    if not provide(python, folder, asked.constraints, asked.packages):
        print(f"test-interpreters: packages for CPython {version} could not be installed (pip's reason is above): skipped")
        return True
    print(f"test-interpreters: CPython {version}", flush=True)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(folder)])}
    command = [python, "-m", "pytest", "-q", "-p", "no:cacheprovider", *chosen(asked.quick)]
    return subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode == 0


def provide(python: str, folder: Path, constraints: str, packages: list[str]) -> bool:
    """Wheels alone: no test builds another's sources."""
    wanted = "\n".join([*packages, Path(constraints).read_text()])
    stamp = folder / ".installed"
    if stamp.exists() and stamp.read_text() == wanted:
        return True
    options = ["--quiet", "--only-binary", ":all:", "--upgrade", "--target", str(folder), "--constraint", constraints]
    if subprocess.run([sys.executable, "-m", "pip", "--python", python, "install", *options, *packages], check=False).returncode:
        return False
    stamp.write_text(wanted)
    return True


def chosen(quick: bool) -> list[str]:
    if quick:
        return [file_of(name) for name in QUICK]
    return [str(UNIT), *(f"--ignore={file_of(name)}" for name in SLOW)]


def file_of(name: str) -> str:
    """Fails where the file has another name now."""
    (path,) = UNIT.rglob(f"{name}.py")
    return str(path)


if __name__ == "__main__":
    sys.exit(main())
