"""The work of torch's ops, modelled from the shapes of their inputs: operations of products of matrices, convolutions and attention, and
the bytes that an op must at least read and write.

A multiplication and an addition are two operations. Bytes count every input and output once, as if nothing of them were in a cache before
and nothing were read twice. Ops that are not listed have no model.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod

from aiflame.values import dataclass

Shape = tuple[int, ...]
MOST = 1 << 62
"""Larger counts come from a damaged trace."""
_SIZES = {
    "float": 4, "double": 8, "c10::Half": 2, "c10::BFloat16": 2, "long int": 8, "long": 8, "int": 4, "short int": 2, "short": 2,
    "bool": 1, "unsigned char": 1, "signed char": 1, "c10::complex<float>": 8, "c10::complex<double>": 16,
}  # fmt: skip
_TYPES = {"float": "fp32", "double": "fp64", "c10::Half": "fp16", "c10::BFloat16": "bf16"}
_EIGHT_BITS = "c10::Float8"


@dataclass(frozen=True, slots=True)
class Tensor:
    shape: Shape
    type: str
    """As torch.profiler writes it: `c10::BFloat16`"""

    @property
    def count(self) -> int:
        return prod(self.shape)

    @property
    def bytes(self) -> int:
        return self.count * (1 if self.type.startswith(_EIGHT_BITS) else _SIZES[self.type])


@dataclass(frozen=True, slots=True)
class Call:
    """A call of an op."""

    tensors: tuple[Tensor | None, ...]
    """By place among its arguments; None for arguments that are no tensors, or whose shape or type is not known."""
    values: tuple[str, ...] = ()
    """Other arguments as text: `True`, `[1, 1]`; "" where not known."""

    def tensor(self, place: int) -> Tensor:
        """Raises LookupError where there is none."""
        answer = self.tensors[place]
        if answer is None:
            raise LookupError(place)
        return answer

    def value(self, place: int) -> str:
        return self.values[place] if place < len(self.values) else ""

    @property
    def all(self) -> list[Tensor]:
        return [tensor for tensor in self.tensors if tensor is not None]


@dataclass(frozen=True, slots=True)
class OpWork:
    flops: int
    bytes: int
    type: str = ""
    """Of its factors: `bf16`, `fp16`, `fp32`, `fp64`, `fp8`; "" for others."""


def op_work(name: str, call: Call) -> OpWork | None:
    """The work of a call of an op; None where the model does not know the op, or the call's shapes are not known."""
    namespace, _, own = name.partition("::")
    if namespace != "aten":
        return None
    model = _MODELS.get(own) or _MODELS.get(own.removesuffix("_"))
    if model is None:
        return None
    try:
        answer = model(call)
    except (LookupError, ValueError, TypeError, ZeroDivisionError):
        return None
    return answer if 0 <= answer.flops < MOST and 0 <= answer.bytes < MOST else None


def _type(tensor: Tensor) -> str:
    return "fp8" if tensor.type.startswith(_EIGHT_BITS) else _TYPES.get(tensor.type, "")


def _product(left: int, right: int, *, into: int | None = None) -> Callable[[Call], OpWork]:
    """A product of matrices, or of batches of them, of these arguments; `into`: the argument that is added to it."""

    def work(call: Call) -> OpWork:
        a, b = call.tensor(left), call.tensor(right)
        rows, inner, columns = a.shape[-2], a.shape[-1], b.shape[-1]
        if b.shape[-2] != inner or a.shape[:-2] != b.shape[:-2]:
            raise ValueError(b.shape)
        count = prod(a.shape[:-2]) * rows * columns
        added = call.tensors[into] if into is not None else None
        size = added.bytes if added is not None else 0
        return OpWork(2 * count * inner, a.bytes + b.bytes + size + Tensor((count,), _result(a)).bytes, _type(a))

    return work


def _result(tensor: Tensor) -> str:
    """The type of a product of such tensors: of eight bits it is usually rounded to sixteen."""
    return "c10::BFloat16" if tensor.type.startswith(_EIGHT_BITS) else tensor.type


