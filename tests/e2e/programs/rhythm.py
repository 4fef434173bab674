"""Rounds that keep time with nothing.

Samples fall on the kernel's ticks. A program that repeats itself in step with them (40 ms, say, are ten ticks of 4 ms) is sampled at the
same few places over and over, and its shares come out wrong by several points. Rounds whose lengths follow the golden ratio are in step
with no tick and no sampling period; and as they are few and long, the samples that a round's edges can misplace are few.
"""

ROUNDS = 8
GOLDEN_RATIO = 0.6180339887498949


def lengths(mean):
    """The same sum, to a few per cent, as ROUNDS times `mean`; each between a half and one and a half of it."""
    return [int(mean * (0.5 + number * GOLDEN_RATIO % 1)) for number in range(1, ROUNDS + 1)]
