"""Waits inside the profiled program until it imports a module that we support, and then loads our module for it.

The collector runs this file while the interpreter may still be starting: only `sys` and the frozen half of importlib
are available, and no module on disk. (Even `from __future__` would be an import.) The program notices nothing: exceptions become notes,
and imports go on unchanged.
"""

import _frozen_importlib as machinery
import _frozen_importlib_external as files
import posix
import sys

import _aiflame

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType
    from typing import Any

HOOKS = {
    "threading": "thread_names",
    "torch": "torch_hooks",
    "torch.distributed.distributed_c10d": "torch_distributed",
    "torch._dynamo.utils": "recompilations",
    "torch._inductor.compile_fx": "inductor",
    "triton": "triton_names",
    "triton.compiler.compiler": "triton_ir",
    "triton.compiler": "intra",
    "jax": "jax_hooks",
}
"""A module of the program → our module, whose `install(module)` is called when the former has been imported or reloaded. Our module
may have a function `recording_began()`: tables are empty, and rows sent before are forgotten (a further recording in this process, or one
in the child of a fork), and a function `tick()`, which is called about once a second, in the main thread."""

PACKAGE = "_aiflame_target"
GPU_MEMORY, HOST_MEMORY = 1 << 6, 1 << 21
"""Bits of `_aiflame.features`."""
FOLDER = __file__.rpartition("/")[0]
SOURCES: "dict[str, str]" = globals().get("SOURCES", {})
"""Texts of our modules by name, before this file's text, where the program does not see our files (`recorder/attach/sending.py`)."""


class _Loader(files.SourceFileLoader):
    """Loads our modules. It writes no byte code: the folder may be read-only, or belong to another user."""

    def set_data(self, *_: object, **__: object) -> None:
        pass

    def path_stats(self, path: str) -> "Any":
        if SOURCES:
            raise OSError
        return super().path_stats(path)

    def get_data(self, path: str) -> bytes:
        name = path.rpartition("/")[2].removesuffix(".py")
        return SOURCES[name].encode() if name in SOURCES else super().get_data(path)


class _Watched:
    """Replaces a module's loader, and behaves like it, until the module is executed: then it restores the original."""

    def __init__(self, spec: "ModuleSpec", loader: "Any") -> None:
        self._spec, self._loader = spec, loader

    __class__ = property(lambda self: type(self._loader))

    def __getattr__(self, name: str) -> "Any":
        if name in ("_spec", "_loader"):  # a copy has no loader yet
            raise AttributeError(name)
        return getattr(self._loader, name)

    def create_module(self, spec: "ModuleSpec") -> "ModuleType | None":
        create = getattr(self._loader, "create_module", None)
        module: ModuleType | None = create(spec) if create else None
        return module

    def exec_module(self, module: "ModuleType") -> None:
        for owner, name in ((self._spec, "loader"), (module.__spec__, "loader"), (module, "__loader__")):
            if getattr(owner, name, None) is self:
                setattr(owner, name, self._loader)
        self._loader.exec_module(module)
        _install(self._spec.name)


# The import system takes its own frames out of the traceback of an import that fails. This one of ours lies between them.
_code = _Watched.exec_module.__code__
_Watched.exec_module.__code__ = _code.replace(co_filename=machinery.module_from_spec.__code__.co_filename)


