"""Readable names of GPU kernels: the operation and its type, in some sixty letters.

`void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<c10::BFloat16>, std::array<char*, 3ul> >(…)` becomes
`vectorized_elementwise<CUDAFunctor_add<BFloat16>>`. Names that are not C++ (Triton, NCCL) stay as they are, but for those of
matrix products that encode type and tile in one word (`gemm_names.py`). `kernel_families.py` finds a kernel's kind of work.

Two steps, both linear in the name: `cpp_types.py` reads a demangled name into components with arguments; here these are judged.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

from aiflame.resolve.device.gemm_names import short_gemm
from aiflame.resolve.names.cpp_types import Component, path_of, split
from aiflame.resolve.names.long_names import outline
from aiflame.resolve.names.readable import LONGEST_FULL, clean, cut, demangle

LONGEST = 60
LONGEST_PLAIN = 80
"""The longest name that is a single word, of which every part may matter."""

_DEEPEST = 4
_MOST_WRAPPERS = 6
_ROOM = 36
"""Room for the arguments of an argument."""
_LIBRARIES = frozenset({"cub", "cudnn", "cutlass", "thrust", "cublasLt", "cufft", "cusparse", "cusolver", "nvfuser"})
"""Their namespace is kept, since the rest of the name alone is not informative."""
_SUFFIX = re.compile(r"(?<=.)_kernel(?:_impl|_cuda)*$|(?<=.)(?:_cuda|_impl)+$")
_DROPPED = re.compile(
    r"^(?:array|Array|(?:Trivial)?OffsetCalculator|(?:Load|Store)With(?:out)?Cast|TensorIteratorBase|.*Polic(?:y|ies)\w*|.*Metadata|void"
    r"|Params|integral_constant|true_type|false_type)$"
)
"""Arguments that describe how a kernel accesses memory, not its operation."""
_GENERIC = frozenset({"Kernel", "Kernel2", "device_kernel"})
"""CUTLASS's functions that only wrap a type, which does all the work."""
_BY_FUNCTOR = re.compile(r"elementwise|^reduce_kernel|multi_tensor_apply|^(?:static|for_each)_kernel|_kernel_agent")
"""Kernels that only loop over their functor."""
_WRAPPERS = {
    "ReduceOp": 1,
    "func_wrapper_t": 1,
    "BinaryFunctor": 3,
    "AUnaryFunctor": 3,
    "BUnaryFunctor": 3,
    "UnaryFunctor": 2,
    "enable_sm90_or_later": 0,
    "enable_sm80_to_sm89": 0,
}
"""Types that only wrap a functor → which of their arguments it is."""
_PASSING_ON = re.compile(r"^(?:opmath_(?:symmetric_)?)?gpu_\w*kernel\w*$")
"""Functions whose lambda only calls the functor that was passed to them."""
_TAG = re.compile(r"^__nv_(?:hdl_|dl_)?(?:wrapper_t|tag)")
_NUMBER = re.compile(r"^(?:\((?:unsigned )?(?:char|short|int|long|long long)\))?(-?\d+)(?:u|l|ul|ll|ull)?$")
_BUILTIN = re.compile(r"^(?:(?:unsigned|signed|long|short|char|int|float|double|bool|half|__int128|const) ?)+[*&]*$")
_BUILTINS = {
    "unsigned int": "uint", "unsigned long": "ulong", "unsigned char": "uchar", "long long": "longlong", "unsigned short": "ushort",
}  # fmt: skip
_PLAIN = frozenset(
    ("unsigned long short char int float double bool half BFloat16 Half bfloat16 complex " + " ".join(_BUILTINS.values())).split()
)
_FLAG = re.compile(r"^(?:true|false|\(.*|nullptr|-?[\d.]+f?|&.*)$", re.S)
_WORD = re.compile(r"\w+$")
_LAMBDA = "{lambda"
_CARRIER = re.compile(r"^(?:Collective\w*|[A-Z]|S\w{0,3}_|.*_GLOBAL__N_.*)$")
"""Words in mangled names that come before the important ones."""
_LENGTH = re.compile(r"\d{1,4}")
_MANGLED_PART = re.compile(r"IL[a-z](\d+)EE|L[a-z]n?\d+E|[ST][0-9A-Z]*_|(\d{1,4})(?=[A-Za-z_])")
"""A number that is the only argument of a template (sizes of tiles are `cute::C<128>`), or the length of a word. Between them: other
literals, and references to earlier parts."""


class _Level(NamedTuple):
    """The number of levels inside an argument that may still be shown, and of wrappers that may be removed around it."""

    depth: int
    wrappers: int = _MOST_WRAPPERS

    def deeper(self) -> _Level:
        return _Level(self.depth - 1, self.wrappers)

    def unwrapped(self) -> _Level:
        return _Level(self.depth, self.wrappers - 1)


