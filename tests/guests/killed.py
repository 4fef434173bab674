"""Recordings whose recorder, program, or both are killed at a random moment, opened meanwhile or when all is over: nothing may be lost.

    killed.py [--moments 50] [--seed N] [--only WORD ...]

Records are counted in the spool's files, by a few lines that share nothing with the tested reader.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import os
import random
import signal
import struct
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import aiflame
from aiflame.api import Profile
from aiflame.errors import AiflameError

RUN_S = 1.2
"""Moments lie in so long from the recorder's start: it takes a fifth of that until the program runs."""
_PATIENCE_S = 60.0

PROGRAM = """
import os, sys, time
log = os.open(sys.argv[1], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
forking = sys.argv[3] == "forking"
def work(): return sum(range(100_000))
def lived(): os.write(log, f"{os.getpid()}\\n".encode())
lived()
until = time.monotonic() + 120
while not os.path.exists(sys.argv[2]) and time.monotonic() < until:
    if forking:
        if os.fork() == 0:
            lived()
            for _ in range(5): work()
            os._exit(0)
        os.wait()
    else:
        lived()
    work()
"""
"""Writes down each process that has lived, and a line a round; ends when a file appears, or when nobody makes one."""


@dataclass(frozen=True, slots=True)
class Case:
    killed: str
    """recorder, program or both"""
    opened: str
    """meanwhile (and again when all is over), or after"""
    forking: bool

    @property
    def name(self) -> str:
        return f"{self.killed} killed, opened {self.opened}, {'forking' if self.forking else 'one process'}"


CASES = tuple(Case(*row) for row in itertools.product(("recorder", "program", "both"), ("meanwhile", "after"), (True, False)))


def run(case: Case, moment_s: float, folder: Path) -> list[str]:
    """The faults of one recording whose recorder or program is killed so long after its start."""
    recording = _Recording(case, folder)
    try:
        return recording.killed_at(moment_s)
    finally:
        recording.end()


class _Recording:
    def __init__(self, case: Case, folder: Path) -> None:
        self._case, self._wrong = case, list[str]()
        self._log, self._end, self._path = folder / "log", folder / "end", folder / "a.aiflame"
        self._said = (folder / "said").open("w+")
        command = [sys.executable, "-c", PROGRAM, str(self._log), str(self._end), "forking" if case.forking else "alone"]
        # Without the process that seals: the spool can be counted when all is over.
        options = ["--cpu-rate", "999", "--no-seal", "-o", str(self._path)]
        self._recorder = subprocess.Popen(
            [sys.executable, "-m", "aiflame.cli.main", "record", *options, "--", *command], stdout=self._said, stderr=self._said
        )

    def killed_at(self, moment_s: float) -> list[str]:
        until = time.monotonic() + moment_s
        if self._case.killed != "recorder":
            self._wait_for(self._log.exists)  # there is no program yet that could be killed
        time.sleep(max(until - time.monotonic(), 0))
        if self._case.opened == "meanwhile" and self._case.killed != "recorder":
            self._open_meanwhile()
        self._kill()
        if self._case.opened == "meanwhile" and self._case.killed == "recorder":
            self._open_meanwhile()
        self._end.touch()
        self._recorder.wait(_PATIENCE_S)
        self._wait_for(lambda: not self._processes())
        self._open_after()
        return self._wrong

    def end(self) -> None:
        self._end.touch()
        self._recorder.kill()
        self._recorder.wait()
        self._wait_for(lambda: not self._processes())
        self._said.close()

    def _kill(self) -> None:
        program = [pid for pid in self._processes() if _parent(pid) == self._recorder.pid]
        if self._case.killed in ("recorder", "both"):
            self._recorder.kill()
        if self._case.killed in ("program", "both"):
            for pid in program:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        if self._case.killed == "recorder":
            self._recorder.wait()

    def _open_meanwhile(self) -> None:
        before, counted = self._processes(), _samples(self._path)
        try:
            profile = aiflame.open(self._path)
            lost = _lost(profile, counted, exactly=False)
            says = bool(profile.store.unfinished())
        except AiflameError as error:
            if self._path.joinpath("spool").exists():
                self._wrong.append(f"could not be opened meanwhile: {error}")
            return
        if not set(before) & set(self._processes()):
            return  # nobody was there all the time
        if not says:
            self._wrong.append("opened meanwhile, it did not say that it is still being recorded")
        self._wrong += [f"opened meanwhile: {line}" for line in lost]
        if self._case.killed == "recorder":
            rounds = self._rounds()
            self._wait_for(lambda: self._rounds() >= rounds + 6 or not self._processes())
            if self._rounds() < rounds + 6:
                self._wrong.append("the program did not go on when the profile was opened")

    def _open_after(self) -> None:
        if not self._path.joinpath("spool").exists():
            if self._log.exists():
                self._wrong.append("the spool is gone before the profile was opened")
            return
        counted, lived = _samples(self._path), set(self._lived())
        try:
            profile = aiflame.open(self._path)
        except AiflameError as error:
            self._wrong.append(f"could not be opened in the end: {error}")
            return
        if profile.store.unfinished():
            self._wrong.append("in the end, it said that it is still being recorded")
        self._wrong += [f"in the end: {line}" for line in _lost(profile, counted, exactly=True)]
        if lost := lived - set(profile.table("processes")["pid"].to_list()):
            self._wrong.append(f"{len(lost)} of {len(lived)} processes are not in the profile")
        if damage := [note for note in profile.store.notes() if "damage" in note or "left out" in note]:
            self._wrong.append(f"notes of damage: {damage}")
        if self._path.joinpath("spool").exists():
            self._wrong.append("it was opened in the end and not sealed")

    def _processes(self) -> list[int]:
        """Processes of the program, its children among them."""
        named = f"AIFLAME_PROFILE={self._path}".encode()
        pids = []
        for process in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if named in (process / "environ").read_bytes().split(b"\0"):
                    pids.append(int(process.name))
        return pids

    def _lived(self) -> list[int]:
        return [int(line) for line in self._log.read_text().splitlines()] if self._log.exists() else []

    def _rounds(self) -> int:
        return len(self._lived())

    def _wait_for(self, condition: Callable[[], bool]) -> None:
        until = time.monotonic() + _PATIENCE_S
        while not condition():
            if time.monotonic() > until:
                self._said.seek(0)
                raise AssertionError(f"waited in vain; the recorder said: {self._said.read()}")
            time.sleep(0.005)


