"""The tools by name: each takes an agent's arguments and returns the answer's text. One profile stays open between calls."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

from aiflame.agents import findings, kernel, query, recording, top
from aiflame.agents.access import Access
from aiflame.agents.answer import MOST_CHARACTERS, Answer, Value, quoted
from aiflame.api import Profile
from aiflame.errors import AiflameError

RECORD = "aiflame.mcp.record/1"
_MOST_ROWS = 1000
_Key = tuple[Path, int, int]


class Tools:
    """Errors are `AiflameError`s."""

    def __init__(self, access: Access) -> None:
        self.access = access
        self._one_at_a_time = threading.Lock()
        self._open: tuple[_Key, Profile] | None = None

    def findings(
        self, profile: str = "", id: str = "", rows: int = 5, whole_run: bool = False, max_characters: int = MOST_CHARACTERS
    ) -> str:
        def answer() -> Answer:
            opened = self._profile(profile)
            if id:
                return findings.evidence_answer(opened, id, _rows(rows), whole_run=whole_run)
            return findings.findings_answer(opened, _rows(rows), whole_run=whole_run)

        return self._text(answer, max_characters)

    def top(
        self,
        profile: str = "",
        by: str = "",
        metric: str = "",
        focus: str = "",
        rows: int = 20,
        whole_run: bool = False,
        max_characters: int = MOST_CHARACTERS,
    ) -> str:
        return self._text(
            lambda: top.top_answer(self._profile(profile), by, metric, focus, _rows(rows), whole_run=whole_run), max_characters
        )

    def annotate(self, kernel_name: str, profile: str = "", rows: int = 12, max_characters: int = MOST_CHARACTERS) -> str:
        return self._text(
            lambda: kernel.kernel_answer(self._profile(profile), kernel_name, _rows(rows), self.access.sources), max_characters
        )

    def diff(self, base: str, new: str, by: str = "", metric: str = "", rows: int = 10, max_characters: int = MOST_CHARACTERS) -> str:
        return self._text(lambda: top.diff_answer(self.access.open(base), self.access.open(new), by, metric, _rows(rows)), max_characters)

    def source(self, file: str, line: int = 0, around: int = 10, profile: str = "", max_characters: int = MOST_CHARACTERS) -> str:
        return self._text(
            lambda: kernel.source_answer(self._profile(profile), file, line, _rows(around), self.access.sources), max_characters
        )

    def query(self, sql: str, profile: str = "", rows: int = 50, max_characters: int = MOST_CHARACTERS) -> str:
        return self._text(lambda: query.query_answer(self._profile(profile), sql, rows), max_characters)

    def record(
        self,
        command: list[str],
        name: str = "",
        seconds: float = 300,
        wall: bool = False,
        intra: str = "",
        max_characters: int = MOST_CHARACTERS,
    ) -> str:
        recorded = recording.record(self.access, command, name, seconds, wall=wall, intra=intra)

        def answer() -> Answer:
            shown = findings.findings_answer(self._profile(str(recorded.path)), 3)
            facts: dict[str, Value] = {
                "profile": recorded.path.name,
                "status": recorded.status,
                "seconds": round(recorded.seconds, 1),
                **({"interrupted": f"after {seconds:g} s: the profile covers the time until then"} if recorded.cut else {}),
            }
            end = {"end_of_output": [quoted(line, 200) for line in recorded.output.splitlines()[-8:]]}
            return Answer(RECORD, {**facts, **shown.facts}, shown.rows, {**shown.untrusted, **end})

        return self._text(answer, max_characters)

    def _text(self, answer: Callable[[], Answer], most: int) -> str:
        with self._one_at_a_time:
            return answer().text(most)

    def _profile(self, name: str) -> Profile:
        path = self.access.path(name)
        try:
            status = path.stat()
        except OSError:
            raise AiflameError(f"{name} does not exist: name a profile, a folder NAME.aiflame made by `aiflame record`") from None
        key = (path, status.st_ino, status.st_mtime_ns)
        if self._open is None or self._open[0] != key:
            self._open = None
            profile = self.access.open(str(path))
            if profile.store.unfinished():
                return profile
            status = path.stat()  # opening seals
            self._open = (path, status.st_ino, status.st_mtime_ns), profile
        return self._open[1]


def _rows(rows: int) -> int:
    return min(max(rows, 1), _MOST_ROWS)
