"""`aiflame mcp` through the official client, over stdin and stdout."""

from __future__ import annotations

import asyncio
import json
import os
import re
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from calling import run_aiflame
from sampled_kernels import Sampled, line, profile

mcp = pytest.importorskip("mcp", reason="the server needs the package mcp")

TOOLS = ["findings", "top", "annotate", "diff", "source", "query", "record"]
SOURCE = str(Path(__file__).parents[3] / "src")

Call = Callable[..., Awaitable[tuple[bool, Any]]]


Conversation = Callable[[Any, Call], Awaitable[None]]


async def connected(folder: Path, hold: Conversation, *options: str) -> None:
    """Starts the server for `folder`, and has the conversation with the client and with a function that calls tools."""
    from mcp.client.stdio import StdioServerParameters, stdio_client

    parameters = StdioServerParameters(
        command=sys.executable,
        args=["-m", "aiflame", "mcp", str(folder), *options],
        env={**os.environ, "PYTHONPATH": SOURCE},
        cwd=folder,
    )
    async with mcp.Client(stdio_client(parameters)) as client:

        async def call(tool: str, /, **arguments: object) -> tuple[bool, Any]:
            result = await client.call_tool(tool, arguments)
            (content,) = result.content
            text = content.text
            return result.is_error, text if result.is_error else json.loads(text)

        await hold(client, call)


def talk(folder: Path, conversation: Conversation, *options: str) -> None:
    asyncio.run(asyncio.wait_for(connected(folder, conversation, *options), 120))


@pytest.fixture(scope="module")
def talk_again(folder: Path) -> Iterator[Callable[[Conversation], None]]:
    """Has conversations with one server, one after the other."""
    loop, ended = asyncio.new_event_loop(), asyncio.Event()
    ready: asyncio.Future[tuple[Any, Call]] = loop.create_future()

    async def hold(client: Any, call: Call) -> None:
        ready.set_result((client, call))
        await ended.wait()

    async def beginning() -> tuple[Any, Call]:
        waited: set[asyncio.Future[Any]] = {server, ready}
        await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
        if not ready.done():
            server.result()
        return ready.result()

    server = loop.create_task(connected(folder, hold))
    client, call = loop.run_until_complete(asyncio.wait_for(beginning(), 120))
    yield lambda conversation: loop.run_until_complete(asyncio.wait_for(_awaited(conversation(client, call)), 120))
    ended.set()
    loop.run_until_complete(server)
    loop.close()


async def _awaited(conversation: Awaitable[None]) -> None:
    await conversation


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("mcp")
    for name, each in (("before", 2_000_000), ("after", 1_000_000)):
        waits = {"long_scoreboard": 90, "selected": 10}
        profile(path / f"{name}.aiflame", Sampled("gemm", [(0, "LDG", line(7), waits)], each_ns=each))
    return path


def test_the_client_sees_the_tools_with_their_arguments_and_is_answered_by_each(talk_again: Callable[[Conversation], None]) -> None:
    async def conversation(client: Any, call: Call) -> None:
        assert "findings" in client.instructions and "never instructions" in client.instructions
        listed = (await client.list_tools()).tools
        assert [tool.name for tool in listed] == TOOLS
        for tool in listed:
            assert tool.description and len(tool.description) < 200
            assert all(one["description"] for one in tool.input_schema["properties"].values())
            assert tool.annotations.read_only_hint is (tool.name != "record")
        is_error, answer = await call("findings", profile="after.aiflame")
        assert not is_error and answer["findings"][0]["stall"] == "long_scoreboard"
        id = answer["findings"][0]["id"]
        for tool, arguments in {
            "findings": {"profile": "after.aiflame", "id": id},
            "top": {"profile": "after.aiflame", "rows": 3},
            "annotate": {"profile": "after.aiflame", "kernel_name": "gemm"},
            "diff": {"base": "before.aiflame", "new": "after.aiflame"},
            "source": {"profile": "after.aiflame", "file": "/src/attn.py", "line": 7},
            "query": {"profile": "after.aiflame", "sql": "SELECT COUNT(*) AS n FROM kernels"},
        }.items():
            is_error, answer = await call(tool, **arguments)
            assert not is_error, answer
            assert re.fullmatch(r"aiflame\.mcp\.\w+/[12]", answer["schema"])

    talk_again(conversation)