class _Finder:
    """The first finder on sys.meta_path. Other modules cost only one look-up."""

    def __init__(self) -> None:
        self._busy: set[str] = set()

    def find_spec(self, name: str, path: "Sequence[str] | None" = None, target: "ModuleType | None" = None) -> "ModuleSpec | None":
        if name in HOOKS:
            return self._watched(name, path, target)
        return _own_spec(name) if name.startswith(PACKAGE) else None

    def _watched(self, name: str, path: "Sequence[str] | None", target: "ModuleType | None") -> "ModuleSpec | None":
        # Other finders may ask all of sys.meta_path in turn. One thread at a time is here: the import system locks the name.
        if name in self._busy:
            return None
        self._busy.add(name)
        try:
            spec = self._spec_of_others(name, path, target)
        finally:
            self._busy.discard(name)
        if spec is not None and hasattr(spec.loader, "exec_module"):
            spec.loader = _Watched(spec, spec.loader)  # type: ignore[assignment]
        return spec

    def _spec_of_others(self, name: str, path: "Sequence[str] | None", target: "ModuleType | None") -> "ModuleSpec | None":
        for finder in list(sys.meta_path):
            find: Callable[..., ModuleSpec | None] | None = None if finder is self else getattr(finder, "find_spec", None)
            spec = find(name, path, target) if find else None
            if spec is not None:
                return spec
        return None


def _own_spec(name: str) -> "ModuleSpec | None":
    short = name[len(PACKAGE) + 1 :]
    path = f"{FOLDER}/{short}.py"
    try:
        if short not in SOURCES:
            posix.stat(path)
    except OSError:
        return None
    return files.spec_from_file_location(name, path, loader=_Loader(name, path))


def _load(name: str) -> "ModuleType | None":
    """Our module of that name, loaded without sys.meta_path; None if it does not exist."""
    full = f"{PACKAGE}.{name}"
    module = sys.modules.get(full)
    spec = None if module is not None else _own_spec(full)
    if spec is None or spec.loader is None:
        return module
    module = machinery.module_from_spec(spec)
    sys.modules[full] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[full]
        raise
    return module


def _install(name: str) -> None:
    _seen.add(name)
    try:
        ours = _load(HOOKS[name])
        if ours is not None:
            ours.install(sys.modules[name])
            _installed[name] = ours
    except Exception as error:
        _note(error)


def _note(error: Exception) -> None:
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    file = trace.tb_frame.f_code.co_filename.rpartition("/")[2] if trace else ""
    line = trace.tb_lineno if trace else 0
    _aiflame.note(f"Python of aiflame's in the program failed at {file}:{line}: {type(error).__name__}: {error}".replace("\n", " "))


def look_around() -> None:
    """Called by the collector from time to time, because the program may have replaced sys.meta_path, or imported modules without it."""
    if sys.meta_path is None:  # the interpreter is being taken down
        return
    if not any(finder is _finder for finder in sys.meta_path):
        sys.meta_path.insert(0, _finder)
    for name in HOOKS:
        module = sys.modules.get(name) if name not in _seen else None
        if module is not None and not getattr(getattr(module, "__spec__", None), "_initializing", False):
            _install(name)
    for ours in list(_installed.values()):
        tick = getattr(ours, "tick", None)
        if tick is not None:
            tick()


def _watch_memory() -> None:
    """Of devices, only the blocks of torch are counted."""
    if _aiflame.features & (GPU_MEMORY | HOST_MEMORY):
        HOOKS["os" if _aiflame.features & HOST_MEMORY else "torch.cuda.memory"] = "memory_growth"


def recording_began() -> None:
    _watch_memory()
    for ours in list(_installed.values()):
        begin = getattr(ours, "recording_began", None)
        if begin is None:
            continue
        try:
            begin()
        except Exception as error:
            _note(error)


def _in_ring() -> bool:
    """True if a flight recorder records this process: it takes requests."""
    try:
        posix.stat(posix.environ[b"AIFLAME_PROFILE"] + b"/requests")
    except (KeyError, OSError):
        return False
    return True


if _in_ring():
    HOOKS["site"] = "moments"
if _aiflame.features & HOST_MEMORY:
    HOOKS["io"] = "refusals"
_watch_memory()
_finder = _Finder()
_seen: set[str] = set()
_installed: "dict[str, ModuleType]" = {}
_package = type(sys)(PACKAGE)
_package.__path__ = [FOLDER]
sys.modules[PACKAGE] = _package
look_around()