def _parent(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()[1])
    except OSError:
        return 0


def _samples(profile: Path) -> Counter[str]:
    """By process (PID.START_NS), records of `cpu_samples` that were finished: a record's first word is written last."""
    count: Counter[str] = Counter()
    for file in profile.glob("spool/*/cpu_samples.table"):
        data = file.read_bytes()
        size = struct.unpack_from("<I", data, 16)[0] if len(data) >= 4096 else 0
        if not size:
            continue  # the file is being made
        reserved = struct.unpack_from("<Q", data, 24)[0]
        ends = min(4096 + reserved * size, len(data) - size + 1)
        count[file.parent.name] = sum(data[at : at + 4] != b"\0\0\0\0" for at in range(4096, ends, size))
    return count


def _lost(profile: Profile, recorded: Counter[str], *, exactly: bool) -> list[str]:
    """Processes that have other numbers of samples than were recorded, or fewer. (Sealing gives samples to processes without any.)"""
    processes = profile.table("processes").select("process", "pid", "start_ns")
    rows = profile.table("cpu_samples").join(processes, on="process").group_by("pid", "start_ns").len().rows()
    seen = {f"{pid}.{start}": count for pid, start, count in rows}
    wrong = [name for name, count in recorded.items() if seen.get(name, 0) < count or (exactly and seen.get(name, 0) != count)]
    return [f"{seen.get(name, 0)} samples of process {name}, of {recorded[name]} that were recorded" for name in wrong]


def moments(count: int, seed: int) -> Iterator[float]:
    """Spread over the run: one at random in each of `count` equal parts."""
    chance = random.Random(seed)
    return ((part + chance.random()) * RUN_S / count for part in range(count))


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--moments", type=int, default=50)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 30))
    parser.add_argument("--only", nargs="*", default=[], metavar="WORD", help="cases whose name has one of these words")
    arguments = parser.parse_args()
    print(f"seed {arguments.seed}, {arguments.moments} moments", flush=True)
    failed = 0
    for case in CASES:
        if arguments.only and not all(word in case.name for word in arguments.only):
            continue
        harmed = 0
        for moment in moments(arguments.moments, arguments.seed):
            with tempfile.TemporaryDirectory() as folder:
                wrong = run(case, moment, Path(folder))
            harmed += bool(wrong)
            for line in wrong:
                print(f"    at {moment:.3f} s: {line}", flush=True)
        print(f"{case.name}: {arguments.moments - harmed} of {arguments.moments} passed", flush=True)
        failed += harmed
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
