"""Launches whose stacks differ in one place, recorded by the process itself: `python capture_scenes.py LIBRARY PROFILE SCENE`.

Frames of one launch lie where those of the launch before lay: a capture that does not look again gives a wrong stack.
"""

from __future__ import annotations

import ctypes
import os
import random
import resource
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

from capture_ways import ways

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


def shuffled() -> None:
    """Stacks that are known by heart after a while, each like the others but for one or two places."""

    def even(*way: int) -> None:
        common(*way)

    def odd(*way: int) -> None:
        common(*way)

    def common(line: int, place: int, depth: int) -> None:
        if depth:
            common(line, place, depth - 1)
        elif line:
            launch(place == 0)
        else:
            launch(place == 0)

    for caller, *way in ways():
        (odd if caller else even)(*way)


def replaced_and_repeated() -> None:
    """Code that comes and goes, after a launch that stays; each has the address and the line table of the one before the last."""

    def common() -> None:
        launch()

    def steady() -> None:
        launch()

    template: Any = common.__code__
    names = ("co_name", "co_qualname") if sys.version_info >= (3, 11) else ("co_name",)
    for number in range(50):
        common.__code__ = template.replace(**dict.fromkeys(names, f"made_{number:03}"))
        for _ in range(6):
            steady()
            common()


MODULE = """
class Module:
    def _call_impl(self):
        return self.forward()

class Celled:
    def _call_impl(self):
        def inner():
            return self.forward()
        return inner()
Celled._call_impl.__code__ = Celled._call_impl.__code__.replace({})
"""


def modules(kind: str) -> tuple[type, type]:
    """Two classes whose calls are a layer's: as torch's, by the names of their code."""
    scope: dict[str, Any] = {}
    qualified = "co_qualname='Module._call_impl'" if sys.version_info >= (3, 11) else "co_name='_call_impl'"
    exec(compile(MODULE.format(qualified), "torch/nn/modules/module.py", "exec"), scope)

    def forward(_: object) -> None:
        launch()

    return type("First", (scope[kind],), {"forward": forward}), type("Second", (scope[kind],), {"forward": forward})


def layers(kind: str = "Module") -> None:
    """One call, of modules that take turns and are as like as can be."""
    first, second = modules(kind)
    all_of_them = [first(), first(), second()]
    for _ in range(20):
        for number in (0, 1, 2, 1, 0, 2):
            all_of_them[number]._call_impl()


def celled_layers() -> None:
    """The same where the module lies in a cell, another at every call."""
    layers("Celled")


def layers_that_go() -> None:
    """Modules that come and go, each at the address of the one before."""
    first, second = modules("Module")
    for number in range(120):
        module = (second if number // 4 % 2 else first)()
        module._call_impl()
        del module
        launch()


def known() -> None:
    """The same launches again and again: all but the first rounds are known at a glance."""
    for round_number in range(20):
        for depth in range(10):
            below(depth)
            # 3.10 needs a few rounds until its frames lie where they lay before.
            if round_number >= 12:
                assert 1 <= library.launch_proofs() <= 3, (round_number, depth)


def limited() -> None:
    """Where address space is limited, none is taken to know stacks by."""
    resource.setrlimit(resource.RLIMIT_AS, (1 << 33, 1 << 33))
    for _ in range(5):
        for depth in range(10):
            below(depth)
            assert library.launch_proofs() == 0


def left() -> None:
    """A jump leaves captures at any point: later captures must have their own stacks."""
    wrong = ctypes.c_uint32(0)
    assert library.launch_left(37, ctypes.byref(wrong)) > 40
    assert wrong.value == 0


def from_one_place() -> None:
    """The same launch again and again."""
    for number in range(20):
        below(3)
        assert library.launch_proofs() or number < 4, number


def in_turns() -> None:
    """Other launches follow one launch, each in its turn: the cache expects the one that followed the last time."""
    for round_number in range(20):
        for depth in range(1, 13):
            below(0)
            below(depth)
        # 3.10 takes its frames from where it gave them back last: each way there are several places for them.
        if library.launch_walked() and sys.version_info >= (3, 11):
            assert round_number < 4, round_number


def unlinked() -> None:
    """Frames far inside that are expected, and not there: the interpreter has given their memory back."""
    took = []
    order = random.Random(9)
    for _ in range(3000):
        frames = order.choice((0, 0, 250))
        begin = time.perf_counter_ns()
        below(frames)
        if not frames:
            took.append(time.perf_counter_ns() - begin)
    # Each word that is looked for in such memory is a fault: a hundred times as long.
    assert statistics.median(took) < 100_000, statistics.median(took)
    assert statistics.quantiles(took, n=10)[8] < 300_000, statistics.quantiles(took, n=10)


def aligned() -> None:
    """Callers of a function that aligns its stack."""
    for number in range(400):
        library.launch_aligned((number * 7 + number // 5) % 4)
    assert library.launch_proofs() > 0


def below(frames: int) -> None:
    below(frames - 1) if frames else launch()


if __name__ == "__main__":
    assert library.aiflame_start(os.fsencode(sys.argv[2])) == 1
    globals()[sys.argv[3]]()
    library.aiflame_stop()
