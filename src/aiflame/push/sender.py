"""Sends the bodies of a queue to their receiver, again and again until it has them. Standard library alone.

A body leaves the queue when the receiver has said that it has it. So a receiver that answers too late, or whose answer is lost, may get a
body twice; `Idempotency-Key` is then the same.
"""

from __future__ import annotations

import contextlib
import email.utils
import http.client
import io
import random
import socket
import ssl
import threading
import time
from collections.abc import Iterator, Mapping
from urllib.parse import SplitResult, urljoin, urlsplit

from aiflame.errors import AiflameError, harmless
from aiflame.push.answers import rejected
from aiflame.push.destination import OTLP, PATHS, Destination
from aiflame.push.queue import Body, Counts, Queue, Waiting
from aiflame.values import dataclass, replace
from aiflame.version import VERSION

_FIRST_WAIT_S, _LONGEST_WAIT_S, _MOST_ASKED_S = 1.0, 60.0, 3600.0
_LOOK_S = 0.2
_MOST_FAILURES = 3
"""Bodies in a row that the receiver could not take, before the rest waits as well: one body may be the reason."""
_SHORTEST_S = 1.0
"""The least time for an attempt, also where the patience is nearly over."""
_MOST_MOVES = 3
_LARGEST_ANSWER = 64 << 10
_LATER = (408, 425, 429)
_NEVER = (400, 411, 413, 414, 415, 422)
"""The receiver will not take this body, however often it comes."""


class Clock:
    """The time that a test replaces."""

    def now(self) -> float:
        return time.monotonic()

    def wall(self) -> float:
        return time.time()

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)


@dataclass(frozen=True, slots=True)
class Limits:
    silence_s: float = 30.0
    """The receiver says nothing, and takes nothing, for so long."""
    request_s: float = 300.0
    """One request, however slowly it goes on."""
    patience_s: float = 60.0
    """All attempts together."""
    from_newest: bool = False
    """The patience begins again with each new body."""


@dataclass(frozen=True, slots=True)
class Outcome:
    arrived: int
    waiting: int
    counts: Counts
    """of this queue since it exists"""
    refused: int = 0
    refusal: str = ""
    reason: str = ""
    """Why bodies still wait."""
    elsewhere: bool = False
    """Another process is sending them."""


class _LaterError(Exception):
    """The receiver may take the body another time."""

    def __init__(self, reason: str, after_s: float = 0.0, *, all_of_them: bool = False) -> None:
        super().__init__(reason)
        self.after_s, self.all_of_them = after_s, all_of_them


class _NeverError(Exception):
    """The receiver will never take this body."""


class _WrongError(Exception):
    """Nothing can be sent until a person has changed something."""


def send(queue: Queue, clock: Clock | None = None, limits: Limits | None = None, *, join: bool = False) -> Outcome:
    """Sends the waiting bodies, for as long as the patience lasts. If another process is sending already, returns at once, or with `join`
    when nothing waits any more."""
    sender = _Sender(queue, clock or Clock(), limits or Limits())
    while True:
        with queue.sending() as alone:
            if alone:
                sender.run()
        # A body may have been added just before the lock was given back, by a process that found it taken.
        over = not sender.goes_on() or not queue.waiting()
        if over or (not alone and not (join and sender.waits_for_another())):
            elsewhere = not alone and not over
            return Outcome(
                sender.arrived, len(queue.waiting()), queue.counts(), sender.refused, sender.refusal, sender.reason, elsewhere=elsewhere
            )


