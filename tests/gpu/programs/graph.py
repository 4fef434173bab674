"""A graph that c() captures and d() replays, its kernels twice as long in one place as in the other: `graph.py REPLAYS`."""

from __future__ import annotations

import sys

from driver import Context, Handle

MILLISECOND = 1_000_000


def first(context: Context) -> None:
    context.spin(2 * MILLISECOND)


def second(context: Context) -> None:
    context.spin(MILLISECOND)


def c(context: Context) -> Handle:
    context.begin_capture()
    first(context)
    second(context)
    return context.end_capture()


def d(context: Context, graph: Handle) -> None:
    context.replay(graph)


def main() -> None:
    context = Context()
    graph = c(context)
    for _ in range(int(sys.argv[1])):
        d(context, graph)
        context.synchronize()


if __name__ == "__main__":
    main()
