"""A failure of the recorder leaves the program running, and `aiflame record` ends with the program's own status."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from aiflame.profile.folder.door import Folder
from aiflame.profile.folder.meta import Meta

AIFLAME = [sys.executable, "-m", "aiflame"]
RECORD = [*AIFLAME, "record", "-o", "p.aiflame", "--no-seal"]
Ended = subprocess.CompletedProcess[str]


def recorded(folder: Path, *command: str, options: tuple[str, ...] = (), variables: dict[str, str] | None = None) -> Ended:
    return called(folder, *RECORD, *options, "--", *command, variables=variables)


def called(folder: Path, *command: str, variables: dict[str, str] | None = None) -> Ended:
    environment = {**os.environ, **(variables or {})}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=60)


# Programs that remove or change their profile


@pytest.mark.parametrize("options", [(), ("--last", "60s")])
@pytest.mark.parametrize("deed", ["rm -rf p.aiflame", "mv p.aiflame q"])
def test_a_program_may_remove_its_profile(tmp_path: Path, deed: str, options: tuple[str, ...]) -> None:
    ended = recorded(tmp_path, "sh", "-c", f"{deed}; sleep 0.5; echo done; exit 7", options=options)
    assert (ended.returncode, ended.stdout) == (7, "done\n")
    assert ended.stderr == "aiflame: p.aiflame was removed while the program ran: nothing is kept of this recording\n"


def test_a_program_that_ends_at_once_may_remove_its_profile(tmp_path: Path) -> None:
    ended = recorded(tmp_path, "sh", "-c", "rm -rf p.aiflame; exit 7")
    assert (ended.returncode, ended.stderr.count("was removed"), ended.stderr.count("\n")) == (7, 1, 1)


def test_a_program_may_put_a_link_into_its_profile(tmp_path: Path) -> None:
    ended = recorded(tmp_path, "sh", "-c", "rm -rf p.aiflame/spool; ln -s /etc p.aiflame/spool; sleep 0.5; exit 7")
    assert ended.returncode == 7
    assert "p.aiflame/spool is a symbolic link, which no profile has" in ended.stderr
    assert "Traceback" not in ended.stderr
    assert Meta.read(Folder.open(tmp_path / "p.aiflame")).exit_status == 7


# Signals


def test_a_ctrl_c_after_the_programs_end_changes_nothing(tmp_path: Path) -> None:
    """From the moment when the program has been waited for, its recorder gets one signal after the other until it has ended, too."""
    at_end = "(while kill -0 $$; do :; done; while kill -INT $PPID; do :; done) >/dev/null 2>&1 &"
    ended = recorded(tmp_path, "sh", "-c", f"{at_end} exit 5", options=("--no-children", "-q"))
    assert "interrupted" not in ended.stderr
    assert ended.returncode == 5
    meta = Meta.read(Folder.open(tmp_path / "p.aiflame"))
    assert (meta.complete, meta.exit_status) == (True, 5)


def test_a_ctrl_c_before_the_program_has_started_ends_us_and_leaves_no_profile(tmp_path: Path) -> None:
    code = """
import os, signal
from aiflame.recorder import RecordOptions, place_of, run
from aiflame.recorder.supervise import signals_held
try:
    with signals_held():
        os.kill(os.getpid(), signal.SIGINT)
        run(["touch", "ran"], place_of(None, ["touch"], None), RecordOptions())
