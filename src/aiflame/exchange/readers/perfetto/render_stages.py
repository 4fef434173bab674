"""Work of GPUs as Perfetto's own messages describe it: render stages, and kernels with their launches."""

from __future__ import annotations

import numpy as np
import polars as pl

from aiflame.attribute.arrays.types import Whole
from aiflame.exchange.readers.perfetto.contents import RENDER_STAGE, Contents, Kept
from aiflame.exchange.readers.perfetto.events import NONE
from aiflame.exchange.readers.perfetto.interned import ARGUMENTS, CONTEXTS, KERNELS, NAMES, SPECIFICATIONS
from aiflame.exchange.readers.perfetto.many_messages import Batch, Fields, split_all
from aiflame.exchange.readers.perfetto.meaning import Meaning, copy_kind
from aiflame.exchange.readers.protobuf import DamagedError, Value, fields, message, signed, text, unsigned
from aiflame.profile.schema.enums import GpuApi

_EVENT, _DURATION, _QUEUE_ID, _STAGE_ID, _CONTEXT, _SPECIFICATIONS, _GPU = 1, 2, 3, 4, 5, 7, 11
_QUEUE_IID, _STAGE_IID, _NAME, _KERNEL_IID, _NAME_IID, _LAUNCH = 13, 14, 17, 19, 20, 21
_APIS = {3: GpuApi.OPENCL, 4: GpuApi.CUDA, 5: GpuApi.HIP}
_ARGUMENTS = {
    "registers_per_thread": "registers",
    "shared_mem_static": "static_shared",
    "shared_mem_dynamic": "dynamic_shared",
    "local_mem_per_thread": "local_bytes",
}
_COPY = r"(?i)^(\[?mem(cpy|set)\b|.*\bmem(ory)?[ _]?(copy|cpy|set)\b)"
_UNKNOWN = "[unknown kernel]"


def add(meaning: Meaning) -> None:
    kept = meaning.contents.kept[RENDER_STAGE]
    if not kept:
        return
    batch, parsed = split_all([one.message for one in kept])
    meaning.contents.damaged += parsed.damaged
    columns = {
        "event_id": parsed.last(_EVENT, len(kept)),
        "duration": np.maximum(parsed.last(_DURATION, len(kept)), 0),
        "context": parsed.last(_CONTEXT, len(kept)),
        "gpu": parsed.last(_GPU, len(kept)),
        "scope": np.array([one.scope for one in kept], dtype=np.int64),
        "begin": meaning.contents.time_of(np.array([one.packet for one in kept], dtype=np.int64)),
        **_names(meaning, batch, parsed, kept),
    }
    rows = pl.DataFrame(columns).with_columns(
        end=pl.col("begin") + pl.col("duration").clip(0, 10**18),
        correlation=pl.when(pl.col("event_id") >= 0).then(pl.col("event_id") + 1).otherwise(0),
        begin=pl.when(pl.col("begin") != NONE).then("begin"),
    )
    rows = _with_owners(meaning, rows)
    rows = rows.hstack(_launches(meaning.contents, batch, parsed, kept))
    copies = rows.filter(pl.col("name_text").str.contains(_COPY))
    meaning.add_kernels(rows.filter(~pl.col("name_text").str.contains(_COPY)))
    kinds = pl.Series("kind", [copy_kind(name) for name in copies["name_text"].to_list()], dtype=pl.Int64)
    meaning.copies.append(copies.with_columns(kinds, bytes=pl.lit(0)))


def _names(meaning: Meaning, batch: Batch, parsed: Fields, kept: list[Kept]) -> dict[str, list[str] | list[int]]:
    """The name of each stage: of its kernel, its own, or that of the kind of stage; and its queue, as a number."""
    contents, count = meaning.contents, len(kept)
    whole = {name: {key: _text_fields(data) for key, data in contents.interned.whole(field).items()} for name, field in _TABLES.items()}
    given = [parsed.last(number, count, -1).tolist() for number in (_KERNEL_IID, _NAME_IID, _STAGE_IID, _STAGE_ID, _QUEUE_IID, _QUEUE_ID)]
    inline = [""] * count
    rows = parsed.rows(_NAME, bytes=True)
    for at, first, until in zip(parsed.message[rows].tolist(), parsed.value[rows].tolist(), parsed.end[rows].tolist(), strict=True):
        inline[at] = batch.bytes[first:until].decode("utf-8", "replace")
    old_stages = _old_stages(batch, parsed)
    name_of: dict[tuple[int, ...], str] = {}
    names, queues = [], []
    for one, own, kernel, name, stage, old, queue, old_queue in zip(kept, inline, *given, strict=True):
        key = (one.scope, kernel, name, stage, old)
        if key not in name_of:
            of_kernel = whole["kernels"].get((one.scope, kernel), {})
            named = of_kernel.get(3) or of_kernel.get(2) or (contents.interned.text(NAMES, one.scope, name) if name > 0 else "")
            of_stage = whole["specifications"].get((one.scope, stage), {}).get(2, "")
            name_of[key] = named or of_stage or (old_stages[old] if 0 <= old < len(old_stages) else "")
        names.append(own or name_of[key] or _UNKNOWN)
        queues.append(queue if queue >= 0 else max(old_queue, 0))
    return {"name_text": names, "stream": queues}


