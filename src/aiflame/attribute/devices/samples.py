"""Divides samples of warps over the launches of the sampled kernel.

A sample has a function and a window of time. Within a window, the samples of a function are divided over its launches on that device by the
time that these ran in the window.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cache, partial

import numpy as np
import polars as pl

from aiflame.attribute.arrays.apportion import Cells, divide, joined
from aiflame.attribute.arrays.row_keys import ordered, summed
from aiflame.attribute.arrays.types import Ints
from aiflame.attribute.devices.stall_samples import UNKNOWN, sampled_functions, samples_of_counter, stall_reasons
from aiflame.attribute.devices.windows import LATEST, overlaps
from aiflame.attribute.devices.work import Work
from aiflame.attribute.meaning.specializations import separate_specializations
from aiflame.profile.schema.enums import GpuApi
from aiflame.profile.schema.kinds import UNKNOWN_CODE, Kind
from aiflame.profile.tables.interface import Tables
from aiflame.values import dataclass

NO_KERNEL = "[unattributed: no kernel ran in the sample's window]"
NO_CALLER = "[unattributed: called by an unknown kernel]"
NO_CODE = "[unattributed: code that the recording does not have]"
DROPPED = "[unattributed: samples dropped]"
DRIVER = "[kernels of the driver]"
MOST_SAMPLES = 1 << 40
"""A window with more samples comes from a damaged profile."""
_DEVICE = ["process", "device"]
_CODE = ["cubin", "function", "offset", "reason"]
_UNPLACED = {"process": pl.UInt32, "device": pl.String, "point": pl.UInt32, "why": pl.String, "value": pl.Int64}


@dataclass(frozen=True, slots=True)
class Samples:
    points: pl.DataFrame
    """Sampled places: cubin, function (as compiled), offset, reason (short), and `called`: a device function, not a kernel."""
    placed: pl.DataFrame
    """site (row of `Work.sites`), point (row of `points`), value"""
    unplaced: pl.DataFrame
    """process, device, why (a name for the frame), point, value: samples whose launch is unknown"""


def samples(
    profile: Tables, work: Work, *, not_issued: bool = False, detail: bool = True, offsets: bool = True, in_windows: InWindows | None = None
) -> Samples:
    """All samples; with `not_issued`, those in whose cycle the scheduler issued nothing, which the device counts a second time.

    Without `detail`, the points are functions alone; without `offsets`, functions and reasons. A caller that calls this several times for
    one `work` may pass the same `in_windows`.
    """
    in_windows = in_windows or InWindows(work)
    kernels = work.sites.with_row_index("site").filter(pl.col("kind") == int(Kind.GPU_KERNEL))
    counts = counted(profile, not_issued, detail, offsets)
    points = counts.select(_CODE).unique().sort(_CODE)
    points = points.with_columns(called=~pl.col("function").is_in(kernels["name"].unique().implode()))
    counts = counts.join(points.with_row_index("point"), on=_CODE, maintain_order="left").drop("offset", "reason")
    kernels, counts = separate_specializations(profile, kernels, counts)
    windows = _windows(profile)
    by_device = kernels.partition_by(_DEVICE, as_dict=True)
    cells, missed = [], [pl.DataFrame(schema=_UNPLACED)]
    for (process, device), here in counts.partition_by(_DEVICE, as_dict=True).items():
        of_device = by_device.get((process, device), kernels.clear())
        placed, unplaced = _Device.of(of_device, windows.filter(process=process, device=device), in_windows).place(here)
        cells.append(placed)
        for why, point, value in unplaced:
            rows = pl.DataFrame({"point": point.astype(np.uint32), "value": value})
            missed.append(
                rows.select(
                    pl.lit(process, pl.UInt32).alias("process"), pl.lit(device).alias("device"), "point", pl.lit(why).alias("why"), "value"
                )
            )
    site, point, value = joined(cells)
    by_site = summed(pl.DataFrame({"site": site, "point": point, "value": value}), ("site", "point"))
    lost = pl.concat(missed).group_by(*_DEVICE, "why", "point").agg(pl.col("value").sum())
    return Samples(points, by_site, lost.sort(*_DEVICE, "why", "point"))


def _windows(profile: Tables) -> pl.DataFrame:
    """process, device, begin_ns, end_ns, window; `launch`: the row of `launches` to which all its samples belong, 0: to none alone."""
    rows = profile.table("gpu_windows")
    windows = rows.select("process", "device", "begin_ns", "end_ns", window="id")
    if not (rows["launched_by"] > 0).any():
        return windows.with_columns(launch=pl.lit(0, pl.UInt32))
    launches = profile.scan("launches").filter(pl.col("api") == int(GpuApi.HIP))
    numbers = launches.select("process", launched_by="correlation", launch="id")
    first = numbers.unique(["process", "launched_by"], keep="first").collect()
    joined = windows.with_columns(rows["launched_by"]).join(first, on=["process", "launched_by"], how="left", maintain_order="left")
    return joined.drop("launched_by").with_columns(pl.col("launch").fill_null(0).cast(pl.UInt32))


def elsewhere(profile: Tables) -> pl.DataFrame:
    """process, device, why, value: samples that were lost, or taken in the driver's own kernels."""
    count = {DROPPED: "dropped", DRIVER: "foreign"}
    sums = [pl.col(column).clip(upper_bound=MOST_SAMPLES).sum().cast(pl.Int64).alias(why) for why, column in count.items()]
    summed = profile.scan("gpu_windows").group_by(_DEVICE).agg(sums).collect()
    return summed.unpivot(list(count), index=_DEVICE, variable_name="why").filter(pl.col("value") > 0).sort(*_DEVICE, "why")


