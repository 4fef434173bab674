"""Records the ops, layers and source lines of torch.compile's kernels when a compiled graph is ready to run.

Inductor calls `set_kernel_post_grad_provenance_tracing` for each kernel call that it writes into the generated module, with the graph
nodes that the kernel implements. We store their data on the `CompiledFxGraph`, with which it enters Inductor's caches and comes back from
them: no cache key depends on it, and unrecorded runs ignore it.
"""

from __future__ import annotations

import functools
import importlib
import json
import re
import sys
from bisect import bisect_right
from collections.abc import Callable, Iterable
from typing import Any

from . import kept_files

KEEP_IR = 2048
"""Feature.KEEP_IR"""

_TRACING = "set_kernel_post_grad_provenance_tracing"
_DONE = "_aiflame_done"
_CALLS = "_aiflame_calls"
_ORIGINS = "_aiflame_origins"
_FROM_ELSEWHERE = (
    "torch.compile: graphs came from a cache that was filled without recording: their kernels have ops and lines, but no layers; "
    "an empty cache (TORCHINDUCTOR_CACHE_DIR) brings them back"
)
_rows: list[tuple[str, str, str, str, str]] = []
"""Rows of `kernel_origins`"""

_VIEWS = {f"aten::{name}" for name in ("t", "permute", "view", "reshape", "transpose", "expand", "unsqueeze", "squeeze", "slice", "select")}
_DEFINITION = re.compile(r"^\s*(?:def (?:call|partition_\d+)\(|class Runner\b)")
_FUSED = re.compile(r"^(?:cpp|triton_[a-z]+)_fused_(?P<ops>\w+?)(?:_\d+)?$")
_CALL = re.compile(r"(?:^|[\s=(])(?P<name>(?:cpp|triton)_\w*|(?:extern_kernels|torch\.ops|aten)\.[\w.]+?)(?:\.run)?\(")


def install(module: Any) -> None:
    """`module`: torch._inductor.compile_fx, which has just been imported; nothing was compiled yet."""
    debug, graphs = (importlib.import_module(f"torch._inductor.{name}") for name in ("debug", "output_code"))
    original = getattr(debug, _TRACING)
    if getattr(original, _DONE, False):
        return

    @functools.wraps(original)
    def tracing(*args: Any, **named: Any) -> Any:
        handle = original(*args, **named)
        _guarded(_remember, *args, **named)
        return handle

    setattr(tracing, _DONE, True)
    # Some modules have imported the function already; others will import it from `debug`.
    for name, loaded in list(sys.modules.items()):
        if name.startswith("torch._inductor") and getattr(loaded, "__dict__", {}).get(_TRACING) is original:
            setattr(loaded, _TRACING, tracing)
    graph = graphs.CompiledFxGraph
    _follow(graph, "__init__", _attach)
    _follow(graph, "post_compile", _publish)
    if _aiflame().features & KEEP_IR:
        _precede(module, "_recursive_pre_grad_passes", _keep_pre_grad)


def recording_began() -> None:
    """Records the ready graphs again, in another recording of this process."""
    for row in _rows:
        _aiflame().append("kernel_origins", *row)


def _follow(owner: Any, name: str, then: Callable[..., None]) -> None:
    """Wraps the function so that `then` is called with the same arguments after it."""
    original = getattr(owner, name)

    @functools.wraps(original)
    def called(*args: Any, **named: Any) -> Any:
        answer = original(*args, **named)
        _guarded(then, *args, **named)
        return answer

    setattr(owner, name, called)


def _precede(owner: Any, name: str, first: Callable[..., None]) -> None:
    original = getattr(owner, name, None)
    if original is None:
        return

    @functools.wraps(original)
    def called(*args: Any, **named: Any) -> Any:
        _guarded(first, *args, **named)
        return original(*args, **named)

    setattr(owner, name, called)


