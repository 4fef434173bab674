"""`aiflame push`, and `--push` of the commands that record."""

from __future__ import annotations

import contextlib
import io
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from calling import run_aiflame
from exported_profiles import training
from push_clock import body
from receiver import Receiver, running

from aiflame.cli.commands import run
from aiflame.cli.main import guarded
from aiflame.cli.push import _sent
from aiflame.cli.support.recorded import hand_over
from aiflame.push.destination import Destination
from aiflame.push.queue import Queue
from aiflame.push.sender import Limits
from aiflame.recorder.place import ProfileLocation
from aiflame.recorder.run import Recording

PYTHON = sys.executable


@pytest.fixture(scope="module")
def profiles(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    return [str(training(tmp_path_factory.mktemp("profiles") / name, name).path) for name in ("sgemm", "dgemm")]


def test_several_profiles_arrive(profiles: list[str], receiver: Receiver) -> None:
    said = run_aiflame("push", *profiles, receiver.url)
    assert (said.status, said.out, said.err) == (0, f"all profiles have arrived at localhost:{receiver.port}\n", "")
    assert len(receiver.kept) == 2


def test_what_does_not_arrive_waits_for_the_next_push(profiles: list[str]) -> None:
    with running() as receiver:
        receiver.faults.append("401")
        said = run_aiflame("push", profiles[0], receiver.url)
        host = f"localhost:{receiver.port}"
        assert said.status == 1
        assert said.err == (
            f"aiflame: 1 profile still waits for {host}: {host} answers 401: the headers do not let us in (--push-headers FILE)\n"
            "aiflame: it goes with the next push, or by aiflame push --queue\n"
        )
        listed = run_aiflame("push", "--queue", "--list")
        assert listed.status == 0
        assert f"{receiver.url} (otlp): 1 profile waiting (0.0 MB), 0 arrived, 0 let go, 0 refused\n" in listed.out
        assert "the last failure: " in listed.out
        (row,) = json.loads(run_aiflame("push", "--queue", "--list", "--json").out)["receivers"]
        assert (row["url"], row["waiting"], row["arrived"], row["waiting_bytes"] > 0) == (receiver.url, 1, 0, True)
        assert json.loads(run_aiflame("push", "--queue", "--list", "--json").out)["all_sent"] is False
        assert len(receiver.heard) == 1
        assert run_aiflame("push", profiles[1], receiver.url).status == 0
        assert len(receiver.kept) == 2
        assert run_aiflame("push", "--queue").status == 0
        assert len(receiver.heard) == 3, "nothing waited any more"
    said = run_aiflame("push", profiles[0], receiver.url, "--wait", "1ms")
    assert said.status == 1
    assert "cannot be reached: connection refused" in said.err
    with running(receiver):
        receiver.kept.clear()
        assert run_aiflame("push", "--queue").status == 0
        assert len(receiver.kept) == 1


def test_a_profile_that_cannot_be_read_does_not_hold_up_the_others(profiles: list[str], receiver: Receiver, tmp_path: Path) -> None:
    said = run_aiflame("push", str(tmp_path / "none.aiflame"), profiles[0], receiver.url)
    assert said.status == 1
    assert "none.aiflame is not sent: " in said.err
    assert len(receiver.kept) == 1


def test_a_refused_profile_is_an_error(profiles: list[str], receiver: Receiver) -> None:
    receiver.faults.append("413")
    said = run_aiflame("push", profiles[0], receiver.url)
    host = f"localhost:{receiver.port}"
    assert (said.status, said.out) == (1, "")
    assert said.err == f"aiflame: 1 profile refused by {host}: {host} answers 413: the body is too large for it\n"
    assert run_aiflame("push", "--queue").status == 0


def test_a_queue_that_cannot_be_used_is_named_in_a_sentence(profiles: list[str], receiver: Receiver, state: Path) -> None:
    assert run_aiflame("push", profiles[0], receiver.url).status == 0
    (folder,) = (state / "aiflame/push").iterdir()
    (folder / "changing").unlink()
    (folder / "changing").mkdir()
    said = run_aiflame("push", profiles[0], receiver.url)
    assert (said.status, said.err) == (
        1,
        "aiflame: nothing can wait to be sent in the state folder of this user: is a directory: "
        f"{folder / 'changing'}: set XDG_STATE_HOME\n",
    )
    queued = run_aiflame("push", "--queue", "--list")
    assert (queued.status, queued.err) == (1, f"aiflame: the queue of profiles cannot be used: is a directory: {folder / 'changing'}\n")


def test_what_another_sender_saw_refused_is_an_error(receiver: Receiver, capsys: pytest.CaptureFixture[str]) -> None:
    queue = Queue.to(Destination.of(receiver.url))
    before = queue.counts()
    queue.put(body(b"a"))
    (waiting,) = queue.waiting()
    queue.refused(waiting, "the host answers 413")
    assert _sent(queue, before, Limits(), quiet=False) == 1
    assert capsys.readouterr() == ("", f"aiflame: 1 profile refused by localhost:{receiver.port}: the host answers 413\n")


def test_what_was_let_go_for_a_profile_is_an_error(receiver: Receiver, capsys: pytest.CaptureFixture[str]) -> None:
    Queue.to(Destination.of(receiver.url)).put(body(b"a"))
    queue = Queue.to(Destination.of(receiver.url), most_bytes=Queue.to(Destination.of(receiver.url)).waiting()[0].bytes)
    before = queue.counts()
    queue.put(body(b"b"))
    assert _sent(queue, before, Limits(), quiet=False) == 1
    assert capsys.readouterr() == ("", "aiflame: 1 profile let go: the disk, or the room for waiting profiles, is too small\n")
    assert _sent(queue, queue.counts(), Limits(), quiet=False) == 0


def test_waiting_profiles_can_be_dropped(receiver: Receiver) -> None:
    queue = Queue.to(Destination.of(f"{receiver.url}/?api_key=secret"))
    queue.put(body(b"a"))
    receiver.faults.append("404")
    said = run_aiflame("push", "--queue")
    assert f"is {receiver.url}/ the receiver of otlp?" in said.err
    listed = run_aiflame("push", "--queue", "--list")
    assert f"{receiver.url}/ (otlp): 1 profile waiting" in listed.out
    assert not any("secret" in text for text in (said.err, listed.out, run_aiflame("push", "--queue", "--list", "--json").out))
    assert "nothing was ever pushed to that URL" in run_aiflame("push", "--queue", "--drop", "https://other").err
    dropped = run_aiflame("push", "--queue", "--drop", f"{receiver.url}/")
    assert (dropped.status, dropped.out) == (0, f"1 profile let go that waited for localhost:{receiver.port}\n")
    assert queue.waiting() == []


def test_a_reader_of_the_list_who_leaves_is_no_error(receiver: Receiver) -> None:
    Queue.to(Destination.of(receiver.url))
    read, write = os.pipe()
    os.close(read)
    errors = io.StringIO()
    with contextlib.suppress(BrokenPipeError), os.fdopen(write, "w") as out, contextlib.ExitStack() as streams:
        streams.enter_context(contextlib.redirect_stdout(out))
        streams.enter_context(contextlib.redirect_stderr(errors))
        status = guarded(run, ["push", "--queue", "--list"])
    assert (status, errors.getvalue()) == (0, "")


def test_nobody_says_that_a_profile_is_sent_where_no_process_can_be_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    recording = Recording(ProfileLocation(tmp_path / "p.aiflame", tmp_path / "p.aiflame"), 0)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "none"))
    assert not hand_over(recording, "key")
    assert capsys.readouterr().err == (
        f"aiflame: nothing is sent, because no process could be started: aiflame push {tmp_path / 'p.aiflame'} URL sends it\n"
    )


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ([], "push needs a profile and a URL"),
        (["http://localhost"], "push needs a profile and a URL"),
        (["a.aiflame", "b.aiflame"], "b.aiflame is no URL of a receiver"),
        (["--list"], "push --list belongs to --queue"),
        (["--drop", "http://localhost", "a", "http://localhost"], "push --drop belongs to --queue"),
        (["--queue", "a.aiflame", "http://localhost"], "push --queue takes no profile"),
        (["a", "http://localhost", "--wait", "soon"], "--wait soon: write it like 20s"),
        (["a", "http://localhost", "--push-format", "otl"], "did you mean otlp?"),
    ],
)
def test_wrong_words_are_answered_in_a_sentence(words: list[str], why: str) -> None:
    said = run_aiflame("push", *words)
    assert said.status in (1, 2)
    assert why in said.err
    assert Queue.all() == []


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["--push", "nowhere"], "nowhere is no URL of a receiver"),
        (["--push-headers", "x"], "belong to a receiver: add --push URL"),
        (["--push", "http://localhost", "--no-seal"], "--push sends the sealed profile: leave --no-seal out"),
        (["--push", "http://far.example", "--push-headers", "/dev/null"], "is not encrypted"),
    ],
)
def test_a_recording_with_a_wrong_receiver_does_not_begin(words: list[str], why: str, tmp_path: Path) -> None:
    marker = tmp_path / "ran"
    said = run_aiflame("record", "-o", str(tmp_path / "p.aiflame"), *words, "--", "touch", str(marker))
    assert said.status in (1, 2)
    assert why in said.err
    assert not marker.exists()
    assert why in run_aiflame("attach", "1", *words).err


