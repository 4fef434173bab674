"""Small programs, compiled when a test needs them, that print the names and lines which the resolver has to find."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path

from aiflame.resolve.files.elf_file import ElfFile

SOURCE = """\
#include <cstdio>
#include <cstdlib>

extern "C" char __executable_start;

namespace app {

__attribute__((noinline)) void mark(const char* name) {
  char* address = (char*)__builtin_return_address(0);
  printf("%s %lx\\n", name, (unsigned long)(BASE ? address - &__executable_start : (long)address));
}

__attribute__((noinline, noreturn)) void leave() {
  mark("unused");
  printf("dies %lx\\n", (unsigned long)(BASE ? (char*)__builtin_return_address(0) - &__executable_start
                                               : (long)__builtin_return_address(0)));
  exit(0);
}

static inline __attribute__((always_inline)) int leaf(int x) {
  mark("leaf");  // in leaf
  return x * 3;
}

static inline __attribute__((always_inline)) int middle(int x) {
  int y = leaf(x);  // in middle
  return y ^ 5;
}

template <class T>
__attribute__((noinline)) T outer(T x) {
  T y = middle(x);  // in outer
  mark("outer");  // at the end of outer
  return y + 1;
}

static __attribute__((noinline)) int hidden(int x) {
  mark("hidden1");
  mark("hidden2");
  return x + 1;
}

__attribute__((noinline)) void dies() { leave(); }

}  // namespace app

extern "C" __attribute__((noinline)) int plain_c(int x) {
  app::mark("plain_c");  // in plain_c
  return x + 2;
}

asm(R"(
  .text
  .p2align 4
  .globl short_one
  .type short_one, @function
short_one:
  nop
  .size short_one, . - short_one
  nop
  nop
  .p2align 4
  .globl known
  .type known, @function
known:
  nop
  vfmadd231ps %ymm2, %ymm1, %ymm0
  ret
  .size known, . - known
  .p2align 4
  .globl without_size
without_size:
  nop
  nop
  ret
  .p2align 4
  .globl __with_alias
  .type __with_alias, @function
  .weak with_alias
  .type with_alias, @function
__with_alias:
with_alias:
  nop
  ret
  .size __with_alias, . - __with_alias
  .size with_alias, . - with_alias
)");

int main(int argc, char**) {
  volatile int kept = app::outer(argc) + app::hidden(argc) + plain_c(argc);
  (void)kept;
  app::dies();
}
"""


@dataclass(frozen=True, slots=True)
class Binary:
    """A compiled program; `marks` are return addresses that it printed, `symbols` those of `nm`, as (start, size)."""

    path: Path
    build_id: bytes
    marks: dict[str, int]
    symbols: dict[str, tuple[int, int]]
    source: Path

    def line(self, comment: str) -> int:
        lines = self.source.read_text().splitlines()
        return next(number for number, line in enumerate(lines, 1) if line.endswith(f"// {comment}"))


def build(folder: Path, *flags: str, name: str = "program", pie: bool = True) -> Binary:
    folder.mkdir(parents=True, exist_ok=True)
    source, path = folder / f"{name}.cpp", folder / name
    source.write_text(SOURCE)
    mode = ["-fPIE", "-pie", "-DBASE=1"] if pie else ["-fno-pie", "-no-pie", "-DBASE=0"]
    run("g++", "-O2", "-g", "-march=haswell", *mode, *flags, "-o", path, source)
    printed = run(path).split()
    marks = {printed[at]: int(printed[at + 1], 16) for at in range(0, len(printed), 2)}
    elf = ElfFile.open(path)
    assert elf is not None
    return Binary(path, elf.build_id, marks, symbols(path), source)


def symbols(path: Path) -> dict[str, tuple[int, int]]:
    places = {}
    for line in run("nm", "--print-size", "--demangle", path).splitlines():
        address, *fields = line.split(maxsplit=3)
        if len(fields) == 3:
            places[fields[2].partition("(")[0]] = int(address, 16), int(fields[0], 16)
        elif len(fields) == 2 and len(address) == 16:
            places[fields[1]] = int(address, 16), 0
    return places


def run(*command: str | Path) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout
