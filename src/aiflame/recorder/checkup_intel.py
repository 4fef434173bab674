"""Checks whether stalls of this machine's Intel GPUs can be sampled."""

from __future__ import annotations

import errno
import os
import re
from pathlib import Path

from aiflame.recorder.eu_stalls.devices import Gpu, gpus, older_gpus, sampling, units
from aiflame.recorder.eu_stalls.level_zero_stream import OLDER_PARANOID
from aiflame.recorder.eu_stalls.sampler import PARANOID
from aiflame.recorder.eu_stalls.xe_stream import XeStream
from aiflame.recorder.finding import Finding, State
from aiflame.recorder.sources.base import natural, text

_INTEL = "0x8086"
_SUBJECT = "Intel GPU"
_HOLDER = "sudo lsof 2>/dev/null | grep xe_eu_stall"
_CONTAINER = "docker run --device /dev/dri …"


def intel_findings(root: Path = Path("/")) -> list[Finding]:
    """One for each GPU of the xe driver, and each of Ponte Vecchio that i915 serves; a single one if there is none."""
    if served := [*map(_of_gpu, gpus(root)), *(_of_older(gpu, root) for gpu in older_gpus(root))]:
        return served
    drivers = sorted({driver for card in sorted((root / "sys/class/drm").glob("card*"), key=natural) if (driver := _intel_driver(card))})
    if not drivers:
        return [Finding(_SUBJECT, State.ABSENT, "none on this machine")]
    if "xe" in drivers:
        return [Finding(_SUBJECT, State.LIMITED, "the machine has one, but no file for it in /dev/dri: as in a container", _CONTAINER)]
    return [Finding(_SUBJECT, State.LIMITED, f"its driver is {drivers[0]}: kernels are recorded, their stalls are not (those of xe are)")]


def _intel_driver(card: Path) -> str:
    """The driver of a card of Intel's; "" for others, and for the outputs of a card."""
    facts = dict(re.findall(r"^(\w+)=(.*)$", text(card / "device/uevent"), re.MULTILINE))
    return facts.get("DRIVER", "") if text(card / "device/vendor") == _INTEL else ""


def _of_older(gpu: Gpu, root: Path) -> Finding:
    """The driver i915 has stall samples of Ponte Vecchio in some releases of Intel's own; only a recording shows whether it does."""
    how = "its driver is i915: Level Zero is asked for its stall samples"
    if text(root / "proc/sys/dev/i915/perf_stream_paranoid").strip() in ("", "0"):
        return Finding(_SUBJECT, State.WORKS, f"{gpu.address}: {how}")
    return Finding(_SUBJECT, State.LIMITED, f"{gpu.address}: {how}, which administrators alone may have", OLDER_PARANOID)


def _of_gpu(gpu: Gpu) -> Finding:
    try:
        device = os.open(gpu.node, os.O_RDWR | os.O_CLOEXEC)
    except OSError as error:
        mend = "sudo usermod -aG render $USER, then log in again" if error.errno == errno.EACCES else ""
        return Finding(_SUBJECT, State.LIMITED, f"{gpu.address}: {gpu.node} cannot be opened: {error.strerror}", mend)
    try:
        return _sampled(gpu, device)
    except OSError as error:
        return Finding(_SUBJECT, State.LIMITED, f"{gpu.address}: stalls are not sampled: {error.strerror}")
    finally:
        os.close(device)


def _sampled(gpu: Gpu, device: int) -> Finding:
    from aiflame.recorder.eu_stalls.records import layout_of

    offered, there = sampling(device), units(device)
    if offered is None or not offered.rates or not there:
        return Finding(
            _SUBJECT, State.LIMITED, f"{gpu.address}: this kernel's xe driver samples no stalls: Linux 6.15 does, since Xe2 and PVC"
        )
    version = ".".join(map(str, there[0].version))
    if layout_of(there[0].version) is None:
        return Finding(_SUBJECT, State.LIMITED, f"{gpu.address}: stalls are not sampled: its generation ({version}) is not known")
    try:
        for unit in there:
            XeStream(device, unit.number, max(offered.rates), 1).close()
    except PermissionError:
        why = "the driver lets administrators alone sample stalls (observation_paranoid): kernels are recorded, stalls are not"
        return Finding(_SUBJECT, State.LIMITED, f"{gpu.address}: {why}", PARANOID)
    except OSError as error:
        if error.errno != errno.EBUSY:
            raise
        return Finding(_SUBJECT, State.LIMITED, f"{gpu.address}: another program samples its stalls now; one at a time can", _HOLDER)
    return Finding(_SUBJECT, State.WORKS, f"{gpu.address}: graphics version {version}, this user may sample its stalls")
