"""Marks itself by ITT, through a library that has Intel's client in it: `itt_client.py LIBRARY SCENE`.

The functions are called as Intel's macros call them: through the client's table, and not for a domain that is switched off.
"""

from __future__ import annotations

import ctypes
import math
import os
import signal
import sys
import threading
from ctypes import POINTER, c_char_p, c_double, c_float, c_int, c_longlong, c_size_t, c_ulonglong, c_void_p

CLIENT = ctypes.CDLL(sys.argv[1])


class Id(ctypes.Structure):
    _fields_ = [("d1", c_ulonglong), ("d2", c_ulonglong), ("d3", c_ulonglong)]


class Domain(ctypes.Structure):
    _fields_ = [("flags", c_int), ("name", c_char_p)]


class String(ctypes.Structure):
    _fields_ = [("text", c_char_p)]


NULL = Id(0, 0, 0)
DOMAIN, STRING = POINTER(Domain), POINTER(String)
SIGNATURES = {
    "domain_create": (DOMAIN, c_char_p),
    "string_handle_create": (STRING, c_char_p),
    "task_begin": (None, DOMAIN, Id, Id, STRING),
    "task_end": (None, DOMAIN),
    "task_begin_ex": (None, DOMAIN, c_void_p, c_ulonglong, Id, Id, STRING),
    "task_end_ex": (None, DOMAIN, c_void_p, c_ulonglong),
    "task_begin_overlapped": (None, DOMAIN, Id, Id, STRING),
    "task_end_overlapped": (None, DOMAIN, Id),
    "region_begin": (None, DOMAIN, Id, Id, STRING),
    "region_end": (None, DOMAIN, Id),
    "frame_begin_v3": (None, DOMAIN, POINTER(Id)),
    "frame_end_v3": (None, DOMAIN, POINTER(Id)),
    "frame_submit_v3": (None, DOMAIN, POINTER(Id), c_ulonglong, c_ulonglong),
    "get_timestamp": (c_ulonglong,),
    "marker": (None, DOMAIN, Id, STRING, c_int),
    "mark_create": (c_int, c_char_p),
    "mark": (c_int, c_int, c_char_p),
    "event_create": (c_int, c_char_p, c_int),
    "event_start": (c_int, c_int),
    "event_end": (c_int, c_int),
    "metadata_add": (None, DOMAIN, Id, STRING, c_int, c_size_t, c_void_p),
    "metadata_str_add": (None, DOMAIN, Id, STRING, c_char_p, c_size_t),
    "metadata_add_with_scope": (None, DOMAIN, c_int, STRING, c_int, c_size_t, c_void_p),
    "counter_create": (c_void_p, c_char_p, c_char_p),
    "counter_create_typed": (c_void_p, c_char_p, c_char_p, c_int),
    "counter_inc": (None, c_void_p),
    "counter_dec": (None, c_void_p),
    "counter_inc_delta": (None, c_void_p, c_ulonglong),
    "counter_set_value": (None, c_void_p, c_void_p),
    "counter_inc_delta_v3": (None, DOMAIN, STRING, c_ulonglong),
    "pause": (None,),
    "resume": (None,),
    "sync_create": (None, c_void_p, c_char_p, c_char_p, c_int),
}


def call(name: str, *arguments: object) -> object:
    function = c_void_p.in_dll(CLIENT, f"__itt_{name}_ptr__3_0").value
    if not function or (arguments and isinstance(arguments[0], DOMAIN) and not arguments[0][0].flags):
        return None
    return ctypes.CFUNCTYPE(*SIGNATURES[name])(function)(*arguments)


def string(text: str) -> object:
    return call("string_handle_create", text.encode())


def tasks() -> None:
    early, before = call("domain_create", b"made before"), string("named before")
    CLIENT.__getattr__("__itt_init_ittlib")(None, 0x7FFFFFFF)
    call("task_begin", early, NULL, NULL, before)
    domain = call("domain_create", b"D")
    call("task_begin", domain, Id(1, 2, 3), NULL, string("with an id"))
    call("task_begin_ex", domain, None, 0, NULL, NULL, string("by ex"))
    call("task_end_ex", domain, None, 0)
    call("task_end", early)
    call("task_end", domain)
    call("task_end", domain)  # one too many


def overlapped() -> None:
    domain = call("domain_create", b"D")
    call("task_begin_overlapped", domain, Id(1, 0, 0), NULL, string("a"))
    call("task_begin_overlapped", domain, Id(2, 0, 0), NULL, string("b"))
    call("region_begin", domain, Id(3, 0, 0), NULL, string("region"))
    call("task_end_overlapped", domain, Id(1, 0, 0))
    other = threading.Thread(target=lambda: call("task_end_overlapped", domain, Id(2, 0, 0)))
    other.start()
    other.join()
    call("region_end", domain, Id(3, 0, 0))
    call("region_end", domain, Id(4, 0, 0))
    call("task_begin_overlapped", domain, Id(1, 0, 0), NULL, string("a again"))


