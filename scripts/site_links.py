"""A hook of mkdocs: links from docs/ to other files of the repository lead to its web page; a file that is not there is a warning, so
that `mkdocs build --strict` fails. Links between pages are checked by mkdocs itself."""

from __future__ import annotations

import logging
import os
import re
from pathlib import Path, PurePosixPath
from typing import Any

LINK = re.compile(r"\]\((\.\./[^)\s#]*)(#[^)\s]*)?\)")
LOG = logging.getLogger("mkdocs.hooks.site_links")


def on_page_markdown(markdown: str, page: Any, config: Any, **_: Any) -> str:
    docs = Path(config.docs_dir)

    def outside(match: re.Match[str]) -> str:
        target = PurePosixPath(os.path.normpath(PurePosixPath(page.file.src_uri).parent / match[1]))
        if target.parts[0] != "..":
            return match[0]
        path = docs.parent.joinpath(*target.parts[1:])
        if not path.exists():
            LOG.warning("%s links to %s, which is not there", page.file.src_uri, match[1])
        kind = "tree" if path.is_dir() else "blob"
        return f"]({config.extra['repository']}/{kind}/main/{'/'.join(target.parts[1:])}{match[2] or ''})"

    return LINK.sub(outside, markdown)