@pytest.mark.parametrize("demo", [False, True])
def test_why_is_it_slow_is_answered_with_place_and_fix_in_two_thousand_tokens(
    talk_again: Callable[[Conversation], None], tmp_path: Path, demo: bool
) -> None:
    """For a kernel, with its stall; the demo on a CPU has a line and no stall (tests/gpu has both, on a GPU)."""
    if demo:
        demo_run = run_aiflame("demo", "--device", "cpu", "--seconds", "2", "-o", str(tmp_path / "demo.aiflame"))
        assert demo_run.status == 0, demo_run.err

    async def conversation(client: Any, call: Call) -> None:
        result = await client.call_tool("findings", {"profile": "demo.aiflame" if demo else "after.aiflame"})
        (content,) = result.content
        assert not result.is_error and len(content.text) <= 8000
        first = json.loads(content.text)["findings"][0]
        names, place, stall = ("line", "cpu_device.py:", None) if demo else ("kernel", "gemm", "long_scoreboard")
        assert place in first["untrusted"][names] and first.get("stall") == stall
        assert len(first["fix"]) > 20

    if demo:
        talk(tmp_path, conversation)
    else:
        talk_again(conversation)


def test_errors_are_errors_of_the_call_and_the_server_goes_on(talk_again: Callable[[Conversation], None]) -> None:
    async def conversation(client: Any, call: Call) -> None:
        for tool, arguments, says in (
            ("findings", {"profile": "/etc"}, "lies outside the folders"),
            ("record", {"command": ["true"]}, "may not record"),
            ("query", {"sql": "SELECT * FROM read_csv('/etc/passwd')", "profile": "after.aiflame"}, "reads no other file"),
            ("annotate", {}, "kernel_name"),
            ("top", {"rows": "many"}, "rows"),
        ):
            is_error, text = await call(tool, **arguments)
            assert is_error and says in text and "Traceback" not in text
        is_error, _ = await call("top", profile="after.aiflame", max_characters=600)
        assert not is_error

    talk_again(conversation)


def test_an_answer_keeps_to_the_bound_that_was_asked_for(talk_again: Callable[[Conversation], None]) -> None:
    async def conversation(client: Any, call: Call) -> None:
        sql = "SELECT a.name, b.name, c.name FROM stall_reasons a, stall_reasons b, stall_reasons c, kernel_names d, gpu_lines e"
        for most in (500, 8000):
            result = await client.call_tool("query", {"sql": sql, "profile": "after.aiflame", "max_characters": most})
            assert len(result.content[0].text) <= most

    talk_again(conversation)


@pytest.mark.parametrize("option", ["--allow-record", f"--allow-command={sys.executable} -c"])
def test_a_command_that_was_allowed_is_recorded_and_its_findings_are_the_answer(tmp_path: Path, option: str) -> None:
    busy = "import time\nend = time.process_time() + 1\nwhile time.process_time() < end: pass\nprint('the end')"

    async def conversation(client: Any, call: Call) -> None:
        is_error, answer = await call("record", command=[sys.executable, "-c", busy], name="run")
        assert not is_error, answer
        assert (answer["profile"], answer["status"]) == ("run.aiflame", 0)
        assert answer["findings"][0]["kind"].startswith("hot-")
        assert "the end" in answer["untrusted"]["end_of_output"]
        assert (tmp_path / "run.aiflame").is_dir()

    talk(tmp_path, conversation, option)


def test_a_program_that_goes_on_is_interrupted_and_ends_with_the_server(tmp_path: Path) -> None:
    async def conversation(client: Any, call: Call) -> None:
        is_error, answer = await call("record", command=[sys.executable, "-c", "while True: pass"], name="long", seconds=2)
        assert not is_error and answer["interrupted"].startswith("after 2 s")
        asleep = "import os, time; open('pid', 'w').write(str(os.getpid())); time.sleep(99)"
        task = asyncio.create_task(client.call_tool("record", {"command": [sys.executable, "-c", asleep], "name": "asleep"}))
        while not ((tmp_path / "pid").exists() and (tmp_path / "pid").read_text()):
            await asyncio.sleep(0.05)
        task.cancel()

    talk(tmp_path, conversation, "--allow-record")
    pid = Path("/proc") / (tmp_path / "pid").read_text()
    end = time.monotonic() + 20
    while pid.exists() and time.monotonic() < end:
        time.sleep(0.1)
    assert not pid.exists()


def test_without_the_package_the_command_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    from aiflame.cli import mcp as command

    monkeypatch.setattr(command, "find_spec", lambda name: None)
    said = run_aiflame("mcp")
    assert (said.status, said.out, said.err) == (1, "", "aiflame: mcp needs the package mcp: pip install 'aiflame[mcp]'\n")


def test_a_folder_that_is_none_is_one_line() -> None:
    said = run_aiflame("mcp", "/nowhere")
    assert (said.status, said.out) == (1, "") and said.err == "aiflame: /nowhere is no folder: name folders with profiles\n"
