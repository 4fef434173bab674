"""Makes the files of this folder from their sources: `make.py 'FOLDER OF LLVM 22/bin' scale.o`."""

from __future__ import annotations

import gzip
import re
import shlex
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
TRITON = ("gfx942", "gfx950", "gfx1100", "gfx1200")


def main(llvm: str, linked: str) -> None:
    """`llvm`: a folder, with a command before it if its programs need one."""
    compile_with_triton()
    link(linked, HERE / "scale.gfx90a.hsaco")
    *before, folder = shlex.split(llvm)
    for binary in sorted(HERE.glob("*.hsaco")):
        listing = printed([*before, f"{folder}/llvm-objdump", "-d", binary.name])
        write(binary.with_suffix(".dis.gz"), listing)
        addresses = [f"0x{address}" for address in re.findall(r"// ([0-9A-F]{12}):", listing)]
        write(binary.with_suffix(".lines.gz"), lines([*before, f"{folder}/llvm-symbolizer", f"--obj={binary.name}"], addresses))


def compile_with_triton() -> None:
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    sys.path.insert(0, str(HERE))
    from matmul_silu import matmul_silu

    signature = {"a_ptr": "*fp16", "b_ptr": "*fp16", "c_ptr": "*fp32", "n": "i32", "BLOCK": "constexpr"}
    for arch in TRITON:
        source = ASTSource(fn=matmul_silu, signature=signature, constexprs={"BLOCK": 32})
        target = GPUTarget("hip", arch, 64 if arch.startswith("gfx9") else 32)
        compiled = triton.compile(source, target=target, options={"num_warps": 4})
        (HERE / f"matmul_silu.{arch}.hsaco").write_bytes(compiled.asm["hsaco"])
        write(HERE / f"matmul_silu.{arch}.amdgcn.gz", compiled.asm["amdgcn"])


def link(compiled: str, to: Path) -> None:
    from triton._C.libtriton import amd

    amd.link_hsaco(compiled, str(to))
    to.chmod(0o644)


def lines(symbolizer: list[str], addresses: list[str]) -> str:
    """A line for each address: it, then FUNCTION:LINE of each function of its chain."""
    text = printed([*symbolizer, "--output-style=JSON", "--inlines"], "\n".join(addresses))
    import json

    rows = []
    for answer in map(json.loads, text.splitlines()):
        chain = [f"{one['FunctionName']}:{Path(one['FileName']).name}:{one['Line']}" for one in answer["Symbol"]]
        rows.append(" ".join((answer["Address"], *chain)))
    return "\n".join(rows) + "\n"


def printed(command: list[str], given: str = "") -> str:
    return subprocess.run(command, input=given, capture_output=True, text=True, check=True, cwd=HERE).stdout


def write(path: Path, text: str) -> None:
    path.write_bytes(gzip.compress(text.encode(), mtime=0))


if __name__ == "__main__":
    main(*sys.argv[1:])
