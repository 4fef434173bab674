"""The report's page: style, scripts and data in one HTML text that asks the network for nothing."""

from __future__ import annotations

import base64
import hashlib
import html
import json
from collections.abc import Iterator, Mapping
from pathlib import Path

from aiflame.attribute.tree import Kind
from aiflame.render.bundle import bundle
from aiflame.render.colors import SHADES, TONES, fill
from aiflame.render.payload import cleaned_text

WEB = Path(__file__).parent / "web"
_REPORT = WEB / "report"


def page(title: str, summary: Mapping[str, object], blocks: Mapping[str, bytes], served: tuple[str, ...] = ()) -> Iterator[str]:
    """The page in pieces, to be written one after another. `blocks` lie in it; those `served` it asks its server for."""
    script, worker = bundle(WEB, "report/main.js"), bundle(WEB, "report/worker.js")
    style = _style()
    before, after = (_REPORT / "page.html").read_text(encoding="utf-8").split("{blocks}\n")
    yield _filled(
        before,
        csp=policy(script, style, bool(served)),
        title=html.escape(cleaned_text(title)),
        style=style,
        summary=_json(summary),
        palette=_json(palette()),
        names=_json([*blocks, *served]),
        worker=_script(worker),
    )
    for name, data in blocks.items():
        yield f'<script type="text/plain" class="block" data-name="{html.escape(name)}">'
        yield base64.b64encode(data).decode()
        yield "</script>\n"
    yield _filled(after, script=_script(script))


def policy(script: str, style: str, served: bool) -> str:
    """Nothing but our own script and style runs; a served page may ask its own server alone."""
    return (
        f"default-src 'none'; script-src '{_hash(script)}' blob:; worker-src blob:; style-src '{_hash(style)}'; img-src data:; "
        f"connect-src {chr(39)}{'self' if served else 'none'}{chr(39)}; base-uri 'none'; form-action 'none'"
    )


def palette() -> dict[str, dict[int, list[str]]]:
    """theme → kind → the colour of each shade"""
    return {
        theme: {int(kind): [fill(kind, shade, theme) for shade in range(SHADES)] for kind in TONES if isinstance(kind, Kind)}
        for theme in ("light", "dark")
    }


def _style() -> str:
    """report.css, then what the views have of their own."""
    first = _REPORT / "report.css"
    style = "".join(file.read_text(encoding="utf-8") for file in [first, *sorted(set(_REPORT.glob("*.css")) - {first})])
    assert "</" not in style
    return style


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _json(value: object) -> str:
    """JSON that no HTML can hide in."""
    return json.dumps(value, ensure_ascii=False).replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def _script(text: str) -> str:
    assert "</script" not in text.lower() and "<!--" not in text
    return text


def _filled(text: str, **values: str) -> str:
    """In one pass, so that no value is looked into."""
    parts = text.split("{")
    found = [parts[0]]
    for part in parts[1:]:
        name, _, rest = part.partition("}")
        found += [values[name], rest]
    return "".join(found)