def counted(profile: Tables, not_issued: bool, detail: bool, offsets: bool = True) -> pl.DataFrame:
    """process, device, window, cubin, function, offset, reason, count: the samples of one of the two counters of each reason."""
    reasons, functions = stall_reasons(profile), sampled_functions(profile)
    windows = profile.table("gpu_windows").select("process", "device", window="id").unique(["process", "window"], keep="first")
    # Sorting by the ranks of names is much faster than sorting by names.
    reasons, functions, windows = (
        rows.with_columns(pl.Series(f"{name}_at", _places(rows[name])))
        for rows, name in ((reasons, "short"), (functions, "name"), (windows, "device"))
    )
    kept = ["short", "short_at", *["offset"][: int(offsets)]] if detail else []
    where = [
        pl.col("offset") if detail and offsets else pl.lit(0, pl.UInt32).alias("offset"),
        (pl.col("short").fill_null(UNKNOWN) if detail else pl.lit("")).alias("reason"),
    ]
    counts = (
        samples_of_counter(profile, not_issued=not_issued, reasons=reasons)
        .group_by("process", "window", "function", *kept)
        .agg(pl.col("count").sum())
        .join(functions.lazy(), on=["process", "function"], how="left")
        .join(windows.lazy(), on=["process", "window"], how="left")
        .select(
            "process",
            pl.col("device").fill_null(""),
            "window",
            pl.col("cubin").fill_null(0),
            pl.col("name").fill_null("").alias("function"),
            "count",
            *where,
            pl.col("device_at", "name_at", *kept[1:2]).fill_null(0),
        )
        .filter(pl.col("count") > 0)
        .collect()
    )
    in_order = ordered(counts, ("process", "device_at", "name_at", "cubin", "window", "offset", *kept[1:2]))
    return in_order.drop("device_at", "name_at", *kept[1:2])


def _places(names: pl.Series) -> Ints:
    """The rank of each text among all texts, from 1; 0 for no text."""
    texts = names.filter(names != "").unique().sort()
    place = pl.DataFrame({"name": texts, "at": np.arange(1, len(texts) + 1)})
    at = names.rename("name").to_frame().join(place, on="name", how="left", maintain_order="left")["at"]
    return at.fill_null(0).to_numpy()


