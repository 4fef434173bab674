"""Trees to test with: written by hand, and any that Hypothesis can think of."""

from __future__ import annotations

from collections import Counter

import numpy as np
from hypothesis import strategies as st

from aiflame.attribute.tree import CPU_TIME, Frame, Kind, Tree, from_stacks

Path = tuple[str, ...]

PROCESS = Frame("train.py (7)", Kind.PROCESS)
THREAD = Frame("main thread", Kind.THREAD)


def py(name: str, file: str = "train.py", line: int = 1) -> Frame:
    return Frame(name, Kind.PYTHON, file, line)


def c(name: str, module: str = "libwork.so", **more: object) -> Frame:
    return Frame(name, Kind.C, module=module, **more)  # type: ignore[arg-type]


def tree(*stacks: tuple[tuple[Frame, ...], int]) -> Tree:
    return from_stacks(stacks, CPU_TIME)


def paths(of: Tree, metric: str = "cpu-time") -> Counter[Path]:
    """The value of each stack, frames by name, outermost first."""
    names = of.frames["name"].to_list()
    values: Counter[Path] = Counter()
    for node, value in enumerate(of.values[metric].tolist()):
        path, at = [], node if value else 0
        while at > 0:
            path.append(names[of.frame[at]])
            at = int(of.parent[at])
        if value:
            values[tuple(reversed(path))] += value
    return values


def functions(of: Tree, metric: str = "cpu-time") -> Counter[str]:
    """The own value of each function."""
    values: Counter[str] = Counter()
    for path, value in paths(of, metric).items():
        values[path[-1] if path else ""] += value
    return values


def is_sound(of: Tree) -> bool:
    """Checks the promises of every tree: parents first, siblings distinct, every frame in use and there once."""
    siblings = set(zip(of.parent.tolist(), of.frame.tolist(), strict=True))
    return (
        of.parent[0] == -1
        and bool((of.parent[1:] < np.arange(1, len(of))).all() and (of.parent[1:] >= 0).all())
        and len(siblings) == len(of)
        and len(of.frames.unique()) == len(of.frames)
        and set(of.frame.tolist()) | {0} == set(range(len(of.frames)))
        and all(len(values) == len(of) and values.dtype == np.int64 for values in of.values.values())
    )


FRAMES = st.sampled_from(
    [
        py("a"),
        py("b"),
        py("run", "other.py"),
        c("f"),
        c("f", "libother.so"),
        c("_PyEval_EvalFrameDefault", "libpython3.11.so.1.0"),
        c("_start", "python3.11"),
        Frame("ns::g(int)", Kind.CPP, "g.cpp", 3, "libwork.so", "ns::g(int) [clone]", True),
        Frame("g.cpp:4", Kind.CPU_LINE, "g.cpp", 4, "libwork.so"),
        Frame("add @ +0x4", Kind.CPU_INSTRUCTION, module="libwork.so"),
        Frame("-", Kind.BOUNDARY),
        Frame("kernel", Kind.GPU_KERNEL),
        Frame("[OpenMP wait]", Kind.WAIT),
    ]
)
OWNERS = st.sampled_from([(PROCESS, THREAD), (PROCESS, Frame("pool (8)", Kind.THREAD)), (Frame("b (9)", Kind.PROCESS),), ()])
STACKS = st.tuples(OWNERS, st.lists(FRAMES, max_size=8).map(tuple)).map(lambda pair: (*pair[0], *pair[1]))
TREES = st.lists(st.tuples(STACKS, st.integers(0, 10**15)), max_size=12).map(lambda stacks: from_stacks(stacks, CPU_TIME))