def _guarded(function: Callable[..., None], *args: Any, **named: Any) -> None:
    """Calls our code. Errors become notes, and compiling goes on."""
    try:
        function(*args, **named)
    except Exception as error:
        _aiflame().note(f"torch.compile: origins of kernels are incomplete ({function.__name__}: {type(error).__name__})")


def _aiflame() -> Any:
    return sys.modules["_aiflame"]


def _torch(name: str) -> Any:
    """A module that Inductor has imported itself."""
    return importlib.import_module(f"torch.{name}")


# While a graph is compiled


def _remember(node_schedule: Any, kernel_name: str, *_: Any, **__: Any) -> None:
    """Stores a kernel call that Inductor has just written, with its nodes."""
    graph = _torch("_inductor.virtualized").V.graph
    while (parent := getattr(graph, "parent", None)) is not None:
        graph = parent
    graph.__dict__.setdefault(_CALLS, []).append((kernel_name, _parts(_fx_nodes(node_schedule))))


def _attach(self: Any, *args: Any, **named: Any) -> None:
    """Stores the origins on `self`, a CompiledFxGraph that was just compiled."""
    graph = named["graph"] if "graph" in named else args[1]
    calls = graph.__dict__.get(_CALLS, [])
    lines = _lines(self.source_code, {name for name, _ in calls})
    of_name = {name: list(numbers) for name, numbers in lines.items()}
    rows = []
    for name, ops in calls:
        line = of_name[name].pop(0) if of_name.get(name) else 0
        rows.append({"kernel": name, "line": line, "ops": ops})
    setattr(self, _ORIGINS, json.dumps({"backward": bool(getattr(graph, "is_backward", False)), "calls": rows}))


def _fx_nodes(schedule: Any) -> list[Any]:
    inner = [getattr(each, "node", None) for each in schedule] if isinstance(schedule, (list, tuple)) else [schedule]
    return list(dict.fromkeys(origin for each in inner if each is not None for origin in getattr(each, "origins", ())))


def _parts(nodes: list[Any]) -> list[dict[str, Any]]:
    """The original ops of some FX nodes, with the bytes that each would move if it ran alone."""
    groups: dict[str, list[Any]] = {}
    computed = [node for node in nodes if node.op == "call_function"]
    for node in [node for node in computed if not _passes_on(node)] or computed:
        groups.setdefault(json.dumps(_describe(node)), []).append(node)
    return [{**json.loads(key), "bytes": _moved(group)} for key, group in groups.items()]


def _describe(node: Any) -> dict[str, Any]:
    meta = node.meta
    modules = meta.get("nn_module_stack") or meta.get("fwd_nn_module_stack") or {}
    entries = [entry for entry in modules.values() if isinstance(entry, tuple) and len(entry) == 2]
    layer, outer = _layer(entries[-1][0], entries[0][0]) if entries else ("", "")
    file, line, function, code = _place(meta.get("stack_trace") or getattr(node, "stack_trace", "") or "")
    return {
        "op": _op(meta.get("original_aten") or node.target),
        "layer": layer,
        "outer": outer,
        "type": _class_name(entries[-1][1]) if entries else "",
        "file": file,
        "line": line,
        "function": function,
        "code": code,
        "backward": meta.get("partitioner_tag") == "is_backward",
    }


def _op(target: Any) -> str:
    packet = getattr(target, "_overloadpacket", target)
    name = getattr(packet, "_qualified_op_name", None)
    if name is None and callable(getattr(target, "name", None)):
        name = target.name()
    return str(name or getattr(target, "__name__", target))


def _class_name(kind: Any) -> str:
    return kind if isinstance(kind, str) else f"{kind.__module__}.{kind.__qualname__}"


def _layer(path: str, outermost: str) -> tuple[str, str]:
    """Dynamo names modules by how the compiled function reaches them: `L['self'].layers.0`, `L['model']`, `G['model'].head`."""
    base = "L['self']" if path.startswith("L['self']") and outermost.startswith("L['self']") else outermost
    inner = path[len(base) :] if path.startswith(base) else path
    return _dotted(inner), _dotted(outermost[len(base) :])


