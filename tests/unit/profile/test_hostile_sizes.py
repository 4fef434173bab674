"""Recordings whose files state large numbers at each place of their beginning are opened or refused with little memory."""

from __future__ import annotations

from pathlib import Path

import pytest
from hostile_profiles import unsealed
from little_memory import said

READ = """
import shutil, struct, sys
from pathlib import Path
import aiflame
from aiflame.errors import AiflameError
from aiflame.profile.schema.all_tables import TABLES
whole, place, how = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]
aiflame.open(shutil.copytree(whole, place / "first.aiflame")).tree()
parts = sorted(path.relative_to(whole) for path in whole.rglob("*") if path.is_file())
limit()
for number, part in enumerate(parts):
    profile = place / f"{number}.aiflame"
    shutil.copytree(whole, profile)
    path = profile / part
    data = bytearray(path.read_bytes())
    for at in range(8, min(len(data) - 8, 256), 4):
        data[at:at + 4] = struct.pack("<I", int(how))
    path.write_bytes(data)
    try:
        opened = aiflame.open(profile)
        for table in TABLES:
            opened.table(table.name)
        opened.tree()
        print(part, "opened")
    except AiflameError as error:
        print(part, "refused:", error)
    shutil.rmtree(profile)
"""


@pytest.mark.parametrize("number", [0xFFFFFFFF, 1 << 30])
def test_no_file_makes_a_command_take_the_memory_that_the_file_claims(tmp_path: Path, number: int) -> None:
    whole = unsealed(tmp_path / "whole.aiflame")
    (tmp_path / "place").mkdir()
    answers = said(READ, whole, tmp_path / "place", str(number), megabytes=1024).splitlines()
    parts = [path for path in whole.rglob("*") if path.is_file()]
    assert len(answers) == len(parts) > 20
    assert all(" opened" in line or " refused: " in line for line in answers)


READ_HOLES = """
import sys
import aiflame
limit()
print(len(aiflame.open(sys.argv[1]).table("telemetry")))
"""


def test_a_file_of_telemetry_with_a_large_hole_is_read_past_it(tmp_path: Path) -> None:
    profile = unsealed(tmp_path / "p.aiflame")
    with (profile / "telemetry/00-memory.records").open("r+b") as file:
        file.truncate(2 << 30)
    assert said(READ_HOLES, profile, megabytes=6000, seconds=40).strip() == "2"