except KeyboardInterrupt: print(os.listdir())
"""
    ended = called(tmp_path, sys.executable, "-c", code)
    assert (ended.stdout, ended.stderr) == ("[]\n", "")


def test_a_ctrl_c_while_findings_are_made_leaves_the_sealing_to_another_process(tmp_path: Path) -> None:
    """The program is over when the first line of ours comes; sealing has just begun then."""
    with subprocess.Popen(
        [*AIFLAME, "record", "-o", "p.aiflame", "--findings", "--", "sh", "-c", "exit 5"], cwd=tmp_path, stderr=subprocess.PIPE, text=True
    ) as recorder:
        assert recorder.stderr is not None
        assert "next: aiflame open" in recorder.stderr.readline()
        recorder.send_signal(signal.SIGINT)
        assert recorder.wait(60) == 5
    assert Meta.read(Folder.open(tmp_path / "p.aiflame")).exit_status == 5


def test_a_program_that_dies_by_a_signal_that_is_held_is_seen_to_die_by_it(tmp_path: Path) -> None:
    assert recorded(tmp_path, "sh", "-c", "kill -TERM $$").returncode == -signal.SIGTERM


def test_a_signal_to_a_program_of_another_user_is_not_passed_on(tmp_path: Path) -> None:
    if os.geteuid() != 0 or not shutil.which("setpriv"):
        pytest.skip("only root can start a program of another user")
    code = "import os, signal; os.setresuid(65534, 65534, 65534); os.write(1, b'up'); os.read(0, 1); os._exit(7)"
    command = ["setpriv", "--bounding-set", "-kill", *RECORD, "--", sys.executable, "-c", code]
    with subprocess.Popen(command, cwd=tmp_path, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as recorder:
        assert recorder.stdin is not None and recorder.stdout is not None
        assert recorder.stdout.read(2) == b"up"
        recorder.send_signal(signal.SIGTERM)
        while signal.SIGTERM in pending(recorder.pid):
            pass
        recorder.stdin.write(b"x")
        recorder.stdin.close()
        assert recorder.wait(60) == 7


def pending(pid: int) -> set[int]:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    mask = int(next(line for line in lines if line.startswith("ShdPnd:")).split()[1], 16)
    return {number for number in range(1, 65) if mask >> number - 1 & 1}


def test_the_sealer_starts_with_signals_as_they_are_by_default(tmp_path: Path) -> None:
    from aiflame.recorder.hand_over import start_sealer

    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    ignored = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    try:
        sealer = start_sealer(tmp_path / "none.aiflame", {})
        status = dict(line.split(":\t", 1) for line in Path(f"/proc/{sealer}/status").read_text().splitlines())
    finally:
        signal.signal(signal.SIGCHLD, ignored)
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        with contextlib.suppress(ChildProcessError):
            os.waitpid(sealer, 0)
    assert status["State"][0] != "Z", "it has ended too soon for a look"
    assert int(status["SigBlk"], 16) == 0
    assert not int(status["SigIgn"], 16) >> signal.SIGCHLD - 1 & 1


# Streams


def test_a_line_that_cannot_be_written_changes_no_status(tmp_path: Path) -> None:
    with Path("/dev/full").open("w") as full:
        for command, status in ((["sh", "-c", "exit 7"], 7), (["no-such-program"], 127)):
            ended = subprocess.run([*RECORD, "--", *command], cwd=tmp_path, stderr=full, check=False, timeout=60)
            assert ended.returncode == status


def test_where_stderr_is_closed_no_line_of_ours_is_on_the_programs_stdout(tmp_path: Path) -> None:
    closed = ["sh", "-c", 'exec "$@" 2>&-', "sh", *RECORD]
    late = called(tmp_path, *closed, "--max-size", "40k", "--", "sh", "-c", "sleep 0.5; echo out; exit 7")
    assert (late.returncode, late.stdout) == (7, "out\n")
    wrong = called(tmp_path, *closed, "--", "no-such-program")
    assert (wrong.returncode, wrong.stdout) == (127, "")


def test_closed_streams_stay_closed_for_the_program_and_are_no_files_of_the_recorder(tmp_path: Path) -> None:
    look = """import os
def of(pid): return [os.path.exists(f"/proc/{pid}/fd/{n}") and os.readlink(f"/proc/{pid}/fd/{n}") for n in range(3)]
fds = of(os.getpid()), of(os.getppid())
open("seen", "w").write(repr(fds))
"""
    (tmp_path / "look.py").write_text(look)
    shell = f'exec "$@" -- {sys.executable} look.py <&- >&- 2>&-'
    assert called(tmp_path, "sh", "-c", shell, "sh", *RECORD).returncode == 0
    assert (tmp_path / "seen").read_text() == repr(([False] * 3, ["/dev/null"] * 3))


# Where it is started


def test_a_user_without_a_home_and_a_path_that_cannot_be_searched(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can become a user without a home")
    code = """
