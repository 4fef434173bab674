"""Names of ops in the HLO modules that a trace has beside its events: by module and instruction."""

from __future__ import annotations

from aiflame.exchange.readers.making import Making
from aiflame.exchange.readers.protobuf import fields, message, text
from aiflame.exchange.readers.xla.space import Plane

PLANE = "/host:metadata"
_MOST = 64 << 20
"""Bytes of all modules."""


def names_of_ops(planes: list[Plane], wanted: set[tuple[str, str]], making: Making) -> dict[tuple[str, str], str]:
    """`wanted`: pairs of a module and an instruction."""
    names: dict[tuple[str, str], str] = {}
    modules = {module for module, _ in wanted}
    left = _MOST
    for plane in planes:
        for named in plane.named if plane.name == PLANE else ():
            content = named.stats.get("Hlo Proto") or named.stats.get("hlo_proto")
            if not isinstance(content, memoryview) or named.name.partition("(")[0] not in modules:
                continue
            left -= len(content)
            if left < 0:
                making.note(f"the trace has more than {_MOST >> 20} MB of HLO modules: some ops have no names")
                return names
            _read(content, wanted, names)
    return names


def _read(content: memoryview, wanted: set[tuple[str, str]], names: dict[tuple[str, str], str]) -> None:
    """HloProto → HloModuleProto → HloComputationProto → HloInstructionProto → OpMetadata"""
    for number, module in fields(content):
        if number != 1:
            continue
        name, computations = "", []
        for number, value in fields(message(module)):
            if number == 1:
                name = text(value)
            elif number == 3:
                computations.append(message(value))
        for computation in computations:
            for number, value in fields(computation):
                if number == 2:
                    instruction, op = _instruction(message(value))
                    if op and (name, instruction) in wanted:
                        names.setdefault((name, instruction), op)


def _instruction(value: memoryview) -> tuple[str, str]:
    name, op = "", ""
    for number, part in fields(value):
        if number == 1:
            name = text(part)
        elif number == 7:
            op = next((text(own) for number, own in fields(message(part)) if number == 2), "")
    return name, op
