#!/bin/sh
# Everything that has to be shown on a real GPU, in one call: the tests of tests/gpu and the GPU benchmarks, as JSON.
#
#   scripts/gpu_check.sh [tests] [overhead] [cupti] [coverage] [storage] [capture] [halts] [peers] [meaning] [intra] [proton]     all of them by default; also: tail
#
#   OUT=DIR      where the results go: PART.json each, and log.txt (default: gpu-results)
#   WHEELS=DIR   install from there first, without an index (see gpu_wheels.sh); else aiflame must be installed for PYTHON
#   PYTHON=...   a Python with torch (default: python3)
#   LIMIT=SECS   time limit of each part (default: below; on an H200 the tests take nine minutes); what a part has found by then is in its JSON
#   CPU=1        try the benchmarks out in small where no GPU is; no number means anything then
#   AIFLAME_TEST_PROGRAMS=DIR   where liblaunch_capture.so of the test build lies, for `capture` (default: build/dev/tests/collector)
#
# Wheels needed besides what torch brings: aiflame, polars, polars-runtime-32, symbolic, cffi, pycparser, milksnake, capstone,
# nvidia-cuda-nvdisasm, rich, markdown-it-py, mdurl, pygments; for the tests pytest, pluggy, iniconfig, packaging. NVRTC comes with torch or
# the toolkit; where it does not, add nvidia-cuda-nvrtc.
#
# A part that fails does not stop the others; the exit status tells whether any did.
set -u

cd "$(dirname "$0")/.." || exit 1
parts=${*:-tests overhead cupti meaning coverage storage capture halts peers intra proton}
python=${PYTHON:-python3}
out=${OUT:-gpu-results}
cpu=${CPU:+--cpu}
mkdir -p "$out"
out=$(cd "$out" && pwd)

if [ -n "${WHEELS:-}" ]; then
  site=$(mktemp -d)
  trap 'rm -rf "$site"' EXIT
  "$python" -m pip install --quiet --no-index --no-deps --no-compile --no-cache-dir --target "$site" "$WHEELS"/*.whl || exit 1
  PYTHONPATH=$site${PYTHONPATH:+:$PYTHONPATH}
  export PYTHONPATH
fi
export PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1

part() {
  case $1 in
    tests) limit 900 env AIFLAME_GPU_RESULTS="$out/tests.json" "$python" -m pytest tests/gpu -q --tb=short -p no:cacheprovider ;;
    overhead) limit 720 "$python" benchmarks/gpu/gpu_overhead.py --output "$out/overhead.json" $cpu ;;
    tail) limit 2400 "$python" benchmarks/gpu/gpu_tail.py --output "$out/tail.json" $cpu ;;
    cupti) limit 300 "$python" benchmarks/gpu/gpu_overhead.py --cupti --pairs 3 --workloads launch decode --output "$out/cupti.json" $cpu ;;
    meaning) limit 240 "$python" benchmarks/gpu/gpu_overhead.py --meaning --workloads launch --output "$out/meaning.json" $cpu ;;
    peers) limit 300 "$python" benchmarks/gpu/gpu_peers.py --output "$out/peers.json" $cpu ;;
    coverage) limit 300 "$python" benchmarks/gpu/gpu_coverage.py --output "$out/coverage.json" --keep "$out/compiled.tar.gz" $cpu ;;
    capture) limit 240 "$python" benchmarks/gpu/gpu_capture.py --output "$out/capture.json" $cpu ;;
    halts) limit 240 "$python" benchmarks/gpu/gpu_halts.py --output "$out/halts.json" $cpu ;;
    storage) limit 300 "$python" benchmarks/gpu/gpu_storage.py --output "$out/storage.json" $cpu ;;
    intra) limit 420 "$python" benchmarks/gpu/gpu_intra.py --output "$out/intra.json" ;;
    proton) limit 480 "$python" benchmarks/gpu/gpu_intra_proton.py --output "$out/proton.json" ;;
    *) echo "no part is called $1" && return 2 ;;
  esac
}

# SIGINT first, so that pytest and Python say where they were.
limit() {
  seconds=${LIMIT:-$1}
  shift
  timeout --signal=INT --kill-after=10 "$seconds" "$@"
}

{
  command -v nvidia-smi >/dev/null && nvidia-smi --query-gpu=name,driver_version --format=csv,noheader
  "$python" -m aiflame.cli.main doctor
} 2>&1 | tee "$out/log.txt"

failed=
for name in $parts; do
  began=$(date +%s)
  echo "== $name" | tee -a "$out/log.txt"
  # The status of the part, not of tee.
  { part "$name" 2>&1; echo $? >"$out/.status"; } | tee -a "$out/log.txt"
  status=$(cat "$out/.status")
  rm -f "$out/.status"
  echo "== $name: status $status, $(($(date +%s) - began)) s" | tee -a "$out/log.txt"
  [ "$status" -eq 0 ] || failed="$failed $name"
done
[ -z "$failed" ] || { echo "failed:$failed" | tee -a "$out/log.txt"; exit 1; }