def _dotted(path: str) -> str:
    parts = re.split(r"[.\[\]]+", re.sub(r"@\d+$", "", path))
    names = [part.strip("'\"") for part in parts]
    return ".".join(name for name in names if name and name not in ("_modules", "__dict__", "_orig_mod"))


def _place(trace: str) -> tuple[str, int, str, str]:
    frames = re.findall(r'File "([^"\n]*)", line (\d+), in ([^\n]*)(?:\n\s*([^\n]*))?', trace)
    if not frames:
        return "", 0, "", ""
    file, line, function, code = frames[-1]
    return file, int(line), function.strip(), code.strip()


def _passes_on(node: Any) -> bool:
    """True if a node only makes a view or takes an item of a tuple, which moves no bytes."""
    if getattr(node.target, "__name__", "") == "getitem":
        return True
    return bool(getattr(node.target, "is_view", False))


def _moved(group: list[Any]) -> int:
    inside = set(group)
    read: dict[Any, int] = {}
    for node in group:
        for given in node.all_input_nodes:
            source, size = _source(given)
            if source not in inside and given not in inside:
                read[source] = max(size, read.get(source, 0))
    written = [node for node in group if any(user not in inside for user in node.users)] or group[-1:]
    return max(1, sum(read.values()) + sum(_bytes(node.meta.get("val")) for node in written))


def _source(node: Any) -> tuple[Any, int]:
    size = _bytes(node.meta.get("val"))
    while _passes_on(node) and node.all_input_nodes:
        node = node.all_input_nodes[0]
        size = min(size, _bytes(node.meta.get("val")) or size)
    return node, size


def _bytes(value: Any) -> int:
    if isinstance(value, (list, tuple)):
        return sum(_bytes(each) for each in value)
    if not hasattr(value, "shape") or not hasattr(value, "dtype"):
        return 0
    count = 1
    for size in value.shape:
        count *= _hint(size)
    return count * int(value.dtype.itemsize)


def _hint(size: Any) -> int:
    """The size; if it is symbolic, its value at compile time."""
    if isinstance(size, int):
        return size
    try:
        return int(size.node.hint)
    except Exception:
        return 1


# When a compiled graph is ready, from the compiler or from a cache


def _publish(self: Any, *_: Any, **__: Any) -> None:
    aiflame = _aiflame()
    file = _file(self)
    stored = self.__dict__.get(_ORIGINS)
    if stored is None:
        aiflame.note(_FROM_ELSEWHERE)
        origins = _from_source(self)
    else:
        origins = json.loads(stored)
    name = f"{_compile_id(self)} {'backward' if origins['backward'] else 'forward'}"
    module = next((each for each in reversed(_generated()) if getattr(each, "__file__", None) == file), None)
    for call in origins["calls"]:
        library = getattr(getattr(getattr(module, call["kernel"], None), "__self__", None), "__file__", None) or ""
        text = json.dumps({"line": call["line"], "library": library, "backward": origins["backward"], "ops": call["ops"]})
        row = (call["kernel"], "inductor", name, file, text)
        _rows.append(row)
        aiflame.append("kernel_origins", *row)
    if aiflame.features & KEEP_IR:
        _keep(name, "inductor", self.source_code, ".py")
        _keep(name, "fx post grad", getattr(self, "inductor_post_grad_graph_str", ""), ".fx.txt")


def _file(graph: Any) -> str:
    return str(_torch("_inductor.codecache").get_path(graph.cache_key, "py")[2])


def _generated() -> list[Any]:
    return list(_torch("_inductor.codecache").PyCodeCache.modules)


def _compile_id(graph: Any) -> str:
    context = _torch("_guards").CompileContext.try_get()
    if context is not None and context.compile_id is not None:
        return str(context.compile_id)
    return str(graph.__dict__.get("fx_kwargs", {}).get("graph_id", ""))


