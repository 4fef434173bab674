"""Frames of torch: ops, nodes of the backward graph, and the engine that runs them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import polars as pl

from aiflame.attribute.analysis import Analysis, once
from aiflame.attribute.arrays import nodes
from aiflame.attribute.arrays.types import Ints, Mask
from aiflame.attribute.meaning.compiling import compiler_marks
from aiflame.attribute.meaning.op_names import op_of_node, op_of_symbol
from aiflame.attribute.stacks.word_trie import WordTrie, word_trie
from aiflame.profile.schema.enums import FrameKind
from aiflame.profile.schema.frame_words import frame_kinds
from aiflame.profile.schema.kinds import OP_MODULE, Kind
from aiflame.values import dataclass

COMPILED = "[compiled]"
"""The op of work in a graph that torch.compile made, outside of the ops that it calls."""

_OP = r"^at::_ops::(\w+)::(?:call|redispatch)$"
_KERNEL_OF_OP = r"^at::(?:\w+::)*wrapper_[A-Za-z]+_(\w+)$"
"""The function that a call from Python through `torch.ops` reaches, without a frame of `at::_ops`."""
_ENGINE = r"^torch::autograd::(?:python::Python)?Engine::"
_NODE = r"^torch::(?:\w+::)*autograd::(?:\w+::)*(\w+)::apply$"
_NODE_CALL = "torch::autograd::Node::operator()"
_NODES_WITHOUT_OP = ("PyNode", "CppNode", "Function", "Node", "TraceableFunction")
_CPP_NODE = r"^(?:.* )?torch::autograd::CppNode<(.+)>::apply\("
_CPP_FUNCTION = r"^(?:.* )?torch::autograd::Function<([^<>]+)>::apply"
_FUNCTOR = r"^c10::impl::(?:make_boxed_from_unboxed_functor|wrap_kernel_functor_unboxed_)::call$"
_EVALUATES = r"^autograd::engine::evaluate_function: (.+)$"
"""In imported traces, the engine about to run a node."""
_CALLED_OP = r"^(\w+::[\w.]+)$"
_TORCH_LIBRARY = r"^lib(?:torch|c10|aten|caffe2)"

_AUTOGRAD_FILE = r"(?:^|/)torch/autograd/function\.py$"
_LIBRARY_FILE = r"(?:^|/)torch/_library/"
_OPS_FILE = r"(?:^|/)torch/(?:_ops|_library/custom_ops)\.py$"
_CALLS_OP = r"^(?:OpOverload|OpOverloadPacket)\.__call__$|^CustomOpDef\.(?:__call__|register_kernel\.)"
_TORCH_FILE = r"(?:^|/)torch/"
_STANDARD_FILE = r"^<|/lib(?:64)?/python3[^/]*/[^/]+\.py$|/lib(?:64)?/python3[^/]*/(?:asyncio|collections|concurrent|functools|importlib)/"
_INDUCTOR_FILE = r"(?:torch|/)inductor"
_METHOD = r"\.(?:forward|backward|vjp|jvp|setup_context)$"


@dataclass(frozen=True, slots=True)
class TorchFrames:
    """The role in torch of each node of the trie of words."""

    words: WordTrie
    names: list[str]
    """Names of ops; 0 is none."""
    op: Ints
    """The op that begins here: row of `names`."""
    node: Ints
    """For the function of a backward node, the forward op that made the node: row of `names`."""
    in_node: Mask
    """The work of a backward node begins here."""
    engine: Mask
    """A function of the engine that runs the backward graph."""
    layer: Mask
    """A LAYER word."""
    imports: Mask
    """Python's machinery of imports: an op may start it, but its work is not part of the op."""
    python: Mask
    compiler: Ints
    """AUTOTUNING or COMPILING for a function of such a compiler (`compiling`), otherwise 0."""


class _Names:
    def __init__(self) -> None:
        self.all = [""]
        self._rows: dict[str, int] = {"": 0}

    def row(self, name: str) -> int:
        row = self._rows.setdefault(name, len(self.all))
        if row == len(self.all):
            self.all.append(name)
        return row


