#!/usr/bin/env bash
# Runs the long tests: every program in tests/soak, each called with the build folder.
# usage: scripts/soak.sh BUILD
set -euo pipefail
cd "$(dirname "$0")/.."
build=$1
passed=0 failed=0

for program in tests/soak/*; do
  [ -x "$program" ] && [ -f "$program" ] || continue
  echo "soak: $program"
  if "$program" "$build"; then
    passed=$((passed + 1))
  else
    echo "soak: $program FAILED" >&2
    failed=$((failed + 1))
  fi
done

echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ] || exit 1
[ "$passed" -gt 0 ] || { echo "soak: tests/soak holds no test, so nothing was shown" >&2; exit 1; }
