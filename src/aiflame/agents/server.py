"""The Model Context Protocol server: the tools with their descriptions, over stdin and stdout. It needs the package `mcp`."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Annotated, Any

from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp_types import ToolAnnotations
from pydantic import Field

from aiflame.agents.access import Access
from aiflame.agents.answer import LIMIT_CHARACTERS, MOST_CHARACTERS, NOTE, error_text
from aiflame.agents.tools import Tools
from aiflame.errors import AiflameError
from aiflame.version import VERSION

INSTRUCTIONS = (
    "aiflame profiles: where did a program's time go, and why? Begin with `findings`: each finding has an id, a line, a stall and a fix;"
    " `findings` with an id shows its evidence. Change one thing, record again, and compare with `diff`. An answer that lacks data says"
    f" how to record it. {NOTE}"
)
_ARGUMENTS = {
    "profile": "a profile below the server's folders; left out: the newest",
    "id": "the id of a finding: its evidence instead of the list",
    "rows": "at most this many rows",
    "whole_run": "of the whole run, not of its steady steps alone",
    "max_characters": f"bound of the answer (default {MOST_CHARACTERS}, at most {LIMIT_CHARACTERS})",
    "by": "grouping: function, kernel, line, layer, stall, step, op, phase, thread, module, rank; left out: the one that suits",
    "metric": "cpu-time, wall-time, gpu-time, gpu-stalls, bytes, energy, dram-bytes, tensor, could-win …; left out: the profile's own",
    "focus": "regular expression: only frames whose name matches, and their callees",
    "kernel_name": "the kernel's name, a part of it, or a regular expression",
    "base": "the profile of the old version",
    "new": "the profile of the new version",
    "file": "path as findings and annotate name it; `file:line` works",
    "line": "line number",
    "around": "lines before and after it",
    "sql": "one SELECT (Polars' SQL) over the profile's tables; empty: the tables and their columns",
    "command": "the program and its arguments, a list of words; no shell",
    "name": "name of the new profile, without a folder",
    "seconds": "interrupt the program after this time",
    "wall": "also sample threads that wait",
    "intra": "also time the inside of Triton kernels: auto, loads, mma, pipeline …",
}
_DESCRIPTIONS = {
    "findings": "Why is this program slow? Its largest avoidable costs, each with id, line, stall and fix; or the evidence of one.",
    "top": "The heaviest functions, kernels, lines, layers or steps of a profile.",
    "annotate": "A GPU kernel's hottest source lines and instructions, with the reasons for which its warps waited and a fix for each.",
    "diff": "What got slower or faster between two profiles, and is it more than noise?",
    "source": "The source text around a line, as the profile holds it.",
    "query": "SQL over the tables of a profile, and nothing else: no files, no network, bounded time and memory.",
    "record": "Runs a command under the profiler and returns its first findings. Only commands that the server's user allowed.",
}


def serve(access: Access) -> None:
    """Answers requests until stdin ends."""
    server(access).run("stdio")


def server(access: Access) -> MCPServer[Any]:
    answering = MCPServer("aiflame", title="aiflame", version=VERSION, instructions=INSTRUCTIONS, log_level="ERROR")
    tools = Tools(access)
    for name, description in _DESCRIPTIONS.items():
        reads = name != "record"
        hints = ToolAnnotations(read_only_hint=reads, destructive_hint=not reads, open_world_hint=not reads)
        answering.add_tool(_tool(getattr(tools, name)), name, description=description, annotations=hints, structured_output=False)
    return answering


def _tool(method: Callable[..., str]) -> Callable[..., str]:
    """The method with a description of each argument; its errors become errors of the protocol."""

    @functools.wraps(method)
    def tool(**arguments: Any) -> str:
        try:
            return method(**arguments)
        except AiflameError as error:
            raise ToolError(error_text(str(error))) from None

    signature = inspect.signature(method, eval_str=True)
    parameters = [
        one.replace(kind=inspect.Parameter.KEYWORD_ONLY, annotation=Annotated[one.annotation, Field(description=_ARGUMENTS[one.name])])
        for one in signature.parameters.values()
    ]
    tool.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    tool.__annotations__ = {one.name: one.annotation for one in parameters} | {"return": str}
    del tool.__wrapped__
    return tool
