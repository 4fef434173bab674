"""Names the thing that a waiting stack waits for, in stacks as debuggers show them (innermost first)."""

from __future__ import annotations

import pytest

from aiflame.resolve.waits import wait_label

STACKS: list[tuple[str, str | None, list[str]]] = [
    (
        "a thread that wants the GIL",
        "[GIL]",
        ["__futex_abstimed_wait_common64", "pthread_cond_timedwait", "take_gil", "_PyEval_EvalFrameDefault", "_PyEval_Vector"],
    ),
    (
        "back from a system call",
        "[GIL]",
        ["[unknown] libc.so.6+0x8c000", "pthread_cond_timedwait", "take_gil", "PyEval_RestoreThread", "_Py_read"],
    ),
    (
        "a stripped interpreter",
        "[GIL]",
        ["[unknown] libc.so.6+0x8c000", "pthread_cond_timedwait", "[unknown] python3.11+0x1f000", "PyEval_RestoreThread", "time_sleep"],
    ),
    (
        "a stripped interpreter in its loop",
        "[GIL]",
        ["__futex_abstimed_wait_common64", "pthread_cond_timedwait", "[unknown] python3.11+0x1f000", "_PyEval_EvalFrameDefault"],
    ),
    (
        "a Python lock",
        "[lock]",
        [
            "futex_wait",
            "do_futex_wait.constprop.0",
            "sem_clockwait",
            "PyThread_acquire_lock_timed",
            "acquire_timed",
            "_PyEval_EvalFrameDefault",
        ],
    ),
    (
        "a C++ pool's idle thread",
        "[lock]",
        ["__futex_abstimed_wait_common64", "pthread_cond_wait", "std::condition_variable::wait", "c10::ThreadPool::main_loop", "clone3"],
    ),
    ("a mutex", "[lock]", ["__lll_lock_wait", "pthread_mutex_lock", "app::work", "start_thread"]),
    ("joining a thread", "[lock]", ["__futex_abstimed_wait_common64", "__pthread_clockjoin_ex", "std::thread::join", "main"]),
    ("reading", "[I/O]", ["__GI___libc_read", "_Py_read", "os_read"]),
    ("cancellable reading", "[I/O]", ["__internal_syscall_cancel", "__syscall_cancel", "__read", "app::load"]),
    ("a socket", "[I/O]", ["recv", "sock_recv_impl", "sock_call_ex"]),
    ("an event loop", "[I/O]", ["epoll_wait", "select_epoll_poll_impl", "_PyEval_EvalFrameDefault"]),
    ("accepting", "[I/O]", ["accept4", "sock_accept_impl"]),
    ("select", "[I/O]", ["__select", "select_select_impl"]),
    ("listing a folder", "[I/O]", ["getdents64", "readdir", "os_listdir"]),
    ("sleeping", "[sleep]", ["clock_nanosleep", "nanosleep", "app::nap"]),
    ("Python's sleep", "[sleep]", ["clock_nanosleep", "pysleep", "time_sleep", "cfunction_vectorcall_O"]),
    ("libgomp spins", "[OpenMP wait]", ["do_spin", "do_wait", "gomp_team_barrier_wait_end", "gomp_thread_start", "start_thread"]),
    ("libgomp sleeps", "[OpenMP wait]", ["futex_wait", "gomp_team_barrier_wait_end", "gomp_team_barrier_wait_final", "gomp_thread_start"]),
    ("a libgomp without names", "[OpenMP wait]", ["syscall", "[unknown] libgomp.so.1.0.0+0x1f6b0", "start_thread"]),
    ("all inlined", "[OpenMP wait]", ["gomp_thread_start", "start_thread", "clone3"]),
    (
        "the end of a region",
        "[OpenMP wait]",
        ["do_wait", "gomp_team_barrier_wait_final", "gomp_team_end", "GOMP_parallel", "at::parallel_for"],
    ),
    (
        "LLVM's runtime",
        "[OpenMP wait]",
        ["sched_yield", "__kmp_yield", "kmp_flag_64::wait", "__kmp_hyper_barrier_release", "__kmp_fork_barrier"],
    ),
    ("LLVM's runtime asleep", "[OpenMP wait]", ["pthread_cond_wait", "__kmp_suspend_64", "__kmp_wait_template", "__kmp_launch_thread"]),
    ("an OpenMP critical section", "[lock]", ["futex_wait", "gomp_mutex_lock_slow", "GOMP_critical_start", "app::sum"]),
    # Stacks that do not wait.
    ("work in a region", None, ["app::kernel", "gomp_thread_start", "start_thread"]),
    ("work under a lock's owner", None, ["memcpy", "std::condition_variable::wait"]),
    ("work called from I/O", None, ["app::parse", "read"]),
    ("nothing known", None, ["[unknown] libfoo.so+0x10", "app::main"]),
    ("nothing", None, []),
    ("a function that only sounds like it", None, ["reader", "sleepy", "polling", "app::read_all"]),
]


@pytest.mark.parametrize(("label", "functions"), [pytest.param(label, functions, id=name) for name, label, functions in STACKS])
def test_label(label: str | None, functions: list[str]) -> None:
    assert wait_label(functions) == label
