"""Values that drivers provide in sysfs: GPUs of Intel and AMD, the energy of CPUs (RAPL), InfiniBand and Slingshot."""

from __future__ import annotations

from pathlib import Path

from aiflame.profile.folder.telemetry_files import Series
from aiflame.recorder.sources.base import SysfsValue, natural, text

_INTEL, _AMD = "0x8086", "0x1002"
_WORD = 4
"""InfiniBand counts data in units of 4 bytes."""


def intel_gpus(root: Path) -> list[SysfsValue]:
    """i915 and xe: the time for which the graphics units rested (rc6), their frequency, and hwmon's energy."""
    values: list[SysfsValue] = []
    for card, device, identity in _cards(root, _INTEL):
        units = sorted([*card.glob("gt/gt*"), *device.glob("tile*/gt*")])
        # Units of a GPU after the first have a number in their names.
        named = [(unit, f" {unit.parent.name} {unit.name}" if place else "") for place, unit in enumerate(units)]
        rested = [(path, f"resting{of}") for unit, of in named for path in (unit / "rc6_residency_ms", unit / "gtidle/idle_residency_ms")]
        speeds = [(path, f"frequency{of}") for unit, of in named for path in (unit / "rps_act_freq_mhz", unit / "freq0/act_freq")]
        if not units:
            rested.append((card / "power/rc6_residency_ms", "resting"))
            speeds.append((card / "gt_act_freq_mhz", "frequency"))
        name = f"Intel GPU [{_number(card)}]"
        files = [(path, Series(name, what, "%", 0.1, rate=True, most=100.0, identity=identity)) for path, what in rested]
        files += [(path, Series(name, what, "MHz", identity=identity)) for path, what in speeds]
        for sensor in sorted(device.glob("hwmon/hwmon*"))[:1]:
            files.append((sensor / "energy1_input", Series(name, "energy", "J", 1e-6, identity=identity)))
            files.append((sensor / "temp1_input", Series(name, "temperature", "°C", 1e-3, identity=identity)))
        values += [(series, path) for path, series in files if path.exists()]
    return values


def amd_gpus(root: Path) -> list[SysfsValue]:
    """amdgpu"""
    values: list[SysfsValue] = []
    for card, device, identity in _cards(root, _AMD):
        sensors = sorted(device.glob("hwmon/hwmon*"))
        sensor = sensors[0] if sensors else device
        power = sensor / "power1_average" if (sensor / "power1_average").exists() else sensor / "power1_input"
        files = (
            (device / "gpu_busy_percent", "utilization", "%", 1.0),
            (device / "mem_busy_percent", "memory utilization", "%", 1.0),
            (device / "mem_info_vram_used", "memory used", "bytes", 1.0),
            (power, "power", "W", 1e-6),
            (sensor / "temp1_input", "temperature", "°C", 1e-3),
            (sensor / "freq1_input", "SM clock", "MHz", 1e-6),
            (sensor / "freq2_input", "memory clock", "MHz", 1e-6),
        )
        name = text(device / "product_name") or "AMD GPU"
        values += [
            (Series(f"{name} [{_number(card)}]", what, unit, scale, identity=identity), path)
            for path, what, unit, scale in files
            if path.exists()
        ]
    return values


def rapl(root: Path) -> list[SysfsValue]:
    """The energy of each CPU package, and of its cores and memory if reported. Since Linux 5.10 only root may read it."""
    values: list[SysfsValue] = []
    zones = root / "sys/class/powercap"
    for zone in sorted(zones.glob("intel-rapl:*")):
        parts = zone.name.split(":")[1:]
        own, outer = text(zone / "name"), text(zones / f"intel-rapl:{parts[0]}" / "name")
        if not own or not (zone / "energy_uj").exists():
            continue
        device = own if len(parts) == 1 else f"{outer} {own}"
        most = text(zone / "max_energy_range_uj")
        wraps = float(most) if most.isdecimal() else 0.0
        values.append((Series(device, "energy", "J", 1e-6, wraps=wraps), zone / "energy_uj"))
    return values


def infiniband(root: Path) -> list[SysfsValue]:
    values: list[SysfsValue] = []
    for port in sorted((root / "sys/class/infiniband").glob("*/ports/*"), key=lambda path: (path.parts[-3], natural(path))):
        device = f"{port.parts[-3]} port {port.name}"
        files = (("port_rcv_data", "received"), ("port_xmit_data", "sent"))
        values += [
            (Series(device, name, "bytes/s", _WORD, rate=True), port / "counters" / file)
            for file, name in files
            if (port / "counters" / file).exists()
        ]
        waited = port / "counters/port_xmit_wait"
        if waited.exists():
            values.append((Series(device, "waited to send", "ticks/s", rate=True), waited))
    return values


def slingshot(root: Path) -> list[SysfsValue]:
    """Cassini NICs: each file has a value and the time when the driver last read it from the device."""
    values: list[SysfsValue] = []
    for nic in sorted((root / "sys/class/cxi").glob("cxi*"), key=natural):
        folder = nic / "device/telemetry"
        files = (
            ("hni_sts_rx_ok_octets", "received", "bytes/s"),
            ("hni_sts_tx_ok_octets", "sent", "bytes/s"),
            ("hni_pkts_recv_by_tc_0", "packets received", "packets/s"),
            ("hni_pkts_sent_by_tc_0", "packets sent", "packets/s"),
        )
        values += [(Series(nic.name, name, unit, rate=True), folder / file) for file, name, unit in files if (folder / file).exists()]
    return values


def _cards(root: Path, vendor: str) -> list[tuple[Path, Path, str]]:
    """Cards of a vendor: folder, folder of the device, and PCI address."""
    cards = sorted((root / "sys/class/drm").glob("card*"), key=natural)
    whole = [card for card in cards if card.name.removeprefix("card").isdecimal() and text(card / "device/vendor") == vendor]
    return [(card, card / "device", _address(card / "device")) for card in whole]


def _address(device: Path) -> str:
    lines = text(device / "uevent").splitlines()
    return next((line.partition("=")[2] for line in lines if line.startswith("PCI_SLOT_NAME=")), "")


def _number(card: Path) -> str:
    return card.name.removeprefix("card")
