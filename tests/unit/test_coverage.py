"""How much is explained, on trees whose shares are known."""

from __future__ import annotations

import pytest
from trees import PROCESS, c, py, tree

from aiflame.analyze.coverage import attributed, resolved, under_file
from aiflame.attribute.tree import Frame, Kind

BOUNDARY = Frame("-", Kind.BOUNDARY)
GEMM, TRITON = Frame("gemm", Kind.GPU_KERNEL), Frame("triton_poi_0", Kind.GPU_KERNEL)
LINE, INSTRUCTION = Frame("poi.py:4", Kind.GPU_LINE), Frame("LDG.E", Kind.GPU_INSTRUCTION)
LOST = Frame("[unattributed: samples dropped]", Kind.UNATTRIBUTED)
OF = tree(
    ((PROCESS, py("step", "/app/train.py"), c("launch"), BOUNDARY, GEMM), 50),
    ((PROCESS, py("step", "/lib/other.py"), BOUNDARY, TRITON, LINE, INSTRUCTION), 30),
    ((PROCESS, py("step", "/lib/other.py"), BOUNDARY, TRITON, LINE), 7),
    ((PROCESS, py("step", "/lib/other.py"), BOUNDARY, TRITON, INSTRUCTION), 3),
    ((PROCESS, LOST), 10),
    ((PROCESS, Frame("[GPU idle]", Kind.GPU_IDLE)), 900),
    ((PROCESS, Frame("[kernels of the driver]", Kind.GPU_KERNEL)), 100),
)


def test_what_lies_under_a_file_s_functions_is_its_share_of_what_ran() -> None:
    assert under_file(OF, "cpu-time", "train.py") == 50 / 200


def test_what_is_unattributed_lacks_to_the_whole() -> None:
    assert attributed(OF, "cpu-time") == 90 / 100


@pytest.mark.parametrize(("kernels", "share"), [("^triton_", 30 / 40), ("gemm", 0.0), ("nothing", 1.0)])
def test_resolved_is_what_has_both_a_line_and_an_instruction(kernels: str, share: float) -> None:
    assert resolved(OF, "cpu-time", kernels) == share
