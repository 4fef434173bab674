"""A process that cannot be dumped gets one clear line, and stays as it was."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from programs_to_dump import dumped, python, started

from aiflame.cli.commands import run
from aiflame.cli.support.parser import UsageError
from aiflame.dump.capture import capture
from aiflame.dump.described import describe
from aiflame.dump.stopping import stopped
from aiflame.dump.target import Target
from aiflame.errors import AiflameError

WAITS = "print('ready', flush=True); input()"
SPINS = "print('ready', flush=True)\nwhile True: pass"


def _error(pid: int) -> str:
    with pytest.raises(AiflameError) as error:
        describe(pid)
    text = str(error.value)
    assert "\n" not in text
    return text


@pytest.mark.parametrize("text", ["0", "-1", "1.5", "x", "", "99999999999", "1 2", "٣"])
def test_no_process_id(text: str) -> None:
    with pytest.raises(UsageError):
        run(["dump", "--", text])


def test_a_process_that_is_gone() -> None:
    program = subprocess.Popen(["true"])
    program.wait()
    assert _error(program.pid) == f"there is no process {program.pid}"


def test_a_zombie() -> None:
    program = subprocess.Popen(["true"])
    os.waitid(os.P_PID, program.pid, os.WEXITED | os.WNOWAIT)
    own = Path("/proc/self/comm").read_text().rstrip()
    expected = f"process {program.pid} (true) has ended; its parent {os.getpid()} ({own}) has not waited for it yet"
    assert _error(program.pid) == expected
    program.wait()


def test_a_thread_of_a_process() -> None:
    with started(python("import threading\nthreading.Thread(target=input).start()\nprint('ready', flush=True)")) as program:
        tid = next(tid for one in Path(f"/proc/{program.pid}/task").iterdir() if (tid := int(one.name)) != program.pid)
        assert _error(tid) == f"{tid} is a thread of process {program.pid}: aiflame dump {program.pid}"


def test_a_process_of_another_user() -> None:
    """Only root may become another user; anybody else may ask about a process of root."""
    if os.geteuid() != 0:
        assert "it belongs to user root: sudo aiflame dump 1" in _error(1)
        return
    with started(python(WAITS)) as program:
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            os.setuid(65534)
            try:
                describe(program.pid)
            except AiflameError as error:
                os.write(writing, str(error).encode())
            os._exit(0)
        os.waitpid(child, 0)
        os.close(writing)
        with os.fdopen(reading) as file:
            text = file.read()
        name = Path(f"/proc/{program.pid}/comm").read_text().rstrip()
    expected = f"the system does not let us read process {program.pid} ({name}): it belongs to user root: "
    assert text == expected + f"sudo aiflame dump {program.pid}, or run it as that user"


def test_a_process_that_ends_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    with started(python(WAITS)) as program:
        name = Path(f"/proc/{program.pid}/comm").read_text().rstrip()

        def ends_first(target: Target, interpreter: object) -> object:
            program.kill()
            os.waitid(os.P_PID, program.pid, os.WEXITED | os.WNOWAIT)
            return capture(target, interpreter)  # type: ignore[arg-type]

        monkeypatch.setattr("aiflame.dump.described.capture", ends_first)
        assert _error(program.pid) == f"process {program.pid} ({name}) ended while it was read"


def test_a_process_that_is_being_debugged_is_dumped_without_stopping_it() -> None:
    """Only one may stop a thread: another process holds it (as a debugger does), and it runs."""
    holds = (
        "import ctypes, sys\nlibc = ctypes.CDLL(None)\nlibc.ptrace.argtypes = [ctypes.c_long] * 4\n"
        "assert libc.ptrace(0x4206, int(sys.argv[1]), 0, 0) == 0\nprint('ready', flush=True)\nsys.stdin.read()"
    )
    with started(python(SPINS)) as program, started([*python(holds), str(program.pid)]) as debugger:
        process = describe(program.pid)
        (thread,) = process.threads
        assert process.notes == [f"process {debugger.pid} debugs it: threads that run cannot be stopped for their stacks"]
        assert thread.note == "it ran while it was read: its frames may come from different moments, and native ones are missing"
        assert [frame.function for frame in thread.frames] == ["<module>"]
        assert thread.stopped_us == 0


def test_a_stopped_process_is_dumped_and_stays_stopped() -> None:
    with started(python(SPINS)) as program:
        program.send_signal(signal.SIGSTOP)
        process = dumped(program.pid, lambda process: process.threads[0].wait.kind == "stopped")
        assert process.threads[0].wait.text == "is stopped by a signal"
        assert [frame.function for frame in process.threads[0].frames if frame.python] == ["<module>"]
        assert Path(f"/proc/{program.pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"


def test_a_signal_that_comes_during_a_stop_is_delivered() -> None:
    text = (
        "import signal\nsignal.signal(signal.SIGUSR1, lambda *_: print('got it', flush=True))\nprint('ready', flush=True)\nwhile True: pass"
    )
    with started(python(text)) as program:
        with stopped(program.pid):
            program.send_signal(signal.SIGUSR1)
        assert program.stdout is not None
        assert program.stdout.readline() == "got it\n"


def test_a_program_of_another_machine(tmp_path: Path) -> None:
    """A program for 32 bits, as the smallest file that the kernel starts; on a kernel that refuses it there is nothing to dump."""
    base = 0x08048000
    code = bytes.fromhex("b81d000000cd80ebf7")  # again: mov $29 (pause), %eax; int $0x80; jmp again
    head = b"\x7fELF\x01\x01\x01" + bytes(9) + b"\x02\x00\x03\x00\x01\x00\x00\x00"
    head += (base + 84).to_bytes(4, "little") + (52).to_bytes(4, "little") + bytes(8) + b"\x34\x00\x20\x00\x01\x00\x00\x00\x00\x00\x00\x00"
    segment = b"".join(number.to_bytes(4, "little") for number in (1, 0, base, base, 84 + len(code), 84 + len(code), 5, 4096))
    program_file = tmp_path / "thirty_two"
    program_file.write_bytes(head + segment + code)
    program_file.chmod(0o755)
    try:
        program = subprocess.Popen([program_file])
    except OSError:
        pytest.skip("this kernel starts no 32-bit programs")
    try:
        while Path(f"/proc/{program.pid}/comm").read_text() != "thirty_two\n":  # the kernel is still about to start it
            time.sleep(0.001)
        assert _error(program.pid) == f"process {program.pid} (thirty_two) is no 64-bit x86 program: its stacks cannot be read"
    finally:
        program.kill()
        program.wait()


def test_a_kernel_thread() -> None:
    kernel = [int(one.name) for one in Path("/proc").iterdir() if one.name.isdigit() and _is_kernels(one.name)]
    if not kernel:
        pytest.skip("this container shows no threads of the kernel")
    assert _error(kernel[0]).endswith("is a thread of the kernel, and has no program")


def _is_kernels(pid: str) -> bool:
    try:
        return "VmSize" not in (text := Path(f"/proc/{pid}/status").read_text()) and "State:\tZ" not in text
    except OSError:
        return False


def test_an_interpreter_that_is_not_known_leaves_native_frames(monkeypatch: pytest.MonkeyPatch) -> None:
    from aiflame.dump import python_frames

    with started(python(WAITS)) as program:
        monkeypatch.setattr(python_frames, "_version", lambda *_: 0x0309)
        monkeypatch.setattr(python_frames, "_RUNTIME_BYTES", 8)
        process = describe(program.pid)
    assert process.notes == ["Python frames are not shown: 3.9 of CPython is not known (3.10 to 3.14 are)"]
    assert len(process.threads[0].frames) > 3
    assert not any(frame.python for frame in process.threads[0].frames)


BUSY = """
import hashlib, select, socket, sys, threading, time
reading, writing = socket.socketpair()
polled = select.epoll()
polled.register(reading, select.EPOLLIN)
results = [b""] * 3
ended = threading.Event()
def hashes(number):
    def once(data, depth):
        return once(hashlib.sha256(data).digest(), depth - 1) if depth else data
    data = bytes([number])
    for _ in range(ROUNDS):
        data = once(data, 20)
    results[number] = data
def sends():
    for number in range(200):
        writing.send(bytes([number]))
        time.sleep(0.001)
got = []
def receives():
    while len(got) < 200:
        polled.poll()
        got.extend(reading.recv(100))
threads = [threading.Thread(target=hashes, args=(number,)) for number in range(3)]
threads += [threading.Thread(target=sends), threading.Thread(target=receives)]
print("ready", flush=True)
for thread in threads: thread.start()
for thread in threads: thread.join()
print(b"".join(results).hex(), sum(got), flush=True)
"""


def test_a_busy_program_gives_the_same_result_under_many_dumps() -> None:
    text = BUSY.replace("ROUNDS", "20000")
    alone = subprocess.run(python(text), check=True, capture_output=True, text=True).stdout
    program = subprocess.Popen(python(text), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    dumps = 0
    while program.poll() is None:
        try:
            dumps += bool(describe(program.pid).threads)
        except AiflameError:
            break
        time.sleep(0.001)
    output, errors = program.communicate()
    assert (output, errors, program.returncode) == (alone, "", 0)
    assert dumps >= 5


def test_help_runs() -> None:
    text = subprocess.run([sys.executable, "-m", "aiflame", "dump", "-h"], capture_output=True, text=True, check=True).stdout
    assert "PID" in text