class _Sender:
    def __init__(self, queue: Queue, clock: Clock, limits: Limits) -> None:
        self._queue, self._clock, self._limits = queue, clock, limits
        self._until = clock.now() + limits.patience_s
        self._newest = ""
        self._failures = 0
        self.arrived = 0
        self.reason = ""
        self.refused = 0
        self.refusal = ""

    def waits_for_another(self) -> bool:
        """False when the patience is over."""
        if self._clock.now() >= self._until:
            return False
        self._clock.sleep(_LOOK_S)
        return True

    def goes_on(self) -> bool:
        """False when there is a reason to stop. A new body, where the patience begins again with each, removes the reason."""
        if self._renew():
            self.reason = ""
        return not self.reason

    def _renew(self) -> bool:
        """True if a body came since the last call, and gave us new patience."""
        newest = max((one.name for one in self._queue.waiting()), default="") if self._limits.from_newest else ""
        if newest <= self._newest:
            return False
        self._newest = newest
        self._until = self._clock.now() + self._limits.patience_s
        return True

    def run(self) -> None:
        """Ends when nothing waits, or with a reason."""
        self._renew()
        while self._queue.waiting() and not self.reason:
            try:
                headers = self._queue.destination.read_headers()
                pause = self._round(headers)
            except (_WrongError, AiflameError) as error:
                self._stop(str(error))
                return
            self._renew()
            if not pause:
                continue
            if self._clock.now() + pause[0] > self._until:
                self._stop(pause[1])
                return
            self._clock.sleep(pause[0])

    def _round(self, headers: Mapping[str, str]) -> tuple[float, str] | None:
        """Tries each body once, those first that were not tried for longest. The seconds to wait until the next round, and why; None:
        nothing failed."""
        failed: _LaterError | None = None
        in_a_row = 0
        for waiting in sorted(self._queue.waiting(), key=lambda one: one.tried_ns):
            body = self._queue.read(waiting)
            if body is None:
                self._refuse(waiting, "a body in the queue is damaged")
                continue
            try:
                _post(self._queue.destination, body, headers, self._of_what_is_left(), self._clock)
            except _LaterError as error:
                failed, in_a_row = error, in_a_row + 1
                self._queue.tried(waiting)
                if error.all_of_them or in_a_row == _MOST_FAILURES or self._clock.now() >= self._until:
                    break
            except _NeverError as error:
                self._refuse(waiting, str(error))
            else:
                in_a_row = 0
                self._failures = 0
                self.arrived += 1
                self._queue.arrived(waiting)
        if failed is None:
            return None
        self._failures += 1
        self._queue.failed(str(failed))
        return self._pause(failed.after_s), str(failed)

    def _of_what_is_left(self) -> Limits:
        left = max(self._until - self._clock.now(), _SHORTEST_S)
        return replace(self._limits, silence_s=min(self._limits.silence_s, left), request_s=min(self._limits.request_s, left))

    def _pause(self, asked_s: float) -> float:
        """Grows with each failure. Its length is random, so that many senders do not come back at the same moment."""
        grown = min(_FIRST_WAIT_S * 2.0 ** min(self._failures - 1, 16), _LONGEST_WAIT_S)
        return max(min(asked_s, _MOST_ASKED_S), grown * random.uniform(0.5, 1.0))

    def _refuse(self, waiting: Waiting, reason: str) -> None:
        self.refused += 1
        self.refusal = reason
        self._queue.refused(waiting, reason)

    def _stop(self, reason: str) -> None:
        self.reason = reason
        self._queue.failed(reason)


def _post(destination: Destination, body: Body, headers: Mapping[str, str], limits: Limits, clock: Clock) -> None:
    """Returns when the receiver has the body."""
    target = _target(destination, body)
    for _ in range(_MOST_MOVES + 1):
        status, answer, location, after = _asked(target, destination, body, headers, limits)
        host = target.netloc
        if status in (307, 308) and location:
            target = _moved(target, location)
            continue
        if 200 <= status < 300:
            if destination.format == OTLP and (refused := rejected(answer)):
                raise _NeverError(f"{host} took a body in part: {harmless(refused)}")
            return
        said = f"{host} answers {status}"
        if status in _LATER or status >= 500:
            raise _LaterError(said, _seconds(after, clock), all_of_them=bool(after) or status == 429)
        if status in _NEVER:
            raise _NeverError(f"{said}{': the body is too large for it' if status == 413 else ''}")
        if 300 <= status < 400:
            raise _WrongError(f"{said}, and leads to {harmless(location[:200]) or 'nowhere'}: name that URL if you trust it")
        if status in (401, 403):
            raise _WrongError(f"{said}: the headers do not let us in (--push-headers FILE)")
        raise _WrongError(f"{said}: is {destination.shown} the receiver of {destination.format}?")
    raise _WrongError(f"{target.netloc} leads from one address to the next")


