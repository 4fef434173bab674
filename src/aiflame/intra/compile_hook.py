"""The instrumented twin of a kernel: compiled beside it, under a key of its own, so that neither is ever served for the other.

What asks for a twin is an option of the compiler's that is in every key of its cache (`instrumentation_mode`): it names the passes, and a
kernel compiled without it is what it always was. The backend's list of stages is lengthened only for kernels that have it.
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
"""Of `instrumentation_mode`, for kernels of ours. (Triton looks for the names of its sanitizers in it: no hexadecimal number has one.)"""
FIELD = "aiflame_intra"
"""Key of a twin's metadata for its scopes."""


@dataclasses.dataclass(frozen=True, slots=True)
class Recipe:
    """The recipe of a twin."""

    passes: tuple[tuple[str, Pass], ...]
    warps: tuple[int, ...] | None = None
    """Whose records are kept; None: of the first warp of each group of four, or of all where there are fewer than eight."""
    segment_bytes: int = 32768
    """The most for a warp, a power of two."""
    shared: bool | None = None
    """Whether records lie in shared memory until a block ends; None: where there is room for them."""
    shared_bytes: int = 0
    """That room, of a block."""
    clock_bits: int = 43
    """Of a record's clock; with 32, which wrap within seconds, a record is made of fewer instructions."""

    @property
    def mode(self) -> str:
        room = self.segment_bytes, self.shared, self.shared_bytes, self.clock_bits
        source = [_made_by(), [(name, _code(one)) for name, one in self.passes], self.warps, *room]
        return PREFIX + hashlib.sha256(repr(source).encode()).hexdigest()[:24]


@functools.cache
def _made_by() -> str:
    """Which aiflame makes twins: another one may make other kernels by the same passes."""
    files = sorted(Path(__file__).parent.glob("*.py"))
    return hashlib.sha256(b"\0".join(file.read_bytes() for file in files)).hexdigest()


SMALLEST_SEGMENT = 128
SMALL_SEGMENT = 1024
"""Of a warp. Where there is less, fewer warps are recorded; and then blocks overwrite those before them, if the device can do that: rather
a few blocks with their whole work than all of them with their last moments."""
SMALLEST_SHARED = 512
"""Bytes of a warp: with less room in shared memory, records go to global memory at once."""
ROOMY_SEGMENT = 4096
"""Rings are larger only where all of a launch's take no more than a quarter of what they may, since they are copied and kept as a whole;
and rather than smaller ones for all warps, which do much the same, some warps have this."""


def fitting(recipe: Recipe, kernel: Any, ctas: int, most_bytes: int, *, go_round: bool = False) -> Recipe:
    """The recipe with as much room for records as fits into `most_bytes` for that many blocks: a power of two for each warp, and at last
    for fewer warps; and with what room a compiled and loaded kernel has for them in shared memory. `go_round`: blocks for which there is
    no room left overwrite those before them."""
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
    """Where it may decide, only what leaves as many blocks on a multiprocessor as there are without."""
    metadata, target = kernel.metadata, kernel.metadata.target
    taken, registers = int(metadata.shared), getattr(kernel, "n_regs", None)
    if shared:
        return max(lowering.shared_memory(target.backend, str(target.arch)) - taken - lowering.SCRATCH_ALIGNMENT, 0)
    if shared is False or target.backend != "cuda" or registers is None:
        return 0
    return occupancy.spare_shared(re.sub(r"\D", "", str(target.arch)), 32 * int(metadata.num_warps), int(registers), taken)


_MAIN_WARPS = re.compile(r'"ttg\.num-warps" = (\d+)')
_recipes: dict[str, Recipe] = {}
_hooked: set[Any] = set()
_user_scopes = threading.local()


def twin(kernel: Any, recipe: Recipe) -> Any:
    """The instrumented twin of a compiled kernel (Triton's CompiledKernel). Refused where there can be none; whatever the compiler raises
    is passed on. The kernel itself stays as it is."""
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
    made = importlib.import_module("triton.compiler").compile(source, target=target, options=options)
    if not description(made):
        raise Refused("the passes were not run")
    return made


