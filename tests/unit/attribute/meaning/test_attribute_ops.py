"""The op that a stack belongs to. The names of functions are those that a recording of torch 2.13 has."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from profiles import Row, native, python, sealed

from aiflame.attribute.meaning.op_names import op_of_node, op_of_symbol, same_op
from aiflame.attribute.meaning.ops import StackOps, Where, ops
from aiflame.attribute.tree import Kind
from aiflame.profile.schema.enums import FrameKind

TORCH = "/venv/lib/python3.11/site-packages/torch/"
LAYER = "layer"
CALL = "at::_ops::{}::call"
NODE_CALL = ["torch::autograd::Engine::evaluate_function", "torch::autograd::Node::operator()"]

Function = str | tuple[str, str]
"""A native function; or a Python function with its file; or LAYER."""


def found(path: Path, *stack: Function, modules: dict[str, str] | None = None, full: dict[str, str] | None = None) -> StackOps:
    """One stack, outermost function first."""
    rows: list[Row] = []
    symbols: list[Row] = []
    for place, function in enumerate(stack, 1):
        if function == LAYER:
            rows.append({"parent": place - 1, "frame": FrameKind.LAYER << 60 | 1})
            continue
        frame = python(place, 8) if isinstance(function, tuple) else native(1, 0x100 * place)
        name, file = function if isinstance(function, tuple) else (function, "")
        rows.append({"parent": place - 1, "frame": frame})
        constants = {"process": 0, "depth": 0, "line": 0, "offset": 0, "approximate": False, "full_name": (full or {}).get(name, "")}
        kind = Kind.PYTHON if isinstance(function, tuple) else Kind.CPP
        module = "" if isinstance(function, tuple) else (modules or {}).get(name, "libtorch_cpu.so")
        symbols.append({**constants, "frame": frame, "name": name, "kind": int(kind), "module": module, "file": file})
    return ops(sealed(path / "p.aiflame", None, stacks=rows, symbols=symbols))


def op(path: Path, *stack: Function, **more: dict[str, str]) -> str:
    of = found(path, *stack, **more)
    return of.names[of.op[-1]]


def test_the_innermost_op_is_the_op_and_the_outermost_was_called(tmp_path: Path) -> None:
    stack: list[Function] = [
        ("train", "/app/train.py"),
        CALL.format("linear"),
        CALL.format("addmm"),
        "at::_ops::addmm::redispatch",
        "sgemm",
    ]
    of = found(tmp_path, *stack)
    assert (of.names[of.op[-1]], of.names[of.called[-1]]) == ("aten::addmm", "aten::linear")


def test_called_is_the_function_that_the_innermost_python_function_called(tmp_path: Path) -> None:
    stack: list[Function] = [CALL.format("outer"), ("kernel", "/app/ops.py"), CALL.format("linear"), CALL.format("addmm")]
    of = found(tmp_path, *stack)
    assert of.names[of.called[-1]] == "aten::linear"


def test_code_without_an_op_has_none(tmp_path: Path) -> None:
    of = found(tmp_path, ("train", "/app/train.py"), "main")
    assert (of.names[0], of.op.tolist(), of.called.tolist(), of.node.tolist()) == ("", [0, 0], [0, 0], [0, 0])


@pytest.mark.parametrize(
    ("symbol", "name"),
    [
        ("addmm", "addmm"),
        ("add_Tensor", "add"),
        ("add__Tensor", "add_"),
        ("sum_dim_IntList", "sum"),
        ("mul_out", "mul"),
        ("log_softmax_int", "log_softmax"),
        ("_log_softmax_backward_data", "_log_softmax_backward_data"),
        ("_foreach_addcdiv__ScalarList", "_foreach_addcdiv_"),
        ("_fused_adamw_", "_fused_adamw_"),
        ("_fused_adamw__tensor_lr", "_fused_adamw_"),
        ("split_with_sizes", "split_with_sizes"),
        ("index_select", "index_select"),
        ("empty_memory_format", "empty"),
        ("_sparse_coo_tensor_with_dims_out", "_sparse_coo_tensor_with_dims"),
        ("op_of_tomorrow", "op_of_tomorrow"),
    ],
)
def test_overloads_are_dropped(symbol: str, name: str) -> None:
    assert op_of_symbol(symbol) == f"aten::{name}"


@pytest.mark.parametrize(
    ("node", "name"),
    [
        ("AddmmBackward0", "aten::addmm"),
        ("NativeLayerNormBackward0", "aten::native_layer_norm"),
        ("ScaledDotProductEfficientAttentionBackward0", "aten::_scaled_dot_product_efficient_attention"),
        ("ScaledDotProductFlashAttentionForCpuBackward0", "aten::_scaled_dot_product_flash_attention_for_cpu"),
        ("ViewBackward0", "aten::view"),
        ("UnsafeViewBackward0", "aten::_unsafe_view"),
        ("TBackward0", "aten::t"),
        ("UpsampleNearest2DBackward0", "aten::upsample_nearest2d"),
        ("MaxPool2DWithIndicesBackward0", "aten::max_pool2d_with_indices"),
        ("Log1PBackward0", "aten::log1p"),
        ("LogSoftmaxBackward0", "aten::_log_softmax"),
        ("GridSampler2DBackward0", "aten::grid_sampler_2d"),
        ("SumBackwardAutogradNestedTensor1", "aten::sum"),
        ("ForeachMulBackward1", "aten::_foreach_mul"),
        ("GeluBackwardBackward0", "aten::gelu_backward"),
        ("CopyBackwards", "aten::copy_"),
        ("AccumulateGrad", "AccumulateGrad"),
    ],
)
def test_nodes_name_the_op_that_made_them(node: str, name: str) -> None:
    assert op_of_node(node) == name


def test_an_op_is_the_same_as_its_in_place_form() -> None:
    assert same_op("aten::add_") == same_op("aten::add") != same_op("aten::addmm")


def test_in_a_node_the_running_op_counts_and_the_node_names_the_forward_op(tmp_path: Path) -> None:
    node = ["torch::autograd::generated::AddmmBackward0::apply", "torch::autograd::generated::AddmmBackward0_apply_functional"]
    of = found(tmp_path, *NODE_CALL, *node, CALL.format("mm"), "sgemm")
    assert (of.names[of.op[-1]], of.names[of.node[-1]], of.where[-1]) == ("aten::mm", "aten::addmm", Where.NODE)


def test_between_nodes_the_engine_runs(tmp_path: Path) -> None:
    of = found(tmp_path, "torch::autograd::Engine::thread_main", CALL.format("add_Tensor"))
    assert (of.names[of.op[-1]], of.node[-1], of.where[-1]) == ("aten::add", 0, Where.ENGINE)


def test_modules_called_in_a_node_are_recomputed_and_have_ops_of_their_own(tmp_path: Path) -> None:
    of = found(tmp_path, LAYER, *NODE_CALL, "torch::autograd::PyNode::apply", LAYER, CALL.format("addmm"))
    assert of.where.tolist() == [Where.FORWARD, Where.ENGINE, Where.NODE, Where.NODE, Where.RECOMPUTED, Where.RECOMPUTED]
    assert (of.names[of.op[-1]], of.node[-1]) == ("aten::addmm", 0)


def test_a_module_called_inside_of_an_op_is_none_of_its_work(tmp_path: Path) -> None:
    assert op(tmp_path, CALL.format("outer"), LAYER, ("forward", "/app/model.py")) == ""


def test_functions_written_in_python_are_called_by_their_class(tmp_path: Path) -> None:
    stack: list[Function] = [
        ("Function.apply", TORCH + "autograd/function.py"),
        "THPFunction_apply",
        ("make.<locals>.MyFn.forward", "/app/model.py"),
    ]
    assert op(tmp_path, *stack, "launch") == "MyFn"
    assert op(tmp_path / "op", *stack, CALL.format("sin")) == "aten::sin"


def test_the_node_of_such_a_function_too(tmp_path: Path) -> None:
    stack: list[Function] = ["torch::autograd::PyNode::apply", ("BackwardCFunction.apply", TORCH + "autograd/function.py")]
    once = ("once_differentiable.<locals>.wrapper", TORCH + "autograd/function.py")
    of = found(tmp_path, *NODE_CALL, *stack, once, ("MyFn.backward", "/app/model.py"), CALL.format("cos"))
    assert (of.names[of.op[-1]], of.names[of.node[-1]]) == ("aten::cos", "MyFn")


def test_functions_and_nodes_of_cpp_have_their_class_in_the_full_name(tmp_path: Path) -> None:
    node = "torch::autograd::CppNode::apply"
    full = {node: "torch::autograd::CppNode<mine::MyFn>::apply(std::vector<at::Tensor>&&)"}
    of = found(tmp_path, *NODE_CALL, node, full=full)
    assert of.names[of.node[-1]] == "MyFn"
    apply = "torch::autograd::Function::apply"
    assert (
        op(tmp_path / "fn", apply, full={apply: "std::enable_if_t<x> torch::autograd::Function<mine::MyFn>::apply<mine::MyFn>()"}) == "MyFn"
    )


def test_custom_ops_are_called_by_their_function(tmp_path: Path) -> None:
    stack: list[Function] = [
        ("CustomOpDef.__call__", TORCH + "_library/custom_ops.py"),
        ("OpOverload.__call__", TORCH + "_ops.py"),
        "c10::Dispatcher::callBoxed",
    ]
    kernel = ("CustomOpDef.register_kernel.<locals>.inner.<locals>.backend_impl", TORCH + "_library/custom_ops.py")
    callers = [("inner", TORCH + "_compile.py"), ("slow_sin", "/app/ops.py")]
    assert op(tmp_path, ("train", "/app/train.py"), *stack, kernel, *callers, ("helper", "/app/helpers.py"), "sin") == "slow_sin"


def test_imports_within_an_op_are_none_of_its_work(tmp_path: Path) -> None:
    stack = [("OpOverload.__call__", TORCH + "_ops.py"), ("slow_sin", "/app/ops.py"), ("_find_and_load", "<frozen importlib._bootstrap>")]
    assert op(tmp_path, *stack, ("<module>", "/app/other.py")) == ""


def test_ops_of_other_libraries_are_called_by_their_kernel(tmp_path: Path) -> None:
    functor = "c10::impl::make_boxed_from_unboxed_functor::call"
    modules = {functor: "libmine.so", "vision::ops::nms_kernel": "libmine.so"}
    assert op(tmp_path, functor, "vision::ops::nms_kernel", "sort", modules=modules) == "vision::ops::nms_kernel"
    assert op(tmp_path / "own", functor, "at::native::mm") == ""


def test_a_boxed_call_of_torchs_own_kernel_has_the_kernels_name(tmp_path: Path) -> None:
    assert op(tmp_path, "c10::Dispatcher::callBoxed", "at::wrapper_CUDA__softmax", "softmax") == "aten::_softmax"
    assert op(tmp_path / "out", CALL.format("mul_out"), "at::wrapper_CPU_mul_out_out") == "aten::mul"


def test_compiled_graphs_are_one_op_but_for_those_they_call(tmp_path: Path) -> None:
    graph = ("call", "/tmp/torchinductor_me/ab/cab.py")
    assert op(tmp_path, graph, "cuLaunchKernel") == "[compiled]"
    assert op(tmp_path / "mm", graph, CALL.format("mm_out")) == "aten::mm"


def test_stacks_that_the_profile_lacks_have_no_op(tmp_path: Path) -> None:
    of = found(tmp_path, CALL.format("addmm"))
    assert of.of_stacks(np.array([0, 0, 3]), np.array([1, 2, 1])).tolist() == [of.op[0], 0, 0]
    assert of.op[0] > 0
