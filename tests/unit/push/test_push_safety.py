"""Headers go to no stranger, command lines and environments to nobody."""

from __future__ import annotations

import os
import shutil
import stat
from pathlib import Path

import pytest
from push_clock import HandClock, body
from receiver import Receiver, new_certificate, running

from aiflame.attribute.stacks.process_frames import short_command
from aiflame.errors import AiflameError
from aiflame.push.destination import Destination
from aiflame.push.queue import Queue
from aiflame.push.sender import Limits, send

QUICK = Limits(silence_s=2, patience_s=5)
SECRET = "Bearer wherever-this-is-it-leaked"
with_openssl = pytest.mark.skipif(shutil.which("openssl") is None, reason="no openssl here to make a certificate")


@pytest.fixture
def headers(tmp_path: Path) -> Path:
    file = tmp_path / "headers"
    file.write_text(f"# for the collector\n\nAuthorization: {SECRET}\nX-Scope-OrgID: team: one\n")
    return file


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("collector:4318", "is no URL of a receiver"),
        ("ftp://host/x", "is no URL of a receiver"),
        ("https://", "is no URL of a receiver"),
        ("https://host:99999", "is no URL: "),
        ("https://ho st/", "is no URL of a receiver"),
        ("https://host/\nX: y", "is no URL of a receiver"),
        ("https://[::1", "is no URL: "),
        ("https://host/#x", "a part behind #"),
        ("https://me:secret-in-url@host", "a name or a password in it"),
        ("https://me:secret-in-url@host:x", "is no URL"),
    ],
)
def test_what_is_no_receiver_is_refused_in_a_sentence(url: str, why: str) -> None:
    with pytest.raises(AiflameError) as error:
        Destination.of(url)
    assert why in str(error.value)
    assert "secret-in-url" not in str(error.value)


def test_the_format_is_that_of_the_address() -> None:
    assert Destination.of("http://localhost:4040/ingest").format == "pprof"
    assert Destination.of("http://localhost:4040/ingest/").format == "pprof"
    assert Destination.of("http://localhost:4318").format == "otlp"
    assert Destination.of("http://localhost:4040", "pprof").format == "pprof"
    with pytest.raises(AiflameError, match="jaeger cannot be sent: use otlp or pprof"):
        Destination.of("http://localhost", "jaeger")


def test_headers_go_where_they_are_encrypted_or_to_this_machine(headers: Path) -> None:
    for url in ("https://collector.example", "http://localhost:4318", "http://127.0.0.1:4318", "http://[::1]:4318"):
        assert Destination.of(url, headers=headers).read_headers() == {"Authorization": SECRET, "X-Scope-OrgID": "team: one"}
    for url in ("http://collector.example", "http://localhost.example", "http://127.0.0.1.example"):
        with pytest.raises(AiflameError, match="is not encrypted, and everyone on the way could read the headers: use https, or"):
            Destination.of(url, headers=headers)
        assert Destination.of(url, headers=headers, plain=True).plain
        assert Destination.of(url).url == url


@pytest.mark.parametrize(
    "line", ["no colon secret", "Bad Name: secret", ": secret", "Name: \x01secret", "Host: secret", "content-LENGTH: 3"]
)
def test_what_is_no_header_is_refused_and_not_shown(tmp_path: Path, line: str) -> None:
    (tmp_path / "headers").write_text(f"A: b\n{line}\n")
    with pytest.raises(AiflameError) as error:
        Destination.of("https://host", headers=tmp_path / "headers")
    assert "line 2 of " in str(error.value)
    assert "secret" not in str(error.value)


def test_a_file_of_headers_that_is_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(AiflameError, match=r"cannot read the headers in .*: no such file"):
        Destination.of("https://host", headers=tmp_path / "none")
    with pytest.raises(AiflameError, match=r"cannot read the headers in .*: is a directory"):
        Destination.of("https://host", headers=tmp_path)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(AiflameError, match="is no file that can be read again and again"):
        Destination.of("https://host", headers=tmp_path / "pipe")
    (tmp_path / "large").write_bytes(b"A: b\n" * 20_000)
    with pytest.raises(AiflameError, match="larger than 64 KB"):
        Destination.of("https://host", headers=tmp_path / "large")


def test_headers_are_sent_and_stored_nowhere(headers: Path, receiver: Receiver, state: Path) -> None:
    """A token that was exchanged since counts from the next attempt on."""
    queue = Queue.to(Destination.of(receiver.url, headers=headers))
    queue.put(body(b"a"))
    receiver.faults.append("401")
    assert send(queue, HandClock(), QUICK).waiting == 1
    headers.write_text("Authorization: new\n")
    assert send(queue, HandClock(), QUICK).waiting == 0
    assert [said["Authorization"] for _, said in receiver.heard] == [SECRET, "new"]
    assert not any(SECRET.encode() in file.read_bytes() for file in state.rglob("*") if file.is_file())
    headers.unlink()
    queue.put(body(b"b"))
    outcome = send(queue, HandClock(), QUICK)
    assert (outcome.waiting, outcome.reason) == (1, f"cannot read the headers in {headers}: no such file or directory")