def _by_vector(left: int, right: int) -> Callable[[Call], OpWork]:
    def work(call: Call) -> OpWork:
        a, b = call.tensor(left), call.tensor(right)
        return OpWork(2 * a.count, a.bytes + b.bytes + Tensor(a.shape[:-1], a.type).bytes, _type(a))

    return work


def _linear(call: Call) -> OpWork:
    a, weight = call.tensor(0), call.tensor(1)
    if a.shape[-1] != weight.shape[-1]:
        raise ValueError(weight.shape)
    bias = call.tensors[2] if len(call.tensors) > 2 else None
    out = Tensor((*a.shape[:-1], *weight.shape[:-1]), a.type)
    return OpWork(2 * a.count * prod(weight.shape[:-1]), a.bytes + weight.bytes + (bias.bytes if bias else 0) + out.bytes, _type(a))


def _matmul(call: Call) -> OpWork:
    a, b = call.tensor(0), call.tensor(1)
    rows = a.shape[:-1] if len(a.shape) == 1 else a.shape[-2:-1]
    columns = b.shape[-1:] if len(b.shape) > 1 else ()
    if (b.shape[-2] if len(b.shape) > 1 else b.shape[0]) != a.shape[-1]:
        raise ValueError(b.shape)
    out = Tensor((*broadcast(a.shape[:-2], b.shape[:-2]), *(() if len(a.shape) == 1 else rows), *columns), a.type)
    return OpWork(2 * out.count * a.shape[-1], a.bytes + b.bytes + out.bytes, _type(a))


def broadcast(*shapes: Shape) -> Shape:
    longest = max((len(shape) for shape in shapes), default=0)
    sides: list[int] = []
    for at in range(longest):
        here = {shape[at - longest + len(shape)] for shape in shapes if at >= longest - len(shape)} - {1}
        if len(here) > 1:
            raise ValueError(shapes)
        sides.append(here.pop() if here else 1)
    return tuple(sides)


def numbers(text: str) -> list[int]:
    """`[1, 1]` → 1, 1"""
    return [int(part) for part in text.strip("[]() ").split(",") if part.strip()]


def convolution(call: Call) -> OpWork:
    """(input, weight, bias, stride, padding, dilation, transposed, output_padding, groups, …)"""
    a, weight = call.tensor(0), call.tensor(1)
    return _convolved(call, a, weight, _convolution_output(call, a, weight))


def _convolved(call: Call, a: Tensor, weight: Tensor, out: Tensor) -> OpWork:
    bias = call.tensors[2]
    each = 2 * prod(weight.shape[1:])
    flops = each * (a.count if call.value(6) == "True" else out.count)
    return OpWork(flops, a.bytes + weight.bytes + (bias.bytes if bias is not None else 0) + out.bytes, _type(a))


