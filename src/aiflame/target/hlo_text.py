"""Reads HLO modules as XLA prints them, and finds the ops that were fused into each kernel.

%multiply_add_fusion = f32[64,64]{1,0} fusion(%dot.1), kind=kLoop, calls=%fused_computation.1, metadata={op_name="…" …}
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

_COMPUTATION = re.compile(r"^(?P<entry>ENTRY\s+)?%?(?P<name>[\w.\-]+)\s*(?:\([^{]*)?\{\s*$")
_INSTRUCTION = re.compile(r"^\s+(?:ROOT\s+)?%?(?P<name>[\w.\-]+) = (?P<rest>.*)$")
_OPCODE = re.compile(r"(?:^|[\s)}\]])(?P<opcode>[a-z][\w\-]*)\((?P<operands>[^)]*)\)")
_SHAPE = re.compile(r"\b(?P<type>pred|[suf]\d+\w*|bf16|c\d+)\[(?P<sizes>[\d,<=]*)\]")
_CALLS = re.compile(r"\b(?:calls|to_apply)=%?([\w.\-]+)")
_OP_NAME = re.compile(r'op_name="((?:[^"\\]|\\.)*)"')
_FRAME = re.compile(r"stack_frame_id=(\d+)")
_SOURCE = re.compile(r'source_file="([^"]*)"(?:\s+source_line=(\d+))?')
_TEXT_ROW = re.compile(r'^(\d+) "(.*)"$')
_FIELDS = re.compile(r"(\w+)=(\d+)")
_TABLES = ("FileNames", "FunctionNames", "FileLocations", "StackFrames")

_NO_WORK = frozenset(("parameter", "constant", "tuple", "get-tuple-element", "bitcast", "after-all", "partition-id", "replica-id"))
_SPREADS = frozenset(("broadcast", "iota", "reshape"))
"""Ops that cost a fusion nothing."""
_WRAPPERS = re.compile(r"^(?:transpose|jvp|vmap|remat|checkpoint|custom_jvp|custom_vjp)\((.*)\)$")
_STRUCTURE = frozenset(("while", "body", "cond", "closed_call", "core_call", "checkpoint", "rematted_computation", "remat", "scan"))


@dataclass(frozen=True, slots=True)
class Kernel:
    name: str
    """Name of the HLO instruction. On GPUs the kernel has the same name, with `_` for dots and dashes."""
    ops: list[dict[str, Any]]


@dataclass(slots=True)
class _Instruction:
    name: str
    opcode: str
    operands: list[str]
    bytes: int
    called: str
    op_name: str
    file: str
    line: int
    function: str


@dataclass(slots=True)
class _Module:
    computations: dict[str, dict[str, _Instruction]] = field(default_factory=dict)
    tables: dict[str, dict[int, Any]] = field(default_factory=dict)


def kernels(text: str) -> Iterator[Kernel]:
    """All instructions that are kernels and whose ops are known."""
    module = _read(text)
    inside = {each.called for body in module.computations.values() for each in body.values() if each.opcode in ("fusion", "reduce", "sort")}
    for name, body in module.computations.items():
        if name in inside:
            continue
        for instruction in body.values():
            if instruction.opcode in _NO_WORK:
                continue
            fused = module.computations.get(instruction.called, {}) if instruction.opcode in ("fusion", "call") else {}
            ops = _ops(fused) or _ops({instruction.name: instruction}, body)
            if ops:
                yield Kernel(instruction.name, ops)


def _read(text: str) -> _Module:
    module = _Module()
    body: dict[str, _Instruction] | None = None
    table: dict[int, Any] | None = None
    for line in text.splitlines():
        if line in _TABLES:
            table = module.tables.setdefault(line, {})
        elif match := _COMPUTATION.match(line):
            table, body = None, module.computations.setdefault(match["name"], {})
        elif table is not None:
            _row(table, line)
        elif body is not None and (match := _INSTRUCTION.match(line)):
            instruction = _instruction(module, match["name"], match["rest"])
            body[instruction.name] = instruction
    return module


def _row(table: dict[int, Any], line: str) -> None:
    if match := _TEXT_ROW.match(line):
        table[int(match[1])] = match[2]
    elif line[:1].isdigit():
        table[int(line.split()[0])] = {key: int(value) for key, value in _FIELDS.findall(line)}


def _instruction(module: _Module, name: str, text: str) -> _Instruction:
    call = _OPCODE.search(text)
    shape = text[: call.start("opcode")] if call else text
    tail = text[call.end() :] if call else ""
    called, named, source = _CALLS.search(tail), _OP_NAME.search(tail), _SOURCE.search(tail)
    file, line, function = (source[1], int(source[2] or 0), "") if source else ("", 0, "")
    if not source and (frame := _FRAME.search(tail)):
        file, line, function = _place(module, int(frame[1]))
    operands = re.findall(r"%([\w.\-]+)", call["operands"]) if call else []
    opcode = call["opcode"] if call else ""
    return _Instruction(name, opcode, operands, _bytes(shape), called[1] if called else "", named[1] if named else "", file, line, function)


def _place(module: _Module, frame: int) -> tuple[str, int, str]:
    files, functions, locations, frames = (module.tables.get(name, {}) for name in _TABLES)
    location = locations.get(frames.get(frame, {}).get("file_location_id"), {})
    return files.get(location.get("file_name_id"), ""), location.get("line", 0), functions.get(location.get("function_name_id"), "")


def _bytes(shape: str) -> int:
    total = 0
    for array in _SHAPE.finditer(shape):
        count = 1
        for size in re.findall(r"\d+", array["sizes"]):
            count *= int(size)
        bits = re.search(r"\d+", array["type"])
        total += count * max(1, int(bits[0]) // 8 if bits else 1)
    return total


def _ops(body: dict[str, _Instruction], around: dict[str, _Instruction] | None = None) -> list[dict[str, Any]]:
    """The ops of a kernel: instructions with the same op and line are merged, with the bytes that they would move alone."""
    instructions = around or body
    groups: dict[str, list[_Instruction]] = {}
    working = [each for each in body.values() if each.opcode not in _NO_WORK and each.op_name]
    for each in [each for each in working if each.opcode not in _SPREADS] or working:
        groups.setdefault(json.dumps(_describe(each)), []).append(each)
    users: dict[str, set[str]] = {}
    for each in instructions.values():
        for operand in each.operands:
            users.setdefault(operand, set()).add(each.name)
    ops = []
    for key, group in groups.items():
        names = {each.name for each in group}
        read = {operand for each in group for operand in each.operands if operand not in names}
        written = [each for each in group if not users.get(each.name) or users[each.name] - names]
        moved = sum(instructions[name].bytes for name in read if name in instructions) + sum(each.bytes for each in written)
        ops.append({**json.loads(key), "bytes": max(1, moved)})
    return ops


def _describe(instruction: _Instruction) -> dict[str, Any]:
    scope, op = _scope(instruction.op_name)
    return {
        "op": f"jax::{op}",
        "layer": scope,
        "outer": "",
        "type": "",
        "file": instruction.file,
        "line": instruction.line,
        "function": instruction.function,
        "code": "",
        "backward": "transpose(" in instruction.op_name,
    }


def _scope(op_name: str) -> tuple[str, str]:
    """`jit(step)/transpose(jvp(Encoder))/layers_3/attn/dot_general` → (`Encoder.layers_3.attn`, `dot_general`)."""
    parts = [_bare(part) for part in _split(op_name.split(";")[0])]
    names = [part for part in parts[:-1] if part and part not in _STRUCTURE]
    return ".".join(names), parts[-1].partition("[")[0] or "jit"


def _bare(part: str) -> str:
    while match := _WRAPPERS.match(part):
        part = match[1]
    return "" if re.match(r"p?jit\(", part) else part


def _split(path: str) -> list[str]:
    """Splits a path at slashes outside of brackets."""
    parts, depth = [""], 0
    for letter in path:
        depth += (letter == "(") - (letter == ")")
        if letter == "/" and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    return parts