def test_a_recording_is_sent_when_it_is_sealed(tmp_path: Path) -> None:
    """The receiver is away at first: the command ends as ever, and a process of its own waits for it."""
    receiver = Receiver()
    with running(receiver):
        pass
    program = "import time\nwhile time.process_time() < 0.4: sum(range(1000))"
    command = [PYTHON, "-m", "aiflame.cli.main", "record", "-o", str(tmp_path / "p.aiflame"), "--push", receiver.url]
    recorded = subprocess.run([*command, "--", PYTHON, "-c", program], capture_output=True, text=True, check=False)
    assert recorded.returncode == 0, recorded.stderr
    assert f"it is sent to localhost:{receiver.port} when it is sealed" in recorded.stderr
    with running(receiver):
        until = time.monotonic() + 60
        while not receiver.kept and time.monotonic() < until:
            time.sleep(0.05)
    (data,) = receiver.kept.values()
    assert b"process.executable.name" in data
    (queue,) = Queue.all()
    assert (queue.waiting(), queue.counts().let_go) == ([], 0)


def test_each_window_of_a_flight_recorder_is_sent(tmp_path: Path) -> None:
    program = (
        "import glob, sys, time, aiflame\n"
        "def work(seconds):\n    end = time.process_time() + seconds\n    while time.process_time() < end: sum(range(1000))\n"
        "work(0.4); aiflame.keep('the loss is NaN')\n"
        "until = time.monotonic() + 60\n"
        "while not glob.glob(sys.argv[1]) and time.monotonic() < until: work(0.1)"
    )
    with running() as receiver:
        command = [PYTHON, "-m", "aiflame.cli.main", "record", "--last", "30s", "-o", str(tmp_path / "p.aiflame"), "--push", receiver.url]
        traced = [PYTHON, "-c", program, f"{tmp_path}/p-*-the-loss-is-NaN.aiflame"]
        recorded = subprocess.run([*command, "--", *traced], capture_output=True, text=True, check=False, env={**os.environ})
        assert recorded.returncode == 0, recorded.stderr
        until = time.monotonic() + 60
        while len(receiver.kept) < 2 and time.monotonic() < until:
            time.sleep(0.05)
    causes = [cause for data in receiver.kept.values() for cause in (b"the loss is NaN", b"the program ended") if cause in data]
    assert sorted(causes) == [b"the loss is NaN", b"the program ended"]
