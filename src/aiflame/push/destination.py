"""The receiver that a user named: its URL, its format, and the file with the headers for it. Standard library alone."""

from __future__ import annotations

import hashlib
import json
import os
import re
import stat
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

from aiflame.errors import AiflameError
from aiflame.values import asdict, dataclass

OTLP, PPROF = "otlp", "pprof"
PATHS: Mapping[str, str] = {OTLP: "/v1development/profiles", PPROF: "/ingest"}
"""Formats, each with the end of the path that receivers of it have."""
_LOCAL = ("localhost", "127.0.0.1", "::1")
_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_VALUE = re.compile("[\x20-\x7e\x80-\xff\t]*")
_OURS = ("host", "content-length", "content-type", "content-encoding", "transfer-encoding", "idempotency-key", "user-agent")
_LARGEST = 64 << 10


@dataclass(frozen=True, slots=True)
class Destination:
    url: str
    format: str = OTLP
    headers: str = ""
    """The absolute path of a file with a header on each line; "": none. Its content is read when something is sent, and kept nowhere."""
    plain: bool = False
    """Send headers also where nothing is encrypted."""
    service: str = ""
    """"": named after the program."""

    @staticmethod
    def of(url: str, format: str = "", headers: str | Path = "", *, plain: bool = False, service: str = "") -> Destination:
        """The destination, or an error that says what is wrong with it. The format that the URL's path ends with is the default, else
        OTLP."""
        shown = url if "@" not in url else "the URL"
        try:
            parts = urlsplit(url)
            named, _ = parts.hostname, parts.port
        except ValueError as error:
            raise AiflameError(f"{shown} is no URL: {error}") from None
        if parts.scheme not in ("http", "https") or not named or not re.fullmatch(r"[!-~]+", url):
            raise AiflameError(f"{shown} is no URL of a receiver: write it like https://collector.example:4318")
        if parts.username is not None or parts.password is not None:
            raise AiflameError("the URL has a name or a password in it: write them as a header into the file of --push-headers")
        if parts.fragment:
            raise AiflameError(f"{shown} has a part behind # that no receiver gets: leave it out")
        chosen = format or (PPROF if parts.path.rstrip("/").endswith(PATHS[PPROF]) else OTLP)
        if chosen not in PATHS:
            raise AiflameError(f"the format {chosen} cannot be sent: use {' or '.join(PATHS)}")
        if headers and parts.scheme == "http" and named not in _LOCAL and not plain:
            raise AiflameError(
                f"{shown} is not encrypted, and everyone on the way could read the headers: use https, or allow it by --push-plain"
            )
        result = Destination(url, chosen, str(Path(headers).absolute()) if headers else "", plain, service)
        result.read_headers()
        return result

    @property
    def key(self) -> str:
        """The name of its queue: the same for everything that goes there in the same way."""
        return hashlib.sha256(json.dumps(asdict(self), sort_keys=True).encode()).hexdigest()[:24]

    @property
    def host(self) -> str:
        return urlsplit(self.url).netloc

    @property
    def shown(self) -> str:
        """The URL for people: without the query, which may have a key in it."""
        return urlsplit(self.url)._replace(query="").geturl()

    def read_headers(self) -> dict[str, str]:
        """The headers of the file: `Name: value` on each line; empty lines and those that begin with # are left out."""
        if not self.headers:
            return {}
        try:
            descriptor = os.open(self.headers, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            with os.fdopen(descriptor, "rb") as file:
                if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                    raise AiflameError(f"{self.headers} is no file that can be read again and again, as aiflame does with headers")
                data = file.read(_LARGEST + 1)
        except OSError as error:
            raise AiflameError(f"cannot read the headers in {self.headers}: {(error.strerror or str(error)).lower()}") from None
        if len(data) > _LARGEST:
            raise AiflameError(f"{self.headers} is larger than {_LARGEST >> 10} KB: write one header on each line")
        headers: dict[str, str] = {}
        for number, line in enumerate(data.decode("latin-1").split("\n"), 1):
            text = line.strip()
            if not text or text.startswith("#"):
                continue
            name, colon, value = text.partition(":")
            # The line itself may be a secret, and is not shown.
            if not colon or not _NAME.fullmatch(name.strip()) or not _VALUE.fullmatch(value.strip()):
                raise AiflameError(f"line {number} of {self.headers} is no header: write it like Authorization: Bearer …")
            if name.strip().lower() in _OURS:
                raise AiflameError(f"line {number} of {self.headers}: aiflame sets {name.strip()} itself")
            headers[name.strip()] = value.strip()
        return headers

    def text(self) -> bytes:
        return json.dumps(asdict(self)).encode()

    @staticmethod
    def parse(text: bytes) -> Destination:
        """ValueError where it is none."""
        values = json.loads(text)
        fields = {"url": str, "format": str, "headers": str, "plain": bool, "service": str}
        if (
            not isinstance(values, dict)
            or set(values) != set(fields)
            or any(type(values[name]) is not kind for name, kind in fields.items())
        ):
            raise ValueError("no destination")
        return Destination(**values)
