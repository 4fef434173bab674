"""The ops that XLA's kernels belong to, from the text of a compiled module."""

from __future__ import annotations

from aiflame.target.hlo_text import kernels

MODULE = """\
HloModule jit_f, is_scheduled=true, entry_computation_layout={(f32[64,64]{1,0}, f32[64,64]{1,0})->f32[64,64]{1,0}}

FileNames
1 "/home/me/train.py"

FunctionNames
1 "block"

FileLocations
1 {file_name_id=1 function_name_id=1 line=16 end_line=16 column=12 end_column=27}
2 {file_name_id=1 function_name_id=1 line=17 end_line=17 column=12 end_column=17}

StackFrames
1 {file_location_id=1 parent_frame_id=1}
2 {file_location_id=2 parent_frame_id=1}


%add.clone (a: f32[], b: f32[]) -> f32[] {
  %a = f32[] parameter(0)
  %b = f32[] parameter(1)
  ROOT %add.9 = f32[] add(%a, %b), metadata={op_name="jit(f)/reduce_sum" stack_frame_id=1}
}

%fused_computation.1 (param_0.4: f32[64,64], param_1: f32[64]) -> f32[64,64] {
  %param_0.4 = f32[64,64]{1,0} parameter(0)
  %param_1 = f32[64]{0} parameter(1)
  %constant.3 = f32[] constant(1), metadata={op_name="jit(f)"}
  %broadcast.5 = f32[64,64]{1,0} broadcast(%param_1), dimensions={1}, metadata={op_name="jit(f)/layers_0/norm/sub" stack_frame_id=1}
  %sub.4 = f32[64,64]{1,0} subtract(%param_0.4, %broadcast.5), metadata={op_name="jit(f)/jvp(layers_0)/norm/sub" stack_frame_id=1}
  %mul.8 = f32[64,64]{1,0} multiply(%sub.4, %sub.4), metadata={op_name="jit(f)/transpose(jvp(layers_0))/mlp/mul" stack_frame_id=2}
  ROOT %mul.9 = f32[64,64]{1,0} multiply(%mul.8, %sub.4), metadata={op_name="jit(f)/transpose(jvp(layers_0))/mlp/mul" stack_frame_id=2}
}

ENTRY %main.3 (x.1: f32[64,64], w.1: f32[64]) -> f32[64] {
  %x.1 = f32[64,64]{1,0} parameter(0), metadata={op_name="x"}
  %w.1 = f32[64]{0} parameter(1), metadata={op_name="w"}
  %subtract_multiply_fusion = f32[64,64]{1,0} fusion(%x.1, %w.1), kind=kLoop, calls=%fused_computation.1, metadata={op_name="jit(f)/mul"}
  %copy.1 = f32[64,64]{0,1} copy(%subtract_multiply_fusion)
  ROOT %reduce.2 = f32[64]{0} reduce(%copy.1, %w.1), dimensions={1}, to_apply=%add.clone, metadata={op_name="jit(f)/while/body/reduce_sum"}
}
"""

OLDER = """\
ENTRY main.9 {
  Arg_0.1 = bf16[8,16]{1,0} parameter(0)
  ROOT custom-call.2 = (bf16[8,8]{1,0}, s8[1024]{0}) custom-call(%Arg_0.1, %Arg_0.1), custom_call_target="__cublas$gemm", \
metadata={op_name="jit(step)/jit(main)/attn/dot_general[dims=(((1,), (0,)), ((), ()))]" source_file="/home/me/old.py" source_line=12}
}
"""


def test_a_fusion_has_the_ops_that_were_fused_and_no_other_kernel_has() -> None:
    ops_of_kernels = {kernel.name: kernel.ops for kernel in kernels(MODULE)}
    assert list(ops_of_kernels) == ["subtract_multiply_fusion", "reduce.2"]
    assert [(op["op"], op["layer"], op["line"], op["backward"]) for op in ops_of_kernels["subtract_multiply_fusion"]] == [
        ("jax::sub", "layers_0.norm", 16, False),
        ("jax::mul", "layers_0.mlp", 17, True),
    ]
    assert {op["file"] for op in ops_of_kernels["subtract_multiply_fusion"]} == {"/home/me/train.py"}
    assert {op["function"] for op in ops_of_kernels["subtract_multiply_fusion"]} == {"block"}


def test_an_op_counts_what_it_would_read_and_write_alone() -> None:
    sub, mul = next(kernel.ops for kernel in kernels(MODULE))
    square = 64 * 64 * 4
    assert sub["bytes"] == 3 * square  # two operands (one of them spread out by the fusion itself), one result
    assert mul["bytes"] == 2 * square  # mul.8 stays inside


def test_an_instruction_that_stands_alone_is_its_own_op() -> None:
    reduce = next(kernel.ops for kernel in kernels(MODULE) if kernel.name == "reduce.2")
    assert [(op["op"], op["layer"], op["bytes"]) for op in reduce] == [("jax::reduce_sum", "", 64 * 64 * 4 + 2 * 64 * 4)]


def test_files_and_lines_in_the_instruction_itself_as_older_versions_write_them() -> None:
    (kernel,) = kernels(OLDER)
    assert kernel.name == "custom-call.2"
    assert [(op["file"], op["line"], op["layer"]) for op in kernel.ops] == [("/home/me/old.py", 12, "attn")]
    assert kernel.ops[0]["op"] == "jax::dot_general"


def test_text_that_is_no_module_has_no_kernels() -> None:
    assert list(kernels("")) == []
    assert list(kernels("ENTRY %x {\n  nonsense\n %a = \n}\n")) == []
