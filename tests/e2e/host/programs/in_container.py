"""Runs a Python program in a container made by hand: FOLDER PREFIX ANSWERS PROGRAM [ARGUMENT ...].

It has processes, mounts and a root folder of its own. Of this machine it has the libraries alone, and the Python at PREFIX, under another
path. It is process 1. ANSWERS: those of a filter of system calls (seccomp), as JSON; `{}`: no filter.
Prints `refused: WHY` where the system makes no namespaces."""

import ctypes
import json
import os
import shutil
import signal
import struct
import sys
from pathlib import Path

NEW_MOUNTS, NEW_USERS, NEW_PROCESSES = 0x20000, 0x10000000, 0x20000000
BIND, RECURSIVE, PRIVATE, DETACH = 0x1000, 0x4000, 0x40000, 2
PIVOT_ROOT, DIE_WITH_PARENT, NO_NEW_PRIVILEGES, SET_SECCOMP, FILTER = 155, 1, 38, 22, 2
libc = ctypes.CDLL(None, use_errno=True)


def call(name, *arguments):
    if getattr(libc, name)(*arguments) != 0:
        print(f"refused: {name}: {os.strerror(ctypes.get_errno())}", flush=True)
        os._exit(3)


def mount(source, target, kind, flags):
    call("mount", os.fsencode(source), os.fsencode(target), kind, flags, None)


def bind(source, target):
    target.mkdir(parents=True, exist_ok=True)
    mount(source, target, None, BIND | RECURSIVE)


def enter(root, prefix, program):
    mount("none", "/", None, RECURSIVE | PRIVATE)
    mount("none", root, b"tmpfs", 0)
    for folder in map(Path, ("/usr", "/lib", "/lib64", "/bin", "/dev")):
        if folder.is_symlink():
            (root / folder.name).symlink_to(folder.readlink())
        elif folder.exists():
            bind(folder, root / folder.name)
    bind(prefix, root / "opt/python")
    (root / "proc").mkdir()
    mount("proc", root / "proc", b"proc", 0)
    for name in ("srv", "tmp", "old"):
        (root / name).mkdir()
    shutil.copy(program, root / "srv")
    call("syscall", PIVOT_ROOT, os.fsencode(root), os.fsencode(root / "old"))
    os.chdir("/")
    call("umount2", b"/old", DETACH)
    Path("/old").rmdir()


def set_filter(answers):
    """The rest is allowed."""
    load, equal, answer = 0x20, 0x15, 0x06
    program = [(load, 0, 0, 4), (equal, 1, 0, 0xC000003E), (answer, 0, 0, 0x80000000), (load, 0, 0, 0)]
    for number, value in answers.items():
        program += [(equal, 0, 1, int(number)), (answer, 0, 0, value)]
    code = b"".join(struct.pack("<HBBI", *one) for one in [*program, (answer, 0, 0, 0x7FFF0000)])
    buffer = ctypes.create_string_buffer(code, len(code))
    head = ctypes.create_string_buffer(struct.pack("<H6xQ", len(code) // 8, ctypes.addressof(buffer)), 16)
    call("prctl", NO_NEW_PRIVILEGES, 1, 0, 0, 0)
    call("prctl", SET_SECCOMP, FILTER, head, 0, 0)


def main():
    root, prefix, answers, program, *arguments = sys.argv[1:]
    version = f"python{sys.version_info[0]}.{sys.version_info[1]}"
    user, group = os.getuid(), os.getgid()
    call("unshare", NEW_MOUNTS | NEW_PROCESSES | (NEW_USERS if user else 0))
    if user:
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"0 {user} 1")
        Path("/proc/self/gid_map").write_text(f"0 {group} 1")
    child = os.fork()
    if child == 0:
        libc.prctl(DIE_WITH_PARENT, signal.SIGKILL)
        enter(Path(root), Path(prefix), program)
        variables = {"LD_LIBRARY_PATH": "/opt/python/lib", "PYTHONDONTWRITEBYTECODE": "1"}
        if answers := json.loads(answers):
            set_filter(answers)
        python = f"/opt/python/bin/{version}"
        os.execve(python, [python, f"/srv/{Path(program).name}", *arguments], variables)
    sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))


main()
