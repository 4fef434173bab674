"""Compiles the instrumented twin of a kernel, under its own cache key, so that neither is ever used for the other.

A twin is requested by a compiler option that is part of every cache key (`instrumentation_mode`) and identifies the recipe. Kernels
compiled without it do not change: our stages are added to the backend's only for kernels with this option.
"""

from __future__ import annotations

import copy
import dataclasses
import functools
import hashlib
import importlib
import inspect
import linecache
import re
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from aiflame.intra import lowering, occupancy
from aiflame.intra.errors import Refused
from aiflame.intra.insertion import insert, until_there
from aiflame.intra.lowering import Lowering
from aiflame.intra.ops import read
from aiflame.intra.passes import MOST_SCOPES, Kernel, Pass, Scope

PREFIX = "aiflame_"
"""Prefix of `instrumentation_mode` for twins. (Triton searches it for names of sanitizers, which no hexadecimal number contains.)"""
FIELD = "aiflame_intra"
"""Key of the scopes in a twin's metadata."""


@dataclasses.dataclass(frozen=True, slots=True)
class Recipe:
    """The passes and the sizes of memory with which a twin is compiled."""

    passes: tuple[tuple[str, Pass], ...]
    warps: tuple[int, ...] | None = None
    """Warps whose records are kept; None: the first of each group of four, or all if there are fewer than eight."""
    segment_bytes: int = 32768
    """The most bytes of a warp's records, a power of two."""
    shared: bool | None = None
    """True if records stay in shared memory until a block ends; None: if there is room for them."""
    shared_bytes: int = 0
    """Bytes of shared memory in a block that are free for records."""
    clock_bits: int = 43
    """Bits of a record's clock. With 32 it wraps within seconds, but a record takes fewer instructions."""

    @property
    def mode(self) -> str:
        room = self.segment_bytes, self.shared, self.shared_bytes, self.clock_bits
        source = [_package_hash(), [(name, _code(one)) for name, one in self.passes], self.warps, *room]
        return PREFIX + hashlib.sha256(repr(source).encode()).hexdigest()[:24]


@functools.cache
def _package_hash() -> str:
    """A hash of this package: another version may compile other kernels with the same passes."""
    files = sorted(Path(__file__).parent.glob("*.py"))
    return hashlib.sha256(b"\0".join(file.read_bytes() for file in files)).hexdigest()


SMALLEST_SEGMENT = 128
SMALL_SEGMENT = 1024
"""In bytes, for a warp. With less room, fewer warps are recorded; then blocks overwrite earlier ones, if the device supports it: a few
complete blocks are worth more than the last moments of all."""
SMALLEST_SHARED = 512
"""In bytes, for a warp. With less room in shared memory, records go to global memory at once."""
ROOMY_SEGMENT = 4096
"""In bytes, for a warp. Rings are larger only if all rings of a launch take at most a quarter of the limit, since each is copied and stored
as a whole. If shared memory is short, fewer warps get rings of this size, rather than all warps smaller ones: all warps do much the
same."""


