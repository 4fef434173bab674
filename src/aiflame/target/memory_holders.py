"""Containers of the program that get longer: lists, dictionaries, sets and deques, found from the variables of the running functions and of
the program's own modules, over attributes, items and closures.

It reads and calls nothing of the program's: no property, no `__getattr__`, no method of a class in Python. No reference outlives a call.
A walk takes the nearest objects first, and ends after `BUDGET_NS` of processor time.
"""

import sys
import time

import _aiflame

from . import memory_contents
from .memory_contents import attributes, class_dict, dict_getter, mro_of, name_of, newest_values

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from types import CodeType, FrameType
    from typing import Any

    Pairs = Iterable[tuple[Any, Any]]
    Reached = Iterator[tuple[Any, int, int]]
    Root = tuple[Pairs, tuple[str, str]]
    Modules = Iterator[tuple[str, dict[str, Any]]]

BUDGET_NS = 8_000_000
MOST_OBJECTS = 50_000
DEEPEST = 4
"""Steps from a variable. Modules of torch within modules count none."""
MOST_FRAMES = 40
MANY = 256
"""Of a longer container only the newest entries are looked into."""
NEWEST = 8
MOST_ADDRESSES = 32
MOST_ROWS = 8
_LONGEST = 200

LIST, DICT, SET, DEQUE, TUPLE, INSTANCE, FUNCTION, METHOD, CLASS, GENERATOR, OTHER = range(11)
MEASURED = (LIST, DICT, SET, DEQUE)
_ATOMS = {int, float, complex, bool, str, bytes, bytearray, type(None), type(Ellipsis), type(len), type(sys), range, slice}
_FUNCTION, _METHOD, _CELL = type(lambda: 0), type(memory_contents.Contents().of), type((lambda value: lambda: value)(0).__closure__[0])  # type: ignore[index]
_GENERATOR = type(_ for _ in ())
_KINDS: dict[type, int] = {
    list: LIST,
    dict: DICT,
    set: SET,
    tuple: TUPLE,
    _FUNCTION: FUNCTION,
    _METHOD: METHOD,
    type: CLASS,
    _GENERATOR: GENERATOR,
}
_HEAP_TYPE = 1 << 9
_FLAGS = type.__dict__["__flags__"].__get__
_MODULE = type(sys)
_MODULE_DICT: "Any" = vars(_MODULE)["__dict__"].__get__
_SLOT = type(_FUNCTION.__dict__["__globals__"])
_OPTIMIZED = 1
_STANDARD = getattr(sys.modules.get("os"), "__file__", "").rpartition("/")[0] or "/usr/lib/python"
_OURS = __file__.rpartition("/")[0]
_OF_MODULES = {
    *("training", "_parameters", "_buffers", "_modules", "_non_persistent_buffers_set", "_is_full_backward_hook"),
    *(f"_{when}_hooks" for when in ("backward_pre", "backward", "forward", "forward_pre", "state_dict", "state_dict_pre")),
    *(f"_forward_{when}" for when in ("hooks_with_kwargs", "hooks_always_called", "pre_hooks_with_kwargs")),
    *("_load_state_dict_pre_hooks", "_load_state_dict_post_hooks"),
}
"""Fields of torch's modules that are not looked into; `_modules` is followed otherwise."""


class Holder:
    """A container that got longer."""

    def __init__(self, path: str, owner: tuple[str, str], kind: str, items: int, added: int) -> None:
        self.path, (self.function, self.file), self.type, self.items, self.added = path, owner, kind, items, added
        self.content, self.graphs = "", 0
        self.addresses: list[int] = []


def lengths() -> dict[int, int]:
    """The lengths of the containers that hold anything but numbers and texts, by their addresses."""
    walk = Walk()
    return {id(value): length for value, length, _ in walk.containers()}


