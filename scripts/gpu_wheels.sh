#!/bin/sh
# Gathers what `gpu_check.sh` needs on a GPU machine that reaches no package index: our wheel, what it needs, and pytest, for CPython 3.12
# on x86-64 (PYTHON_VERSION for another). torch and what torch brings (NumPy, Triton, CUDA's libraries) must be there already.
#
#   scripts/gpu_wheels.sh FOLDER [DIST]      DIST: where `make wheel` has put our wheel (default: dist)
#
# Large wheels are packed anew, tighter (their contents stay as they were; pip reads them as any other): 58 MB in all instead of 84.
# That takes some minutes, once: what lies in FOLDER already is kept (empty it for newer versions).
set -eu

folder=${1:?usage: scripts/gpu_wheels.sh FOLDER [DIST]}
dist=${2:-dist}
python=${PYTHON:-python3}
version=${PYTHON_VERSION:-3.12}
most_bytes=60000000
pins=$(dirname "$0")/../constraints.txt

mkdir -p "$folder"
rm -f "$folder"/aiflame-*.whl
cp "$dist"/aiflame-*-py3-none-manylinux*.whl "$folder"

gathered=$folder/.gathered
if [ ! -e "$gathered" ]; then
  "$python" -m pip download --quiet --only-binary :all: --implementation cp --python-version "$version" --constraint "$pins" \
    --platform manylinux_2_28_x86_64 --platform manylinux_2_17_x86_64 --platform manylinux2014_x86_64 --dest "$folder" \
    "$folder"/aiflame-*.whl pytest
  rm -f "$folder"/numpy-*.whl
  "$python" - "$folder" <<'PACK'
import sys, zipfile
from pathlib import Path

LARGE = 1_000_000
for wheel in [path for path in Path(sys.argv[1]).glob("*.whl") if path.stat().st_size > LARGE]:
    tighter = wheel.with_suffix(".part")
    with zipfile.ZipFile(wheel) as old, zipfile.ZipFile(tighter, "w") as new:
        for entry in old.infolist():
            content = old.read(entry)
            entry.compress_type = zipfile.ZIP_LZMA
            new.writestr(entry, content)
    tighter.replace(wheel)
PACK
  touch "$gathered"
fi

bytes=$(cat "$folder"/*.whl | wc -c)
ls -l "$folder"
echo "$bytes bytes in all"
[ "$bytes" -lt "$most_bytes" ] || { echo "more than $most_bytes bytes" >&2; exit 1; }
