"""Finds out which names of devices mean the same device: processes may see different devices, and number them differently."""

from __future__ import annotations

from aiflame.profile.tables.interface import Tables
from aiflame.values import dataclass


@dataclass(frozen=True, slots=True)
class Addresses:
    """The PCI addresses of devices."""

    _of: dict[tuple[int, str], str]
    _of_name: dict[str, set[str]]

    @staticmethod
    def of(profile: Tables) -> Addresses:
        of: dict[tuple[int, str], str] = {}
        of_name: dict[str, set[str]] = {}
        if profile.has("gpu_devices"):
            for process, device, address in profile.table("gpu_devices").select("process", "device", "address").rows():
                if address:
                    of[process, device] = address.lower()
                    of_name.setdefault(device, set()).add(address.lower())
        return Addresses(of, of_name)

    def address(self, process: int, device: str) -> str:
        """The address of a process's device. If the process has recorded none: the address that other processes have for the name, if they
        agree; otherwise ""."""
        others = self._of_name.get(device, set())
        return self._of.get((process, device)) or (next(iter(others)) if len(others) == 1 else "")

    def key(self, process: int, device: str) -> str:
        """A text that is the same for all names of a device."""
        address = self.address(process, device)
        return f"{host_of(device)}: {address}" if address else device


def host_of(device: str) -> str:
    """The host in a device's name: in a profile of several hosts, their names stand in front."""
    return device.rpartition(": ")[0]


def same_address(identity: str, address: str) -> bool:
    """True for `GPU-… 00000000:1B:00.0` and `0000:1b:00.0`: domains may have different lengths."""
    written = identity.rpartition(" ")[2].lower()
    return bool(written) and written.lstrip("0") == address.lower().lstrip("0")