class InWindows:
    """Caches the overlap of sites with sampling windows."""

    def __init__(self, work: Work) -> None:
        self._work = work
        self._known: dict[tuple[bytes, bytes, int], pl.DataFrame] = {}

    def overlaps(self, sites: Ints, windows: pl.DataFrame, reach: int) -> pl.DataFrame:
        """`windows.overlaps` of these sites with `windows` (begin_ns, end_ns). Reach 0: the windows as they are; 1: each as wide as it and
        its neighbours; 2: each extended back to the begin of the one before."""
        begin, until = (np.minimum(windows[name].to_numpy(), LATEST).astype(np.int64) for name in ("begin_ns", "end_ns"))
        key = sites.tobytes(), begin.tobytes() + until.tobytes(), reach
        if key not in self._known:
            chosen = np.zeros(len(self._work.sites), dtype=np.bool_)
            chosen[sites] = True
            rows = np.flatnonzero(chosen[self._work.executions["site"].to_numpy()])
            site, start, end = (self._work.executions[name].to_numpy()[rows] for name in ("site", "start_ns", "end_ns"))
            length = np.maximum(until - begin, 0)
            order = np.argsort(begin, kind="stable")
            before = np.zeros_like(begin)
            before[order[1:]] = begin[order[:-1]]
            opens, closes = ((begin, until), (begin - length, until + length), (before, until))[reach]
            self._known[key] = overlaps(site.astype(np.int64), start, end, opens, closes)
        return self._known[key]

    def launched(self, sites: Ints, windows: pl.DataFrame) -> pl.DataFrame:
        """site, window, overlap (the whole time of the site's kernels there), for each window whose samples belong to one launch."""
        named = windows.filter(pl.col("launch") > 0).select("launch", pl.col("window").cast(pl.Int64))
        if named.is_empty():
            return pl.DataFrame(schema=dict.fromkeys(("site", "window", "overlap"), pl.Int64))
        executions = self._work.executions.filter(pl.col("launch").is_in(named["launch"].implode()), pl.col("site").is_in(sites.tolist()))
        took = executions.select(pl.col("site").cast(pl.Int64), "launch", took=(pl.col("end_ns") - pl.col("start_ns")).cast(pl.Int64) + 1)
        return named.join(took, on="launch").group_by("site", "window", maintain_order=True).agg(overlap=pl.col("took").sum())


REACHES = 3
EXACT = -1
"""Instead of a reach: the executions of the launch that a window names."""
Shares = Mapping[str, Cells]
"""For each kernel: site, window, overlap."""


