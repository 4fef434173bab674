"""`aiflame demo`, as a person runs it."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from array import array
from pathlib import Path
from random import Random

import numpy as np
import polars as pl
import pytest
from recording import kernels, time_under

import aiflame
from aiflame.agents.access import Access
from aiflame.agents.tools import Tools
from aiflame.api import Profile
from aiflame.attribute.tree import Kind, Tree
from aiflame.demo.cpu_device import CpuDevice
from aiflame.demo.matmul import Network, check, matrix, step

pytest_plugins = ["opencl_device"]

SOURCE = Path(__file__).parents[2] / "native" / "demo" / "matmul.cpp"
WAYS = ("basic", "blocked", "tiled")


def run_demo(folder: Path, *options: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Runs like the installed command: nothing is imported from the current folder."""
    code = "import sys; sys.path.remove(''); from aiflame.cli.main import main; sys.exit(main())"
    command = [sys.executable, "-c", code, "demo", *options]
    surroundings = {**os.environ, **environment}
    return subprocess.run(command, cwd=folder, env=surroundings, capture_output=True, text=True, timeout=600, check=False)


def test_with_json_stdout_is_one_document(tmp_path: Path) -> None:
    """The workload's own lines go to stderr."""
    process = run_demo(tmp_path, "--device", "cpu", "--seconds", "0.5", "--json")
    assert process.returncode == 0, process.stderr
    document = json.loads(process.stdout)
    assert (document["schema"], document["device"]) == ("aiflame.demo/1", "cpu")
    assert (tmp_path / document["profile"]).is_dir() and (tmp_path / document["flame_graph"]).is_file()
    assert "multiplied two" in process.stderr


@pytest.fixture(scope="module")
def cpu_demo(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """The folder in which the demo ran, and its output. On a busy machine it runs for longer, until it has computed for 1.5 s."""
    for seconds in (3, 12, 48):
        folder = tmp_path_factory.mktemp("demo")
        if sys.version_info >= (3, 11):
            # A module of the person's own, with the name of one that the workload imports.
            (folder / "random.py").write_text("raise SystemExit('imported from the current folder')")
        process = run_demo(folder, "--device", "cpu", "--seconds", str(seconds))
        assert process.returncode == 0, process.stderr
        if aiflame.open(folder / "aiflame-demo.aiflame").tree("cpu-time").total("cpu-time") > 1.5e9:
            break
    return folder, process.stdout


@pytest.fixture(scope="module")
def opencl_demo(opencl_device: str, tmp_path_factory: pytest.TempPathFactory) -> tuple[Profile, str]:
    folder = tmp_path_factory.mktemp("opencl")
    process = run_demo(folder, "--device", "opencl", "--seconds", "3")
    assert process.returncode == 0, process.stderr
    return aiflame.open(folder / "aiflame-demo.aiflame"), process.stdout


@pytest.fixture(scope="module")
def tree(cpu_demo: tuple[Path, str]) -> Tree:
    return aiflame.open(cpu_demo[0] / "aiflame-demo.aiflame").tree("cpu-time", detail="instruction")


@pytest.mark.parametrize("size", [16, 48, 128, 208])
def test_the_three_products_are_the_product(size: int) -> None:
    random = Random(2)
    left, right = (_matrix(random, size) for _ in range(2))
    device = CpuDevice()
    device.load(left, right)
    step(Network(device))
    expected = np.array(left).reshape(size, size) @ np.array(right).reshape(size, size)
    for result in device.results():
        np.testing.assert_allclose(np.array(result).reshape(size, size), expected, rtol=1e-5)


def _matrix(random: Random, size: int) -> array[float]:
    return array("f", (random.random() for _ in range(size * size)))


def test_it_prints_the_table_then_one_sentence_then_the_pictures(cpu_demo: tuple[Path, str]) -> None:
    folder, printed = cpu_demo
    *_, said, picture, report = printed.splitlines()
    assert re.search(r"matmul_basic.*\n(.*\n)*.*matmul_blocked", printed), "the table has the heaviest first"
    at = r"\(most at matmul\.cpp:\d+\)"
    assert re.fullmatch(
        rf"Same work, 3 ways: matmul_basic [\d.]+% of the CPU time {at}, matmul_blocked [\d.]+% {at}, matmul_tiled [\d.]+% {at};"
        r" matmul_tiled is [\d.]+ times as fast as matmul_basic\.",
        said,
    )
    assert picture == "Flame graph: aiflame-demo.svg"
    assert report == "The whole report, in a browser: aiflame open aiflame-demo.aiflame"
    assert "matmul_basic" in (folder / "aiflame-demo.svg").read_text()


def test_each_product_lies_under_its_layer_and_nowhere_else(tree: Tree) -> None:
    for way in WAYS:
        spent = time_under(tree, f"matmul_{way}")
        assert spent > 0
        assert time_under(tree, "train", "step", "Network.forward", f"Network.{way}_layer", f"CpuDevice.{way}", f"matmul_{way}") == spent


def test_time_of_a_product_is_at_the_lines_of_its_innermost_loop(tree: Tree) -> None:
    lines = SOURCE.read_text().splitlines()
    for way, code in (("basic", "sum += a[i * n + k]"), ("blocked", "c[i * n + j] += left")):
        (loop,) = (number for number, line in enumerate(lines, 1) if code in line)
        assert time_under(tree, f"matmul_{way}", f"matmul.cpp:{loop}") > 0.8 * time_under(tree, f"matmul_{way}")


def test_frames_go_down_to_an_instruction_at_its_offset(tree: Tree) -> None:
    instructions = tree.frames.filter(pl.col("kind") == int(Kind.CPU_INSTRUCTION), pl.col("module") == "libaiflame_demo.so")
    assert len(instructions) > 3
    assert all(re.fullmatch(r"[a-z0-9]+ @ \+0x[0-9a-f]+", name) for name in instructions["name"])


def test_a_profile_that_a_person_named_is_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "mine.aiflame").mkdir()
    process = run_demo(tmp_path, "--device", "cpu", "--seconds", "0.1", "-o", "mine.aiflame")
    assert process.returncode == 1
    assert "mine.aiflame exists" in process.stderr