@pytest.mark.parametrize(
    ("words", "name"),
    [
        ("-c|CODE", "python -c"),
        ("-uc|CODE|x", "python -c"),
        ("-Ic|CODE", "python -c"),
        ("-Sc|CODE", "python -c"),
        ("-cCODE|argument", "python -c"),
        ("-X|dev|-OOcCODE|argument", "python -c"),
        ("-Xdev|-W|ignore|train.py|argument", "train.py"),
        ("-uW|ignore|/x/train.py", "train.py"),
        ("-u|train.py|-c|argument", "train.py"),
        ("-m|pack|argument", "-m pack"),
        ("-um|pack|argument", "-m pack"),
        ("-mpack|argument", "-m pack"),
        ("-m", "-m"),
    ],
)
def test_code_of_a_command_is_no_name(words: str, name: str) -> None:
    assert short_command("\0".join(["/usr/bin/python", *words.split("|")]), "") == name


def test_a_path_in_an_error_keeps_its_letters(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(state / "Mine"))
    Queue.to(Destination.of("https://host"))
    (state / "Mine/aiflame/push").chmod(0o755)
    with pytest.raises(AiflameError, match=f"{state}/Mine/aiflame/push is not this user's alone"):
        Queue.to(Destination.of("https://host"))


def test_no_header_follows_to_another_receiver(headers: Path, receiver: Receiver) -> None:
    with running() as stranger:
        queue = Queue.to(Destination.of(receiver.url, headers=headers))
        queue.put(body(b"a"))
        receiver.faults.append(f"lead to 307 {stranger.url}/v1development/profiles")
        assert send(queue, HandClock(), QUICK).waiting == 1
        assert stranger.heard == []


@with_openssl
def test_a_certificate_must_be_trusted_and_be_that_of_the_host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own, other = new_certificate(tmp_path / "own.pem"), new_certificate(tmp_path / "other.pem", "other.example")
    with running(certificate=own) as receiver:
        queue = Queue.to(Destination.of(receiver.url))
        queue.put(body(b"a"))
        for trusted in (None, other):
            if trusted is not None:
                monkeypatch.setenv("SSL_CERT_FILE", str(trusted))
            outcome = send(queue, HandClock(), QUICK)
            assert outcome.waiting == 1
            assert outcome.reason.startswith(f"the certificate of localhost:{receiver.port} is not trusted (")
            assert outcome.reason.endswith("): name its authority by SSL_CERT_FILE=FILE")
        assert receiver.heard == []
        monkeypatch.setenv("SSL_CERT_FILE", str(own))
        assert send(queue, HandClock(), QUICK).waiting == 0
        assert receiver.kept == {body(b"a").id: b"a"}
    with running(certificate=other) as receiver:
        queue = Queue.to(Destination.of(receiver.url))
        queue.put(body(b"b"))
        monkeypatch.setenv("SSL_CERT_FILE", str(other))
        assert "not valid for 'localhost'" in send(queue, HandClock(), QUICK).reason


@with_openssl
def test_a_receiver_without_tls_gets_nothing_by_https(receiver: Receiver) -> None:
    queue = Queue.to(Destination.of(receiver.url.replace("http:", "https:")))
    queue.put(body(b"a"))
    outcome = send(queue, HandClock(), QUICK)
    assert outcome.waiting == 1
    assert "does not speak TLS with us" in outcome.reason
    assert receiver.kept == {}


def test_the_queue_is_its_users_alone(state: Path) -> None:
    queue = Queue.to(Destination.of("https://host"))
    queue.put(body(b"a"))
    for path in (state / "aiflame").rglob("*"):
        assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0, path
    for path, mode in ((state / "aiflame", 0o777), (state / "aiflame/push", 0o755)):
        path.chmod(mode)
        _is_refused()
        path.chmod(0o700)


def _is_refused() -> None:
    with pytest.raises(AiflameError, match=r"nothing can wait to be sent in the state folder of this user: .* is not this user's alone"):
        Queue.to(Destination.of("https://host"))
    assert Queue.all() == []


def test_a_link_in_the_queue_is_not_followed(state: Path, tmp_path: Path) -> None:
    queue = Queue.to(Destination.of("https://host"))
    (tmp_path / "private").write_text("private")
    folder = state / "aiflame/push" / queue.destination.key
    (folder / f"{1:020}-{'a' * 32}.body").symlink_to(tmp_path / "private")
    assert queue.waiting() == []
