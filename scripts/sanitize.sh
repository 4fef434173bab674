#!/usr/bin/env bash
# Builds the native code with sanitizers (ASan and UBSan; TSan) and runs the programs of tests/sanitized: a line each, non-zero on any finding.
#
#   sanitize.sh               that the gate finds known faults, then all programs
#   sanitize.sh --self-test   only that it finds known faults
set -euo pipefail
cd "$(dirname "$0")/.."
bin=$PWD/.venv/bin
out=$PWD/build
# TSan knows where memory lies only if the kernel does not move it about too far.
fixed=()
setarch "$(uname -m)" -R true 2>/dev/null && fixed=(setarch "$(uname -m)" -R)

configure_and_build() {
  "$bin/cmake" -S . -B "$out/sanitize-$1" -G Ninja -DCMAKE_MAKE_PROGRAM="$bin/ninja" -DAIFLAME_SANITIZE="$1" -DPython3_EXECUTABLE="$bin/python" >/dev/null
  "$bin/cmake" --build "$out/sanitize-$1" --parallel 2 --target "${2:-all}" -- --quiet
}

# Runs a known fault as the programs are run: it must fail, and for that reason.
must_find() {
  local kind=$1 fault=$2 said=$3 output
  if output=$(ASAN_OPTIONS=detect_leaks=0 "${fixed[@]}" "$out/sanitize-$kind/tests/sanitized/fault" "$fault" 2>&1); then
    echo "sanitize: $kind did not find a known fault: $fault" >&2
    return 1
  fi
  if [[ $output != *"$said"* ]]; then
    printf 'sanitize: %s did not say "%s" of a known fault, but:\n%s\n' "$kind" "$said" "$output" >&2
    return 1
  fi
  echo "$kind finds a known fault: $fault"
}

self_test() {
  for kind in address thread; do
    configure_and_build $kind fault
    must_find $kind mismatch "not as expected"
    must_find $kind assertion "does not hold: count < 1"
  done
  must_find address overflow "heap-buffer-overflow"
  must_find address undefined "signed integer overflow"
  must_find thread race "data race"
}

self_test
[[ ${1:-} == --self-test ]] && exit
failed=0
for kind in address thread; do
  configure_and_build $kind
  "${fixed[@]}" "$bin/ctest" --test-dir "$out/sanitize-$kind" --output-on-failure --no-tests=error --parallel 2 | grep -v '^ *Start ' || failed=1
done
exit $failed