@lru_cache(maxsize=1 << 14)
def short_name(name: str) -> str:
    """The short name of a kernel as compiled, or demangled. Never longer than `LONGEST_PLAIN`."""
    text = _readable(name)
    if _WORD.match(text):
        return _from_mangled(text) if text.startswith("_Z") else short_gemm(text) or cut(text, LONGEST_PLAIN)
    path = path_of(text)
    if not path:
        return cut(text, LONGEST)
    if path[-1].name == "device_kernel" and name.startswith("_Z"):
        return _from_mangled(name)  # the distinguishing part is nested deeply
    for depth in range(_DEEPEST, -1, -1):
        short = _kernel(path, _Level(depth))
        if len(short) <= LONGEST or (depth == 0 and _WORD.match(short) and len(short) <= LONGEST_PLAIN):
            return short
    return cut(short, LONGEST_PLAIN if _WORD.match(short) else LONGEST)


def full_name(name: str) -> str:
    """The demangled name."""
    return cut(_readable(name), LONGEST_FULL)


def _readable(name: str) -> str:
    """SYCL names a kernel by its type, or a function that is a kernel with a prefix."""
    return clean(demangle(own_name(name))).removeprefix("typeinfo name for ").removeprefix("__sycl_kernel_")


def own_name(name: str) -> str:
    """The name of a function in a kernel's section: NVIDIA's compiler calls it `$KERNEL$NAME`."""
    return name.rpartition("$")[2] or name if name.startswith("$") else name


def _kernel(path: list[Component], level: _Level) -> str:
    last = path[-1]
    if last.name.startswith(_LAMBDA):
        return _unnamed([one.name for one in path])
    arguments = _arguments(last, level)
    if last.name in _GENERIC and len(arguments) == 1:
        return short_gemm(arguments[0]) or arguments[0]  # the type is the name
    before = [one.name for one in path[:-1]]
    library = next((name + "::" for name in before if name in _LIBRARIES), "")
    base = last.name if library else _SUFFIX.sub("", last.name)
    if base.lower() == "kernel" and before:
        base = f"{before[-1]}::{base}"
    if last.name.startswith("flash_") and last.arguments and "traits" in last.arguments[0]:
        arguments = [part for part in arguments[0].partition("<")[2].rstrip(">").split(",") if part.isdigit()][:3] or arguments
    elif _BY_FUNCTOR.search(last.name):
        arguments = [one for one in arguments if not _is_plain(one)][:1] or arguments
    return _joined(library + base, arguments)


def _unnamed(names: list[str]) -> str:
    """A kernel of SYCL without a name: a function in a function that gives it to a queue. The outer one has the number of the call."""
    first = next(place for place, name in enumerate(names) if name.startswith(_LAMBDA))
    number = names[first].rpartition("#")[2].rstrip("}")
    return f"{names[first - 1]}::{_LAMBDA}#{number}}}" if first else names[-1]


def _joined(name: str, arguments: list[str], longest: int = LONGEST) -> str:
    """The name with as many arguments as fit."""
    if not arguments:
        return name
    whole = f"{name}<{','.join(arguments)}>"
    if len(whole) <= longest:
        return whole
    kept: list[str] = []
    room = longest - len(name) - len("<,…>")
    for one in arguments:
        if len(one) + 1 > room:
            break
        kept.append(one)
        room -= len(one) + 1
    return f"{name}<{','.join([*kept, '…'])}>" if kept else whole


def _arguments(component: Component, level: _Level) -> list[str]:
    """The readable part of template arguments, each type once."""
    if level.depth < 0:
        return []
    arguments: list[str] = []
    for text in component.arguments:
        short = _argument(text, level)
        if short and (short not in arguments or short.isdigit()):
            arguments.append(short)
    return arguments


def _argument(text: str, level: _Level) -> str:
    """A template argument; "" for one without information."""
    text = text.strip()
    if number := _NUMBER.match(text):
        return number[1]
    if _BUILTIN.match(text):
        plain = text.replace("const", "").replace(" *", "*").strip()
        stars = len(plain) - len(plain.rstrip("*&"))
        word = plain.rstrip("*&").strip()
        return _BUILTINS.get(word, word.replace(" ", "")) + "*" * stars
    if text.startswith("&") and (path := path_of(text[2:-1] if text.startswith("&(") else text[1:])):
        return _SUFFIX.sub("", path[-1].name)
    if _FLAG.match(text):
        return ""
    path = path_of(text)
    return _type(path, level) if path and level.wrappers > 0 else ""


