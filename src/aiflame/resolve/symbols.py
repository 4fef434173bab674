"""Names every frame of a profile: writes the derived tables `symbols` and `instructions`, and those of GPU code (`gpu_code.py`)."""

from __future__ import annotations

from collections.abc import Callable

import polars as pl

from aiflame.profile.schema.enums import FrameKind
from aiflame.profile.schema.frame_words import unpacked
from aiflame.profile.schema.kinds import OP_MODULE, Kind
from aiflame.profile.spool.short_lives import ENDED_BEFORE_A_TICK
from aiflame.profile.tables.store import Profile
from aiflame.resolve.device.gpu_code import write_gpu_tables
from aiflame.resolve.device.intra_tables import write_intra_tables
from aiflame.resolve.files.outside import NOTHING, Outside
from aiflame.resolve.fused_ops import kernel_labels, provenance, with_kernels
from aiflame.resolve.jit.symbols import address_symbols, method_symbols
from aiflame.resolve.names.readable import clean, readable
from aiflame.resolve.native.early_addresses import in_modules
from aiflame.resolve.native.symbols import native_symbols
from aiflame.resolve.program_sources import keep_sources
from aiflame.resolve.python.names import python_symbols

SYMBOLS = {
    "process": pl.UInt32,
    "frame": pl.UInt64,
    "depth": pl.UInt16,
    "name": pl.String,
    "full_name": pl.String,
    "kind": pl.UInt8,
    "module": pl.String,
    "file": pl.String,
    "line": pl.UInt32,
    "offset": pl.UInt64,
    "approximate": pl.Boolean,
}
_DEFAULTS = {"depth": 0, "full_name": "", "module": "", "file": "", "line": 0, "offset": 0, "approximate": False}


def resolve(profile: Profile, progress: Callable[[float], None] | None = None, outside: Outside = NOTHING) -> None:
    """Writes all derived tables into the profile; `progress` is called with the share done, 0 to 1. `symbols` is written last: if it
    exists, all do. `outside`: the files of this machine that may be read."""
    tell = progress or (lambda share: None)
    compiled = provenance(profile.table("kernel_origins"))
    notes = write_gpu_tables(profile, lambda share: tell(0.4 * share), made_from=kernel_labels(compiled), outside=outside)
    notes += write_intra_tables(profile)
    modules = profile.table("modules")
    frames = in_modules(unpacked(profile.scan("stacks").select("process", "frame").unique().collect()), modules)
    native = native_symbols(
        _of(frames, FrameKind.NATIVE, FrameKind.NATIVE_APPROX),
        modules,
        _time_of_day(profile),
        profile.folder,
        lambda share: tell(0.4 + 0.5 * share),
        outside,
    )
    parts = [
        with_kernels(native.symbols, modules, compiled),
        python_symbols(_of(frames, FrameKind.PYTHON), profile.table("codes")),
        method_symbols(_of(frames, FrameKind.JIT), profile.table("jit_methods")),
        address_symbols(_of(frames, FrameKind.ADDRESS), profile.table("processes"), _time_of_day(profile), profile.folder, outside),
        _marks(_of(frames, FrameKind.MARK), profile.table("marks")),
        _texts(_of(frames, FrameKind.KERNEL), profile.table("marks"), Kind.OS_KERNEL),
        _named(_of(frames, FrameKind.NAMED), profile.table("named_frames")),
        _nameless(frames),
    ]
    symbols = pl.concat([_complete(part) for part in parts]).sort("process", "frame", "depth")
    symbols = symbols.with_columns(full_name=pl.when(pl.col("full_name") == pl.col("name")).then(pl.lit("")).otherwise("full_name"))
    profile.write_table("instructions", native.instructions)
    if notes or native.notes:
        profile.write_meta(profile.meta.with_notes(*notes, *native.notes))
    keep_sources(profile, symbols, outside)
    profile.write_table("symbols", symbols)
    tell(1.0)


def _of(frames: pl.DataFrame, *kinds: FrameKind) -> pl.DataFrame:
    return frames.filter(pl.col("word_kind").is_in([int(kind) for kind in kinds]))


def _marks(frames: pl.DataFrame, marks: pl.DataFrame) -> pl.DataFrame:
    ended = pl.col("name") == ENDED_BEFORE_A_TICK
    kind = pl.when(ended).then(int(Kind.UNATTRIBUTED)).otherwise(pl.col("kind"))
    return _texts(frames, marks, Kind.WAIT).with_columns(kind=kind.cast(pl.Int32))


def _texts(frames: pl.DataFrame, marks: pl.DataFrame, kind: Kind) -> pl.DataFrame:
    """Frames that carry their own name."""
    texts = marks.select("process", pl.col("id").cast(pl.UInt64).alias("rest"), pl.col("text").map_elements(clean, pl.String).alias("name"))
    named = frames.select("process", "frame", "rest").join(texts, on=["process", "rest"], how="left")
    return named.with_columns(pl.col("name").fill_null("[unknown]"), kind=pl.lit(int(kind)))


def _named(frames: pl.DataFrame, named: pl.DataFrame) -> pl.DataFrame:
    """Frames of an imported trace. Names of native functions become readable as those of a recording do."""
    texts = named.with_columns(pl.col(name).map_elements(clean, pl.String) for name in ("name", "module", "file"))
    native = (
        texts.filter(pl.col("kind").is_in([int(Kind.C), int(Kind.CPP)]), pl.col("module") != OP_MODULE)
        .select("kind", "name")
        .unique(maintain_order=True)
    )
    read = [readable(name) for name in native["name"]]
    native = native.with_columns(
        short=pl.Series([name.short for name in read], dtype=pl.String), full_name=pl.Series([name.full for name in read], dtype=pl.String)
    )
    texts = texts.join(native, on=["kind", "name"], how="left").with_columns(pl.coalesce("short", "name").alias("name"))
    columns = ("kind", "name", "full_name", "module", "file", "line")
    joined = frames.select("process", "frame", "rest").join(
        texts.select("process", pl.col("id").cast(pl.UInt64).alias("rest"), *columns), on=["process", "rest"], how="left"
    )
    return joined.with_columns(
        pl.col("name").fill_null("[unknown]"),
        pl.col("full_name", "module", "file").fill_null(""),
        pl.col("line").fill_null(0),
        pl.col("kind").fill_null(int(Kind.C)),
    )


def _nameless(frames: pl.DataFrame) -> pl.DataFrame:
    """Words without a kind, from a damaged profile."""
    nameless = frames.filter(~pl.col("word_kind").is_between(min(FrameKind), max(FrameKind)))
    words = pl.col("frame").map_elements(lambda word: f"[unknown] frame 0x{word:x}", pl.String)
    return nameless.select("process", "frame", name=words, kind=pl.lit(int(Kind.C)))


def _complete(part: pl.DataFrame) -> pl.DataFrame:
    missing = [pl.lit(value).alias(name) for name, value in _DEFAULTS.items() if name not in part.columns]
    return part.with_columns(missing).select(pl.col(name).cast(kind) for name, kind in SYMBOLS.items())


def _time_of_day(profile: Profile) -> Callable[[int], float]:
    """Converts the profile's clock to seconds since 1970; 0 if the clocks of the recording are unknown."""
    clocks = profile.meta.started
    if not clocks.realtime_ns or not clocks.monotonic_ns:
        return lambda moment: 0.0
    return lambda moment: (moment + clocks.realtime_ns - clocks.monotonic_ns) / 1e9
