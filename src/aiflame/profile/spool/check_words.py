"""The check words of the spool, as `native/spool/spool.hpp` computes them, over whole columns at once.

Records and entries of the strings stream carry the same word: a hash over their 8-byte words in which the check word's own
place counts as zero. A record that was never finished, or in which a bit has changed since, does not match it.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Words = NDArray[np.uint64]
"""Little-endian 8-byte words, as the files hold them."""

_SEED = 0x9E3779B97F4A7C15
_FACTOR = 0xD6E8FEB86659FD93
_WITHOUT_CHECK = 0xFFFFFFFF00000000
_MASK = 0xFFFFFFFFFFFFFFFF
_SHIFT = np.uint64(32)

_FEW = 16
"""Below this many entries, Python's integers are faster than numpy's calls."""


def intact_records(words: Words) -> NDArray[np.bool_]:
    """True for the complete rows of an (n, words per record) array of records."""
    return np.equal(_stated(words[:, 0]), check_words(words))


def check_words(words: Words) -> NDArray[np.uint32]:
    """The check word that each row should have."""
    state = np.full(len(words), _SEED, np.uint64)
    for column in range(words.shape[1]):
        _step(state, words[:, column] & np.uint64(_WITHOUT_CHECK) if column == 0 else words[:, column])
    return _as_check(state)


def intact_entries(stream: Words, start: NDArray[np.int64], units: NDArray[np.int64]) -> NDArray[np.bool_]:
    """True for the complete entries of a strings stream; entry i takes `units[i]` (at least 1) words from `start[i]`."""
    order = np.argsort(-units, kind="stable")
    first, left = start[order], units[order]
    state = np.full(len(order), _SEED, np.uint64)
    _step(state, stream[first] & np.uint64(_WITHOUT_CHECK))
    step, going = 1, int(np.searchsorted(-left, -1, side="left"))
    while going > _FEW:
        active = state[:going]
        _step(active, stream[first[:going] + step])
        step += 1
        going = int(np.searchsorted(-left, -step, side="left"))
    for entry in range(going):
        tail = stream[int(first[entry]) + step : int(first[entry]) + int(left[entry])]
        state[entry] = _finish(int(state[entry]), tail)
    intact = np.empty(len(order), np.bool_)
    intact[order] = _stated(stream[first]) == _as_check(state)
    return intact


def check_word(data: bytes) -> int:
    """The check word of one record or entry; `data` is a multiple of 8 bytes."""
    words = np.frombuffer(data, "<u8")
    first = np.array([_SEED], np.uint64)
    _step(first, words[:1] & np.uint64(_WITHOUT_CHECK))
    return _finish(int(first[0]), words[1:]) & 0xFFFFFFFF | 1


def _step(state: Words, word: Words) -> None:
    state ^= word
    state *= np.uint64(_FACTOR)
    state ^= state >> _SHIFT


def _finish(state: int, words: Words) -> int:
    for word in words.tolist():
        state = (state ^ word) * _FACTOR & _MASK
        state ^= state >> 32
    return state


def _as_check(state: Words) -> NDArray[np.uint32]:
    low = state.astype(np.uint32)
    low |= np.uint32(1)
    return low


def _stated(first: Words) -> NDArray[np.uint32]:
    return first.astype(np.uint32)
