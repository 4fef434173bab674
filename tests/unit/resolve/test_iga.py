"""Instructions of Intel's GPUs: by Intel's disassembler where it is installed, else where each begins, and its opcode."""

from __future__ import annotations

import re
import shutil
import subprocess
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from zebins import disassemblers, iga64, zebin

from aiflame.resolve.device.iga import IntelCode, IntelInstruction, disassemble, offsets
from aiflame.resolve.device.zebin import Version

KERNELS = [
    ("matmul.lnl", "matmul"),
    ("matmul.lnl", "scale"),
    ("matmul.pvc", "matmul"),
    ("matmul.pvc", "scale"),
    ("matmul.pvc_old", "matmul"),
    ("three.ptl", "third"),
    ("matmul.bmg", "matmul"),
    ("matmul.bmg", "scale"),
]
XE2 = Version(20, 4)

FAKE = r"""
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
struct view { const unsigned char* code; size_t size; };
void* kv_create(uint32_t platform, const void* code, size_t size, int32_t* status, char* e, size_t n, int s) {
  struct view* view = malloc(sizeof *view);
  if (memchr(code, 0xEE, size)) abort();
  *status = platform == 0x02000000 ? 0 : 10;
  view->code = code;
  view->size = size;
  return view;
}
void kv_delete(void* view) { free(view); }
int32_t kv_get_inst_size(const struct view* view, int32_t at) {
  return at < 0 || (size_t)at >= view->size ? 0 : view->code[at + 3] & 0x20 ? 8 : 16;
}
size_t kv_get_inst_syntax(const struct view* view, int32_t at, char* text, size_t room, uint32_t options, void* f, void* c) {
  return snprintf(text, room, view->code[at] == 0x20 ? "jmpi   L%d" : "mov  r%d L1", at);
}
uint32_t kv_get_inst_targets(const struct view* view, int32_t at, int32_t* targets) {
  *targets = at;
  return view->code[at] == 0x20;
}
"""


def code(name: str, kernel: str) -> IntelCode:
    file = zebin(f"{name}.zebin")
    function = file.find(kernel)
    assert function
    return IntelCode(file.version, file.code(function.section))


def piece(*opcodes: int) -> IntelCode:
    """Long instructions."""
    return IntelCode(XE2, b"".join(bytes([opcode, *[0] * 15]) for opcode in opcodes))


@pytest.fixture(scope="module")
def fake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A library with the functions of `libiga64` that ends the process at a byte 0xEE, and knows only Lunar Lake."""
    compiler = shutil.which("cc") or pytest.skip("no C compiler")
    folder = tmp_path_factory.mktemp("iga")
    (folder / "iga.c").write_text(FAKE)
    subprocess.run([compiler, "-shared", "-fPIC", "-o", folder / "libiga64.so.2", folder / "iga.c"], check=True)
    return folder / "libiga64.so.2"


@pytest.mark.parametrize(("name", "kernel"), KERNELS)
def test_without_the_tool_instructions_have_their_offsets_and_opcodes(name: str, kernel: str) -> None:
    (listing,), unread = disassemble([code(name, kernel)], [])
    wanted = iga64(f"{name}.{kernel}")
    assert unread == {0}
    assert [one.offset for one in listing][: len(wanted)] == [offset for offset, _ in wanted]
    for one, (_, text) in zip(listing, wanted, strict=False):
        assert re.match(r"(?:\([^)]*\) )?(\w+)", text)[1] == one.text  # type: ignore[index]


@pytest.mark.parametrize(("name", "kernel"), KERNELS)
def test_texts_are_those_of_iga64(name: str, kernel: str) -> None:
    """But that of a jump, whose target is the offset in the section, not the distance."""
    tools = disassemblers()
    if not tools:
        pytest.skip("no libiga64 here: Debian's libigc2 has it, and Intel's driver that `make test` brings")
    (listing,), unread = disassemble([code(name, kernel)], tools)
    if unread:
        pytest.skip(f"{tools[0]} does not know this GPU")
    wanted = [IntelInstruction(offset, _absolute(offset, text)) for offset, text in iga64(f"{name}.{kernel}")]
    assert listing[: len(wanted)] == wanted


def _absolute(offset: int, text: str) -> str:
    return re.sub(r"(jmpi|goto|while|call|break|join) (-?\d+)$", lambda jump: f"{jump[1]} {offset + int(jump[2]):#x}", text)


def test_the_library_is_asked_in_a_process_of_its_own(fake: Path) -> None:
    """If it ends at one piece of code, that one has opcodes alone, and all others their texts."""
    codes = [piece(0x61, 0x20), piece(0x61, 0xEE), piece(0x41)]
    listings, unread = disassemble(codes, [fake])
    assert unread == {1}
    texts = [[one.text for one in listing] for listing in listings]
    assert texts == [["mov r0 L1", "jmpi 0x10"], ["mov", "ror"], ["mov r0 L1"]]


def test_a_gpu_that_the_library_does_not_know(fake: Path) -> None:
    lunar_lake, other = piece(0x61), IntelCode(Version(12, 60), piece(0x61).code)
    listings, unread = disassemble([other, lunar_lake], [fake])
    assert unread == {0}
    assert [listing[0].text for listing in listings] == ["mov", "mov r0 L1"]


def test_a_library_that_cannot_be_loaded(tmp_path: Path) -> None:
    broken = tmp_path / "libiga64.so"
    broken.write_text("no library")
    listings, unread = disassemble([piece(0x61)], [broken])
    assert unread == {0} and listings[0][0].text == "mov"


def test_cores_older_than_xe_have_no_opcodes() -> None:
    (listing,), _ = disassemble([IntelCode(Version(9, 0), piece(0x61).code)], [])
    assert [one.text for one in listing] == ["opcode_0x61"]


@given(st.binary(max_size=200))
def test_offsets_of_any_bytes_lie_in_them(data: bytes) -> None:
    places = [*offsets(data)]
    assert all(behind - at in (8, 16) for at, behind in pairwise(places))
    assert not places or places[-1] + 8 <= len(data)
