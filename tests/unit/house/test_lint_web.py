"""The check of the report's JavaScript says in one line why it could not be made."""

from __future__ import annotations

from pathlib import Path

import lint_web
import pytest

OFFLINE = """#!/bin/sh
echo "npm error code ENOTFOUND" >&2
echo "npm error This is a problem related to network connectivity." >&2
exit 1
"""


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only folder on the PATH. The tools are not installed."""
    folder = tmp_path / "programs"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.setattr(lint_web, "TOOLS", tmp_path / "tools")
    return folder


def test_it_fails_where_npm_cannot_get_the_tools(programs: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    npm = programs / "npm"
    npm.write_text(OFFLINE)
    npm.chmod(0o755)
    assert lint_web.main() == 1
    line = "lint: JavaScript was not checked: npm could not install the tools of scripts/web/package-lock.json: npm error code ENOTFOUND\n"
    assert capfd.readouterr() == (line, "")
    assert not (tmp_path / "tools" / ".lock.json").exists(), "the next check tries again"


def test_it_is_skipped_without_npm(programs: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert lint_web.main() == 0
    output, _ = capfd.readouterr()
    assert "there is no npm here" in output and output.count("\n") == 1
