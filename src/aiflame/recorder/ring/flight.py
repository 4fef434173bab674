"""The recorder's work for `--last`: removes events older than the window, and keeps the window at the events of `--on`."""

from __future__ import annotations

import contextlib
import os
import re
import time
from pathlib import Path

from aiflame.errors import AiflameError
from aiflame.profile.folder.control_page import ControlPage
from aiflame.profile.folder.door import Folder
from aiflame.profile.folder.meta import Kept, Meta
from aiflame.recorder.hand_over import can_seal, start_sealer
from aiflame.recorder.options import LEASE_BYTES, RecordOptions
from aiflame.recorder.place import ProfileLocation, remove_profile, shortened
from aiflame.recorder.ring import requests
from aiflame.recorder.ring.snapshot import snapshot
from aiflame.recorder.ring.steps import Steps
from aiflame.recorder.ring.triggers import Watcher, parse_on
from aiflame.recorder.ring.trim import Trimmer
from aiflame.values import dataclass, replace

SETTLE_NS = 1_000_000_000
"""A window is copied so long after its end: devices report their work late."""
_MOST_OFTEN_NS, _LEAST_OFTEN_NS = 1_000_000_000, 5_000_000_000
_ROUNDS = 20
"""Old rows are removed so many times in a window."""
_SHRINK = 8


@dataclass(frozen=True, slots=True)
class _Due:
    slug: str
    kept: Kept
    requests: tuple[str, ...] = ()