@once
def torch_frames(profile: Analysis) -> TorchFrames:
    """The role of each frame of the profile's stacks in torch."""
    words = word_trie(profile)
    names = _Names()
    kind = frame_kinds(words.distinct["frame"].to_numpy())
    symbols = (
        words.distinct.with_row_index("word")
        .join(profile.table("symbols"), on=["process", "frame"])
        .sort("word", "depth")
        .with_columns(text=pl.when(pl.col("full_name") == "").then("name").otherwise("full_name"))
    )
    python = symbols.filter(pl.col("kind") == int(Kind.PYTHON)).with_columns(file=pl.col("file").str.replace_all("\\", "/", literal=True))
    native = symbols.filter(pl.col("kind").is_in([int(Kind.C), int(Kind.CPP)]))

    size = len(words.distinct)
    op = _rows(size, names, native, pl.col("name").str.extract(_OP), op_of_symbol)
    op = _first(op, _rows(size, names, native, pl.col("name").str.extract(_KERNEL_OF_OP).str.strip_suffix("_out"), op_of_symbol))
    op = _first(op, _rows(size, names, native, pl.col("text").str.extract(_CPP_FUNCTION), _last_part))
    compiled = pl.when(pl.col("file").str.contains(_INDUCTOR_FILE) & pl.col("name").str.contains(r"(?:^|\.)call$")).then(pl.lit(COMPILED))
    op = _first(op, _rows(size, names, python, compiled, str))
    traced = native.filter(pl.col("module") == OP_MODULE)
    nodes_run = traced["name"].str.extract(_EVALUATES).drop_nulls().unique()
    is_node = pl.col("name").is_in(nodes_run.implode())
    op = _first(op, _rows(size, names, traced, pl.when(~is_node).then(pl.col("name").str.extract(_CALLED_OP)), str))

    of_node = pl.col("name").str.extract(_NODE)
    node = _rows(size, names, native, pl.when(~of_node.is_in(_NODES_WITHOUT_OP)).then(of_node), op_of_node)
    node = _first(node, _rows(size, names, native, pl.col("text").str.extract(_CPP_NODE), _last_part))
    node = _first(node, _rows(size, names, traced, pl.when(is_node).then("name"), lambda name: op_of_node(_last_part(name) or name)))
    in_node = _mask(size, traced, is_node) | _mask(
        size, native, (pl.col("name") == _NODE_CALL) | pl.col("name").str.contains(r"^torch::autograd::(Py|Cpp)Node::apply$")
    )
    engine = (
        _mask(size, native, pl.col("name").str.contains(_ENGINE))
        | _mask(size, traced, pl.col("name").str.contains(_EVALUATES))
        | _mask(size, python, pl.col("name") == "_engine_run_backward")
    )

    is_python = words.of_nodes((kind == FrameKind.PYTHON).astype(np.int64)) > 0
    functions = _functions_of_python(words, names, python, is_python)
    own_kernels = _kernels_of_others(words, names, native)
    node_of = _first(words.of_nodes(node), np.where(functions.backward, functions.name, 0))
    return TorchFrames(
        words,
        names.all,
        _first(words.of_nodes(op), np.where(functions.backward, 0, functions.name), own_kernels),
        node_of,
        (words.of_nodes(in_node) > 0) | (node_of > 0),
        words.of_nodes(engine) > 0,
        words.of_nodes((kind == FrameKind.LAYER).astype(np.int64)) > 0,
        words.of_nodes(_mask(size, python, pl.col("file").str.starts_with("<frozen importlib"))) > 0,
        is_python,
        words.of_nodes(compiler_marks(size, python, native)),
    )


@dataclass(frozen=True, slots=True)
class _PythonFunctions:
    name: Ints
    backward: Mask