def longer(before: dict[int, int], least: int) -> list[Holder]:
    """The containers that have got so many entries more with memory of their own, those with the most first."""
    walk, contents, holders = Walk(), memory_contents.Contents(), []
    for value, length, at in walk.containers():
        added = length - before.get(id(value), length)
        if added < least:
            continue
        one = Holder(*walk.path(at), name_of(type(value)), length, added)
        for entry in newest(value, walk.kind(type(value)), min(added, MOST_ADDRESSES)):
            for name, address, graph in contents.of(entry):
                one.content, one.graphs = one.content or name, one.graphs | graph
                if address and len(one.addresses) < MOST_ADDRESSES:
                    one.addresses.append(address)
        if one.content:
            holders.append(one)
    holders.sort(key=lambda one: -one.added)
    return holders[:MOST_ROWS]


def newest(value: "Any", kind: int, most: int) -> list["Any"]:
    """The newest entries; of a set any."""
    try:
        if kind == LIST:
            return list.__getitem__(value, slice(-most, None))
        if kind == DICT:
            return newest_values(value, most)
        entries = _DEQUE.__reversed__(value) if kind == DEQUE else tuple.__iter__(value) if kind == TUPLE else set.__iter__(value)  # type: ignore[union-attr]
        return [one for one, _ in zip(entries, range(most), strict=False)]
    except RuntimeError:  # another thread changes it
        return []


_DEQUE = getattr(sys.modules.get("_collections") or sys.modules.get("collections"), "deque", None)
if _DEQUE is not None:
    _KINDS[_DEQUE] = DEQUE
_LENGTH: dict[int, "Any"] = {LIST: list.__len__, DICT: dict.__len__, SET: set.__len__, DEQUE: getattr(_DEQUE, "__len__", len)}


