"""The background process that sends: it has no priority, little memory, and nobody who waits for it. Standard library alone."""

from __future__ import annotations

from aiflame.push.queue import Queue
from aiflame.push.sender import Limits, send

PATIENCE_S = 3600.0
"""Bodies that have not arrived so long after the newest came go with the next push."""


def main(key: str) -> None:
    """Sends the waiting bodies of the queue with that key."""
    queue = Queue.called(key)
    if queue is not None and queue.waiting():
        send(queue, limits=Limits(patience_s=PATIENCE_S, from_newest=True))
