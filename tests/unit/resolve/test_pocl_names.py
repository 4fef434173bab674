"""Functions that PoCL makes of OpenCL kernels are read as those kernels."""

from __future__ import annotations

import pytest

from aiflame.profile.schema.kinds import Kind
from aiflame.resolve.names.readable import readable


@pytest.mark.parametrize(
    "symbol", ["_pocl_kernel_matmul_basic", "_pocl_kernel_matmul_basic_workgroup", "_pocl_kernel_matmul_basic_workgroup_fast"]
)
def test_a_kernel_has_its_own_name_and_kind(symbol: str) -> None:
    name = readable(symbol)
    assert (name.short, name.full, name.kind) == ("matmul_basic", symbol, Kind.GPU_KERNEL)


def test_other_functions_of_pocl_are_functions() -> None:
    assert readable("pocl_check_kernel_disk_cache").kind is Kind.C
