"""Sends profiles to the place where people keep them: a queue on disk, and a sender that does not give up soon (docs/push.md)."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from aiflame.api import Profile
    from aiflame.push.destination import Destination


def enqueue(profile: Profile, destination: Destination) -> bool:
    """Puts a profile into the queue of its destination, from where `sender.send` or the next push takes it. False: the disk had no room
    for it, and it is counted as let go."""
    from aiflame.push.formats import body_of
    from aiflame.push.queue import Queue

    return Queue.to(destination).put(body_of(profile, destination))
