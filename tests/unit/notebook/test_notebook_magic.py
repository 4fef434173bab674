"""`%aiflame` and `%%aiflame` in a real kernel."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from kernels import SOURCE, Kernel, kernel

import aiflame

pytest.importorskip("ipykernel", reason="the magic needs a notebook's kernel: the package ipykernel")

WORK = """
def busy(seconds):
    import time
    until = time.thread_time() + seconds
    while time.thread_time() < until:
        sum(range(1000))
"""
FAILS = """
def inverse(x):
    return 1 // x

inverse(1)
inverse(0)
"""
PROFILE = "<aiflame.Profile"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("notebook")


@pytest.fixture(scope="module")
def running(folder: Path) -> Iterator[Kernel]:
    with kernel(folder) as one:
        assert one.run(f"%load_ext aiflame\n{WORK}").status == "ok"
        yield one


def test_a_cell_shows_its_value_then_the_report_and_leaves_the_profile(running: Kernel, folder: Path) -> None:
    shown = running.run("%%aiflame -F 999 -o kept.aiflame --as recorded\nbusy(0.4)\nmade_here = 6 * 7\nmade_here")
    value, report = shown.values
    assert (shown.status, shown.stderr, value["text/plain"]) == ("ok", "", "42")
    assert "of CPU time" in report["text/plain"] and "of CPU time" in report["text/html"] and "<iframe" in report["text/html"]
    assert running.run("print(_ is recorded, repr(_), made_here)").stdout == "True <aiflame.Profile 'kept.aiflame'> 42\n"
    profile = aiflame.open(folder / "kept.aiflame")
    assert profile.meta.options["cpu_rate"] == 999
    tree = profile.tree("cpu-time")
    assert "busy" in tree.frames["name"].to_list() and tree.total("cpu-time") > 200_000_000


def test_findings_name_cells_as_the_notebook_does(running: Kernel) -> None:
    defined = running.run(
        "def spin(seconds):\n    import time\n    until = time.thread_time() + seconds\n    while time.thread_time() < until: pass"
    )
    assert defined.status == "ok"
    number = int(running.run("print(get_ipython().execution_count - 2)").stdout)
    (report,) = running.run("%%aiflame -F 999\nspin(0.4)").values
    assert f"In[{number}] line 4" in report["text/html"] and f"In[{number}] line 4" in report["text/plain"]


def test_a_cell_that_is_run_again_replaces_its_profile(running: Kernel, folder: Path) -> None:
    cell = "%%aiflame -o again.aiflame\nbusy(0.01)"
    first, second = (running.run(cell) for _ in range(2))
    assert (first.status, second.status, second.stderr) == ("ok", "ok", "")


def test_a_statement_is_run_as_it_is_written(running: Kernel) -> None:
    shown = running.run("""%aiflame -F 499 -o "a name.aiflame" text = "two  spaces -o 'x'"; print(text)""")
    assert (shown.stdout, shown.status) == ("two  spaces -o 'x'\n", "ok")
    assert running.run("print(_.path, _.meta.options['cpu_rate'])").stdout == "a name.aiflame 499\n"


def test_waiting_is_sampled_where_it_is_asked_for(running: Kernel) -> None:
    running.run("%%aiflame --wall -o wall.aiflame\nimport time; time.sleep(0.3)")
    assert running.run("print(_.tree('wall-time').total('wall-time') > 100_000_000)").stdout == "True\n"


def test_a_semicolon_hides_the_value_and_not_the_report(running: Kernel) -> None:
    shown = running.run("%%aiflame\nx = 1\nx;")
    assert [PROFILE in one["text/plain"] or "<iframe" in one.get("text/html", "") for one in shown.values] == [True]


@pytest.mark.parametrize("cell", [FAILS, "x = 1\nx +", "if True:\nx = 1", "raise KeyError('gone')", "unknown_magic_name"])
def test_an_error_is_shown_as_without_the_magic(running: Kernel, cell: str) -> None:
    running.run(f"{cell}")
    plain, recorded = running.run(cell), running.run(f"%%aiflame\n{cell}")
    assert plain.error is not None and recorded.error is not None
    assert (recorded.error[0], _lines(recorded.error[2])) == (plain.error[0], _lines(plain.error[2]))
    assert (recorded.status, recorded.values, recorded.stderr) == ("error", [], "")


def test_after_an_error_the_next_cell_is_recorded(running: Kernel) -> None:
    assert running.run("%%aiflame --as failed\nbusy(0.2)\n1 / 0").status == "error"
    assert running.run("print('busy' in failed.tree('cpu-time').frames['name'].to_list())").stdout == "True\n"
    assert running.run("%%aiflame\nbusy(0.01)").status == "ok"


def test_an_interrupted_cell_shows_where_it_was(running: Kernel) -> None:
    shown = running.run("%%aiflame -F 999\nbusy(0.3)\nprint('begun', flush=True)\nwhile True: busy(0.1)", interrupt_at="begun")
    assert shown.error is not None and shown.error[0] == "KeyboardInterrupt"
    assert "notebook/magic.py" not in shown.error[2]
    (report,) = shown.values
    assert "<iframe" in report["text/html"]


@pytest.mark.parametrize(
    ("cell", "line"),
    [
        ("%aiflame", "%aiflame needs a statement; %%aiflame records the whole cell"),
        ("%%aiflame busy(1)\n1", "%%aiflame has no place for 'busy(1)': the cell begins in the next line"),
        ("%%aiflame --frequency=9\nprint('ran')", "unrecognized arguments: --frequency=9"),
        ("%%aiflame -F 20000\nprint('ran')", "nothing ran: --cpu-rate 20000 is out of range: choose 0 to 10000 samples a second"),
        ("%%aiflame --embed many\nprint('ran')", "nothing ran: 'many' is not a size: write it like 500M or 2G"),
        ("%%aiflame --as 1x\nprint('ran')", "--as 1x: no name of a variable"),
        ("%%aiflame -o home\nprint('ran')", "nothing ran: home exists and is no profile: choose another name with -o"),
        ("%%aiflame -o 'x\nprint('ran')", "-o 'x: No closing quotation"),
        (
            "%%aiflame\nimport asyncio\nawait asyncio.sleep(0)",
            'a cell that awaits is recorded by `with aiflame.record("cell.aiflame"):` in it',
        ),
    ],
)
def test_a_command_that_cannot_be_recorded_is_one_line_and_does_not_run(running: Kernel, cell: str, line: str) -> None:
    shown = running.run(cell)
    assert (shown.stdout, shown.stderr.strip(), shown.status, shown.error) == ("", f"UsageError: {line}", "error", None)


def test_a_report_over_the_limit_is_left_out_with_the_way_to_see_it(running: Kernel) -> None:
    (report,) = running.run("%%aiflame -o small.aiflame --embed 2k\nbusy(0.3)").values
    html = report["text/html"]
    assert len(html) < 2000 and "<iframe" not in html and "2 KiB" in html and "aiflame open small.aiflame" in html
    (whole,) = running.run("_.embed = 4 << 20; _").values
    assert "<iframe" in whole["text/html"] and len(whole["text/html"]) < 400_000


def test_a_profile_without_a_name_goes_with_its_kernel(tmp_path: Path) -> None:
    with kernel(tmp_path) as one:
        one.run("%load_ext aiflame")
        one.run("%%aiflame\npass")
        path = Path(one.run("print(_.path)").stdout.strip())
        assert path.is_dir()
        one.run("exit")
        one.manager.provisioner.process.wait(30)
    assert not path.exists() and sorted(entry.name for entry in tmp_path.iterdir()) == ["home"]


def test_in_a_kernel_that_is_recorded_already_the_cell_just_runs(tmp_path: Path) -> None:
    with kernel(tmp_path, AIFLAME_PROFILE="/somewhere/all.aiflame") as one:
        one.run("%load_ext aiflame")
        shown = one.run("%%aiflame\nprint('ran')")
    line = "aiflame: `aiflame record` records this kernel already: its cells are in /somewhere/all.aiflame when the kernel has ended"
    assert (shown.stdout.splitlines(), shown.values, shown.status) == ([line, "ran"], [], "ok")


def test_aiflame_itself_needs_no_ipython() -> None:
    code = (
        "import sys, aiflame, aiflame.api; print(sorted(name for name in sys.modules if name.startswith(('IPython', 'aiflame.notebook'))))"
    )
    python = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env={"PYTHONPATH": str(SOURCE)})
    assert python.stdout == "[]\n"


def _lines(traceback: str) -> list[str]:
    """Without the numbers of cells; the magic's own line is the first of its cell."""
    return [line.split("]", 1)[-1] if line.lstrip().startswith("Cell In[") else line for line in traceback.splitlines()]
