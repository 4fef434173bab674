"""Blocks that a multiprocessor holds at once."""

from __future__ import annotations

import pytest

from aiflame.analyze.device.limits import device, residency

H100 = device("NVIDIA H100 80GB HBM3 [0]")


@pytest.mark.parametrize(
    ("name", "multiprocessors"),
    [
        ("NVIDIA H100 80GB HBM3", 132),
        ("NVIDIA H100 PCIe", 114),
        ("NVIDIA H200 [1]", 132),
        ("NVIDIA A100-SXM4-40GB", 108),
        ("NVIDIA L40S", 142),
        ("NVIDIA L4", 58),
        ("Tesla T4", 40),
        ("NVIDIA H100 80GB HBM3 MIG 1g.10gb", None),
        ("NVIDIA H800 PCIe", 114),
        ("NVIDIA GeForce RTX 4090", 128),
        ("NVIDIA GeForce RTX 4090 Laptop GPU [0]", None),
        ("NVIDIA GeForce RTX 4090 D", None),
        ("NVIDIA GeForce RTX 3090 Ti", None),
        ("pthread-cpu", None),
    ],
)
def test_a_device_is_known_by_its_name(name: str, multiprocessors: int | None) -> None:
    limits = device(name)
    assert (limits.multiprocessors if limits else None) == multiprocessors


@pytest.mark.parametrize(
    ("threads", "registers", "shared", "blocks", "limited_by"),
    [
        (256, 32, 0, 8, "block"),
        (1024, 33, 0, 1, "registers"),
        (256, 255, 0, 1, "registers"),
        (128, 168, 0, 3, "registers"),
        (128, 0, 48 << 10, 4, "shared"),
        (32, 16, 0, 32, "block"),
        (1000, 16, 0, 2, "block"),
    ],
)
def test_the_resource_that_limits_the_blocks_of_a_multiprocessor_is_named(
    threads: int, registers: int, shared: int, blocks: int, limited_by: str
) -> None:
    """Values of the CUDA occupancy calculator for compute capability 9.0."""
    assert H100 is not None
    fit = residency(H100, threads, registers, shared)
    assert fit is not None
    assert (fit.blocks, fit.limited_by) == (blocks, limited_by)


def test_blocks_that_cannot_be_have_no_residency() -> None:
    assert H100 is not None
    assert residency(H100, 0, 32, 0) is None
    assert residency(H100, 1024, 32, 300 << 10) is None