def _functions_of_python(words: WordTrie, names: _Names, python: pl.DataFrame, is_python: Mask) -> _PythonFunctions:
    """Ops that are written in Python: subclasses of torch.autograd.Function by their class, ops of torch.library by their function. An op
    is the Python function that torch's own Python code calls."""
    size = len(words.distinct)
    torchs_own = pl.col("file").str.contains(_AUTOGRAD_FILE) | pl.col("file").str.contains(_LIBRARY_FILE)
    method = pl.when(pl.col("name").str.contains(_METHOD) & ~torchs_own).then("name")
    of_class = words.of_nodes(_rows(size, names, python, method, lambda name: _class_name(name.rpartition(".")[0])))
    backward = words.of_nodes(_mask(size, python, pl.col("name").str.contains(r"\.(?:backward|vjp)$"))) > 0
    applies = words.of_nodes(_mask(size, python, pl.col("file").str.contains(_AUTOGRAD_FILE))) > 0
    outer = nodes.nearest(words.parent, is_python, strict=True)
    method_of_function = is_python & (outer >= 0) & applies[outer] & (of_class > 0)

    theirs = ~pl.col("file").str.contains(_TORCH_FILE) & ~pl.col("file").str.contains(_STANDARD_FILE)
    function = words.of_nodes(_rows(size, names, python, pl.when(theirs).then("name"), _class_name))
    calls_op = pl.col("file").str.contains(_OPS_FILE) & pl.col("name").str.contains(_CALLS_OP)
    gate = nodes.nearest(words.parent, words.of_nodes(_mask(size, python, calls_op)) > 0, strict=True)
    # The first function outside of torch that runs inside of the call: node numbers increase inwards.
    of_library = (function > 0) & (gate > 0) & (gate > nodes.nearest(words.parent, function > 0, strict=True))
    op = np.where(method_of_function, of_class, np.where(of_library, function, 0))
    return _PythonFunctions(op, method_of_function & backward)


def _kernels_of_others(words: WordTrie, names: _Names, native: pl.DataFrame) -> Ints:
    """Ops of other libraries: the functions in these libraries that the dispatcher calls."""
    size = len(words.distinct)
    own = _rows(size, names, native, pl.when(~pl.col("module").str.contains(_TORCH_LIBRARY)).then("name"), str)
    functor = words.of_nodes(_mask(size, native, pl.col("name").str.contains(_FUNCTOR))) > 0
    inside = (words.parent > 0) & functor[np.maximum(words.parent, 0)] & ~functor
    return np.where(inside, words.of_nodes(own), 0)


def _rows(size: int, names: _Names, symbols: pl.DataFrame, text: pl.Expr, name: Callable[[str], str]) -> Ints:
    """For each word a row of names: that of `name(text)` for its outermost function that has a text."""
    row = np.zeros(size, dtype=np.int64)
    if symbols.is_empty() or (named := symbols.select("word", text=text).drop_nulls()).is_empty():
        return row  # most programs have no op of most kinds
    named = named.unique("word", keep="first", maintain_order=True)
    texts = named["text"].unique(maintain_order=True)
    rows = pl.DataFrame({"text": texts, "row": pl.Series([names.row(name(each)) for each in texts], dtype=pl.Int64)})
    row[named["word"].to_numpy()] = named.join(rows, on="text", how="left", maintain_order="left")["row"].to_numpy()
    return row


def _mask(size: int, symbols: pl.DataFrame, which: pl.Expr) -> Ints:
    mask = np.zeros(size, dtype=np.int64)
    if not symbols.is_empty():
        mask[symbols.filter(which)["word"].to_numpy()] = 1
    return mask


def _first(*choices: Ints) -> Ints:
    """For each row the first value other than 0."""
    first = choices[0]
    for other in choices[1:]:
        first = np.where(first != 0, first, other)
    return first


def _last_part(name: str) -> str:
    return name.split("<", 1)[0].rpartition("::")[2].strip()


def _class_name(qualified: str) -> str:
    """`make.<locals>.MyFn` → `MyFn`."""
    return qualified.rpartition(".<locals>.")[2]
