"""The question of a coding agent about the demo on a real GPU: why is it slow?"""

from __future__ import annotations

import json
import subprocess

import pytest
from recording import PYTHON

from aiflame.agents.access import Access
from aiflame.agents.tools import Tools


@pytest.fixture(scope="module")
def tools(tmp_path_factory: pytest.TempPathFactory) -> Tools:
    folder = tmp_path_factory.mktemp("agent")
    command = [PYTHON, "-m", "aiflame", "demo", "--device", "cuda", "--seconds", "4", "-o", "demo.aiflame"]
    demo = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300, check=False)
    assert demo.returncode == 0, demo.stderr
    return Tools(Access.to([folder]))


def test_two_thousand_tokens_name_line_stall_and_fix(tools: Tools) -> None:
    text = tools.findings("demo.aiflame")
    assert len(text) <= 8000
    answer = json.loads(text)
    of_kernel = [one for one in answer["findings"] if one["untrusted"].get("kernel", "").startswith("matmul_")]
    assert of_kernel, text
    first = of_kernel[0]
    assert "matmul.cu:" in first["untrusted"]["line"]
    assert first["stall"] and first["stall_means"] and first["fix"]


def test_its_evidence_has_the_text_of_the_line(tools: Tools) -> None:
    answer = json.loads(tools.findings("demo.aiflame"))
    first = next(one for one in answer["findings"] if "stall" in one)
    evidence = json.loads(tools.findings("demo.aiflame", id=first["id"]))
    hottest = evidence["untrusted"]["lines"][0]
    assert hottest["text"] and hottest["percent"] > 10
    assert evidence["stalls"][0]["fix"]
