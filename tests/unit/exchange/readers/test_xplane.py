"""Traces of XLA's profilers as profiles."""

from __future__ import annotations

import gzip
from collections import Counter
from pathlib import Path

import polars as pl
import pytest
from damage import damaged_copies
from whole_traces import Whole
from xplanes import Event, Line, Plane, space

import aiflame
from aiflame.errors import AiflameError
from aiflame.exchange.readers.door import imported
from aiflame.profile.schema.enums import CallBackend, CopyKind, GpuApi, SampleState
from aiflame.profile.schema.kinds import Kind

OWN = Path(__file__).parents[3] / "data" / "traces" / "xplane"
US = 1_000_000
"""Picoseconds."""
DOT, ADD = "jit(f)/jvp(Net)/dense/dot_general", "jit(f)/transpose(jvp(Net))/dense/add"


def kernel(name: str, at: int, correlation: int, op: str = "") -> Event:
    stats: dict[str, str | int | float] = {
        "correlation_id": correlation,
        "kernel_details": "regs:32 static_shared:7 dynamic_shared:9 grid:4,2,1 block:64,1,1 occ_pct:50",
    }
    return Event(name, at * US, 10 * US, {**stats, **({"name": op, "hlo_op": "fusion", "hlo_module": "jit_f"} if op else {})})


GPU = Plane(
    "/device:GPU:0",
    (
        Line(
            7,
            "Stream #7(Kernel,MemcpyH2D)",
            (
                kernel("dot_fusion", 100, 1, DOT),
                kernel("add_fusion", 120, 2, ADD),
                kernel("dot_fusion", 140, 2, DOT),
                Event(
                    "MemcpyH2D",
                    160 * US,
                    5 * US,
                    {"correlation_id": 3, "memcpy_details": "kind_src:pageable kind_dst:device size:4096 dest:0 async:1"},
                ),
                Event("Memset", 170 * US, 2 * US, {"correlation_id": 9, "memset_details": "kind:device num_bytes:64 async:1"}),
            ),
        ),
        Line(900, "XLA Modules", (Event("jit_f", 100 * US, 50 * US),)),
        Line(901, "XLA Ops", (Event("fusion", 100 * US, 10 * US),)),
    ),
    {"device_vendor": "Nvidia"},
)
HOST = Plane(
    "/host:CPU",
    (
        Line(
            41,
            "python",
            (
                Event("$train.py:12 main", 0, 300 * US),
                Event("train", 10 * US, 90 * US, {"step_num": 5, "_r": 1}),
                Event("cuLaunchKernel", 20 * US, 4 * US, {"correlation_id": 1}),
                Event("cuGraphLaunch", 30 * US, 6 * US, {"correlation_id": 2}),
                Event("train", 100 * US, 90 * US, {"step_num": 6, "_r": 1}),
                Event("cuMemcpyHtoDAsync_v2", 110 * US, 4 * US, {"correlation_id": 3}),
                Event("$<unknown> append", 120 * US, US),
                Event("cuStreamSynchronize", 200 * US, 50 * US, {"correlation_id": 4}),
                Event("note#batch=3#", 260 * US, 3 * US),
                Event("mark", 270 * US, 0),
            ),
        ),
    ),
    {"process_id": 77},
)
ENVIRONMENT = Plane("Task Environment", stats={"profile_start_time": 1_700_000_000 * 10**9})


def opened(tmp_path: Path, *planes: Plane) -> aiflame.Profile:
    file = tmp_path / "host.xplane.pb"
    file.write_bytes(space(*planes))
    return aiflame.open(file)


def kernels(profile: aiflame.Profile) -> pl.DataFrame:
    shapes = profile.table("kernel_shapes")
    return profile.table("kernels").join(shapes, left_on=["process", "shape"], right_on=["process", "id"], maintain_order="left")


def tree_of_frames(profile: aiflame.Profile) -> dict[int, list[str]]:
    """The names of the frames of each stack of process 0, outermost first."""
    stacks = {number: (parent, frame) for number, parent, frame in profile.table("stacks").select("id", "parent", "frame").iter_rows()}
    symbols = profile.table("symbols").sort("depth")
    names = dict(symbols.select("frame", "name").iter_rows())
    layers = dict(profile.table("layers").select("id", "type").iter_rows())

    def named(word: int) -> str:
        return names.get(word) or f"layer {layers.get(word & 0xFFFFFFFF)}"

    chains: dict[int, list[str]] = {0: []}
    for number in sorted(stacks):
        parent, frame = stacks[number]
        chains[number] = [*chains.get(parent, []), named(frame)]
    return chains


