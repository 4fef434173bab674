"""Which lock a thread waits for in a futex, and which thread holds it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import pairwise

from aiflame.recorder.looks.interpreter import PythonFrame
from aiflame.recorder.looks.memory import Memory, UnreadableError

from .calls import Wait
from .capture import Captured
from .objects import Objects
from .python_frames import Python

FUTEX = 202
_MUTEX_OWNER, _MUTEX_KIND = 8, 16
"""glibc's pthread_mutex_t begins with the futex: lock, count, owner, users, kind."""
_MOST_KIND = 0x1FF
_WAITS_FOR_WRITER = {8: 24, 12: 24}
"""pthread_rwlock_t has two futexes; where the writer's number is."""
_THREAD_NUMBER = 720
"""Where glibc keeps a thread's number, in its struct pthread: pthread_join waits for it."""
_SLOTS = 64
"""Words of a Python frame that are searched for a lock."""
_LOCK_OF_OBJECT, _METHOD_NAME, _METHOD_SELF, _OWNER = 16, 16, 24, 24
_MOST_REFERENCES = 1 << 20
_LOCKS = ("_thread.lock", "_thread.RLock")
_JOINS = re.compile(r"(?:_DummyThread|_MainThread|Thread)?\.?(?:join|_wait_for_tstate_lock)|_shutdown|Thread\._join_internal")
_PTHREAD = re.compile(r"_*pthread_(mutex|rwlock|cond|join|timedjoin|clockjoin|barrier|once)\w*")
_CPP = re.compile(r"std::(?:condition_variable|(?:counting_|binary_)?semaphore|latch|barrier|future)\w*")
_OPENMP = re.compile(r"gomp_\w*|GOMP_\w*|__?kmp\w*|omp_\w*|\[unknown\] lib(?:gomp|iomp5|omp)\b.*")