class Flight:
    def __init__(self, place: ProfileLocation, page: ControlPage, options: RecordOptions, meta: Meta, push: str = "") -> None:
        """`push`: the queue into which kept windows are put; "": none."""
        self._push = push
        self._place, self._page, self._options, self._meta = place, page, options, meta
        self._ring = place.folder()
        self._last_ns = options.last_ms * 1_000_000
        self._trimmer = Trimmer(self._ring)
        triggers = parse_on(options.on)
        self._watcher = Watcher(triggers)
        self.signals = triggers.signals
        self._steps = Steps(self._ring.folder("spool"))
        self._due: list[_Due] = []
        self._profiles: list[Path] = []
        """Kept ones, the oldest first."""
        self._unsealed: list[Path] = []
        self._sealer = 0
        self._begin_ns = meta.started.monotonic_ns
        """Events that ended before are gone."""
        self._next_ns = 0
        self._asked_by_signal = 0
        self._automatic: dict[str, int] = {}
        self.notes: list[str] = []

    def take_signal(self, number: int) -> None:
        self._asked_by_signal = number

    def __call__(self) -> None:
        """No error in it ends the recording."""
        try:
            self._work(time.monotonic_ns())
        except (OSError, AiflameError) as error:
            self._note(f"the flight recorder failed: {getattr(error, 'strerror', None) or error}")

    def _work(self, now: int) -> None:
        self.look(now)
        for due in [one for one in self._due if one.kept.end_ns + SETTLE_NS <= now]:
            self._due.remove(due)
            self._keep(due)
        if now >= self._next_ns:
            self._next_ns = now + min(max(self._last_ns // _ROUNDS, _MOST_OFTEN_NS), _LEAST_OFTEN_NS)
            self.trim(now)
        self._seal_next()

    def look(self, now: int) -> None:
        """Looks whether the window is to be kept."""
        for request in requests.take(self._ring):
            if request.kind != requests.ASKED_FOR:
                self._want_once(request.kind, request.reason, min(request.time_ns, now))
            elif not self._joined(request):
                self._want(request.kind, request.reason, min(request.time_ns, now), request.name)
        if self._asked_by_signal:
            self._want("signal", f"signal {self._asked_by_signal}", now)
            self._asked_by_signal = 0
        if self._watcher.needs_steps:
            for slug, cause, moment in self._watcher.causes(self._steps.ended(now), now):
                self._want_once(slug, cause, moment)

    def trim(self, now: int) -> None:
        """Removes events that no window needs any more, and more if the ring takes too much disk."""
        horizon = min([now - self._last_ns - SETTLE_NS, *(one.kept.begin_ns for one in self._due)])
        try:
            self._cut(horizon)
            most = self._options.max_bytes
            while most and _disk_bytes(self._ring) > most and horizon < now - SETTLE_NS:
                horizon += max((now - horizon) // _SHRINK, SETTLE_NS)
                self._cut(horizon)
        except OSError as error:
            self._note(f"the ring could not be trimmed: {error.strerror or error}")
        self._page.max_bytes = self._page.used_bytes + LEASE_BYTES

    def finish(self) -> None:
        """Writes the profiles that are due, and starts the sealing of all that are not sealed."""
        with contextlib.suppress(OSError, AiflameError):
            self.look(time.monotonic_ns())
        for due in self._due:
            self._keep(due)
        while self._unsealed:
            self._start_sealer(self._unsealed.pop(0))

    def kept_at_end(self, status: int) -> Kept:
        now = time.monotonic_ns()
        return Kept(end_cause(status), max(now - self._last_ns, self._begin_ns), now)

    def _cut(self, horizon: int) -> None:
        self._trimmer.trim(horizon)
        for process in self._trimmer.remove_ended(horizon):
            self._steps.forget(process)
        self._begin_ns = max(self._begin_ns, horizon)

    def _want_once(self, slug: str, cause: str, moment: int) -> None:
        """A second slow step soon after the first is in nearly the same window, which is not kept again."""
        kind = slug.rstrip("0123456789-")
        if moment - self._automatic.get(kind, -self._last_ns) >= self._last_ns // 2:
            self._automatic[kind] = moment
            self._want(slug, cause, moment)

    def _joined(self, request: requests.Request) -> bool:
        """Joins a request to one that was made a moment before: a program may ask in a loop."""
        for place, due in enumerate(self._due):
            if due.slug == request.kind and abs(due.kept.end_ns - request.time_ns) < SETTLE_NS:
                self._due[place] = replace(due, requests=(*due.requests, request.name))
                return True
        return False

    def _want(self, slug: str, cause: str, moment: int, request: str = "") -> None:
        moment = max(moment, self._begin_ns)
        kept = Kept(cause, max(moment - self._last_ns, self._begin_ns), moment)
        self._due.append(_Due(slug, kept, (request,) if request else ()))

    def _keep(self, due: _Due) -> None:
        name = due.kept.cause if due.slug == requests.ASKED_FOR else due.slug
        path = self._free_path(name)
        try:
            snapshot(self._ring, path, due.kept, self._meta)
        except (OSError, AiflameError) as error:
            reason = getattr(error, "strerror", None) or error
            self._note(f"the last {self._options.last_ms / 1000:g} s could not be kept ({due.kept.cause}): {reason}")
            with contextlib.suppress(OSError, AiflameError):
                remove_profile(path)
            for request in due.requests:
                requests.answer(self._ring, request, f"!{reason}")
            return
        self._place.tell(f"{due.kept.cause}: kept the last {due.kept.seconds:.0f} s -> {path}")
        for request in due.requests:
            requests.answer(self._ring, request, str(path.absolute()))
        self._profiles.append(path)
        self._unsealed.append(path)
        while len(self._profiles) > self._options.keep:
            old = self._profiles.pop(0)
            self._unsealed = [one for one in self._unsealed if one != old]
            with contextlib.suppress(OSError, AiflameError):
                remove_profile(old)

    def _free_path(self, cause: str) -> Path:
        whole = self._place.whole
        rank = f"-rank{self._place.rank.rank}" if self._place.rank else ""
        words = re.sub(r"[^A-Za-z0-9.]+", "-", cause).strip("-.")[:40].strip("-.") or "kept"
        stem = f"{shortened(whole.name.removesuffix('.aiflame'))}{rank}-{time.strftime('%Y%m%d-%H%M%S')}-{words}"
        path, number = whole.parent / f"{stem}.aiflame", 1
        while os.path.lexists(path):
            number += 1
            path = whole.parent / f"{stem}-{number}.aiflame"
        return path

    def _seal_next(self) -> None:
        """Seals one profile at a time, so that a storm of events takes little memory."""
        try:
            ended = self._sealer and os.waitpid(self._sealer, os.WNOHANG)[0]
        except ChildProcessError:  # SIGCHLD is ignored, so the kernel forgets children that have ended
            ended = self._sealer
        if ended:
            self._sealer = 0
        if self._unsealed and not self._sealer:
            self._sealer = self._start_sealer(self._unsealed.pop(0))

    def _start_sealer(self, profile: Path) -> int:
        return start_sealer(profile, {}, self._push) if can_seal() else 0

    def _note(self, text: str) -> None:
        if text not in self.notes:
            self.notes.append(text)
            self._place.tell(text)


def end_cause(status: int) -> str:
    import signal

    if status >= 0:
        return f"the program ended with status {status}" if status else "the program ended"
    name = signal.Signals(-status).name if -status in list(signal.Signals) else f"signal {-status}"
    return f"the program was ended by {name}"


def _disk_bytes(folder: Folder) -> int:
    return sum(entry.status.st_blocks * 512 for entry in folder.walk() if entry.is_file)
