"""Records the names that the program gives its threads: the kernel stores 15 characters of them, and with CPython before 3.14 none.

`Thread._set_native_id` runs at the start of each thread, in that thread; the wrapper returns before any code of the program runs. A program
may have imported only `threading`, so this file imports nothing else.
"""

import _aiflame

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

TABLE = "thread_names"
_DONE = "_aiflame_names"
_threading: "Any" = None


def install(threading: "Any") -> None:
    global _threading
    _threading = threading
    Thread = threading.Thread
    set_native_id = getattr(Thread, "_set_native_id", None)
    if set_native_id is None or hasattr(set_native_id, _DONE):
        return

    def named(self: "Any") -> None:
        set_native_id(self)
        record(self)

    setattr(named, _DONE, True)
    Thread._set_native_id = named
    recording_began()


def recording_began() -> None:
    """Records the names of threads that are already running; after a fork, the parent's threads do not exist."""
    for thread in list(_threading._active.values()):
        record(thread)


def record(thread: "Any") -> None:
    """Skips dummies, which represent threads of native code, and `MainThread`, which is no information."""
    try:
        tid, name = thread._native_id, thread._name
        if tid and name != "MainThread" and not isinstance(thread, _threading._DummyThread):
            _aiflame.append(TABLE, tid, _aiflame.now_ns(), name)
    except Exception:
        pass  # a subclass may do anything; its thread keeps the kernel's name
