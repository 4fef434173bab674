"""Marks itself by NVTX, through the vendor's library: `nvtx_client.py LIBRARY SCENE`. Each scene's calls are the ground truth."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import threading
import time
from ctypes import c_char_p, c_int, c_int32, c_uint16, c_uint32, c_uint64, c_void_p, c_wchar_p

NVTX = ctypes.CDLL(sys.argv[1])
for name in ("nvtxRangeStartA", "nvtxRangeStartW", "nvtxRangeStartEx", "nvtxDomainRangeStartEx"):
    getattr(NVTX, name).restype = c_uint64
NVTX.nvtxRangeEnd.argtypes = [c_uint64]
NVTX.nvtxDomainRangeEnd.argtypes = [c_void_p, c_uint64]
for name in ("nvtxDomainCreateA", "nvtxDomainCreateW", "nvtxDomainRegisterStringA", "nvtxDomainRegisterStringW"):
    getattr(NVTX, name).restype = c_void_p
NVTX.nvtxDomainCreateW.argtypes = [c_wchar_p]
NVTX.nvtxRangePushW.argtypes = NVTX.nvtxRangeStartW.argtypes = NVTX.nvtxMarkW.argtypes = [c_wchar_p]
NVTX.nvtxNameCategoryW.argtypes = [c_uint32, c_wchar_p]


class Payload(ctypes.Union):
    _fields_ = [
        ("u64", c_uint64),
        ("i64", ctypes.c_int64),
        ("f64", ctypes.c_double),
        ("u32", c_uint32),
        ("i32", c_int32),
        ("f32", ctypes.c_float),
    ]


KINDS = {"u64": 1, "i64": 2, "f64": 3, "u32": 4, "i32": 5, "f32": 6}


class Attributes(ctypes.Structure):
    _fields_ = [
        ("version", c_uint16),
        ("size", c_uint16),
        ("category", c_uint32),
        ("color_type", c_int32),
        ("color", c_uint32),
        ("payload_type", c_int32),
        ("reserved", c_int32),
        ("payload", Payload),
        ("message_type", c_int32),
        ("message", c_void_p),
    ]


def event(text: bytes | str | int, *, category: int = 0, color: int | None = None, **payload: float) -> ctypes.Array[Attributes]:
    """Attributes; `text` is ASCII, wide, or a registered string's handle."""
    attributes = Attributes(version=3, size=ctypes.sizeof(Attributes), category=category)
    if color is not None:
        attributes.color_type, attributes.color = 1, color
    for kind, value in payload.items():
        attributes.payload_type = KINDS[kind]
        setattr(attributes.payload, kind, value)
    if isinstance(text, int):
        attributes.message_type, attributes.message = 3, text
    else:
        keep.append(ctypes.create_unicode_buffer(text) if isinstance(text, str) else ctypes.create_string_buffer(text))
        attributes.message_type, attributes.message = (2 if isinstance(text, str) else 1), ctypes.addressof(keep[-1])
    return ctypes.byref(attributes)


keep: list[object] = []


def everything() -> None:
    push, pop, mark = NVTX.nvtxRangePushA, NVTX.nvtxRangePop, NVTX.nvtxMarkA
    push(b"outer")
    NVTX.nvtxRangePushW("w\u00efde \U0001f525")
    mark(b"moment")
    NVTX.nvtxMarkW("w\u00efde moment")
    NVTX.nvtxMarkEx(event(b"ex moment", u64=2**64 - 1))
    pop()
    pop()
    first, second, third = NVTX.nvtxRangeStartA(b"free"), NVTX.nvtxRangeStartW("free w\u00efde"), NVTX.nvtxRangeStartEx(event(b"free ex"))
    for number in (second, first, third):
        NVTX.nvtxRangeEnd(number)
    NVTX.nvtxNameCategoryA(7, b"seven")
    NVTX.nvtxNameCategoryW(8, "\u00e4cht")
    for category in (7, 8, 9):
        NVTX.nvtxRangePushEx(event(f"category {category}".encode(), category=category, color=0xFF112233))
        pop()
    for kind, value in {"u64": 2**63, "i64": -5, "f64": 0.5, "u32": 2**32 - 1, "i32": -7, "f32": 0.25}.items():
        NVTX.nvtxRangePushEx(event(f"payload {kind}".encode(), **{kind: value}))
        pop()