def metadata() -> None:
    domain, key = call("domain_create", b"D"), string("key")

    def numbers(kind: int, *values: object) -> None:
        array = (type(values[0]) * len(values))(*values)  # type: ignore[operator]
        call("metadata_add", domain, NULL, key, kind, len(values), ctypes.addressof(array))

    call("task_begin", domain, NULL, NULL, string("outer"))
    call("task_begin", domain, Id(7, 0, 0), NULL, string("inner"))
    numbers(1, c_ulonglong(2**64 - 1))
    numbers(2, c_longlong(-1), c_longlong(5))
    numbers(7, c_float(0.1))
    numbers(8, c_double(0.1), c_double(1e300), c_double(math.nan), c_double(2.0))
    call("metadata_str_add", domain, NULL, key, b"text\n\xff", 6)
    call("metadata_str_add", domain, NULL, key, b"ends at its 0", 0)
    call("task_begin", domain, NULL, NULL, string("innermost"))
    call("metadata_str_add", domain, Id(7, 0, 0), key, b"by id", 5)
    call("task_end", domain)
    call("task_end", domain)
    value = c_int(3)
    call("metadata_add_with_scope", domain, 4, key, 4, 1, ctypes.addressof(value))
    call("task_end", domain)
    numbers(2, c_longlong(9))  # of no task


def frames() -> None:
    domain = call("domain_create", b"frames")
    one, other = Id(1, 0, 0), Id(2, 0, 0)
    call("frame_begin_v3", domain, ctypes.byref(one))
    call("frame_begin_v3", domain, None)
    call("frame_begin_v3", domain, ctypes.byref(other))
    call("frame_end_v3", domain, ctypes.byref(one))
    call("frame_end_v3", domain, None)
    begin = call("get_timestamp")
    call("frame_submit_v3", domain, None, begin, call("get_timestamp"))
    call("frame_submit_v3", domain, None, begin, 2**64 - 1)
    call("frame_submit_v3", domain, None, 2**60, 2**61)
    call("marker", domain, NULL, string("marker"), 1)
    call("mark", call("mark_create", b"mark"), b"parameter")
    first, second = call("event_create", b"event 1, cut", 7), call("event_create", b"event 2", 7)
    call("event_start", first)
    call("event_start", second)
    call("event_end", first)
    call("event_end", second)
    call("event_end", second)


def counters() -> None:
    domain = call("domain_create", b"D")
    plain = call("counter_create", b"plain", b"C")
    assert call("counter_create", b"plain", b"C") == plain
    call("counter_inc", plain)
    call("counter_inc_delta", plain, 10)
    call("counter_dec", plain)
    real = call("counter_create_typed", b"real", b"C", 8)
    value = c_double(-2.5)
    call("counter_set_value", real, ctypes.addressof(value))
    call("counter_inc_delta_v3", domain, string("named"), 4)
    call("counter_inc_delta_v3", domain, string("named"), 5)


def quiet() -> None:
    for name in (b"oneDNN::primitive::execute", b"dnnl::primitive::execute", b"mine"):
        domain = call("domain_create", name)
        call("task_begin", domain, NULL, NULL, string("task"))
        call("task_end", domain)
    assert call("sync_create", None, b"", b"", 0) is None


def quiet_first() -> None:
    """The first call of all makes the client ask for a collector, which switches its domain off."""
    domain, name = call("domain_create", b"oneDNN::primitive::execute"), string("task")
    call("task_begin", domain, NULL, NULL, name)
    call("task_end", domain)
    call("task_begin", domain, NULL, NULL, name)
    call("task_end", domain)


def paused() -> None:
    def spin() -> None:
        import time

        end = time.process_time() + 0.5  # the kernel may give no tick for 0.2 s
        while time.process_time() < end:
            pass

    call("resume")
    spin()
    call("pause")
    call("pause")
    spin()
    call("resume")
    spin()


def killed() -> None:
    domain = call("domain_create", b"D")
    call("task_begin", domain, NULL, NULL, string("under way"))
    os.kill(os.getpid(), signal.SIGKILL)


def many() -> None:
    domain, name = call("domain_create", b"D"), string("again")
    begin = ctypes.CFUNCTYPE(*SIGNATURES["task_begin"])(c_void_p.in_dll(CLIENT, "__itt_task_begin_ptr__3_0").value)
    end = ctypes.CFUNCTYPE(*SIGNATURES["task_end"])(c_void_p.in_dll(CLIENT, "__itt_task_end_ptr__3_0").value)
    for _ in range(100_000):
        begin(domain, NULL, NULL, name)
        end(domain)


if sys.argv[2] not in ("tasks", "quiet_first"):
    CLIENT.__getattr__("__itt_init_ittlib")(None, 0x7FFFFFFF)
globals()[sys.argv[2]]()