def by_op(profile: aiflame.Profile) -> dict[str, int]:
    """GPU time of each op, without idle time."""
    tree = profile.tree("gpu-time", by="op")
    kinds, names = tree.frames["kind"].to_list(), tree.frames["name"].to_list()
    took: Counter[str] = Counter()
    for node, value in enumerate(tree.values["gpu-time"].tolist()):
        at = node
        while at > 0 and kinds[tree.frame[at]] != Kind.OP:
            at = int(tree.parent[at])
        if value and kinds[tree.frame[node]] != Kind.GPU_IDLE:
            took[names[tree.frame[at]] if at > 0 else "no op"] += value
    return took


def test_kernels_and_copies_are_those_of_streams_once(tmp_path: Path) -> None:
    profile = opened(tmp_path, GPU, HOST, ENVIRONMENT)
    rows = kernels(profile)
    assert rows["name"].to_list() == ["dot_fusion", "add_fusion", "dot_fusion"]
    assert set((rows["end_ns"] - rows["start_ns"]).to_list()) == {10_000}
    sizes = rows.select("grid_x", "grid_y", "block_x", "registers", "static_shared", "dynamic_shared", "stream", "device", "api").unique()
    assert sizes.rows() == [(4, 2, 64, 32, 7, 9, 7, "Nvidia GPU [0]", int(GpuApi.CUDA))]
    copies = profile.table("copies").select("kind", "bytes").rows()
    assert copies == [(int(CopyKind.HOST_TO_DEVICE), 4096), (int(CopyKind.FILL), 64)]
    assert profile.meta.imported is not None
    assert profile.meta.imported.unused["events of the derived line XLA Modules"] == 1


def test_work_hangs_below_its_launch_inside_of_its_layers_and_op(tmp_path: Path) -> None:
    profile = opened(tmp_path, GPU, HOST)
    frames = tree_of_frames(profile)
    stack = dict(profile.table("launches").select("correlation", "stack").iter_rows())
    of_work = [frames[stack[number]] for number in kernels(profile)["correlation"].to_list()]
    outer, net = ["main", "train"], ["layer Net", "layer dense"]
    assert of_work == [
        [*outer, *net, "jax::dot_general", "cuLaunchKernel"],
        [*outer, *net, "transpose(jvp)", "jax::add"],  # a graph's launch is for several ops
        [*outer, *net, "jax::dot_general"],
    ]
    assert frames[stack[3]] == [*outer, "cuMemcpyHtoDAsync_v2"]
    assert "1 of 5 kernels and copies of the trace have no call" in " ".join(profile.meta.degraded)


def test_ops_layers_and_steps_are_listed(tmp_path: Path) -> None:
    profile = opened(tmp_path, GPU, HOST)
    assert by_op(profile) == {
        "jax::dot_general": 20_000, "jax::add": 10_000, "no op": 7_000
    }  # fmt: skip
    steps = profile.table("regions").filter(pl.col("category") == "step").sort("begin_ns")
    assert steps.select("name", "payload").rows() == [("train", 5), ("train", 6)]


def test_calls_take_the_time_that_they_spent_themselves(tmp_path: Path) -> None:
    profile = opened(tmp_path, HOST, ENVIRONMENT)
    frames = tree_of_frames(profile)
    took: Counter[str] = Counter()
    for row in profile.table("cpu_samples").select("stack", "period_ns", "state").iter_rows(named=True):
        name = frames[row["stack"]][-1]
        took[name] += row["period_ns"]
        assert (row["state"] == int(SampleState.WAITING)) == (name == "cuStreamSynchronize")
    assert took == {
        "main": 67_000, "train": 165_000, "cuLaunchKernel": 4_000, "cuGraphLaunch": 6_000, "cuMemcpyHtoDAsync_v2": 4_000, "append": 1_000,
        "cuStreamSynchronize": 50_000, "note": 3_000,
    }  # fmt: skip
    assert set(profile.table("call_names")["backend"].to_list()) == {int(CallBackend.CUDA)}
    assert profile.table("processes")["pid"].to_list() == [77]
    assert profile.table("threads")["name"].to_list() == ["python"]
    code = profile.table("codes").row(0, named=True)
    assert (code["qualname"], code["filename"], code["first_line"]) == ("main", "train.py", 12)
    assert profile.meta.started.realtime_ns == 1_700_000_000 * 10**9


TPU = Plane(
    "/device:TPU:0",
    (
        Line(1, "Steps", (Event("0", 0, 100 * US), Event("1", 100 * US, 100 * US))),
        Line(2, "XLA Modules", (Event("jit_f(1)", 0, 200 * US),)),
        Line(
            3,
            "XLA Ops",
            (
                Event("%while.3 = (s32[]) while(%tuple)", 0, 100 * US),
                Event("%fusion.1 = f32[8]{0} fusion(%p)", 10 * US, 30 * US),
                Event("%fusion.1 = f32[8]{0} fusion(%p)", 50 * US, 30 * US),
                Event("%copy.2 = f32[8]{0} copy(%p)", 120 * US, 30 * US),
            ),
        ),
    ),
    {"device_type_string": "TPU v5 lite"},
    {"%fusion.1 = f32[8]{0} fusion(%p)": {"tf_op": f"{DOT}:", "hlo_category": "convolution fusion", "flops": 512}},
    {"%copy.2 = f32[8]{0} copy(%p)": "copy.2"},
)


