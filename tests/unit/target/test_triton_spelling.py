"""How specializations of Triton kernels are spelled, and how loaded kernels are reported: on stand-ins for Triton's objects."""

from __future__ import annotations

import json
import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiflame.target import triton_names
from aiflame.target.triton_specialization import LONGEST, readable, specialization, suffixes


def source(
    name: str = "vadd", signature: dict[str, str] | None = None, attrs: object = None, module: str = "train", **constexprs: Any
) -> Any:
    """A stand-in for `triton.compiler.ASTSource`: constants by the path of the parameter's place."""
    signature = {"x": "*fp32", "n": "i32"} if signature is None else signature
    names = [*signature, *constexprs]
    function = SimpleNamespace(
        __name__=name,
        __module__=module,
        fn=SimpleNamespace(__code__=SimpleNamespace(co_filename="train.py", co_firstlineno=7)),
        params=[SimpleNamespace(name=one, is_constexpr=one in constexprs) for one in names],
    )
    constants = {(names.index(one),): value for one, value in constexprs.items()}
    return SimpleNamespace(fn=function, constants=constants, signature=signature, attrs=attrs or {})


def options(warps: int = 4, stages: int = 2, **more: Any) -> Any:
    return SimpleNamespace(num_warps=warps, num_stages=stages, num_ctas=1, **more)


def spelled(name: str = "k", warps: int = 4, stages: int = 2, ctas: int = 1, maxnreg: int | None = None, **constexprs: Any) -> str:
    settings = SimpleNamespace(num_warps=warps, num_stages=stages, num_ctas=ctas, maxnreg=maxnreg)
    specialized = specialization(source(name, **constexprs), settings)
    assert specialized is not None
    return readable(specialized)


class Dtype:
    def __str__(self) -> str:
        return "fp16"


def relu(x: float) -> float:
    return max(x, 0)


@pytest.mark.parametrize(
    ("constexprs", "expected"),
    [
        ({"BLOCK": 128}, "bs128"),
        ({"BLOCK_SIZE": 256}, "bs256"),
        ({"BLOCK_M": 128, "BLOCK_N": 64, "BLOCK_K": 32, "GROUP_M": 8}, "bm128_bn64_bk32_gm8"),
        ({"BLOCK_SIZE_M": 128}, "bsm128"),
        ({"HEAD_DIM": 64, "STAGE": 3}, "hd64_stage3"),
        ({"blockSize": 32}, "bs32"),
        ({"BLOCK_M1": 32, "BLOCK_M2": 16}, "bm1_32_bm2_16"),
        ({"N": 1024, "stride": 1}, "n1024_stride1"),
        ({"IS_CAUSAL": True, "EVEN_K": False}, "causal"),
        ({"ACTIVATION": "relu", "BIAS": None, "NAME": ""}, "relu"),
        ({"ACT": relu}, "relu"),
        ({"OUT_DTYPE": Dtype(), "DTYPE": Dtype()}, "outfp16_fp16"),
        ({"EPS": 1e-05, "SCALE": 0.5}, "eps1em05_scale0p5"),
        ({"AXIS": -1}, "axism1"),
        ({"SHAPE": (64, 32)}, "shape64x32"),
        ({"BLOCK_M": 16, "BIAS_MODE": 2}, "blm16_bimo2"),
        ({"W": 8, "S": 2}, "w8_s2"),
    ],
)
def test_constexprs_are_spelled_briefly(constexprs: dict[str, Any], expected: str) -> None:
    assert spelled(**constexprs) == f"k_{expected}_w4_s2"


def test_two_specializations_are_named_by_block_warps_and_stages() -> None:
    assert spelled("vadd", 4, 2, BLOCK=128) == "vadd_bs128_w4_s2"
    assert spelled("vadd", 8, 2, BLOCK=256) == "vadd_bs256_w8_s2"


def test_clusters_and_limits_of_registers_count_when_they_are_not_as_usual() -> None:
    assert spelled(ctas=2, maxnreg=128) == "k_w4_s2_c2_r128"


def test_long_lists_are_cut_with_a_hash_that_stays() -> None:
    many = {f"PARAMETER_{place}": place for place in range(40)}
    name = spelled("k" * 60, **many)
    assert len(name) <= LONGEST - 14 and name.endswith("_w4_s2")
    assert name == spelled("k" * 60, **many) != spelled("k" * 60, **{**many, "PARAMETER_39": 1})


values = st.one_of(
    st.integers(), st.booleans(), st.none(), st.text(max_size=40), st.floats(), st.tuples(st.integers(), st.integers()), st.just(relu)
)


