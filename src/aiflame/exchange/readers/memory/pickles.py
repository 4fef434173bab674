"""Pickles of plain data, from a stranger: dicts, lists, tuples, texts, numbers and bytes, by an interpreter that knows nothing else.

Python's own unpickler calls any function that a pickle names, and takes memory as a pickle asks for it. This one has no instruction that
calls anything, and counts the memory of each object.
"""

from __future__ import annotations

import gc
import re
import struct
from collections.abc import Callable
from typing import Any

from aiflame.errors import AiflameError

_MOST_BYTES = 1_200_000_000
"""Estimated memory of all objects."""
_DEEPEST = 100
"""Marks that are open at once: each is a container that is not yet filled."""
_MOST_TAKEN = 16 << 20
"""Bytes of a text."""
_LONGEST = 16
"""Bytes of a number."""
_MARK, _STOP, _GET, _LONG_GET, _SHORT_TEXT, _MEMOIZE = b"(.hj\x8c\x94"
_LONG_GETS = re.compile(rb"(?:j[\s\S]{4}){1,60000}")
_LONG_GET_LAYOUT = struct.Struct("<xI")
_STEPS = 1 << 20
"""Instructions between two looks at the size of the stack."""
_CODE = {
    **dict.fromkeys(b"cio\x93", "names a class or function"),
    **dict.fromkeys(b"R\x81\x92", "calls a function"),
    **dict.fromkeys(b"b", "sets the state of an object"),
    **dict.fromkeys(b"PQ\x82\x83\x84", "refers to an object outside of it"),
}
_CONSTANTS = {78: None, 136: True, 137: False}
_WHOLE_NUMBERS = {75: "<B", 77: "<H", 74: "<i", 71: ">d"}
_TEXT_LENGTHS = {88: "<I", 0x8C: "<B", 0x8D: "<Q"}
_BYTES_LENGTHS = {66: "<I", 67: "<B", 0x8E: "<Q", 0x96: "<Q"}
_TUPLES = {0x85: 1, 0x86: 2, 0x87: 3}


class NotPlainError(Exception):
    """The pickle is damaged, or holds more than data; the message says which."""


def looks_like_pickle(head: bytes) -> bool:
    """Protocols 2 and later begin with their number."""
    return len(head) > 2 and head[0] == 0x80 and 2 <= head[1] <= 5


def plain_data(data: bytes, progress: Callable[[float], None], most: int = _MOST_BYTES) -> Any:
    """The value that a pickle holds. Its lists and dicts may be shared, and may contain themselves. `most`: estimated bytes of memory."""
    collecting = gc.isenabled()
    gc.disable()  # it would look again and again through millions of objects that all stay
    try:
        return _Machine(data, most).run(progress)
    except (struct.error, IndexError):
        raise NotPlainError("it ends in the middle, or refers to something that it lacks") from None
    except (TypeError, AttributeError):
        raise NotPlainError("it fills something that is no container") from None
    except MemoryError:
        raise AiflameError("not enough memory to read the pickle") from None
    finally:
        if collecting:
            gc.enable()