def test_opencl_shows_the_three_kernels(opencl_device: str, opencl_demo: tuple[Profile, str]) -> None:
    profile, printed = opencl_demo
    assert re.search(r"Same work, 3 ways: matmul_\w+ [\d.]+% of the GPU time", printed)
    tree = profile.tree("gpu-time")
    spent = {way: time_under(tree, f"matmul_{way}", metric="gpu-time") for way in WAYS}
    for way in WAYS:
        assert time_under(tree, f"Network.{way}_layer", "-", f"matmul_{way}", metric="gpu-time") == spent[way]
    launched = kernels(profile)
    assert {name: kernel["took"] for name, kernel in launched.items()} == {f"matmul_{way}": spent[way] for way in WAYS}
    assert len({launched[f"matmul_{way}"]["launches"] for way in WAYS}) == 1, "each step runs each way once"
    took = {way: launched[f"matmul_{way}"]["quickest"] for way in WAYS}
    assert min(took.values()) > 0
    if opencl_device.startswith("pthread"):  # kernels on the CPU, for which other programs make them wait
        cpu = profile.tree("cpu-time")
        took = {way: time_under(cpu, f"matmul_{way}") for way in WAYS}
    assert took["basic"] > took["blocked"] > took["tiled"]


def test_samples_in_a_kernel_that_runs_on_the_cpu_are_its_instructions(opencl_device: str, opencl_demo: tuple[Profile, str]) -> None:
    if not opencl_device.startswith("pthread"):
        pytest.skip(f"{opencl_device} does not run its kernels on the CPU as PoCL does")
    tree = opencl_demo[0].tree("cpu-time", detail="instruction")
    inside = tree.frames.filter(pl.col("module") == "matmul_basic.so")
    assert inside.filter(pl.col("kind") == int(Kind.GPU_KERNEL))["name"].to_list() == ["matmul_basic"]
    instructions = inside.filter(pl.col("kind") == int(Kind.GPU_INSTRUCTION))["name"].unique().to_list()
    assert len(instructions) > 3
    assert all(re.fullmatch(r"\w+ @ \+0x[0-9a-f]+", name) for name in instructions)
    assert time_under(tree, "matmul_basic") == sum(time_under(tree, "matmul_basic", name) for name in instructions)


def test_without_a_gpu_and_without_opencl_it_runs_on_the_cpu_and_says_why(tmp_path: Path) -> None:
    process = run_demo(tmp_path, "--seconds", "0.5", CUDA_VISIBLE_DEVICES="", OCL_ICD_VENDORS=str(tmp_path), OCL_ICD_FILENAMES="")
    assert process.returncode == 0, process.stderr
    not_cuda, not_ze, not_opencl, recording, *_ = process.stdout.splitlines()
    assert re.fullmatch(r"Not on a GPU by CUDA: .+", not_cuda)
    assert re.fullmatch(r"Not on a GPU by Level Zero: .+", not_ze)
    assert re.fullmatch(r"Not on OpenCL: .*(OpenCL has no device here|there is no OpenCL here).*", not_opencl)
    assert recording == "Recording 0.5 s of one matrix product in three ways on the CPU ..."


def test_with_opencl_it_runs_there(opencl_device: str, tmp_path: Path) -> None:
    process = run_demo(tmp_path, "--seconds", "0.1", CUDA_VISIBLE_DEVICES="")
    assert process.returncode == 0, process.stderr
    assert "on OpenCL ..." in process.stdout


def test_a_wrong_product_ends_the_workload() -> None:
    left, right = matrix(16), matrix(16)
    product = array("f", (np.array(left).reshape(16, 16) @ np.array(right).reshape(16, 16)).astype("f").ravel())
    check(left, right, product)
    product[:] = array("f", [value * 1.001 for value in product])
    with pytest.raises(SystemExit, match="a product is wrong"):
        check(left, right, product)


@pytest.mark.parametrize("wrong", [("--device", "abacus"), ("--seconds", "-1")])
def test_a_wrong_call_ends_with_status_2(wrong: tuple[str, str], tmp_path: Path) -> None:
    assert run_demo(tmp_path, *wrong).returncode == 2


def test_an_agent_gets_its_line_and_a_fix_in_two_thousand_tokens(cpu_demo: tuple[Path, str]) -> None:
    """The CPU has no stalls; tests/gpu asks the same of a GPU."""
    tools = Tools(Access.to([cpu_demo[0]]))
    text = tools.findings()
    assert len(text) <= 8000
    first = json.loads(text)["findings"][0]
    assert first["fix"] and re.search(r"cpu_device\.py:\d+$", first["untrusted"]["line"])
    evidence = json.loads(tools.findings(id=first["id"]))["untrusted"]["rows"]
    assert evidence[0]["name"].startswith("matmul.cpp:")
