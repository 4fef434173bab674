"""The inside of instrumented kernels: all results about each kernel, as one value."""

from __future__ import annotations

from typing import Any

from aiflame.analyze.intra.balance import Balance, balance
from aiflame.analyze.intra.bubbles import Bubble, bubbles
from aiflame.analyze.intra.changes import Changes, changes
from aiflame.analyze.intra.data import Inside, insides
from aiflame.analyze.intra.findings import IntraFinding, findings, warnings
from aiflame.analyze.intra.flow import Slot, flow, slot_times
from aiflame.analyze.intra.overlap import Overlap, overlap
from aiflame.analyze.intra.path import RolePath, role_path
from aiflame.analyze.intra.roles import Role, roles
from aiflame.analyze.intra.scopes import ScopeTime, scope_times
from aiflame.analyze.places import place_text
from aiflame.errors import AiflameError
from aiflame.profile.tables.interface import Tables
from aiflame.values import asdict, dataclass

NONE = "this profile has no records from inside kernels: record with `aiflame record --intra auto -- COMMAND`"


@dataclass(frozen=True, slots=True)
class IntraKernel:
    process: int
    name: str
    short: str
    place: str
    arch: str
    warps: int
    recorded_warps: int
    launches: int
    """Launches whose records were kept."""
    records: int
    ctas: int
    """CTAs of these launches."""
    ctas_read: int
    """Fewer if a launch had so many CTAs that the last ones overwrote the records of earlier ones."""
    took_ns: float
    """The median duration of a launch."""
    in_scopes: float
    """The share of its warps' time that outermost scopes cover."""
    scopes: list[ScopeTime]
    overlap: Overlap | None
    bubbles: list[Bubble]
    roles: list[Role]
    path: RolePath | None
    """The critical path through its roles."""
    slots: list[Slot]
    """Buffers between roles."""
    balance: Balance | None
    changes: Changes
    findings: list[IntraFinding]
    warnings: list[str]


def intra(profile: Tables, wanted: str = "") -> list[IntraKernel]:
    """Kernels with `wanted` in their names, those that took longest first."""
    every = list(insides(profile))
    if not every:
        raise AiflameError(NONE)
    matching = [one for one in every if wanted in one.name or wanted in one.short]
    if not matching:
        names = ", ".join(dict.fromkeys(one.short for one in every))
        raise AiflameError(f"no instrumented kernel is called {wanted!r}: there are {names}")
    return [_asked(profile, one) for one in matching]


def _asked(profile: Tables, inside: Inside) -> IntraKernel:
    copies = flow(inside)
    path = role_path(inside, copies)
    times, overlapping, waits, even = scope_times(inside), overlap(inside, copies), bubbles(inside), balance(inside)
    parts = roles(inside, path.of_role() if path is not None else {})
    changed = changes(profile, inside)
    row = inside.kernel
    # Gains are relative to the kernel without instrumentation, if that was measured.
    alone = changed.took_ns[0] if changed.took_ns[0] > 0 else inside.took_ns
    return IntraKernel(
        process=inside.process,
        name=inside.name,
        short=inside.short,
        place=place_text(str(row["file"]), int(row["line"])),
        arch=str(row["arch"]),
        warps=int(row["warps"]),
        recorded_warps=int(row["recorded_warps"]),
        launches=len(inside.launches),
        records=int(inside.launches["records"].sum()),
        ctas=int(inside.launches["grid"].sum()),
        ctas_read=int(inside.launches["ctas"].sum()),
        took_ns=inside.took_ns,
        in_scopes=sum(one.share for one in times if one.depth == 0 and not one.beside),
        scopes=times,
        overlap=overlapping,
        bubbles=waits,
        roles=parts,
        path=path,
        slots=slot_times(inside, copies) if copies is not None else [],
        balance=even,
        changes=changed,
        findings=findings(alone, times, overlapping, waits, parts, path, even),
        warnings=warnings(inside, changed),
    )


def to_json(kernels: list[IntraKernel]) -> list[dict[str, Any]]:
    """Plain values, with the ratios computed from them."""
    rows = []
    for one in kernels:
        row = asdict(one)
        if one.overlap is not None:
            ratios = {name: getattr(one.overlap, name) for name in ("overlapped", "exposed", "bound", "two_buffers")}
            row["overlap"] |= ratios | {"bound_ns": (max(one.changes.took_ns[0], 0) or one.took_ns) * one.overlap.bound}
        row["changes"]["overhead"] = one.changes.overhead
        rows.append(row)
    return rows
