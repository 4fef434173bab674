"""Runs a guest in one way and reports all of it that a person could see."""

from __future__ import annotations

import hashlib
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import polars as pl
from guest import REPOSITORY, Guest
from watch import Watch

import aiflame

_BUSY_NS = 500_000_000
"""A process that used more than this must have samples, or a note that says why it has none."""

_LINGER_S = 2.0
"""A process that ends so soon after the prompt is back has not stayed behind: managers and workers notice a moment later that their parent
has gone."""


@dataclass(frozen=True, slots=True)
class Way:
    """How a guest is run: the options of `aiflame record`, None: alone."""

    name: str
    options: tuple[str, ...] | None


ALONE = Way("alone", None)
RECORDED = Way("recorded", ())
FAST = Way("999 Hz, --wall", ("--cpu-rate", "999", "--wall", "999"))
WAYS = (ALONE, RECORDED, FAST)


@dataclass(frozen=True, slots=True)
class Recording:
    """The contents of a profile."""

    samples: int
    sampled: int
    """Processes that have samples."""
    sampled_ns: int
    """CPU time that samples stand for."""
    processes: int
    bytes: int
    notes: tuple[str, ...]
    silent: tuple[int, ...]
    """Ids of processes that used much CPU time and have no sample."""
    error: str = ""
    """Why the profile could not be read."""


@dataclass(frozen=True, slots=True)
class Observation:
    status: int | None
    """The status as `subprocess` gives it: negative for a signal; None: the program had not ended when its time was out."""
    stdout: str
    stderr: str
    files: Mapping[str, str]
    """Its files left in the working directory: path, and the hash of the contents."""
    seconds: float
    """From when the command was started to its end."""
    prompt_seconds: float
    """From its end to when the prompt is back."""
    peak_bytes: int
    cpu_ns: int
    left_running: int
    """Processes that were still alive when the prompt was back."""
    recording: Recording | None = None


def observe(guest: Guest, way: Way, workplace: Path) -> Observation:
    """Runs `guest` in an empty folder below `workplace`: the same one for each way, so that paths in its output are the same."""
    command = guest.prepared(workplace / "made")
    run, profile = workplace / "run", workplace / f"{way.name.split()[0]}.aiflame"
    for folder in (run, profile):
        shutil.rmtree(folder, ignore_errors=True)
    run.mkdir()
    outputs = [workplace / f"{way.name.split()[0]}.{name}" for name in ("out", "err")]
    variables = guest.variables(workplace / "made")
    if way.options is not None:
        command = (sys.executable, "-m", "aiflame.cli.main", "record", "-q", "-o", str(profile), *way.options, "--", *command)
        variables["PYTHONPATH"] = ":".join(filter(None, [str(REPOSITORY / "src"), variables.get("PYTHONPATH", "")]))
    watch, status, began, over = _run(command, run, variables, outputs, guest.seconds, way)
    watch.wait_for_rest(_LINGER_S)
    left = watch.kill_what_is_left()
    stdout, stderr = (output.read_text(errors="replace") for output in outputs)
    ended = watch.ended or over
    return Observation(
        status=status,
        stdout=stdout,
        stderr="".join(line for line in stderr.splitlines(keepends=True) if not line.startswith("aiflame: ")),
        files=_files(run),
        seconds=ended - (watch.began or began),
        prompt_seconds=over - ended,
        peak_bytes=watch.peak_bytes,
        cpu_ns=sum(watch.cpu_ns.values()),
        left_running=len(left),
        recording=None if way.options is None else _recording(profile, stderr, watch),
    )


def _run(
    command: tuple[str, ...], run: Path, variables: dict[str, str], outputs: list[Path], seconds: float, way: Way
) -> tuple[Watch, int | None, float, float]:
    with outputs[0].open("wb") as stdout, outputs[1].open("wb") as stderr:
        began = time.monotonic()
        process = subprocess.Popen(
            command, cwd=run, env=variables, stdin=subprocess.DEVNULL, stdout=stdout, stderr=stderr, start_new_session=True
        )
        watch = Watch(process.pid, of_recorder=way.options is not None)
        watch.start()
        try:
            status: int | None = process.wait(seconds)
        except subprocess.TimeoutExpired:
            status = None
        over = time.monotonic()
        watch.stop()
        if status is None:
            watch.kill_what_is_left()
            os.killpg(process.pid, signal.SIGTERM)
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
    return watch, status, began, over


def _files(folder: Path) -> dict[str, str]:
    hashes = {}
    for path in sorted(folder.rglob("*")):
        if path.is_file() and not path.is_symlink():
            hashes[str(path.relative_to(folder))] = hashlib.sha256(path.read_bytes()).hexdigest()[:16]
    return hashes


def _recording(profile: Path, stderr: str, watch: Watch) -> Recording:
    said = [line.removeprefix("aiflame: ") for line in stderr.splitlines() if line.startswith("aiflame: ")]
    try:
        opened = aiflame.open(profile)
        pids = opened.table("processes")["pid"].to_list()
        samples = opened.table("cpu_samples").filter(pl.col("clock") == 0)
        degraded = opened.meta.degraded
    except Exception as error:  # of any type: a profile that cannot be read is a finding, and the matrix goes on
        return Recording(0, 0, 0, 0, 0, tuple(said), (), f"{type(error).__name__}: {error}")
    sampled = {pids[process] for process in samples["process"].unique().to_list() if process < len(pids)}
    silent = {seen.pid for seen, cpu in watch.cpu_ns.items() if cpu > _BUSY_NS and not {seen.pid, watch.inner_pids.get(seen)} & sampled}
    return Recording(
        samples=samples.height,
        sampled=len(sampled),
        sampled_ns=int((samples["weight"].cast(pl.Int64) * samples["period_ns"].cast(pl.Int64)).sum()),
        processes=len(pids),
        bytes=sum(path.stat().st_size for path in profile.rglob("*") if path.is_file()),
        notes=tuple(dict.fromkeys([*said, *degraded])),
        silent=tuple(sorted(silent)),
    )
