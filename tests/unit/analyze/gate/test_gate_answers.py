"""Gates over profiles with a known answer: the slower kernel is named, with its place, its code and the machines of both sides."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from gate_profiles import Change, ended, group, training
from stories import Story
from telemetries import told

from aiflame.analyze.gate.comparison import Outcome
from aiflame.analyze.gate.gate import Gate, gate
from aiflame.analyze.gate.run import Run, measure
from aiflame.analyze.gate.sentence import plain
from aiflame.analyze.gate.thresholds import GATE_METRICS, Thresholds
from aiflame.analyze.gate.to_json import to_json
from aiflame.errors import AiflameError
from aiflame.profile.folder.meta import Host
from aiflame.profile.schema.enums import SampleState
from aiflame.profile.tables.store import Profile

BASE, NEW = range(5), range(5, 10)


def answer(base: list[Run], new: list[Run], *chosen: tuple[str, float | None]) -> Gate:
    return gate(base, new, Thresholds.of(chosen))


def outcomes(of: Gate, outcome: Outcome) -> list[tuple[str, str]]:
    return [(one.metric.name, one.item) for one in of.verdicts if one.outcome is outcome]


def sentence(of: Gate, metric: str, item: str = "") -> str:
    return next(plain(text) for one, text in zip(of.verdicts, of.sentences, strict=True) if (one.metric.name, one.item) == (metric, item))


def texts(lines: Any) -> list[str]:
    return [plain(line) for line in lines]


def test_a_kernel_that_takes_a_tenth_longer_is_named_with_its_place(tmp_path: Path) -> None:
    slow = answer(group(tmp_path, BASE, noise=0.002), group(tmp_path, NEW, gemm=110, noise=0.002))
    assert ("kernel", "sgemm") in outcomes(slow, Outcome.SLOWER)
    assert ("layer", "layers.0.mlp") in outcomes(slow, Outcome.SLOWER)
    assert not {"softmax", "layers.0.attn", "backward_kernel"} & {item for _, item in outcomes(slow, Outcome.SLOWER)}
    text = sentence(slow, "kernel", "sgemm")
    assert re.match(r"Kernel sgemm takes 110 µs in a step, 100 µs before: \+(9\.[7-9]|10\.[0-3])% \(\+(9\.[7-9]|10)\d* µs\), ", text)
    assert "beyond the threshold of 5% and the noise of ±" in text
    assert "between runs." in text
    assert text.endswith(" It is launched mostly at app/train.py:1 in layer layers.0.mlp.")
    assert re.search(r" Slower parts: kernel sgemm \(\+\S+ µs\)\.$", sentence(slow, "step"))


def test_the_same_change_in_noise_of_a_fifth_between_runs_is_no_regression(tmp_path: Path) -> None:
    noisy = answer(group(tmp_path, BASE, noise=0.2), group(tmp_path, NEW, gemm=110, noise=0.2))
    assert noisy.regressions == 0
    assert "but within the noise of ±" in sentence(noisy, "kernel", "sgemm")


def test_a_kernel_that_got_faster_is_no_regression(tmp_path: Path) -> None:
    fast = answer(group(tmp_path, BASE), group(tmp_path, NEW, gemm=80))
    assert fast.regressions == 0
    assert ("kernel", "sgemm") in outcomes(fast, Outcome.FASTER)


def test_a_smaller_threshold_and_a_metric_that_is_off(tmp_path: Path) -> None:
    base, new = group(tmp_path, BASE, noise=0.001), group(tmp_path, NEW, gemm=103, noise=0.001)
    assert ("kernel", "sgemm") not in outcomes(answer(base, new), Outcome.SLOWER)
    chosen = answer(base, new, ("kernel", 2.0), ("line", None))
    assert ("kernel", "sgemm") in outcomes(chosen, Outcome.SLOWER)
    assert "line" not in {one.metric.name for one in chosen.verdicts}


def test_one_run_on_each_side_is_judged_by_its_steps_and_says_so(tmp_path: Path) -> None:
    slow = answer(group(tmp_path, range(1)), group(tmp_path, range(1, 2), gemm=115, steps=30))
    assert ("kernel", "sgemm") in outcomes(slow, Outcome.SLOWER)
    assert "between steps." in sentence(slow, "kernel", "sgemm")
    notes = texts(slow.notes)
    assert "Elapsed times are not compared: runs have from 11 to 29 steps." in notes
    equal = answer(group(tmp_path, range(2, 3)), group(tmp_path, range(3, 4)))
    assert "Elapsed times are not compared: nothing shows their noise, and steps are compared." in texts(equal.notes)
    assert any("was estimated from the steps of few runs; differences between runs are not in it" in note for note in notes)


def test_parts_that_only_one_side_has_are_listed_and_not_judged(tmp_path: Path) -> None:
    def renamed(story: Story) -> None:
        for kernel in story.kernels:
            kernel["name"] = kernel["name"].replace("sgemm", "hgemm")

    other = answer(group(tmp_path, BASE), group(tmp_path, NEW, change=renamed))
    notes = texts(other.notes)
    for side, kernel in (("before", "sgemm"), ("now", "hgemm")):
        says = rf"Heavy GPU kernels that exist only {side}, and are not compared: {kernel} \((99\.\d|10\d) µs\)\."
        assert any(re.fullmatch(says, note) for note in notes)
    assert other.regressions == 0


def test_functions_of_a_program_on_a_gpu_are_judged_by_their_cpu_time(tmp_path: Path) -> None:
    def sampled(loads: int) -> Change:
        def change(story: Story) -> None:
            for number in range(2000):
                story.met(
                    12_000 + number % 1000, ("load", "/app/data.py", 5) if number % 10 < loads else ("train", "/app/train.py", 3), clock=0
                )

        return change

    base, new = group(tmp_path, BASE, change=sampled(3)), group(tmp_path, NEW, change=sampled(5))
    slow = outcomes(answer(base, new), Outcome.SLOWER)
    assert [item for metric, item in slow if metric == "function"] == ["load (app/data.py)"]
    assert "kernel" not in {metric for metric, _ in slow}


def test_few_samples_are_noise_too(tmp_path: Path) -> None:
    """Six equal runs have no spread, and each ten samples in the function."""

    def run(name: str, samples: int) -> Run:
        story = Story()
        for number in range(100):
            story.met(1000 * number, ("load" if number < samples else "main", "/app/main.py", 3), clock=0)
        return measure(story.profile(tmp_path / name, ended()), name)

    few = answer([run(f"base{number}", 10) for number in range(3)], [run(f"new{number}", 13) for number in range(3)])
    assert few.regressions == 0
    assert "but within the noise of ±" in (text := sentence(few, "function", "load (app/main.py)"))
    assert text.endswith(" by its number of samples.")


def test_a_triton_kernel_with_other_settings_is_compared_under_its_compiled_name(tmp_path: Path) -> None:
    def specialized(readable: str, stages: int) -> Change:
        def change(story: Story) -> Any:
            details = json.dumps({"constexprs": {}, "num_stages": stages})
            for launch, kernel in zip(story.tables["launches"], story.kernels, strict=True):
                launch["variant"] = int(kernel["name"] == "sgemm")
            return {"kernel_variants": [{"name": "sgemm", "readable": readable, "details": details}]}

        return change

    base = group(tmp_path, BASE, change=specialized("sgemm_s2", 2))
    slow = answer(base, group(tmp_path, NEW, gemm=120, change=specialized("sgemm_s3", 3)))
    assert ("kernel", "sgemm") in outcomes(slow, Outcome.SLOWER)
    text = sentence(slow, "kernel", "sgemm")
    assert " in layer layers.0.mlp. Its code changed: specialization: sgemm_s2 → sgemm_s3 and specialization: num_stages: 2 → 3." in text
    same = answer(base, group(tmp_path, range(10, 15), change=specialized("sgemm_s2", 2)))
    assert ("kernel", "sgemm_s2") in [(one.metric.name, one.item) for one in same.verdicts]


# Evidence


def test_unequal_machines_are_named(tmp_path: Path) -> None:
    def clocks(mhz: float, device: str, degrees: float) -> Any:
        def change(story: Story) -> Any:
            for kernel in story.kernels:
                kernel["device"] = device
            looks = range(0, 3_000_000, 100_000)
            return told(
                ("nvidia", device, "SM clock", "MHz", dict.fromkeys(looks, mhz)),
                ("nvidia", device, "power", "W", dict.fromkeys(looks, mhz / 3)),
                ("nvidia", device, "temperature", "°C", dict.fromkeys(looks, degrees)),
            )

        return change

    base = group(tmp_path, BASE, change=clocks(1980, "NVIDIA H100 [0]", 60))
    new = group(tmp_path, NEW, change=clocks(1410, "NVIDIA H200", 84), host=Host(cpu="Xeon 8480", cores=8))
    other = answer(base, new)
    assert other.machines_differ
    assert texts(other.machines) == [
        "The two sides ran on different models of CPU and GPU: times are not comparable.",
        "CPU: EPYC 9654 before, Xeon 8480 now",
        "GPU: NVIDIA H100 before, NVIDIA H200 now",
        "GPU clock: 1,980 MHz before, 1,410 MHz now (−29%)",
        "GPU clock in the slowest tenth of the time: 1,980 MHz before, 1,410 MHz now (−29%)",
        "GPU power: 660 W before, 470 W now (−29%)",
        "GPU temperature: 60 °C before, 84 °C now",
    ]
    same = answer(base, group(tmp_path, range(10, 15), change=clocks(1975, "NVIDIA H100 [1]", 61)))
    assert not same.machines_differ
    assert texts(same.machines) == [
        "CPU: EPYC 9654 on both sides",
        "GPU: NVIDIA H100 on both sides",
        "GPU clock: 1,975 to 1,980 MHz in all runs",
    ]


def test_the_clock_is_that_of_the_gpus_that_ran_the_program(tmp_path: Path) -> None:
    """Two other GPUs of the machine rest; in the newer runs, another program works on them."""

    def beside(mhz: float) -> Any:
        def change(story: Story) -> Any:
            for kernel in story.kernels:
                kernel["device"] = "NVIDIA H100 [0]"
            clocks = {"NVIDIA H100 [0]": 1980, "NVIDIA H100 [1]": mhz, "NVIDIA H100 [2]": mhz}
            return told(
                *(("nvidia", name, "SM clock", "MHz", dict.fromkeys(range(0, 3_000_000, 100_000), of)) for name, of in clocks.items())
            )

        return change

    quiet = answer(group(tmp_path, range(3), change=beside(345)), group(tmp_path, range(10, 13), change=beside(1755)))
    assert not quiet.machines_differ
    assert "GPU clock: 1,980 MHz in all runs" in texts(quiet.machines)


def test_changes_of_the_code_are_named(tmp_path: Path) -> None:
    def compiled(registers: int, build: str, linetable: bytes, folder: str) -> Any:
        def change(story: Story) -> Any:
            for kernel in story.kernels:
                kernel["registers"] = registers if kernel["name"] == "sgemm" else 32
            for code in story.tables["codes"]:
                own = code["filename"] == "/app/train.py"
                code["linetable"] = linetable if own else b"same"
                code["filename"] = code["filename"].replace("/app/", f"/ci/{folder}/")
            for symbol in story.tables["symbols"]:
                symbol["file"] = symbol["file"].replace("/app/", f"/ci/{folder}/")
            paths = ("/usr/lib/libcublasLt.so.12.4", "/x/libtriton.so", "/usr/lib/libc.so.6")
            modules = [{"path": path, "build_id": b"same" if "libc." in path else build.encode()} for path in paths]
            kept = [{"kernel": "sgemm", "kind": "ptx", "file": "sgemm.ptx"}]
            return {"modules": modules, "kept_files": kept, "processes": [{"pid": 4711, "cwd": f"/ci/{folder}"}]}

        return change

    def with_sass(path: Path, seed: int, sass: str, release: str, **more: Any) -> Run:
        profile = training(path, seed, **more)
        (profile.path / "kept").mkdir()
        (profile.path / "kept/sgemm.ptx").write_text(f"// Cuda compilation tools, release {release}\n.version 8.4\n")
        profile.write_table("gpu_instructions", pl.DataFrame([{"cubin": 7, "function": "sgemm", "offset": 16, "sass": sass}]))
        return measure(profile, f"run {seed}")

    base = [with_sass(tmp_path, seed, "FFMA R1, R2", "12.4", change=compiled(32, "old", b"a", "base")) for seed in BASE]
    new = [with_sass(tmp_path, seed, "FADD R1, R2", "12.8", gemm=120, change=compiled(40, "new", b"b", "new")) for seed in NEW]
    slow = answer(base, new)
    lines = texts(slow.code)
    release = "Cuda compilation tools, release {}, .version 8.4"
    compiler = f"compiler of its PTX: {release.format('12.4')} → {release.format('12.8')}"
    changes = f"PTX, SASS, {compiler} and registers a thread: 32 → 40"
    assert f"Code of kernel sgemm: {changes} changed" in lines
    assert any(line.startswith("Source of train.py: code of ") for line in lines)
    assert "Compilers of another build: libtriton.so" in lines
    assert "Programs and libraries of another build: libcublasLt.so" in lines
    text = sentence(slow, "kernel", "sgemm")
    assert f" It is launched mostly at train.py:1 in layer layers.0.mlp. Its code changed: {changes}." in text
    assert " The source of train.py changed: " in text
    assert "Lines of edited files are not compared, as their numbers may have moved: train.py." in texts(slow.notes)
    assert texts(answer(base[:3], base[2:]).code) == []


def test_other_options_of_recording_are_named(tmp_path: Path) -> None:
    base, new = (group(tmp_path, range(seed, seed + 1), options={"cpu_rate": rate, "wall_rate": 0}) for seed, rate in ((0, 199), (1, 997)))
    assert "The two sides were recorded with other options, which may change times: cpu_rate." in texts(answer(base, new).notes)


def test_waits_of_main_threads_are_a_metric(tmp_path: Path) -> None:
    """A thread of a pool waits all the time."""

    def server(path: Path, waits: int) -> Run:
        story = Story()
        pool = story.thread("pool")
        for number in range(200):
            story.met(1000 * number, ("main", "/app/main.py", 3), clock=0)
            for thread, waiting in ((1, number < waits), (pool, True)):
                story.met(1000 * number, ("main", "/app/main.py", 3), thread=thread)
                story.tables["cpu_samples"][-1]["state"] = int(SampleState.WAITING if waiting else SampleState.ON_CPU)
        return measure(story.profile(path, ended()), path.name)

    slow = answer([server(tmp_path / "base", 50)], [server(tmp_path / "new", 100)], ("elapsed", None))
    assert outcomes(slow, Outcome.SLOWER) == [("waiting", "")]
    assert sentence(slow, "waiting").startswith(
        "The main thread waits for 500 ms, 250 ms before: +100.0% (+250 ms), beyond the threshold of 10%"
    )


# Profiles that cannot be judged


def on_cpus(path: Path) -> Profile:
    """A program that uses neither a GPU nor torch."""
    story = Story()
    for number in range(100):
        story.met(1000 * number, ("main", "/app/main.py", 3), clock=0)
    return story.profile(path, ended())


def test_commands_that_ended_differently_are_refused(tmp_path: Path) -> None:
    with pytest.raises(AiflameError, match=r"ended differently \(run 0 with exit status 0, run 1 with signal 11\), so that their times"):
        answer(group(tmp_path, range(1)), group(tmp_path, range(1, 2), exit_status=-11))


def test_a_side_without_kernels_is_refused(tmp_path: Path) -> None:
    profile = on_cpus(tmp_path / "cpu")
    with pytest.raises(
        AiflameError, match="on the CPU has no gpu-time, only cpu-time, and run 0 has: record all runs with the same options"
    ):
        answer(group(tmp_path, range(1)), [measure(profile, "on the CPU")])


@pytest.mark.parametrize(("metric", "says"), [("waiting", "record with --wall"), ("function", "record without --cpu-rate 0")])
def test_a_threshold_for_a_metric_without_values_is_refused(tmp_path: Path, metric: str, says: str) -> None:
    with pytest.raises(AiflameError, match=f"--threshold {metric}: not all of these profiles have values of it.*{says}"):
        answer(group(tmp_path, range(1)), group(tmp_path, range(1, 2)), (metric, 5.0))


def test_a_gate_that_compares_nothing_is_refused(tmp_path: Path) -> None:
    off = [(name, None) for name in GATE_METRICS]
    with pytest.raises(AiflameError, match="nothing was compared: every metric that all these profiles have is off"):
        answer(group(tmp_path, range(1)), group(tmp_path, range(1, 2)), *off)


def test_layers_without_samples_are_named_with_how_to_record_them(tmp_path: Path) -> None:
    base, new = (measure(on_cpus(tmp_path / name), name) for name in ("base", "new"))
    notes = texts(answer([base], [new]).notes)
    assert any("Not compared: time of a step and layers. To have values, record a torch or JAX program" in note for note in notes)


# For programs


def test_json_has_each_measure(tmp_path: Path) -> None:
    slow = answer(group(tmp_path, BASE), group(tmp_path, NEW, gemm=110))
    document = json.loads(to_json(slow))
    assert document["regressions"] == slow.regressions > 0
    assert document["base"] == [f"run {seed}" for seed in BASE]
    (kernel,) = [one for one in document["measures"] if one["item"] == "sgemm"]
    assert (kernel["outcome"], kernel["noise_from"], kernel["layer"], kernel["line"]) == (
        "slower",
        "runs",
        "layers.0.mlp",
        "app/train.py:1",
    )
    assert kernel["change"] == pytest.approx(0.1, abs=0.03)
    assert kernel["new_ns"] - kernel["base_ns"] == pytest.approx(10_000, rel=0.3)
