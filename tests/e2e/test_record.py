"""`aiflame record` does not disturb: the program does, prints and returns the same as without us."""

from __future__ import annotations

import json
import os
import select
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import polars as pl
import pytest
from recording import PYTHON, Recorder

import aiflame

BUSY = "import time\nend = time.process_time() + {seconds}\nwhile time.process_time() < end: pass\n"
# A tick samples the thread that it finds running: on a busy machine that may be a while after the last one. Work that is to be counted
# goes on until a timer of the program's own has expired twice.
TICKED = """import signal
came = []
signal.signal(signal.SIGVTALRM, lambda *_: came.append(1))
signal.setitimer(signal.ITIMER_VIRTUAL, 0.001, 0.001)
while len(came) < 2: pass
signal.setitimer(signal.ITIMER_VIRTUAL, 0)
"""


def recording(path: Path, *command: str) -> list[str]:
    return [PYTHON, "-m", "aiflame.cli.main", "record", "-o", str(path), "--", *command]


def seconds_in(samples: pl.DataFrame) -> float:
    return float((samples["weight"].cast(pl.UInt64) * samples["period_ns"]).sum()) / 1e9


@pytest.fixture
def record(record_and_seal: Recorder) -> Recorder:
    return record_and_seal


@pytest.mark.parametrize("status", [0, 1, 3, 255])
def test_the_exit_status_is_the_commands(record: Recorder, status: int) -> None:
    assert record(PYTHON, "-c", f"raise SystemExit({status})").status == status


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL, signal.SIGSEGV])
def test_a_command_that_dies_by_a_signal_is_seen_to_die_by_it(record: Recorder, number: signal.Signals) -> None:
    run = record(PYTHON, "-c", f"import os; os.kill(os.getpid(), {int(number)})")
    assert run.status == -number
    assert run.profile().meta.exit_status == -number


def test_standard_streams_pass_through_untouched(record: Recorder) -> None:
    run = record(PYTHON, "-c", "import sys; data = sys.stdin.read(); print(data[::-1], end=''); print('err', file=sys.stderr)", stdin="abc")
    assert run.stdout == "cba"
    assert "err\n" in run.stderr


def test_findings_come_on_stderr_when_the_program_has_ended(record: Recorder) -> None:
    run = record(PYTHON, "-c", f"print('out')\n{BUSY.format(seconds=1)}raise SystemExit(3)", options=("--findings",))
    assert (run.status, run.stdout) == (3, "out\n")
    assert " of CPU time " in run.stderr and "hot-" in run.stderr
    assert run.stderr.index("next: aiflame open") < run.stderr.index(" of CPU time ")
    assert seconds_in(run.profile().table("cpu_samples")) > 0.5


def test_without_anything_sampled_findings_say_how_to_record(record: Recorder) -> None:
    run = record("true", options=("--findings", "--cpu-rate", "0"))
    assert run.status == 0
    assert "it was recorded with --cpu-rate 0; record without it" in " ".join(run.stderr.split())


def test_a_program_that_no_tick_meets_was_recorded(record: Recorder) -> None:
    run = record("true")
    assert "nothing was recorded" not in run.stderr
    assert len(run.profile().table("processes")) == 1


def test_recording_imports_the_standard_library_alone() -> None:
    code = "import sys; import aiflame.cli.main, aiflame.cli.record, aiflame.recorder.inside; print(*sys.modules)"
    result = subprocess.run([PYTHON, "-c", code], capture_output=True, text=True, check=True)
    top = {name.partition(".")[0] for name in result.stdout.split()} - {"aiflame", "__main__"}
    foreign = {name for name in top if name not in sys.stdlib_module_names and not name.startswith(("_", "sitecustomize"))}
    assert foreign == set()


