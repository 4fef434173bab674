"""Compiles the demo's kernels for Level Zero: `demo_spirv.py OCLOC` makes src/aiflame/demo/matmul.spv of matmul.cl.

`make test` lays Intel's compiler into .venv/intel-driver/usr/bin.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

from aiflame.demo.spirv import CODE, SOURCE, mark, strings, with_strings


def main() -> None:
    CODE.write_bytes(compiled(Path(sys.argv[1]).resolve()))


def compiled(compiler: Path) -> bytes:
    """SPIR-V for any device, with the lines of the source, and without a path of this machine."""
    with tempfile.TemporaryDirectory() as folder:
        options = ["-device", "lnl-m", "-spv_only", "-output", "kernels", "-output_no_suffix", "-options", "-gline-tables-only"]
        subprocess.run([compiler, "compile", "-q", "-file", SOURCE, *options], cwd=folder, check=True)
        (output,) = Path(folder).glob("kernels*")
        code = output.read_bytes()
        # The compiler reads the source from memory: its files are `1` and `<stdin>`. Drivers crash at an empty path.
        paths = [text for text in strings(code) if text.startswith(str(Path(folder).resolve()))]
    return with_strings(code, dict.fromkeys(paths, mark(SOURCE.read_bytes())))


if __name__ == "__main__":
    main()