class Locks:
    def __init__(self, memory: Memory, python: Python | None, threads: Sequence[Captured]) -> None:
        self._memory, self._python = memory, python
        self.objects = Objects(python) if python is not None else None
        self._threads = threads
        self._tids = {one.task.inner_tid: one.task.tid for one in threads}
        self._by_state, self._by_thread_id = dict[int, int](), dict[int, int]()
        self._gils: list[tuple[range, int]] = []
        if python is not None:
            try:
                self._gils = python.gils()
                for state in python.states():
                    tid = self._tids.get(state.tid, 0)
                    self._by_state[state.address], self._by_thread_id[state.thread_id] = tid, tid
            except UnreadableError:
                pass

    def gil_holders(self) -> set[int]:
        return {self._by_state[holder] for _, holder in self._gils if self._by_state.get(holder)}

    def wait(self, one: Captured, functions: Sequence[str], labels: Mapping[int, str]) -> Wait:
        """`functions`: its native functions, innermost first, up to its first Python frame; `labels`: its Python functions by frame."""
        assert one.call is not None
        place = one.call.arguments[0]
        if (gil := next((holder for memory, holder in self._gils if place in memory), None)) is not None:
            holder = self._by_state.get(gil)
            return Wait("gil", "waits for the GIL" if holder else "waits for the GIL, which is free: it has just been woken up", holder)
        try:
            return self._python_lock(one, place, labels) or self._native(one, place, functions)
        except UnreadableError:
            return Wait("lock", "waits for a lock")

    def _native(self, one: Captured, place: int, functions: Sequence[str]) -> Wait:
        kind = next((match[1] for name in functions if (match := _PTHREAD.fullmatch(name))), "")
        words = [int.from_bytes(data, "little") for data in _words(self._memory.read(place, 32))]
        wanted = one.call.arguments[2] & 0xFFFFFFFF if one.call is not None else 0
        if kind.endswith("join") or (not kind and words[0] == wanted and self._is_thread(place, words[0])):
            return Wait("thread", "waits for the end of a thread", self._tids.get(words[0]))
        owner = self._tids.get(words[_MUTEX_OWNER // 4])
        if kind == "mutex" or (not kind and owner and words[0] in (1, 2) and words[_MUTEX_KIND // 4] <= _MOST_KIND):
            return Wait("lock", "waits for a mutex", owner)
        if kind == "rwlock":
            writers = [
                self._tids.get(int.from_bytes(self._memory.read(place - at + to, 4), "little")) for at, to in _WAITS_FOR_WRITER.items()
            ]
            return Wait("lock", "waits for a read-write lock", next(filter(None, writers), None))
        if any(name.startswith("_queue_SimpleQueue_get") for name in functions):
            return Wait("condition", "waits for an item of a queue.SimpleQueue")
        if kind == "cond" or any(_CPP.match(name) for name in functions):
            return Wait("condition", "waits for a condition variable")
        if any(_OPENMP.fullmatch(name) for name in functions):
            return Wait("condition", "waits for the other threads of an OpenMP team, or for its next work")
        if kind:
            return Wait("condition", f"waits in pthread_{kind}")
        return Wait("lock", "waits for a lock or a condition variable (futex)")

    def _is_thread(self, place: int, tid: int) -> bool:
        """Whether the futex is the number in the thread's own struct pthread, which begins with its own address."""
        begin = place - _THREAD_NUMBER
        return tid in self._tids and self._memory.word(begin) == begin and self._memory.word(begin + 16) == begin

    def _python_lock(self, one: Captured, place: int, labels: Mapping[int, str]) -> Wait | None:
        if self._python is None or self.objects is None or not one.python:
            return None
        frames = [frame for call in one.python for frame in call.frames][:4]
        for frame in frames[:2]:
            if _JOINS.fullmatch(labels.get(frame.address, "")):
                return Wait("thread", "waits for the end of a thread", self._joined(frame))
        lock = self._object(frames[0], place) if frames else 0
        if not lock:
            return None
        caller = next((labels.get(frame.address, "") for frame in frames), "")
        if caller.endswith(("Condition.wait", "Event.wait")) or caller == "wait":
            return Wait("condition", "waits to be notified")
        if self.objects.type_name(lock) == "_thread.RLock":
            owner = self._memory.word(lock + _OWNER)
            return Wait("lock", "waits for a threading.RLock", self._by_thread_id.get(owner))
        return Wait("lock", "waits for a threading.Lock", self._holder(lock))

    def _object(self, frame: PythonFrame, futex: int) -> int:
        """The lock object in the frame whose own lock is this futex; 0: none."""
        assert self._python is not None
        assert self.objects is not None
        parked = 0
        if self._python.version >= 0x030E:  # the futex lies in an entry of a list of waiting threads, behind the lock's address
            parked = self._memory.word(futex - 8) - _LOCK_OF_OBJECT
        for word in self._python.locals_of(frame, _SLOTS):
            for thing in (word, self._self_of(word)):
                try:
                    same = thing == parked if parked > 0 else self._memory.word(thing + _LOCK_OF_OBJECT) == futex
                except UnreadableError:
                    continue
                if same and self.objects.type_name(thing) in _LOCKS:
                    return thing
        return 0

    def _self_of(self, method: int) -> int:
        try:
            return self._memory.word(method + _METHOD_SELF)
        except UnreadableError:
            return 0

    def _holder(self, lock: int) -> int | None:
        """The thread that is in a `with` block of this lock: its evaluation stack has the lock's method `__exit__`."""
        assert self._python is not None
        for other in self._threads:
            if self._waited_for(other) != lock:  # one that waits at its `with` has the method there, too
                for frame in (frame for call in other.python for frame in call.frames):
                    words = self._python.locals_of(frame, _SLOTS)
                    if any(self._is_exit(word, lock) for word in words) or self._has_exit(words, lock):
                        return other.task.tid
        return None

    def _waited_for(self, one: Captured) -> int:
        """The object of the Python lock that it waits for; 0: none."""
        if one.call is None or one.call.number != FUTEX or not one.python:
            return 0
        try:
            return self._object(one.python[0].frames[0], one.call.arguments[0])
        except UnreadableError:
            return 0

    def _has_exit(self, words: list[int], lock: int) -> bool:
        """3.14 keeps a function `__exit__` of the lock's type, and then the lock."""
        assert self._python is not None
        assert self.objects is not None
        if self._python.version < 0x030E:
            return False
        return any(self.objects.type_name(before) == "method_descriptor" for before, word in pairwise(words) if word == lock)

    def _is_exit(self, method: int, lock: int) -> bool:
        try:
            data = self._memory.read(method, 32)
            # A method that is free again has another number of references.
            if int.from_bytes(data[24:32], "little") != lock or not 0 < int.from_bytes(data[:8], "little") < _MOST_REFERENCES:
                return False
            name = self._memory.word(int.from_bytes(data[_METHOD_NAME : _METHOD_NAME + 8], "little"))
            return self._memory.read(name, 9) == b"__exit__\0"
        except UnreadableError:
            return False

    def _joined(self, frame: PythonFrame) -> int | None:
        assert self._python is not None
        assert self.objects is not None
        own = next(iter(self._python.locals_of(frame, 1)), 0)
        place = self.objects.attribute(own, "_native_id") if own else None
        number = self.objects.number(place) if place else None
        return self._tids.get(number) if number is not None else None


def _words(data: bytes) -> list[bytes]:
    return [data[at : at + 4] for at in range(0, len(data), 4)]
