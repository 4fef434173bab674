"""Our reading of line tables against the vendor's own, instruction by instruction."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from cubins import DATA

from aiflame.resolve.device.cubin import Cubin
from aiflame.resolve.device.cubin_lines import CubinLines
from aiflame.resolve.device.nvdisasm import tools

Chain = list[tuple[str, int]]

pytestmark = pytest.mark.skipif(not tools(), reason="no nvdisasm here: pip install nvidia-cuda-nvdisasm")


def printed(name: str) -> Iterator[tuple[str, int, Chain]]:
    """Section, offset and chain of each instruction as `nvdisasm -gi` prints them: a line for each level, innermost first."""
    command: list[str | Path] = [tools()[0], "-c", "-gi", DATA / f"{name}.cubin"]
    chain: Chain = []
    section, fresh = "", True
    for line in subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines():
        if match := re.match(r"\s*\.section\s+(\.text\.[^,]+),", line):
            section, chain = match[1], []
        elif match := re.match(r'\s*//## File "(.*?)", line (\d+)', line):
            chain = [*([] if fresh else chain), (match[1], int(match[2]))]
            fresh = False
        elif match := re.match(r"\s*/\*([0-9a-f]{4,})\*/", line):
            yield section, int(match[1], 16), chain
            fresh = True


@pytest.mark.parametrize("name", ["lines", "linked", "softmax", "plain"])
def test_every_instruction_has_the_lines_that_nvdisasm_prints(name: str):
    code = Cubin((DATA / f"{name}.cubin").read_bytes())
    lines, sections = CubinLines(code), {section.name: index for index, section in enumerate(code.elf.sections)}
    instructions = list(printed(name))
    assert len(instructions) > 100
    for section, offset, chain in instructions:
        ours = [(place.file.path, place.line) for place in reversed(lines.chain(sections[section], offset))]
        assert ours == chain, f"{section}+{offset:#x}"
