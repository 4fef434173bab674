"""Which names of a device mean the same one: processes may see other devices, and number them differently."""

from __future__ import annotations

from dataclasses import dataclass

from aiflame.profile.tables.interface import Tables


@dataclass(frozen=True, slots=True)
class Addresses:
    """The addresses of devices on PCI."""

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
        """Where a process has recorded none: the one that others have for the name, if it is one alone; else ""."""
        others = self._of_name.get(device, set())
        return self._of.get((process, device)) or (next(iter(others)) if len(others) == 1 else "")

    def key(self, process: int, device: str) -> str:
        """The same for all names of a device."""
        address = self.address(process, device)
        return f"{host_of(device)}: {address}" if address else device


def host_of(device: str) -> str:
    """In a profile of several hosts their names stand before those of devices."""
    return device.rpartition(": ")[0]


def same_address(identity: str, address: str) -> bool:
    """`GPU-… 00000000:1B:00.0` and `0000:1b:00.0`: domains are written at different lengths."""
    written = identity.rpartition(" ")[2].lower()
    return bool(written) and written.lstrip("0") == address.lower().lstrip("0")