import os, sys
from pathlib import Path
from aiflame.cli.support.stores import default_store
from aiflame.profile.folder.control_page import ControlPage
from aiflame.profile.folder.door import Folder
from aiflame.profile.folder.home import home
from aiflame.profile.folder.user_cache import cache_folder
from aiflame.recorder.command import find
from aiflame.recorder.keep import Keeper
from aiflame.resolve.files.outside import generated_folders
from aiflame.resolve.jit.dumps import _perf_folders
Path("locked").mkdir(0o700)
os.mkdir("own"); os.chown("own", 54321, 54321)
os.environ["PATH"] = os.path.abspath("locked") + ":/bin"
for name in ("HOME", "XDG_CACHE_HOME", "XDG_STATE_HOME"): os.environ.pop(name, None)
profile = Folder.open("own")
os.setresuid(54321, 54321, 54321)
assert home() is None
assert find(["sh"]) == Path("/bin/sh")
Keeper(profile, ControlPage.create(profile)).look()
assert cache_folder("lines") is None
assert "/tmp" in map(str, generated_folders()) and not any("~" in str(one) for one in generated_folders())
assert list(_perf_folders()) == []
try: default_store()
except Exception as error: print(error)
"""
    tmp_path.chmod(0o755)
    ended = called(tmp_path, sys.executable, "-c", code)
    assert (ended.stderr, ended.stdout) == ("", "this user has no home for a store: name a folder for it\n")


def test_an_entry_of_path_that_is_no_folder_hides_no_program(tmp_path: Path) -> None:
    ended = recorded(tmp_path, "sh", "-c", "exit 7", variables={"PATH": f"/{'x' * 5000}:{os.environ['PATH']}"})
    assert ended.returncode == 7


def test_in_a_folder_that_was_removed_one_line_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "here").mkdir()
    for options, status, said in (("", 1, "name a place for the profile, like -o /tmp/p.aiflame"), (f"-o {tmp_path}/p.aiflame", 7, "0 s")):
        shell = f'cd here; rmdir ../here; exec "$@" {options} -- /bin/sh -c "exit 7"'
        ended = called(tmp_path, "sh", "-c", shell, "sh", *AIFLAME, "record", "--no-seal")
        (tmp_path / "here").mkdir()
        lines = [line for line in ended.stderr.splitlines() if line.startswith("aiflame:") or "Error" in line]
        assert (ended.returncode, len(lines)) == (status, 1)
        assert said in lines[0] or status == 7


@pytest.mark.parametrize(
    ("text", "status", "said"),
    [("echo ran\n", 126, "put the interpreter in front, like sh ./s"), ("#!/no/such\n", 127, "its interpreter is missing")],
)
def test_a_command_that_does_not_start_leaves_no_profile(tmp_path: Path, text: str, status: int, said: str) -> None:
    (tmp_path / "s").write_text(text)
    (tmp_path / "s").chmod(0o755)
    ended = recorded(tmp_path, "./s")
    assert (ended.returncode, ended.stdout) == (status, "")
    assert said in ended.stderr and ended.stderr.count("\n") == 1
    assert not (tmp_path / "p.aiflame").exists()


# Recording from inside


@pytest.mark.parametrize("last", ["", "2m"])
def test_a_recording_from_inside_that_cannot_begin_leaves_nothing(tmp_path: Path, last: str) -> None:
    """No file may be larger than the control page: neither the tables nor the pages of a ring can be made."""
    code = f"""
import os, resource, sys, aiflame
resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
try:
    with aiflame.record("p.aiflame", last={last or None!r}): os._exit(3)
except aiflame.AiflameError: pass
assert not os.path.exists("p.aiflame")
try: os.waitpid(-1, os.WNOHANG)
except ChildProcessError: os._exit(0)
os._exit(4)
"""
    ended = called(tmp_path, sys.executable, "-c", code)
    assert (ended.returncode, ended.stderr) == (0, "")


def test_a_request_that_finds_no_room_leaves_no_file(tmp_path: Path) -> None:
    code = """
import os, resource, aiflame
from aiflame import flight
resource.setrlimit(resource.RLIMIT_FSIZE, (10, 10))
with flight.recording_into(os.getcwd()): kept = aiflame.keep("why")
os._exit(3 if kept else len(os.listdir("requests")))
"""
    (tmp_path / "requests").mkdir()
    assert called(tmp_path, sys.executable, "-c", code).returncode == 0


def test_a_recording_within_another_process_gives_its_signals_back(tmp_path: Path) -> None:
    """A test or a notebook may call the command's function instead of starting `aiflame`."""
    code = (
        "import signal, sys\n"
        "from aiflame.cli.commands import run\n"
        "before = signal.pthread_sigmask(signal.SIG_BLOCK, ())\n"
        "run(['record', '-q', '--no-seal', '-o', sys.argv[1], '--', 'true'])\n"
        "print(signal.pthread_sigmask(signal.SIG_BLOCK, ()) == before)\n"
    )
    ended = subprocess.run([sys.executable, "-c", code, tmp_path / "p"], capture_output=True, text=True, check=True)
    assert ended.stdout == "True\n", ended.stderr