def _lines(source: str, names: Iterable[str]) -> dict[str, list[int]]:
    """The lines on which the generated module calls each of these."""
    wanted = {name: re.compile(rf"(?<![\w.]){re.escape(name)}(?:\.run)?\(") for name in names}
    numbers: dict[str, list[int]] = {name: [] for name in wanted}
    for number, line in _code(source):
        for name, pattern in wanted.items():
            if name in line and pattern.search(line):
                numbers[name].append(number)
    return numbers


def _code(source: str) -> Iterable[tuple[int, str]]:
    """The lines inside functions that call kernels, without comments."""
    inside = False
    for number, line in enumerate(source.splitlines(), 1):
        if _DEFINITION.match(line):
            inside = True
        elif inside and line[:1].strip() and not line.startswith("#"):
            inside = False
        elif inside and not line.lstrip().startswith("#"):
            yield number, line


def _from_source(graph: Any) -> dict[str, Any]:
    """Origins from a generated module alone: ops from comments and kernel names, and lines from its map of stacks."""
    source = graph.source_code.splitlines()
    stacks = sorted((line, trace or "") for line, trace in graph.__dict__.get("cache_linemap") or ())
    starts = [line for line, _ in stacks]
    backward = bool((graph.__dict__.get("fx_kwargs") or {}).get("is_backward"))
    calls: list[dict[str, Any]] = []
    for number, line in _code(graph.source_code):
        call = _CALL.search(line)
        if call is None:
            continue
        # Nodes are listed before their kernel is called; C++ kernels are called after the first node of the next kernel is listed.
        first, last = bisect_right(starts, calls[-1]["line"] if calls else 0), bisect_right(starts, number) - 1
        at = min(first, last)
        file, place, function, code = _place(stacks[at][1] if at >= 0 else "")
        comment = source[number - 2] if number > 1 else ""
        listed = re.search(r"Original ATen: \[([^\]]*)\]", comment)
        ops = [op.strip().replace(".", "::", 1) for op in listed[1].split(",") if op.strip()] if listed else _named_ops(call["name"])
        ops = [op for op in ops if op not in _VIEWS] or ops
        where = {"layer": "", "outer": "", "type": "", "file": file, "line": place, "function": function, "code": code}
        parts = [{"op": op, **where, "backward": backward, "bytes": 1} for op in ops]
        calls.append({"kernel": call["name"], "line": number, "ops": parts})
    return {"backward": backward, "calls": calls}


def _named_ops(kernel: str) -> list[str]:
    """`cpp_fused_add_native_layer_norm_2` names aten's add and native_layer_norm."""
    fused = _FUSED.match(kernel)
    if fused is None:
        return [f"aten::{kernel.split('.')[1]}" if kernel.startswith("extern_kernels.") else "::".join(kernel.split(".")[-3:-1]) or kernel]
    aten = _aten_names()
    words, ops = fused["ops"].strip("_").split("_"), []
    while words:
        size = next((size for size in range(len(words), 0, -1) if "_".join(words[:size]) in aten), 1)
        ops.append("aten::" + "_".join(words[:size]))
        words = words[size:]
    return list(dict.fromkeys(ops))


@functools.lru_cache(maxsize=1)
def _aten_names() -> frozenset[str]:
    names = _torch("_C")._dispatch_get_all_op_names()
    return frozenset(name.split("::", 1)[1].split(".")[0] for name in names if name.startswith("aten::"))


# With --keep-ir


def _keep_pre_grad(graph: Any, *_: Any, **__: Any) -> None:
    _keep(f"{_compile_id(graph)} forward", "fx pre grad", graph.print_readable(print_output=False), ".fx.txt")


def _keep(module: str, kind: str, text: str, suffix: str) -> None:
    """Writes a file into the profile's folder `kept`, named by its kind and module."""
    if not text:
        return
    aiflame = _aiflame()
    base = re.sub(r"\W+", "-", f"{kind} {module}")
    number = 0
    while not kept_files.write(aiflame.profile, name := f"{base}{f'-{number}' if number else ''}{suffix}", text):
        number += 1
    aiflame.append("kept_files", "", module, kind, name)
