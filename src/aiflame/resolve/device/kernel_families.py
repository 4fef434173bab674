"""Finds the kind of work of a kernel from its name: `gemm`, `attention`, `norm`, `elementwise` …

The first of three steps that gives an answer decides: kernels of compilers, whose prefix says how they are made and whose words are ops
(Inductor, XLA); loops of torch and CUB, by the operation that they loop over; and words in the name, from the most specific to the least. A
wrong answer is worse than `other`: words that many kernels have (add, mul, max) count last.
"""

from __future__ import annotations

import re
from functools import lru_cache

from aiflame.resolve.device.kernel_names import full_name, short_name

FAMILIES = (
    "gemm", "attention", "convolution", "norm", "softmax", "elementwise", "reduction", "gather-scatter", "sort", "random", "optimizer",
    "collective", "copy", "other",
)  # fmt: skip
COPY = "copy"
"""Includes copies and fills by the driver, which are not kernels."""

_INDUCTOR = re.compile(r"^triton_(?:(?:unk|mm|red|poi|per|tem|spl|for|helion)_)?fused_?")
_XLA = re.compile(r"^(?:loop|input|wrapped|fusion|gemm_fusion|triton_gemm|triton_softmax|transpose_fusion|\w*_fusion)(?:_|$|\.)")
_ONLY_MOVES = frozenset(
    re.findall(
        r"\w+",
        "clone to copy t transpose permute view reshape cat stack expand slice select unsqueeze squeeze contiguous zeros ones full fill "
        "constant pad nd fused empty like split with sizes unsafe as strided new",
    )
)

_LOOP = re.compile(
    r"^(?:\w*_)?elementwise(?:_with_index|_grid_stride)?(?:<|$)|^(?:static|for_each|for_each_in)\b|^\w*_kernel_agent<ParallelFor"
)
_REDUCES = re.compile(
    r"^reduce(?:_1block)?<|^(?:cub|thrust)::.*(?:Reduce|Scan|Histogram)|^(?:cub|thrust)::.*(?:Select|Unique|Partition|RunLength)"
)

_WORDS: tuple[tuple[str, re.Pattern[str]], ...] = tuple(
    (name, re.compile("|".join(words.split())))
    for name, words in (
        (
            "collective",
            r"""^nccl ^rccl all_?reduce all_?gather reduce_?scatter all_?to_?all cross_device_reduce multimem one_?shot
            two_?shot nvshmem deep_?ep send_?recv userbuffers""",
        ),
        ("sort", r"radix_?sort sort(?!able) top_?k bitonic merge_?path kthvalue mbtopk sbtopk"),
        (
            "attention",
            r"""flash_(?:fwd|bwd) flash_?attn flash_?att fmha attention (?:^|_|fused_)attn attn_ \bmha _mha flash_?mla
            (?:^|_)mla_ sdpa xqa (?:batch|single)(?:prefill|decode) flash_?infer.*(?:prefill|decode) prefillwith decodewith
            flashattn merge_?states? splitkv""",
        ),
        ("optimizer", r"adam (?:^|_|fused|::)sgd lamb(?!da) adagrad rmsprop \blion_ optimizer amp_update_scale unscale muon"),
        (
            "norm",
            r"""layer_?norm rms_?norm batch_?norm group_?norm instance_?norm \bbn_(?:fw|bw) bn_(?:fw|bw)_ rowwise_?moments
            gamma_?beta (?:^|_)ln_(?:fwd|bwd|forward|backward) welford cunn_?norm normalization l2_?norm_ norm_(?:fwd|bwd)
            weight_norm computefusedparams groupnorm""",
        ),
        ("softmax", r"soft_?max cross_?entropy logsumexp"),
        ("convolution", r"conv(?!ert|ers) winograd fprop dgrad wgrad im2col col2im vol2col scudnn h\d+cudnn implicit_gemm"),
        (
            "gather-scatter",
            r"""(?<!rotary_)embedding index_?select gather scatter index_?put indexing_?backward index_?(?:add|copy|fill|func) ^index
            reshape_and_cache concat_and_cache moe_align moe_(?:un)?permute (?:un)?permute_(?:tokens|kernel) take_along
            count_and_sort kv_?cache""",
        ),
        ("random", r"^distribution philox curand random dropout bernoulli randperm multinomial sampling generate_seed gumbel"),
        (
            "gemm",
            r"""gemm nvjet gemv matmul mat_mul (?:^|_)b?mm(?:_|$) addmm split_?k tensorop xmma scaled_mm fused_moe marlin
            (?:^|_)(?:gptq|awq) cublas dot_kernel ^dot< wgmma (?:^|_)linear(?:_|$) grouped_mm reduce_1block_kernel
            triangular trsm syrk""",
        ),
        (
            "copy",
            r"""mem(?:cpy|set) copy (?:^|_)fill catarray cat_array transpose nchwtonhwc nhwctonchw nhwc_?to nchw_?to contiguous
            (?:^|_)pad(?:_|ding|ded)? \broll_ (?:^|_)flip tri[lu]_ uninitialized split_with_sizes chunk_cat
            convert_?(?:layout|tensor)""",
        ),
        (
            "reduction",
            r"""reduc (?:^|_)sum(?:_|$|<) (?:^|_)mean(?:_|$|<) arg_?m(?:ax|in) scan cum_?(?:sum|prod|max|min) histogram lpnorm
            non_?zero nll_?loss (?:^|_)norm(?:_|$|<) pool (?:^|_)count(?:_|$) selectif unique bincount""",
        ),
        (
            "elementwise",
            r"""element_?wise pointwise multi_?tensor foreach activation act_and_mul silu swiglu gelu relu sigmoid tanh rotary
            (?:^|_)rope quant (?:^|_)cast clamp (?:^|_)where op_tensor scale_(?:and|kernel) parallel_?for upsample interpolate
            arange (?:^|_)(?:v?add|v?mul|vsub|axpy|saxpy|daxpy|triad)(?:_|$|<) bias eigenmetakernel convert""",
        ),
    )
)
"""From the most specific to the least; in lower case, without spaces."""