def description(kernel: Any) -> dict[str, Any]:
    """The scopes in a twin's metadata; empty for any other kernel."""
    found = getattr(kernel.metadata, FIELD, None)
    return dict(found) if isinstance(found, dict) else {}


def _options(kernel: Any) -> dict[str, Any]:
    metadata = kernel.metadata
    options = metadata._asdict()
    # A warp-specialized kernel's metadata have the warps of all its roles together.
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
    """Once for each backend. Kernels whose options do not name a recipe pass by."""
    if backend in _hooked:
        return
    _hooked.add(backend)
    add: Callable[..., Any] = backend.add_stages

    @functools.wraps(add)
    def add_stages(self: Any, stages: Any, options: Any, *rest: Any, **named: Any) -> Any:
        answer = add(self, stages, options, *rest, **named)
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
    """Puts a recipe's scopes into a module, and says what they are. Refused before anything is changed where a pass fails, asks for what
    cannot be, or finds nothing."""
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
    names = insert(scopes, builder, proton.create_proton_record, until_there if 'ttg.target = "cuda:' in module.str() else None)
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
    """The warps whose records are kept, bytes for each of them, and whether these lie in shared memory."""
    if recipe.shared is False or (not recipe.shared and not recipe.shared_bytes):
        return warps, wanted, False
    if not recipe.shared_bytes:  # it is asked for, and how much there is was not looked at
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
    """No more than a kernel without marks in loops can fill."""
    if users or any(scope.first.loop is not None for scope in scopes):
        return most
    return min(most, 1 << (2 * len(scopes) * lowering.RECORD_BYTES - 1).bit_length())


def _unbalanced(module: Any) -> str:
    """The name of a scope of the author's that the lowering would stumble over; empty: there is none. Which of its ends a mark is can only
    be read in the text."""
    begun: set[str] = set()
    for end, name in re.findall(r'proton\.record (start|end) "([^"]*)"', module.str()):
        if (end == "start") is (name in begun):
            return str(name)
        begun ^= {name}
    return next(iter(begun), "")


def _warps_of_roles(text: str) -> list[int]:
    return [int(count) for count in re.findall(r"\bnum_warps\((\d+)\)", text)]


def _warps(main: int, roles: list[int], wanted: tuple[int, ...] | None) -> list[int]:
    """Whose records are kept, of those that there are. `main`: those without a role, or with the first."""
    total = main + sum(roles)
    if wanted is not None:
        return [warp for warp in wanted if warp < total]
    if any(count % 4 for count in roles):  # groups of four have several roles in them
        return [*default_warps(main)[:1], *range(main, total)]
    return list(default_warps(total))


def default_warps(count: int) -> tuple[int, ...]:
    """Warps of one group of four do the same: the first stands for them where there are many."""
    return tuple(range(count)) if count < 8 else tuple(range(0, count, 4))


def _kept(scopes: list[Scope], most: int) -> list[Scope]:
    """As many as have a number, those of the outermost operations first."""
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
    """While a twin's source becomes IR, scopes that its author has put there (triton.profiler.language) become marks."""
    language = sys.modules.get("triton.profiler.language")
    if language is None or not hasattr(language, "record"):
        return make(*arguments, **named)
    if not getattr(language.record, FIELD, False):
        _listen_to_user_scopes(language)
    contexts = importlib.import_module("triton._C.libtriton").ir.context
    for one in (*arguments, *named.values()):
        if isinstance(one, contexts):
            lowering.dialect().load_dialects(one)  # a mark of a dialect that is not there aborts the process
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
    """What a pass does, for the cache's key: the file it is from, where what it calls is too, and what it was made with. Where the same
    cannot be seen to be the same (an object's address), the kernel is compiled once more."""
    code = getattr(function, "__code__", None)
    if code is None:
        return repr(function)
    text = "".join(linecache.getlines(code.co_filename)).encode() or code.co_code + repr((code.co_names, code.co_consts)).encode()
    made_with = inspect.getclosurevars(function).nonlocals, function.__defaults__, function.__kwdefaults__
    return f"{function.__module__}.{function.__qualname__}:{hashlib.sha256(text + repr(made_with).encode()).hexdigest()[:16]}"
