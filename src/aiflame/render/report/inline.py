"""A profile in a notebook's output: the first findings as plain HTML, and the report in a frame that needs no network."""

from __future__ import annotations

import base64
import html
import re
import zlib
from collections.abc import Iterator, Mapping

from aiflame.analyze.amounts import amount
from aiflame.analyze.findings.listing import Listed, Listing, listing
from aiflame.profile.tables.interface import OpenedProfile
from aiflame.render.clean_text import cleaned_text
from aiflame.render.report.code import MOST_IN_A_FILE
from aiflame.render.report.document import Report
from aiflame.render.report.page import page

FINDINGS = 3
HEIGHT = 640
"""Pixels of the frame."""
_LEVEL = 9
_GZIP = 31
"""zlib's number for gzip with the largest window."""
_BASE64 = 4 / 3
_BASE = '<base href="about:srcdoc">'
"""Without it, links within the framed report lead to the notebook's own address."""
_SANDBOX = "allow-scripts allow-downloads allow-modals"
"""The report may run its script, but has an origin of its own: it cannot read the notebook or act for its user."""

_LINE = re.compile(r"(?:[^\s:]*/)?([^\s/:]+\.py):(\d+)")

_FRAMED = """<!doctype html><html><head><meta charset="utf-8">{base}</head><body><script>
const bytes = Uint8Array.from(atob("{data}"), (one) => one.charCodeAt(0));
const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
new Response(stream).text().then((page) => {{ document.open(); document.write(page); document.close(); }});
</script></body></html>"""


def first_findings(profile: OpenedProfile) -> Listing:
    return listing(profile, FINDINGS)


def inline(profile: OpenedProfile, answer: Listing, most: int, cells: Mapping[str, str]) -> str:
    """HTML for one output of a notebook. The report is left out if it would take more than `most` bytes of the notebook's file. `cells`:
    names of cells, by the files as which IPython compiled them."""
    return f'<div class="aiflame">{_first(answer, cells)}{_report(profile, most)}</div>'


def plain(profile: OpenedProfile, answer: Listing, cells: Mapping[str, str]) -> str:
    """The same without a report, as text for a terminal."""
    findings = [f"{number}. {' '.join(_words(one, cells))}" for number, one in enumerate(answer.findings, 1)]
    lines = [f"{answer.profile}{_measured(answer)}", *findings, *answer.missing, *answer.notes, f"Next: aiflame open {profile.path}"]
    return "\n".join(map(cleaned_text, lines))


def _first(answer: Listing, cells: Mapping[str, str]) -> str:
    """The first findings, which are visible even where frames and scripts are removed, as on the pages of repositories."""
    items = "".join(f"<li>{'<br>'.join(map(_text, _words(one, cells)))}</li>" for one in answer.findings)
    notes = "".join(f"<p>{_text(note)}</p>" for note in (*answer.missing, *answer.notes))
    return f"<p><b>{_text(answer.profile)}</b>{_text(_measured(answer))}</p>{f'<ol>{items}</ol>' if items else ''}{notes}"


def _measured(answer: Listing) -> str:
    facts = [amount(answer.summary.duration_ns, "ns")] if answer.summary.duration_ns else []
    if answer.total is not None:
        facts.append(f"{answer.total.label} {amount(answer.total.total, answer.total.unit)}")
    return f" ({', '.join(facts)})" if facts else ""


def _words(one: Listed, cells: Mapping[str, str]) -> list[str]:
    """A finding's sentence, and its remedy."""

    def named(line: re.Match[str]) -> str:
        return f"{cells[line[1]]} line {line[2]}" if line[1] in cells else line[0]

    texts = (_LINE.sub(named, text) for text in (one.finding.sentence, one.fix) if text)
    return [text if text.endswith(".") else f"{text}." for text in texts]


def _text(text: str) -> str:
    return html.escape(cleaned_text(text))


def _report(profile: OpenedProfile, most: int) -> str:
    whole = f"<code>aiflame open {_text(str(profile.path))}</code>"
    packed = _packed(profile, most) if most > 0 else None
    if packed is None:
        return f"<p>The report takes more than the {amount(most, 'bytes')} that this notebook may keep of it; in a terminal: {whole}</p>"
    framed = _FRAMED.format(base=_BASE, data=base64.b64encode(packed).decode())
    return (
        f'<iframe title="{_text(profile.path.name)}" sandbox="{_SANDBOX}" srcdoc="{html.escape(framed)}"'
        f' style="width: 100%; height: {HEIGHT}px; border: 1px solid #8886; border-radius: 6px; box-sizing: border-box"></iframe>'
    )


def _packed(profile: OpenedProfile, most: int) -> bytes | None:
    """The report's page, compressed; None if it is larger than `most` as base64."""
    packer = zlib.compressobj(_LEVEL, zlib.DEFLATED, _GZIP)
    packed = b""
    for piece in _pieces(profile):
        packed += packer.compress(piece.encode())
        if len(packed) * _BASE64 > most:
            return None
    packed += packer.flush()
    return packed if len(packed) * _BASE64 <= most else None


def _pieces(profile: OpenedProfile) -> Iterator[str]:
    report = Report(profile, most_code=MOST_IN_A_FILE)
    pieces = page(report.title, report.first_screen(), report.blocks())
    yield next(pieces).replace("<head>", f"<head>{_BASE}", 1)
    yield from pieces
