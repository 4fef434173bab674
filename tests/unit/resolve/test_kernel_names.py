"""Kernel names as a person reads them. Real ones: as profilers of torch, vLLM and others show them, and as compilers mangle them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiflame.resolve.device.kernel_names import LONGEST, LONGEST_PLAIN, full_name, short_name
from aiflame.resolve.names.cpp_types import path_of, split

# fmt: off
# ruff: noqa: E501
NAMES = [
    ("void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<c10::BFloat16>, std::array<char*, 3ul> >(int, at::native::CUDAFunctor_add<c10::BFloat16>, std::array<char*, 3ul>)", "vectorized_elementwise<CUDAFunctor_add<BFloat16>>"),
    ("_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_15CUDAFunctor_addIN3c108BFloat16EEESt5arrayIPcLm3EEEEviT0_T1_", "vectorized_elementwise<CUDAFunctor_add<BFloat16>>"),
    ("void at::native::vectorized_elementwise_kernel<4, at::native::compare_scalar_kernel<int>(at::TensorIteratorBase&, at::native::(anonymous namespace)::OpType, int)::{lambda(int)#1}, std::array<char*, 2ul> >", "vectorized_elementwise<compare_scalar<int>>"),
    ("void at::native::elementwise_kernel<128, 4, at::native::gpu_kernel_impl_nocast<at::native::BinaryFunctor<c10::BFloat16, c10::BFloat16, c10::BFloat16, at::native::binary_internal::MulFunctor<float> > >(at::TensorIteratorBase&, at::native::BinaryFunctor<c10::BFloat16, c10::BFloat16, c10::BFloat16, at::native::binary_internal::MulFunctor<float> > const&)::{lambda(int)#1}>", "elementwise<MulFunctor<float>>"),
    ("void at::native::elementwise_kernel<128, 4, at::native::gpu_kernel_impl_nocast<at::native::(anonymous namespace)::silu_kernel(at::TensorIteratorBase&)::{lambda()#1}::operator()() const::{lambda()#6}::operator()() const::{lambda(c10::BFloat16)#1}>(at::TensorIteratorBase&, at::native::(anonymous namespace)::silu_kernel(at::TensorIteratorBase&)::{lambda()#1}::operator()() const::{lambda()#6}::operator()() const::{lambda(c10::BFloat16)#1} const&)::{lambda(int)#1}>(int, at::native::gpu_kernel_impl_nocast<at::native::(anonymous namespace)::silu_kernel(at::TensorIteratorBase&)::{lambda()#1}>)", "elementwise<silu<BFloat16>>"),
    ("void at::native::unrolled_elementwise_kernel<at::native::direct_copy_kernel_cuda(at::TensorIteratorBase&)::{lambda()#3}::operator()() const::{lambda()#12}::operator()() const::{lambda(c10::BFloat16)#1}, std::array<char*, 2ul>, 4, TrivialOffsetCalculator<1, unsigned int>, TrivialOffsetCalculator<1, unsigned int>, at::native::memory::LoadWithCast<1>, at::native::memory::StoreWithCast<1> >(int, ...)", "unrolled_elementwise<direct_copy<BFloat16>>"),
    ("void at::native::unrolled_elementwise_kernel<at::native::CUDAFunctor_add<int>, std::array<char*, 3ul>, 4, TrivialOffsetCalculator<2, unsigned int>, TrivialOffsetCalculator<1, unsigned int>, at::native::memory::LoadWithoutCast, at::native::memory::StoreWithoutCast>(int, at::native::CUDAFunctor_add<int>) [clone .kd]", "unrolled_elementwise<CUDAFunctor_add<int>>"),
    ("void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, at::native::func_wrapper_t<float, at::native::sum_functor<float, float, float>::operator()(at::TensorIterator&)::{lambda(float, float)#1}>, unsigned int, float, 4, 4> >(at::native::ReduceOp<float>)", "reduce<sum_functor<float>>"),
    ("void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, at::native::MeanOps<float, float, float, float>, unsigned int, float, 4, 4> >(at::native::ReduceOp<float>)", "reduce<MeanOps<float>>"),
    ("void at::native::reduce_kernel<512, 1, at::native::ReduceOp<c10::BFloat16, at::native::NormTwoOps<c10::BFloat16, float, c10::BFloat16>, unsigned int, c10::BFloat16, 4, 4> >(at::native::ReduceOp<c10::BFloat16>)", "reduce<NormTwoOps<BFloat16,float>>"),
    ("void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, at::native::ArgMaxOps<float>, unsigned int, long, 4, 4> >(x)", "reduce<ArgMaxOps<float>>"),
    ("void at::native::index_elementwise_kernel<128, 4, at::native::gpu_index_kernel<at::native::index_kernel_impl<at::native::OpaqueType<2> >(at::TensorIteratorBase&, c10::ArrayRef<long>, c10::ArrayRef<long>)::{lambda(char*, char const*, long)#1}>(at::TensorIteratorBase&, c10::ArrayRef<long>, c10::ArrayRef<long>)::{lambda(int)#1}>(long)", "index_elementwise<index<OpaqueType<2>>>"),
    ("void at::native::(anonymous namespace)::CatArrayBatchedCopy_contig<at::native::(anonymous namespace)::OpaqueType<4u>, unsigned int, 2, 128, 1>(at::native::(anonymous namespace)::OpaqueType<4u>*)", "CatArrayBatchedCopy_contig<OpaqueType<4>,uint,2,128,1>"),
    ("void at::native::(anonymous namespace)::multi_tensor_apply_kernel<at::native::(anonymous namespace)::FusedOptimizerTensorListMetadata<4>, at::native::(anonymous namespace)::FusedAdamMathFunctor<float, 4, (at::native::ADAM_MODE)1, false>, float const*, double, double, double, double, double, bool, float*, float*, (at::native::ADAM_MODE)1>(int)", "multi_tensor_apply<FusedAdamMathFunctor<float,4>>"),
    ("void at::native::(anonymous namespace)::multi_tensor_apply_kernel<at::native::(anonymous namespace)::TensorListMetadata<2>, at::native::(anonymous namespace)::BinaryOpListAlphaFunctor<c10::BFloat16, 2, 2, 0>, std::plus<float>, float>(int)", "multi_tensor_apply<BinaryOpListAlphaFunctor<BFloat16,2,2,0>>"),
    ("void at::native::(anonymous namespace)::vectorized_layer_norm_kernel<c10::BFloat16, float, false>(int, float, c10::BFloat16 const*, c10::BFloat16 const*, c10::BFloat16 const*, float*, float*, c10::BFloat16*)", "vectorized_layer_norm<BFloat16,float>"),
    ("_ZN2at6native12_GLOBAL__N_128vectorized_layer_norm_kernelIN3c108BFloat16EfLb1EEEviT0_PKT_S8_S8_PS5_S9_PS6_", "vectorized_layer_norm<BFloat16,float>"),
    ("_ZN2at6native53_GLOBAL__N__87a90936_20_layer_norm_kernel_cu_3ff0b71f28layer_norm_grad_input_kernelIfffEEvPKT_", "layer_norm_grad_input<float>"),
    ("void (anonymous namespace)::softmax_warp_forward<float, float, float, 10, false, false>(float*, float const*, int, int, int, bool const*, int, bool)", "softmax_warp_forward<float,10>"),
    ("void at::native::(anonymous namespace)::cunn_SoftMaxForward<8, c10::BFloat16, float, c10::BFloat16, at::native::(anonymous namespace)::SoftMaxForwardEpilogue>(c10::BFloat16*, c10::BFloat16 const*, int)", "cunn_SoftMaxForward<8,BFloat16,float,SoftMaxForwardEpilogue>"),
    ("void flash_fwd_kernel<Flash_fwd_kernel_traits<64, 128, 128, 4, false, false, cutlass::bfloat16_t, Flash_kernel_traits<64, 128, 128, 4, cutlass::bfloat16_t> >, false, true, false, false, true, true, false, false>(Flash_fwd_params)", "flash_fwd<64,128>"),
    ("void pytorch_flash::flash_bwd_dq_dk_dv_loop_seqk_parallel_kernel<Flash_bwd_kernel_traits<64, 64, 128, 8, 2, 4, 4, false, false, cutlass::bfloat16_t, Flash_kernel_traits<64, 64, 128, 8, cutlass::bfloat16_t> >, false, true, false, false, true, true, false>(Flash_bwd_params)", "flash_bwd_dq_dk_dv_loop_seqk_parallel<64,64>"),
    ("void cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm_relu_bf16_256x128_32x3_nn_align8>(cutlass_80_tensorop_bf16_s16816gemm_relu_bf16_256x128_32x3_nn_align8::Params)", "gemm bf16 256x128x32 nn relu (cutlass)"),
    ("_ZN7cutlass7Kernel2I43cutlass_80_simt_sgemm_256x128_8x4_nn_align1EEvNT_6ParamsE", "gemm fp32 256x128x8 nn (cutlass)"),
    ("void cutlass::device_kernel<flash::enable_sm90_or_later<flash::FlashAttnFwdSm90<flash::CollectiveMainloopFwdSm90<2, cute::tuple<cute::C<1>, cute::C<1>, cute::C<1> >, cute::tuple<cute::C<128>, cute::C<80>, cute::C<256> >, 256, cutlass::bfloat16_t, float, cutlass::arch::Sm90, false, false> > > >(flash::enable_sm90_or_later<flash::FlashAttnFwdSm90<int> >::Params)", "FlashAttnFwdSm90<CollectiveMainloopFwdSm90<2,…>>"),
    ("void cutlass::device_kernel<flash::FlashAttnFwdCombine<cute::tuple<cute::C<8>, cute::C<64> >, 5, 256, 1, false, false, cutlass::bfloat16_t, float, cutlass::arch::Sm90> >(int)", "FlashAttnFwdCombine<tuple<C>,5,…>"),
    ("nvjet_tst_256x128_64x4_1x2_h_bz_coopA_NNT", "gemm bf16 256x128x64 NNT (nvjet)"),
    ("nvjet_sm100_tst_64x16_64x16_2x2_2cta_h_bz_TNT", "gemm bf16 64x16x64 TNT (nvjet)"),
    ("ampere_fp16_s16816gemm_fp16_64x64_sliced1x2_ldg8_f2f_stages_64x5_tn", "gemm fp16 64x64x64 tn (ampere)"),
    ("sm80_xmma_gemm_f32f32_f32f32_f32_tn_n_tilesize128x128x8_stage3_warpsize2x2x1_ffma_aligna4_alignc4_execute_kernel__5x_cublas", "gemm fp32 128x128x8 tn (xmma)"),
    ("void splitKreduce_kernel<__half, __half, float>(cublasSplitKParams<float>, __half const*)", "splitKreduce<half,float>"),
    ("void cublasLt::splitKreduce_kernel<32, 16, int, float, __nv_bfloat16, float, __nv_bfloat16, false, __nv_bfloat16, __nv_bfloat16, __nv_bfloat16, true, true, false>(cublasLt::cublasSplitKParams<float>)", "cublasLt::splitKreduce_kernel<32,16,int,float,bfloat16>"),
    ("std::enable_if<!(false), void>::type internal::gemvx::kernel<int, int, __nv_bfloat16, __nv_bfloat16, __nv_bfloat16, float, false, true, true, false, 7, false, cublasGemvParamsEx<int, cublasGemvTensorStridedBatched<__nv_bfloat16 const>, cublasGemvTensorStridedBatched<__nv_bfloat16 const>, cublasGemvTensorStridedBatched<__nv_bfloat16>, float> >(cublasGemvParamsEx<int>)", "gemvx::kernel<int,bfloat16,float,7,…>"),
    ("void cudnn::bn_fw_tr_1C11_kernel_NCHW<float, float, int, 512, true, 1, true>(cudnnTensorStruct, float const*)", "cudnn::bn_fw_tr_1C11_kernel_NCHW<float,int,512,1>"),
    ("void cudnn::engines_precompiled::nchwToNhwcKernel<__half, __half, float, false, true, (cudnnKernelDataType_t)0>(cudnn::engines_precompiled::nchw2nhwc_params_t<float>)", "cudnn::nchwToNhwcKernel<half,float>"),
    ("void at_cuda_detail::cub::DeviceScanKernel<at_cuda_detail::cub::DeviceScanPolicy<int, std::plus<int> >::Policy600, int const*, int*, at_cuda_detail::cub::ScanTileState<int, true>, std::plus<int>, at_cuda_detail::cub::NullType, int, int, false, at_cuda_detail::cub::NullType>(int const*)", "cub::DeviceScanKernel<int*,ScanTileState<int>,plus<int>,…>"),
    ("void cub::CUB_200200_800_900_NS::DeviceReduceSingleTileKernel<cub::CUB_200200_800_900_NS::DeviceReducePolicy<float, unsigned int, cub::CUB_200200_800_900_NS::Sum>::Policy600, float*, float*, int, cub::CUB_200200_800_900_NS::Sum, float, float, cuda::std::__4::__identity>(float*)", "cub::DeviceReduceSingleTileKernel<float*,int,Sum,float,…>"),
    ("void thrust::cuda_cub::core::_kernel_agent<thrust::cuda_cub::__parallel_for::ParallelForAgent<thrust::cuda_cub::__uninitialized_fill::functor<thrust::device_ptr<float>, float>, unsigned long>, thrust::cuda_cub::__uninitialized_fill::functor<thrust::device_ptr<float>, float>, unsigned long>(int)", "thrust::_kernel_agent<ParallelForAgent<functor,ulong>>"),
    ("ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)", "ncclDevKernel_AllReduce_Sum_bf16_RING_LL"),
    ("_Z40ncclDevKernel_AllReduce_Sum_bf16_RING_LL24ncclDevKernelArgsStorageILm4096EE", "ncclDevKernel_AllReduce_Sum_bf16_RING_LL"),
    ("triton_poi_fused__to_copy_add_mul_native_layer_norm_12", "triton_poi_fused__to_copy_add_mul_native_layer_norm_12"),
    ("_attn_fwd", "_attn_fwd"),
    ("void at::native::(anonymous namespace)::upsample_nearest2d_nhwc_out_frame<c10::BFloat16, &at::native::nearest_neighbor_exact_compute_source_index>(c10::BFloat16 const*, c10::BFloat16*, unsigned long)", "upsample_nearest2d_nhwc_out_frame<BFloat16,…>"),
    ("void at::native::mbtopk::gatherTopK<float, unsigned int, 2>(at::cuda::detail::TensorInfo<float const, unsigned int>, unsigned int)", "gatherTopK<float,uint,2>"),
    ("void vllm::cross_device_reduce_1stage<__nv_bfloat16, 2>(vllm::RankData*, vllm::RankSignals)", "cross_device_reduce_1stage<bfloat16,2>"),
    ("void vllm::act_and_mul_kernel<c10::BFloat16, &(c10::BFloat16 vllm::silu_kernel<c10::BFloat16>(c10::BFloat16 const&)), true>(c10::BFloat16*)", "act_and_mul<BFloat16,silu>"),
    ("void flashinfer::norm::RMSNormKernel<8u, __nv_bfloat16>(__nv_bfloat16*)", "RMSNormKernel<8,bfloat16>"),
    ("void at::native::vectorized_elementwise_kernel<4, __nv_hdl_wrapper_t<false, true, false, __nv_dl_tag<void (*)(at::TensorIteratorBase&), &at::native::sigmoid_kernel_cuda, 2u>, float (float)>, std::array<char*, 2ul> >(int)", "vectorized_elementwise<sigmoid<float>>"),
    ("void at::native::vectorized_elementwise_kernel<4, at::native::BUnaryFunctor<float, float, float, at::native::binary_internal::MulFunctor<float> >, std::array<char*, 2ul> >(int)", "vectorized_elementwise<MulFunctor<float>>"),
    ("void at::native::vectorized_elementwise_kernel<4, at::native::(anonymous namespace)::where_kernel_impl(at::TensorIterator&)::{lambda()#1}::operator()() const::{lambda()#8}::operator()() const::{lambda(bool, float, float)#1}, std::array<char*, 4ul> >(int)", "vectorized_elementwise<where<float>>"),
    ("void at::native::vectorized_gather_kernel<16, long>(char*, char*, long*, int, long, long, long, long, bool)", "vectorized_gather<16,long>"),
    ("void at::native::(anonymous namespace)::distribution_elementwise_grid_stride_kernel<float, 4, at::native::templates::cuda::normal_and_transform<float, float, at::CUDAGeneratorImpl*, at::native::templates::cuda::normal_kernel<at::CUDAGeneratorImpl*>(at::TensorBase const&, double, double, at::CUDAGeneratorImpl*)::{lambda()#1}::operator()() const::{lambda()#2}::operator()() const::{lambda(float)#1}>(at::TensorIteratorBase&)::{lambda(curandStatePhilox4_32_10*)#2}, int>(int)", "distribution_elementwise_grid_stride<normal_and_transform>"),
    ("fmha_cutlassF_bf16_aligned_64x128_rf_sm80(PyTorchMemEffAttention::AttentionKernel<cutlass::bfloat16_t, cutlass::arch::Sm80, true, 64, 128, 128, true, true>::Params)", "fmha_cutlassF_bf16_aligned_64x128_rf_sm80"),
    ("void at::native::vectorized_elementwise_kernel<8, at::native::bfloat16_copy_kernel_cuda(at::TensorIteratorBase&)::{lambda(float)#1}, std::array<char*, 2ul> >(int)", "vectorized_elementwise<bfloat16_copy<float>>"),
    ("void gemmSN_TN_kernel<float, 128, 16, 2, 4, 4, 4, true, cublasGemvTensorStridedBatched<float const>, cublasGemvTensorStridedBatched<float> >(cublasGemmSmallNParams<float>)", "gemmSN_TN<float,128,16,2,4,4,4,…>"),
    ("void dot_kernel<float, 128, 0, cublasDotParams<cublasGemvTensor<float const>, cublasGemvTensorStridedBatched<float> > >(cublasDotParams<x>)", "dot<float,128,0,…>"),
    ("void transformer_engine::(anonymous namespace)::rmsnorm_fwd_tuned_kernel<transformer_engine::normalization::Kernel_traits<__nv_bfloat16, __nv_bfloat16, __nv_bfloat16, float, unsigned int, 4096u, 1u, 1u, 4u, 16u> >(int)", "rmsnorm_fwd_tuned<Kernel_traits<bfloat16,float,…>>"),
    ("_ZN2at6native27unrolled_elementwise_kernelIZZZNS0_15add_kernel_cudaERNS_14TensorIteratorEN3c106ScalarEENKUlvE_clEvENKUlvE8_clEvEUlNS4_4HalfES8_E_NS_6detail5ArrayIPcLi3EEE16OffsetCalculatorILi2EjESE_ILi1EjENS0_6memory15LoadWithoutCastENSH_16StoreWithoutCastEEEviT_T0_T1_T2_T3_T4_", "unrolled_elementwise<add<Half>>"),
    ("_ZN2at6native18elementwise_kernelILi128ELi4EZNS0_22gpu_kernel_impl_nocastIZZZNS0_38_GLOBAL__N__8ce91443_6_lam_cu_2bc927e111silu_kernelER18TensorIteratorBaseENKUlvE_clEvENKUlvE_clEvEUlfE_EEvS5_RKT_EUliE_EEviT1_", "elementwise<silu<float>>"),
    ("_ZN2at6native38_GLOBAL__N__8ce91443_6_lam_cu_2bc927e120softmax_warp_forwardIfEEvPT_", "softmax_warp_forward<float>"),
    ("_ZN7cutlass13device_kernelIN5flash20enable_sm90_or_laterINS1_16FlashAttnFwdSm90INS1_25CollectiveMainloopFwdSm90ILi2EN4cute5tupleIJNS5_1CILi1EEES8_S8_EEENS6_IJNS7_ILi128EEENS7_ILi80EEENS7_ILi256EEEEEELi256ENS_10bfloat16_tEfNS_4arch4Sm90ELb0ELb0EEEEEEEEEvNT_6ParamsE", "FlashAttnFwdSm90<128,80,256,bfloat16_t,Sm90>"),
    ("_ZN7cutlass13device_kernelIN49_GLOBAL__N__8bf0e19b_16_scaled_mm_c3x_cu_2bec3df915cutlass_3x_gemmIaNS_6half_tENS1_14ScaledEpilogueEN4cute5tupleIJNS5_1CILi64EEENS7_ILi128EEES9_EEENS6_IJNS7_ILi2EEENS7_ILi1EEESC_EEENS_4gemm32KernelTmaWarpSpecializedPingpongENS_8epilogue18TmaWarpSpecializedEE10GemmKernelEEEvNT_6ParamsE", "ScaledEpilogue<half_t,64,128,…>"),
]
# fmt: on


@pytest.mark.parametrize(("name", "short"), NAMES, ids=[short for _, short in NAMES])
def test_the_important_parts_of_a_name_remain(name: str, short: str):
    assert short_name(name) == short


@pytest.mark.parametrize("name", [name for name, _ in NAMES])
def test_a_short_name_is_short(name: str):
    short = short_name(name)
    assert len(short) <= (LONGEST_PLAIN if short.isidentifier() or "…" in short else LONGEST)


def test_kernels_on_different_types_have_different_names():
    names = [f"void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<{kind}>, x>(int)" for kind in KINDS]
    assert len({short_name(name) for name in names}) == len(KINDS)


KINDS = [
    "float",
    "double",
    "c10::Half",
    "c10::BFloat16",
    "int",
    "long",
    "bool",
    "c10::complex<float>",
    "c10::complex<double>",
    "unsigned char",
]


def test_the_full_name_is_demangled():
    assert full_name("_ZN2at6native6squareIfEEvT_") == "void at::native::square<float>(float)"
    assert full_name("_attn_fwd") == "_attn_fwd"


@pytest.mark.parametrize("name", ["a", "b", "i", "Pf", "St"])
def test_a_name_that_stands_for_a_type_in_mangled_names_is_itself(name: str):
    assert (short_name(name), full_name(name)) == (name, name)


def test_a_type_whose_name_ends_in_operator_is_no_operator():
    assert short_name("void tabulate_kernel<int, transparent_binary_operator<std::plus<void> >, long>(int*, long)").startswith("tabulate<")


def test_a_function_inside_a_kernel_has_its_own_name():
    assert short_name("$outer$_Z9slow_partfi") == "slow_part"
    assert full_name("$outer$_Z9slow_partfi") == "slow_part(float, int)"


def test_a_name_beyond_the_demangler_is_read_for_its_parts():
    """libstdc++'s gives up after a thousand letters; this is how one of two thousand begins."""
    name = (
        "_ZN7cutlass13device_kernelINS_4gemm6kernel13GemmUniversalIN4cute5tupleIJiiiiEEENS1_10collective13CollectiveMmaI"
        "NS1_35MainloopSm100TmaUmmaWarpSpecializedILi13ELi2ELi4ENS5_IJNS4_1CILi1EEENSA_ILi4EEESB_EEEEE"
        "NS5_IJNSA_ILi64EEESF_NSA_ILi128EEEEEE" + "NS4_8TiledMMAINS4_8MMA_AtomIJfEEEEE" * 30
    )
    assert len(name) > 1024
    assert short_name(name) == "GemmUniversal<MainloopSm100TmaUmmaWarpSpecialized,64,128,…>"
    assert short_name(name[:400]) == short_name(name), "even when it is cut"


