"""Short names of matrix products and convolutions that encode all properties in one word: `gemm bf16 256x128x64 TNT (nvjet)`.

cuBLAS's nvjet, CUTLASS's library, the older SASS kernels of cuBLAS and cuDNN, and xmma write type, tile and layout into the name, each in
its own way. The short name has the operation, the type of the inputs, the tile with its depth, layout, split-K and fused operations; it
leaves out clusters, stages, alignment and swizzles.
"""

from __future__ import annotations

import re

_NVJET = re.compile(r"^nvjet_(?:sm\d+_)?([a-z]+)_(?:mma_)?(\d+x\d+)_(\d+)x\d+_(\w+)$")
_NVJET_TYPES = {"t": "bf16", "h": "fp16", "s": "fp32", "d": "fp64", "q": "fp8", "r": "fp8", "o": "fp4", "i": "int8"}
"""The type of A, by the first letter."""
_CUTLASS = re.compile(r"^cutlass(?:3x)?_(?:(?:sm)?\d+_)?(?:wmma_)?(?:tensorop|simt)_(\w+)$")
_SASS = re.compile(r"^(?:maxwell|volta|turing|ampere|hopper|gv100|sm\d+)_(?!xmma)(\w*(?:gemm|cudnn)\w*)$")
_XMMA = re.compile(r"^sm\d+_xmma_(\w+)$")
_OPERATION = re.compile(
    r"(?:^|_)((?:[a-z]{0,2}\d*[a-z0-9]*?)(?:gemm|cudnn|fprop|dgrad|wgrad|deconv|syrk|trmm|symm)(?:_[a-z]+gemm)?)(?=_|$)"
)
_KINDS = "bf16|fp16|f16|tf32|fp32|f32|f64|e4m3|e5m2|s8|u8|i8|s4"
_TYPE = re.compile(rf"(?:^|_)({_KINDS})(?=_|{_KINDS}|s32|$)")
_TYPES = {
    "f16": "fp16", "f32": "fp32", "f64": "fp64", "e4m3": "fp8", "e5m2": "fp8", "s8": "int8", "u8": "int8", "i8": "int8", "s4": "int4",
}  # fmt: skip
_LETTERS = {"s": "fp32", "d": "fp64", "h": "fp16", "i": "int8", "c": "complex", "z": "complex128"}
_TILE = re.compile(r"(?:_|tilesize)(\d+x\d+(?:x\d+)?)(?=_|$)")
_STAGES = re.compile(r"_stages_(\d+)x\d+")
_DEPTH = re.compile(r"_(\d+)x\d+(?=_|$)")
_LAYOUT = re.compile(r"_([nt]{2,3}|nhwc|nchw|ndhwc)(?:_n)?(?=_|$|ckrsc)")
_FUSED = re.compile(r"_(relu|gelu|bias|silu|grouped|splitk|splitK|stridedB)(?=_|\d|$)")


def short_gemm(name: str) -> str:
    """The short name of a kernel as compiled; "" if it is none of these kinds."""
    if match := _NVJET.match(name):
        types, tile, depth, suffix = match.groups()
        layout = suffix.rpartition("_")[2]
        return _line(
            "gemm", _NVJET_TYPES.get(types[0], types), f"{tile}x{depth}", layout if layout.isupper() else "", _fused(suffix), "nvjet"
        )
    for pattern, library in ((_CUTLASS, "cutlass"), (_XMMA, "xmma"), (_SASS, name.partition("_")[0])):
        if match := pattern.match(name):
            return _described(match[1], library)
    return ""


def _described(text: str, library: str) -> str:
    operation = _OPERATION.search(text)
    tiles = _TILE.findall(text)
    if not operation or not tiles:
        return ""
    word = operation[1]
    kind = next((each for each in ("fprop", "dgrad", "wgrad", "deconv") if each in word), "")
    conv = f"conv {kind}" if kind else "conv" if "cudnn" in word else "gemm"
    layout = _LAYOUT.search("_" + text)
    return _line(conv, _type(text, word), _with_depth(text, tiles[0]), layout[1] if layout else "", _fused(text), library)


def _with_depth(text: str, tile: str) -> str:
    """The tile with its depth, which the name has behind the tile, beside the number of stages."""
    if tile.count("x") == 2:
        return tile
    depth = _STAGES.search(text) or _DEPTH.search(text, text.index(tile) + len(tile))
    return f"{tile}x{depth[1]}" if depth else tile


def _type(text: str, operation: str) -> str:
    """The type of the inputs: written at the front, or BLAS's letter for it. A product of fp32 on tensor cores has tf32."""
    if "tf32" in operation:
        return "tf32"
    if match := _TYPE.search(text):
        return _TYPES.get(match[1], match[1])
    if re.match(r"s\d+(?:x\d+)*gemm", operation):
        return "tf32"
    return _LETTERS.get(operation[0], "") if not operation.startswith(("gemm", "cudnn")) else ""


def _fused(text: str) -> str:
    return " ".join(dict.fromkeys(word.replace("splitk", "splitK") for word in _FUSED.findall("_" + text)))


def _line(operation: str, kind: str, tile: str, layout: str, fused: str, library: str) -> str:
    return " ".join(word for word in (operation, kind, tile, layout, fused, f"({library})") if word)
