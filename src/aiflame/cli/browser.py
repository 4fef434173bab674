"""Opens an address in the person's browser, where there is one to see it."""

from __future__ import annotations

import os
import platform
import threading
import webbrowser
from collections.abc import Iterator
from urllib.parse import urlsplit

SCREENS = ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER")


def show(address: str) -> Iterator[str]:
    """Tells what the person has to do, if anything. Without a screen the standard library would start a browser in the terminal."""
    if any(map(os.environ.get, SCREENS)):
        threading.Thread(target=webbrowser.open, args=(address,), daemon=True).start()
        return
    port = urlsplit(address).port
    yield f"no screen here: on your own machine run `ssh -L {port}:127.0.0.1:{port} {platform.node()}`, then open the address there"
