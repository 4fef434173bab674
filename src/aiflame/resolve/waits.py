"""Finds the reason of a thread's wait from the native functions in which it waits."""

from __future__ import annotations

import re
from collections.abc import Iterable

GIL, LOCK, IO, SLEEP, OPENMP = "[GIL]", "[lock]", "[I/O]", "[sleep]", "[OpenMP wait]"

_GIL = re.compile(r"take_gil|drop_gil|PyEval_(?:AcquireLock|AcquireThread|RestoreThread)|PyThreadState_Attach|PyGILState_Ensure")
_EVALUATOR = re.compile(r"PyEval_\w+|eval_frame_handle_pending|Py_HandlePending")
_CONDITION = re.compile(r"pthread_cond_(?:timed|clock)wait\w*")
_OPENMP = re.compile(
    r"gomp_(?:team_|simple_)?barrier_wait\w*|gomp_team_(?:end|start)|gomp_thread_start|gomp_thread_pool\w*|do_spin|do_wait"
    r"|kmp\w*(?:wait|barrier|suspend|yield|sleep)\w*|kmp_flag\w*::\w+|kmp_launch_(?:thread|worker)"
    r"|\[unknown\] lib(?:gomp|iomp5|omp)\b.*"  # a stripped runtime: almost all its time is spent waiting
)
_LOCK = re.compile(
    r"futex\w*|lll_\w*lock_wait\w*|lll_timedwait\w*|pthread_(?:mutex|rwlock|cond|barrier|join|timedjoin|clockjoin|once)\w*"
    r"|(?:new_)?sem_(?:timed|clock)?wait\w*|do_futex_wait\w*|gomp_(?:mutex|ptrlock|sem)\w*"
    r"|std::(?:(?:recursive_)?(?:timed_)?mutex|shared_mutex|condition_variable\w*|thread|unique_lock|counting_semaphore)::\w+"
    r"|acquire(?:_lock)?|PyThread_acquire_lock\w*|PyMutex_\w+|PyParkingLot_Park|PySemaphore_Wait"
)
_SLEEP = re.compile(r"(?:clock_)?nanosleep|u?sleep|pause|pysleep")
_IO = re.compile(
    r"p?read(?:v|v2)?|p?write(?:v|v2)?|recv(?:from|msg|mmsg)?|send(?:to|msg|mmsg|file)?|accept4?|connect|p?poll|p?select|epoll_p?wait2?"
    r"|getdents|f?l?stat(?:at|x)?|newfstatat|readlink(?:at)?|unlink(?:at)?|rename(?:at2?)?|mkdir(?:at)?"
    r"|fsync|fdatasync|msync|sync|open(?:at)?|close|ioctl|flock|splice|io_getevents|io_uring_enter|copy_file_range"
)
_PLUMBING = re.compile(r"PyCOND_\w+|PyMUTEX_\w+|\[unknown\].*|\[vdso\].*|.*syscall\w*|sched_yield|cpu_relax")
_BUILT_IN = re.compile(r"<(?:built-in (?:function|method)|method) '?(?P<name>\w+)\b")
_PREFIX = re.compile(r"^(?:GI_|_+|libc_|new_(?!sem))+")
_SUFFIX = re.compile(r"(?:@plt|_nocancel|64|_time64|@@?GLIBC.*)+$")


def wait_label(functions: Iterable[str]) -> str | None:
    """The label of a stack; None if it shows no wait.

    `functions` are the short names of its native frames, innermost first, up to the first Python frame. For a thread that runs, [OpenMP
    wait] means that it spins; any other label is not a wait.

    The innermost known function decides, but its callers may show the reason for a lock.
    """
    label: str | None = None
    condition = False
    for function in functions:
        name = _bare(function)
        if _GIL.fullmatch(name) or (condition and _EVALUATOR.fullmatch(name)):
            return GIL
        if _OPENMP.fullmatch(name):
            return OPENMP
        if _LOCK.fullmatch(name):
            label = LOCK
            condition = condition or _CONDITION.fullmatch(name) is not None
        elif label is None and _SLEEP.fullmatch(name):
            return SLEEP
        elif label is None and _IO.fullmatch(name):
            return IO
        elif not _PLUMBING.fullmatch(name):
            return label
    return label


def _bare(function: str) -> str:
    """`__GI___libc_read`, `__read_nocancel` and `read@plt` are all `read`, and so is `<built-in method read of _io.FileIO object>`."""
    if call := _BUILT_IN.match(function):
        return call["name"]
    return _SUFFIX.sub("", _PREFIX.sub("", function)) or function