def _convolution_output(call: Call, a: Tensor, weight: Tensor) -> Tensor:
    sides = len(weight.shape) - 2
    stride, padding, dilation = (_each(call.value(place), sides) for place in (3, 4, 5))
    of = list(zip(a.shape[2:], weight.shape[2:], stride, padding, dilation, strict=True))
    if call.value(6) == "True":
        more, groups = _each(call.value(7), sides), int(call.value(8))
        out = [(n - 1) * s - 2 * p + d * (k - 1) + 1 + extra for (n, k, s, p, d), extra in zip(of, more, strict=True)]
        return Tensor((a.shape[0], weight.shape[1] * groups, *out), a.type)
    out = [(n + 2 * p - d * (k - 1) - 1) // s + 1 for n, k, s, p, d in of]
    return Tensor((a.shape[0], weight.shape[0], *out), a.type)


def _each(text: str, sides: int) -> list[int]:
    of = numbers(text)
    return of * sides if len(of) == 1 else of


def _convolution_backward(call: Call) -> OpWork:
    """(grad_output, input, weight, bias_sizes, stride, padding, dilation, transposed, output_padding, groups, output_mask)"""
    grad, a, weight = (call.tensor(place) for place in range(3))
    each = 2 * prod(weight.shape[1:]) * (a.count if call.value(7) == "True" else grad.count)
    wanted = [part.strip() == "True" for part in call.value(10).strip("[]() ").split(",")]
    if len(wanted) != 3:
        raise ValueError(call.value(10))
    moved = grad.bytes + (weight.bytes + a.bytes if wanted[0] else 0) + (a.bytes + weight.bytes if wanted[1] else 0)
    return OpWork(each * (wanted[0] + wanted[1]), moved, _type(a))


def _attention(causal: int, *, first: int = 0, heads_last: bool = False, backward: bool = False) -> Callable[[Call], OpWork]:
    """Query, key and value are the arguments from `first` on: [batch, heads, length, size], or [batch, length, heads, size] with
    `heads_last`. `causal`: the argument that says so. The backward pass computes the scores again."""

    def work(call: Call) -> OpWork:
        query, key, value = (call.tensor(first + place) for place in range(3))
        if not len(query.shape) == len(key.shape) == len(value.shape) == 4:
            raise ValueError(query.shape)  # several sequences in one: their lengths are not known
        long, heads = (1, 2) if heads_last else (2, 1)
        pairs = query.shape[0] * query.shape[heads] * query.shape[long] * key.shape[long]
        size, of_value = query.shape[3], value.shape[3]
        flops = 2 * pairs * (3 * size + 2 * of_value if backward else size + of_value)
        if call.value(causal) in ("True", "1", "2") and query.shape[long] == key.shape[long]:
            flops //= 2
        out = query.bytes // max(size, 1) * of_value
        once = query.bytes + key.bytes + value.bytes
        return OpWork(flops, 2 * once + 2 * out if backward else once + out, _type(query))

    return work


def _elementwise(call: Call) -> OpWork:
    """Reads every input and writes a result of their common shape."""
    if not call.all:
        raise LookupError
    shape = broadcast(*(tensor.shape for tensor in call.all))
    widest = max(call.all, key=lambda tensor: (tensor.type in _TYPES, len(tensor.shape) > 0, tensor.bytes // max(tensor.count, 1)))
    return OpWork(0, sum(tensor.bytes for tensor in call.all) + Tensor(shape, widest.type).bytes)


def _comparison(call: Call) -> OpWork:
    if not call.all:
        raise LookupError
    shape = broadcast(*(tensor.shape for tensor in call.all))
    return OpWork(0, sum(tensor.bytes for tensor in call.all) + prod(shape))


def _like_first(call: Call) -> OpWork:
    """Reads all inputs, and writes a result as large as the first."""
    return OpWork(0, sum(tensor.bytes for tensor in call.all) + call.tensor(0).bytes)


def _reduction(call: Call) -> OpWork:
    """Reads its input; the result is small beside it."""
    return OpWork(0, call.tensor(0).bytes)


def _copy(call: Call) -> OpWork:
    return OpWork(0, call.tensor(0).bytes + call.tensor(1).bytes)


def _fill(call: Call) -> OpWork:
    return OpWork(0, call.tensor(0).bytes)


def _embedding(call: Call) -> OpWork:
    weight, index = call.tensor(0), call.tensor(1)
    rows = index.count * Tensor(weight.shape[1:], weight.type).bytes
    return OpWork(0, 2 * rows + index.bytes)


def _index_select(call: Call) -> OpWork:
    """(self, dim, index)"""
    source, index = call.tensor(0), call.tensor(2)
    rows = source.bytes // source.shape[int(call.value(1))] * index.count
    return OpWork(0, 2 * rows + index.bytes)


def _embedding_backward(call: Call) -> OpWork:
    """(grad_output, indices, num_weights, …)"""
    grad, index, rows = call.tensor(0), call.tensor(1), int(call.value(2))
    return OpWork(0, grad.bytes + index.bytes + Tensor((rows, grad.shape[-1]), grad.type).bytes)


def _all(names: str, model: Callable[[Call], OpWork]) -> Mapping[str, Callable[[Call], OpWork]]:
    return dict.fromkeys(names.split(), model)


_ELEMENTWISE = """add sub rsub mul div pow neg abs exp exp2 log log2 log1p sqrt rsqrt reciprocal sin cos tan tanh sigmoid relu threshold
 gelu silu elu hardtanh hardswish hardsigmoid leaky_relu mish softplus erf floor ceil round clamp clamp_min clamp_max maximum minimum where
 masked_fill lerp addcmul addcdiv fmod remainder sign square bitwise_and bitwise_or bitwise_xor bitwise_not atan2 threshold_backward
 gelu_backward silu_backward sigmoid_backward tanh_backward elu_backward hardtanh_backward leaky_relu_backward mish_backward
 softplus_backward hardswish_backward native_dropout_backward _softmax_backward_data _log_softmax_backward_data"""
_COMPARISONS = "eq ne lt le gt ge logical_and logical_or logical_not isnan isinf isfinite"
_REDUCTIONS = "sum mean amax amin max min argmax argmin norm linalg_vector_norm any all std var prod logsumexp nansum"
_LIKE_FIRST = """_softmax _log_softmax native_layer_norm native_group_norm native_batch_norm cudnn_batch_norm miopen_batch_norm
 _batch_norm_with_update native_layer_norm_backward native_batch_norm_backward cudnn_batch_norm_backward miopen_batch_norm_backward
 native_group_norm_backward _fused_rms_norm cumsum flip roll tril triu native_dropout"""

_MODELS: Mapping[str, Callable[[Call], OpWork]] = {
    "mm": _product(0, 1),
    "bmm": _product(0, 1),
    "addmm": _product(1, 2, into=0),
    "_addmm_activation": _product(1, 2, into=0),
    "baddbmm": _product(1, 2, into=0),
    "_scaled_mm": _product(0, 1),
    "mv": _by_vector(0, 1),
    "addmv": _by_vector(1, 2),
    "linear": _linear,
    "matmul": _matmul,
    **_all("convolution _convolution convolution_overrideable", convolution),
    "convolution_backward": _convolution_backward,
    "convolution_backward_overrideable": _convolution_backward,
    "scaled_dot_product_attention": _attention(5),
    "_scaled_dot_product_flash_attention": _attention(4),
    "_scaled_dot_product_flash_attention_for_cpu": _attention(4),
    "_scaled_dot_product_efficient_attention": _attention(6),
    "_scaled_dot_product_cudnn_attention": _attention(6),
    "_scaled_dot_product_attention_math": _attention(5),
    "_flash_attention_forward": _attention(8, heads_last=True),
    "_efficient_attention_forward": _attention(9, heads_last=True),
    "_scaled_dot_product_flash_attention_backward": _attention(11, first=1, backward=True),
    "_scaled_dot_product_flash_attention_for_cpu_backward": _attention(7, first=1, backward=True),
    "_scaled_dot_product_efficient_attention_backward": _attention(11, first=1, backward=True),
    "_scaled_dot_product_cudnn_attention_backward": _attention(14, first=1, backward=True),
    "_flash_attention_backward": _attention(11, first=1, heads_last=True, backward=True),
    "_efficient_attention_backward": _attention(14, first=1, heads_last=True, backward=True),
    "embedding": _embedding,
    "embedding_dense_backward": _embedding_backward,
    "index_select": _index_select,
    **_all("copy_ _copy_from", _copy),
    **_all("fill_ zero_ normal_ uniform_ bernoulli_ random_", _fill),
    **_all(_ELEMENTWISE, _elementwise),
    **_all(_COMPARISONS, _comparison),
    **_all(_REDUCTIONS, _reduction),
    **_all(_LIKE_FIRST, _like_first),
}


def call_of(dims: Sequence[object], types: Sequence[object], values: Sequence[object]) -> Call:
    """A call as torch.profiler describes it: `Input Dims`, `Input type` and `Concrete Inputs`. An argument that is no tensor has the shape
    [] and a type that is none of a tensor's elements."""
    tensors: list[Tensor | None] = []
    for at, shape in enumerate(dims):
        kind = types[at] if at < len(types) else ""
        is_element = isinstance(kind, str) and (kind in _SIZES or kind.startswith(_EIGHT_BITS))
        sides = shape if isinstance(shape, list) and all(type(side) is int and 0 <= side < MOST for side in shape) else None
        tensors.append(Tensor(tuple(sides), str(kind)) if is_element and sides is not None else None)
    return Call(tuple(tensors), tuple(value if isinstance(value, str) else "" for value in values))
