"""The head of an annotated kernel: its name, launches, resources and sampling."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.text import Text

from aiflame.analyze.amounts import amount, share
from aiflame.analyze.kernel.annotate import Annotation, Shape
from aiflame.analyze.kernel.choice import Kernel
from aiflame.render.terminal.annotate_cells import Cell, fitted, harmless, row, wrapped
from aiflame.resolve.names.readable import cut

_LABEL = 12
_OTHERS, _VERSIONS = 4, 4
_OTHER_WIDTH = 60


def header(answer: Annotation, width: int) -> Iterator[Text]:
    kernel = answer.kernel
    yield row([Cell(harmless(kernel.short), width, "bold cyan")])
    for label, text in _names(answer.kernel):
        yield row([Cell(f"  {label}", _LABEL + 2, "dim"), Cell(harmless(text), width - _LABEL - 3)])
    for label, text in _facts(answer):
        for part, line in enumerate(wrapped(text, width - _LABEL - 3)):
            yield Text.assemble(fitted("" if part else f"  {label}", _LABEL + 2, "dim"), " ", line)
    if answer.others:
        yield from wrapped(_others(answer), width, "yellow")


def _names(kernel: Kernel) -> Iterator[tuple[str, str]]:
    if kernel.full != kernel.short:
        yield "full name", kernel.full
    if kernel.name not in (kernel.short, kernel.full):
        yield "compiled as", kernel.name


def _facts(answer: Annotation) -> Iterator[tuple[str, str]]:
    kernel, shapes = answer.kernel, answer.shapes
    if devices := list(dict.fromkeys(shape.device for shape in shapes if shape.device)):
        yield "device", ", ".join(devices)
    if kernel.launches:
        mean = f", {amount(round(kernel.gpu_time_ns / kernel.launches), 'ns')} each" if kernel.launches > 1 else ""
        of_all = share(kernel.gpu_time_ns, answer.total_gpu_time_ns)
        yield "launches", f"{kernel.launches:,} in {amount(kernel.gpu_time_ns, 'ns')} of GPU time ({of_all} of all){mean}"
    elif shapes:
        yield "launches", "none in these steps: --whole-run has all"
    else:
        yield "launches", "none recorded: a function that kernels call, or its records are missing"
    if shapes:
        yield "launched as", _dimensions(shapes)
        yield "resources", _resources(shapes[0])
    if answer.made_from:
        yield "fused from", "; ".join(harmless(each) for each in answer.made_from)
    if answer.kept:
        yield "kept", ", ".join(harmless(each) for each in answer.kept)
    if kernel.samples:
        yield "samples", _samples(answer)
    if len(answer.versions) > 1 and answer.cubin is not None:
        yield "versions", _versions(answer)


def _dimensions(shapes: Sequence[Shape]) -> str:
    launches = sum(shape.launches for shape in shapes)
    most = shapes[0]
    text = f"grid {_by(most.grid)}, block {_by(most.block)}" if any(most.block) else f"grid {_by(most.grid)}"
    return text if len(shapes) == 1 else f"{text} ({most.launches:,} of {launches:,} launches; {len(shapes)} shapes in all)"


def _by(sizes: tuple[int, int, int]) -> str:
    return "×".join(f"{size:,}" for size in sizes)


def _resources(shape: Shape) -> str:
    """0 registers means unknown."""
    shared = shape.static_shared + shape.dynamic_shared
    parts = [f"{shape.registers} registers a thread"] if shape.registers else []
    if shape.static_shared and shape.dynamic_shared:
        kinds = f" ({amount(shape.static_shared, 'bytes')} static, {amount(shape.dynamic_shared, 'bytes')} dynamic)"
    else:
        kinds = " (dynamic)" if shape.dynamic_shared else ""
    parts.append(f"{amount(shared, 'bytes')} shared memory a block{kinds}" if shared else "no shared memory")
    if shape.local_bytes:
        parts.append(f"{amount(shape.local_bytes, 'bytes')} local memory a thread (stack, spills)")
    return ", ".join(parts)


def _samples(answer: Annotation) -> str:
    sampling = answer.sampling
    text = f"{answer.kernel.samples:,} ({share(answer.kernel.samples, answer.total_samples)} of all)"
    if sampling.periods:
        first, last = 1 << sampling.periods[0], 1 << sampling.periods[-1]
        text += f", every {first:,} cycles" if first == last else f", every {first:,} to {last:,} cycles"
    if sampling.dropped:
        text += f"; {share(sampling.dropped, sampling.samples + sampling.dropped)} of the device's were dropped"
    return text


def _versions(answer: Annotation) -> str:
    whole = sum(answer.versions.values())
    parts = [f"{cubin:016x} {share(samples, whole)}" for cubin, samples in answer.versions.items() if cubin != answer.cubin]
    more = f" and {len(parts) - _VERSIONS} more" if len(parts) > _VERSIONS else ""
    shown = share(answer.versions[answer.cubin or 0], whole)
    return f"{len(answer.versions)} cubins have it; shown: {answer.cubin:016x} {shown}; --cubin {', '.join(parts[:_VERSIONS])}{more}"


def _others(answer: Annotation) -> str:
    def part(kernel: Kernel) -> str:
        sampled = answer.total_samples and answer.kernel.samples
        of = share(kernel.samples, answer.total_samples) if sampled else share(kernel.gpu_time_ns, answer.total_gpu_time_ns)
        name = kernel.full if kernel.short == answer.kernel.short else kernel.short  # a name by which the kernel can be given
        return f"{cut(harmless(name), _OTHER_WIDTH)} {of}"

    parts = [part(kernel) for kernel in answer.others[:_OTHERS]]
    more = f", and {len(answer.others) - _OTHERS} more" if len(answer.others) > _OTHERS else ""
    unit = "samples" if answer.total_samples and answer.kernel.samples else "GPU time"
    return f"also matches (share of all {unit}): {', '.join(parts)}{more}"