def test_a_loop_of_a_tpu_has_the_time_between_its_ops(tmp_path: Path) -> None:
    profile = opened(tmp_path, TPU)
    took: Counter[str] = Counter()
    for name, begin, end in kernels(profile).select("name", "start_ns", "end_ns").iter_rows():
        took[name] += end - begin
    assert took == {"while.3": 40_000, "fusion.1": 60_000, "copy.2": 30_000}
    assert set(kernels(profile)["device"].to_list()) == {"TPU v5 lite [0]"}
    assert by_op(profile) == {
        "jax::dot_general": 60_000,
        "no op": 70_000,
    }
    assert profile.table("regions").filter(pl.col("category") == "step").height == 2
    assert "calls that launched 1 ops" in " ".join(profile.meta.degraded)


def test_steps_of_a_device_come_before_those_of_its_host(tmp_path: Path) -> None:
    regions = opened(tmp_path, TPU, HOST).table("regions")
    assert regions.filter(pl.col("category") == "step")["name"].to_list() == ["0", "1"]
    assert regions.filter(pl.col("category") == "")["name"].to_list() == ["train", "train"]


def test_each_way_of_writing_texts_is_read(tmp_path: Path) -> None:
    plain = Plane(GPU.name, GPU.lines, GPU.stats, references=False)
    first, second = opened(tmp_path, GPU, HOST), opened(tmp_path, plain, HOST)
    for table in ("kernels", "kernel_shapes", "copies", "stacks", "launches"):
        assert first.table(table).equals(second.table(table)), table


def test_a_run_folder_is_read_without_the_files_beside_the_traces(tmp_path: Path) -> None:
    for time, name in (("2026_01_01", "old"), ("2026_01_02", "a"), ("2026_01_02", "b")):
        folder = tmp_path / "log" / "plugins" / "profile" / time
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{name}.trace.json.gz").write_bytes((OWN / "jax0.10.2-cpu.trace.json.gz").read_bytes())
        packed = gzip.compress(space(GPU, HOST, host=name))
        (folder / f"{name}.xplane.pb.gz").write_bytes(packed)
    for path in (tmp_path / "log", tmp_path / "log" / "plugins" / "profile" / "2026_01_02"):
        ranks = aiflame.open(path).table("processes")
        assert ranks["command"].to_list() == ["a: process 77", "b: process 77"]


def test_the_profilers_own_errors_are_notes(tmp_path: Path) -> None:
    file = tmp_path / "host.xplane.pb"
    file.write_bytes(space(HOST, errors=("CUPTI lost 3\nevents",)))
    assert "XLA: CUPTI lost 3 events" in aiflame.open(file).meta.degraded


def test_absurd_times_and_unknown_names_do_no_harm(tmp_path: Path) -> None:
    line = Line(
        1, "Stream #1", (kernel("a", 1, 1), Event("a", -(1 << 63), 1 << 62), Event("a", (1 << 63) - 1, (1 << 63) - 1)), begin_ns=1 << 62
    )
    file = tmp_path / "host.xplane.pb"
    file.write_bytes(space(Plane("/device:GPU:0", (line,)), HOST).replace(b"\x08\x01\x10", b"\x08\x63\x10", 1))
    try:
        aiflame.open(file).table("kernels")
    except AiflameError as error:
        assert "\n" not in str(error)


def test_damaged_copies_give_a_profile_or_a_sentence(tmp_path: Path) -> None:
    for number, copy in enumerate(damaged_copies(space(GPU, HOST, ENVIRONMENT), 100)):
        Whole("XPlane of JAX, XLA or TensorFlow", "gpu.xplane.pb", b"").survives(copy, tmp_path / f"gpu{number}")
    for number, copy in enumerate(damaged_copies(space(TPU, HOST), 100)):
        Whole("XPlane of JAX, XLA or TensorFlow", "tpu.xplane.pb", b"").survives(copy, tmp_path / f"tpu{number}")


def test_a_file_that_was_saved_as_text_is_refused(tmp_path: Path) -> None:
    data = (OWN / "jax0.10.2-cpu.xplane.pb").read_bytes()
    file = tmp_path / "text.xplane.pb"
    file.write_bytes(data.decode("utf-8", "replace").encode())
    with pytest.raises(AiflameError, match="is damaged"):
        imported(file)