@dataclass(frozen=True, slots=True)
class _Device:
    """The executions of each kernel in sampling windows, on one device and for one process."""

    kernels: frozenset[str]
    reaches: tuple[Callable[[], Shares], ...]
    """First, where a window names its launch, that launch's executions. Then the windows as they are; then each as wide as it and its
    neighbours, because the clocks of kernels and windows differ a little; then each extended back to the begin of the one before, because
    samples may come late."""

    @staticmethod
    def of(kernels: pl.DataFrame, windows: pl.DataFrame, in_windows: InWindows) -> _Device:
        number = windows["window"].cast(pl.Int64)

        @cache
        def shares(reach: int) -> Shares:
            if reach == EXACT:
                rows = in_windows.launched(_ints(kernels, "site"), windows)
            else:
                rows = in_windows.overlaps(_ints(kernels, "site"), windows, reach)
                rows = rows.with_columns(window=number.gather(rows["window"]))
            named = rows.join(kernels.select(pl.col("site").cast(pl.Int64), "name"), on="site")
            parts = named.partition_by("name", as_dict=True)
            return {name: (_ints(one, "site"), _ints(one, "window"), _ints(one, "overlap")) for (name,), one in parts.items()}

        return _Device(frozenset(kernels["name"]), tuple(partial(shares, reach) for reach in (EXACT, *range(REACHES))))

    def place(self, counts: pl.DataFrame) -> tuple[Cells, list[tuple[str, Ints, Ints]]]:
        """The samples placed on their sites; and those without a site: why, point, value."""
        window, point, count = (_ints(counts, name) for name in ("window", "point", "count"))
        cells, unplaced = [], []
        for function, rows, kernels in self._functions(counts):
            at, many = window[rows], count[rows]
            # A launch that a sample names is known even if the kernel that called the function is not.
            shares = self._shares(np.unique(at), kernels) if kernels else self._of(self.reaches[0](), sorted(self.kernels), np.unique(at))
            has = np.isin(at, shares[1])
            if has.any():
                cells.append(divide(point[rows][has], at[has], many[has], *shares))
            if not has.all():
                why = NO_KERNEL if kernels else NO_CODE if function == UNKNOWN_CODE else NO_CALLER
                unplaced.append((why, point[rows][~has], many[~has]))
        return joined(cells), unplaced

    def _functions(self, counts: pl.DataFrame) -> Iterator[tuple[str, slice, list[str]]]:
        """Each function, its rows, and its kernels: for a called function, the kernel in its name (`$kernel$function`),
        otherwise all kernels of its cubin."""
        in_cubin: dict[int, set[str]] = {}
        for cubin, name in counts.select("cubin", "function").unique().rows():
            if name in self.kernels:
                in_cubin.setdefault(cubin, set()).add(name)
        # The records of kernels do not name a cubin, so kernels of equal names count as one.
        own = pl.when(pl.col("function").is_in(self.kernels)).then(0).otherwise("cubin")
        runs = counts.select(pl.struct("function", cubin=own).rle().alias("run")).unnest("run")
        begin = 0
        for length, key in zip(runs["len"].to_list(), runs["value"].to_list(), strict=True):
            name = key["function"]
            caller = name.split("$")[1] if name.startswith("$") else ""
            callers = [one for one in (name, caller) if one in self.kernels][:1]
            yield name, slice(begin, begin + length), callers or sorted(in_cubin.get(key["cubin"], ()))
            begin += length

    def _shares(self, windows: Ints, kernels: list[str]) -> Cells:
        """How long each site of these kernels ran in each window; near it, if none ran in it; otherwise when they last ran."""
        cells = [self._of(self.reaches[0](), kernels, windows)]
        for reach in self.reaches[1:]:
            windows = np.setdiff1d(windows, cells[-1][1])
            if len(windows):
                cells.append(self._of(reach(), kernels, windows))
        late = np.setdiff1d(windows, cells[-1][1])
        if len(late):
            cells.append(self._last_time(kernels, late))
        return joined(cells)

    def _last_time(self, kernels: list[str], windows: Ints) -> Cells:
        """For each window, how long each site of these kernels ran in the last earlier window in which any did: some samples come only when
        sampling ends. Windows are numbered in the order of time."""
        site, window, overlap = _of_kernels(self.reaches[1](), kernels)
        order = np.argsort(window, kind="stable")
        sampled = window[order]
        upto = np.searchsorted(sampled, windows)
        has = upto > 0
        first = np.searchsorted(sampled, sampled[upto[has] - 1])
        count = upto[has] - first
        rows = order[np.repeat(first - np.concatenate([[0], np.cumsum(count)[:-1]]), count) + np.arange(count.sum())]
        return site[rows], np.repeat(windows[has], count), overlap[rows]

    @staticmethod
    def _of(shares: Shares, kernels: list[str], windows: Ints) -> Cells:
        site, window, overlap = _of_kernels(shares, kernels)
        kept = np.isin(window, windows)
        return site[kept], window[kept], overlap[kept]


def _of_kernels(shares: Shares, kernels: list[str]) -> Cells:
    return joined([shares[name] for name in kernels if name in shares])


def _ints(frame: pl.DataFrame, name: str) -> Ints:
    return frame[name].to_numpy().astype(np.int64)