class _Machine:
    def __init__(self, data: bytes, most: int) -> None:
        self.data, self.most = data, most
        self.at = 0
        self.stack: list[Any] = []
        self.marks: list[int] = []
        self.memo: list[Any] = []
        self.used = 0

    def run(self, progress: Callable[[float], None]) -> Any:
        data, stack, memo = self.data, self.stack, self.memo
        steps = 0
        while True:
            code = data[self.at]
            self.at += 1
            if code == _GET:
                stack.append(memo[data[self.at]])
                self.at += 1
            elif code == _LONG_GET:  # stacks are long runs of them
                run = _LONG_GETS.match(data, self.at - 1)
                if run is None:
                    raise IndexError
                stack.extend([memo[place] for (place,) in _LONG_GET_LAYOUT.iter_unpack(run[0])])
                self.at = run.end()
                steps += len(run[0]) // 5
            elif code == _MEMOIZE:
                memo.append(stack[-1])
                self.used += 8
            elif code == _STOP:
                return stack[-1]
            else:
                self.step(code)
            steps += 1
            if steps >= _STEPS:
                steps = 0
                progress(self.at / len(data))
                self.check_size(8 * len(stack))
            if self.used > self.most:
                self.check_size(0)

    def step(self, code: int) -> None:
        if code == _MARK:
            if len(self.marks) == _DEEPEST:
                raise NotPlainError("its lists are nested too deeply")
            self.marks.append(len(self.stack))
        elif code in _CONSTANTS:
            self.push(_CONSTANTS[code], 8)
        elif code in _WHOLE_NUMBERS:
            self.push(self.number(_WHOLE_NUMBERS[code]), 40)
        elif code in _TEXT_LENGTHS:
            text = self.take(self.number(_TEXT_LENGTHS[code]))
            self.push(text.decode("utf-8", "replace"), 64 + 4 * len(text))
        elif code in _BYTES_LENGTHS:
            content = self.take(self.number(_BYTES_LENGTHS[code]))
            self.push(content, 64 + len(content))
        elif code in _TUPLES:
            self.tuple(len(self.stack) - _TUPLES[code])
        else:
            action = _ACTIONS.get(code)
            if action is None:
                raise NotPlainError(
                    f"it {_CODE[code]}: a pickle with code is refused"
                    if code in _CODE
                    else f"it has the instruction 0x{code:02x}, which no plain data needs"
                )
            action(self)

    def check_size(self, waiting: int) -> None:
        """`waiting`: bytes of the stack."""
        if self.used + waiting > self.most:
            raise NotPlainError(f"its objects need more than {self.most // 10**6:,} MB")

    def take(self, count: int) -> bytes:
        if count > _MOST_TAKEN:
            raise NotPlainError(f"it has a text of {count:,} bytes")
        content = self.data[self.at : self.at + count]
        if len(content) < count:
            raise IndexError
        self.at += count
        return content

    def number(self, layout: str) -> Any:
        value = struct.unpack_from(layout, self.data, self.at)[0]
        self.at += struct.calcsize(layout)
        return value

    def push(self, value: Any, size: int) -> None:
        self.stack.append(value)
        self.used += size

    def since_mark(self) -> list[Any]:
        """The values behind the last mark, taken off the stack."""
        begin = self.marks.pop()
        values = self.stack[begin:]
        del self.stack[begin:]
        return values

    def tuple(self, begin: int) -> None:
        if begin < (self.marks[-1] if self.marks else 0):
            raise IndexError
        values = tuple(self.stack[begin:])
        del self.stack[begin:]
        self.push(values, 56 + 8 * len(values))

    def long(self, layout: str) -> None:
        size = self.number(layout)
        if not 0 <= size <= _LONGEST:
            raise NotPlainError(f"it has a number of {size:,} bytes")
        self.push(int.from_bytes(self.take(size), "little", signed=True), 48)

    def remember(self, layout: str) -> None:
        """Memo by number: they count up, though some may be written again."""
        place = self.number(layout)
        if place > len(self.memo):
            raise NotPlainError("it numbers its objects with gaps")
        self.memo[place : place + 1] = [self.stack[-1]]
        self.used += 8

    def append(self, values: list[Any]) -> None:
        self.stack[-1].extend(values)
        self.used += 9 * len(values)

    def set_items(self, values: list[Any]) -> None:
        keys = values[::2]
        if len(values) % 2 or not all(type(key) is str for key in keys):
            raise NotPlainError("it has a dict whose keys are no texts")
        self.stack[-1].update(zip(keys, values[1::2], strict=True))
        self.used += 60 * len(keys)

    def drop(self) -> None:
        del self.stack[-1]

    def skip(self, count: int) -> None:
        self.take(count)


def _one_item(machine: _Machine) -> None:
    values = machine.stack[-2:]
    del machine.stack[-2:]
    machine.set_items(values)


_ACTIONS: dict[int, Callable[[_Machine], None]] = {
    0x80: lambda machine: machine.skip(1),  # protocol
    0x95: lambda machine: machine.skip(8),  # frame: all of the data is in memory already
    ord("]"): lambda machine: machine.push([], 64),
    ord("}"): lambda machine: machine.push({}, 72),
    ord(")"): lambda machine: machine.push((), 8),
    ord("t"): lambda machine: machine.push(tuple(values := machine.since_mark()), 56 + 8 * len(values)),
    ord("l"): lambda machine: machine.push(values := machine.since_mark(), 64 + 8 * len(values)),
    ord("a"): lambda machine: machine.append([machine.stack.pop()]),
    ord("e"): lambda machine: machine.append(machine.since_mark()),
    ord("s"): _one_item,
    ord("u"): lambda machine: machine.set_items(machine.since_mark()),
    ord("q"): lambda machine: machine.remember("<B"),
    ord("r"): lambda machine: machine.remember("<I"),
    0x8A: lambda machine: machine.long("<B"),
    0x8B: lambda machine: machine.long("<i"),
    ord("0"): lambda machine: machine.drop(),
}