def _asked(
    target: SplitResult, destination: Destination, body: Body, headers: Mapping[str, str], limits: Limits
) -> tuple[int, bytes, str, str]:
    """Status, content, and the headers Location and Retry-After of the answer."""
    connection: http.client.HTTPConnection | None = None
    connected = False
    try:
        connection = _connection(target, limits)
        connection.connect()
        connected = True
        with _no_longer_than(limits.request_s, connection.sock):
            whole = _sent(connection, target, body, headers)
            response = connection.getresponse()
            answer = response.read(_LARGEST_ANSWER)
            if response.length and len(answer) < _LARGEST_ANSWER:
                raise http.client.IncompleteRead(answer, response.length)
            if not whole and response.status < 300:
                raise _LaterError(f"{target.netloc} closed the connection")
            return response.status, answer, response.getheader("Location", ""), response.getheader("Retry-After", "")
    except ssl.SSLCertVerificationError as error:
        raise _WrongError(
            f"the certificate of {target.netloc} is not trusted ({error.verify_message}): name its authority by SSL_CERT_FILE=FILE"
        ) from None
    except (ssl.SSLEOFError, ssl.SSLZeroReturnError, ssl.SSLSyscallError):
        raise _LaterError(f"{target.netloc} closed the connection", all_of_them=not connected) from None
    except ssl.SSLError as error:
        raise _WrongError(f"{target.netloc} does not speak TLS with us: {error.reason or error}") from None
    except TimeoutError:
        raise _LaterError(f"{target.netloc} does not answer", all_of_them=not connected) from None
    except http.client.RemoteDisconnected:
        raise _LaterError(f"{target.netloc} closed the connection", all_of_them=not connected) from None
    except http.client.HTTPException:
        raise _LaterError(f"the answer of {target.netloc} is no HTTP, or not whole", all_of_them=not connected) from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        failed = "broke off" if connected else "cannot be reached"
        raise _LaterError(f"{target.netloc} {failed}: {reason.lower()}", all_of_them=not connected) from None
    finally:
        if connection is not None:
            connection.close()


def _connection(target: SplitResult, limits: Limits) -> http.client.HTTPConnection:
    host = target.hostname or ""
    if target.scheme == "https":
        return http.client.HTTPSConnection(host, target.port, timeout=limits.silence_s, context=ssl.create_default_context())
    return http.client.HTTPConnection(host, target.port, timeout=limits.silence_s)


def _sent(connection: http.client.HTTPConnection, target: SplitResult, body: Body, headers: Mapping[str, str]) -> bool:
    """Sends the request. False if the receiver closed the connection before it had the whole body: its answer may have come before that."""
    ours = {"Content-Type": body.type, "User-Agent": f"aiflame/{VERSION}", "Idempotency-Key": body.id, "Connection": "close"}
    if body.encoding:
        ours["Content-Encoding"] = body.encoding
    ours["Content-Length"] = str(len(body.data))
    path = target.path + (f"?{target.query}" if target.query else "")
    try:
        # From a file it is sent in blocks, and the limit of silence is that of one block instead of the whole body.
        connection.request("POST", path, io.BytesIO(body.data), {**headers, **ours})
    except (BrokenPipeError, ConnectionResetError, ssl.SSLEOFError):
        return False
    return True


@contextlib.contextmanager
def _no_longer_than(seconds: float, connected: socket.socket) -> Iterator[None]:
    """Cuts the connection then, and raises TimeoutError: each single wait of a slow receiver may be short."""
    over = threading.Event()

    def cut() -> None:
        over.set()
        with contextlib.suppress(OSError):
            socket.socket.shutdown(connected, socket.SHUT_RDWR)  # TLS's own would first say goodbye

    timer = threading.Timer(seconds, cut)
    timer.daemon = True
    timer.start()
    try:
        yield
    except (OSError, http.client.HTTPException, _LaterError):
        if over.is_set():
            raise TimeoutError from None
        raise
    finally:
        timer.cancel()


def _target(destination: Destination, body: Body) -> SplitResult:
    parts = urlsplit(destination.url)
    end = PATHS[destination.format]
    path = parts.path.rstrip("/")
    query = "&".join(part for part in (parts.query, body.query) if part)
    return parts._replace(path=path if path.endswith(end) else path + end, query=query)


def _moved(target: SplitResult, location: str) -> SplitResult:
    """The new address, if it is at the same receiver."""
    try:
        moved = urlsplit(urljoin(target.geturl(), location))
        same = (moved.scheme, moved.hostname, moved.port) == (target.scheme, target.hostname, target.port)
    except ValueError:
        same = False
    if not same:
        raise _WrongError(f"{target.netloc} leads to {harmless(location[:200])}: name that URL if you trust it")
    return moved


def _seconds(after: str, clock: Clock) -> float:
    """Retry-After: seconds, or a date."""
    if after.strip().isascii() and after.strip().isdecimal():
        return float(after.strip()[:9])
    with contextlib.suppress(ValueError, TypeError, IndexError, OverflowError):
        return max(email.utils.parsedate_to_datetime(after).timestamp() - clock.wall(), 0.0)
    return 0.0
