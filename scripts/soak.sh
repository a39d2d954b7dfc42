#!/usr/bin/env bash
# The long tests: those that draw at random draw much more, those that try some places try them all, and the
# readers of files from outside are fuzzed for ten minutes.
# usage: scripts/soak.sh BUILD
set -euo pipefail
cd "$(dirname "$0")/.."
build=$1
export MUSTER_SOAK=1 OMP_WAIT_POLICY=passive

passed=0 failed=0
soak() {
  local start=$SECONDS
  echo "soak: $*"
  if "$@" >"$build/soak.log" 2>&1; then
    passed=$((passed + 1))
    tail -n 9 "$build/soak.log"
  else
    failed=$((failed + 1))
    cat "$build/soak.log"
    echo "soak: $* FAILED" >&2
  fi
  echo "soak: $((SECONDS - start)) s"
}

soak "$build/test_checkpoint" --gtest_filter='CheckpointSet.*'
soak "$build/test_train" --gtest_filter='*Reshard*'
soak "$build/tests/test_checkpoint_memory"
soak "$build/tests/test_save_kills"
soak "$build/tests/test_resume" --gtest_filter='*B028*:*EveryLayout*'
soak "$build/tests/test_save_timing" --gtest_filter='*S29*'
soak "$build/tests/test_overlap"
soak "$build/tests/fuzz_checkpoint"

echo "soak: $passed passed, $failed failed"
[ "$failed" -eq 0 ]