def domains() -> None:
    a, b = NVTX.nvtxDomainCreateA(b"A"), NVTX.nvtxDomainCreateW("B\u00e4")
    A, B = c_void_p(a), c_void_p(b)
    NVTX.nvtxDomainNameCategoryA(A, 1, b"of A")
    NVTX.nvtxDomainNameCategoryW(B, 1, c_wchar_p("of B"))
    ready = NVTX.nvtxDomainRegisterStringA(A, b"registered")
    wide = NVTX.nvtxDomainRegisterStringW(B, c_wchar_p("registered w\u00efde"))
    NVTX.nvtxRangePushA(b"default")
    NVTX.nvtxDomainRangePushEx(A, event(ready, category=1))
    NVTX.nvtxDomainRangePushEx(B, event(wide, category=1))
    NVTX.nvtxDomainRangePop(A)  # not the innermost of the thread, but of its domain
    NVTX.nvtxDomainMarkEx(B, event(b"moment"))
    number = NVTX.nvtxDomainRangeStartEx(B, event(b"free"))
    NVTX.nvtxRangePop()
    NVTX.nvtxDomainRangePushEx(None, event(b"default by another way"))
    NVTX.nvtxRangePop()
    NVTX.nvtxDomainRangePop(B)
    NVTX.nvtxDomainRangeEnd(B, number)
    NVTX.nvtxDomainDestroy(A)
    NVTX.nvtxDomainDestroy(B)


def unbalanced() -> None:
    NVTX.nvtxRangePop()
    NVTX.nvtxRangePushA(b"popped")
    NVTX.nvtxRangePushA(b"left open")
    NVTX.nvtxRangePushA(b"inside")
    NVTX.nvtxRangePop()
    NVTX.nvtxRangeEnd(12345)

    def leave() -> None:
        NVTX.nvtxRangePushA(b"of a thread")

    thread = threading.Thread(target=leave)
    thread.start()
    thread.join()

    def come() -> None:
        NVTX.nvtxRangePop()  # the other thread's is none of its own

    thread = threading.Thread(target=come)
    thread.start()
    thread.join()


def hostile() -> None:
    for text in (b"new\nline", b"", b"x" * 10_000, b"\xff\xfe broken \xc3", b'nul in json \\ " \x01'):
        NVTX.nvtxRangePushA(text)
        NVTX.nvtxRangePop()
    for wide in ("y" * 10_000, "\ud800 alone", ""):
        NVTX.nvtxRangePushW(wide)
        NVTX.nvtxRangePop()
    NVTX.nvtxRangePushA(None)
    NVTX.nvtxRangePop()
    NVTX.nvtxRangePushEx(None)
    NVTX.nvtxRangePop()
    NVTX.nvtxDomainRangePushEx(None, event(0))
    NVTX.nvtxRangePop()


def threads() -> None:
    def work(number: int) -> None:
        for turn in range(1000):
            NVTX.nvtxRangePushA(b"outer %d" % number)
            NVTX.nvtxRangePushA(b"inner %d" % (turn % 10))
            NVTX.nvtxRangePop()
            NVTX.nvtxRangePop()

    workers = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()


def across_threads() -> None:
    numbers = []
    starter = threading.Thread(target=lambda: numbers.append(NVTX.nvtxRangeStartA(b"request")))
    starter.start()
    starter.join()
    NVTX.nvtxRangeEnd(numbers[0])


def fork() -> None:
    NVTX.nvtxRangePushA(b"of the parent")
    number = NVTX.nvtxRangeStartA(b"free, of the parent")
    if (child := os.fork()) == 0:
        NVTX.nvtxRangePushA(b"of the child")
        NVTX.nvtxRangePop()
        NVTX.nvtxRangePop()  # the parent's, which is balanced
        NVTX.nvtxRangeEnd(number)
        os._exit(0)
    os.waitpid(child, 0)
    NVTX.nvtxRangePop()
    NVTX.nvtxRangeEnd(number)


def execute() -> None:
    NVTX.nvtxRangePushA(b"before exec")
    os.execv(sys.executable, [sys.executable, __file__, sys.argv[1], "after"])


def after() -> None:
    NVTX.nvtxRangePushA(b"after exec")
    NVTX.nvtxRangePop()


def killed() -> None:
    for number in range(100):
        NVTX.nvtxRangePushA(b"done %d" % number)
        NVTX.nvtxRangePop()
    NVTX.nvtxRangePushA(b"under way")
    os.kill(os.getpid(), signal.SIGKILL)


def many() -> None:
    text = c_char_p(b"again")
    push, pop = NVTX.nvtxRangePushA, NVTX.nvtxRangePop
    for _ in range(250_000):
        push(text)
        pop()


def deep() -> None:
    for _ in range(50_000):
        NVTX.nvtxRangePushA(b"ever deeper")
    for _ in range(50_001):
        NVTX.nvtxRangePop()


def spin() -> None:
    """Which CPU samples lie in which range is known."""
    for name in (b"first", b"second"):
        NVTX.nvtxRangePushA(name)
        end = time.process_time() + 0.3
        while time.process_time() < end:
            pass
        NVTX.nvtxRangePop()


NVTX.nvtxRangePushA.restype = c_int
globals()[sys.argv[2]]()
