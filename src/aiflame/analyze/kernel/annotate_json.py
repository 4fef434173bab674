"""A kernel in detail, as JSON. Keys are only ever added; percentages refer to the samples of the shown cubin."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from aiflame.analyze.kernel.annotate import Annotation, CodeLine, Count, Instruction, Line, Reasons, Shape
from aiflame.analyze.kernel.choice import Kernel
from aiflame.json_text import json_text, schema
from aiflame.resolve.device.stall_reasons import meaning


def to_json(answer: Annotation, scope: dict[str, object] | None = None) -> str:
    """`scope`: the scope of its launches and their time; everything else covers the whole run."""
    whole = answer.count.samples
    document = {
        "schema": schema("annotate"),
        **({"scope": scope} if scope is not None else {}),
        "kernel": _kernel(answer.kernel)
        | {
            "mean_ns": answer.kernel.gpu_time_ns / answer.kernel.launches if answer.kernel.launches else 0,
            "gpu_time_percent": _percent(answer.kernel.gpu_time_ns, answer.total_gpu_time_ns),
            "samples_percent": _percent(answer.kernel.samples, answer.total_samples),
        },
        "others": [_kernel(other) for other in answer.others],
        "shapes": [_shape(shape) for shape in answer.shapes],
        "sampling": {
            "samples": answer.sampling.samples,
            "dropped": answer.sampling.dropped,
            "period_cycles": [1 << period for period in answer.sampling.periods],
        },
        "cubin": _crc(answer.cubin) if answer.cubin is not None else None,
        "versions": [{"cubin": _crc(cubin), "samples": samples} for cubin, samples in answer.versions.items()],
        "count": _count(answer.count, whole),
        "reasons": {reason: _count(count, whole) | {"meaning": meaning(reason)} for reason, count in answer.reasons.items()},
        "files": [{"path": file.source.path, "text": file.source.origin.value} | _count(file.count, whole) for file in answer.files],
        "lines": [_line(line, whole) for file in answer.files for line in file.lines],
        "instructions": [_instruction(instruction, whole) for instruction in answer.instructions],
        "notes": list(answer.notes),
        "made_from": list(answer.made_from),
        "kept_files": list(answer.kept),
    }
    return json_text(document, indent=1)


def _kernel(kernel: Kernel) -> dict[str, Any]:
    return {
        "name": kernel.name,
        "short": kernel.short,
        "full": kernel.full,
        "launches": kernel.launches,
        "gpu_time_ns": kernel.gpu_time_ns,
        "samples": kernel.samples,
    }


def _shape(shape: Shape) -> dict[str, Any]:
    return {
        "device": shape.device,
        "grid": shape.grid,
        "block": shape.block,
        "registers": shape.registers,
        "static_shared": shape.static_shared,
        "dynamic_shared": shape.dynamic_shared,
        "local_bytes": shape.local_bytes,
        "launches": shape.launches,
        "gpu_time_ns": shape.gpu_time_ns,
    }


def _line(line: Line, whole: int) -> dict[str, Any]:
    return {
        "file": line.file,
        "line": line.number,
        "text": line.text,
        **_count(line.count, whole),
        "inclusive_samples": line.inclusive.samples,
        "inclusive_percent": _percent(line.inclusive.samples, whole),
        "reasons": _reasons(line.reasons),
        "blocks": [
            {"inlined_into": _places(block.callers), "offsets": [instruction.offset for instruction in block.instructions]}
            for block in line.blocks
        ],
    }


def _instruction(instruction: Instruction, whole: int) -> dict[str, Any]:
    return {
        "offset": instruction.offset,
        "sass": instruction.sass,
        **_count(instruction.count, whole),
        "reasons": _reasons(instruction.reasons),
        "places": _places(instruction.chain),
    }


def _places(chain: Sequence[CodeLine]) -> list[dict[str, Any]]:
    return [{"function": place.function, "file": place.file, "line": place.line} for place in chain]


def _reasons(reasons: Reasons) -> dict[str, dict[str, int]]:
    return {reason: {"samples": count.samples, "not_issued": count.not_issued} for reason, count in reasons.items()}


def _count(count: Count, whole: int) -> dict[str, Any]:
    return {"samples": count.samples, "not_issued": count.not_issued, "percent": _percent(count.samples, whole)}


def _percent(part: int, whole: int) -> float:
    return round(100 * part / whole, 4) if whole else 0.0


def _crc(cubin: int) -> str:
    return f"{cubin:016x}"
