"""All findings together: none where there is nothing, and at most as many as are asked for."""

from __future__ import annotations

from pathlib import Path

from stories import Story, train
from story_findings import found


def test_nothing_is_said_of_nothing(tmp_path: Path) -> None:
    assert found(Story(), tmp_path) == {}


def test_only_the_largest_findings_are_given(tmp_path: Path) -> None:
    story = Story()
    for number in range(5):
        train(story, number, work=620, idle=380, wait="data")
    story.sampled("sgemm", {"barrier": 60, "selected": 40}, line=5)
    every = found(story, tmp_path / "all")
    assert len(every) > 1
    assert list(found(story, tmp_path / "one", limit=1)) == list(every)[:1] == ["idle-data"]