class Walk:
    """Breadth first. An object is in `_objects` with the place of the object that leads to it, and the text of the way from there."""

    def __init__(self) -> None:
        self._end = time.thread_time_ns() + BUDGET_NS
        self._objects: list[tuple[Any, int, str, int]] = []
        self._owners: list[tuple[str, str]] = []
        self._seen: set[int] = set()
        self._kind_of: dict[type, int] = dict(_KINDS)
        self._fields_of: dict[type, Fields] = {}
        self._contents = memory_contents.Contents()
        self._module = getattr(sys.modules.get("torch.nn.modules.module"), "Module", None)
        self._own_modules = dict(own_modules())
        self._add_roots()

    def containers(self) -> "Reached":
        """Each container that has an entry with something in it, with its length and its place."""
        at = 0
        while at < len(self._objects) or self._add_further():
            if at == len(self._objects):
                continue
            value, _, _, depth = self._objects[at]
            kind = self.kind(type(value))
            if kind in MEASURED:
                length = _LENGTH[kind](value)
                if length > 1 and type(next(iter(newest(value, kind, 1)), None)) not in (int, float, bool, type(None)):
                    yield value, length, at
            if depth < DEEPEST and len(self._objects) < MOST_OBJECTS:
                self._follow_if_still(value, kind, at, depth + 1)
            at += 1
            if not at % 32 and time.thread_time_ns() > self._end:
                return

    def _add_further(self) -> bool:
        root = next(self._further, None)
        if root is None or time.thread_time_ns() > self._end:
            return False
        self._add_all(*root)
        return True

    def path(self, at: int) -> tuple[str, tuple[str, str]]:
        """`trainer.losses`, and the function and file of the variable with which it begins."""
        texts = []
        while at >= 0:
            _, at, text, _ = self._objects[at]
            texts.append(text)
        return _plain("".join(reversed(texts))), self._owners[-at - 1]

    def kind(self, kind: type) -> int:
        family = self._kind_of.get(kind)
        if family is None:
            family = self._kind_of[kind] = self._new_kind(kind)
        return family

    def _new_kind(self, kind: type) -> int:
        for base in mro_of(kind):
            if base in _KINDS:
                return _KINDS[base]
        if self._contents.is_memory(kind) or not _FLAGS(kind) & _HEAP_TYPE:
            return OTHER
        return INSTANCE

    def _add(self, value: "Any", above: int, text: str, depth: int) -> None:
        kind = type(value)
        if kind in _ATOMS or id(value) in self._seen:
            return
        family = self.kind(kind)
        if family == OTHER or (family in _LENGTH and not _LENGTH[family](value)):
            return
        if family == FUNCTION and not (value.__closure__ or value.__defaults__ or value.__dict__):
            return
        if family == CLASS and not self._is_own_class(value):
            return
        self._seen.add(id(value))
        self._objects.append((value, above, text, depth))

    def _is_own_class(self, kind: type) -> bool:
        module = class_dict(kind).get("__module__")
        return type(module) is str and module in self._own_modules

    # --- Where it begins ---------------------------------------------------------------------------------------------------

    def _add_roots(self) -> None:
        """The variables of the program's own running functions, their modules, and `__main__`. The roots in `_further` come when all that
        these lead to was seen."""
        frame: FrameType | None = sys._getframe()
        near: dict[int, dict[str, Any]] = {id(names): names for name, names in self._own_modules.items() if name == "__main__"}
        of_libraries: list[Root] = []
        for _ in range(MOST_FRAMES):
            if frame is None:
                break
            code, names = frame.f_code, frame.f_globals
            if not code.co_filename.startswith(_OURS):
                own = is_own(code.co_filename)
                if own:
                    near[id(names)] = names
                if code.co_flags & _OPTIMIZED:
                    root = variables(frame, code), (_qualified(code), code.co_filename)
                    self._add_all(*root) if own else of_libraries.append(root)
            frame = frame.f_back
        for names in near.values():
            self._add_all(*_of_module(names))
        self._further = iter([*(_of_module(names) for names in self._own_modules.values() if id(names) not in near), *of_libraries])

    def _add_all(self, pairs: "Pairs", owner: tuple[str, str]) -> None:
        self._owners.append(owner)
        for name, value in pairs:
            if type(name) is str and not name.startswith("__"):
                self._add(value, -len(self._owners), name, 0)

    # --- Where it leads ----------------------------------------------------------------------------------------------------

    def _follow_if_still(self, value: "Any", kind: int, at: int, depth: int) -> None:
        try:
            self._follow(value, kind, at, depth)
        except RuntimeError:
            return  # another thread changes it

    def _follow(self, value: "Any", kind: int, at: int, depth: int) -> None:
        if kind in (LIST, TUPLE):
            few = tuple.__len__(value) if kind == TUPLE else list.__len__(value)
            for number, entry in enumerate(newest(value, kind, few if few <= MANY else NEWEST)):
                self._add(entry, at, _item(number) if few <= MANY else _item(None), depth)
        elif kind == DICT:
            if dict.__len__(value) <= MANY:
                for key, entry in list(dict.items(value)):
                    self._add(entry, at, _item(key), depth)
            else:
                for entry in newest_values(value, NEWEST):
                    self._add(entry, at, _item(None), depth)
        elif kind == DEQUE:
            for entry in newest(value, kind, NEWEST):
                self._add(entry, at, _item(None), depth)
        elif kind == FUNCTION:
            self._follow_function(value, at, depth)
        elif kind == GENERATOR:
            if value.gi_frame is not None:
                self._add_inner(variables(value.gi_frame, value.gi_code), at, depth)
        elif kind == METHOD:
            self._add(value.__self__, at, ".__self__", depth)
        elif kind == CLASS:
            self._add_attributes(list(class_dict(value).items()), at, depth)
        elif kind == INSTANCE:
            self._follow_instance(value, at, depth)

    def _follow_function(self, function: "Any", at: int, depth: int) -> None:
        code = function.__code__
        if not is_own(code.co_filename):
            return
        if function.__closure__:
            self._add_inner(zip(code.co_freevars, map(content, function.__closure__), strict=False), at, depth)
        defaults = function.__defaults__ or ()
        arguments = code.co_varnames[: code.co_argcount]
        self._add_inner(zip(arguments[len(arguments) - len(defaults) :], defaults, strict=False), at, depth)
        self._add_attributes(list((function.__dict__ or {}).items()), at, depth)

    def _add_inner(self, pairs: "Pairs", at: int, depth: int) -> None:
        for name, inner in pairs:
            self._add(inner, at, f"()'s {name}", depth)

    def _follow_instance(self, value: "Any", at: int, depth: int) -> None:
        kind = type(value)
        fields = self._fields_of.get(kind)
        if fields is None:
            fields = self._fields_of[kind] = Fields(kind, self._module)
        own = fields.attributes(value)
        if fields.of_torch:
            inner = own.get("_modules")
            own = {name: own[name] for name in own.keys() - _OF_MODULES}
            if type(inner) is dict:
                self._add_attributes(list(inner.items()), at, depth - 1)
        self._add_attributes(list(own.items()), at, depth)
        if fields.slots:
            self._add_attributes(fields.values_of_slots(value), at, depth)

    def _add_attributes(self, pairs: "Pairs", at: int, depth: int) -> None:
        for name, value in pairs:
            if type(value) not in _ATOMS and type(name) is str and not name.startswith("__"):
                self._add(value, at, f"[{name}]" if name.isdigit() else f".{name}", depth)