@given(st.text(max_size=90), st.dictionaries(st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,20}", fullmatch=True), values, max_size=12))
def test_a_name_is_one_that_an_assembler_takes(name: str, constexprs: dict[str, Any]) -> None:
    constexprs = {key: value for key, value in constexprs.items() if key not in ("name", "signature", "attrs", "module", "x", "n")}
    specialized = specialization(source(name or "k", **constexprs), options())
    assert specialized is not None
    for text in (readable(specialized), *(f"{readable(specialized)}_{suffix}" for suffix in suffixes(specialized))):
        assert len(text) <= LONGEST and text.isascii() and text.replace("_", "a").isalnum(), text


def test_hidden_parts_are_in_the_suffixes() -> None:
    def of(*, divisible: bool = False, kind: str = "fp32") -> list[str]:
        attrs = {(1,): [["tt.divisibility", 16]]} if divisible else {}
        specialized = specialization(source(signature={"x": f"*{kind}", "n": "i32"}, attrs=attrs, BLOCK=128), options())
        assert specialized is not None and readable(specialized) == "vadd_bs128_w4_s2"
        return suffixes(specialized)

    assert of()[0] == of(divisible=True)[0] == "fp32" and of(kind="fp16")[0] == "fp16"
    assert len({of()[-1], of(divisible=True)[-1], of(kind="fp16")[-1]}) == 3
    assert of() == of()


# Loaded kernels


class Kernel:
    """A stand-in for `CompiledKernel`."""

    def __init__(self, of: Any, name: str = "vadd", settings: Any = None, loads: bool = True) -> None:
        self.src, self.name, self.metadata, self.hash = of, name, settings or options(), "abc"
        self.module: int | None = None
        self.function: int | None = None
        self.kernel = b"cubin"
        self.loads = loads

    def _init_handles(self) -> None:
        if self.module is None:
            if not self.loads:
                raise RuntimeError("out of resources")
            self.module, self.function = 1, 0x7000


Rows = list[tuple[int, str, str, dict[str, Any]]]


@pytest.fixture
def reported(monkeypatch: pytest.MonkeyPatch) -> Rows:
    """The rows in which the program's kernels are reported, once Triton is imported."""
    rows: Rows = []
    notes: list[str] = []
    bridge = ModuleType("_aiflame")
    bridge.__dict__.update(
        features=0, note=notes.append, variant=lambda at, name, read, text: rows.append((at, name, read, json.loads(text)))
    )
    monkeypatch.setitem(sys.modules, "_aiflame", bridge)
    compiler = SimpleNamespace(CompiledKernel=type("CompiledKernel", (Kernel,), {"_init_handles": Kernel._init_handles}), ASTSource=object)
    monkeypatch.setitem(sys.modules, "triton.compiler.compiler", compiler)
    triton_names.install(SimpleNamespace(__version__="3.6.0"))
    monkeypatch.setattr(sys.modules[__name__], "Loaded", compiler.CompiledKernel, raising=False)
    return rows


Loaded: Any = Kernel


def test_a_kernel_is_reported_once_when_it_is_loaded(reported: Rows) -> None:
    kernel = Loaded(source(BLOCK=128))
    assert reported == []
    kernel._init_handles()
    kernel._init_handles()
    ((at, name, read, details),) = reported
    assert (at, name, read) == (0x7000, "vadd", "vadd_bs128_w4_s2")
    assert details["constexprs"] == {"BLOCK": 128} and details["signature"] == {"x": "*fp32", "n": "i32"}
    assert (details["num_warps"], details["num_stages"], details["file"], details["line"]) == (4, 2, "train.py", 7)


def test_a_name_that_the_program_has_chosen_wins(reported: Rows) -> None:
    Loaded(source(BLOCK=128), name="mine")._init_handles()
    assert [(row[2], row[3]["suffixes"]) for row in reported] == [("mine", [])]


def test_kernels_of_inductor_are_left_alone(reported: Rows) -> None:
    Loaded(source("triton_poi_fused_add_0", module="torch._inductor.runtime.compile_tasks.cabc", XBLOCK=128))._init_handles()
    Loaded(None)._init_handles()
    assert reported == []


def test_a_kernel_that_cannot_be_loaded_fails_as_it_would_alone(reported: Rows) -> None:
    with pytest.raises(RuntimeError, match="out of resources"):
        Loaded(source(BLOCK=128), loads=False)._init_handles()
    assert reported == []


def test_a_kernel_that_cannot_be_named_runs_and_is_noted(reported: Rows) -> None:
    kernel = Loaded(source(BLOCK=128))
    kernel.src.signature = None
    kernel._init_handles()
    assert kernel.function == 0x7000 and reported == []


def test_another_recording_gets_the_kernels_loaded_before(reported: Rows) -> None:
    kernel = Loaded(source(BLOCK=128))
    kernel._init_handles()
    reported.clear()
    triton_names.recording_began()
    assert [row[:3] for row in reported] == [(0x7000, "vadd", "vadd_bs128_w4_s2")]


def test_a_triton_that_loads_in_another_way_is_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "triton.compiler.compiler", SimpleNamespace())
    with pytest.raises(RuntimeError, match="keep their names"):
        triton_names.install(SimpleNamespace(__version__="9.0"))
