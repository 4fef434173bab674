"""Calls Intel's disassembler, the library `libiga64`, in a process of its own: code in a profile may come from a stranger, and the library
does not survive all of it. It needs the standard library alone.

Run as `python iga_child.py LIBRARY`. Input: for each piece of code the platform and the number of bytes (two u32), and the bytes. Output: a
line for each, a JSON list of [offset, text, targets of a jump].
"""

from __future__ import annotations

import ctypes
import json
import resource
import struct
import sys
from collections.abc import Iterator

_LONGEST = 4096
_TARGETS = 3
_DEFAULT_ENCODING = 0
_BOUNDS = {resource.RLIMIT_AS: 4 << 30, resource.RLIMIT_CPU: 120, resource.RLIMIT_CORE: 0}


def main(path: str) -> None:
    for bound, most in _BOUNDS.items():
        hard = resource.getrlimit(bound)[1]
        most = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(bound, (most, most))
    library = _library(path)
    while len(head := sys.stdin.buffer.read(8)) == 8:
        platform, size = struct.unpack("<II", head)
        print(json.dumps(list(_instructions(library, platform, sys.stdin.buffer.read(size)))), flush=True)


def _library(path: str) -> ctypes.CDLL:
    """The functions of its `kv.h` that we call."""
    library = ctypes.CDLL(path)
    number, size, words = ctypes.c_int32, ctypes.c_size_t, ctypes.POINTER(ctypes.c_int32)
    library.kv_create.restype = ctypes.c_void_p
    library.kv_create.argtypes = [ctypes.c_uint32, ctypes.c_char_p, size, words, ctypes.c_char_p, size, number]
    library.kv_delete.argtypes = [ctypes.c_void_p]
    library.kv_get_inst_size.argtypes = [ctypes.c_void_p, number]
    library.kv_get_inst_syntax.restype = size
    library.kv_get_inst_syntax.argtypes = [
        ctypes.c_void_p,
        number,
        ctypes.c_char_p,
        size,
        ctypes.c_uint32,
        ctypes.c_void_p,
        ctypes.c_void_p,
    ]
    library.kv_get_inst_targets.restype = ctypes.c_uint32
    library.kv_get_inst_targets.argtypes = [ctypes.c_void_p, number, words]
    return library


def _instructions(library: ctypes.CDLL, platform: int, code: bytes) -> Iterator[tuple[int, str, list[int]]]:
    status = ctypes.c_int32()
    view = library.kv_create(platform, code, len(code), ctypes.byref(status), None, 0, _DEFAULT_ENCODING)
    if not view:
        return
    text, targets, offset = ctypes.create_string_buffer(_LONGEST), (ctypes.c_int32 * _TARGETS)(), 0
    try:
        while status.value == 0 and offset < len(code) and (size := library.kv_get_inst_size(view, offset)) > 0:
            library.kv_get_inst_syntax(view, offset, text, _LONGEST, 0, None, None)
            count = min(library.kv_get_inst_targets(view, offset, targets), _TARGETS)
            yield offset, " ".join(text.value.decode("latin-1").split()), list(targets[:count])
            offset += size
    finally:
        library.kv_delete(view)


if __name__ == "__main__":
    main(sys.argv[1])
