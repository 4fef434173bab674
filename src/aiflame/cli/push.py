"""`aiflame push`: profiles go to the place where people keep them."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path

from aiflame.cli.support.parser import Parser, UsageError
from aiflame.cli.support.pushing import add_receiver, destination_of
from aiflame.cli.support.say import say, say_json
from aiflame.cli.support.seconds import parse_seconds
from aiflame.errors import AiflameError
from aiflame.json_text import json_text, schema
from aiflame.push.queue import Counts, Queue
from aiflame.push.sender import Limits, send

DESCRIPTION = (
    "Sends profiles to a receiver: a collector of OpenTelemetry, or Pyroscope. Profiles that it does not take now wait on disk for the"
    " next push."
)
EXAMPLES = (
    "aiflame push run.aiflame https://otel.example:4318 --push-headers token",
    "aiflame push run.aiflame http://localhost:4040/ingest  # Pyroscope",
    "aiflame push --queue --list  # the profiles that wait, and the reason",
)


def add_arguments(parser: Parser) -> None:
    parser.usage = "aiflame push PROFILE ... URL [options]\n       aiflame push --queue [--list | --drop URL]"
    parser.add_argument("names", nargs="*", metavar="PROFILE ... URL", help="profiles, and the URL of the receiver")
    add_receiver(parser)
    parser.add_argument("--wait", default="60s", metavar="TIME", help="try again for so long, like 30s or 1h (default: 60s)")
    parser.add_argument("--queue", action="store_true", help="send the profiles that still wait, to all receivers")
    parser.add_argument("--list", action="store_true", help="with --queue: only list them, and send nothing")
    parser.add_argument("--drop", default="", metavar="URL", help="with --queue: let the profiles go that wait for this receiver")
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(options: Namespace) -> int:
    limits = Limits(patience_s=parse_seconds("--wait", options.wait))
    try:
        return _run(options, limits)
    except BrokenPipeError:  # nobody reads our output any more
        raise
    except OSError as error:
        raise AiflameError(f"the queue of profiles cannot be used: {(error.strerror or str(error)).lower()}: {error.filename}") from None


def _run(options: Namespace, limits: Limits) -> int:
    if options.queue:
        if options.names or options.push_format or options.push_headers or options.push_plain or options.push_service:
            raise UsageError("push --queue takes no profile and no receiver: it knows them")
        queues = Queue.all()
        if options.drop:
            _drop(queues, options.drop, quiet=options.json)
        waiting = [] if options.list or options.drop else [queue for queue in queues if queue.waiting()]
        status = max([_sent(queue, queue.counts(), limits, quiet=options.json) for queue in waiting], default=0)
        if options.list and not options.json:
            _print(queues)
    else:
        queues, status = _push(options, limits)
    if options.json:
        all_sent = status == 0 and not any(queue.waiting() for queue in queues)
        document = {"schema": schema("push"), "all_sent": all_sent, "receivers": [_facts(queue) for queue in queues]}
        say_json(json_text(document, indent=1))
    return status


def _push(options: Namespace, limits: Limits) -> tuple[list[Queue], int]:
    if options.list:
        raise UsageError("push --list belongs to --queue: aiflame push --queue --list")
    if options.drop:
        raise UsageError(f"push --drop belongs to --queue: aiflame push --queue --drop {options.drop}")
    *profiles, url = options.names or [""]
    if not profiles:
        raise UsageError("push needs a profile and a URL: aiflame push run.aiflame https://collector.example:4318")
    queue = Queue.to(destination_of(url, options))
    before = queue.counts()
    kept = [_queued(Path(name), queue) for name in profiles]
    return [queue], max(_sent(queue, before, limits, quiet=options.json), int(not all(kept)))


def _queued(path: Path, queue: Queue) -> bool:
    """False, with a line for people, where the profile cannot be sent; the others are."""
    from aiflame.cli.support.view import opened
    from aiflame.push import enqueue

    try:
        kept = enqueue(opened(path), queue.destination)
    except AiflameError as error:
        say(f"aiflame: {path} is not sent: {error}", err=True)
        return False
    if not kept:
        say(f"aiflame: {path} is not sent: the disk, or the room for waiting profiles, is too small for it", err=True)
    return kept


def _drop(queues: list[Queue], url: str, *, quiet: bool) -> None:
    """Lets the profiles go that wait for this receiver, whatever headers they would have gone with."""
    named = [queue for queue in queues if url in (queue.destination.url, queue.destination.shown)]
    if not named:
        raise AiflameError("nothing was ever pushed to that URL: aiflame push --queue --list shows the receivers")
    dropped = sum(queue.drop() for queue in named)
    if not quiet:
        say(f"{_bodies(dropped)} let go that waited for {named[0].destination.host}")


def _sent(queue: Queue, before: Counts, limits: Limits, *, quiet: bool) -> int:
    """The exit status. `before`: the counts before anything was put in; another process may be the one that sends, and counts. `quiet`:
    another document goes to stdout."""
    outcome = send(queue, limits=limits, join=True)
    host = queue.destination.host
    refused, let_go = outcome.counts.refused - before.refused, outcome.counts.let_go - before.let_go
    if refused > 0:
        say(f"aiflame: {_bodies(refused)} refused by {host}: {outcome.refusal or outcome.counts.reason}", err=True)
    if let_go > 0:
        say(f"aiflame: {_bodies(let_go)} let go: the disk, or the room for waiting profiles, is too small", err=True)
    if outcome.waiting:
        why = "another process is sending" if outcome.elsewhere else outcome.reason
        say(f"aiflame: {_bodies(outcome.waiting)} still wait{'s' if outcome.waiting == 1 else ''} for {host}: {why}", err=True)
        say(f"aiflame: {'it goes' if outcome.waiting == 1 else 'they go'} with the next push, or by aiflame push --queue", err=True)
    elif refused <= 0 and let_go <= 0 and not quiet:
        say(f"all profiles have arrived at {host}")
    return int(outcome.waiting > 0 or refused > 0 or let_go > 0)


def _print(queues: list[Queue]) -> None:
    for queue in queues:
        facts = _facts(queue)
        say(
            f"{facts['url']} ({facts['format']}): {_bodies(int(facts['waiting']))} waiting ({int(facts['waiting_bytes']) / 1e6:.1f} MB),"
            f" {facts['arrived']} arrived, {facts['let_go']} let go, {facts['refused']} refused"
        )
        if facts["reason"]:
            say(f"  the last failure: {facts['reason']}")
    if not queues:
        say("nothing was pushed from here yet")


def _facts(queue: Queue) -> dict[str, str | int]:
    waiting, counts = queue.waiting(), queue.counts()
    return {
        "url": queue.destination.shown,
        "format": queue.destination.format,
        "waiting": len(waiting),
        "waiting_bytes": sum(one.bytes for one in waiting),
        "arrived": counts.arrived,
        "let_go": counts.let_go,
        "refused": counts.refused,
        "reason": counts.reason,
    }


def _bodies(count: int) -> str:
    return f"{count} profile{'' if count == 1 else 's'}"