_TABLES = {"kernels": KERNELS, "specifications": SPECIFICATIONS}


def _text_fields(data: bytes) -> dict[int, str]:
    try:
        return {number: text(value) for number, value in fields(data) if not isinstance(value, int)}
    except DamagedError:
        return {}


def _old_stages(batch: Batch, parsed: Fields) -> list[str]:
    """Names of stages by their places, as older traces give them once."""
    rows = parsed.rows(_SPECIFICATIONS, bytes=True)
    names: list[str] = []
    for first, until in zip(parsed.value[rows].tolist(), parsed.end[rows].tolist(), strict=True):
        try:
            own = fields(batch.bytes[first:until])
            stages = [dict(fields(message(value))) for number, value in own if number == 3]
            names = [text(one[1]) if 1 in one else "" for one in stages] or names
        except DamagedError:  # noqa: PERF203 (the others are sound)
            continue
    return names


def _with_owners(meaning: Meaning, rows: pl.DataFrame) -> pl.DataFrame:
    """The process of each stage, by its context; and its GPU."""
    owners: dict[tuple[int, int], int] = {}
    for key, data in meaning.contents.interned.whole(CONTEXTS).items():
        try:
            given = {number: signed(value) for number, value in fields(data) if isinstance(value, int)}
        except DamagedError:
            continue
        owners[key] = given.get(2, -1)
        if given.get(3) in _APIS:
            meaning.apis.add(_APIS[given[3]])
    used = rows.select("scope", "context").unique()
    pids = [owners.get((scope, context), -1) for scope, context in used.iter_rows()]
    gpus = sorted(set(rows["gpu"].to_list()))
    numbers = {gpu: meaning.devices.setdefault(f"GPU {gpu}", len(meaning.devices)) for gpu in gpus}
    return rows.join(
        used.with_columns(pid=pl.Series(pids, dtype=pl.Int64)), on=["scope", "context"], how="left", maintain_order="left"
    ).with_columns(device=pl.col("gpu").replace_strict(numbers, return_dtype=pl.Int64))


def _launches(contents: Contents, batch: Batch, parsed: Fields, kept: list[Kept]) -> pl.DataFrame:
    """The shape of each kernel's launch, its registers and its memory."""
    shape = [*(f"{name}_{axis}" for name in ("grid", "block") for axis in "xyz"), *_ARGUMENTS.values()]
    columns: dict[str, Whole] = {name: np.zeros(len(kept), dtype=np.int64) for name in shape}
    kernels = {key: _arguments(contents, key[0], data, 5) for key, data in contents.interned.whole(KERNELS).items()}
    for at, kernel in enumerate(parsed.last(_KERNEL_IID, len(kept), -1).tolist()):
        for name, amount in kernels.get((kept[at].scope, kernel), {}).items():
            columns[name][at] = amount
    rows = parsed.rows(_LAUNCH, bytes=True)
    for at, first, until in zip(parsed.message[rows].tolist(), parsed.value[rows].tolist(), parsed.end[rows].tolist(), strict=True):
        data = batch.bytes[first:until]
        try:
            for number, value in fields(data):
                if number in (1, 2):
                    for axis, size in fields(message(value)):
                        if axis <= 3:
                            columns[f"{'grid' if number == 1 else 'block'}_{' xyz'[axis]}"][at] = min(unsigned(size), 0xFFFFFFFF)
            for name, amount in _arguments(contents, kept[at].scope, data, 3).items():
                columns[name][at] = amount
        except DamagedError:
            contents.damaged += 1
    return pl.DataFrame(columns)


def _arguments(contents: Contents, scope: int, data: bytes, field: int) -> dict[str, int]:
    """Numbers that a kernel or a launch is described by, as far as a profile has them."""
    amounts = {}
    try:
        for number, value in fields(data):
            if number == field:
                given: dict[int, Value] = dict(fields(message(value)))
                name = text(given[2]) if 2 in given else contents.interned.text(ARGUMENTS, scope, unsigned(given.get(1, 0)))
                amount = given.get(4, given.get(3))
                if name in _ARGUMENTS and isinstance(amount, int):
                    amounts[_ARGUMENTS[name]] = min(max(signed(amount), 0), 1 << 40)
    except DamagedError:
        contents.damaged += 1
    return amounts
