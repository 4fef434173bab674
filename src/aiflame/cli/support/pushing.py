"""The options that name a receiver of profiles. Standard library alone: other modules are imported only where one is named."""

from __future__ import annotations

from argparse import Namespace

from aiflame.cli.support.parser import Parser, UsageError
from aiflame.errors import AiflameError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from aiflame.push.destination import Destination

FORMATS = ("otlp", "pprof")


def add_push(parser: Parser) -> None:
    group = parser.add_argument_group("where the profile goes")
    group.add_argument(
        "--push",
        default="",
        metavar="URL",
        help="send the sealed profile to this receiver, in the background, and each window that is kept",
    )
    add_receiver(parser)


def add_receiver(parser: Parser) -> None:
    """Options about a receiver, beside its URL."""
    parser.add_choice(
        "--push-format",
        choices=FORMATS,
        metavar="FORMAT",
        help="otlp: a collector of OpenTelemetry; pprof: Pyroscope (default: pprof where the URL ends in /ingest, else otlp)",
    )
    parser.add_argument(
        "--push-headers", default="", metavar="FILE", help="a file with headers, such as Authorization, each on a line: Name: value"
    )
    parser.add_argument("--push-plain", action="store_true", help="send these headers over http too, where others can read them on the way")
    parser.add_argument("--push-service", default="", metavar="NAME", help="the service's name (default: the program's)")


def destination_of(url: str, options: Namespace) -> Destination:
    from aiflame.push.destination import Destination

    return Destination.of(url, options.push_format or "", options.push_headers, plain=options.push_plain, service=options.push_service)


def queue_of(options: Namespace) -> str:
    """The key of the queue to the receiver of --push; "" without one. Errors come before anything is recorded."""
    if not options.push:
        if options.push_format or options.push_headers or options.push_plain or options.push_service:
            raise UsageError("--push-format, --push-headers, --push-plain and --push-service belong to a receiver: add --push URL")
        return ""
    if options.no_seal:
        raise UsageError("--push sends the sealed profile: leave --no-seal out")
    from aiflame.push.queue import Queue
    from aiflame.recorder.hand_over import can_seal

    if not can_seal():
        raise AiflameError("--push needs polars, which is not installed: pip install aiflame")
    return Queue.to(destination_of(options.push, options)).destination.key
