"""The blocks of facts: all that the page's contract says, and no more."""

from __future__ import annotations

from pathlib import Path

import pytest
from test_blocks import opened
from written_programs import training

from aiflame.attribute.sites.devices import device_sites
from aiflame.render.report.facts_block import facts_block, facts_makers


@pytest.fixture(scope="module")
def profiles(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("block")


def test_a_block_has_the_columns_that_the_page_reads(profiles: Path) -> None:
    recorded = training(profiles / "training")
    blocks = {domain: opened(make()) for domain, make in facts_makers(recorded).items()}
    assert set(blocks) == {"device", "cpu"}
    for head, columns in blocks.values():
        for segment in (*head["segments"], "inside"):
            parent = columns[f"{segment}.parent"]
            assert parent[0] == 0 and all(above < node for node, above in enumerate(parent) if node)
            assert max(columns[f"{segment}.frame"]) < len(columns["frame.name"])
            if segment != "inside":
                assert max(columns[f"site.{segment}"]) < len(parent)
        assert max(columns["leaf.inside"]) < len(columns["inside.parent"])
        assert max(columns["leaf.site"]) < len(columns["site.group"])
        assert columns["moment.bin"] == sorted(columns["moment.bin"])
        assert set(head["contexts"]) <= set(head["segments"])
        for metric in head["metrics"]:
            assert len(columns[f"leaf.{metric['name']}"]) == len(columns["leaf.site"])
            assert f"moment.{head['moments'][metric['name']]}" in columns
        for grouping in head["groupings"]:
            assert set(grouping["segments"]) <= {*head["segments"], "step"}
        assert "step" in [grouping["name"] for grouping in head["groupings"]]
        for row in ("file", "module"):
            assert max(columns[f"frame.{row}"]) < len(columns[row])
        assert set(map(str, columns["frame.kind"][1:])) == set(head["kinds"])


def test_the_same_profile_gives_the_same_bytes(profiles: Path) -> None:
    recorded = training(profiles / "twice")
    assert facts_block(device_sites(recorded)) == facts_block(device_sites(recorded))
