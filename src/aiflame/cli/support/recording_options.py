"""Options that `record`, `attach` and `agent` share. Standard library alone."""

from __future__ import annotations

import argparse
from collections.abc import Callable

from aiflame.recorder.options import INTERVAL_MS


def add_samples(options: argparse._ActionsContainer, hint: str = "", *, cpu_rate: int = 199, wall_rate: int = 49) -> None:
    """`hint` ends the error about a wrong rate."""
    rate = _rate_or(hint)
    options.add_argument(
        "--cpu-rate",
        type=rate,
        default=cpu_rate,
        metavar="HZ",
        help=f"samples per second of each thread's CPU time; 0: none (default: {cpu_rate})",
    )
    options.add_argument(
        "--wall",
        type=rate,
        nargs="?",
        const=wall_rate,
        default=0,
        metavar="HZ",
        help=f"also sample threads that wait, with the reason (HZ left out: {wall_rate})",
    )


def add_gpu_samples(options: argparse._ActionsContainer, *, counters: str) -> None:
    options.add_argument(
        "--gpu-sampling",
        default="auto",
        metavar="off|auto|PERIOD",
        help="sample the waits of GPU instructions: never, as often as is cheap, or every PERIOD cycles (default: auto)",
    )
    options.add_argument(
        "--gpu-counters",
        default=counters,
        metavar="off|auto|on|NAMES",
        help="count bytes, cycles of tensor cores ... of the whole GPU: never, where the waits of its instructions are not sampled, "
        f"instead of them, or instead of them these of the vendor's counters (default: {counters})",
    )


def add_telemetry(options: argparse._ActionsContainer) -> None:
    options.add_argument(
        "--telemetry",
        default=str(INTERVAL_MS),
        metavar="MS|off",
        help=f"read load, memory, power ... of the machine every MS milliseconds (default: {INTERVAL_MS})",
    )


def _rate_or(hint: str) -> Callable[[str], int]:
    def rate(text: str) -> int:
        try:
            return int(text)
        except ValueError:
            raise argparse.ArgumentTypeError(f"{text!r} is not a number of samples per second{hint}") from None

    return rate
