"""Every command that reads a profile, and the Python interface, one after another: `read_everything.py OUTPUT PROFILE...`."""

from __future__ import annotations

import contextlib
import http.client
import io
import json
import sys
import threading
import traceback
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

import aiflame
from aiflame.analyze.gate.gate import gate
from aiflame.analyze.gate.refusals import refuse_incomplete
from aiflame.analyze.gate.run import measure
from aiflame.analyze.gate.thresholds import Thresholds
from aiflame.analyze.gate.to_json import to_json
from aiflame.cli import commands
from aiflame.cli.main import guarded
from aiflame.errors import AiflameError
from aiflame.profile.schema.all_tables import TABLES
from aiflame.render.gate.junit import junit
from aiflame.render.gate.markdown import markdown
from aiflame.render.report.document import Report
from aiflame.render.report.server import Server

COMMANDS = (
    ("top",),
    ("top", "--json"),
    ("findings",),
    ("findings", "--json"),
    ("flame", "-o", "{output}/flame.svg"),
    ("annotate", "scale"),
    ("tally",),
    ("intra",),
    ("ranks",),
    ("top", "--metric", "host-bytes", "--by", "category"),
    ("top", "--metric", "gpu-bytes", "--at", "end"),
    ("timeline", "-o", "{output}/timeline.pftrace"),
    ("export", "-o", "{output}/stacks.txt"),
    *(
        ("export", "--to", to, "-o", f"{{output}}/{to}")
        for to in ("speedscope", "chrome", "kineto", "pprof", "otlp", "firefox", "hatchet", "csv", "torch-memory")
    ),
    ("report", "-o", "{output}/report.html"),
)


def run(arguments: list[str]) -> str:
    """The output of a command, with its error. An error that is no AiflameError fails the test."""
    said = io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said), contextlib.suppress(SystemExit):
        guarded(commands.run, arguments)
    return said.getvalue()


def of_python(path: str) -> str:
    profile = aiflame.open(path)
    for table in TABLES:
        profile.table(table.name)
    profile.sql("SELECT COUNT(*) FROM cpu_samples")
    return str(profile.tree("cpu-time").metrics)


def of_gate(path: str) -> str:
    """A profile compared with itself."""
    profile = aiflame.open(path).store
    refuse_incomplete(profile, path)
    runs = [measure(profile, name) for name in ("before", "now")]
    answer = gate(runs[:1], runs[1:], Thresholds.of())
    return to_json(answer) + junit(answer) + markdown(answer)


def of_server(path: str) -> str:
    """All that a browser could ask for."""
    with Server(Report(aiflame.open(path).store)) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            blocks = json.loads(_asked(server.address, "blocks/summary"))["blocks"]
            return "".join(f"{len(_asked(server.address, f'blocks/{name}'))} " for name in blocks) + _asked(server.address, "").decode()
        finally:
            server.stop()
            thread.join()


def _asked(address: str, path: str) -> bytes:
    connection = http.client.HTTPConnection("127.0.0.1", urlsplit(address).port or 0, timeout=60)
    connection.request("GET", urlsplit(address).path + path)
    answer = connection.getresponse().read()
    connection.close()
    return answer


def read_everything(path: Path, output: Path, other: Path | None = None) -> dict[str, str]:
    """The output of each way of reading."""
    said = {}
    for command in COMMANDS:
        name, *options = (each.format(output=output) for each in command)
        said[" ".join(command)] = run([name, str(path), *options])
    if other is not None:
        said["diff"] = run(["diff", str(other), str(path)])
    for name, read in {"python": of_python, "gate": of_gate, "open": of_server}.items():
        said[name] = _said(read, str(path))
    return said


def _said(read: Callable[[str], str], path: str) -> str:
    try:
        return read(path)
    except AiflameError as error:
        return f"aiflame: {error}\n"


if __name__ == "__main__":
    output, *paths = map(Path, sys.argv[1:])
    try:
        for number, path in enumerate(paths):
            folder = output / str(number)
            folder.mkdir(parents=True)
            (folder / "said.json").write_text(json.dumps(read_everything(path, folder)))
    except BaseException:
        traceback.print_exc()
        raise