def fitting(recipe: Recipe, kernel: Any, ctas: int, most_bytes: int, *, go_round: bool = False) -> Recipe:
    """The recipe with memory for records reduced to `most_bytes` for `ctas` blocks: smaller rings first, then fewer warps. Shared memory is
    limited to the room that the compiled and loaded kernel leaves. `go_round`: later blocks may overwrite earlier ones."""
    text, metadata = str(kernel.asm.get("ttgir", "")), kernel.metadata
    main, roles = _MAIN_WARPS.search(text), _warps_of_roles(text)
    all_warps = warps = _warps(int(main[1]) if main else int(metadata.num_warps), roles, recipe.warps)
    each = most_bytes // max(1, ctas)
    segment = _halved(recipe.segment_bytes, ROOMY_SEGMENT, each // 4 // max(1, len(warps)))
    each -= lowering.SCRATCH_ALIGNMENT
    segment = _halved(segment, SMALL_SEGMENT, each // max(1, len(warps)))
    while segment * len(warps) > each and len(warps) > 2 and recipe.warps is None and not roles:
        warps = warps[::2]
    if segment * len(warps) > each and not go_round:
        segment = _halved(segment, SMALLEST_SEGMENT, each // max(1, len(warps)))
        warps = warps[:1] if segment * len(warps) > each else warps
    kept = recipe.warps if warps == all_warps else tuple(warps)
    return dataclasses.replace(recipe, segment_bytes=segment, warps=kept, shared_bytes=_shared_room(recipe.shared, kernel))


def _halved(size: int, least: int, most: int) -> int:
    while size > max(least, most):
        size //= 2
    return size


def _shared_room(shared: bool | None, kernel: Any) -> int:
    """Bytes of shared memory for records. `shared` None: only as much as does not reduce the blocks on a multiprocessor."""
    metadata, target = kernel.metadata, kernel.metadata.target
    used, registers = int(metadata.shared), getattr(kernel, "n_regs", None)
    if shared:
        return max(lowering.shared_memory(target.backend, str(target.arch)) - used - lowering.SCRATCH_ALIGNMENT, 0)
    if shared is False or target.backend != "cuda" or registers is None:
        return 0
    return occupancy.spare_shared(re.sub(r"\D", "", str(target.arch)), 32 * int(metadata.num_warps), int(registers), used)


_MAIN_WARPS = re.compile(r'"ttg\.num-warps" = (\d+)')
_recipes: dict[str, Recipe] = {}
_hooked: set[Any] = set()
_user_scopes = threading.local()


def twin(kernel: Any, recipe: Recipe) -> Any:
    """The instrumented twin of a compiled kernel (Triton's CompiledKernel), which does not change.

    Raises `Refused` if the kernel cannot be instrumented, and any exception of the compiler."""
    lowering.version(), lowering.dialect()
    source, metadata = kernel.src, kernel.metadata
    if not hasattr(source, "make_ir") or not hasattr(source, "fn"):
        raise Refused("it was not compiled from a Triton function")
    if getattr(metadata, "instrumentation_mode", ""):
        raise Refused(f"it is already instrumented ({metadata.instrumentation_mode})")
    target = metadata.target
    _hook(lowering.backend_class(target.backend))
    _recipes[recipe.mode] = recipe
    source = copy.copy(source)
    make = source.make_ir
    source.make_ir = functools.partial(_with_user_scopes, make)
    options = {**_options(kernel), "instrumentation_mode": recipe.mode}
    result = importlib.import_module("triton.compiler").compile(source, target=target, options=options)
    if not description(result):
        raise Refused("the passes were not run")
    return result


def description(kernel: Any) -> dict[str, Any]:
    """The scopes in a twin's metadata; empty for other kernels."""
    scopes = getattr(kernel.metadata, FIELD, None)
    return dict(scopes) if isinstance(scopes, dict) else {}


def _options(kernel: Any) -> dict[str, Any]:
    metadata = kernel.metadata
    options = metadata._asdict()
    # The metadata of a warp-specialized kernel counts the warps of all its roles.
    match = _MAIN_WARPS.search(str(kernel.asm.get("ttgir", "")))
    if match:
        options["num_warps"] = int(match[1])
    if options.get("extern_libs"):
        options["extern_libs"] = dict(options["extern_libs"])
    for name in ("supported_fp8_dtypes", "deprecated_fp8_dot_operand_dtypes", "allowed_dot_input_precisions", "cluster_dims"):
        if isinstance(options.get(name), list):
            options[name] = tuple(options[name])
    return {name: value for name, value in options.items() if name not in ("ir_override", "hash", "name", "target")}


def _hook(backend: Any) -> None:
    """Adds our stages to a backend, once. They do nothing for kernels whose options contain no recipe."""
    if backend in _hooked:
        return
    _hooked.add(backend)
    add: Callable[..., Any] = backend.add_stages

    @functools.wraps(add)
    def add_stages(self: Any, stages: Any, options: Any, *more: Any, **named: Any) -> Any:
        answer = add(self, stages, options, *more, **named)
        recipe = _recipes.get(str(getattr(options, "instrumentation_mode", "")))
        if recipe is not None:
            _instrument_stages(self, stages, recipe)
        return answer

    backend.add_stages = add_stages


def _instrument_stages(backend: Any, stages: Any, recipe: Recipe) -> None:
    to_ttgir, to_llvm = stages["ttgir"], stages["llir"]
    target = backend.target

    def ttgir(source: Any, metadata: Any) -> Any:
        module = to_ttgir(source, metadata)
        metadata[FIELD] = instrument(module, recipe)
        return module

    def llir(source: Any, metadata: Any) -> Any:
        scopes = metadata[FIELD]
        kept = tuple(scopes["warp_ids"]), scopes["segment_bytes"], scopes["shared"], scopes["clock_bits"]
        how = Lowering(target.backend, str(target.arch), *kept)
        with lowering.active(how):
            return to_llvm(source, metadata)

    stages["ttgir"], stages["llir"] = ttgir, llir


def instrument(module: Any, recipe: Recipe) -> dict[str, Any]:
    """Inserts a recipe's scopes into a module, and returns their description.

    Raises `Refused`, before changing the module, if a pass fails or requests an impossible scope, or if there is no scope at all."""
    proton = lowering.dialect()
    ir = importlib.import_module("triton._C.libtriton").ir
    proton.load_dialects(module.context)
    builder = ir.builder(module.context)
    kernel = Kernel(read(module, builder), module.get_entry_func_name(), module.get_int_attr("ttg.num-warps") or 4)
    if len(kernel.functions) != 1:
        raise Refused(f"it calls functions that are not inlined ({len(kernel.functions) - 1})")
    name = ""
    try:
        for name, one in recipe.passes:
            kernel.run(name, one)
    except Exception as error:
        raise Refused(f"the pass {name} failed: {str(error) or type(error).__name__}") from error
    users = [op for op in kernel.all if op.name == "proton.record"]
    unbalanced = _unbalanced(module) if users else ""
    if unbalanced:
        raise Refused(f"its own scope {unbalanced!r} does not begin and end in turn")
    roles = _warps_of_roles(module.str()) if kernel.roles else []
    warps = _warps(kernel.warps, roles, recipe.warps)
    if not warps:
        raise Refused(f"it has no warp {', '.join(map(str, recipe.warps or ()))}")
    scopes = _kept(kernel.scopes, MOST_SCOPES - len(users) // 2)
    if not scopes and not users:
        raise Refused("the passes found nothing to time")
    wanted = _segment_bytes(scopes, len(users), recipe.segment_bytes)
    fewer_will_do = recipe.warps is None and not roles
    warps, segment, shared = _room(wanted, warps, recipe, 2 if fewer_will_do else len(warps))
    names = insert(scopes, builder, proton.create_proton_record, until_there(module.str()))
    if not module.verify():
        raise Refused("the compiler does not accept the kernel with marks in it")
    numbers = {str(name): int(number) for number, name in proton.get_scope_id_names(module)}
    return {
        "scopes": _described(scopes, names, numbers, kernel),
        "left_out": len(kernel.scopes) - len(scopes),
        "segment_bytes": segment,
        "shared": shared,
        "clock_bits": recipe.clock_bits,
        "warp_ids": warps,
    }


def _room(wanted: int, warps: list[int], recipe: Recipe, fewest: int) -> tuple[list[int], int, bool]:
    """The warps whose records are kept, the bytes for each, and whether these are in shared memory."""
    if recipe.shared is False or (not recipe.shared and not recipe.shared_bytes):
        return warps, wanted, False
    if not recipe.shared_bytes:  # requested explicitly, and the available size was not determined
        return warps, wanted, True
    kept = warps
    while (segment := _power_of_two(recipe.shared_bytes // len(kept))) < min(wanted, ROOMY_SEGMENT) and len(kept) > fewest:
        kept = kept[::2]
    if recipe.shared or segment >= min(wanted, SMALLEST_SHARED):
        return kept, min(segment, wanted), True
    return warps, wanted, False


def _power_of_two(most: int) -> int:
    return 1 << max(most, lowering.RECORD_BYTES).bit_length() - 1


def _segment_bytes(scopes: list[Scope], users: int, most: int) -> int:
    """The bytes for a warp; no more than it can fill in a kernel without marks in loops."""
    if users or any(scope.first.loop is not None for scope in scopes):
        return most
    return min(most, 1 << (2 * len(scopes) * lowering.RECORD_BYTES - 1).bit_length())


def _unbalanced(module: Any) -> str:
    """The name of a scope of the kernel's author whose begins and ends do not alternate, which the lowering cannot handle; empty: none.

    The text is searched, since the bindings do not show whether a mark is a begin or an end."""
    begun: set[str] = set()
    for end, name in re.findall(r'proton\.record (start|end) "([^"]*)"', module.str()):
        if (end == "start") is (name in begun):
            return str(name)
        begun ^= {name}
    return next(iter(begun), "")


def _warps_of_roles(text: str) -> list[int]:
    return [int(count) for count in re.findall(r"\bnum_warps\((\d+)\)", text)]


def _warps(main: int, roles: list[int], wanted: tuple[int, ...] | None) -> list[int]:
    """The warps whose records are kept. `main`: number of warps without a role, or with the first role."""
    total = main + sum(roles)
    if wanted is not None:
        return [warp for warp in wanted if warp < total]
    if any(count % 4 for count in roles):  # a group of four warps has several roles
        return [*default_warps(main)[:1], *range(main, total)]
    return list(default_warps(total))


def default_warps(count: int) -> tuple[int, ...]:
    """Warps of a group of four do the same work: with eight or more, the first represents its group."""
    return tuple(range(count)) if count < 8 else tuple(range(0, count, 4))


def _kept(scopes: list[Scope], most: int) -> list[Scope]:
    """Keeps at most `most` scopes, in their order; outer operations take precedence over inner ones, and earlier over later ones."""
    if len(scopes) <= most:
        return list(scopes)
    depth = {id(scope): len(list(scope.first.enclosing())) for scope in scopes}
    kept = {id(scope) for scope in sorted(scopes, key=lambda one: depth[id(one)])[:most]}
    return [scope for scope in scopes if id(scope) in kept]


def _described(scopes: list[Scope], names: list[str], numbers: dict[str, int], kernel: Kernel) -> list[dict[str, Any]]:
    loops = {loop: number for number, loop in enumerate(kernel.loops)}
    by_scope = {id(scope): numbers[name] for scope, name in zip(scopes, names, strict=True)}
    shown: dict[str, int] = {}
    rows = []
    for scope, name in zip(scopes, names, strict=True):
        shown[scope.name] = shown.get(scope.name, 0) + 1
        op = scope.first
        rows.append(
            {
                "id": numbers[name],
                "name": scope.name if shown[scope.name] == 1 else f"{scope.name} #{shown[scope.name]}",
                "pass": scope.of,
                "kind": scope.kind,
                "op": op.name,
                "file": op.file,
                "line": op.line,
                "loop": loops.get(op.loop) if op.loop is not None else None,
                "phase": scope.phase,
                "pair": by_scope.get(id(scope.issued_by)) if scope.issued_by else None,
            }
        )
    of_user = [(number, name) for name, number in numbers.items() if name not in names]
    for number, name in of_user:
        rows.append(
            {
                "id": number,
                "name": name,
                "pass": "user",
                "kind": "user",
                "op": "",
                "file": "",
                "line": 0,
                "loop": None,
                "phase": "span",
                "pair": None,
            }
        )
    return sorted(rows, key=lambda row: int(row["id"]))


def _with_user_scopes(make: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
    """Builds the IR of a twin with the scopes of the kernel's author (triton.profiler.language) as marks."""
    language = sys.modules.get("triton.profiler.language")
    if language is None or not hasattr(language, "record"):
        return make(*arguments, **named)
    if not getattr(language.record, FIELD, False):
        _listen_to_user_scopes(language)
    contexts = importlib.import_module("triton._C.libtriton").ir.context
    for one in (*arguments, *named.values()):
        if isinstance(one, contexts):
            lowering.dialect().load_dialects(one)  # a mark of a dialect that is not loaded aborts the process
    _user_scopes.wanted = True
    try:
        return make(*arguments, **named)
    finally:
        _user_scopes.wanted = False


def _listen_to_user_scopes(language: Any) -> None:
    own, flags = language.record, language.flags

    @functools.wraps(own)
    def record(*arguments: Any, **named: Any) -> Any:
        if not getattr(_user_scopes, "wanted", False) or flags.instrumentation_on:
            return own(*arguments, **named)
        semantics = set(language._SEMANTICS)
        flags.instrumentation_on = True
        language._SEMANTICS.update(language._ALL_SEMANTICS.values())
        try:
            return own(*arguments, **named)
        finally:
            flags.instrumentation_on = False
            language._SEMANTICS.intersection_update(semantics)

    setattr(record, FIELD, True)
    language.record = record


def _code(function: Pass) -> str:
    """Identifies the code of a pass, for the cache key: its file, which has its helper functions too, and its closure and defaults.

    A value without a stable text (an object with its address) makes the key differ, and the kernel is compiled again."""
    code = getattr(function, "__code__", None)
    if code is None:
        return repr(function)
    text = "".join(linecache.getlines(code.co_filename)).encode() or code.co_code + repr((code.co_names, code.co_consts)).encode()
    values = inspect.getclosurevars(function).nonlocals, function.__defaults__, function.__kwdefaults__
    return f"{function.__module__}.{function.__qualname__}:{hashlib.sha256(text + repr(values).encode()).hexdigest()[:16]}"
