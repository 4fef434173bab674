"""Launches whose stacks differ in one place, recorded by the process itself: `python capture_scenes.py LIBRARY PROFILE SCENE`.

Frames of one launch lie where those of the launch before lay: what is not looked at again is reported wrongly.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Callable
from typing import Any

library = ctypes.CDLL(sys.argv[1])


def launch(first: bool = True) -> None:
    library.launch_from(ctypes.c_bool(first))


def made(name: str) -> Callable[[], None]:
    """A function like any other of these, but for its name."""
    scope: dict[str, Callable[[], None]] = {"launch": launch}
    exec(compile(f"def {name}():\n    inside()\n", "<made>", "exec"), scope)
    exec(compile("def inside():\n    launch()\n", "<made>", "exec"), scope)
    return scope[name]


def codes() -> None:
    """Functions that come and go: each has the code object's and the frame's address of the one before."""
    for number in range(100):
        made(f"made_{number:03}")()


def replaced() -> None:
    """A function whose code comes and goes: each has the code object's address and the line table of the one before the last."""

    def common() -> None:
        launch()

    template: Any = common.__code__
    names = ("co_name", "co_qualname") if sys.version_info >= (3, 11) else ("co_name",)
    for number in range(100):
        common.__code__ = template.replace(**dict.fromkeys(names, f"made_{number:03}"))
        common()


def callers() -> None:
    """One function under functions that take turns."""

    def even() -> None:
        common()

    def odd() -> None:
        common()

    def common() -> None:
        launch()

    for number in range(100):
        (odd if number % 2 else even)()


def lines() -> None:
    """The same functions from two lines."""
    for _ in range(50):
        launch()
        launch()


def native() -> None:
    """The same Python, and two places of one native function."""
    for number in range(100):
        launch(number % 2 == 0)


def depths() -> None:
    """Ever other numbers of frames under the same ones."""

    def deeper(frames: int) -> None:
        deeper(frames - 1) if frames else launch()

    for number in range(100):
        deeper(number * 7 % 30)


if __name__ == "__main__":
    assert library.aiflame_start(os.fsencode(sys.argv[2])) == 1
    globals()[sys.argv[3]]()
    library.aiflame_stop()
