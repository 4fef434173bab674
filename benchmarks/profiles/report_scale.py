"""The cost of `aiflame report` for 0.1, 1 and 10 million kernels: time, memory, the file, and which stage takes them.

    python benchmarks/profiles/report_scale.py [--kernels 100000 1000000 10000000] [--rounds 1] [--profiles FOLDER] [--output FILE]

Profiles are made up (`synthetic_profile.py`): a transformer's training, with a tenth as many CPU samples and samples of warps as kernels.
Each is made into a report in a process of its own, in which stages are timed. `peak_mb` of a stage is the most that was resident in it,
and of the whole the largest of these. Where others use the machine, too, `cpu_seconds` (user and system, of all threads) counts: on
an idle machine with two cores, the time by the clock lies between it and its half. Of several rounds the one with the least counts.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeVar

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "gpu"))
from gpu_common import machine

from aiflame.analyze.device.profile_analysis import profile_analysis

RESULTS = Path(__file__).parents[1] / "results" / "report_scale.json"
SIZES = (100_000, 1_000_000, 10_000_000)
TARGETS = {"seconds": 60, "peak_mb": 3000}
Made = TypeVar("Made")


@dataclass(frozen=True, slots=True)
class Stage:
    name: str
    seconds: float
    cpu_seconds: float
    peak_mb: int


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kernels", type=int, nargs="+", default=list(SIZES))
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--profiles", type=Path, help="folder with profiles that were made before; kept")
    parser.add_argument("--output", type=Path, default=RESULTS)
    parser.add_argument("--stages", type=Path, nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.stages:
        staged(*options.stages)
        return 0
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        report: dict[str, Any] = {"machine": machine(), "targets": TARGETS, "sizes": {}}
        for kernels in options.kernels:
            profile = made(options.profiles or work, kernels)
            rounds = [measured(profile, work / "report.html") for _ in range(options.rounds)]
            best = min(rounds, key=lambda one: one["cpu_seconds"])
            report["sizes"][str(kernels)] = {
                **best,
                "load": round(os.getloadavg()[0], 1),
                "cpu_us_a_kernel": round(best["cpu_seconds"] / kernels * 1e6, 2),
            }
            options.output.write_text(json.dumps(report, indent=1) + "\n")
            print(kernels, {name: value for name, value in best.items() if name != "stages"}, flush=True)
            for stage in best["stages"]:
                print(
                    f"  {stage['name']:16} {stage['seconds']:8.2f} s {stage['cpu_seconds']:8.2f} s of CPU {stage['peak_mb']:6} MB",
                    flush=True,
                )
    return 0


def made(folder: Path, kernels: int) -> Path:
    profile = folder / f"{kernels}.aiflame"
    if not profile.exists():
        samples = ["--cpu-samples", str(kernels // 10), "--gpu-samples", str(kernels // 10)]
        program = Path(__file__).with_name("synthetic_profile.py")
        subprocess.run([sys.executable, str(program), str(profile), "--kernels", str(kernels), *samples], check=True)
    return profile


def measured(profile: Path, out: Path) -> dict[str, Any]:
    begin = time.perf_counter()
    process = subprocess.Popen([sys.executable, __file__, "--stages", str(profile), str(out)], stdout=subprocess.PIPE)
    assert process.stdout is not None
    stages = json.loads(process.stdout.read())
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"the report of {profile} failed")
    return {
        "seconds": round(time.perf_counter() - begin, 2),
        "cpu_seconds": round(usage.ru_utime + usage.ru_stime, 2),
        "peak_mb": max(stage["peak_mb"] for stage in stages),
        "file_mb": round(out.stat().st_size / 1e6, 2),
        "stages": stages,
    }


def staged(path: Path, out: Path) -> None:
    """Writes the report as `aiflame report` does, part by part, and prints the stages."""
    stages: list[Stage] = []

    def stage(name: str, make: Callable[[], Made]) -> Made:
        with suppress(OSError):
            Path("/proc/self/clear_refs").write_text("5")  # the peak of resident memory begins anew
        begin, cpu = time.perf_counter(), time.process_time()
        result = make()
        stages.append(Stage(name, round(time.perf_counter() - begin, 2), round(time.process_time() - cpu, 2), peak()))
        return result

    import aiflame
    from aiflame.memory import keep_freed_memory
    from aiflame.render.report.code import MOST_IN_A_FILE
    from aiflame.render.report.document import Report
    from aiflame.render.report.page import page

    keep_freed_memory()  # as the command does
    store = stage("open", lambda: aiflame.open(path).store)
    report = Report(store, most_code=MOST_IN_A_FILE)
    stage("work of devices", lambda: profile_analysis(report.analysis).devices)
    stage("steps", lambda: profile_analysis(report.analysis).per_step)
    stage("idle gaps", lambda: profile_analysis(report.analysis).gaps)
    stage("rows of tables", lambda: report.tables)
    screen = stage("first screen", report.first_screen)

    def blocks() -> Iterator[tuple[str, bytes]]:
        making = report.blocks()
        for name in report.names:
            yield stage("code" if name.startswith(("code", "text")) else name, lambda: next(making))

    with out.open("w", encoding="utf-8") as file:
        file.writelines(page(report.title, screen, blocks()))
    print(json.dumps([asdict(together(name, stages)) for name in dict.fromkeys(one.name for one in stages)]))


def together(name: str, stages: list[Stage]) -> Stage:
    """Those of one name as one."""
    those = [one for one in stages if one.name == name]
    seconds, cpu = (round(sum(values), 2) for values in zip(*((one.seconds, one.cpu_seconds) for one in those), strict=True))
    return Stage(name, seconds, cpu, max(one.peak_mb for one in those))


def peak() -> int:
    """MB, since it was begun anew."""
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return int(status["VmHWM"].split()[0]) // 1024


if __name__ == "__main__":
    sys.exit(main())
