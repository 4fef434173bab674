"""The report's page: style, scripts and data in one HTML text that requests nothing from the network."""

from __future__ import annotations

import base64
import functools
import hashlib
import html
import json
from collections.abc import Iterable, Iterator, Mapping

from aiflame.attribute.tree import Kind
from aiflame.render.bundle import WEB, packaged
from aiflame.render.clean_text import cleaned_text
from aiflame.render.colors import DIFF_STEPS, LABEL, SEARCH, SHADES, TONES, diff_fill, fill, limit_fills

_PAGE = WEB / "report" / "page"
_MAIN, _WORKER = "report/page/main.js", "report/worker/worker.js"


def page(title: str, summary: Mapping[str, object] | None, blocks: Iterable[tuple[str, bytes]] = ()) -> Iterator[str]:
    """The page in pieces, to be written one after the other. `summary` names its `blocks`, which are in the page; without a summary, the
    page requests that and each block from its server."""
    script, worker, style = packaged(_MAIN), packaged(_WORKER), _style()
    before, after = (_PAGE / "page.html").read_text(encoding="utf-8").split("{blocks}\n")
    yield _filled(
        before,
        csp=policy(script, style, served=summary is None),
        title=html.escape(cleaned_text(title)),
        style=style,
        summary=_json(summary),
        palette=_palette(),
        worker=_script(worker),
        script=_script(script),
    )
    for name, data in blocks:
        yield f'<script type="text/plain" class="block" data-name="{html.escape(name)}">'
        yield base64.b64encode(data).decode()
        yield "</script>\n"
    yield after


def served_policy() -> str:
    """The content security policy of a served page; the page itself has the same."""
    return policy(packaged(_MAIN), _style(), served=True)


def policy(script: str, style: str, *, served: bool) -> str:
    """Only our own script and style may run; a served page may send requests only to its own server."""
    return (
        f"default-src 'none'; script-src '{_hash(script)}'; worker-src blob:; style-src '{_hash(style)}'; img-src data:; "
        f"connect-src {chr(39)}{'self' if served else 'none'}{chr(39)}; base-uri 'none'; form-action 'none'"
    )


def palette() -> dict[str, dict[int | str, list[str]]]:
    """theme → kind → the colours of its shades; also the colours of labels, of search matches, and of changes from removed to new."""
    return {theme: {**_kinds(theme), **_others(theme)} for theme in ("light", "dark")}


@functools.cache
def _palette() -> str:
    return _json(palette())


def _kinds(theme: str) -> dict[int | str, list[str]]:
    return {int(kind): [fill(kind, shade, theme) for shade in range(SHADES)] for kind in TONES if isinstance(kind, Kind)}


def _others(theme: str) -> dict[int | str, list[str]]:
    reach = len(DIFF_STEPS)
    changes = [diff_fill(step, theme) for step in range(-reach, reach + 1)]
    steps = [str(step) for step in DIFF_STEPS]
    return {"label": [LABEL], "match": [SEARCH[theme]], "changes": changes, "steps": steps, "limits": limit_fills(theme)}


@functools.cache
def _style() -> str:
    """report.css, then the styles of the views."""
    first = _PAGE / "report.css"
    style = "".join(file.read_text(encoding="utf-8") for file in [first, *sorted(_PAGE.glob("*/*.css"))])
    assert "</" not in style
    return style


def harmless(value: object) -> object:
    """A value for JSON, with all its texts cleaned."""
    if isinstance(value, str):
        return cleaned_text(value)
    if isinstance(value, Mapping):
        return {key: harmless(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [harmless(one) for one in value]
    return value


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _json(value: object) -> str:
    """JSON that cannot contain HTML."""
    return (
        json.dumps(harmless(value), ensure_ascii=False, separators=(",", ":"))
        .replace("<", "\\u003c")
        .replace("\u2028", "\\u2028")
        .replace("\u2029", "\\u2029")
    )


def _script(text: str) -> str:
    assert "</script" not in text.lower() and "<!--" not in text
    return text


def _filled(text: str, **values: str) -> str:
    """Fills in `{name}` in one pass, so that braces in values stay."""
    parts = text.split("{")
    pieces = [parts[0]]
    for part in parts[1:]:
        name, _, following = part.partition("}")
        pieces += [values[name], following]
    return "".join(pieces)