class Fields:
    """Where objects of a class keep their attributes."""

    def __init__(self, kind: type, module_of_torch: "type | None") -> None:
        self._getter = dict_getter(kind)
        self.of_torch = module_of_torch is not None and any(base is module_of_torch for base in mro_of(kind))
        slotted = [base for base in mro_of(kind) if "__slots__" in class_dict(base)]
        self.slots = [(name, one) for base in slotted for name, one in list(class_dict(base).items()) if type(one) is _SLOT]

    def attributes(self, value: "Any") -> dict[str, "Any"]:
        return attributes(value, self._getter)

    def values_of_slots(self, value: "Any") -> "Pairs":
        return [(name, _value_of_slot(member, value)) for name, member in self.slots]


def _value_of_slot(member: "Any", value: "Any") -> "Any":
    try:
        return member.__get__(value)
    except AttributeError:
        return None  # it has no value


def _of_module(names: dict[str, "Any"]) -> "Root":
    file = names.get("__file__")
    return list(names.items()), ("", file if type(file) is str else "")


def own_modules() -> "Modules":
    """The program's own modules, by the places of their files, and their variables: `__main__` first."""
    modules = sys.modules.copy()
    main = modules.pop("__main__", None)
    if type(main) is _MODULE:
        yield "__main__", _MODULE_DICT(main)
    for name, module in modules.items():
        if type(module) is _MODULE:  # lazy ones have classes of their own
            names = _MODULE_DICT(module)
            file = names.get("__file__")
            if type(file) is str and "-packages/" not in file and is_own(file):
                yield name, names


def is_own(file: str) -> bool:
    if file.startswith((_STANDARD, _OURS, "<frozen ")):
        return False
    return "/site-packages/" not in file and "/dist-packages/" not in file


def variables(frame: "FrameType", code: "CodeType") -> list[tuple[str, "Any"]]:
    """The local variables of a frame of this thread. `frame.f_locals` would keep references to them, up to 3.12."""
    cells = code.co_cellvars
    if sys.version_info >= (3, 11):
        cells = tuple(name for name in cells if name not in code.co_varnames)
    names = (*code.co_varnames, *cells, *code.co_freevars)
    return [(name, content(_aiflame.variable(frame, place))) for place, name in enumerate(names)]


def content(cell: "Any") -> "Any":
    if type(cell) is not _CELL:
        return cell
    try:
        return cell.cell_contents
    except ValueError:
        return None  # it is empty


def _item(key: "Any") -> str:
    """`['a']`, `[3]`; dots for keys of other types, whose texts the program makes."""
    short = repr(key) if type(key) is int or (type(key) is str and len(key) <= 40) else "…"
    return f"[{short}]"


def _qualified(code: "CodeType") -> str:
    return getattr(code, "co_qualname", code.co_name)


def _plain(text: str) -> str:
    return text[:_LONGEST].encode("utf-8", "backslashreplace").decode()
