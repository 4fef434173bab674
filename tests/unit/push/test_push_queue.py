"""The queue on disk: whole bodies, bounds, and counts that no kill makes wrong."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from push_clock import HandClock, body
from receiver import Receiver

from aiflame.profile.folder.door import Folder
from aiflame.push.destination import Destination
from aiflame.push.queue import Counts, Queue
from aiflame.push.sender import Limits, send

HOST = Destination.of("https://host")


class Killed(BaseException):
    """The process ends at this system call."""


def test_bodies_survive_the_process_that_put_them() -> None:
    Queue.to(HOST).put(body(b"a"))
    (queue,) = Queue.all()
    assert queue.destination == HOST
    (one,) = queue.waiting()
    assert queue.read(one) == body(b"a")
    assert Queue.called(HOST.key) is not None
    assert Queue.called("none") is None


def test_the_oldest_goes_first_also_when_the_clock_steps_back(monkeypatch: pytest.MonkeyPatch) -> None:
    queue = Queue.to(HOST)
    for now, text in ((5, b"a"), (3, b"b"), (9, b"c")):
        monkeypatch.setattr("aiflame.push.queue.time.time_ns", lambda now=now: now)
        queue.put(body(text))
    assert [one.id for one in queue.waiting()] == [body(text).id for text in (b"a", b"b", b"c")]


def test_a_body_that_waits_is_not_put_twice() -> None:
    queue = Queue.to(HOST)
    assert queue.put(body(b"a"))
    assert queue.put(body(b"a"))
    assert len(queue.waiting()) == 1


def kill_points(monkeypatch: pytest.MonkeyPatch, after: int) -> None:
    """The process is killed before this change of the disk, counted from 0."""
    left = [after]
    for name in ("write", "rename", "remove", "put"):
        real = getattr(Folder, name)

        def change(self: Folder, *arguments: object, real: object = real) -> object:
            left[0] -= 1
            if left[0] < 0:
                raise Killed
            return real(self, *arguments)  # type: ignore[operator]

        monkeypatch.setattr(Folder, name, change)


def test_a_kill_between_any_two_changes_makes_no_count_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two bodies are let go for a third. Wherever the process is killed, each body waits or is counted."""
    outcomes = set()
    for after in range(12):
        destination = Destination.of(f"https://host-{after:02}")
        size = _size(Destination.of("https://host-xx"), b"first")
        queue = Queue.to(destination, most_bytes=2 * size)
        queue.put(body(b"first"))
        queue.put(body(b"other"))
        with monkeypatch.context() as patch:
            kill_points(patch, after)
            try:
                queue.put(body(b"x" * (size // 2 + 5)))
                ended = True
            except Killed:
                ended = False
        counts = Queue.to(destination).counts()
        here = len(queue.waiting())
        assert counts == Queue.to(destination).counts(), "counted once"
        assert here + counts.let_go in ((3,) if ended else (2, 3))
        assert len(list(_files(destination))) == here, "nothing that is counted is left"
        outcomes.add((ended, here, counts.let_go))
    assert (True, 1, 2) in outcomes
    assert (False, 0, 2) in outcomes


def test_a_kill_while_an_arrival_is_counted_makes_no_count_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    outcomes = set()
    for after in range(6):
        queue = Queue.to(Destination.of(f"https://host-{after}"))
        queue.put(body(b"a"))
        (waiting,) = queue.waiting()
        with monkeypatch.context() as patch:
            kill_points(patch, after)
            with contextlib.suppress(Killed):
                queue.arrived(waiting)
        arrived = queue.counts().arrived
        assert len(queue.waiting()) + arrived == 1
        assert len(list(_files(queue.destination))) == 1 - arrived
        assert queue.counts().arrived == arrived, "counted once"
        outcomes.add(arrived)
    assert outcomes == {0, 1}


def test_what_a_killed_process_left_half_written_is_removed(state: Path) -> None:
    queue = Queue.to(HOST)
    folder = state / "aiflame/push" / HOST.key
    left = [folder / f"{1:020}-{'a' * 32}.body.{'0' * 16}.partial", folder / f"counts.{'0' * 16}.partial"]
    for file in left:
        file.write_bytes(b"half")
    queue.put(body(b"a"))
    assert not any(file.exists() for file in left)
    assert [queue.read(one) for one in queue.waiting()] == [body(b"a")]


def test_a_queue_is_found_by_its_key_alone(state: Path) -> None:
    """Where the others cannot be listed."""
    Queue.to(HOST)
    Queue.to(Destination.of("https://other"))
    (state / "aiflame/push" / Destination.of("https://other").key).rename(state / "aiflame/push" / "moved")
    queue = Queue.called(HOST.key)
    assert queue is not None
    assert queue.destination == HOST
    assert [Queue.called(key) for key in ("", "..", "moved", "x" * 300)] == [None] * 4


def test_a_profile_that_could_not_be_put_in_is_counted() -> None:
    queue = Queue.to(HOST)
    queue.lost("p.aiflame could not be sent: no memory")
    assert queue.counts() == Counts(let_go=1, reason="p.aiflame could not be sent: no memory")


def test_dropped_bodies_are_counted(state: Path) -> None:
    queue = Queue.to(HOST)
    for text in (b"a", b"b"):
        queue.put(body(text))
    assert queue.drop() == 2
    assert (queue.waiting(), queue.counts().let_go, list(_files(HOST))) == ([], 2, [])


def test_bodies_pushed_without_headers_wait_no_longer_when_there_are_headers(tmp_path: Path) -> None:
    """Those with other headers are another team's, and stay where they are."""
    mine, theirs = tmp_path / "mine", tmp_path / "theirs"
    for file in (mine, theirs):
        file.write_text(f"X-Scope-OrgID: {file.name}\n")
    without = Queue.to(Destination.of("https://host", service="a service"))
    others = Queue.to(Destination.of("https://host", headers=theirs))
    elsewhere = Queue.to(Destination.of("https://elsewhere"))
    for number, queue in enumerate((others, without, elsewhere)):
        queue.put(body(b"%d" % number))
    queue = Queue.to(Destination.of("https://host", headers=mine))
    assert [queue.read(one) for one in queue.waiting()] == [body(b"1")]
    assert [len(one.waiting()) for one in (others, without, elsewhere)] == [1, 0, 1]


def test_bodies_that_are_being_sent_stay_in_their_queue(tmp_path: Path) -> None:
    (tmp_path / "headers").write_text("A: b\n")
    without = Queue.to(HOST)
    without.put(body(b"a"))
    with without.sending():
        assert Queue.to(Destination.of("https://host", headers=tmp_path / "headers")).waiting() == []
    assert len(without.waiting()) == 1


def _size(destination: Destination, text: bytes) -> int:
    queue = Queue.to(destination)
    queue.put(body(text))
    return queue.waiting()[0].bytes


def _files(destination: Destination) -> Iterator[Path]:
    folder = Path(os.environ["XDG_STATE_HOME"]) / "aiflame/push" / destination.key
    return (file for file in folder.iterdir() if file.name[:1].isdecimal())


def test_a_damaged_body_is_counted_and_holds_nothing_up(receiver: Receiver) -> None:
    queue = Queue.to(Destination.of(receiver.url))
    queue.put(body(b"a"))
    (file,) = _files(queue.destination)
    file.write_bytes(b"{}\n")
    queue.put(body(b"b"))
    outcome = send(queue, HandClock(), Limits())
    assert (outcome.arrived, outcome.counts.refused, list(receiver.kept.values())) == (1, 1, [b"b"])


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[]", b'{"counts": {"other": 1}, "counted": []}', b'{"counts": 3}', b"\xff" * 100, bytes(1 << 21)]
)
def test_damaged_counts_begin_again(content: bytes, state: Path) -> None:
    queue = Queue.to(HOST)
    (state / "aiflame/push" / HOST.key / "counts").write_bytes(content)
    assert queue.counts() == Counts()
    (state / "aiflame/push" / HOST.key / "destination").write_bytes(content)
    assert Queue.all() == []


def test_one_process_sends_and_another_waits_for_it(receiver: Receiver) -> None:
    queue = Queue.to(Destination.of(receiver.url))
    queue.put(body(b"a"))
    with queue.sending() as alone, queue.sending() as other:
        assert (alone, other) == (True, False)
        outcome = send(queue, HandClock(), Limits())
        assert (outcome.elsewhere, outcome.waiting, receiver.heard) == (True, 1, [])

        def the_other_is_done(now: float) -> None:
            if now > 2:
                for waiting in queue.waiting():
                    queue.arrived(waiting)

        outcome = send(queue, HandClock(the_other_is_done), Limits(), join=True)
        assert (outcome.elsewhere, outcome.waiting, receiver.heard) == (False, 0, [])
        queue.put(body(b"b"))
        assert send(queue, HandClock(), Limits(patience_s=3), join=True).elsewhere
    assert send(queue, HandClock(), Limits()).arrived == 1


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount a small disk")
def test_a_full_disk_lets_the_oldest_go_and_counts_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=200k", "tmpfs", str(disk)], capture_output=True, check=False).returncode:
        pytest.skip("a small tmpfs cannot be mounted here")
    try:
        monkeypatch.setenv("XDG_STATE_HOME", str(disk))
        queue = Queue.to(HOST)
        for number in range(10):
            assert queue.put(body(b"%d" % number * 60_000))
        waiting = queue.waiting()
        assert [queue.read(one) for one in waiting] == [body(b"%d" % number * 60_000) for number in range(10 - len(waiting), 10)]
        assert 1 <= len(waiting) <= 3
        assert queue.counts().let_go == 10 - len(waiting)
        assert not queue.put(body(b"x" * 300_000)), "the disk is smaller"
        assert queue.waiting() == waiting, "nothing was let go for nothing"
        assert queue.counts().let_go == 10 - len(waiting) + 1
    finally:
        subprocess.run(["umount", "-l", str(disk)], check=True)


def test_sending_needs_the_standard_library_alone() -> None:
    """-S: nothing that was installed can be imported, so the background process stays small."""
    source = str(Path(__file__).parents[3] / "src")
    subprocess.run(
        [sys.executable, "-I", "-S", "-c", f"import sys; sys.path.insert(0, {source!r}); import aiflame.push.background"], check=True
    )