@pytest.mark.parametrize(
    "name",
    [
        "",
        " ",
        "<" * 10000,
        ">" * 10000,
        "a<" * 5000,
        "<" * 5000 + ">" * 5000,
        "f<" + "a," * 5000 + ">",
        "{lambda(" * 1200,
        "_Z" + "N" * 10000,
        "_ZN" + "1a" * 5000,
        "_Z1fI" + "Li1E" * 2500 + "Ev",
        "x" * 10000,
        "a::" * 3500,
        "operator<" * 1100,
        "a b " * 2500,
        "f<" + "unsigned long " * 700 + ">",
        "ReduceOp<f," * 900,
        "__nv_hdl_wrapper_t<" * 500 + "x",
        "at::native::gpu_kernel<" * 400 + "{lambda(int)#1}" + ">(x)::{lambda(int)#1}" * 400,
        "\0\xff\ud800\n\x1b[31m" * 1500,
        "void (*f(int))(char)",
        "a > b",
        "$",
        "$$",
        "$kernel$",
    ],
)
def test_no_name_is_too_odd(name: str):
    short = short_name(name)
    assert len(short) <= LONGEST_PLAIN
    assert short or not name.strip()
    assert short.isprintable() and full_name(name).replace("\ufffd", "").isprintable()


@given(st.text(alphabet="ab<>(){}[],: &*#1_Z~'…é\n", max_size=200))
def test_any_text_has_a_short_name(text: str):
    assert len(short_name(text)) <= LONGEST_PLAIN


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("void at::f<int, g<1, 2> >(int)", [("at", (), False), ("f", ("int", "g<1, 2>"), True)]),
        ("std::enable_if<!(false), void>::type a::f<int>(int)", [("a", (), False), ("f", ("int",), True)]),
        ("(anonymous namespace)::f", [("f", (), False)]),
        (
            "f(int)::{lambda(int, g<2>)#1}::operator()() const",
            [("f", (), True), ("{lambda(int, g<2>)#1}", (), False), ("operator()", (), True)],
        ),
    ],
)
def test_a_name_is_taken_apart(text: str, parts: list[tuple[str, tuple[str, ...], bool]]):
    assert [(one.name, one.arguments, one.called) for one in path_of(text)] == parts


def test_commas_in_brackets_separate_nothing():
    assert list(split("a<b, c>, (d, e), {f, g}, h")) == ["a<b, c>", "(d, e)", "{f, g}", "h"]


@pytest.mark.parametrize(
    ("name", "short"),
    [
        ("_ZTS6MatMulIfLi16EE", "MatMul<float,16>"),
        ("__sycl_kernel_silu_kernel", "silu_kernel"),
        ("_Z17__sycl_kernel_ssqPfi", "ssq"),
        ("_ZTSZZ4mainENKUlRN4sycl3_V17handlerEE_clES2_EUlNS0_7nd_itemILi1EEEE_", "main::{lambda#1}"),
        ("_ZTSZZ4mainENKUlRN4sycl3_V17handlerEE0_clES2_EUlNS0_7nd_itemILi1EEEE_", "main::{lambda#2}"),
        ("_ZTSZN6oneapi3mkl4blas6columnE5queueEUlvE_", "column::{lambda#1}"),
    ],
)
def test_kernels_of_sycl_are_named_by_their_type_or_the_call_that_launches_them(name: str, short: str):
    assert short_name(name) == short
    assert not full_name(name).startswith(("typeinfo", "__sycl"))