@lru_cache(maxsize=1 << 14)
def family(name: str) -> str:
    """One of `FAMILIES`, from a kernel's name as compiled or demangled."""
    short = short_name(name)
    if match := _INDUCTOR.match(name):
        return _of_ops(name[: match.end()], name[match.end() :])
    if _XLA.match(name):
        return _of_words(name.lower().replace("fusion", ""), without=("optimizer",)) or "elementwise"
    if _LOOP.match(short):
        return _of_loop(short.lower())
    if _REDUCES.match(short):
        return "sort" if "sort" in short.lower() else "reduction"
    if short.startswith("multi_tensor_apply"):
        return _of_multi_tensor(short.lower())
    return _of_words(short.lower()) or _of_words(_function(name).lower()) or ("gemm" if "gemm" in name.lower() else "other")


def _of_ops(prefix: str, text: str) -> str:
    """Inductor's prefixes: `poi` is pointwise, `red` and `per` reduce, `tem` is a template, `for` a loop over tensors."""
    text = text.lower()
    if "_tem_" in prefix or "_mm_" in prefix:
        return "attention" if "attention" in text or "sdpa" in text else "convolution" if "conv" in text else "gemm"
    if "_red_" in prefix or "_per_" in prefix:
        reducing = _of_words(text)
        return reducing if reducing in ("norm", "softmax") else "norm" if {"rsqrt", "mean"} <= set(text.split("_")) else "reduction"
    words = {word for word in text.split("_") if word and not word.isdigit()}
    return "copy" if words and words <= _ONLY_MOVES else "elementwise"


def _of_loop(short: str) -> str:
    """`elementwise<FUNCTOR>`: most functors are arithmetic."""
    if re.search(r"^index|index_kernel|gather|scatter|<index", short):
        return "gather-scatter"
    if short.startswith("distribution"):
        return "random"
    if re.search(r"copy|fill|uninitialized", short):
        return "copy"
    return "random" if "dropout" in short or "bernoulli" in short else "elementwise"


def _of_multi_tensor(short: str) -> str:
    return "optimizer" if _of_words(short) == "optimizer" else "reduction" if "norm" in short or "max" in short else "elementwise"


def _of_words(text: str, without: tuple[str, ...] = ()) -> str:
    return next((name for name, words in _WORDS if name not in without and words.search(text)), "")


def _function(name: str) -> str:
    """The demangled name without its parameters: namespaces show the kind of work, types of parameters do not."""
    return full_name(name).partition("(")[0][:4096]
