"""The origins of a compiled kernel for its page: its ops with their layers and lines, and the files that --keep-ir stored."""

from __future__ import annotations

import polars as pl

from aiflame.profile.tables.interface import OpenedProfile
from aiflame.resolve.fused_ops import provenance


def made_from(profile: OpenedProfile, kernel: str) -> tuple[str, ...]:
    """`aten::gelu (layers.3, model.py:11)`: each op once, for all calls of the kernel."""
    sources = provenance(profile.table("kernel_origins"))
    calls = sources.calls.filter(pl.col("kernel") == kernel)
    parts = sources.parts.join(calls.select("set").unique(), on="set", how="semi")
    lines = []
    for op, layer, file, line, backward in parts.select("op", "layer", "file", "line", "backward").iter_rows():
        place = f"{file.rpartition('/')[2]}:{line}" if file else ""
        where = ", ".join(each for each in (layer, place, "backward" if backward else "") if each)
        lines.append(f"{op} ({where})" if where else op)
    return tuple(dict.fromkeys(lines))


def kept(profile: OpenedProfile, kernel: str) -> tuple[str, ...]:
    """The files that --keep-ir stored in the profile for this kernel and its graphs."""
    modules = provenance(profile.table("kernel_origins")).calls.filter(pl.col("kernel") == kernel)["module"].unique()
    of_graph = (pl.col("kernel") == "") & pl.col("module").is_in(modules.to_list())
    files = profile.table("kept_files").filter((pl.col("kernel") == kernel) | of_graph)
    return tuple(f"kept/{file}" for file in files.sort("kernel", "file")["file"].unique(maintain_order=True))
