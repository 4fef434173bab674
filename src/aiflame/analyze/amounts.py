"""Formats amounts for people, in sentences and in tables."""

from __future__ import annotations

FLOP_RATE = "FLOP/s"
_TIMES = ((1e9, "s"), (1e6, "ms"), (1e3, "µs"), (1, "ns"))
_ENERGIES = ((1e12, "MJ"), (1e9, "kJ"), (1e6, "J"), (1e3, "mJ"), (1, "µJ"))
_RATES = ((1e15, "PFLOP/s"), (1e12, "TFLOP/s"), (1e9, "GFLOP/s"), (1e6, "MFLOP/s"))
_BYTES = ((1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"))


def amount(value: float, unit: str) -> str:
    """1.23 s, 4.5 MiB, 12.3 J, 1,234 samples."""
    if unit == "ns":
        size, name = next((step for step in _TIMES if abs(value) >= step[0]), _TIMES[-1])
        return f"{_three(value / size)} {name}"
    if unit == "µJ":
        size, name = next((step for step in _ENERGIES if abs(value) >= step[0]), _ENERGIES[-1])
        return f"{_three(value / size)} {name}"
    if unit == FLOP_RATE:
        size, name = next((step for step in _RATES if abs(value) >= step[0]), _RATES[-1])
        return f"{_three(value / size)} {name}"
    if unit == "bytes":
        size, name = next((step for step in _BYTES if abs(value) >= step[0]), (1, "bytes"))
        return f"{_three(value / size)} {name}"
    return f"{value:,} {unit}"


def share(part: int, whole: int) -> str:
    percent = 100 * part / whole if whole else 0.0
    return "<0.01%" if 0 < percent < 0.01 else f"{percent:.{2 if percent < 1 else 1}f}%"


def _three(value: float) -> str:
    """The value with three significant digits."""
    digits = max(0, 2 - (len(str(int(abs(value)))) - 1))
    text = f"{value:,.{digits}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text
