"""Names of sockets, from the kernel's lists in the process's own network."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

_LISTENS = "0A"
_MOST_LINES = 100_000


def socket_name(pid: int, inode: str) -> str:
    """A TCP or UDP socket by its two ends, a local one by its path."""
    for kind in ("tcp", "tcp6", "udp", "udp6"):
        for fields in _rows(pid, kind):
            if len(fields) > 9 and fields[9] == inode:
                here, there = _end(fields[1]), _end(fields[2])
                if fields[3] == _LISTENS:
                    return f"the listening TCP socket {here}"
                return f"the {kind[:3].upper()} socket {here}" + ("" if there.endswith(":0") else f" to {there}")
    for fields in _rows(pid, "unix"):
        if len(fields) > 6 and fields[6] == inode:
            return f"the local socket {fields[7]}" if len(fields) > 7 else "a local socket"
    return "a socket"


def _rows(pid: int, kind: str) -> Iterator[list[str]]:
    try:
        with Path(f"/proc/{pid}/net/{kind}").open(errors="replace") as file:
            yield from (line.split() for line in islice(file, 1, _MOST_LINES))
    except OSError:
        return


def _end(text: str) -> str:
    """`0100007F:1F90` is 127.0.0.1:8080: words in the machine's order."""
    address, _, port = text.partition(":")
    words = bytes.fromhex(address)
    packed = b"".join(words[at : at + 4][::-1] for at in range(0, len(words), 4))
    host = socket.inet_ntop(socket.AF_INET if len(packed) == 4 else socket.AF_INET6, packed)
    return f"{host}:{int(port, 16)}" if len(packed) == 4 else f"[{host}]:{int(port, 16)}"
