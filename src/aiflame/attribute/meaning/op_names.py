"""Derives torch's names of its ops from the names of its C++ functions.

`at::_ops::sum_dim_IntList::call` is the op `aten::sum` with the overload `dim_IntList`; `AddmmBackward0` is the node that `aten::addmm`
made. No rule alone can invert these names: an underscore may join an overload or the words of a name, and names of nodes lose underscores.
The lists below come from torch 2.13; the rule decides for names in no list.
"""

from __future__ import annotations

import re
from functools import cache

NAMESPACE = "aten::"


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_OVERLOADS = _words(
    """
IntList IntList_out KN L List List_out OutScalar_Other OutScalar_Self OutTensor Q Scalar ScalarAndTensor ScalarList ScalarList_out
ScalarOpt_dim ScalarOpt_dim_dtype ScalarOpt_dim_dtype_out ScalarOpt_dtype ScalarOpt_dtype_out ScalarOther ScalarSelf Scalar_Other
Scalar_Scalar Scalar_Self Scalar_Tensor Scalar_Tensor_out Scalar_mode Scalar_mode_out Scalar_out Sequence Tensor TensorList_bins
Tensor_Scalar Tensor_Scalar_out Tensor_Tensor Tensor_Tensor_out Tensor_float Tensor_float_out Tensor_generator Tensor_generator_out
Tensor_mode Tensor_out U X a all_out array atol_rtol_float atol_rtol_float_out atol_rtol_tensor atol_rtol_tensor_out b beta beta_out
bin_ct bin_ct_out bins_tensor bins_tensor_out ccol_row_value ccol_row_value_size center comp_plain_value comp_plain_value_size
correction correction_out crow_col_value crow_col_value_size data data_legacy decimals decimals_out deprecated device dim dim_IntList
dim_IntList_out dim_dtype dim_dtype_out dim_int dim_max dim_min dim_out dim_values dims dims_out dtype dtype_layout dtype_out dx
eigenvalues eigvals float float_Tensor float_Tensor_out float_float float_float_out float_out from from_out fullcoverage
fullcoverage_out generator generator_out grad_input indexing indices indices_size input input_legacy int int_Scalar int_Scalar_out
int_Tensor int_Tensor_out int_bins int_out intlist inverse low low_dtype low_dtype_out low_generator low_generator_dtype
low_generator_dtype_out low_generator_out low_out m m_out memory_format msg n_scalar n_scalar_out names names_dim names_out
no_stats no_stats_out ntonly ord_str ord_str_out other other_scalar other_scalar_out out out_ out_mode out_rcond_tensor out_tol_tensor
output output_mask output_mask_out p p_str p_str_out padding padding_idx periodic periodic_alpha periodic_alpha_beta
periodic_alpha_beta_out periodic_alpha_out periodic_out quantized rcond_tensor reduce reduce_out result scalar scalar_out scalararray
scalarint scalarrayarray scalarrayint sections self self_Tensor self_int self_out self_scalar self_scalar_out sign size size_out sizes
source_Storage source_Storage_out source_Storage_storage_offset source_Storage_storage_offset_out source_Tensor source_Tensor_out
source_Tensor_storage_offset sparse_dim sparse_dim_out src src_out stable stable_out start start_out start_step step str_ord
str_ord_out tensor_indices_or_sections tensor_lr tensor_lr_out tensor_qparams tensor_qparams_out tensorarray tensorarrayint tensors
tensors_out to to_out tol_tensor two two_out unary_out using_ints value value_out value_reduce value_reduce_out values values_stable
vec vec_out x x_scalar x_scalar_out
"""
)
_WHOLE = _words(
    """
_add_batch_dim _assert_scalar _copy_from _cufft_get_plan_cache_max_size _cufft_get_plan_cache_size _cufft_set_plan_cache_max_size
_empty_affine_quantized _empty_per_channel_affine_quantized _fake_quantize_per_tensor_affine_cachemask_tensor_qparams _foreach_sign
_functional_assert_scalar _functional_sym_constrain_range_for_size _histogramdd_from_bin_tensors _linalg_eigvals
_log_softmax_backward_data _nested_get_values _nested_tensor_size _propagate_xla_data _remove_batch_dim _resize_output
_softmax_backward_data _sparse_broadcast_to _sparse_compressed_tensor_with_dims _sparse_coo_tensor_with_dims
_sparse_coo_tensor_with_dims_and_tensors _sparse_log_softmax_backward_data _sparse_softmax_backward_data _test_optional_filled_intlist
_test_optional_intlist _validate_compressed_sparse_indices affine_grid_generator batch_norm_backward_reduce broadcast_tensors
broadcast_to ccol_indices cholesky_inverse col_indices crow_indices cudnn_affine_grid_generator dense_dim empty_quantized
flatten_dense_tensors get_device index_reduce is_same_size is_set_to linalg_eigvals max_pool1d_with_indices max_pool2d_with_indices
max_pool3d_with_indices mkldnn_linear_backward_input norm_except_dim row_indices scatter_reduce segment_reduce set_data slice_inverse
sparse_dim special_legendre_polynomial_p split_with_sizes sum_to_size sym_constrain_range_for_size sym_size take_along_dim
tril_indices triu_indices unflatten_dense_tensors unique_dim unsafe_split_with_sizes
"""
)
"""Ops whose own names end like an overload."""

