"""The peaks of devices, by the vendor's data sheets: bandwidth of their memory, and dense arithmetic at the boost clock."""

from __future__ import annotations

import re

from aiflame.values import dataclass

TB, TFLOPS = 1e12, 1e12


@dataclass(frozen=True, slots=True)
class Peaks:
    memory: float
    """Bytes a second of the device's DRAM."""
    bf16: float
    """Operations a second of tensor cores, without sparsity, for bfloat16 or float16 with sums in float32; 0 where they have no such type,
    as with the other fields."""
    tf32: float
    fp8: float
    fp64: float
    """On tensor cores."""
    fp32: float
    """Without tensor cores."""
    warps: int
    """That a multiprocessor holds at once."""
    source: str
    """The vendor's text that has these figures."""


def _of(memory: float, bf16: float, tf32: float, fp8: float, fp64: float, fp32: float, warps: int, source: str) -> Peaks:
    return Peaks(memory * TB, bf16 * TFLOPS, tf32 * TFLOPS, fp8 * TFLOPS, fp64 * TFLOPS, fp32 * TFLOPS, warps, source)


_HOPPER, _HOPPER_2 = "NVIDIA H100 Tensor Core GPU data sheet", "NVIDIA H200 Tensor Core GPU data sheet"
_GRACE = "NVIDIA GH200 Grace Hopper Superchip data sheet"
_AMPERE, _AMPERE_A800 = "NVIDIA A100 Tensor Core GPU data sheet", "NVIDIA A800 Tensor Core GPU data sheet"
_VOLTA = "NVIDIA V100 Tensor Core GPU data sheet"
_ADA, _AMPERE_RTX = "NVIDIA Ada GPU architecture white paper", "NVIDIA GA102 GPU architecture white paper"

DEVICES: tuple[tuple[str, Peaks], ...] = (
    # name in the driver: TB/s, then TFLOPS: bf16, tf32, fp8, fp64 (tensor cores), fp32 (none); warps
    (r"\bGB200\b", _of(8.0, 2500, 1250, 5000, 40, 80, 64, "NVIDIA GB200 NVL72 data sheet")),
    (r"\bB200\b", _of(8.0, 2250, 1125, 4500, 37, 75, 64, "NVIDIA DGX B200 data sheet")),
    (r"\bGH200 144G", _of(4.9, 989.5, 494.7, 1979, 66.9, 66.9, 64, _GRACE)),
    (r"\bGH200\b", _of(4.0, 989.5, 494.7, 1979, 66.9, 66.9, 64, _GRACE)),
    (r"\bH200 NVL\b", _of(4.8, 835.5, 417.7, 1670.5, 60, 60, 64, _HOPPER_2)),
    (r"\bH200\b", _of(4.8, 989.5, 494.7, 1979, 66.9, 66.9, 64, _HOPPER_2)),
    (r"\bH100 NVL\b", _of(3.9, 835.5, 417.7, 1670.5, 60, 60, 64, _HOPPER)),
    (r"\bH100 PCIe\b", _of(2.0, 756.5, 378, 1513, 51.2, 51.2, 64, _HOPPER)),
    (r"\bH100\b", _of(3.35, 989.5, 494.7, 1979, 66.9, 66.9, 64, _HOPPER)),
    (r"\bA100-SXM.*80GB", _of(2.039, 312, 156, 0, 19.5, 19.5, 64, _AMPERE)),
    (r"\bA100.*80GB", _of(1.935, 312, 156, 0, 19.5, 19.5, 64, _AMPERE)),
    (r"\bA100\b", _of(1.555, 312, 156, 0, 19.5, 19.5, 64, _AMPERE)),
    (r"\bA800-SXM.*80GB", _of(2.039, 312, 156, 0, 19.5, 19.5, 64, _AMPERE_A800)),
    (r"\bA800.*80GB", _of(1.935, 312, 156, 0, 19.5, 19.5, 64, _AMPERE_A800)),
    (r"\bA30\b", _of(0.933, 165, 82, 0, 10.3, 10.3, 64, "NVIDIA A30 Tensor Core GPU data sheet")),
    (r"\bA40\b", _of(0.696, 149.7, 74.8, 0, 0, 37.4, 48, "NVIDIA A40 data sheet")),
    (r"\bRTX A6000\b", _of(0.768, 154.8, 77.4, 0, 0, 38.7, 48, _AMPERE_RTX)),
    (r"\bA10G\b", _of(0.6, 70, 35, 0, 0, 35, 48, "NVIDIA A10G data sheet")),
    (r"\bA10\b", _of(0.6, 125, 62.5, 0, 0, 31.2, 48, "NVIDIA A10 Tensor Core GPU data sheet")),
    (r"\bL40S\b", _of(0.864, 362, 183, 733, 0, 91.6, 48, "NVIDIA L40S data sheet")),
    (r"\bL40\b", _of(0.864, 181, 90.5, 362, 0, 90.5, 48, "NVIDIA L40 data sheet")),
    (r"\bL4\b", _of(0.3, 121, 60, 242.5, 0, 30.3, 48, "NVIDIA L4 data sheet")),
    (r"\b6000 Ada\b", _of(0.96, 364.2, 182.1, 728.5, 0, 91.1, 48, _ADA)),
    (r"\bRTX 5090\b", _of(1.792, 209.5, 104.8, 419, 0, 104.8, 48, "NVIDIA RTX Blackwell GPU architecture white paper")),
    (r"\bRTX 4090\b", _of(1.008, 165.2, 82.6, 330.3, 0, 82.6, 48, _ADA)),
    (r"\bRTX 3090\b", _of(0.936, 71, 35.6, 0, 0, 35.6, 48, _AMPERE_RTX)),
    (r"\bV100S", _of(1.134, 130, 0, 0, 0, 16.4, 64, _VOLTA)),
    (r"\bV100-PCIE", _of(0.9, 112, 0, 0, 0, 14, 64, _VOLTA)),
    (r"\bV100\b", _of(0.9, 125, 0, 0, 0, 15.7, 64, _VOLTA)),
    (r"\bT4\b", _of(0.32, 65, 0, 0, 0, 8.1, 32, "NVIDIA T4 data sheet")),
    (r"\bMI355X\b", _of(8.0, 2516.6, 0, 5033.2, 78.6, 157.3, 32, "AMD Instinct MI355X data sheet")),
    (r"\bMI325X\b", _of(6.0, 1307.4, 653.7, 2614.9, 163.4, 163.4, 32, "AMD Instinct MI325X data sheet")),
    (r"\bMI300X\b", _of(5.3, 1307.4, 653.7, 2614.9, 163.4, 163.4, 32, "AMD Instinct MI300X data sheet")),
)


OTHERS = re.compile(r"\bMIG\b|\bLaptop\b|\bMax-Q\b|\bRTX \d{4} (Ti|SUPER|D)\b")
"""Parts of a device, and devices with other figures than the one whose name they begin with: `NVIDIA GeForce RTX 4090 Laptop GPU`."""


def peaks(name: str) -> Peaks | None:
    """By the name that the driver gives; None for a device that is not listed, a part of one (MIG), or another one of nearly its name."""
    if OTHERS.search(name):
        return None
    return next((row for pattern, row in DEVICES if re.search(pattern, name)), None)
