"""The layouts of `perf script`: the same samples, whichever fields were printed."""

from __future__ import annotations

from pathlib import Path

import pytest
from trees import paths

import aiflame
from aiflame.api import Profile
from aiflame.attribute.trees.build import metrics
from aiflame.exchange.readers.formats import format_of
from aiflame.profile.schema.kinds import Kind

STACK = "\t    ffffffff81755b8a do_syscall+0x1 ([kernel.kallsyms])\n\t            11d6 spin+0x5d (/app/work)\n\t    10e6 main (/app/work)\n"
CODE = ("main", "spin", "do_syscall")


def opened(tmp_path: Path, text: str) -> Profile:
    file = tmp_path / "out.txt"
    file.write_text(text)
    recognized = format_of(text.encode())
    assert recognized is not None and recognized.name == "perf script"
    return aiflame.open(file)


@pytest.mark.parametrize(
    ("head", "owner", "metric", "value"),
    [
        ("work  7/8  [001] 12.500000:   10101010 cpu-clock: ", ("work (7)", "work"), "cpu-time", 10101010),
        ("work  7/7  12.500000:   10101010 task-clock:u:", ("work (7)", "main thread"), "cpu-time", 10101010),
        ("work 8 [001] 12.500000123: 5 cycles:ppp: ", ("work", "work"), "cycles:ppp", 5),
        ("my worker: 1  8 12.5: cycles: ", ("my worker: 1", "my worker: 1"), "cycles", 1),
        ("work 8 cycles:", ("work", "work"), "cycles", 1),
        ("work 8   250000 cpu-clock:uhH:", ("work", "work"), "cpu-time", 250000),
        ("work\t8 [007] 12.500000:\t\t1000000 task-clock:u:", ("work", "work"), "cpu-time", 1000000),
        ("work 8 [001] d..1. 12.500000: 3 page-faults: ", ("work", "work"), "page-faults", 3),
        ("work 8 12.500000: sched:sched_switch: prev_comm=a ==> next_pid=3", ("work", "work"), "sched:sched_switch", 1),
        ("work 8 12.500000: 7 cpu/event=0x3c,umask=0x0/: ", ("work", "work"), "cpu/event=0x3c,umask=0x0/", 7),
        ("work cycles:", ("work",), "cycles", 1),
    ],
)
def test_every_layout_of_the_line_of_a_sample(tmp_path: Path, head: str, owner: tuple[str, ...], metric: str, value: int) -> None:
    profile = opened(tmp_path, f"{head}\n{STACK}\n")
    assert metrics(profile.store) == [metric]
    assert paths(profile.tree(), metric) == {(*owner, *CODE): value}


def test_the_last_sample_needs_no_empty_line(tmp_path: Path) -> None:
    head = "work 8 12.5: 5 cycles: \n"
    assert opened(tmp_path, head + STACK + "\n" + head + STACK.rstrip()).tree().total("cycles") == 10


def test_a_stack_on_the_line_of_its_sample(tmp_path: Path) -> None:
    one = "  false 8 12.5:   1 cycles:u:  ffffffff9b201293 entry ([kernel.kallsyms])\n"
    text = f"{one}  false 8 12.6:   1 cycles:u:   7fa6 start+0x4 (/lib/ld.so)\n"
    assert paths(opened(tmp_path, text).tree(), "cycles:u") == {("false", "false", "entry"): 1, ("false", "false", "start"): 1}


def test_kinds_files_and_lines_of_frames(tmp_path: Path) -> None:
    text = (
        "work 7/7 [001] 1.5: 9 cycles: \n"
        "\tffffffffc09ace93 bpf_prog_2b (bpf_prog_2b)\n"
        "\t    11d6 spin+0x5d (/app/work)\n  work.c:12\n"
        "\t    11d7 helper (inlined)\n"
        "\t    11d8 std::run<int>(int) (/app/lib work.so (deleted))\n"
        "\t    7f01 [unknown] (/app/libjvm.so)\n"
        "\t    7f02 Lapp/Main;::outer->Lapp/Main;::inner+0x9 (/tmp/perf-7.map)\n"
        "\t    7f03 py::load:/app/load.py (/tmp/perf-7.map)\n"
        "\t    7f04 [unknown] ([unknown])\n\n"
    )
    tree = opened(tmp_path, text).tree()
    native = ("[libjvm.so]", "std::run<int>(int)", "helper", "spin", "bpf_prog_2b")
    jitted = ("load", "app/Main::outer", "app/Main::inner")
    assert paths(tree, "cycles") == {("work (7)", "main thread", "[unknown]", *jitted, *native): 9}
    columns = tree.frames.select("name", "kind", "module", "file", "line").rows()
    rows = {name: (Kind(kind), module, file, line) for name, kind, module, file, line in columns}
    assert rows["bpf_prog_2b"][0] == Kind.OS_KERNEL
    assert rows["spin"] == (Kind.C, "work", "work.c", 12)
    assert rows["helper"][:2] == (Kind.C, "")
    assert rows["std::run<int>(int)"][:2] == (Kind.CPP, "lib work.so")
    assert rows["app/Main::inner"][1] == "[JIT]"
    assert rows["load"] == (Kind.PYTHON, "", "/app/load.py", 0)


def test_moments_are_those_of_the_file(tmp_path: Path) -> None:
    text = "".join(f"work 7/7 [001] {at}: 1000 cpu-clock: \n{STACK}\n" for at in ("5.000001000", "5.000000500", "6.5"))
    samples = opened(tmp_path, text).store.table("cpu_samples")
    first = min(samples["time_ns"].to_list())
    assert sorted(int(at) - first for at in samples["time_ns"]) == [0, 500, 1_499_999_500]


def test_idle_processors_wait(tmp_path: Path) -> None:
    tree = opened(tmp_path, f"swapper 0 [001] 5.5: 1000 cpu-clock: \n{STACK}\n").tree()
    assert paths(tree, "cpu-time") == {("swapper", "swapper", *CODE, "[waiting]"): 1000}


def test_the_header_says_where_it_ran(tmp_path: Path) -> None:
    head = "# hostname : box\n# nrcpus online : 12\n# cpudesc : Fast CPU\n# cmdline : perf record -g ./work\n#\n"
    meta = opened(tmp_path, f"{head}work 8 5.5: 3 cycles: \n{STACK}\n").store.meta
    assert (meta.host.name, meta.host.cores, meta.host.cpu) == ("box", 12, "Fast CPU")
    assert meta.command == ("perf", "record", "-g", "./work")


def test_strange_lines_are_counted_and_records_are_passed_over(tmp_path: Path) -> None:
    text = f"work 7/7 [001] 1.0: PERF_RECORD_COMM: work:7/7\nwork 8 5.5: 3 cycles: \n{STACK}\nwhat is this?\n"
    profile = opened(tmp_path, text)
    assert profile.tree().total("cycles") == 3
    assert any("1 lines of the file are neither" in note for note in profile.store.meta.degraded)
    assert profile.store.meta.imported is not None
    assert profile.store.meta.imported.unused == {"records of perf that are no samples": 1}
