"""Opens an address in the user's browser, if this machine has a screen."""

from __future__ import annotations

import atexit
import html
import os
import platform
import shutil
import tempfile
import threading
import webbrowser
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

SCREENS = ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER")


def show(address: str) -> Iterator[str]:
    """Opens the browser, or prints instructions. Without a screen the standard library would start a terminal browser."""
    if any(map(os.environ.get, SCREENS)):
        threading.Thread(target=webbrowser.open, args=(_redirecting(address).as_uri(),), daemon=True).start()
        return
    port = urlsplit(address).port
    yield f"no screen here: on your own machine run `ssh -L {port}:127.0.0.1:{port} {platform.node()}`, then open the address there"


def _redirecting(address: str) -> Path:
    """A page, readable by this user only, that redirects to the address: the address has the token, and all users can see command lines."""
    folder = Path(tempfile.mkdtemp(prefix="aiflame-"))  # 0700
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    page = folder / "open.html"
    target = html.escape(address, quote=True)
    text = f'<!doctype html><meta charset="utf-8"><meta http-equiv="refresh" content="0; url={target}"><a href="{target}">the report</a>\n'
    with os.fdopen(os.open(page, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "w", encoding="utf-8") as file:
        file.write(text)
    return page
