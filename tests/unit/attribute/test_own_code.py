"""My code only: packages fold into the own function that called them."""

from __future__ import annotations

from hypothesis import given
from trees import PROCESS, THREAD, TREES, c, is_sound, paths, tree

from aiflame.analyze.top import top
from aiflame.attribute.transforms.own_code import own_code, packages
from aiflame.attribute.tree import Frame, Kind, Tree, frame_table

SITE = "/venv/lib/python3.11/site-packages"
CALL = Frame("Module._call_impl", Kind.PYTHON, f"{SITE}/torch/nn/modules/module.py", 1500)
DYNAMO = Frame("_fn", Kind.PYTHON, f"{SITE}/torch/_dynamo/eval_frame.py", 500)
LINEAR = Frame("Linear.forward", Kind.PYTHON, f"{SITE}/torch/nn/modules/linear.py", 100)
LOADS = Frame("loads", Kind.PYTHON, "/usr/lib/python3.11/json/__init__.py", 299)
ADDMM, MEMCPY = c("addmm", "libtorch_cpu.so"), c("memcpy", "libc.so.6")
COLLECTOR = c("[GC]", "libpython3.11.so.1.0")


def own(name: str, line: int = 1) -> Frame:
    return Frame(name, Kind.PYTHON, "/app/model.py", line)


MAIN, FORWARD = own("main"), own("Net.forward")


def shown(of: Tree) -> dict[str, int]:
    return {";".join(path[2:]): value for path, value in paths(own_code(of)).items() if value}


def test_plumbing_between_own_functions_goes_and_leaves_are_their_package() -> None:
    of = tree(
        ((PROCESS, THREAD, MAIN, CALL, DYNAMO, CALL, FORWARD), 5),
        ((PROCESS, THREAD, MAIN, CALL, DYNAMO, CALL, FORWARD, CALL, LINEAR, ADDMM, MEMCPY), 60),
        ((PROCESS, THREAD, MAIN, CALL, DYNAMO), 7),
        ((PROCESS, THREAD, MAIN, LOADS, c("scan", "_json.cpython-311-x86_64-linux-gnu.so")), 8),
        ((PROCESS, THREAD, MAIN, MEMCPY), 2),
    )
    assert shown(of) == {"main;Net.forward": 5, "main;Net.forward;[torch]": 60, "main;[torch]": 7, "main;[json]": 8, "main;[libc]": 2}


def test_code_outside_all_packages_stays_where_it_was() -> None:
    wait, kernel = Frame("[lock]", Kind.WAIT), Frame("gemm", Kind.GPU_KERNEL)
    of = tree(
        ((PROCESS, THREAD, MAIN, CALL, wait), 3),
        ((PROCESS, THREAD, MAIN, CALL, LINEAR, ADDMM, kernel), 4),
        ((PROCESS, THREAD, MAIN, COLLECTOR), 5),
        ((PROCESS, THREAD, ADDMM), 6),
    )
    assert shown(of) == {"main;[lock]": 3, "main;gemm": 4, "main;[GC]": 5, "[libtorch_cpu]": 6}


def test_native_code_of_the_executable_is_the_programs_own() -> None:
    of = tree(((PROCESS, THREAD, c("main", "app"), c("solve", "app"), c("dgemm", "libblas.so.3")), 4))
    assert shown(of) == {"main;solve;[libblas]": 4}


def test_the_lines_of_a_package_go_with_it() -> None:
    own_line = Frame("model.py:7", Kind.CPU_LINE, "/app/model.py", 7)
    package_line = Frame("module.py:1501", Kind.CPU_LINE, CALL.file, 1501)
    of = tree(((PROCESS, THREAD, MAIN, own_line, CALL, package_line), 4), ((PROCESS, THREAD, MAIN, own_line), 1))
    rows = top(own_code(of), "line").select("name", "self", "total").rows()
    assert rows == [("[torch]", 4, 4), ("model.py:7", 1, 5)]


@given(TREES)
def test_the_total_stays(of: Tree) -> None:
    folded = own_code(of)
    assert is_sound(folded)
    assert folded.total("cpu-time") == of.total("cpu-time")


def test_packages_of_frames() -> None:
    frames = frame_table([CALL, LOADS, ADDMM, COLLECTOR, c("x_add", "libpython3.11.so.1.0"), Frame("ksys_read", Kind.OS_KERNEL), MAIN])
    assert packages(frames).to_list()[1:] == ["torch", "json", "libtorch_cpu", "", "python", "Linux", ""]
