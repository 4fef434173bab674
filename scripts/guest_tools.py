"""Gets the programs of tests/guests: `guest_tools.py few|all FOLDER`. A program that cannot be had is named; its tests are skipped and say
so.

Python packages go into an environment of their own, so that aiflame's keeps its versions.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from test_tools import here, install

FEW_PYTHON = ["jax", "gevent", "uvicorn httpx", "ipykernel jupyter_client", "memray"]
# Packages that belong together are one word: they are installed at once.
ALL_PYTHON = [
    *FEW_PYTHON,
    "numba scipy scikit-learn pandas matplotlib",
    "torch==2.13.0",
    "transformers accelerate",
    "pytorch-lightning",
    "tensorflow-cpu",
    "uvloop aiohttp tornado flask gunicorn django sqlalchemy",
    "ray",
    "dask[distributed]",
    "celery",
    "eventlet",
    "scalene",
    "coverage debugpy pyinstrument viztracer line_profiler py-spy",
    "pyarrow polars duckdb",
    "lightgbm",
    "xgboost",
    "onnxruntime",
    "opencv-python-headless",
    "lxml grpcio pexpect psutil",
    "pytest pytest-xdist uv ruff",
]
# Program or file that shows it is there → Debian packages that bring it.
FEW_DEBIAN = {"node": ["nodejs"], "go": ["golang-go"], "redis-server": ["redis-server"], "/usr/sbin/nginx": ["nginx-light"], "gcc": ["gcc"]}
ALL_DEBIAN = {
    **FEW_DEBIAN,
    "/usr/lib/postgresql/15/bin/postgres": ["postgresql-15"],
    "mariadbd": ["mariadb-server-core"],
    "memcached": ["memcached"],
    "lighttpd": ["lighttpd"],
    "haproxy": ["haproxy"],
    "/usr/sbin/apache2": ["apache2-bin"],
    "dbus-daemon": ["dbus-bin"],
    "curl": ["curl"],
    "javac": ["default-jdk-headless"],
    "pypy3": ["pypy3"],
    "ruby": ["ruby"],
    "php": ["php-cli"],
    "lua5.4": ["lua5.4"],
    "luajit": ["luajit"],
    "rustc": ["rustc", "cargo"],
    "ocamlopt": ["ocaml-nox"],
    "erl": ["erlang-base"],
    "sbcl": ["sbcl"],
    "guile": ["guile-3.0"],
    "swipl": ["swi-prolog-nox"],
    "Rscript": ["r-base-core"],
    "mcs": ["mono-mcs", "mono-runtime"],
    "gforth": ["gforth"],
    "clang": ["clang"],
    "/usr/lib/llvm-14/lib/clang/14.0.6/lib/linux/libclang_rt.asan-x86_64.a": ["libclang-rt-14-dev"],
    "cmake": ["cmake", "make"],
    "git": ["git"],
    "sqlite3": ["sqlite3"],
    "ffmpeg": ["ffmpeg"],
    "rsync": ["rsync"],
    "stress-ng": ["stress-ng"],
    "strace": ["strace"],
    "ltrace": ["ltrace"],
    "gdb": ["gdb"],
    "valgrind": ["valgrind"],
    "tmux": ["tmux"],
    "bwrap": ["bubblewrap"],
    "proot": ["proot"],
    "faketime": ["faketime"],
    "fakeroot": ["fakeroot"],
    "eatmydata": ["eatmydata"],
    "/usr/lib/x86_64-linux-gnu/libjemalloc.so.2": ["libjemalloc2"],
    "/usr/lib/x86_64-linux-gnu/libmimalloc.so.2.0": ["libmimalloc2.0"],
    "/usr/lib/x86_64-linux-gnu/libtcmalloc.so.4": ["libgoogle-perftools4"],
}
_POLICY = Path("/usr/sbin/policy-rc.d")


def main() -> None:
    which, folder = sys.argv[1], Path(sys.argv[2])
    packages, programs = (FEW_PYTHON, FEW_DEBIAN) if which == "few" else (ALL_PYTHON, ALL_DEBIAN)
    missing = [package for program, names in programs.items() if not here(program) for package in names]
    if missing and not _install_asleep(missing):
        print(f"guests: could not install {' '.join(missing)}; guests that need them will be skipped")
    python = folder / "python" / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", str(folder / "python")], check=True)
    for together in packages:
        if subprocess.run([python, "-m", "pip", "install", "--quiet", *together.split()], check=False).returncode:
            print(f"guests: no {together} for this Python; guests that need it will be skipped")


def _install_asleep(packages: list[str]) -> bool:
    """Installs Debian packages without starting the servers in them; those that cannot be had keep none of the others away."""
    asleep = not _POLICY.exists()
    try:
        if asleep:
            _POLICY.write_text("#!/bin/sh\nexit 101\n")
            _POLICY.chmod(0o755)
    except OSError:
        asleep = False
    try:
        if install(packages):
            return True
        one_by_one = [install([package]) for package in packages]
        return all(one_by_one)
    finally:
        if asleep:
            _POLICY.unlink()


if __name__ == "__main__":
    main()
