"""Profiles in which each text ends with codes that a terminal, Rich or a browser would obey; and all commands over them, on a terminal.

python hostile_texts.py COMMANDS.json      runs them one after another, a line with MARK behind each
"""

from __future__ import annotations

import contextlib
import json
import os
import pty
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import polars as pl
from hostile_profiles import unsealed
from made_ranks import Made, job
from report_profiles import training
from spool_files import ProcessFiles

from aiflame.cli.main import main
from aiflame.profile.folder.door import Folder
from aiflame.profile.folder.meta import JobRank, Meta
from aiflame.profile.opening import open_profile
from aiflame.profile.tables.index import Index, Part, write_part
from aiflame.render.report.server import Server

OBEYED = {
    "\x1b[5m": "blinks",
    "\x1b[6n": "the terminal answers where its cursor is",
    "\x1b]8;;http://example.invalid\x07": "links",
    "\x1b]52;c;ZXZpbA==\x07": "the clipboard",
    "\x1bP+q544e\x1b\\": "a device control string",
    "\x9b5m": "C1: blinks",
    "\x9d0;title\x9c": "C1: the window's title",
    "\u202egpj.exe": "turns the direction of writing",
    "\u2066\u061c\u200f": "so do these",
    "\r\n\b\b\x00\x7f": "moves the cursor",
    "\u2028": "ends a line in JavaScript",
}
SEEN = "[blink]:smile:[/]"
"""Rich would make a style and a picture of it, and end on the third."""
SCRIPT = "</script><img src=x onerror=window.harmed=1>]]><script>window.harmed=1</script>"
PAYLOAD = SEEN + "".join(OBEYED) + SCRIPT
FILE_NAME = "".join(text for text in OBEYED if not {"/", "\0"} & set(text)) + SEEN.replace("/", "")
MARK = "@@ ended @@"


def with_hostile_texts(profile: Path, hostile: Callable[[str], bool] = lambda column: True) -> Path:
    """Each text in each table (of the columns chosen) and in meta.json gets the payload behind it: a name stays the same wherever it is."""
    for folder in sorted(profile.glob("ranks/*")) or [profile]:
        door = Folder.open(folder)
        tables = door.folder("tables")
        index = Index.read(tables)
        assert index is not None
        parts: dict[str, tuple[Part, ...]] = {}
        for name, old in index.tables.items():
            frame = pl.concat([pl.read_parquet((folder / "tables" / part.file).read_bytes()) for part in old])
            texts = [column for column, kind in frame.schema.items() if kind == pl.String and hostile(f"{name}.{column}")]
            frame = frame.with_columns(
                pl.when(pl.col(text) != "").then(pl.col(text) + PAYLOAD).otherwise(pl.lit("")).alias(text) for text in texts
            )
            parts[name] = (write_part(tables, name, "fe", frame),)
        Index(parts).write(tables)
        meta = Meta.read(door)
        host = replace(meta.host, name="host" + PAYLOAD, cpu="cpu" + PAYLOAD, kernel="kernel" + PAYLOAD, python="3" + PAYLOAD)
        replace(
            meta,
            version="1" + PAYLOAD,
            command=("python" + PAYLOAD, "--x=" + PAYLOAD),
            host=host,
            options={"option" + PAYLOAD: PAYLOAD},
            complete=True,
            degraded=("something was not recorded" + PAYLOAD,),
            job_rank=JobRank(0, 2, 0, "mpich" + PAYLOAD, "job" + PAYLOAD),
        ).write(door)
    return profile


class HostileFiles(ProcessFiles):
    """The same for the tables that a program writes."""

    def text(self, text: str | bytes) -> int:
        return super().text(text + PAYLOAD if isinstance(text, str) and text else text)


def profiles(folder: Path) -> dict[str, Path]:
    """Profiles by their purpose; their folders' names are hostile, too."""
    place = folder / FILE_NAME
    place.mkdir()
    return {
        "training": with_hostile_texts(training(place / "training.aiflame").path),
        "before": with_hostile_texts(training(place / "before.aiflame", kernels=5).path),
        # Words that aiflame knows (launchers, kinds of files, reasons of stalls) stay as they are, so that outputs made of them are shown.
        "kernels": with_hostile_texts(
            _sealed(unsealed(place / "kernels.aiflame", behind=PAYLOAD)),
            lambda column: column not in ("kept_files.kind", "stall_reasons.name"),
        ),
        "ranks": with_hostile_texts(job(place / "ranks.aiflame", Made(ranks=3, sleeps={(2, 2): 20}, skew={1: 5}))),
        "spool": unsealed(place / "spool.aiflame", HostileFiles, PAYLOAD),
        "torn": _torn(unsealed(place / "torn.aiflame", HostileFiles)),
        "collapsed": _collapsed(place / "stacks.txt"),
    }


def _collapsed(path: Path) -> Path:
    """A file of another profiler."""
    text = PAYLOAD.replace("\n", " ").replace(";", " ")
    path.write_text(f"main{text};work{text} 3\n", encoding="utf-8", errors="replace")
    return path


def _sealed(path: Path) -> Path:
    open_profile(path)
    return path


def _torn(path: Path) -> Path:
    """One that is refused, in a sentence with its name."""
    (path / ("link" + FILE_NAME)).symlink_to("nowhere")
    return path


@contextlib.contextmanager
def _serving_nobody() -> Iterator[None]:
    """`aiflame open` would wait for Ctrl-C."""

    def interrupted(self: Server) -> None:
        raise KeyboardInterrupt

    before, Server.serve_forever = Server.serve_forever, interrupted  # type: ignore[method-assign]
    try:
        yield
    finally:
        Server.serve_forever = before  # type: ignore[method-assign]


def on_a_terminal(commands: list[list[str]], folder: Path, width: int = 400, /, **environment: str) -> list[bytes]:
    """The output of each command on its terminal, byte for byte."""
    (folder / "commands.json").write_text(json.dumps(commands))
    ours, theirs = pty.openpty()
    terminal = {"TERM": "xterm-256color", "COLUMNS": str(width), "LINES": "50", "POLARS_MAX_THREADS": "1"}
    variables = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), **terminal, **environment}
    variables.pop("NO_COLOR", None)
    process = subprocess.Popen(
        [sys.executable, __file__, str(folder / "commands.json")],
        stdin=theirs, stdout=theirs, stderr=theirs, cwd=folder, env=variables, start_new_session=True,
    )  # fmt: skip
    os.close(theirs)
    written: list[bytes] = []
    with contextlib.suppress(OSError):  # EIO: the terminal is closed
        while data := os.read(ours, 1 << 16):
            written.append(data)
    os.close(ours)
    assert process.wait() == 0, b"".join(written).decode()
    *each, last = b"".join(written).split(f"{MARK}\r\n".encode())
    assert last == b"" and len(each) == len(commands)
    return each


def _main(commands: list[list[str]]) -> None:
    with _serving_nobody():
        for command in commands:
            sys.argv = ["aiflame", *command]
            with contextlib.suppress(SystemExit):
                main()
            for thread in threading.enumerate():
                if thread is not threading.main_thread() and not thread.daemon:
                    thread.join()
            print(MARK, flush=True)


if __name__ == "__main__":
    _main(json.loads(Path(sys.argv[1]).read_text()))
