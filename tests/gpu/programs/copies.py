"""Copies and fills of known sizes, ten of each."""

from __future__ import annotations

from driver import Context

IN, OUT, WITHIN, FILLED = 3 << 20, 1 << 20, 2 << 20, 512 << 10
TIMES = 10


def main() -> None:
    context = Context()
    one, two = context.memory(IN), context.memory(IN)
    data = bytes(range(256)) * (IN // 256)
    for _ in range(TIMES):
        context.copy_in(one, data)
        context.copy_within(two, one, WITHIN)
        returned = context.copy_out(two, OUT)
        context.fill(two, 7, FILLED)
        context.synchronize()
    print(returned == data[:OUT])


if __name__ == "__main__":
    main()