def _type(path: list[Component], level: _Level) -> str:
    last = path[-1]
    if last.name.startswith(("{lambda", "{unnamed", "'lambda")) or last.name == "operator()":
        return _lambda(path, level)
    if _TAG.match(last.name):
        return _extended_lambda(last, level)
    if _DROPPED.match(last.name):
        return ""
    if (place := _WRAPPERS.get(last.name)) is not None and place < len(last.arguments):
        return _argument(last.arguments[place], level.unwrapped()) or last.name
    name = re.sub(r"^_*(?:nv_)?(?=[a-zA-Z])", "", last.name)
    return _joined(name, _arguments(last, level.deeper()), _ROOM) if level.depth > 0 else name


def _lambda(path: list[Component], level: _Level) -> str:
    """Names a lambda by the function in which it is written, and the type with which it works."""
    holder = next((one for one in path if one.called or one.name == "operator()"), path[0])
    place = path.index(holder)
    if holder.name == "operator()" and place > 0:
        holder = path[place - 1]
    functor = [short for one in holder.arguments[:4] if not _is_plain(short := _argument(one, level.unwrapped()))]
    if _PASSING_ON.match(holder.name) and functor:
        return functor[0]
    name = _SUFFIX.sub("", holder.name)
    if level.depth == 0 or name.startswith("{"):
        return name
    own = _arguments(holder, level.deeper())
    return _joined(name, own or _parameter(path[-1].name, level), _ROOM)


def _parameter(lambda_name: str, level: _Level) -> list[str]:
    """The type of the last parameter: in `{lambda(bool, c10::BFloat16)#1}` the first one is a condition."""
    parameters = list(split(lambda_name.partition("(")[2].rpartition(")")[0]))
    short = _argument(parameters[-1], level.deeper().unwrapped()) if parameters else ""
    return [short] if short else []


def _extended_lambda(component: Component, level: _Level) -> str:
    """`__nv_hdl_wrapper_t<…, __nv_dl_tag<void (*)(…), &at::native::silu_kernel, 2u>, float (float)>`: named by the function after the
    `&`."""
    for text in component.arguments if level.wrappers > 0 else ():
        if text.startswith("&") and (path := path_of(text[1:])):
            return _SUFFIX.sub("", path[-1].name)
        if text.startswith("__nv_") and (path := path_of(text)) and (name := _extended_lambda(path[-1], level.unwrapped())):
            kind = next((one.partition(" (")[0] for one in component.arguments if one.endswith(")") and " (" in one), "")
            short = _argument(kind, level.deeper()) if kind and level.depth > 0 else ""
            return f"{name}<{short}>" if short else name
    return ""


def _is_plain(short: str) -> bool:
    """True for a number or a basic type: it is not a functor."""
    word = short.rstrip("*")
    return not word or word.lstrip("-").isdigit() or word in _PLAIN


def _from_mangled(symbol: str) -> str:
    """For names on which the demangler gives up (see long_names.py): the function's name and the most specific words of its arguments."""
    parts = (outline(symbol) or _leading(symbol)).split("::")
    if not parts[-1]:
        return cut(symbol, LONGEST)
    words = list(_telling(symbol, symbol.find(parts[-1]) + len(parts[-1])))
    main = next((word for word in words if not word.isdigit() and not word.endswith("_t")), "")
    if parts[-1] in _GENERIC and main:
        return cut(_joined(main, [word for word in words if word != main]), LONGEST)
    name = f"{parts[0]}::{parts[-1]}" if parts[0] in _LIBRARIES and len(parts) > 1 else _SUFFIX.sub("", parts[-1])
    return cut(_joined(name, words), LONGEST)


def _leading(symbol: str) -> str:
    """The name at the front of a symbol that cannot be parsed to its end: it may be cut."""
    parts, at = [], 3
    while (match := _LENGTH.match(symbol, at)) and (end := match.end() + int(match[0])) <= len(symbol):
        parts.append(symbol[match.end() : end])
        at = end
    return "::".join(parts) if symbol.startswith("_ZN") else ""


def _telling(symbol: str, at: int) -> Iterator[str]:
    """Types and sizes in a mangled name, in their order: as many as may fit."""
    seen: set[str] = set()
    room = LONGEST
    while room > 0 and (match := _MANGLED_PART.search(symbol, at)):
        at = match.end() + int(match[2] or 0)
        word = match[1] or symbol[match.end() : at]
        if not word:
            continue
        telling = len(word) > 1 if match[1] else any(map(str.isupper, word)) or word.endswith("_t")
        if telling and not _DROPPED.match(word) and not _CARRIER.match(word) and (match[1] or word not in seen):
            yield word
            seen.add(word)
            room -= len(word)