def test_ctrl_c_ends_the_program_once_and_seals(tmp_path: Path) -> None:
    path = tmp_path / "p.aiflame"
    code = (
        "import time, sys\ntry:\n    print('up', flush=True); time.sleep(60)\nexcept KeyboardInterrupt:\n    print('stopped', flush=True)\n"
    )
    process = subprocess.Popen(recording(path, PYTHON, "-c", code), stdout=subprocess.PIPE, text=True, start_new_session=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "up\n"
    process.send_signal(signal.SIGINT)  # to the recorder alone, as a supervisor would
    assert process.stdout.read() == "stopped\n"
    assert process.wait(600) == 0
    assert aiflame.open(path).meta.complete


@pytest.mark.parametrize("victim", ["program", "recorder", "both"])
def test_recorded_data_survive_sigkill(tmp_path: Path, victim: str) -> None:
    path = tmp_path / "p.aiflame"
    code = (
        "import os, time\nprint(os.getpid(), flush=True)\n"
        + BUSY.format(seconds=2)
        + TICKED
        + "print(time.process_time(), flush=True)\nwhile True: time.sleep(1)\n"
    )
    process = subprocess.Popen(recording(path, PYTHON, "-c", code), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    assert process.stdout is not None
    pid = int(process.stdout.readline())
    used = float(process.stdout.readline())
    ended = os.pidfd_open(pid)
    if victim in ("recorder", "both"):
        process.kill()
    if victim in ("program", "both"):
        os.kill(pid, signal.SIGKILL)
    process.wait(600)
    if victim == "recorder":
        os.kill(pid, signal.SIGKILL)
    assert select.select([ended], [], [], 600)[0], "the program is dead"
    os.close(ended)
    profile = aiflame.open(path)
    samples = profile.table("cpu_samples")
    assert seconds_in(samples) == pytest.approx(used, rel=0.1)


# There is no room left for a child's records.
FILLS_THE_DISK = """
import os, sys
with open({path!r}, "wb", buffering=0) as filler:
    try:
        while True: filler.write(bytes(4096))
    except OSError:
        pass
if os.fork() == 0:
    sum(range(1000000))
    os._exit(0)
os.wait()
print("finished")
sys.exit(7)
"""


def test_a_full_disk_stops_recording_and_not_the_program(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    if os.geteuid() != 0 or subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1M", "tmpfs", str(disk)], check=False).returncode:
        pytest.skip("no right to mount a small file system")
    try:
        path, filler = disk / "p.aiflame", disk / "filler"
        code = BUSY.format(seconds=0.3) + TICKED + FILLS_THE_DISK.format(path=str(filler))
        result = subprocess.run(recording(path, PYTHON, "-c", code), capture_output=True, text=True, timeout=600, check=False)
        assert result.returncode == 7
        assert result.stdout == "finished\n"
        assert result.stderr.count("recording stopped early: no space left") == 1
        filler.unlink()
        assert len(aiflame.open(path).table("cpu_samples")) > 0
    finally:
        subprocess.run(["umount", str(disk)], check=False)


def test_max_size_bounds_the_recording(record: Recorder) -> None:
    code = "import os\nfor _ in range(40):\n    if os.fork() == 0:\n        sum(range(3_000_000)); os._exit(0)\n    os.wait()\nprint('ok')"
    run = record(PYTHON, "-c", code, options=("--max-size", "2M", "--no-seal"))
    assert run.stdout == "ok\n"
    assert "--max-size" in run.stderr
    assert sum(file.stat().st_blocks * 512 for file in run.path.rglob("*")) <= 2 << 20
    assert len(list((run.path / "spool").iterdir())) > 3


def test_a_program_that_closes_every_file_descriptor_is_recorded_on(record: Recorder) -> None:
    code = "import os\nos.closerange(3, 65536)\n" + BUSY.format(seconds=1.5) + TICKED + "print(time.process_time())"
    run = record(PYTHON, "-c", code)
    assert seconds_in(run.profile().table("cpu_samples")) == pytest.approx(float(run.stdout), rel=0.1)


@pytest.mark.parametrize(
    ("command", "status", "said"),
    [(("no-such-program",), 127, "no such command"), (("/etc",), 126, "is a folder"), (("/etc/passwd",), 126, "not executable")],
)
def test_a_command_that_cannot_run_is_one_clear_line(record: Recorder, command: tuple[str, ...], status: int, said: str) -> None:
    run = record(*command)
    assert run.status == status
    assert said in run.stderr
    assert len(run.stderr.splitlines()) == 1
    assert not run.path.exists()


def test_a_wrong_call_has_status_2() -> None:
    result = subprocess.run([PYTHON, "-m", "aiflame.cli.main", "record", "--nonsense"], capture_output=True, text=True, check=False)
    assert result.returncode == 2


def test_a_folder_that_cannot_be_written_is_one_clear_line(record: Recorder) -> None:
    run = record("true", options=("-o", "/proc/nowhere/p.aiflame"))
    assert run.status == 1
    assert "choose another place" in run.stderr
    assert len(run.stderr.splitlines()) == 1


def test_a_path_that_is_not_utf8_works(tmp_path: Path) -> None:
    folder = os.fsencode(tmp_path) + b"/caf\xe9 \xff"
    Path(os.fsdecode(folder)).mkdir()
    path = Path(os.fsdecode(folder + b"/p.aiflame"))
    result = subprocess.run(recording(path, PYTHON, "-c", BUSY.format(seconds=0.5)), capture_output=True, check=False)
    assert result.returncode == 0, result.stderr
    assert len(aiflame.open(path).table("cpu_samples")) > 0


def test_a_static_program_runs_and_the_limit_is_noted(record: Recorder, tmp_path: Path) -> None:
    source = tmp_path / "hello.c"
    source.write_text('#include <stdio.h>\nint main(void) { puts("hello"); return 5; }\n')
    static = tmp_path / "hello"
    if subprocess.run(["gcc", "-static", "-o", str(static), str(source)], check=False).returncode:
        pytest.skip("no static libc")
    run = record(static)
    assert (run.status, run.stdout) == (5, "hello\n")
    assert "statically linked" in run.stderr


def test_a_child_that_changes_its_user_runs_and_the_limit_is_noted(record: Recorder, tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can make a program of another user")
    program = Path("/tmp") / f"aiflame-setuid-{os.getpid()}"
    shutil.copy("/usr/bin/id", program)
    try:
        os.chown(program, 65534, 65534)
        program.chmod(0o4755)
        run = record("sh", "-c", f"{program} -u; echo $?")
        assert run.stdout == "65534\n0\n"
        assert f"{program} is set-user-id" in run.stderr
    finally:
        program.unlink()


def test_the_users_own_preload_stays(record: Recorder, tmp_path: Path) -> None:
    source, library = tmp_path / "mine.c", tmp_path / "mine.so"
    source.write_text('#include <stdlib.h>\n__attribute__((constructor)) static void f(void) { setenv("MINE", "loaded", 1); }\n')
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", str(library), str(source)], check=True)
    run = record("sh", "-c", "echo $MINE", env={"LD_PRELOAD": str(library)})
    assert run.stdout == "loaded\n"


def test_an_occupied_hook_variable_is_left_alone_and_noted(record: Recorder) -> None:
    run = record("sh", "-c", "echo $INTEL_JIT_PROFILER64", env={"INTEL_JIT_PROFILER64": "/opt/mine.so"})
    assert run.stdout == "/opt/mine.so\n"
    assert "INTEL_JIT_PROFILER64 is already set" in run.stderr


def test_all_threads_of_sixty_four_processes_are_recorded_and_no_process_is_left(record: Recorder) -> None:
    code = """
import os, threading
def work(): sum(range(1000))
for _ in range(64):
    if os.fork() == 0:
        threads = [threading.Thread(target=work) for _ in range(63)]
        [t.start() for t in threads]; [t.join() for t in threads]
        os._exit(0)
for _ in range(64): assert os.wait()[1] == 0
"""
    run = record(PYTHON, "-c", code)
    assert run.status == 0, run.stderr
    profile = run.profile()
    assert len(profile.table("processes")) == 65
    counts = profile.sql("select process, count(*) as n from threads group by process")["n"].to_list()
    assert sorted(counts) == [1] + [64] * 64
    assert not (run.path / "spool").exists()
    for _ in range(600):  # the process that seals ends when it finds that all is done
        left = subprocess.run(["pgrep", "-f", str(run.path)], capture_output=True, text=True, check=False).stdout
        if not left:
            break
        time.sleep(0.05)
    assert left == ""


def test_recording_from_inside_can_be_started_and_stopped_again_and_again(tmp_path: Path) -> None:
    read = (0, 15, 29)
    code = f"""
import aiflame, json, os, time
def busy(seconds):
{chr(10).join("    " + line for line in (BUSY.format(seconds="seconds") + TICKED).splitlines())}
took = []
def resident(): return int(open('/proc/self/statm').read().split()[1]) * 4096
for round in range(30):
    with aiflame.record({str(tmp_path)!r} + f'/r{{round}}.aiflame'):
        begin = time.process_time()
        busy(0.15 if round in {read} else 0.02)
        took.append(time.process_time() - begin)
    if round == 9: before = resident()
    busy(0.02)
assert resident() - before < 4 << 20, resident() - before
fds = len(os.listdir('/proc/self/fd'))
assert fds < 40, fds
print(json.dumps(took))
"""
    took = json.loads(subprocess.run([PYTHON, "-c", code], check=True, timeout=600, capture_output=True, text=True).stdout)
    for number in read:
        profile = aiflame.open(tmp_path / f"r{number}.aiflame")
        names = profile.table("symbols")["name"].to_list()
        assert "busy" in names
        # Starting and stopping take some time of their own.
        assert seconds_in(profile.table("cpu_samples")) == pytest.approx(took[number], abs=0.1)
