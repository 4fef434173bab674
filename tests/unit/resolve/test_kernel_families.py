"""Which kind of work a kernel does, by real names: as profilers of torch, JAX, TensorFlow, vLLM and SGLang show them."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from profiles import sealed

from aiflame.attribute.meaning.families import families
from aiflame.resolve.device.gemm_names import short_gemm
from aiflame.resolve.device.kernel_families import FAMILIES, family
from aiflame.resolve.device.kernel_names import short_name

# fmt: off
# ruff: noqa: E501
NAMES = {
    "gemm": [
        "nvjet_tst_192x16_64x8_2x2_2cta_h_bz_TNT",
        "nvjet_hsh_128x256_64x4_2x1_v_bz_coopB_TNN",
        "ampere_bf16_s16816gemm_bf16_256x128_ldg8_f2f_stages_32x3_nn",
        "ampere_sgemm_128x64_tn",
        "volta_sgemm_64x32_sliced1x4_tn",
        "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_warpgroupsize1x1x1_execute_segment_k_off_kernel__5x_cublas",
        "void cutlass::Kernel<cutlass_80_tensorop_s1688gemm_64x64_16x6_nn_align1>(cutlass_80_tensorop_s1688gemm_64x64_16x6_nn_align1::Params)",
        "void cutlass::device_kernel<cutlass::gemm::kernel::GemmUniversal<cute::tuple<int, int, int, int>, cutlass::gemm::collective::CollectiveMma<cutlass::gemm::MainloopSm90TmaGmmaWarpSpecialized<7> > > >(int)",
        "void cublasLt::splitKreduce_kernel<32, 16, int, float, __nv_bfloat16, float, __nv_bfloat16, false>(cublasLt::cublasSplitKParams<float>)",
        "std::enable_if<!(false), void>::type internal::gemvx::kernel<int, int, __nv_bfloat16, __nv_bfloat16, __nv_bfloat16, float>(cublasGemvParamsEx<int>)",
        "void gemv2T_kernel_val<int, int, float, float, float, float, 128, 16, 4, 4, false, false>(float)",
        "triton_tem_fused_addmm_3",
        "triton_mm",
        "fused_moe_kernel",
        "void marlin::Marlin<__half, 1125899906909960, 256, 4, 8>(int4 const*)",
        "matmul_kernel",
        "gemm_fusion_dot_12",
    ],
    "attention": [
        "void flash_fwd_splitkv_kernel<Flash_fwd_kernel_traits<128, 64, 128, 4, false, false, cutlass::bfloat16_t> >(Flash_fwd_params)",
        "void pytorch_flash::flash_bwd_dot_do_o_kernel<true, Flash_bwd_kernel_traits<64, 64, 128, 8> >(Flash_bwd_params)",
        "fmha_cutlassB_bf16_aligned_64x64_k64_sm80(PyTorchMemEffAttention::AttentionBackwardKernel<cutlass::bfloat16_t>::Params)",
        "cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma_f16_knob_3_64x128x128_4x1x1_kernel0_0",
        "void vllm::paged_attention_v1_kernel<unsigned short, 128, 16, 128>(unsigned short*)",
        "void flashinfer::BatchPrefillWithPagedKVCacheKernel<(flashinfer::MaskMode)1, 0, 16, 4>(int)",
        "void flashinfer::BatchDecodeWithPagedKVCacheKernel<(flashinfer::PosEncodingMode)0, 2, 8>(int)",
        "fmhaSm100aKernel_QkvE4m3OBfloat16HQk192HV128PersistentContext",
        "_fwd_grouped_kernel_stage1_attn_mla",
        "triton_tem_fused_flex_attention_0",
        "_attn_bwd_dkdv",
        "kernel_unified_attention_2d",
    ],
    "convolution": [
        "sm80_xmma_fprop_implicit_gemm_f16f16_f16f32_f32_nhwckrsc_nhwc_tilesize128x128x32_stage4_warpsize2x2x1_g1_tensor16x8x16_execute_kernel__5x_cudnn",
        "void cudnn::detail::implicit_convolve_sgemm<float, float, 512, 6, 8, 3, 3, 5, 1, true, false, true>(int)",
        "void cudnn::detail::dgrad_engine<float, 128, 6, 7, 3, 3, 5, true>(int)",
        "maxwell_scudnn_winograd_128x128_ldg1_ldg4_relu_tile418n_nt",
        "void cudnn::winograd_nonfused::winogradForwardFilter4x4<float, float>(cudnn::winograd_nonfused::WinogradFilterParams<float>)",
        "void at::native::im2col_kernel<float>(long, float const*)",
        "void at::native::(anonymous namespace)::conv_depthwise2d_forward_kernel<3, float, int>(int)",
        "void causal_conv1d_fwd_kernel<Causal_conv1d_fwd_kernel_traits<128, 4, true, float, float> >(ConvParamsBase)",
        "triton_tem_fused_convolution_1",
    ],
    "norm": [
        "void at::native::(anonymous namespace)::vectorized_layer_norm_kernel<c10::BFloat16, float, false>(int)",
        "void at::native::(anonymous namespace)::GammaBetaBackwardCUDAKernelTemplate<c10::BFloat16, float, 32u, 32u>(long)",
        "void at::native::batch_norm_collect_statistics_channels_last_kernel<at::native::Var, float, float, 4>(float const*)",
        "void at::native::(anonymous namespace)::RowwiseMomentsCUDAKernel<float>(long, float)",
        "void cudnn::bn_fw_tr_1C11_kernel_NCHW<float, float, int, 512, true, 1, true>(cudnnTensorStruct)",
        "void cudnn::detail::bn_fw_tr_1CHW_kernel_new<float, float, true, 4>(float)",
        "void vllm::fused_add_rms_norm_kernel<c10::BFloat16, 8>(c10::BFloat16*)",
        "void flashinfer::norm::FusedAddRMSNormKernel<8u, __nv_bfloat16>(__nv_bfloat16*)",
        "void layer_norm::ln_fwd_kernel<layer_norm::Kernel_traits<float> >(layer_norm::FwdParams)",
        "triton_red_fused_native_layer_norm_5",
        "triton_per_fused__to_copy_add_mean_mul_pow_rsqrt_4",
        "_rms_norm_fwd_fused",
    ],
    "softmax": [
        "void (anonymous namespace)::softmax_warp_backward<float, float, float, 10, false, false>(float*)",
        "void at::native::(anonymous namespace)::cunn_SoftMaxBackward<4, float, float, float, at::native::(anonymous namespace)::LogSoftMaxBackwardEpilogue>(float*)",
        "triton_per_fused__softmax_2",
        "liger_cross_entropy_kernel",
    ],
    "elementwise": [
        "void at::native::vectorized_elementwise_kernel<4, at::native::BinaryFunctor<float, float, float, at::native::AddFunctor<float>>, at::detail::Array<char*, 3>>(int)",
        "void at::native::vectorized_elementwise_kernel<4, at::native::AbsFunctor<float>, at::detail::Array<char*, 2>>(int)",
        "void at::native::(anonymous namespace)::multi_tensor_apply_kernel<at::native::(anonymous namespace)::TensorListMetadata<1>, at::native::(anonymous namespace)::BinaryOpScalarFunctor<float, 1, 1, 0>, std::multiplies<float>, float>(int)",
        "void vllm::act_and_mul_kernel<c10::BFloat16, &(c10::BFloat16 vllm::silu_kernel<c10::BFloat16>(c10::BFloat16 const&)), true>(c10::BFloat16*)",
        "void vllm::rotary_embedding_kernel<c10::BFloat16, true>(long const*)",
        "void op_tensor_kernel<2, float, float, float, 32, 1, 4, 2, (cudnnOpTensorOp_t)2, (cudnnNanPropagation_t)0>(cudnnTensorStruct)",
        "void kernelPointwiseApply2<TensorAddOp<float>, float, float, unsigned int, 1, 1>(OffsetInfo<TensorAddOp<float>, float, unsigned int>)",
        "triton_poi_fused_add_gelu_1",
        "triton_poi_fused__scaled_dot_product_attention_mul_3",
        "loop_add_fusion_3",
        "vadd_bs256_w8_s2",
        "void Eigen::internal::EigenMetaKernel<Eigen::TensorEvaluator<Eigen::TensorAssignOp<Eigen::TensorMap<int> > >, int>(int)",
    ],
    "reduction": [
        "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, at::native::func_wrapper_t<float, at::native::sum_functor<float, float, float>::operator()(at::TensorIterator&)::{lambda(float, float)#1}>, unsigned int, float, 4, 4> >(at::native::ReduceOp<float>)",
        "void at_cuda_detail::cub::DeviceScanKernel<at_cuda_detail::cub::DeviceScanPolicy<int>::Policy600, int const*>(int const*)",
        "void cub::CUB_200200_800_900_NS::DeviceReduceSingleTileKernel<int, float*>(float*)",
        "void at::native::(anonymous namespace)::nll_loss_forward_reduce_cuda_kernel_2d<float, float, long>(float*)",
        "void at::native::(anonymous namespace)::multi_tensor_apply_kernel<at::native::(anonymous namespace)::TensorListMetadata<1>, at::native::(anonymous namespace)::LpNormFunctor<float, (at::native::NormType)1, float, 1, 1, 0>, float*, int>(int)",
        "void at::native::(anonymous namespace)::max_pool_forward_nchw<float>(int)",
        "triton_red_fused_sum_7",
        "input_reduce_fusion_2",
    ],
    "gather-scatter": [
        "void at::native::vectorized_gather_kernel<16, long>(char*)",
        "void at::native::(anonymous namespace)::indexSelectLargeIndex<float, long, unsigned int, 2, 2, -2, true>(int)",
        "void at::native::(anonymous namespace)::embedding_backward_feature_kernel<float, float, long>(long const*)",
        "void at::native::index_elementwise_kernel<128, 4, at::native::gpu_index_kernel<at::native::index_kernel_impl<at::native::OpaqueType<2> >(at::TensorIteratorBase&, c10::ArrayRef<long>, c10::ArrayRef<long>)::{lambda(char*, char const*, long)#1}>(at::TensorIteratorBase&)::{lambda(int)#1}>(long)",
        "void at::native::_scatter_gather_elementwise_kernel<128, 8, at::native::_cuda_scatter_gather_internal_kernel<true, at::native::OpaqueType<4> >::operator()<at::native::TensorAssign>()::{lambda(int)#1}>(int)",
        "void vllm::reshape_and_cache_flash_kernel<__nv_bfloat16, __nv_bfloat16, 0>(__nv_bfloat16 const*)",
        "void at::native::indexing_backward_kernel_stride_1<float, 4>(long const*)",
        "void vllm::moe::moe_align_block_size_kernel<int>(int*)",
    ],
    "sort": [
        "void at_cuda_detail::cub::DeviceRadixSortOnesweepKernel<at_cuda_detail::cub::DeviceRadixSortPolicy<long, long, int>::Policy900, false, long>(int)",
        "void cub::DeviceSegmentedRadixSortKernel<cub::DeviceRadixSortPolicy<float, int, int>::Policy700, true, true, float>(int)",
        "void at::native::mbtopk::gatherTopK<float, unsigned int, 2>(int)",
        "void at::native::bitonicSortKVInPlace<2, -1, 16, 16, float, long, at::native::GTOp<float, true>, unsigned int>(int)",
    ],
    "random": [
        "void at::native::(anonymous namespace)::distribution_elementwise_grid_stride_kernel<float, 4, at::native::templates::cuda::uniform_and_transform<float>()::{lambda(int)#1}>(int)",
        "void at::native::(anonymous namespace)::fused_dropout_kernel_vec<float, float, unsigned int, 1, 4, bool>(int)",
        "void flashinfer::sampling::TopPSamplingFromProbKernel<1024u, int>(float*)",
    ],
    "optimizer": [
        "void at::native::(anonymous namespace)::multi_tensor_apply_kernel<at::native::(anonymous namespace)::FusedOptimizerTensorListMetadata<4>, at::native::(anonymous namespace)::FusedAdamMathFunctor<float, 4, (at::native::ADAM_MODE)1, false>, float const*>(int)",
        "void tensorflow::functor::ApplyAdamKernel<float>(int, float*)",
        "void multi_tensor_apply_kernel<TensorListMetadata<4>, AdamFunctorMaster<float, float, int>, float>(long)",
        "void at::native::(anonymous namespace)::multi_tensor_apply_kernel<at::native::(anonymous namespace)::FusedOptimizerTensorListMetadata<2>, at::native::(anonymous namespace)::FusedSgdMathFunctor<float, 2>, double>(int)",
    ],
    "collective": [
        "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
        "ncclKernel_AllGather_RING_LL_Sum_int8_t(ncclDevComm*, unsigned long, ncclWork*)",
        "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)",
        "void sglang::cross_device_reduce_1stage<__nv_bfloat16, 2>(sglang::RankData*)",
        "void flashinfer::trtllm_allreduce_fusion::allreduce_fusion_kernel_oneshot_lamport<int>(int)",
    ],
    "copy": [
        "void at::native::unrolled_elementwise_kernel<at::native::direct_copy_kernel_cuda(at::TensorIteratorBase&)::{lambda()#3}::operator()() const::{lambda()#12}::operator()() const::{lambda(c10::BFloat16)#1}, std::array<char*, 2ul>, 4>(int)",
        "void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<float>, std::array<char*, 1ul> >(int)",
        "void at::native::(anonymous namespace)::CatArrayBatchedCopy_aligned16_contig<at::native::(anonymous namespace)::OpaqueType<2u>, unsigned int, 3, 128, 1, 16>(int)",
        "void cudnn::engines_precompiled::nchwToNhwcKernel<__half, __half, float, false, true, (cudnnKernelDataType_t)0>(int)",
        "void cudnn::detail::cubeTransposeDeviceGeneric_kernel<float, float, float, 8, 8, 8, 8, 8, 11, 5>(int)",
        "triton_poi_fused_clone_transpose_2",
        "wrapped_transpose",
    ],
    "other": ["spin", "void scale_it<float, 4>(float*, int)", "_Z9my_kernelPf"],
}

SHORT = [
    ("nvjet_qqtst_128x128_128x6_2x1_v_bz_TNT", "gemm fp8 128x128x128 TNT (nvjet)"),
    ("nvjet_tst_64x24_64x16_4x1_v_bz_splitK_TNT", "gemm bf16 64x24x64 TNT splitK (nvjet)"),
    ("ampere_sgemm_128x64_tn", "gemm fp32 128x64 tn (ampere)"),
    ("volta_dgemm_64x64_nt", "gemm fp64 64x64 nt (volta)"),
    ("turing_fp16_s1688gemm_fp16_128x128_ldg8_relu_f2f_tn", "gemm fp16 128x128 tn relu (turing)"),
    ("maxwell_scudnn_winograd_128x128_ldg1_ldg4_relu_tile418n_nt", "conv fp32 128x128 nt relu (maxwell)"),
    ("sm90_xmma_gemm_e4m3bf16_e4m3f32_f32_tn_n_tilesize64x128x128_warpgroupsize1x1x1_bias_bf16_execute_segment_k_off_kernel__5x_cublas", "gemm fp8 64x128x128 tn bias (xmma)"),
    ("sm80_xmma_dgrad_implicit_gemm_tf32f32_tf32f32_f32_nhwckrsc_nhwc_tilesize128x64x32_stage3_warpsize2x2x1_g1_tensor16x8x8_execute_kernel__5x_cudnn", "conv dgrad tf32 128x64x32 nhwc (xmma)"),
    ("cutlass_80_tensorop_s1688gemm_64x64_16x6_nn_align1", "gemm tf32 64x64x16 nn (cutlass)"),
    ("cutlass_80_tensorop_s16816fprop_optimized_f16_128x128_32x5_nhwc_align8", "conv fprop fp16 128x128x32 nhwc (cutlass)"),
    ("cutlass3x_sm90_tensorop_s64x128x16gemm_bf16_bf16_f32_bf16_bf16_128x128x64_2x1x1_0_tnn_align8_warpspecialized_cooperative_epi_tma", "gemm bf16 128x128x64 tnn (cutlass)"),
]
# fmt: on


@pytest.mark.parametrize(("expected", "name"), [(expected, name) for expected, names in NAMES.items() for name in names])
def test_a_kernel_belongs_to_the_family_of_its_task(expected: str, name: str) -> None:
    assert family(name) == expected


@pytest.mark.parametrize(("name", "short"), SHORT)
def test_matrix_products_have_type_tile_and_layout(name: str, short: str) -> None:
    assert short_name(name) == short


@given(st.text(max_size=200))
def test_any_text_belongs_to_a_family(name: str) -> None:
    assert family(name) in FAMILIES
    assert len(short_gemm(name)) <= len(name) + 20


def test_profiles_of_before_families_have_them_too(tmp_path: Path) -> None:
    old = sealed(tmp_path / "p", kernel_names=[{"name": "spin", "short": "spin", "full": "spin"}])
    names = pl.Series(["nvjet_tst_192x16_64x8_2x2_2cta_h_bz_TNT", "spin", "[copy host→device]"])
    assert families(old, names) == {"nvjet_tst_192x16_64x8_2x2_2cta_h_bz_TNT": "gemm", "spin": "other", "[copy host→device]": "copy"}