_UNDERSCORED = _words(
    """
adaptive_avg_pool2d adaptive_avg_pool2d_backward adaptive_avg_pool3d adaptive_avg_pool3d_backward batch_norm_no_update
batch_norm_with_update cdist_backward conj conj_physical conv_depthwise2d ctc_loss cudnn_ctc_loss cudnn_rnn cudnn_rnn_backward
embedding_bag embedding_bag_backward embedding_bag_dense_backward euclidean_dist fake_quantize_learnable_per_channel_affine
fake_quantize_learnable_per_tensor_affine fake_quantize_per_tensor_affine_cachemask_tensor_qparams fft_c2c fft_c2r fft_r2c
fused_dropout fused_moving_avg_obs_fq_helper fused_rms_norm grouped_mm index_put_impl lazy_clone linalg_det linalg_eigh
linalg_slogdet linalg_solve_ex linalg_svd log_softmax log_softmax_backward_data lstm_mps masked_softmax mkldnn_reshape
mps_convolution mps_convolution_transpose native_batch_norm_legit native_batch_norm_legit_no_training neg_view nested_from_padded
nested_from_padded_tensor nested_get_values nested_tensor_from_mask nested_tensor_from_tensor_list nested_view_from_buffer
nested_view_from_jagged nnpack_spatial_convolution pack_padded_sequence pdist_backward prelu_kernel prelu_kernel_backward
reshape_alias reshape_copy safe_softmax scaled_dot_product_cudnn_attention scaled_dot_product_efficient_attention
scaled_dot_product_flash_attention scaled_dot_product_flash_attention_for_cpu scaled_dot_product_fused_attention_overrideable
slow_conv2d_backward softmax softmax_backward_data sparse_addmm sparse_coo_tensor_with_dims_and_tensors sparse_log_softmax
sparse_mm_reduce_impl sparse_softmax sparse_sparse_matmul sparse_sum standard_gamma standard_gamma_grad thnn_fused_gru_cell
thnn_fused_lstm_cell to_copy to_dense to_sparse trilinear unique unique2 unsafe_index unsafe_index_put unsafe_masked_index
unsafe_masked_index_put_accumulate unsafe_view upsample_bicubic2d_aa upsample_bicubic2d_aa_backward upsample_bilinear2d_aa
upsample_bilinear2d_aa_backward upsample_lanczos2d_aa upsample_lanczos2d_aa_backward upsample_nearest_exact1d
upsample_nearest_exact1d_backward upsample_nearest_exact2d upsample_nearest_exact2d_backward upsample_nearest_exact3d
upsample_nearest_exact3d_backward weight_norm_interface
"""
)
"""Ops that begin with an underscore, which the names of their nodes lack."""
_UNLIKE = {
    "copy_backwards": "copy_",
    "cudnn_attention": "_cudnn_attention_forward",
    "efficient_attention": "_efficient_attention_forward",
    "flash_attention": "_flash_attention_forward",
    "grid_sampler2d": "grid_sampler_2d",
    "grid_sampler2d_backward": "grid_sampler_2d_backward",
    "grid_sampler3d": "grid_sampler_3d",
    "grid_sampler3d_backward": "grid_sampler_3d_backward",
    "slow_conv2d": "_slow_conv2d_forward",
    "smooth_l1loss": "smooth_l1_loss",
    "smooth_l1loss_backward": "smooth_l1_loss_backward",
}
_SUFFIX = re.compile(r"Backward(?:Autograd[A-Za-z]+)?\d*(?:_copy)?$")
_WORD = re.compile(r"(?<!^)(?<!\d)(?=[A-Z])")


@cache
def op_of_symbol(name: str) -> str:
    """`sum_dim_IntList` → `aten::sum`: the op of a struct in `at::_ops`."""
    if name in _WHOLE:
        return NAMESPACE + name
    for at in (place for place, letter in enumerate(name) if letter == "_" and place > 0):
        stem = name[:at]
        # The longest overload is the right one, unless it would cut the name of an op.
        if name[at + 1 :] in _OVERLOADS and not any(name.startswith(whole + "_") for whole in _WHOLE if len(whole) > at):
            return NAMESPACE + stem
    return NAMESPACE + name


@cache
def op_of_node(node: str) -> str:
    """`AddmmBackward0` → `aten::addmm`: the forward op that made a node. The name of a node without an op is kept."""
    words = _WORD.sub("_", node).lower()
    if words in _UNLIKE:
        return NAMESPACE + _UNLIKE[words]
    if not _SUFFIX.search(node):
        return node
    name = _WORD.sub("_", _SUFFIX.sub("", node)).lower()
    if name in _UNLIKE:
        return NAMESPACE + _UNLIKE[name]
    return NAMESPACE + ("_" if name in _UNDERSCORED or name.startswith("foreach_") else "") + name


def same_op(op: str) -> str:
    """A text that is equal for an op, for its in-place form, and for the op after which its node is named."""
    return op.removeprefix(NAMESPACE).replace("_", "").lower()
