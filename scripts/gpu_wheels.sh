#!/bin/sh
# Gathers what `gpu_check.sh` needs on a GPU machine that reaches no package index: our wheel, its dependencies and pytest, for
# CPython 3.12 on x86-64 (PYTHON_VERSION for another). torch and what torch brings (NumPy, Triton, CUDA's libraries) must be there already.
#
#   scripts/gpu_wheels.sh FOLDER [DIST]      DIST: where `make wheel` has put our wheel (default: dist)
#
# The two largest are packed anew, tighter (their contents stay as they were; pip reads them as any other): 52 MB in all instead of 78.
# That takes some minutes, once: what lies in FOLDER already is kept (empty it for newer versions).
set -eu

folder=${1:?usage: scripts/gpu_wheels.sh FOLDER [DIST]}
dist=${2:-dist}
python=${PYTHON:-python3}
version=${PYTHON_VERSION:-3.12}
most_bytes=60000000
tight="polars_runtime_32 symbolic"
# What pyproject.toml asks for and what that asks for in turn, without NumPy; what the tests ask for.
packages="polars polars-runtime-32 symbolic pyelftools capstone typer rich click shellingham markdown-it-py mdurl pygments nvidia-cuda-nvdisasm"
packages="$packages pytest pluggy iniconfig"

mkdir -p "$folder"
missing=
for package in $packages; do
  ls "$folder/$(echo "$package" | tr - _)"-*.whl >/dev/null 2>&1 || missing="$missing $package"
done
[ -z "$missing" ] || "$python" -m pip download --quiet --no-deps --only-binary :all: --implementation cp --python-version "$version" \
  --platform manylinux_2_28_x86_64 --platform manylinux_2_17_x86_64 --platform manylinux2014_x86_64 --dest "$folder" $missing

"$python" - "$folder" $tight <<'PACK'
import sys, zipfile
from pathlib import Path

folder, names = Path(sys.argv[1]), sys.argv[2:]
for wheel in [path for name in names for path in folder.glob(f"{name}-*.whl")]:
    tighter = wheel.with_suffix(".part")
    with zipfile.ZipFile(wheel) as old:
        if any(entry.compress_type == zipfile.ZIP_LZMA for entry in old.infolist()):
            continue
        with zipfile.ZipFile(tighter, "w") as new:
            for entry in old.infolist():
                content = old.read(entry)
                entry.compress_type = zipfile.ZIP_LZMA
                new.writestr(entry, content)
    tighter.replace(wheel)
PACK

rm -f "$folder"/aiflame-*.whl
cp "$dist"/aiflame-*-py3-none-manylinux*.whl "$folder"

bytes=$(cat "$folder"/*.whl | wc -c)
ls -l "$folder"
echo "$bytes bytes in all"
[ "$bytes" -lt "$most_bytes" ] || { echo "more than $most_bytes bytes" >&2; exit 1; }
